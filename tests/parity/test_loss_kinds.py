"""Losses that are ratios, or of pairs of samples, trained by Keras and by us."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import run_plimsoll
from keras import layers as L
from keras import losses
from test_compile import BATCH, assert_as_keras, classifier, labels, numbers, pixels, weights

Made = Callable[[], tuple[keras.Model, Any, np.ndarray]]


def of_pixels(loss: Callable[[], Any]) -> Made:
    return lambda: (pixels("sigmoid"), loss(), np.eye(3, dtype="float32")[labels(3, 4, 5)])


def of_classes(loss: Callable[[], Any]) -> Made:
    return lambda: (classifier(), loss(), np.eye(3, dtype="float32")[labels(3)])


def embeddings(loss: Callable[[], Any]) -> Made:
    """One sample is of a class of its own: nothing is like it."""
    numbered = np.array([0, 0, 1, 7, 0, 1, 1, 2], "int32")
    unit = lambda: keras.Sequential([  # noqa: E731
        keras.Input((5,)), L.Dense(4), L.UnitNormalization(),
    ])  # fmt: skip
    return lambda: (unit(), loss(), numbered)


KINDS: dict[str, Made] = {
    "Dice": of_pixels(losses.Dice),
    "Dice of a sample": of_pixels(lambda: losses.Dice(axis=(1, 2, 3))),
    "Dice of a class": of_pixels(lambda: losses.Dice(axis=[1, 2])),
    "Dice, summed": of_pixels(lambda: losses.Dice(reduction="sum")),
    "dice of rows": of_classes(lambda: losses.Dice(axis=-1)),
    "Tversky": of_pixels(losses.Tversky),
    "Tversky by name": of_classes(lambda: "tversky"),
    "Tversky of a sample": of_pixels(lambda: losses.Tversky(0.3, 0.8, axis=(1, 2, 3))),
    "Circle": embeddings(lambda: losses.Circle(gamma=4.0, margin=0.3)),
    "Circle with each sample itself": embeddings(
        lambda: losses.Circle(gamma=4.0, margin=0.3, remove_diagonal=False)
    ),
    "Circle, summed": embeddings(lambda: losses.Circle(gamma=4.0, reduction="sum")),
    "generalized cross-entropy": lambda: (
        classifier(),
        losses.CategoricalGeneralizedCrossEntropy(0.7),
        labels(3),
    ),
    "generalized cross-entropy, summed": lambda: (
        classifier(),
        losses.CategoricalGeneralizedCrossEntropy(reduction="sum"),
        labels(3),
    ),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", KINDS)
def test_losses_are_those_of_keras(name: str, weighted: bool, tmp_path: Path) -> None:
    if weighted and name == "Dice of a class":
        pytest.skip("Keras does not repeat weights of samples over classes")
    model, loss, y = KINDS[name]()
    model.compile(keras.optimizers.SGD(0.5), loss)
    x = numbers(*model.input_shape[1:])
    assert_as_keras(tmp_path, model, x, y, weights() if weighted else None)


def test_axes_with_the_batch_are_refused(tmp_path: Path) -> None:
    model = pixels("sigmoid")
    model.compile("sgd", losses.Dice(axis=(0, 1)))
    model.save(tmp_path / "m.keras")
    done = run_plimsoll("check", tmp_path / "m.keras", check=False)
    assert done.returncode == 4
    assert "axis: expected axes after the batch, or all of them" in done.stdout


def test_a_ratio_of_a_batch_with_a_mask_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([
        keras.Input((6,), dtype="int32"), L.Embedding(9, 4, mask_zero=True),
        L.Dense(3, activation="softmax"),
    ])  # fmt: skip
    model.compile("sgd", losses.Dice())
    model.save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", labels(9, 6))
    np.save(tmp_path / "y.npy", np.eye(3, dtype="float32")[labels(3, 6)])
    done = run_plimsoll("evaluate", tmp_path / "m.keras", "--data", tmp_path / "x.npy",
                        "--labels", tmp_path / "y.npy", "--batch", BATCH, check=False)  # fmt: skip
    assert done.returncode == 4
    assert "expected an output without a mask" in done.stderr
