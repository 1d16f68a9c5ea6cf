"""Layers over time and images, merges, further losses and optimizers against Keras."""

from pathlib import Path

import keras
import pytest
from cases import RNG
from harness import Case, assert_many_steps, assert_one_step
from keras import layers as L
from spatial_cases import (
    FURTHER_OPTIMIZERS,
    channels_first_cases,
    further_loss_cases,
    image_cases,
    merge_cases,
    sequence_cases,
)

LAYERS = sequence_cases() | image_cases() | channels_first_cases() | merge_cases()
LOSSES = further_loss_cases()


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, LAYERS[name])


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, LOSSES[name])


def small_net() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            L.DepthwiseConv2D(3, depth_multiplier=2),
            L.Conv2DTranspose(4, 2, strides=2, activation="tanh"),
            L.GlobalAveragePooling2D(),
            L.Dense(6, activation="tanh", name="wide"),
            L.Dense(3),
        ]
    )


@pytest.mark.parametrize("name", FURTHER_OPTIMIZERS)
def test_optimizer(name: str, tmp_path: Path) -> None:
    count = 40
    x = RNG.normal(0, 1, (count, 8, 8, 3)).astype("float32")
    y = RNG.normal(0, 1, (count, 3)).astype("float32")
    case = Case(small_net, x, y, "mse")
    assert_many_steps(tmp_path, case, FURTHER_OPTIMIZERS[name], 16, 12)
