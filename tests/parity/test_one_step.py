"""Every layer, loss and activation: loss and gradients of one step against Keras in float64."""

from pathlib import Path

import pytest
from cases import layer_cases, loss_cases
from harness import assert_one_step

LAYERS = layer_cases()
LOSSES = loss_cases()


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, LAYERS[name])


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, LOSSES[name])
