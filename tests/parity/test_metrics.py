"""Metrics and constraints against Keras over epochs with a short last batch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import (
    Case,
    assert_many_steps,
    build_in,
    read_log,
    run_plimsoll,
    save_case,
    shaken_weights,
)
from keras import layers as L

M = keras.metrics
OUTPUTS = 4


def model(activation: str, outputs: int, **options: Any) -> Callable[[], keras.Model]:
    return lambda: keras.Sequential(
        [
            keras.Input((6,)),
            L.Dense(8, activation="relu", **{k: v for k, v in options.items() if k != "last"}),
            L.Dense(outputs, activation=activation),
        ]
    )


# name: output activation, outputs, labels, loss, metrics
BINARY = ("sigmoid", 1, "binary", "binary_crossentropy")
SEVERAL = ("sigmoid", OUTPUTS, "several", "binary_crossentropy")
CLASSES = ("softmax", OUTPUTS, "one hot", "categorical_crossentropy")
SPARSE = ("softmax", OUTPUTS, "classes", "sparse_categorical_crossentropy")
POSITIVE = ("softplus", OUTPUTS, "positive", "mse")
SIGNS = ("tanh", OUTPUTS, "signs", "mse")
METRICS = {
    "areas": (*BINARY, lambda: [M.AUC(), M.AUC(curve="PR", name="pr")]),
    "areas of few thresholds": (
        *BINARY,
        lambda: [
            M.AUC(
                num_thresholds=7, curve=curve, summation_method=method, name=f"{curve}_{method}"
            )
            for curve in ("ROC", "PR")
            for method in ("interpolation", "minoring", "majoring")
        ],
    ),
    "area of several outputs": (*SEVERAL, lambda: [M.AUC(num_thresholds=50), M.Precision()]),
    "area from logits": (
        "linear", 1, "binary", keras.losses.BinaryCrossentropy(from_logits=True),
        lambda: [M.AUC(from_logits=True)],
    ),
    "precision and recall": (
        *BINARY,
        lambda: [M.Precision(), M.Recall(), M.Precision(thresholds=0.4, name="p4"),
                 M.Recall(thresholds=0.6, name="r6"), M.BinaryAccuracy(threshold=0.45)],
    ),
    "top k": (*CLASSES, lambda: [M.TopKCategoricalAccuracy(2), M.CategoricalAccuracy()]),
    "top k of class numbers": (*SPARSE, lambda: [M.SparseTopKCategoricalAccuracy(3), "accuracy"]),
    "distances": (*CLASSES, lambda: [M.KLDivergence(), M.CosineSimilarity(), M.CategoricalHinge()]),
    "errors": (
        *POSITIVE,
        lambda: [M.RootMeanSquaredError(), M.MeanAbsolutePercentageError(), M.Poisson(),
                 M.MeanSquaredLogarithmicError(), M.LogCoshError(), M.MeanAbsoluteError()],
    ),
    "hinges": (*SIGNS, lambda: [M.Hinge(), M.SquaredHinge(), M.MeanSquaredError()]),
}  # fmt: skip


def labels_of(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    classes = rng.integers(0, OUTPUTS, count).astype("int32")
    return {
        "binary": (classes % 2).astype("float32"),
        "several": rng.integers(0, 2, (count, OUTPUTS)).astype("float32"),
        "one hot": np.eye(OUTPUTS, dtype="float32")[classes],
        "classes": classes,
        "positive": rng.random((count, OUTPUTS), dtype="float32") + 0.1,
        "signs": rng.choice([-1.0, 1.0], (count, OUTPUTS)).astype("float32"),
    }[kind]


@pytest.mark.parametrize("name", METRICS)
def test_metrics(name: str, tmp_path: Path) -> None:
    activation, outputs, kind, loss, make = METRICS[name]
    keras.utils.clear_session()  # names of metrics are counted anew
    rng = np.random.default_rng(8)
    x = rng.normal(0, 1, (45, 6)).astype("float32")
    y = labels_of(kind, 45, rng)
    case = Case(model(activation, outputs), x, y, loss, metrics=make())
    weights = shaken_weights(build_in("float32", case, None))
    arguments = save_case(tmp_path, case, weights, keras.optimizers.SGD(0.1))
    run_plimsoll(
        "fit", *arguments, "--batch", 16, "--epochs", 3, "--no-shuffle", "--log",
        tmp_path / "log.jsonl", "--validation", tmp_path / "x.npy", "--validation-labels",
        tmp_path / "y.npy",
    )  # fmt: skip
    ours = read_log(tmp_path / "log.jsonl")
    theirs = build_in("float32", case, weights)
    theirs.compile(keras.optimizers.SGD(0.1), loss=loss, metrics=make())
    history = theirs.fit(
        x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, validation_data=(x, y),
        validation_batch_size=16,
    ).history  # fmt: skip
    assert len(history) == 2 * (1 + len(make()))
    for epoch, row in enumerate(ours):
        assert set(history) <= set(row), (set(history), set(row))
        for key, values in history.items():
            assert row[key] == pytest.approx(values[epoch], rel=1e-5, abs=1e-6), (epoch, key)


C = keras.constraints
CONSTRAINTS = {
    "non negative": lambda: {"kernel_constraint": C.NonNeg()},
    "largest norm": lambda: {"kernel_constraint": C.MaxNorm(0.8)},
    "norm between": lambda: {"kernel_constraint": C.MinMaxNorm(0.6, 0.9, rate=0.5)},
    "unit rows": lambda: {"kernel_constraint": C.UnitNorm(axis=1)},
    "bias": lambda: {"kernel_constraint": C.UnitNorm(), "bias_constraint": C.NonNeg()},
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name: str, tmp_path: Path) -> None:
    """Weights after several steps whose updates the constraint projects."""
    rng = np.random.default_rng(9)
    x = rng.normal(0, 1, (40, 6)).astype("float32")
    y = rng.normal(0, 1, (40, 3)).astype("float32")

    def build() -> keras.Model:
        return model("linear", 3, **CONSTRAINTS[name]())()

    case = Case(build, x, y, "mse")
    assert_many_steps(tmp_path, case, lambda: keras.optimizers.Adam(0.02), 16, 12)
    final = keras.saving.load_model(tmp_path / "out.keras").layers[0].get_weights()
    expected = CONSTRAINTS[name]()["kernel_constraint"](final[0])
    np.testing.assert_allclose(final[0], keras.ops.convert_to_numpy(expected), atol=0.1)
