"""The seed workloads: networks that people ask about when memory runs out, with random data."""

from collections.abc import Callable

import keras
import numpy as np
from harness import Case
from keras import layers as L


def conv_pool(filters: list[int], shape: tuple[int, ...], *head: L.Layer) -> keras.Model:
    model = keras.Sequential([keras.Input(shape)])
    for count in filters:
        model.add(L.Conv2D(count, 3, activation="relu"))
        model.add(L.MaxPooling2D(2))
    model.add(L.Flatten())
    for layer in head:
        model.add(layer)
    return model


def s0a() -> keras.Model:
    return conv_pool([32, 64], (256, 256, 3), L.Dense(1, activation="sigmoid"))


def s1a() -> keras.Model:
    return conv_pool([32], (28, 28, 3), L.Dense(10, activation="softmax"))


def s1b() -> keras.Model:
    return keras.Sequential(
        [keras.Input((10,)), L.Dense(100, activation="relu"), L.Dense(10, activation="softmax")]
    )


def s1c() -> keras.Model:
    head = [L.Dense(256, activation="relu"), L.Dense(10, activation="softmax")]
    return conv_pool([64, 128], (64, 64, 3), *head)


def s2() -> keras.Model:
    return conv_pool([32, 64], (32, 32, 3), L.Dense(10))


def dense(*units: int) -> Callable[[], keras.Model]:
    def build() -> keras.Model:
        layers = [L.Dense(n, activation="relu") for n in units]
        return keras.Sequential([keras.Input((1000,)), *layers, L.Dense(1, activation="sigmoid")])

    return build


def s0c() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((128,), dtype="int64"),
            L.Embedding(20000, 256),
            L.LSTM(64),
            L.Dense(1, activation="sigmoid"),
        ]
    )


BINARY, SPARSE, SQUARE = "binary_crossentropy", "sparse_categorical_crossentropy", "mse"

# name: model, input shape, dtype, classes (0: ten floats), loss, metrics, samples, batch
WORKLOADS = {
    "S0a": (s0a, (256, 256, 3), "float32", 2, BINARY, ["accuracy"], 1000, 128),
    "S0b": (s0a, (256, 256, 3), "float32", 2, BINARY, ["accuracy"], 1000, 32),
    "S0c": (s0c, (128,), "int64", 2, BINARY, ["accuracy"], 1000, 32),
    "S1a": (s1a, (28, 28, 3), "float32", 10, SPARSE, [], 1000, 256),
    "S1b": (s1b, (10,), "float32", 10, SPARSE, [], 1000, 32),
    "S1c": (s1c, (64, 64, 3), "float32", 10, SPARSE, [], 1000, 64),
    "S2": (s2, (32, 32, 3), "float32", 0, SQUARE, [], 1000, 32),
    "S4": (dense(128), (1000,), "float64", 2, BINARY, ["accuracy"], 100_000, 1024),
    "S4b": (dense(128), (1000,), "float64", 2, BINARY, ["accuracy"], 100_000, 32),
    "S4L": (dense(512, 256, 128), (1000,), "float64", 2, BINARY, ["accuracy"], 100_000, 1024),
    "S4s": (dense(64, 32), (1000,), "float64", 2, BINARY, ["accuracy"], 100_000, 1024),
}


def workload(name: str, samples: int | None = None) -> tuple[Case, int]:
    """The case and its batch size; fewer samples where the test only needs a few steps."""
    build, shape, dtype, classes, loss, metrics, count, batch = WORKLOADS[name]
    count = samples or count
    rng = np.random.default_rng(11)
    if dtype == "int64":
        x = rng.integers(0, 20000, (count, *shape))
    else:
        x = rng.random((count, *shape), dtype="float32" if dtype == "float32" else "float64")
    if classes:
        y = rng.integers(0, classes, count)
        y = y.astype("int64" if loss == BINARY else "int32")
    else:
        y = rng.random((count, 10), dtype="float32")
    return Case(build, x, y, loss, metrics=metrics), batch
