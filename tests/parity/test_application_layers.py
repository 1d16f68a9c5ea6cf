"""Layers that stand in networks of keras.applications alone; the networks: test_applications.py."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import Case, assert_one_step, run_plimsoll
from keras import layers as L
from keras.src.applications.convnext import LayerScale, StochasticDepth
from keras.src.applications.inception_resnet_v2 import CustomScaleLayer
from sequence_cases import floats, functional

RATE = 0.25
BATCH = 64


def scaled(x: Any) -> Any:
    return LayerScale(0.3, 4)(L.Dense(4, "tanh")(x))


def joined(x: Any) -> Any:
    return CustomScaleLayer(0.17)([L.Dense(4)(x), L.Dense(4, "tanh")(x)])


@pytest.mark.parametrize("call", [scaled, joined])
def test_one_step(call: Any, tmp_path: Path) -> None:
    assert_one_step(tmp_path, Case(functional([(6, 4)], call), floats(6, 4), floats(3), "mse"))


def test_written_files_are_keras_own(tmp_path: Path) -> None:
    x = keras.Input((5,))
    y = StochasticDepth(0.0)(LayerScale(0.1, 5)(x))
    model = keras.Model(x, CustomScaleLayer(0.5)([y, x]))
    model.compile("sgd", "mse")
    model.save(tmp_path / "in.keras")
    values = floats(5)
    np.save(tmp_path / "x.npy", values)
    run_plimsoll("fit", tmp_path / "in.keras", "--data", tmp_path / "x.npy", "--labels",
                 tmp_path / "x.npy", "--batch", 7, "--output", tmp_path / "out.keras")  # fmt: skip
    written = keras.saving.load_model(tmp_path / "out.keras")
    model.train_on_batch(values, values)
    for ours, expected in zip(written.get_weights(), model.get_weights()):
        np.testing.assert_allclose(ours, expected, atol=1e-6)
    run_plimsoll("convert", tmp_path / "out.keras", tmp_path / "out.h5")
    done = run_plimsoll("check", tmp_path / "out.h5")
    assert "can be trained" in done.stdout


def test_a_class_of_that_name_from_elsewhere_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), LayerScale(0.1, 4)])
    for module in ("mine.layers", "keras.layers"):
        config = json.loads(model.to_json())
        config["config"]["layers"][1]["module"] = module
        (tmp_path / "model.json").write_text(json.dumps(config))
        done = run_plimsoll("check", tmp_path / "model.json", check=False)
        assert done.returncode == 4
        assert f"the custom layer LayerScale of module {module}" in done.stdout + done.stderr


def test_classes_in_files_that_name_no_module_are_refused(tmp_path: Path) -> None:
    """HDF5 names none: they may be somebody's own."""
    x = keras.Input((4,))
    for name, layer in (("a", LayerScale(0.1, 4)), ("b", StochasticDepth(0.1))):
        keras.Model(x, layer(x)).save(tmp_path / f"{name}.h5")
        done = run_plimsoll("check", tmp_path / f"{name}.h5", check=False)
        assert done.returncode == 4 and "the custom layer" in done.stdout + done.stderr


def test_whole_samples_are_dropped(tmp_path: Path) -> None:
    """Each of a batch of ones is 0 or grows by 1 / (1 − rate): their losses say how many were."""
    inputs = keras.Input((4,))
    y = L.Dense(1, use_bias=False, kernel_initializer="ones")(StochasticDepth(RATE)(inputs))
    model = keras.Model(inputs, y)
    model.compile(keras.optimizers.SGD(0.0), "mean_squared_error")
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", np.ones((BATCH, 4), "float32"))
    np.save(tmp_path / "y.npy", np.zeros((BATCH, 1), "float32"))
    kept = []
    for seed in range(8):
        log = tmp_path / f"{seed}.jsonl"
        run_plimsoll("fit", tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--labels",
                     tmp_path / "y.npy", "--batch", BATCH, "--epochs", 1, "--seed", seed, "--log",
                     log)  # fmt: skip
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        loss = next(line["loss"] for line in lines if "loss" in line)
        kept.append(loss * BATCH * (1 - RATE) ** 2 / 16)
    assert kept == pytest.approx(np.round(kept), abs=1e-3)
    assert abs(np.mean(kept) / BATCH - (1 - RATE)) < 0.08  # three deviations of 512 draws are 0.06
    assert len(set(np.round(kept))) > 1
