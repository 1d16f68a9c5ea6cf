"""Models, losses and batches that Keras's own training in parts is tried with, on any backend."""

from typing import Any

import keras
import numpy as np
from guarded import Kind
from live_models import classes, normal

L, ops = keras.layers, keras.ops
ROWS = 44  # two batches and a short last one
X, Y = normal(ROWS, 6), normal(ROWS, 3, seed=2)
WEIGHTS = np.random.default_rng(5).uniform(0, 2, ROWS).astype("float32")
LABELS, WORDS = classes(ROWS, 3), classes(ROWS * 7, 9, seed=4).reshape(ROWS, 7)


class Own(L.Layer):
    """A layer of the program's."""

    def build(self, shape: Any) -> None:
        self.w = self.add_weight(shape=(shape[-1], 5), name="w")

    def call(self, inputs: Any) -> Any:
        return ops.tanh(inputs @ self.w)


def network(*last: Any, optimizer: Any = "adam", loss: Any = "mse", **more: Any) -> Any:
    model = keras.Sequential([keras.Input((6,)), Own(), *(last or [L.Dense(3)])])
    model.compile(optimizer, loss, **more)
    return model


def words(loss: Any, optimizer: Any = "adam", **more: Any) -> Any:
    """Masked where a word is 0."""
    model = keras.Sequential([
        keras.Input((7,), dtype="int32"), L.Embedding(9, 4, mask_zero=True),
        L.SimpleRNN(4, return_sequences=True), L.Dense(4),
    ])  # fmt: skip
    model.compile(optimizer, loss, **more)
    return model


class Twice(keras.Model):
    """Two outputs and two inputs by name; weights and activities are regularized."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = Own()
        self.one = L.Dense(
            3, kernel_regularizer="l2", activity_regularizer=keras.regularizers.L1(1e-3)
        )
        self.two = L.Dense(3, activation="softmax", bias_regularizer="l1")

    def call(self, inputs: Any) -> Any:
        found = self.shared(inputs["a"]) + self.shared(inputs["b"])
        return {"one": self.one(found), "two": self.two(found)}


def share(true: Any, predicted: Any) -> Any:
    """One value for a batch, no mean over samples: told of the whole batch, or wrong."""
    return ops.max(predicted) - ops.mean(true)


def twice() -> Any:
    model = Twice()
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        {"one": "mse", "two": "sparse_categorical_crossentropy"},
        loss_weights={"one": 0.3, "two": 2.0}, metrics={"two": ["accuracy"], "one": [share]},
        weighted_metrics={"two": ["accuracy"]},
    )  # fmt: skip
    return model


def tied() -> Any:
    """One table for two inputs and for the last product."""

    class Tied(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.table = L.Embedding(9, 5)

        def call(self, inputs: Any) -> Any:
            found = self.table(inputs) + self.table(ops.flip(inputs, axis=1))
            return ops.mean(found, axis=1) @ ops.transpose(self.table.embeddings)

    model = Tied()
    model.compile("adam", CE(from_logits=True), metrics=["accuracy"])
    return model


def squares(true: Any, predicted: Any) -> Any:
    return ops.mean(ops.square(true - predicted), axis=-1)


def scaled() -> Any:
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.05), initial_scale=8.0, dynamic_growth_steps=2
    )
    return network(optimizer=optimizer)


CE = keras.losses.SparseCategoricalCrossentropy
TOKENS = classes(ROWS * 7, 4).reshape(ROWS, 7)
KINDS = {
    "momentum": Kind(lambda: network(optimizer=keras.optimizers.SGD(0.05, 0.9)), X, Y),
    "sample weights": Kind(lambda: network(metrics=["mae"], weighted_metrics=["mse"]), X, Y,
                           weights=WEIGHTS),
    "class weights": Kind(
        lambda: network(L.Dense(3, activation="softmax"), loss="sparse_categorical_crossentropy",
                        metrics=["accuracy"]),
        X, LABELS, {"class_weight": {0: 1.0, 1: 3.0, 2: 0.2}}),
    "masks": Kind(lambda: words(CE(from_logits=True), metrics=["accuracy"]), WORDS, TOKENS),
    "masks and weights": Kind(
        lambda: words(CE(from_logits=True, reduction="mean_with_sample_weight"),
                      optimizer=keras.optimizers.Adagrad(0.05)),
        WORDS, TOKENS,
        weights=np.random.default_rng(6).uniform(0, 2, (ROWS, 7)).astype("float32")),
    "labels left out": Kind(lambda: words(CE(from_logits=True, ignore_class=1)), WORDS, TOKENS),
    "two outputs": Kind(twice, {"a": X, "b": X[::-1]}, {"one": Y, "two": LABELS}, rows=6),
    "one table": Kind(tied, WORDS, LABELS),
    "a sum": Kind(lambda: network(loss=keras.losses.MeanAbsoluteError(reduction="sum"),
                                  optimizer=keras.optimizers.SGD(0.002)), X, Y, rows=1),
    "a function": Kind(lambda: network(loss=squares, metrics=[share]), X, Y, weights=WEIGHTS),
    "a scaled loss": Kind(scaled, X, Y),
    "eagerly": Kind(lambda: network(run_eagerly=True, metrics=["mae"]), X, Y, epochs=1),
}  # fmt: skip
