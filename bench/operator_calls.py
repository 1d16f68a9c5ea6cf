"""What TensorFlow computes a node of a plan by: `ways_of` gives its calls, on the same shapes.

Where there are several (a raw operator, or the one that its passes put in its place when a step
holds the forward operator too) the fastest counts. Each gets the least that it may need: zeros
that a convolution adds around an image lie in the operand already, masks and what was dropped are
left out, of layers of a recurrence and of attention the gradient that the node gives is asked for
and no other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Sizes = list[int]
KNOWN: dict[str, Callable[["Node"], "list[Way]"]] = {}


class NoCall(Exception):
    """TensorFlow has none for it, or none is written down here."""


@dataclass(frozen=True)
class Node:
    operator: str
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    attributes: dict[str, Any]

    def shape(self, operand: int = 0) -> Sizes:
        return list(self.inputs[operand]["shape"])

    def result(self, output: int = 0) -> Sizes:
        return list(self.outputs[output]["shape"])

    def get(self, key: str, default: Any = None) -> Any:
        return self.attributes.get(key, default)

    def values(self) -> list[tf.Tensor]:
        return [numbers(each["shape"], each["dtype"]) for each in self.inputs]


@dataclass(frozen=True)
class Way:
    """A function of operands. Where `less` is given, the time of that one is taken off."""

    function: Callable[..., Any]
    operands: list[tf.Tensor]
    less: Callable[..., Any] | None = None


def numbers(shape: Sequence[int], dtype: str = "float32", limit: int = 2) -> tf.Tensor:
    """Random numbers; integers are below `limit`."""
    rng = np.random.default_rng(3)
    if dtype in ("float32", "float64"):
        return tf.constant(rng.random(shape, dtype=dtype) - np.dtype(dtype).type(0.5))
    return tf.constant(rng.integers(0, limit, shape).astype(dtype))


def gradient_of(function: Callable[..., Any], operands: list[tf.Tensor], wanted: Sequence[int],
                dy: tf.Tensor) -> Way:  # fmt: skip
    """The gradients of some operands: forward and backward, less forward alone."""

    def both(dy: tf.Tensor, *operands: tf.Tensor) -> Any:
        asked = [operands[i] for i in wanted]
        with tf.GradientTape() as tape:
            tape.watch(asked)
            y = function(*operands)
        return y, tape.gradient(y, asked, output_gradients=dy)

    def forward(dy: tf.Tensor, *operands: tf.Tensor) -> Any:
        return function(*operands)

    return Way(both, [dy, *operands], forward)


def knows(*operators: str) -> Callable[[Any], Any]:
    """Marks what gives the ways of these operators."""

    def keep(function: Any) -> Any:
        KNOWN.update(dict.fromkeys(operators, function))
        return function

    return keep


def ways_of(node: Node) -> list[Way]:
    if node.operator not in KNOWN:
        raise NoCall("no call of TensorFlow's is written down for it")
    if any(each["dtype"] == "bfloat16" for each in node.inputs):
        raise NoCall("bfloat16 is compared with nothing here")
    return KNOWN[node.operator](node)


@knows("pack")
def pack(node: Node) -> list[Way]:
    raise NoCall("TensorFlow has no such call: its primitives lay weights out inside of theirs")


# Products of matrices.


def rows(shape: Sizes) -> Sizes:
    return [math.prod(shape[:-1]), shape[-1]]


def product(node: Node) -> Callable[..., Any]:
    def call(x: Any, w: Any, *bias: Any) -> Any:
        y = tf.matmul(x, w)
        y = tf.nn.bias_add(y, bias[0]) if bias else y
        return tf.nn.relu(y) if node.get("activation") == "relu" else y

    return call


@knows("dense")
def dense(node: Node) -> list[Way]:
    x, units = rows(node.shape()), node.get("units")
    bias = [numbers([units])] if node.get("use_bias") else []
    return [Way(product(node), [numbers(x), numbers([x[1], units]), *bias])]


@knows("dense_grad_input")
def dense_grad_input(node: Node) -> list[Way]:
    dy = rows(node.shape())
    operands = [numbers(dy), numbers([node.get("input_dim"), dy[1]])]
    return [Way(lambda dy, w: tf.matmul(dy, w, transpose_b=True), operands)]


@knows("dense_grad_kernel")
def dense_grad_kernel(node: Node) -> list[Way]:
    def call(x: Any, dy: Any) -> Any:
        dw = tf.matmul(x, dy, transpose_a=True)
        return (dw, tf.raw_ops.BiasAddGrad(out_backprop=dy)) if node.get("use_bias") else dw

    return [Way(call, [numbers(rows(node.shape(i))) for i in range(2)])]


@knows("dense_crossentropy", "dense_crossentropy_grad")
def dense_crossentropy(node: Node) -> list[Way]:
    x, w = rows(node.shape()), node.shape(1)
    labels = numbers(x[:1], "int32", w[1])
    operands = [numbers(x), numbers(w), *([numbers(w[1:])] if node.get("use_bias") else [])]

    def call(*operands: Any) -> Any:
        y = product(node)(*operands)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, y)

    if node.operator == "dense_crossentropy":
        return [Way(call, operands)]
    return [gradient_of(call, operands, range(len(operands)), numbers(x[:1]))]


@knows("batch_matmul")
def batch_matmul(node: Node) -> list[Way]:
    left, right = node.get("transpose_left", False), node.get("transpose_right", False)
    return [Way(lambda a, b: tf.matmul(a, b, transpose_a=left, transpose_b=right), node.values())]


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: keras.optimizers.Adam(0.001),
    "adam_amsgrad": lambda: keras.optimizers.Adam(0.001, amsgrad=True),
    "sgd": lambda: keras.optimizers.SGD(0.001),
    "sgd_momentum": lambda: keras.optimizers.SGD(0.001, momentum=0.9),
}


def updated_by(name: str, shape: Sizes) -> Callable[[Any], Any]:
    """A step of Keras's optimizer on one weight."""
    if name not in OPTIMIZERS:
        raise NoCall(f"no optimizer of Keras's is written down for {name}")
    optimizer, weight = OPTIMIZERS[name](), keras.Variable(numbers(shape))
    optimizer.build([weight])

    def call(gradient: Any) -> Any:
        optimizer.apply([gradient], [weight])
        return tf.zeros(())

    return call


