"""Small models, one per behaviour, with data: what Keras and Plimsoll must agree on."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from harness import Case
from keras import layers as L

RNG = np.random.default_rng(5)
START = RNG.bit_generator.state
BATCH = 7


def images(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, (BATCH, *shape)).astype("float32")


def classes(count: int, dtype: str = "int32") -> np.ndarray:
    return RNG.integers(0, count, BATCH).astype(dtype)


def one_hot(count: int) -> np.ndarray:
    return np.eye(count, dtype="float32")[RNG.integers(0, count, BATCH)]


def chain(shape: tuple[int, ...], *make: Callable[[], L.Layer]) -> Callable[[], keras.Model]:
    """A Sequential model; layers are made anew at each build, at the precision of then."""
    return lambda: keras.Sequential([keras.Input(shape), *(m() for m in make)])


def regress(shape: tuple[int, ...], *make: Callable[[], L.Layer]) -> Case:
    """The layers in front of a small dense head with a mean square loss."""
    build = chain(shape, *make, lambda: L.Flatten(), lambda: L.Dense(3))
    return Case(build, images(*shape), images(3), "mse")


def lazy(layer: Callable[..., L.Layer], *args: Any, **kwargs: Any) -> Callable[[], L.Layer]:
    return lambda: layer(*args, **kwargs)


# Keras cannot build glu and threshold by name; sparsemax: test_matrix_operations.py.
ACTIVATIONS = (
    "relu relu6 leaky_relu sigmoid tanh elu celu selu softplus softsign exponential gelu silu "
    "hard_sigmoid hard_silu hard_tanh hard_shrink soft_shrink tanh_shrink mish "
    "log_sigmoid squareplus sparse_plus sparse_sigmoid linear softmax log_softmax"
).split()


def branches() -> keras.Model:
    """Two branches that meet in Add and Concatenate, and a layer that is used twice."""
    x = keras.Input((6, 6, 4))
    shared = L.Conv2D(4, 3, padding="same", activation="tanh")
    a, b = shared(x), shared(L.Rescaling(0.5, offset=0.1)(x))
    joined = L.Concatenate()([L.Add()([a, b]), x])
    return keras.Model(x, L.Dense(3)(L.GlobalAveragePooling2D()(joined)))


def frozen() -> keras.Model:
    """A frozen convolution and a frozen BatchNormalization below trainable layers."""
    conv, norm = L.Conv2D(4, 3, activation="relu"), L.BatchNormalization()
    conv.trainable = norm.trainable = False
    return keras.Sequential(
        [keras.Input((8, 8, 3)), conv, norm, L.Conv2D(3, 3), L.Flatten(), L.Dense(3)]
    )


def regularized() -> keras.Model:
    r = keras.regularizers
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            L.Conv2D(3, 3, kernel_regularizer=r.L2(0.02), bias_regularizer=r.L1(0.01)),
            L.Flatten(),
            L.Dense(3, kernel_regularizer=r.L1L2(0.003, 0.004)),
        ]
    )


def layer_cases() -> dict[str, Case]:
    image = (9, 8, 4)
    cases = {
        "conv valid": regress(image, lazy(L.Conv2D, 5, 3)),
        "conv same": regress(image, lazy(L.Conv2D, 5, (3, 2), padding="same")),
        "conv strided": regress(image, lazy(L.Conv2D, 5, 3, strides=2, padding="same")),
        "conv strides 2 1": regress(image, lazy(L.Conv2D, 5, 3, strides=(2, 1))),
        "conv dilated": regress(image, lazy(L.Conv2D, 5, 3, dilation_rate=2)),
        "conv groups": regress(image, lazy(L.Conv2D, 6, 3, groups=2)),
        "conv no bias": regress(image, lazy(L.Conv2D, 5, 1, use_bias=False)),
        "conv relu": regress(image, lazy(L.Conv2D, 16, 3, activation="relu")),
        "two convs": regress(
            (12, 12, 3), lazy(L.Conv2D, 16, 3, activation="relu"), lazy(L.MaxPooling2D, 2),
            lazy(L.Conv2D, 16, 3, activation="relu"), lazy(L.MaxPooling2D, 2),
        ),
        "max pool": regress(image, lazy(L.MaxPooling2D, 2)),
        "max pool overlapping": regress(image, lazy(L.MaxPooling2D, 3, strides=2, padding="same")),
        "average pool": regress(image, lazy(L.AveragePooling2D, (2, 3))),
        "average pool same": regress(
            image, lazy(L.AveragePooling2D, 3, strides=2, padding="same")
        ),
        "global average pool": regress(image, lazy(L.GlobalAveragePooling2D)),
        "global max pool": regress(image, lazy(L.GlobalMaxPooling2D, keepdims=True)),
        "flatten reshape": regress(image, lazy(L.Flatten), lazy(L.Reshape, (12, -1))),
        "dense on 3 dimensions": regress((5, 6), lazy(L.Dense, 4, activation="tanh")),
        "dense wide": regress((300,), lazy(L.Dense, 70, activation="relu")),
        "batch normalization": regress(image, lazy(L.BatchNormalization)),
        "batch normalization of conv": regress(
            image, lazy(L.Conv2D, 6, 3, use_bias=False), lazy(L.BatchNormalization, epsilon=1e-5),
            lazy(L.ReLU), lazy(L.Conv2D, 6, 3), lazy(L.BatchNormalization, scale=False),
        ),
        "batch normalization of dense": regress(
            (20,), lazy(L.Dense, 8), lazy(L.BatchNormalization, center=False, momentum=0.9)
        ),
        "zero padding": regress(image, lazy(L.ZeroPadding2D, ((1, 0), (2, 3)))),
        "rescaling": regress(image, lazy(L.Rescaling, 1 / 255.0, offset=-0.5)),
        "dropout of nothing": regress(image, lazy(L.Dropout, 0.0)),
        "branches": Case(branches, images(6, 6, 4), images(3), "mse"),
        "frozen": Case(frozen, images(8, 8, 3), images(3), "mse"),
        "regularized": Case(regularized, images(6, 6, 2), images(3), "mse"),
    }  # fmt: skip
    for name in ACTIVATIONS:
        cases[f"activation {name}"] = regress((6, 10), lazy(L.Activation, name))
    return cases


def loss_cases() -> dict[str, Case]:
    losses = keras.losses
    x = images(12)

    def case(head: Callable[[], L.Layer], y: np.ndarray, loss: Any) -> Case:
        return Case(chain((12,), lazy(L.Dense, 9, activation="tanh"), head), x, y, loss)

    sigmoid, softmax = (
        lazy(L.Dense, 1, activation="sigmoid"),
        lazy(L.Dense, 5, activation="softmax"),
    )
    logits = lazy(L.Dense, 5)
    cases = {
        "binary after sigmoid": case(sigmoid, classes(2), "binary_crossentropy"),
        "binary labels in a column": case(
            sigmoid, classes(2, "int64")[:, None], "binary_crossentropy"
        ),
        "binary from logits": case(
            lazy(L.Dense, 1), classes(2), losses.BinaryCrossentropy(from_logits=True)
        ),
        "binary several outputs": case(
            lazy(L.Dense, 4, activation="sigmoid"),
            RNG.integers(0, 2, (BATCH, 4)).astype("float32"),
            "binary_crossentropy",
        ),
        "binary on probabilities": case(
            lazy(L.Dense, 1, activation="hard_sigmoid"), classes(2), "binary_crossentropy"
        ),
        "sparse after softmax": case(softmax, classes(5), "sparse_categorical_crossentropy"),
        "sparse labels in a column": case(
            softmax, classes(5)[:, None], "sparse_categorical_crossentropy"
        ),
        "sparse from logits": case(
            logits, classes(5), losses.SparseCategoricalCrossentropy(from_logits=True)
        ),
        "sparse on probabilities": case(
            lazy(L.Dense, 5, activation="hard_sigmoid"),
            classes(5),
            "sparse_categorical_crossentropy",
        ),
        "categorical after softmax": case(softmax, one_hot(5), "categorical_crossentropy"),
        "categorical from logits": case(
            logits, one_hot(5), losses.CategoricalCrossentropy(from_logits=True)
        ),
        "categorical on probabilities": case(
            lazy(L.Dense, 5, activation="hard_sigmoid"), one_hot(5), "categorical_crossentropy"
        ),
        "mse": case(logits, images(5), "mse"),
        "mae": case(logits, images(5), "mae"),
        "mse sum": case(logits, images(5), losses.MeanSquaredError(reduction="sum")),
    }
    weighted = {}
    for name, base in cases.items():
        if base.loss != "mae":
            weights = RNG.random(BATCH).astype("float32")
            weighted[f"{name}, weighted"] = Case(base.build, base.x, base.y, base.loss, weights)
    return cases | weighted


SCHEDULES = keras.optimizers.schedules

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.05),
    "sgd momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "sgd nesterov": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.003),
    "adam amsgrad": lambda: keras.optimizers.Adam(0.003, amsgrad=True, beta_2=0.95),
    "adamw": lambda: keras.optimizers.AdamW(0.003, weight_decay=0.01),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.002),
    "rmsprop momentum": lambda: keras.optimizers.RMSprop(0.002, rho=0.8, momentum=0.5),
    "rmsprop centered": lambda: keras.optimizers.RMSprop(0.002, centered=True),
    "sgd clipped by value": lambda: keras.optimizers.SGD(0.05, clipvalue=0.01),
    "sgd clipped by norm": lambda: keras.optimizers.SGD(0.05, clipnorm=0.1),
    "adam clipped by the norm of all": lambda: keras.optimizers.Adam(0.003, global_clipnorm=0.1),
    "exponential decay": lambda: keras.optimizers.SGD(SCHEDULES.ExponentialDecay(0.1, 5, 0.7)),
    "piecewise constant": lambda: keras.optimizers.SGD(
        SCHEDULES.PiecewiseConstantDecay([3, 7], [0.1, 0.05, 0.01])
    ),
    "polynomial decay": lambda: keras.optimizers.SGD(
        SCHEDULES.PolynomialDecay(0.1, 4, 0.01, power=2.0, cycle=True)
    ),
    "inverse time decay": lambda: keras.optimizers.SGD(
        SCHEDULES.InverseTimeDecay(0.1, 3, 0.5, staircase=True)
    ),
    "cosine decay": lambda: keras.optimizers.Adam(
        SCHEDULES.CosineDecay(0.001, 8, warmup_target=0.004, warmup_steps=3)
    ),
    "cosine restarts": lambda: keras.optimizers.SGD(
        SCHEDULES.CosineDecayRestarts(0.1, 3, m_mul=0.8), momentum=0.5
    ),
    "sgd weight decay": lambda: keras.optimizers.SGD(0.05, weight_decay=0.02),
}
