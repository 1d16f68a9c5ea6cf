"""stateful=True: what a recurrent layer keeps from batch to batch, as Keras keeps it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import read_log, run_plimsoll
from keras import layers as L

BATCH, SAMPLES, STEPS, FEATURES = 4, 12, 5, 3
KEPT: dict[str, Any] = {"stateful": True}
LAYERS: dict[str, Callable[[], list[L.Layer]]] = {
    "LSTM": lambda: [L.LSTM(6, **KEPT)],
    "GRU": lambda: [L.GRU(5, **KEPT)],
    "SimpleRNN": lambda: [L.SimpleRNN(5, **KEPT)],
    "stacked": lambda: [L.GRU(4, return_sequences=True, **KEPT), L.LSTM(3, **KEPT)],
    "backwards": lambda: [L.LSTM(4, go_backwards=True, return_sequences=True, **KEPT)],
    "masked": lambda: [L.Masking(), L.GRU(4, return_sequences=True, **KEPT)],
    "bidirectional": lambda: [L.Bidirectional(L.LSTM(3, **KEPT))],
}


def network(name: str) -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [keras.Input(batch_shape=(BATCH, STEPS, FEATURES)), *LAYERS[name](), L.Flatten(),
         L.Dense(2)]
    )  # fmt: skip
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def samples(count: int = SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1, (count, STEPS, FEATURES)).astype("float32")
    x[::3, -2:] = 0  # masked where anything is
    return x, rng.normal(0, 1, (count, 2)).astype("float32")


def saved(
    folder: Path, model: keras.Model, x: np.ndarray, y: np.ndarray, batch: int = BATCH
) -> list[Any]:
    model.save(folder / "model.keras")
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    return [folder / "model.keras", "--data", folder / "x.npy", "--labels", folder / "y.npy",
            "--batch", batch, "--no-shuffle"]  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_states_go_from_batch_to_batch(name: str, tmp_path: Path) -> None:
    """Over three batches, two epochs and the validation between them."""
    model, (x, y) = network(name), samples()
    arguments = saved(tmp_path, model, x, y)
    run_plimsoll("fit", *arguments, "--epochs", 2, "--validation", tmp_path / "x.npy",
                 "--validation-labels", tmp_path / "y.npy", "--log", tmp_path / "log.jsonl",
                 "--output", tmp_path / "out.keras")  # fmt: skip
    told = model.fit(x, y, BATCH, 2, shuffle=False, validation_data=(x, y),
                     validation_batch_size=BATCH, verbose=0).history  # fmt: skip
    for epoch, row in enumerate(read_log(tmp_path / "log.jsonl")):
        assert row["loss"] == pytest.approx(told["loss"][epoch], rel=1e-5)
        assert row["val_loss"] == pytest.approx(told["val_loss"][epoch], rel=1e-5)
    ours = keras.saving.load_model(tmp_path / "out.keras").get_weights()
    for got, want in zip(ours, model.get_weights(), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_predictions_carry_states_on(tmp_path: Path) -> None:
    x, y = samples()
    x[BATCH:] = x[:BATCH].repeat(2, 0)[: len(x) - BATCH]
    model = network("stacked")
    saved(tmp_path, model, x, y)
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--batch",
                 BATCH, "--output", tmp_path / "p.npy")  # fmt: skip
    ours = np.load(tmp_path / "p.npy")
    theirs = model.predict(x, BATCH, verbose=0)
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()
    one = np.zeros((2 * BATCH, STEPS, FEATURES), "float32") + x[0]
    np.save(tmp_path / "one.npy", one)
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "one.npy", "--batch",
                 BATCH, "--output", tmp_path / "p.npy")  # fmt: skip
    first, second = np.load(tmp_path / "p.npy").reshape(2, BATCH, -1)
    assert (first == first[0]).all()
    assert np.abs(first - second).max() > 1e-3, "the second batch begins where the first one ended"


def test_every_limit_gives_the_same_bits(tmp_path: Path) -> None:
    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [keras.Input(batch_shape=(64, 120, 32)), L.LSTM(64, return_sequences=True, **KEPT),
         L.GRU(16, **KEPT), L.Dense(2)]
    )  # fmt: skip
    model.compile(keras.optimizers.SGD(0.1), "mse")
    rng = np.random.default_rng(6)
    x = rng.normal(0, 1, (256, 120, 32)).astype("float32")
    arguments = saved(tmp_path, model, x, rng.normal(0, 1, (256, 2)).astype("float32"), 64)
    asked = [word for word in arguments if word != "--no-shuffle"]
    # The fastest plan is the smallest one here, so that the other one has to be asked for.
    ways: list[list[Any]] = [[], ["--without", "slices"], ["--threads", 1]]
    strategies = [
        json.loads(run_plimsoll("plan", *asked, "--parts", 2, *way, "--json").stdout)["strategy"]
        for way in ways
    ]
    assert "slices of" in strategies[0] and "slices of" not in strategies[1], strategies
    found = []
    for way in ways:
        run_plimsoll("fit", *arguments, "--parts", 2, "--epochs", 2, "--output",
                     tmp_path / "out.keras", *way)  # fmt: skip
        found.append(keras.saving.load_model(tmp_path / "out.keras").get_weights())
    for other in found[1:]:
        assert all((a == b).all() for a, b in zip(found[0], other))


def refusal(folder: Path, model: keras.Model, count: int, batch: int) -> str:
    arguments = saved(folder, model, *samples(count), batch)
    asked = [word for word in arguments if word != "--no-shuffle"]
    done = run_plimsoll("plan", *asked, check=False)
    assert done.returncode == 4, done.stdout + done.stderr
    return done.stderr


def test_other_batches_are_refused(tmp_path: Path) -> None:
    assert "batches of 4 samples" in refusal(tmp_path, network("LSTM"), 12, 6)
    assert "received one of 2" in refusal(tmp_path, network("LSTM"), 10, 4)


def test_layers_that_do_not_carry_states_say_so(tmp_path: Path) -> None:
    made = [
        L.RNN(L.GRUCell(3), stateful=True),
        L.ConvLSTM1D(2, 2, stateful=True),
    ]
    for layer in made:
        shape = (BATCH, STEPS, FEATURES) if isinstance(layer.cell, L.GRUCell) else (4, 5, 3, 2)
        model = keras.Sequential([keras.Input(batch_shape=shape), layer])
        model.save(tmp_path / "model.keras")
        done = run_plimsoll("check", tmp_path / "model.keras", check=False)
        assert done.returncode == 4
        assert "LSTM, GRU and SimpleRNN alone" in done.stdout + done.stderr
