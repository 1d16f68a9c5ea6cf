"""All families of keras.applications, each with its smallest and its largest network (nightly).

Every network predicts as Keras does, its one step has Keras's loss and gradients (activations that
have kinks are smooth for that, as in test_networks.py, and layers that draw are off), and training
within three limits ends with the bits of training without one.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import Case, assert_one_step, read_keras, run_plimsoll
from keras import layers as L
from test_networks import KINKED, assert_predictions

pytestmark = pytest.mark.nightly

SIDE, BATCH, CLASSES = 96, 2, 10  # the smallest pictures that all families take
STEPS = 2
FAMILIES = {
    "ConvNeXt": ("ConvNeXtTiny", "ConvNeXtLarge"),
    "DenseNet": ("DenseNet121", "DenseNet201"),
    "EfficientNet": ("EfficientNetB0", "EfficientNetB7"),
    "EfficientNetV2": ("EfficientNetV2B0", "EfficientNetV2L"),
    "Inception": ("InceptionV3", "InceptionResNetV2"),
    "MobileNet": ("MobileNet", "MobileNetV2"),
    "MobileNetV3": ("MobileNetV3Small", "MobileNetV3Large"),
    "NASNet": ("NASNetMobile", "NASNetLarge"),
    "ResNet": ("ResNet50", "ResNet152"),
    "ResNetV2": ("ResNet50V2", "ResNet152V2"),
    "VGG": ("VGG16", "VGG19"),
    "Xception": ("Xception",),
}
# Where weights that are moved by more have Keras's own float32 a quarter off.
NOISE = {"EfficientNetB7": 0.02}
# With 813 layers, where 18 numbers make a mean: over six draws of the weights Keras is 1.2e-5
# to 8.2e-5 off in float32 and ours 1.1e-5 to 1.2e-4, each time another one more.
ROUNDINGS = {"EfficientNetB7": 4}
NETWORKS = [name for names in FAMILIES.values() for name in names]


def network(name: str, activation: str | None = None) -> Callable[[], keras.Model]:
    return lambda: getattr(keras.applications, name)(
        weights=None, input_shape=(SIDE, SIDE, 3), classes=CLASSES, classifier_activation=activation
    )


def calm(build: Callable[[], keras.Model]) -> Callable[[], keras.Model]:
    """Nothing drawn, and silu in place of what has a kink."""

    def swap(layer: L.Layer) -> L.Layer:
        kinked = isinstance(layer, L.ReLU) or getattr(layer, "activation", None) in KINKED
        if kinked and isinstance(layer, (L.ReLU, L.Activation)):
            return L.Activation("silu", name=layer.name)
        config = layer.get_config()
        if isinstance(layer, L.Dropout):
            config["rate"] = 0.0
        if "drop_path_rate" in config:
            config["drop_path_rate"] = 0.0
        if kinked:
            config["activation"] = "silu"
        return layer.__class__.from_config(config)

    return lambda: keras.models.clone_model(build(), clone_function=swap)


def case(build: Callable[[], keras.Model], name: str) -> Case:
    rng = np.random.default_rng(11)
    x = (255 * rng.random((BATCH, SIDE, SIDE, 3))).astype("float32")
    y = rng.integers(0, CLASSES, BATCH).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Case(build, x, y, loss, noise=NOISE.get(name, Case.noise))


def test_all_families_are_here() -> None:
    public = {n for n in dir(keras.applications) if n[0].isupper()}
    assert set(NETWORKS) <= public
    other = {n for n in public if not any(n.startswith(f) for f in FAMILIES)}
    assert other == set(), "families without a network here"


@pytest.mark.parametrize("name", NETWORKS)
def test_predictions(name: str, tmp_path: Path) -> None:
    assert_predictions(tmp_path, case(network(name), name))


@pytest.mark.parametrize("name", NETWORKS)
def test_one_step(name: str, tmp_path: Path) -> None:
    made = case(calm(network(name)), name)
    assert_one_step(tmp_path, made, roundings=ROUNDINGS.get(name, 0), loss_share=2e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_three_limits_give_the_same_bits(name: str, tmp_path: Path) -> None:
    """With what draws: at the smallest limit without a spill file, and at two above it."""
    made = case(network(name, "softmax"), name)
    made.build().save(tmp_path / "in.keras")
    rng = np.random.default_rng(12)
    np.save(tmp_path / "x.npy", (255 * rng.random((8 * BATCH, SIDE, SIDE, 3))).astype("float32"))
    np.save(tmp_path / "y.npy", rng.integers(0, CLASSES, 8 * BATCH).astype("int32"))
    data = ("--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--batch", 4 * BATCH,
            "--loss", "sparse_categorical_crossentropy", "--optimizer", "adam")  # fmt: skip

    def trained(*options: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        told = run_plimsoll("fit", tmp_path / "in.keras", *data, "--steps", STEPS,
                            "--output", tmp_path / "out.keras", "--json", *options)  # fmt: skip
        return read_keras(tmp_path / "out.keras")[0], json.loads(told.stdout)

    free, told = trained()
    planned = json.loads(
        run_plimsoll("plan", tmp_path / "in.keras", *data, "--no-spill", "--json").stdout
    )
    least, most = planned["smallest_same_bits_bytes"], told["predicted_process_bytes"]
    for share in (0.05, 0.3, 0.6):
        limit = int(least + share * max(0, most - least))
        within, told = trained("--memory", limit)
        assert told["measured_process_bytes"] <= limit
        assert sorted(within) == sorted(free)
        for key, array in within.items():
            assert array.tobytes() == free[key].tobytes(), (key, limit)
        print(f"{limit >> 20} of {most >> 20} MiB")
