"""Models of several kinds with data, made the same way each time."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest

from plimsoll.versions import number

L = keras.layers
SEED = 3


@dataclass
class Case:
    model: Callable[[], keras.Model]
    x: Any
    y: Any
    loss: Any
    optimizer: Callable[[], Any] = lambda: keras.optimizers.Adam(0.003)
    metrics: Any = None

    def compiled(self) -> keras.Model:
        keras.backend.clear_session()  # layers are called alike each time: draws go by names
        keras.utils.set_random_seed(SEED)
        model = self.model()
        model.compile(self.optimizer(), self.loss, metrics=self.metrics)
        return model


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def classes(rows: int, count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, count, rows)


def _image() -> keras.Model:
    return keras.Sequential([
        keras.Input((16, 16, 3)), L.Conv2D(8, 3, activation="relu"), L.BatchNormalization(),
        L.MaxPooling2D(), L.Flatten(), L.Dense(16, activation="relu"),
        L.Dense(5, activation="softmax"),
    ])  # fmt: skip


def _text() -> keras.Model:
    return keras.Sequential([
        keras.Input((12,), dtype="int32"), L.Embedding(50, 8), L.LSTM(6), L.Dense(1, "sigmoid"),
    ])  # fmt: skip


def _two_ports() -> keras.Model:
    a, b = keras.Input((6,), name="left"), keras.Input((4,), name="right")
    shared = L.Dense(5, activation="tanh", name="shared")
    joined = L.Concatenate()([shared(L.Dense(4)(a)), shared(b)])
    return keras.Model([a, b], [L.Dense(1, name="value")(joined),
                                L.Dense(3, activation="softmax", name="kind")(joined)])  # fmt: skip


def _nested() -> keras.Model:
    base = keras.Sequential([keras.Input((8,)), L.Dense(6, "relu"), L.BatchNormalization()],
                            name="base")  # fmt: skip
    base.trainable = False
    x = keras.Input((8,))
    return keras.Model(x, L.Dense(2, name="top")(base(x, training=False)))


CASES: dict[str, Case] = {
    "image": Case(_image, normal(90, 16, 16, 3), classes(90, 5), "sparse_categorical_crossentropy",
                  metrics=["accuracy"]),
    "text": Case(_text, classes(70, 50, 4).repeat(12).reshape(70, 12), classes(70, 2),
                 "binary_crossentropy", lambda: keras.optimizers.RMSprop(0.01), ["accuracy"]),
    "two ports": Case(_two_ports, {"left": normal(64, 6), "right": normal(64, 4, seed=5)},
                      [normal(64, 1, seed=6), classes(64, 3)],
                      ["mse", "sparse_categorical_crossentropy"],
                      lambda: keras.optimizers.SGD(0.05, momentum=0.9)),
    "nested and frozen": Case(_nested, normal(50, 8), normal(50, 2, seed=7), "mse"),
    "schedule": Case(
        lambda: keras.Sequential([keras.Input((8,)), L.Dense(4, "relu"), L.Dense(1)]),
        normal(50, 8), normal(50, 1, seed=7), "mse",
        lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.01, 3, 0.5))),
}  # fmt: skip


# Before Keras 3.2 an epoch's loss is the mean of its batches, in which a short last one counts like
# a whole one. Plimsoll's is the mean of samples with every Keras.
LOSS_OF_BATCHES = number(keras.__version__) < (3, 2)


# Keras took up another way to go on where an epoch's steps end before its data, or data before
# steps, and to tell a PyDataset of its epochs. Plimsoll goes that way with every Keras.
OLD_EPOCHS = number(keras.__version__) < (3, 7)


def skip_old_epochs(arguments: Iterable[str]) -> None:
    """Where Keras before 3.7 does not say what is right."""
    steps = {"steps_per_epoch", "validation_steps", "PyDataset"}.intersection(arguments)
    if OLD_EPOCHS and steps:
        pytest.skip(f"before Keras 3.7 epochs with {', '.join(sorted(steps))} went another way")


def assert_logs_like(expected: dict[str, Any], received: dict[str, Any], rtol: float = 2e-3,
                     atol: float = 2e-5) -> None:  # fmt: skip
    """The same names in the same order, and values as near."""
    assert list(expected) == list(received)
    for name, values in expected.items():
        near = 0.3 if LOSS_OF_BATCHES and name.endswith("loss") else rtol
        np.testing.assert_allclose(received[name], values, rtol=near, atol=atol, err_msg=name)


def numbers(variable: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(variable))


def assert_like(one: keras.Model, other: keras.Model, tolerance: float = 2e-4) -> None:
    """Weights and the optimizer's variables, within what rounding makes of a few steps."""
    for a, b in zip(one.variables, other.variables, strict=True):
        np.testing.assert_allclose(numbers(b), numbers(a), rtol=tolerance, atol=tolerance,
                                   err_msg=a.path)  # fmt: skip
    pairs = zip(one.optimizer.variables, other.optimizer.variables, strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(numbers(b), numbers(a), rtol=1e-2, atol=tolerance,
                                   err_msg=a.path)  # fmt: skip
