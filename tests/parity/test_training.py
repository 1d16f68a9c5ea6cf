"""Many steps against Keras: optimizers, workloads, the short last batch, metrics."""

from pathlib import Path

import keras
import numpy as np
import pytest
from cases import OPTIMIZERS, chain, lazy
from harness import (
    Case,
    assert_many_steps,
    assert_one_step,
    build_in,
    read_log,
    run_plimsoll,
    save_case,
    shaken_weights,
)
from keras import layers as L
from workloads import workload


def small_net() -> Case:
    rng = np.random.default_rng(2)
    build = chain(
        (8, 8, 3), lazy(L.Conv2D, 6, 3, activation="relu"), lazy(L.MaxPooling2D, 2),
        lazy(L.Flatten), lazy(L.Dense, 10, activation="tanh"),
        lazy(L.Dense, 4, activation="softmax"),
    )  # fmt: skip
    x = rng.normal(0, 1, (50, 8, 8, 3)).astype("float32")
    y = rng.integers(0, 4, 50).astype("int32")
    return Case(build, x, y, "sparse_categorical_crossentropy", metrics=["accuracy"])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str, tmp_path: Path) -> None:
    # 50 samples in batches of 16: the last batch is short, four steps an epoch.
    assert_many_steps(tmp_path, small_net(), OPTIMIZERS[name], 16, 12)


LONG = [pytest.param(name, marks=pytest.mark.nightly) for name in ("S1c", "S0c")]


@pytest.mark.parametrize("name", ["S1a", "S1b", "S2", "S4", "S0a", *LONG])
def test_workload(name: str, tmp_path: Path) -> None:
    case, batch = workload(name, samples=8 if name == "S0a" else 100)
    batch = min(batch, 3 if name == "S0a" else 40)  # the short last batch comes
    assert_one_step(tmp_path, Case(case.build, case.x[:8], case.y[:8], case.loss))
    steps = 6 if name == "S0a" else 12
    assert_many_steps(tmp_path, case, lambda: keras.optimizers.Adam(0.001), batch, steps)


METRICS = {
    "sparse": ("sparse_categorical_crossentropy", 4, ["accuracy", "mae"]),
    "binary": ("binary_crossentropy", 1, ["accuracy", "mse"]),
    "categorical": ("categorical_crossentropy", 4, ["accuracy", "categorical_accuracy"]),
    "square": ("mse", 1, ["mse", "mean_absolute_error"]),
}


@pytest.mark.parametrize("name", METRICS)
def test_metrics_and_evaluation(name: str, tmp_path: Path) -> None:
    """Metrics of epochs with a short last batch, training and evaluation, as Keras prints them."""
    loss, outputs, metrics = METRICS[name]
    rng = np.random.default_rng(3)
    head = {1: "sigmoid", 4: "softmax"}[outputs]
    build = chain(
        (6,), lazy(L.Dense, 8, activation="relu"), lazy(L.Dense, outputs, activation=head)
    )
    x = rng.normal(0, 1, (45, 6)).astype("float32")
    labels = rng.integers(0, max(outputs, 2), 45).astype("int32")
    y = np.eye(4, dtype="float32")[labels] if name == "categorical" else labels
    y = rng.random((45, 1), dtype="float32") if name == "square" else y
    if name == "sparse":
        metrics = ["accuracy"]
    case = Case(build, x, y, loss, metrics=metrics)
    weights = shaken_weights(build_in("float32", case, None))
    optimizer = keras.optimizers.SGD(0.1)
    arguments = save_case(tmp_path, case, weights, optimizer)
    run_plimsoll(
        "fit", *arguments, "--batch", 16, "--epochs", 3, "--no-shuffle", "--log",
        tmp_path / "log.jsonl", "--validation", tmp_path / "x.npy", "--validation-labels",
        tmp_path / "y.npy",
    )  # fmt: skip
    ours = read_log(tmp_path / "log.jsonl")
    model = build_in("float32", case, weights)
    model.compile(keras.optimizers.SGD(0.1), loss=loss, metrics=metrics)
    history = model.fit(
        x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, validation_data=(x, y),
        validation_batch_size=16,
    ).history  # fmt: skip
    for epoch, row in enumerate(ours):
        assert set(history) <= set(row), (set(history), set(row))
        for key, values in history.items():
            assert row[key] == pytest.approx(values[epoch], rel=1e-5, abs=1e-6), (epoch, key)


def test_moving_statistics(tmp_path: Path) -> None:
    """BatchNormalization's moving statistics after several steps, and evaluation with them."""
    rng = np.random.default_rng(4)
    build = chain(
        (6, 6, 3), lazy(L.Conv2D, 5, 3), lazy(L.BatchNormalization, momentum=0.8), lazy(L.ReLU),
        lazy(L.Flatten), lazy(L.Dense, 1),
    )  # fmt: skip
    x = rng.normal(1, 2, (40, 6, 6, 3)).astype("float32")
    case = Case(build, x, rng.random((40, 1), dtype="float32"), "mse")
    assert_many_steps(tmp_path, case, lambda: keras.optimizers.SGD(0.01), 12, 8)


def test_predict(tmp_path: Path) -> None:
    case = small_net()
    weights = shaken_weights(build_in("float32", case, None))
    arguments = save_case(tmp_path, case, weights, "sgd")
    run_plimsoll("predict", *arguments[:3], "--batch", 16, "--output", tmp_path / "predictions.npy")
    expected = build_in("float32", case, weights).predict(case.x, verbose=0)
    got = np.load(tmp_path / "predictions.npy")
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= 1e-5 * np.abs(expected).max()
