"""Whole networks as Keras ships them: predictions, and the loss and gradients of one step."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from harness import Case, assert_one_step, build_in, run_plimsoll, shaken_weights
from keras import layers as L

RNG = np.random.default_rng(11)
SIDE, BATCH, CLASSES = 64, 2, 10


def application(make: Callable[..., keras.Model]) -> Callable[[], keras.Model]:
    return lambda: make(weights=None, input_shape=(SIDE, SIDE, 3), classes=CLASSES)


def unet(side: int = SIDE, first: int = 8) -> keras.Model:
    """Four levels, batch-normalized; from (side, side, 3) to one sigmoid per pixel."""
    image = x = keras.Input((side, side, 3))
    skips = []

    def twice(x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
        for _ in range(2):
            x = L.Conv2D(filters, 3, padding="same", use_bias=False)(x)
            x = L.ReLU()(L.BatchNormalization()(x))
        return x

    for level in range(4):
        x = twice(x, first << level)
        skips.append(x)
        x = L.MaxPooling2D()(x)
    x = twice(x, first << 4)
    for level in reversed(range(4)):
        x = L.Concatenate()([skips[level], L.Conv2DTranspose(first << level, 2, strides=2)(x)])
        x = twice(x, first << level)
    return keras.Model(image, L.Conv2D(1, 1, activation="sigmoid", dtype="float32")(x))


def classify(build: Callable[[], keras.Model]) -> Case:
    x = RNG.random((BATCH, SIDE, SIDE, 3)).astype("float32")
    y = RNG.integers(0, CLASSES, BATCH).astype("int32")
    return Case(build, x, y, "sparse_categorical_crossentropy")


def segment(build: Callable[[], keras.Model]) -> Case:
    x = RNG.random((BATCH, SIDE, SIDE, 3)).astype("float32")
    y = RNG.integers(0, 2, (BATCH, SIDE, SIDE, 1)).astype("float32")
    return Case(build, x, y, "binary_crossentropy")


NETWORKS = {
    "ResNet50": classify(application(keras.applications.ResNet50)),
    "MobileNetV2": classify(application(keras.applications.MobileNetV2)),
    "VGG16": classify(application(keras.applications.VGG16)),
    "DenseNet121": classify(application(keras.applications.DenseNet121)),
    "U-Net": segment(unet),
}


def assert_predictions(folder: Path, case: Case) -> None:
    """Within 1e-5 of the largest output, and no farther from float64 than twice Keras's float32."""
    weights = shaken_weights(build_in("float32", case, None))
    model = build_in("float32", case, weights)
    single = model.predict(case.x, verbose=0)
    model.save(folder / "model.keras")
    np.save(folder / "x.npy", case.x)
    run_plimsoll(
        "predict", folder / "model.keras", "--data", folder / "x.npy", "--batch", BATCH,
        "--output", folder / "out.npy",
    )  # fmt: skip
    ours = np.load(folder / "out.npy")
    exact = build_in("float64", case, weights).predict(case.x.astype("float64"), verbose=0)
    keras.config.set_floatx("float32")
    assert ours.shape == single.shape
    error, keras_error = np.abs(ours - exact).max(), np.abs(single - exact).max()
    print(f"off by {error:.2e}, Keras by {keras_error:.2e}, of {np.abs(exact).max():.2e}")
    assert np.abs(ours - single).max() <= 1e-5 * np.abs(single).max() + keras_error
    assert error <= max(1e-6 * np.abs(exact).max(), 2 * keras_error)


@pytest.mark.parametrize("name", ["MobileNetV2", "U-Net"])
def test_predictions(name: str, tmp_path: Path) -> None:
    assert_predictions(tmp_path, NETWORKS[name])


@pytest.mark.parametrize("name", ["VGG16", "DenseNet121", "U-Net"])
def test_one_step(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, NETWORKS[name])
