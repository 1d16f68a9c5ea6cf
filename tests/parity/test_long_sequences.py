"""Sequences whose values do not fit at once: limits hold, and change no bit."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from harness import Case, run_plimsoll, save_case
from keras import layers as L
from test_transformer import transformer


def recurrent() -> keras.Model:
    return keras.Sequential(
        [keras.Input((20_000, 4)), L.LSTM(64), L.Dense(1, activation="sigmoid")]
    )


def long_case(name: str) -> Case:
    rng = np.random.default_rng(9)
    if name == "lstm":
        x = rng.random((3, 20_000, 4), dtype="float32")
        return Case(recurrent, x, rng.integers(0, 2, 3), "binary_crossentropy")
    # 48 MiB of logits a sample, and as many scores in each head.
    text = rng.integers(0, 4096, (1, 3073)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Case(lambda: transformer(2, 32, 2, 3072, 4096), text[:, :-1], text[:, 1:], loss)


# The limit; what keeping gates, scores or logits of a batch would take at least.
@pytest.mark.parametrize(
    "name, limit, kept_mib",
    [("lstm", "128MiB", 3 * 20_000 * 256 * 8 / 2**20), ("transformer", "64MiB", 2 * 48)],
)
def test_a_limit_holds_and_changes_no_bit(
    name: str, limit: str, kept_mib: float, tmp_path: Path
) -> None:
    case = long_case(name)
    weights = keras.Model.get_weights(case.build())
    arguments = save_case(tmp_path, case, weights, keras.optimizers.Adam(0.01))
    written = []
    for memory in (["--memory", limit], []):
        output = tmp_path / f"{len(written)}.keras"
        result = run_plimsoll(
            "fit", *arguments, "--batch", len(case.x), "--steps", 2, "--epochs", 9, "--no-shuffle",
            "--json", "--output", output, *memory,
        )  # fmt: skip
        written.append(keras.saving.load_model(output).get_weights())
        if memory:
            measured = json.loads(result.stdout)["measured_process_bytes"]
            assert measured <= float(limit.removesuffix("MiB")) * 2**20
            assert measured / 2**20 < kept_mib + 30  # of the process itself
    for a, b in zip(*written):
        np.testing.assert_array_equal(a, b)
