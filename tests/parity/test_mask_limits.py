"""Masked statistics, merges and metrics give the same bits at every limit."""

import json
from pathlib import Path

import keras
import numpy as np
from harness import read_keras, read_log, run_plimsoll
from keras import layers as L

BATCH, STEPS, WIDTH = 1024, 3, 48


def network() -> keras.Model:
    x = keras.Input((STEPS, WIDTH))
    y = L.BatchNormalization()(L.Dense(WIDTH, activation="tanh")(L.Masking()(x)))
    y = L.Multiply()([y, L.Dense(WIDTH, activation="sigmoid")(x)])
    y = L.Maximum()([L.Dense(WIDTH)(L.Masking()(x)), y])
    inner = keras.Sequential(
        [keras.Input((WIDTH,)), L.Dense(WIDTH), L.BatchNormalization(), L.ReLU()]
    )
    y = L.TimeDistributed(inner)(y)
    y = keras.ops.sqrt(keras.ops.square(y) + 1.0)
    return keras.Model(x, L.Dense(4)(L.BatchNormalization()(L.Masking(0.25)(y))))


def test_every_limit_gives_the_same_bits(tmp_path: Path) -> None:
    keras.utils.set_random_seed(3)
    model = network()
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    model.save(tmp_path / "model.keras")
    source = np.random.default_rng(5)
    x = source.normal(size=(BATCH, STEPS, WIDTH)).astype("float32")
    x[source.uniform(size=(BATCH, STEPS)) < 0.3] = 0
    np.save(tmp_path / "x.npy", x)
    y = source.normal(size=(BATCH, STEPS, 4)).astype("float32")
    np.save(tmp_path / "y.npy", y)
    arguments = [
        tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy",
        "--batch", BATCH,
    ]  # fmt: skip
    planned = json.loads(run_plimsoll("plan", *arguments, "--json").stdout)
    limits = [point["process_bytes"] for point in planned["frontier"]]
    assert any(point["strategy"].startswith("slices") for point in planned["frontier"])
    chosen = sorted({min(limits), sorted(limits)[len(limits) // 2]})

    results = []
    for limit in [None, *chosen]:
        output = tmp_path / f"out{len(results)}.keras"
        log = tmp_path / f"log{len(results)}.jsonl"
        options = [] if limit is None else ["--memory", limit]
        run_plimsoll("fit", *arguments, "--epochs", 1, "--no-shuffle", "--output", output,
                     "--log", log, *options)  # fmt: skip
        epoch = next(row for row in read_log(log) if "epoch" in row and "mae" in row)
        results.append((read_keras(output)[0], epoch["loss"], epoch["mae"]))
    for weights, loss, mae in results[1:]:
        assert all((weights[name] == results[0][0][name]).all() for name in weights)
        assert (loss, mae) == results[0][1:]

    logs = model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history
    assert abs(results[0][1] - logs["loss"][0]) < 1e-5
    assert abs(results[0][2] - logs["mae"][0]) < 1e-5
