"""Losses and windows of keras.ops between layers, parts of values, factors: against Keras.

What has a gradient stands behind a layer with weights and is compared by one step in float64.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import Case, assert_one_step, assert_refused, predicted, run_plimsoll
from keras import layers as L
from keras import ops
from sequence_cases import floats, functional

Call = Callable[[Any], Any]
SHAPE = (5, 4)
IMAGE = (7, 6, 4)
RNG = np.random.default_rng(11)


def on(call: Call, shape: tuple[int, ...] = SHAPE) -> Case:
    return Case(functional([shape], call), floats(*shape), floats(3), "mse")


def drawn(*shape: int) -> np.ndarray:
    return RNG.normal(0, 0.5, shape).astype("float32")


def real(values: np.ndarray) -> np.ndarray:
    """Constants of the type that Keras computes with, which converts none itself."""
    return values.astype(keras.config.floatx())


def trained(x: Any) -> Any:
    return L.Dense(4)(x)


def classes(x: Any) -> Any:
    return ops.cast(ops.minimum(ops.abs(x[..., 0]) * 2.0, 3.0), "int32")


def losses() -> dict[str, Case]:
    probable = lambda x: L.Dense(4, activation="softmax")(x)  # noqa: E731
    likely = lambda x: L.Dense(4, activation="sigmoid")(x)  # noqa: E731
    shares = lambda x: 0.1 + 0.8 * L.Dense(4, activation="sigmoid")(x)  # noqa: E731
    other = lambda x: L.Dense(4, activation="softmax")(ops.sin(x))  # noqa: E731
    return {
        "binary of a sigmoid": on(lambda x: ops.binary_crossentropy(other(x), likely(x))),
        "binary of numbers": on(lambda x: ops.binary_crossentropy(other(x), shares(x))),
        "binary of logits": on(
            lambda x: ops.binary_crossentropy(other(x), trained(x), from_logits=True)
        ),
        "categorical of a softmax": on(
            lambda x: ops.categorical_crossentropy(other(x), probable(x))
        ),
        "categorical of numbers": on(lambda x: ops.categorical_crossentropy(other(x), shares(x))),
        "categorical of logits": on(
            lambda x: ops.categorical_crossentropy(other(x), trained(x), from_logits=True)
        ),
        "categorical of an inner axis": on(
            lambda x: ops.categorical_crossentropy(
                ops.transpose(other(x), (0, 2, 1)), ops.transpose(shares(x), (0, 2, 1)), axis=1
            ),
            # Keras infers the shape of another axis.
            (4, 4),
        ),
        "categorical of targets that add up to more": on(
            lambda x: ops.categorical_crossentropy(ops.tanh(x), trained(x), from_logits=True)
        ),
        "sparse of a softmax": on(
            lambda x: ops.sparse_categorical_crossentropy(classes(x), probable(x))
        ),
        "sparse of numbers": on(
            lambda x: ops.sparse_categorical_crossentropy(classes(x)[..., None], shares(x))
        ),
        "sparse of logits": on(
            lambda x: ops.sparse_categorical_crossentropy(classes(x), trained(x), from_logits=True)
        ),
    }


def convolutions() -> dict[str, Case]:
    of_image = lambda call: on(lambda x: call(trained(x)), IMAGE)  # noqa: E731
    of_series = lambda call: on(lambda x: call(trained(x)), (9, 4))  # noqa: E731
    plane, line, cube = drawn(3, 2, 4, 5), drawn(3, 4, 5), drawn(2, 2, 2, 4, 3)
    each, series = drawn(3, 3, 4, 2), drawn(3, 4, 2)
    point = drawn(1, 1, 8, 3)
    return {
        "conv": of_image(lambda x: ops.conv(x, real(plane))),
        "conv same": of_image(lambda x: ops.conv(x, real(plane), strides=2, padding="same")),
        "conv dilated": of_image(lambda x: ops.conv(x, real(plane), dilation_rate=(2, 1))),
        "conv of a series": of_series(lambda x: ops.conv(x, real(line), strides=2)),
        "conv of a volume": on(lambda x: ops.conv(trained(x), real(cube)), (4, 3, 5, 4)),
        "depthwise_conv": of_image(lambda x: ops.depthwise_conv(x, real(each), padding="same")),
        "depthwise_conv of a series": of_series(lambda x: ops.depthwise_conv(x, real(series))),
        "separable_conv": of_image(
            lambda x: ops.separable_conv(x, real(each), real(point), strides=2)
        ),
    }


def channels_first(x: Any) -> Any:
    return ops.transpose(trained(x), (0, 3, 1, 2))


def windows() -> dict[str, Case]:
    unfold = lambda *given, **more: on(  # noqa: E731
        lambda x: ops.unfold(channels_first(x), *given, **more), IMAGE
    )

    def fold(size: Any, window: Any, channels: int, **more: Any) -> Case:
        def call(x: Any) -> Any:
            columns = ops.unfold(channels_first(x), window, **more)
            return ops.fold(columns * columns, size, window, **more)

        return on(call, IMAGE)

    return {
        "unfold": unfold(2),
        "unfold of a border": unfold((3, 2), padding=(1, 2)),
        "unfold apart": unfold(2, stride=(2, 3), dilation=(2, 1)),
        "unfold of a row": unfold((1, 6)),
        "fold": fold((7, 6), 2, 4),
        "fold of a border": fold((7, 6), (3, 2), 4, padding=(1, 1)),
        "fold apart": fold((7, 6), 2, 4, stride=(2, 3), dilation=(2, 1)),
        "extract_sequences": on(lambda x: ops.extract_sequences(trained(x), 3, 1)),
        "extract_sequences apart": on(lambda x: ops.extract_sequences(L.Dense(11)(x), 3, 2)),
        "extract_sequences with gaps": on(lambda x: ops.extract_sequences(L.Dense(11)(x), 2, 5)),
        "extract_sequences of long ones": on(
            lambda x: ops.extract_sequences(L.Dense(90)(x), 70, 1)
        ),
    }


def parts() -> dict[str, Case]:
    return {
        "slice": on(lambda x: ops.slice(trained(x), [0, 1, 2], [-1, 3, 2])),
        "slice to the end": on(lambda x: ops.slice(trained(x), [0, 2, 0], [-1, -1, 3])),
        "saturate_cast": on(lambda x: ops.saturate_cast(trained(x), "float32")),
        "qr": on(lambda x: ops.matmul(*ops.qr(trained(x)[:, :, :3])) * trained(x)[:, :, :1]),
        "Q of qr": on(lambda x: ops.qr(trained(x)[:, :, :3])[0]),
        "R of qr": on(lambda x: ops.qr(trained(x)[:, :4])[1]),
        "qr complete": on(lambda x: ops.qr(trained(x)[:, :4], mode="complete")[0]),
    }


CASES = losses() | convolutions() | windows() | parts()


@pytest.mark.parametrize("name", CASES)
def test_one_step(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, CASES[name])


UPDATES: dict[str, Call] = {
    "inside": lambda x: ops.slice_update(x, [0, 1, 2], ops.tanh(x[:, :3, :2])),
    "beyond the end": lambda x: ops.slice_update(x, [0, 4, 0], ops.tanh(x[:, :3])),
    "of a part of the batch's own rows": lambda x: ops.slice_update(x, [0, 0, 1], x[:, :, 2:]),
}


@pytest.mark.parametrize("name", UPDATES)
def test_slice_update(name: str, tmp_path: Path) -> None:
    """It has no gradient in TensorFlow."""
    values = drawn(6, *SHAPE)
    ours, theirs = predicted(tmp_path, UPDATES[name], values)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("length", [3, 70])
def test_sequences_have_the_type_of_their_axis(length: int, dtype: str, tmp_path: Path) -> None:
    values = np.abs(drawn(3, 100) * 9).astype(dtype)
    ours, theirs = predicted(tmp_path, lambda x: ops.extract_sequences(x, length, 1), values)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def test_small_losses_of_logits(tmp_path: Path) -> None:
    """What softplus(x) - t x would lose in rounding, and 0 where the sides meet."""
    values = np.array([[20, 1], [15, 1], [-20, 0], [-15, 0.5], [0, 0.25], [90, 1]], "float32")
    ours, theirs = predicted(
        tmp_path,
        lambda x: ops.binary_crossentropy(x[:, 1:], x[:, :1], from_logits=True),
        values,
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_number_that_is_no_class_gives_no_number(tmp_path: Path) -> None:
    values = np.array([[1, 2, 3, 0], [1, 2, 3, 3], [1, 2, 3, -1], [1, 2, 3, 2]], "float32")
    x = keras.Input((4,))
    loss = ops.sparse_categorical_crossentropy(
        ops.cast(x[:, 3], "int32"), x[:, :3], from_logits=True
    )
    keras.Model(x, loss).save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", values)
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--output",
                 tmp_path / "y.npy")  # fmt: skip
    assert np.isnan(np.load(tmp_path / "y.npy")).tolist() == [False, True, True, False]


LARGE = np.array([[3.7, -2.2, 300, -300], [1e12, -1e12, 127.5, 0.4], [np.inf, -np.inf, 1, 2]],
                 "float32")  # fmt: skip


WHOLE = np.array([[300, -300], [2**31 - 1, -(2**31)]], "int32")
CASTS = [(LARGE, to) for to in ("int8", "uint8", "int32", "bool", "float32")]
CASTS += [(WHOLE, to) for to in ("int8", "uint8", "int32", "bool")]


@pytest.mark.parametrize("values,to", CASTS, ids=lambda one: getattr(one, "dtype", one))
def test_saturate_cast(values: np.ndarray, to: str, tmp_path: Path) -> None:
    ours, theirs = predicted(tmp_path, lambda x: ops.saturate_cast(x, to), values)
    if values is LARGE and to == "int32":
        # The greatest float32 that is an int32: Keras takes the next one, and the processor wraps.
        ours[ours == 2147483520] = -(2**31)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_in_top_k(k: int, tmp_path: Path) -> None:
    """Scores that are alike count as one place; what is no finite number is in no place."""
    scores = np.array([[1, 2, 3, 0], [2, 2, 2, 2], [0, 3, 3, 1], [1, np.nan, 0, 2],
                       [np.inf, 1, 2, 3], [4, 1, 0, 2]], "float32")  # fmt: skip
    numbers = np.array([2, 0, 1, 3, 3, 3], "float32")[:, None]
    values = np.concatenate([scores, numbers], axis=1)
    ours, theirs = predicted(
        tmp_path, lambda x: ops.in_top_k(ops.cast(x[:, 4], "int32"), x[:, :4], k), values
    )
    np.testing.assert_array_equal(ours, theirs)


def test_signs_of_factors(tmp_path: Path) -> None:
    """Columns that are 0, or 0 but for their head, have the signs that TensorFlow gives them."""
    values = np.array([[[2, 1], [0, 3]], [[-2, 1], [0, -3]], [[0, 1], [0, 0]], [[3, 1], [4, -1]]],
                      "float32")  # fmt: skip
    for place in (0, 1):
        ours, theirs = predicted(tmp_path, lambda x, at=place: ops.qr(x)[at], values)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


REFUSED: dict[str, tuple[Call, str]] = {
    "a part of the batch": (lambda x: ops.slice(x, [1, 0, 0], [1, 2, 2]), "-1 for the batch"),
    "a part that begins elsewhere in the batch": (
        lambda x: ops.slice_update(x, [1, 0, 0], x[:, :2]), "0 for the batch"
    ),
    "more places than a table holds": (
        lambda x: ops.unfold(ops.reshape(x, (-1, 1, 5, 4)), 1, padding=2**18),
        "at most 65536 places",
    ),
    "a border that nobody means": (
        lambda x: ops.unfold(ops.reshape(x, (-1, 1, 5, 4)), 1, padding=2**28), "from 0 to 1048576"
    ),
    "further columns": (lambda x: ops.qr(x, mode="complete")[0], "mode reduced"),
    "a kernel of the model": (
        lambda x: ops.conv(x, ops.reshape(x, (5, 4, -1))), "rank 3 that the file holds"
    ),
    "bounds that are no integers": (
        lambda x: ops.saturate_cast(ops.saturate_cast(x, "int32"), "float32"), "ops.cast"
    ),
    "a target of another shape": (
        lambda x: ops.in_top_k(ops.cast(x[:, :, 0], "int32"), x[:, 0], 1),
        "a class number for each row",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path) -> None:
    call, words = REFUSED[name]
    assert_refused(tmp_path, keras.Input(SHAPE), call, words)
