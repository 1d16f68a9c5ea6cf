"""Maps, sums and moves of numbers, as operator_calls.py has what else there is."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from operator_calls import NoCall, Node, Way, gradient_of, knows, numbers

Function = Callable[..., Any]

MAPS: dict[str, Function] = {
    "add": tf.add, "accumulate": tf.add, "subtract": tf.subtract, "multiply": tf.multiply,
    "divide": tf.divide, "divide_no_nan": tf.math.divide_no_nan, "bias_add": tf.nn.bias_add,
    "softmax": tf.nn.softmax, "log_softmax": tf.nn.log_softmax,
    "softmax_grad": lambda dy, y: (dy - tf.reduce_sum(dy * y, -1, keepdims=True)) * y,
    "log_softmax_grad": lambda dy, y: dy - tf.exp(y) * tf.reduce_sum(dy, -1, keepdims=True),
    "bias_grad": lambda dy: tf.reduce_sum(dy, list(range(len(dy.shape) - 1))),
    "dropout_grad": lambda dy: dy * tf.cast(dy > 0, dy.dtype),
}  # fmt: skip


@knows(*MAPS)
def map_of(node: Node) -> list[Way]:
    return [Way(MAPS[node.operator], node.values())]


@knows("log_sum_exp", "softmax_crossentropy_grad")
def crossentropy(node: Node) -> list[Way]:
    """Loss and gradient are one operator of TensorFlow's, whose time counts with the gradient."""
    *rows, classes = node.shape()
    x = numbers([math.prod(rows), classes])
    if node.operator == "log_sum_exp":
        return [Way(lambda x: tf.reduce_logsumexp(x, -1), [x])]
    raw = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits
    labels = numbers(x.shape[:1], "int32", classes)
    return [Way(lambda x, labels: raw(features=x, labels=labels), [x, labels])]


@knows("scale_shift")
def scale_shift(node: Node) -> list[Way]:
    scale, offset = node.get("scale"), node.get("offset")
    return [Way(lambda x: x * scale + offset, node.values())]


@knows("batch_sum")
def batch_sum(node: Node) -> list[Way]:
    return [Way(tf.reduce_sum, [numbers(node.shape())])]


@knows("cast")
def cast(node: Node) -> list[Way]:
    return [Way(lambda x: tf.cast(x, node.get("dtype")), node.values())]


SLOPES: dict[str, Function] = {
    "relu": lambda dy, y: tf.raw_ops.ReluGrad(gradients=dy, features=y),
    "relu6": lambda dy, y: tf.raw_ops.Relu6Grad(gradients=dy, features=y),
    "leaky_relu": lambda dy, y: tf.raw_ops.LeakyReluGrad(gradients=dy, features=y),
    "tanh": lambda dy, y: tf.raw_ops.TanhGrad(dy=dy, y=y),
    "sigmoid": lambda dy, y: tf.raw_ops.SigmoidGrad(dy=dy, y=y),
    "elu": lambda dy, y: tf.raw_ops.EluGrad(gradients=dy, outputs=y),
    "selu": lambda dy, y: tf.raw_ops.SeluGrad(gradients=dy, outputs=y),
    "softplus": lambda dy, y: tf.raw_ops.SoftplusGrad(gradients=dy, features=y),
}
NUMBERS = ("alpha", "negative_slope", "max_value", "threshold", "approximate")


@knows("activation", "activation_grad", "unary", "unary_grad")
def activation(node: Node) -> list[Way]:
    kind, values = node.get("kind"), node.values()
    if node.operator == "activation_grad" and kind in SLOPES:
        return [Way(SLOPES[kind], values)]
    among: Any = keras.ops if node.operator.startswith("unary") else keras.activations
    function = getattr(among, kind, None)
    if function is None:
        raise NoCall(f"{kind} is not written down")
    given = [node.get("exponent")] if kind == "power" else []
    options = {key: node.get(key) for key in NUMBERS if node.get(key) is not None}

    def call(x: Any) -> Any:
        return function(x, *given, **options)

    if not node.operator.endswith("_grad"):
        return [Way(call, values)]
    return [gradient_of(call, values[1:], [0], values[0])]


@knows("dropout", "spatial_dropout")
def dropout(node: Node) -> list[Way]:
    batch, *_, channels = shape = node.shape()
    noise = [batch, *[1] * (len(shape) - 2), channels] if node.operator != "dropout" else None
    call = tf.nn.experimental.stateless_dropout
    return [Way(lambda x: call(x, node.get("rate"), [1, 2], noise_shape=noise), node.values())]


@knows("spatial_dropout_grad")
def spatial_dropout_grad(node: Node) -> list[Way]:
    batch, *_, channels = shape = node.shape()
    factors = numbers([batch, *[1] * (len(shape) - 2), channels])
    return [Way(tf.multiply, [*node.values(), factors])]


@knows("broadcast")
def broadcast(node: Node) -> list[Way]:
    return [Way(lambda x: tf.broadcast_to(x, node.result()), node.values())]


@knows("sum_to")
def sum_to(node: Node) -> list[Way]:
    wide, kept = node.shape(), node.result()
    kept = [1] * (len(wide) - len(kept)) + kept
    axes = [i for i, (before, after) in enumerate(zip(wide, kept)) if before != after]
    return [Way(lambda x: tf.reduce_sum(x, axes), node.values())]


@knows("concat")
def concat(node: Node) -> list[Way]:
    return [Way(lambda *values: tf.concat(values, node.get("axis", -1)), node.values())]


@knows("slice")
def slice_of(node: Node) -> list[Way]:
    begin = [0] * len(node.shape())
    begin[node.get("axis", -1)] = node.get("begin")
    return [Way(lambda x: tf.slice(x, begin, node.result()), node.values())]


@knows("pad_axis", "zero_pad2d")
def pad(node: Node) -> list[Way]:
    around = [[0, 0] for _ in node.shape()]
    if node.operator == "pad_axis":
        around[node.get("axis", -1)] = [node.get("before", 0), node.get("after", 0)]
    else:
        around[1], around[2] = node.get("padding")[:2], node.get("padding")[2:]
    return [Way(lambda x: tf.pad(x, around), node.values())]


@knows("crop2d")
def crop2d(node: Node) -> list[Way]:
    top, _, left, _ = node.get("cropping")
    return [Way(lambda x: tf.slice(x, [0, top, left, 0], node.result()), node.values())]


@knows("transpose")
def transpose(node: Node) -> list[Way]:
    return [Way(lambda x: tf.transpose(x, [0, *node.get("permutation")]), node.values())]