@knows(*OPTIMIZERS)
def update(node: Node) -> list[Way]:
    return [Way(updated_by(node.operator, node.shape()), [numbers(node.shape())])]


@knows("dense_grad_update")
def dense_grad_update(node: Node) -> list[Way]:
    call = updated_by(node.get("optimizer"), node.shape(2))
    operands = [numbers(rows(node.shape(i))) for i in range(2)]
    return [Way(lambda x, dy: call(tf.matmul(x, dy, transpose_a=True)), operands)]


# Sequences.

CELLS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "simple_rnn": keras.layers.SimpleRNN}


@knows(*CELLS, *(f"{cell}_grad" for cell in CELLS))
def recurrence(node: Node) -> list[Way]:
    """Of one feature: the product of all inputs with the kernel is a dense node of its own here."""
    cell = node.operator.removesuffix("_grad")
    batch, steps, units = *node.result()[:2], node.get("units")
    options = {"activation": node.get("activation", "tanh"),
               "go_backwards": node.get("go_backwards", False),
               "return_sequences": "y" in node.get("gradients", "y")}  # fmt: skip
    if cell != "simple_rnn":
        options["recurrent_activation"] = node.get("recurrent_activation", "sigmoid")
    if cell == "gru":
        options["reset_after"] = node.get("reset_after", True)
    layer = CELLS[cell](units, **options)
    x = numbers([batch, steps, 1])
    layer.build(x.shape)
    if cell == node.operator:
        return [Way(layer, [x])]
    dy = [batch, steps, units] if options["return_sequences"] else [batch, units]
    return [gradient_of(layer, [x], [0], numbers(dy))]


ATTENTION = {"attention": [], "attention_grad_query": [0], "attention_grad_keys": [1, 2]}


@knows(*ATTENTION)
def attention(node: Node) -> list[Way]:
    def call(q: Any, k: Any, v: Any) -> Any:
        return keras.ops.dot_product_attention(
            q, k, v, scale=node.get("scale"), is_causal=node.get("causal", False)
        )

    operands, wanted = node.values()[:3], ATTENTION[node.operator]
    if not wanted:
        return [Way(call, operands)]
    return [gradient_of(call, operands, wanted, numbers([*node.shape()[:3], node.shape(2)[3]]))]


@knows("attention_dot")
def attention_dot(node: Node) -> list[Way]:
    return [Way(lambda dy, y: tf.reduce_sum(dy * y, -1), node.values())]


@knows("embedding")
def embedding(node: Node) -> list[Way]:
    ids = numbers(node.shape(), "int32", node.shape(1)[0])
    return [Way(lambda ids, table: tf.gather(table, ids), [ids, numbers(node.shape(1))])]


@knows("embedding_grad")
def embedding_grad(node: Node) -> list[Way]:
    count = node.get("input_dim")
    ids = numbers([math.prod(node.shape())], "int32", count)
    dy = numbers(rows(node.shape(1)))
    return [Way(lambda ids, dy: tf.math.unsorted_segment_sum(dy, ids, count), [ids, dy])]
