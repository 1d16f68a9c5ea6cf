"""The larger networks at full size: they train from the files that Keras wrote, and back.

The networks are those of networks.py in PLIMSOLL_TEST_DATA, and VGG16 of keras.applications. Small
batches, few steps: how fast is asked elsewhere.
"""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest
from harness import Case, assert_one_step, read_keras, read_log, run_plimsoll
from scripts import load
from test_networks import assert_predictions, assert_round_trip

DATA = os.environ.get("PLIMSOLL_TEST_DATA")
NETWORKS = Path(DATA) / "networks.py" if DATA else Path("/nonexistent")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not NETWORKS.is_file(),
        reason="PLIMSOLL_TEST_DATA does not name a folder with networks.py",
    ),
]
SAMPLES, STEPS = 4, 3
RNG = np.random.default_rng(17)


def images(side: int) -> np.ndarray:
    return RNG.random((SAMPLES, side, side, 3), dtype="float32")


def classified() -> tuple[np.ndarray, np.ndarray, Any]:
    return images(224), RNG.integers(0, 1000, SAMPLES), "sparse_categorical_crossentropy"


def segmented() -> tuple[np.ndarray, np.ndarray, Any]:
    masks = RNG.integers(0, 2, (SAMPLES, 256, 256, 1)).astype("float32")
    return images(256), masks, "binary_crossentropy"


def text() -> tuple[np.ndarray, np.ndarray, Any]:
    tokens = RNG.integers(0, 8192, (SAMPLES, 257)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return tokens[:, :-1], tokens[:, 1:], loss


WORKLOADS: dict[str, tuple[Callable[[ModuleType], keras.Model], Callable[[], Any]]] = {
    "ResNet-50": (lambda n: n.resnet50(), classified),
    "MobileNetV2": (lambda n: n.mobilenetv2(), classified),
    "U-Net": (lambda n: n.unet(), segmented),
    "GPT-small": (lambda n: n.gpt(6, 384, 6, 256, 8192), text),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_trains_from_its_file(name: str, tmp_path: Path) -> None:
    build, make_data = WORKLOADS[name]
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(7)
    model = build(load(NETWORKS))
    x, y, loss = make_data()
    model.compile(keras.optimizers.Adam(0.001), loss=loss)
    model.save(tmp_path / "in.keras")
    weights = [w.size for w in model.get_weights()]
    first = float(model.compute_loss(y=y[:2], y_pred=model(x[:2], training=True)))
    del model
    gc.collect()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    run_plimsoll(
        "fit", tmp_path / "in.keras", "--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy",
        "--batch", 2, "--steps", STEPS, "--epochs", STEPS, "--no-shuffle", "--output",
        tmp_path / "out.keras", "--log", tmp_path / "log.jsonl", "--log-steps",
    )  # fmt: skip
    losses = [row["loss"] for row in read_log(tmp_path / "log.jsonl") if "step" in row]
    print(f"losses {losses}, Keras begins with {first}")
    assert len(losses) == STEPS
    assert abs(losses[0] - first) <= 1e-4 * abs(first)
    assert np.isfinite(losses).all()
    stored, slots = read_keras(tmp_path / "out.keras")
    assert sorted(w.size for w in stored.values() if w.dtype == np.float32) == sorted(weights)
    assert int(slots[0]) == STEPS


def gpt_small() -> keras.Model:
    return load(NETWORKS).gpt(6, 384, 6, 256, 8192)


def full_case(name: str) -> Case:
    """Few samples for a network of 16.9 or 138 million weights."""
    if name == "GPT-small":
        x, y, loss = text()
        return Case(gpt_small, x, y, loss)
    x, y, _ = classified()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    build = lambda: keras.applications.VGG16(weights=None, classifier_activation=None)  # noqa: E731
    return Case(build, x[:2], y[:2], loss, noise=0.005)


FULL = ["GPT-small", "VGG16"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", FULL)
def test_predictions_at_full_size(name: str, tmp_path: Path) -> None:
    assert_predictions(tmp_path, full_case(name))


@pytest.mark.nightly
@pytest.mark.parametrize("name", FULL)
def test_one_step_at_full_size(name: str, tmp_path: Path) -> None:
    """The gradient of the keys' bias is 0: what float32 makes of it is rounding.

    It is that of a sum over all keys, which Keras takes from the very numbers that it subtracts
    from, and attention in blocks from the output: two to four times Keras's, of 256 keys.
    """
    assert_one_step(tmp_path, full_case(name), zero=5e-9)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FULL)
def test_round_trip_at_full_size(name: str, tmp_path: Path) -> None:
    assert_round_trip(tmp_path, full_case(name))
