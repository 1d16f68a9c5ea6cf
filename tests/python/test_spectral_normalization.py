"""SpectralNormalization, whose calls change the kernel before a step's gradient, against Keras."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

import plimsoll

L = keras.layers
X = np.random.default_rng(0).normal(size=(40, 8, 8, 2)).astype("float32")
Y = np.random.default_rng(1).normal(size=(40, 3)).astype("float32")
FIT = {"batch_size": 8, "epochs": 2, "shuffle": False, "verbose": 0}


def images() -> list[L.Layer]:
    return [
        L.SpectralNormalization(L.Conv2D(4, 3, activation="relu", kernel_regularizer="l2")),
        L.SpectralNormalization(L.Conv2DTranspose(3, 2), power_iterations=3),
        L.Flatten(),
        L.SpectralNormalization(L.Dense(3, kernel_constraint="NonNeg"), name="head"),
    ]


def zeros_and_frozen() -> list[L.Layer]:
    frozen = L.SpectralNormalization(L.Dense(5), name="frozen")
    frozen.trainable = False
    return [
        L.Flatten(),
        frozen,
        L.SpectralNormalization(L.Dense(4, kernel_initializer="zeros")),
        L.Dense(3),
    ]


MODELS: dict[str, Callable[[], list[L.Layer]]] = {
    "images": images,
    "zeros and frozen": zeros_and_frozen,
}


def made(name: str, optimizer: str = "adam") -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((8, 8, 2)), *MODELS[name]()])
    model.compile(optimizer, "mse")
    return model


def assert_alike(ours: keras.Model, theirs: keras.Model) -> None:
    for mine, own in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(mine.numpy(), own.numpy(), rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_trains_as_keras(name: str) -> None:
    theirs, ours = made(name), made(name)
    expected = theirs.fit(X, Y, **FIT).history["loss"]
    np.testing.assert_allclose(plimsoll.fit(ours, X, Y, **FIT).history["loss"], expected, rtol=1e-4)
    assert_alike(ours, theirs)
    np.testing.assert_allclose(
        plimsoll.predict(ours, X), theirs.predict(X, verbose=0), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("ending", [".keras", ".h5"])
def test_a_file_trains_as_keras_at_any_limit(ending: str, build_dir: Path, tmp_path: Path) -> None:
    model = made("images")
    paths = [tmp_path / f"m{ending}", tmp_path / "x.npy", tmp_path / "y.npy"]
    model.save(paths[0])
    np.save(paths[1], X)
    np.save(paths[2], Y)
    found = []
    given = [paths[0], "--data", paths[1], "--labels", paths[2], "--batch", "8"]
    plan = subprocess.run([build_dir / "bin" / "plimsoll", "plan", *given, "--json"],
                          capture_output=True, text=True)  # fmt: skip
    least = json.loads(plan.stdout)["smallest_same_bits_bytes"]
    for memory in ([], ["--memory", str(least)]):
        output = tmp_path / f"out{len(memory)}{ending}"
        command = [
            *(build_dir / "bin" / "plimsoll", "fit", *given, "--epochs", "2", "--no-shuffle"),
            *("--output", output, *memory),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(keras.saving.load_model(output))
    for one, other in zip(found[0].get_weights(), found[1].get_weights(), strict=True):
        assert (one == other).all()
    model.fit(X, Y, **FIT)
    assert_alike(found[0], model)


def test_what_would_change_a_kernel_twice_is_refused() -> None:
    keras.backend.clear_session()
    shared = L.SpectralNormalization(L.Dense(3), name="twice")
    x = keras.Input((3,))
    model = keras.Model(x, shared(shared(x)))
    model.compile("sgd", "mse")
    with pytest.raises(plimsoll.Refused, match=r"\[twice\] expected one call"):
        plimsoll.fit(model, X[:, 0, 0].repeat(2, 1)[:, :3], Y, **FIT)
