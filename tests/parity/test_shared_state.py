"""Layers whose state goes from call to call: several calls in one model come in Keras's order."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from harness import run_plimsoll
from keras import layers as L

WIDTH, BATCH, STEPS = 4, 8, 3


def normalization() -> L.Layer:
    return L.BatchNormalization(momentum=0.6)


def inner_model() -> L.Layer:
    x = keras.Input((WIDTH,))
    return keras.Model(x, L.Dense(WIDTH)(normalization()(x)))


def wrapped() -> L.Layer:
    inner = L.TimeDistributed(normalization())
    x = keras.Input((WIDTH,))
    return keras.Model(x, L.Reshape((WIDTH,))(inner(L.Reshape((WIDTH, 1))(x))))


SHARED: dict[str, Callable[[], L.Layer]] = {
    "BatchNormalization": normalization,
    "a model": inner_model,
    "TimeDistributed": wrapped,
}


# Keras runs the call at a greater depth first; at the same depth, whom its walk meets first.
def deep_first(shared: L.Layer, x: keras.KerasTensor) -> list[keras.KerasTensor]:
    deep = shared(L.Dense(WIDTH)(x))
    return [deep, shared(x)]


def shallow_first(shared: L.Layer, x: keras.KerasTensor) -> list[keras.KerasTensor]:
    shallow = shared(x)
    return [shared(L.Dense(WIDTH)(x)), shallow]


def used_further(shared: L.Layer, x: keras.KerasTensor) -> list[keras.KerasTensor]:
    deep = L.Dense(WIDTH, "tanh")(shared(L.Dense(WIDTH)(x)))
    return [shared(x), deep]


def three(shared: L.Layer, x: keras.KerasTensor) -> list[keras.KerasTensor]:
    first, second = shared(2 * x), shared(L.Dense(WIDTH)(x))
    return [L.Dense(WIDTH, "tanh")(second), shared(L.Dense(WIDTH, "tanh")(first)), first]


@pytest.mark.parametrize("calls", [deep_first, shallow_first, used_further, three])
@pytest.mark.parametrize("name", SHARED)
def test_calls_come_in_kerass_order(name: str, calls: Callable[..., list], tmp_path: Path) -> None:
    keras.utils.set_random_seed(1)
    x = keras.Input((WIDTH,))
    model = keras.Model(x, L.Concatenate()(calls(SHARED[name](), x)))
    model.compile("sgd", "mse")
    model.save(tmp_path / "in.keras")
    rng = np.random.default_rng(0)
    data = rng.normal(size=(BATCH * STEPS, WIDTH)).astype("float32")
    labels = rng.normal(size=(BATCH * STEPS, model.output_shape[-1])).astype("float32")
    np.savez(tmp_path / "d.npz", x=data, y=labels)
    run_plimsoll("fit", tmp_path / "in.keras", "--data", tmp_path / "d.npz", "--batch", BATCH,
                 "--no-shuffle", "--output", tmp_path / "out.keras")  # fmt: skip
    # What Keras runs is the model of the file, as ours is.
    model = keras.saving.load_model(tmp_path / "in.keras")
    before = [np.asarray(w.numpy()) for w in model.weights]
    model.fit(data, labels, batch_size=BATCH, shuffle=False, verbose=0)
    ours = keras.saving.load_model(tmp_path / "out.keras")
    for mine, weight, begin in zip(ours.weights, model.weights, before):
        moved = np.linalg.norm(np.ravel(np.asarray(weight.numpy()) - begin))
        error = np.linalg.norm(np.ravel(np.asarray(weight.numpy()) - np.asarray(mine.numpy())))
        assert error <= 1e-5 * moved + 1e-6, (weight.path, error, moved)
