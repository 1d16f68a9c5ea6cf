"""Layers over sequences: loss and gradients of one step against Keras in float64."""

from pathlib import Path

import pytest
from harness import ROUNDED_ZERO, Case, assert_one_step
from keras import layers as L
from keras.src.backend.tensorflow import numpy as numpy_in_keras
from sequence_cases import (
    attention_cases,
    conv_lstm_cases,
    embedding_cases,
    floats,
    functional,
    normalization_cases,
    operation_cases,
    recurrent_cases,
    state_cases,
    wrapper_cases,
)

CASES = (
    recurrent_cases()
    | embedding_cases()
    | conv_lstm_cases()
    | wrapper_cases()
    | normalization_cases()
    | attention_cases()
    | state_cases()
    | operation_cases()
)


# The gradient of attention's key bias is 0: what is left of terms as large as all gradients is a
# rounding of them, half a unit in the last place at most, in Keras's float32 too. Over eight draws
# it is 0.5e-8 to 4.5e-8 of all there and 0.8e-8 to 3.4e-8 here; it depends on the processor.
KEY_BIAS_ZERO = 2.0**-24


@pytest.mark.parametrize("name", CASES)
def test_layer(name: str, tmp_path: Path) -> None:
    zero = KEY_BIAS_ZERO if "attention" in name else ROUNDED_ZERO
    assert_one_step(tmp_path, CASES[name], zero=zero)


@pytest.mark.parametrize("shape, options", [
    ((3, 2), {}),
    ((3, 2), {"use_causal_mask": True}),
    ((3, 4, 2), {}),
])  # fmt: skip
def test_as_many_positions_as_heads_of_one_channel(
    shape: tuple[int, ...],
    options: dict[str, bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The projections' biases belong to the heads, as EinsumDense's bias_axes say.

    Keras's add with TensorFlow takes a bias (3, 1) for one of axis 1 where that is 3 long, and adds
    it by position. Its subtract has no such case.
    """
    monkeypatch.setattr(numpy_in_keras, "add", lambda a, b: numpy_in_keras.subtract(a, -b))
    build = functional([shape], lambda x: L.MultiHeadAttention(3, 1)(x, x, **options))
    case = Case(build, floats(*shape), floats(3), "mse")
    assert_one_step(tmp_path, case, zero=KEY_BIAS_ZERO)
