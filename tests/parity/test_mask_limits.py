"""Masked statistics, merges and metrics: the same bits at every limit, and two steps of files.

The files are those of tests/data/masks; each has its inputs and targets beside it. Models of the
same kinds that are built here are in test_masks_table.py and test_layer_options.py.
"""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
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


FOLDER = Path(__file__).parents[1] / "data" / "masks"

LOSSES = {
    "td_bn": (1.793436, 4.346334),
    "masked_multiply": (0.906856, 0.859643),
    "masked_attention_pool": (0.269751, 0.735120),
    "functional_masking": (2.056086, 1.199298),
    "masked_concat": (1.558792, 0.785975),
    "masked_attention_layer": (0.846654, 0.547342),
    "bool_mask_input": (0.849064, 0.389432),
    "mask_bn": (1.019201, 0.473689),
    "softmax_axis1": (1.798250, 0.020013),
    "td_model": (1.814848, 1.839638),
    "ops_sqrt_matmul": (11.649649, 5.299928),
}


@pytest.mark.parametrize("name", LOSSES)
def test_two_steps(name: str, tmp_path: Path) -> None:
    data = [part for x in sorted(FOLDER.glob(f"{name}-x*.npy")) for part in ("--data", x)]
    labels = [part for y in sorted(FOLDER.glob(f"{name}-y*.npy")) for part in ("--labels", y)]
    run_plimsoll(
        "fit", FOLDER / f"{name}.keras", *data, *labels, "--batch", 4, "--steps", 2, "--no-shuffle",
        "--log-steps", "--log", tmp_path / "l.jsonl",
    )  # fmt: skip
    losses = [row["loss"] for row in read_log(tmp_path / "l.jsonl") if "step" in row]
    assert losses == pytest.approx(LOSSES[name], rel=2e-5, abs=2e-6)


def test_a_metric_counts_what_the_mask_shows(tmp_path: Path) -> None:
    file = FOLDER / "masked_metric"
    result = run_plimsoll(
        "evaluate", f"{file}.keras", "--data", f"{file}-x.npy", "--labels", f"{file}-y.npy",
        "--batch", 4,
    )  # fmt: skip
    assert "0.416667" in result.stdout
