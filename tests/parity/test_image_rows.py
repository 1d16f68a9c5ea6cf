"""Images cut over their rows: the gradients of Keras, and the same bits within a small limit."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from harness import (
    Case,
    assert_one_step,
    build_in,
    read_keras,
    run_plimsoll,
    save_case,
    shaken_weights,
)
from keras import layers as L

SIDE = 640  # one value of 32 channels takes 50 MiB, which no call takes whole


def small_unet() -> keras.Model:
    """Every way in which rows meet: windows, halving, doubling, joining, totals over all pixels."""

    def convolution(filters: int, x: keras.KerasTensor) -> keras.KerasTensor:
        x = L.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        return L.Activation("tanh")(L.BatchNormalization()(x))

    x = keras.Input((SIDE, SIDE, 3))
    skip = convolution(32, x)
    inner = convolution(16, L.AveragePooling2D(2)(skip))
    y = L.Concatenate()([skip, L.Conv2DTranspose(8, 2, strides=2)(inner)])
    return keras.Model(x, L.Conv2D(1, 1, activation="sigmoid")(convolution(16, y)))


def image_case() -> Case:
    source = np.random.default_rng(4)
    x = source.random((1, SIDE, SIDE, 3), "float32")
    y = source.integers(0, 2, (1, SIDE, SIDE, 1)).astype("float32")
    return Case(small_unet, x, y, "binary_crossentropy")


@pytest.fixture(scope="module")
def case() -> Case:
    return image_case()


def test_one_step(case: Case, tmp_path: Path) -> None:
    assert_one_step(tmp_path, case)


def test_a_limit_changes_no_bit(case: Case, tmp_path: Path) -> None:
    weights = shaken_weights(build_in("float32", case, None))
    arguments = save_case(tmp_path, case, weights, keras.optimizers.Adam(0.01))
    results = []
    for limit in ([], ["--memory", "90MiB"]):
        output = tmp_path / f"out{len(results)}.keras"
        done = run_plimsoll("fit", *arguments, "--batch", 1, "--steps", 2, "--epochs", 2,
                            "--no-shuffle", "--json", "--output", output, *limit)  # fmt: skip
        results.append((json.loads(done.stdout), read_keras(output)))
    (free, (plain, slots)), (small, (within, other)) = results
    assert free["planned_arena_bytes"] > 200 * 2**20
    assert small["measured_process_bytes"] <= small["predicted_process_bytes"] <= 90 * 2**20
    assert small["block_set"] == 0
    assert small["loss"] == free["loss"]
    assert all((plain[name] == within[name]).all() for name in plain)
    assert all((a == b).all() for a, b in zip(slots, other, strict=True))
