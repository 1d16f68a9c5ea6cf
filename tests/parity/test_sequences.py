"""Layers over sequences: loss and gradients of one step against Keras in float64."""

from pathlib import Path

import pytest
from harness import assert_one_step
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
    assert_one_step(tmp_path, CASES[name])
