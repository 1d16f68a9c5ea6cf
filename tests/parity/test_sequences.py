"""Layers over sequences: loss and gradients of one step against Keras in float64."""

from pathlib import Path

import pytest
from harness import ROUNDED_ZERO, assert_one_step
from sequence_cases import (
    attention_cases,
    embedding_cases,
    normalization_cases,
    operation_cases,
    recurrent_cases,
    state_cases,
    wrapper_cases,
)

CASES = (
    recurrent_cases()
    | embedding_cases()
    | wrapper_cases()
    | normalization_cases()
    | attention_cases()
    | state_cases()
    | operation_cases()
)


@pytest.mark.parametrize("name", CASES)
def test_layer(name: str, tmp_path: Path) -> None:
    # The gradient of attention's key bias is 0: what is left of terms as large as all gradients is
    # a rounding of them, in Keras's float32 too (1.0e-8 of all there, 1.5e-8 here).
    zero = 2.0**-25 if "attention" in name else ROUNDED_ZERO
    assert_one_step(tmp_path, CASES[name], zero=zero)
