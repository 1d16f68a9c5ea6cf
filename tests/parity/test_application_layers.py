"""Layers that keras.applications defines for its own networks, in modules of its own."""

from pathlib import Path

import keras
import numpy as np
import pytest
from harness import Case, assert_one_step, run_plimsoll
from keras import layers as L
from keras.src.applications.convnext import LayerScale, StochasticDepth
from keras.src.applications.inception_resnet_v2 import CustomScaleLayer

RATE = 0.25
BATCH = 64


def network(rate: float) -> keras.Model:
    x = inputs = keras.Input((6, 6, 3))
    x = L.Conv2D(4, 3, padding="same", activation="tanh")(x)
    y = LayerScale(0.5, 4)(L.Conv2D(4, 1)(x))
    x = L.Add()([x, StochasticDepth(rate)(y)])
    x = CustomScaleLayer(0.17)([x, L.Conv2D(4, 1)(x)])
    return keras.Model(inputs, L.Dense(3)(L.GlobalAveragePooling2D()(x)))


def test_they_compute_what_keras_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(7, 6, 6, 3)).astype("float32")
    y = rng.normal(size=(7, 3)).astype("float32")
    assert_one_step(tmp_path, Case(lambda: network(0.0), x, y, "mean_squared_error"))


def test_what_is_written_is_read_by_keras(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(8, 6, 6, 3)).astype("float32")
    model = network(RATE)
    model.compile("sgd", "mean_squared_error")
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", rng.normal(size=(8, 3)).astype("float32"))
    for name in ("trained.keras", "trained.h5"):
        run_plimsoll("fit", tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--labels",
                     tmp_path / "y.npy", "--epochs", 2, "--output", tmp_path / name)  # fmt: skip
        custom = [LayerScale, StochasticDepth, CustomScaleLayer]
        objects = {each.__name__: each for each in custom} if name.endswith("h5") else None
        trained = keras.saving.load_model(tmp_path / name, custom_objects=objects)
        assert not np.array_equal(trained.get_weights()[0], model.get_weights()[0])
        run_plimsoll("predict", tmp_path / name, "--data", tmp_path / "x.npy", "--output",
                     tmp_path / "out.npy")  # fmt: skip
        expected = trained.predict(x, verbose=0)
        assert np.load(tmp_path / "out.npy") == pytest.approx(expected, abs=1e-5)


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
        run_plimsoll("fit", tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--labels",
                     tmp_path / "y.npy", "--batch", BATCH, "--epochs", 1, "--seed", seed, "--log",
                     tmp_path / "log.jsonl")  # fmt: skip
        lines = (tmp_path / "log.jsonl").read_text().splitlines()
        (tmp_path / "log.jsonl").unlink()
        loss = next(float(part.split(":")[1].strip(" }")) for line in lines
                    for part in line.split(",") if '"loss"' in part)  # fmt: skip
        kept.append(loss * BATCH * (1 - RATE) ** 2 / 16)
    assert kept == pytest.approx(np.round(kept), abs=1e-3)
    assert abs(np.mean(kept) / BATCH - (1 - RATE)) < 0.08  # three deviations of 512 draws are 0.06
    assert len(set(np.round(kept))) > 1
