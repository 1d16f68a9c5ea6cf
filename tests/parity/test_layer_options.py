"""Options of layers beside their defaults, and masks on their way through layers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from cases import lazy, regress
from harness import Case, assert_one_step, build_in, run_plimsoll
from keras import layers as L
from sequence_cases import BATCH, STEPS, floats, functional, on_floats, on_tokens, tokens

IMAGE = (9, 7, 4)


def on(layer: Callable[..., L.Layer], *args: Any, **kwargs: Any) -> Case:
    return regress(IMAGE, lazy(layer, *args, **kwargs))


def activations() -> dict[str, Case]:
    return {
        "leaky relu": on(L.LeakyReLU),
        "leaky relu, slope": on(L.LeakyReLU, negative_slope=0.01),
        "elu": on(L.ELU),
        "elu, alpha": on(L.ELU, alpha=0.3),
        "relu of at most 2": on(L.ReLU, max_value=2.0),
        "relu, slope": on(L.ReLU, negative_slope=0.2),
        "relu from a threshold": on(L.ReLU, threshold=0.4),
        "relu of everything": on(L.ReLU, max_value=1.5, negative_slope=0.1, threshold=0.2),
        "prelu, one shared axis": on(L.PReLU, shared_axes=[2]),
        "softmax": on(L.Softmax),
    }


def scales() -> dict[str, Case]:
    means = [0.1, -0.2, 0.3, 0.4]
    return {
        "rescaling by lists": on(L.Rescaling, [0.5, 1, 2, 4], offset=means),
        "rescaling by a list": on(L.Rescaling, [0.5, 1, 2, 4]),
        "group normalization of each channel": on(L.GroupNormalization, groups=4),
        "group normalization of one group": on(L.GroupNormalization, groups=1, scale=False),
        "group normalization, no center": on(L.GroupNormalization, groups=2, center=False),
        "layer normalization, no center": on(L.LayerNormalization, center=False),
    }  # fmt: skip


def shapes() -> dict[str, Case]:
    return {
        "max pooling, strides": on(L.MaxPooling2D, (3, 2), strides=(1, 2)),
        "average pooling, strides": on(L.AveragePooling2D, 2, strides=3),
        "max pooling1d, strides": regress((11, 4), lazy(L.MaxPooling1D, 4, strides=1)),
        "cropping of one number": on(L.Cropping2D, 2),
        "cropping1d of one number": regress((11, 4), lazy(L.Cropping1D, 3)),
        "zero padding1d of one number": regress((11, 4), lazy(L.ZeroPadding1D, 2)),
        "up sampling1d by 2": regress((11, 4), lazy(L.UpSampling1D, 2)),
        "permute image": on(L.Permute, (3, 1, 2)),
        "permute sequence": regress((5, 6), lazy(L.Permute, (2, 1)), lazy(L.Dense, 3)),
        "reshape with a rest": on(L.Reshape, (-1, 6)),
        "repeat once": regress((6,), lazy(L.RepeatVector, 1)),
        "identity of a sequence": on_tokens(lazy(L.Identity), lazy(L.GRU, 3)),
    }


def ties() -> dict[str, Case]:
    """Steps and places that are the maximum together."""

    def tied(pool: Callable[[], L.Layer], *shape: int) -> Case:
        """Each place has a slope of its own, which its gradient tells."""

        def build() -> keras.Model:
            x = keras.Input(shape)
            scaled = L.PReLU(alpha_initializer="ones")(x)
            return keras.Model(x, L.Dense(3)(L.Flatten()(pool()(scaled))))

        values = np.random.default_rng(5).integers(-3, -1, (BATCH, *shape)).astype("float32")
        return Case(build, values, floats(3), "mse", noise=0)

    return {
        "global max pooling1d of ties": tied(lambda: L.GlobalMaxPooling1D(), 11, 4),
        "global max pooling2d of ties": tied(lambda: L.GlobalMaxPooling2D(), 5, 3, 3),
        "global max pooling2d of ties, channels first": tied(
            lambda: L.GlobalMaxPooling2D(data_format="channels_first", keepdims=True), 3, 5, 2
        ),
        "max pooling1d of ties": tied(lambda: L.MaxPooling1D(3, strides=2), 11, 4),
        "max pooling2d of ties": tied(lambda: L.MaxPooling2D(2), 6, 4, 3),
    }


def merges() -> dict[str, Case]:
    def case(call: Callable[[Any], Any]) -> Case:
        return Case(functional([(6, 5)], call), floats(6, 5), floats(3), "mse")

    return {
        "subtract from a column": case(lambda x: L.Subtract()([x, L.Dense(1)(x)])),
        "multiply by a row": case(
            lambda x: L.Multiply()([x, L.GlobalAveragePooling1D(keepdims=True)(x)])
        ),
        "average of two": case(lambda x: L.Average()([x, L.Dense(5)(x)])),
        "minimum of three": case(lambda x: L.Minimum()([x, L.Dense(5)(x), L.Dense(1)(x)])),
        "maximum with itself": case(lambda x: L.Maximum()([x, L.Dense(5)(x), x])),
        "concatenate along time": case(lambda x: L.Concatenate(axis=1)([x, L.Dense(5)(x), x])),
        "add four": case(lambda x: L.Add()([x, x, L.Dense(5)(x), L.Dense(5)(x)])),
    }


def rates_of_nothing() -> dict[str, Case]:
    return {
        "spatial dropout of nothing": on(L.SpatialDropout2D, 0.0),
        "spatial dropout1d of nothing": regress((11, 4), lazy(L.SpatialDropout1D, 0.0)),
        "gaussian noise of nothing": on(L.GaussianNoise, 0.0),
    }


def steps(call: Callable[[Any], Any], count: int = STEPS) -> Case:
    """A value for each step; the mask reaches the loss where the layers hand it on."""

    def build() -> keras.Model:
        x = keras.Input((STEPS,), dtype="int32")
        return keras.Model(x, L.Dense(2)(call(L.Embedding(20, 6, mask_zero=True)(x))))

    return Case(build, tokens(STEPS, 20), floats(count, 2), "mse")


def whole(call: Callable[[Any], Any]) -> Case:
    case = steps(call)
    case.x[:, 0] = np.maximum(case.x[:, 0], 1)  # the mean of no steps is NaN
    return Case(case.build, case.x, floats(2), "mse")


def masks() -> dict[str, Case]:
    def marked(value: float) -> Case:
        x = np.where(np.random.default_rng(3).random((BATCH, STEPS, 1)) < 0.4, value, 0.5)
        x = np.repeat(x, 4, axis=-1) * np.where(x == value, 1, floats(STEPS, 4))
        build = lambda: keras.Sequential(  # noqa: E731
            [keras.Input((STEPS, 4)), L.Masking(value), L.GRU(3, return_sequences=True), L.Dense(2)]
        )
        return Case(build, x.astype("float32"), floats(STEPS, 2), "mse")

    def column() -> Case:
        """The loss has one more dimension than the mask."""
        case = steps(lambda x: L.TimeDistributed(L.Reshape((1, 6)))(x))
        return Case(case.build, case.x, floats(STEPS, 1, 2), "mse")

    return {
        "mask of a loss in columns": column(),
        "masking of another value": marked(-1.0),
        "mean of masked steps": whole(lambda x: L.GlobalAveragePooling1D()(x)),
        "mean of masked states": whole(
            lambda x: L.GlobalAveragePooling1D()(L.LSTM(4, return_sequences=True)(x))
        ),
        "mask through dense and dropout": steps(
            lambda x: L.Dropout(0.0)(L.Dense(5, activation="tanh")(x))
        ),
        "mask through a sum": steps(lambda x: L.Add()([x, L.Dense(6)(x)])),
        "mask through a concatenation": steps(lambda x: L.Concatenate()([x, L.Dense(3)(x)])),
        "mask through a concatenation along time": steps(
            lambda x: L.Concatenate(axis=1)([x, L.Dense(6)(x)]), 2 * STEPS
        ),
        "mask beside steps without one": steps(
            lambda x: L.Concatenate(axis=1)([L.ZeroPadding1D(0)(x), x]),
            2 * STEPS,
        ),
        "mask beside channels without one": steps(
            lambda x: L.Concatenate()([x, L.ZeroPadding1D(0)(x)])
        ),
        "mask through normalization": steps(
            lambda x: L.LayerNormalization()(L.Activation("relu")(x))
        ),
        "mask through time distributed": steps(lambda x: L.TimeDistributed(L.Dense(4))(x)),
        "mask into both directions, apart": steps(
            lambda x: L.Add()(L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode=None)(x))
        ),
        "mask into attention, causal": steps(
            lambda x: L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
        ),
        "mask into attention, then a mean": whole(
            lambda x: L.GlobalAveragePooling1D()(L.Add()([x, L.MultiHeadAttention(2, 3)(x, x)]))
        ),
        "mask of keys alone": whole(
            lambda x: L.Flatten()(
                L.MultiHeadAttention(1, 4)(L.RepeatVector(3)(L.GlobalMaxPooling1D()(x)), x)
            )
        ),
        "mask into stacked states": steps(
            lambda x: L.SimpleRNN(3, return_sequences=True)(L.GRU(4, return_sequences=True)(x))
        ),
        "masked, last state": whole(lambda x: L.Dense(4)(L.Bidirectional(L.LSTM(3))(x))),
    }


def turned() -> dict[str, Case]:
    """Recurrences that go backwards: the order of their outputs, and masks beside them."""
    return {
        "mask into both directions, the first one backwards": steps(
            lambda x: L.Bidirectional(
                L.GRU(3, return_sequences=True, go_backwards=True),
                backward_layer=L.GRU(3, return_sequences=True),
            )(x)
        ),
        "mask into both directions, unrolled": steps(
            lambda x: L.Bidirectional(L.GRU(3, return_sequences=True, unroll=True))(x)
        ),
        "mask into a recurrence backwards, unrolled, zero where masked": whole(
            lambda x: L.Flatten()(
                L.LSTM(
                    3,
                    return_sequences=True,
                    go_backwards=True,
                    unroll=True,
                    zero_output_for_mask=True,
                )(x)
            )
        ),
        "both directions, the first one backwards, no mask": steps(
            lambda x: L.Bidirectional(
                L.LSTM(3, return_sequences=True, go_backwards=True),
                backward_layer=L.LSTM(3, return_sequences=True),
                merge_mode="sum",
            )(L.ZeroPadding1D(0)(x))
        ),
    }


def recurrences() -> dict[str, Case]:
    cases = {}
    for layer in (L.LSTM, L.GRU, L.SimpleRNN):
        for steps in (7, 13, 33):
            cases[f"{layer.__name__} of {steps} steps"] = on_floats(
                lazy(layer, 5, return_sequences=True), lazy(layer, 3), shape=(steps, 3)
            )
    return cases


def in_other_places() -> dict[str, Case]:
    """Small layers after others, over time, under masks."""

    def over_time(layer: Callable[..., L.Layer], *args: Any, **kwargs: Any) -> Case:
        return regress((11, 4), lazy(L.Conv1D, 6, 3), lazy(layer, *args, **kwargs))

    def masked(layer: Callable[..., L.Layer], *args: Any, **kwargs: Any) -> Case:
        return on_tokens(lazy(layer, *args, **kwargs), lazy(L.LSTM, 3))

    first = {"data_format": "channels_first"}
    rows = Case(
        functional([(6, 5)], lambda x: L.Minimum()([x, L.GlobalMaxPooling1D(keepdims=True)(x)])),
        floats(6, 5), floats(3), "mse",
    )  # fmt: skip
    return {
        "masking both ways": on_floats(
            lazy(L.ReLU), lazy(L.Masking), lambda: L.Bidirectional(L.GRU(3)), shape=(STEPS, 1)
        ),
        "average pooling1d, strides": over_time(L.AveragePooling1D, 4, strides=3),
        "minimum with a row": rows,
        "cropping1d of one end": over_time(L.Cropping1D, (0, 3)),
        "up sampling1d of a convolution": over_time(L.UpSampling1D, 4),
        "spatial dropout1d of nothing, masked": masked(L.SpatialDropout1D, 0.0),
        "first spatial dropout of nothing": on(L.SpatialDropout2D, 0.0, **first),
        "spatial dropout of nothing after a convolution": regress(
            IMAGE, lazy(L.Conv2D, 5, 3), lazy(L.SpatialDropout2D, 0.0), lazy(L.MaxPooling2D, 2)
        ),
        "gaussian noise of nothing, masked": masked(L.GaussianNoise, 0.0),
        "leaky relu over time": over_time(L.LeakyReLU, negative_slope=0.5),
        "leaky relu, masked": masked(L.LeakyReLU),
        "elu over time": over_time(L.ELU, alpha=2.0),
        "elu, masked": masked(L.ELU),
        "softmax over time": over_time(L.Softmax),
        "softmax of rows": over_time(L.Softmax, axis=1),
        "softmax of two axes": over_time(L.Softmax, axis=[1, 2]),
        "softmax of a row": regress((6,), lazy(L.Dense, 7), lazy(L.Softmax)),
        "normalization over time": over_time(
            L.Normalization, mean=[0.1, 0.2, 0, -0.1, 1, 2], variance=[1, 2, 0.5, 4, 1, 3]
        ),
        "identity after a convolution": over_time(L.Identity),
    }


# What would compute something else is refused, with a way around it.
REFUSED: dict[str, tuple[Case, str]] = {
    "masked softmax": (
        on_tokens(lazy(L.Dense, STEPS), lazy(L.Softmax)),
        "a mask of the values' own shape",
    ),
    "a mean over another axis than the mask's": (
        on_tokens(lazy(L.GlobalAveragePooling1D, data_format="channels_first")),
        "a mask of the axis that is averaged",
    ),
    "normalization of an inner axis": (
        on(L.Normalization, axis=2, mean=np.arange(7), variance=np.ones(7)),
        "Permute the axes to keep to the end",
    ),
    "normalization back": (
        on(L.Normalization, mean=[1, 2, 3, 4], variance=[1, 2, 3, 4], invert=True),
        "Use Rescaling to go back",
    ),
    "layer normalization of an inner axis": (
        on(L.LayerNormalization, axis=2),
        "Permute the axes to normalize to the end",
    ),
}

CASES = (
    activations() | scales() | shapes() | ties() | merges() | rates_of_nothing() | masks()
    | turned() | recurrences() | in_other_places()
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_layer(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, CASES[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    case, words = REFUSED[name]
    build_in("float32", case, None).save(tmp_path / "model.keras")
    answer = run_plimsoll("check", tmp_path / "model.keras", check=False)
    assert answer.returncode == 4
    assert words in answer.stdout + answer.stderr
