"""Transforms of keras.ops to frequencies and back, between layers, against Keras in float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import Case, assert_one_step, assert_refused, predicted
from keras import layers as L
from keras import ops
from sequence_cases import floats, functional

Call = Callable[[Any], Any]
SHAPE = (6, 4)


def on(call: Call, *shape: int) -> Case:
    shape = shape or SHAPE
    return Case(functional([shape], call), floats(*shape), floats(3), "mse")


def trained(x: Any) -> Any:
    """Numbers of either sign."""
    return L.Dense(4)(x)


def pair(x: Any, units: int = 4) -> tuple[Any, Any]:
    return L.Dense(units)(x), L.Dense(units)(x)


def both(y: tuple[Any, Any]) -> Any:
    return y[0] + 2 * y[1]


def inverse(*arguments: int, **options: Any) -> Call:
    """Frames of as many frequencies as the transform has, added up."""
    return lambda x: ops.istft(pair(x, arguments[2] // 2 + 1), *arguments, **options)


CASES: dict[str, Case] = {
    "fft": on(lambda x: both(ops.fft(pair(x)))),
    "fft2": on(lambda x: both(ops.fft2(pair(x)))),
    "ifft2": on(lambda x: both(ops.ifft2(pair(x)))),
    "rfft": on(lambda x: both(ops.rfft(trained(x)))),
    "rfft with zeros": on(lambda x: both(ops.rfft(trained(x), fft_length=10))),
    "irfft": on(lambda x: ops.irfft(pair(x))),
    "stft": on(lambda x: both(ops.stft(L.Flatten()(trained(x)), 8, 3, 8))),
    "stft from the start": on(
        lambda x: both(ops.stft(L.Flatten()(trained(x)), 6, 2, 6, window="hamming", center=False))
    ),
    "istft": on(inverse(8, 2, 8)),
    "istft from the start": on(inverse(8, 4, 8, center=False, window="hamming")),
    "istft of a length": on(inverse(8, 3, 8, length=5)),
    "istft beyond what is centred": on(inverse(8, 2, 8, length=13)),
    "istft without a window": on(inverse(6, 5, 6, window=None)),
    "istft of a narrow window": on(inverse(6, 2, 8)),
    "istft of an odd window": on(inverse(5, 2, 10, window="hamming")),
    "istft of frames apart": on(inverse(4, 7, 4, window="hamming", center=False)),
    "istft of fewer frequencies": on(lambda x: ops.istft(pair(x, 3), 8, 2, 8)),
    "istft of several signals": on(inverse(6, 2, 6), 3, 5, 4),
    "istft of one frame": on(inverse(8, 2, 8, center=False, window="hamming"), 1, 4),
    "there and back": on(lambda x: ops.istft(ops.stft(L.Flatten()(trained(x)), 8, 2, 8), 8, 2, 8)),
}


@pytest.mark.parametrize("name", CASES)
def test_one_step(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, CASES[name])


def test_a_signal_comes_back(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(3, 400)).astype("float32")

    def call(x: Any) -> Any:
        return ops.istft(ops.stft(x, 64, 16, 64), 64, 16, 64, length=400)

    ours, theirs = predicted(tmp_path, call, values)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    inside = slice(32, -32)  # at the edges fewer windows overlap than are counted
    np.testing.assert_allclose(ours[:, inside], values[:, inside], atol=1e-5)


REFUSED: dict[str, tuple[Call, str]] = {
    "places in no window": (inverse(8, 8, 8), "windows that overlap"),
    "an odd length": (lambda x: ops.istft(pair(x, 4), 7, 2, 7), "a transform of an even length"),
    "very small steps": (
        lambda x: ops.istft(pair(x, 301), 600, 1, 600), "a stride of at least 3"
    ),
    "more than there is": (inverse(8, 2, 8, length=15), "length as an integer from 1 to 14"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path) -> None:
    call, words = REFUSED[name]
    assert_refused(tmp_path, keras.Input(SHAPE), call, words)
