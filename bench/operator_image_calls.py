"""Windows over images, and normalization, as operator_calls.py has what else there is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import tensorflow as tf
from operator_calls import NoCall, Node, Sizes, Way, gradient_of, knows, numbers

Function = Callable[..., Any]

# Windows.


def border_words(image: Sizes, size: Sizes, strides: Sizes, dilations: Sizes,
                 border: Sizes) -> tuple[str, Sizes]:  # fmt: skip
    """TensorFlow's word for what is added around an image, and the image that the call gets."""
    if not any(border):
        return "VALID", image
    same = []
    for extent, window, stride, dilation in zip(image, size, strides, dilations):
        more = max((-(-extent // stride) - 1) * stride + (window - 1) * dilation + 1 - extent, 0)
        same += [more // 2, more - more // 2]
    if border == same:
        return "SAME", image
    return "VALID", [image[i] + border[2 * i] + border[2 * i + 1] for i in range(2)]


@dataclass(frozen=True)
class Windows:
    image: Sizes  # (batch, height, width, channels), with the zeros around it where VALID
    size: Sizes
    options: dict[str, Any]  # strides and padding as raw operators take them

    @property
    def pooling(self) -> dict[str, Any]:
        return {"ksize": [1, *self.size, 1], **self.options}


def windows_of(node: Node, key: str) -> Windows:
    """Of a convolution (`key`: kernel_size) or a pooling (pool_size), forward or backward."""
    batch, *image = node.shape()
    image = list(node.get("input_shape", image))
    size, strides = node.get(key), node.get("strides", node.get(key))
    dilations = node.get("dilation_rate", [1, 1]) if key == "kernel_size" else [1, 1]
    if len(size) != 2:
        raise NoCall("volumes are compared with nothing here")
    word, wide = border_words(image[:2], size, strides, dilations, list(node.get("padding")))
    options: dict[str, Any] = {"strides": [1, *strides, 1], "padding": word}
    if key == "kernel_size":
        options["dilations"] = [1, *dilations, 1]
    return Windows([batch, *wide, image[2]], list(size), options)


def kernel_of(node: Node, windows: Windows) -> tuple[bool, Sizes]:
    """Whether it is depthwise, and the kernel's shape."""
    channels, filters, groups = windows.image[3], node.get("filters"), node.get("groups", 1)
    if groups == 1:
        return False, [*windows.size, channels, filters]
    if groups != channels:
        raise NoCall("TensorFlow computes grouped convolutions by XLA alone")
    if windows.options["dilations"] != [1, 1, 1, 1]:
        raise NoCall("TensorFlow has no operator for it: it moves the image around first")
    return True, [*windows.size, channels, filters // channels]


def convolved(node: Node, windows: Windows, depthwise: bool) -> Function:
    raw = tf.raw_ops.DepthwiseConv2dNative if depthwise else tf.raw_ops.Conv2D

    def call(x: Any, w: Any, *bias: Any) -> Any:
        y = raw(input=x, filter=w, **windows.options)
        y = tf.nn.bias_add(y, bias[0]) if bias else y
        return tf.nn.relu(y) if node.get("activation") == "relu" else y

    return call


@knows("conv2d", "conv2d_pool")
def conv2d(node: Node) -> list[Way]:
    windows = windows_of(node, "kernel_size")
    depthwise, shape = kernel_of(node, windows)
    bias = [numbers([node.get("filters")])] if node.get("use_bias") else []
    call, operands = convolved(node, windows, depthwise), [numbers(windows.image), numbers(shape)]
    if node.operator == "conv2d":
        return [Way(call, [*operands, *bias])]
    pool = node.get("pool_size")
    return [Way(lambda *operands: tf.nn.max_pool2d(call(*operands), pool, pool, "VALID"),
                [*operands, *bias])]  # fmt: skip


@knows("conv2d_grad_input")
def conv2d_grad_input(node: Node) -> list[Way]:
    windows = windows_of(node, "kernel_size")
    depthwise, shape = kernel_of(node, windows)
    raw = (tf.raw_ops.DepthwiseConv2dNativeBackpropInput if depthwise
           else tf.raw_ops.Conv2DBackpropInput)  # fmt: skip

    def call(dy: Any, w: Any) -> Any:
        return raw(input_sizes=windows.image, filter=w, out_backprop=dy, **windows.options)

    return [Way(call, [numbers(node.shape()), numbers(shape)])]


@knows("conv2d_grad_kernel")
def conv2d_grad_kernel(node: Node) -> list[Way]:
    windows = windows_of(node, "kernel_size")
    depthwise, shape = kernel_of(node, windows)
    raw = (tf.raw_ops.DepthwiseConv2dNativeBackpropFilter if depthwise
           else tf.raw_ops.Conv2DBackpropFilter)  # fmt: skip

    def call(x: Any, dy: Any) -> Any:
        dw = raw(input=x, filter_sizes=shape, out_backprop=dy, **windows.options)
        return (dw, tf.raw_ops.BiasAddGrad(out_backprop=dy)) if node.get("use_bias") else dw

    return [Way(call, [numbers(windows.image), numbers(node.shape(1))])]


@knows("conv2d_pool_grad_input", "conv2d_pool_grad_kernel")
def conv2d_pool_grad(node: Node) -> list[Way]:
    """The gradient before the pooling, which both need, counts with that of the kernel alone."""
    windows, pool = windows_of(node, "kernel_size"), node.get("pool_size")
    depthwise, shape = kernel_of(node, windows)
    x = numbers(windows.image)
    y = convolved(node, windows, depthwise)(x, numbers(shape))
    if node.operator == "conv2d_pool_grad_input":
        raw = partial(tf.raw_ops.Conv2DBackpropInput, input_sizes=windows.image)
        return [Way(lambda dy, w: raw(filter=w, out_backprop=dy, **windows.options),
                    [numbers(y.shape), numbers(shape)])]  # fmt: skip
    sizes = {"ksize": [1, *pool, 1], "strides": [1, *pool, 1], "padding": "VALID"}

    def call(x: Any, y: Any, pooled: Any, dy: Any) -> Any:
        dy = tf.raw_ops.MaxPoolGrad(orig_input=y, orig_output=pooled, grad=dy, **sizes)
        if node.get("activation") == "relu":
            dy = tf.raw_ops.ReluGrad(gradients=dy, features=y)
        dw = tf.raw_ops.Conv2DBackpropFilter(
            input=x, filter_sizes=shape, out_backprop=dy, **windows.options
        )
        return (dw, tf.raw_ops.BiasAddGrad(out_backprop=dy)) if node.get("use_bias") else dw

    pooled = tf.raw_ops.MaxPool(input=y, **sizes)
    return [Way(call, [x, y, pooled, numbers(pooled.shape)])]


@knows("max_pool2d", "avg_pool2d")
def pool2d(node: Node) -> list[Way]:
    windows = windows_of(node, "pool_size")
    x = numbers(windows.image)
    if node.operator == "max_pool2d":
        return [Way(lambda x: tf.raw_ops.MaxPool(input=x, **windows.pooling), [x])]
    return [Way(lambda x: tf.raw_ops.AvgPool(value=x, **windows.pooling), [x])]


@knows("max_pool2d_grad")
def max_pool2d_grad(node: Node) -> list[Way]:
    """Alone, and after the forward operator in one graph, where another kernel takes its place."""
    windows = windows_of(node, "pool_size")
    x, dy = numbers(windows.image), numbers(node.shape())

    def forward(x: Any) -> Any:
        return tf.raw_ops.MaxPool(input=x, **windows.pooling)

    def backward(x: Any, y: Any, dy: Any) -> Any:
        return tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=dy, **windows.pooling)

    return [Way(backward, [x, forward(x), dy]), gradient_of(forward, [x], [0], dy)]


@knows("avg_pool2d_grad")
def avg_pool2d_grad(node: Node) -> list[Way]:
    windows = windows_of(node, "pool_size")
    call = partial(tf.raw_ops.AvgPoolGrad, orig_input_shape=windows.image, **windows.pooling)
    return [Way(lambda dy: call(grad=dy), [numbers(node.shape())])]


@knows("global_average_pool2d", "global_max_pool2d")
def global_pool2d(node: Node) -> list[Way]:
    reduce = tf.reduce_mean if node.operator == "global_average_pool2d" else tf.reduce_max
    return [Way(lambda x: reduce(x, [1, 2]), node.values())]


@knows("global_average_pool2d_grad")
def global_average_pool2d_grad(node: Node) -> list[Way]:
    batch, height, width, channels = node.result()

    def call(dy: Any) -> Any:
        return tf.broadcast_to(tf.reshape(dy, [batch, 1, 1, channels]) / (height * width),
                               [batch, height, width, channels])  # fmt: skip

    return [Way(call, node.values())]


# Normalization: as Keras writes it, or by the operator that does all of it for images.


@knows("channel_moments", "batch_norm", "batch_norm_sums", "batch_norm_grad")
def batch_norm(node: Node) -> list[Way]:
    x, epsilon = numbers(node.shape()), node.get("epsilon", 1e-3)
    axes = list(range(len(x.shape) - 1))
    each = [numbers(node.shape()[-1:]) + 1.0 for _ in range(4)]  # above 0

    def moments(x: Any, *_: Any) -> Any:
        return tf.nn.moments(x, axes)

    def norm(x: Any, mean: Any, variance: Any, beta: Any, gamma: Any) -> Any:
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)

    def sums(x: Any, mean: Any, variance: Any, *_: Any) -> Any:
        x_hat = (x - mean) * tf.math.rsqrt(variance + epsilon)
        return tf.reduce_sum(x, axes), tf.reduce_sum(x * x_hat, axes)

    def grad(x: Any, mean: Any, variance: Any, beta: Any, gamma: Any) -> Any:
        factor = gamma * tf.math.rsqrt(variance + epsilon)
        return factor * (x - mean - (x - beta) * gamma)

    def fused(x: Any, *each: Any) -> Any:
        training = node.operator == "channel_moments"  # which is told no moments then
        mean, variance = [tf.zeros([0])] * 2 if training else each[:2]
        return tf.raw_ops.FusedBatchNormV3(
            x=x, scale=each[3], offset=each[2], mean=mean, variance=variance, epsilon=epsilon,
            is_training=training)[:3]  # fmt: skip

    def fused_grad(x: Any, *each: Any) -> Any:
        return tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=x, x=x, scale=each[3], reserve_space_1=each[0], reserve_space_2=each[1],
            reserve_space_3=each[0], epsilon=epsilon, is_training=True)[:3]  # fmt: skip

    plain = {"channel_moments": moments, "batch_norm": norm, "batch_norm_sums": sums,
             "batch_norm_grad": grad}[node.operator]  # fmt: skip
    whole = fused if node.operator in ("channel_moments", "batch_norm") else fused_grad
    images = [Way(whole, [x, *each])] if len(x.shape) == 4 else []
    return [Way(plain, [x, *each]), *images]


@knows("layer_norm", "layer_norm_grad", "layer_norm_sums")
def layer_norm(node: Node) -> list[Way]:
    shape = node.shape()
    inner = shape[-node.get("dims") :]

    def call(x: Any, gamma: Any, beta: Any) -> Any:
        axes = list(range(-len(inner), 0))
        return keras.ops.layer_normalization(x, gamma, beta, axes, node.get("epsilon", 1e-3))

    operands = [numbers(shape), numbers(inner), numbers(inner)]
    if node.operator == "layer_norm":
        return [Way(call, operands)]
    wanted = [0] if node.operator == "layer_norm_grad" else [1, 2]
    return [gradient_of(call, operands, wanted, numbers(shape))]
