"""Metrics by the names that Keras takes: the keys of logs, their order, and what they hold."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras.src.metrics import ALL_OBJECTS_DICT
from live_models import classes, normal

import plimsoll

L = keras.layers
X = normal(24, 4)
ONE_HOT = np.eye(3, dtype="float32")[classes(24, 3)]
BINARY = classes(24, 2).astype("float32")[:, None]
SPARSE = classes(24, 3)
OF_SPARSE = [name for name in ALL_OBJECTS_DICT if "sparse" in name.lower()]
PLAIN = ["accuracy", "Accuracy", "acc"]


def _is_taken(name: str) -> bool:
    """Whether Keras makes a metric of the name alone, and counts labels and predictions in it."""
    try:
        made = keras.metrics.get(name)
    except TypeError:  # it needs options
        return False
    return type(made).__name__ not in ("Mean", "Sum", "MeanMetricWrapper", "Metric")


OF_DENSE = [name for name in ALL_OBJECTS_DICT if name not in OF_SPARSE and _is_taken(name)]


def small(units: int, loss: str, **compiled: Any) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    last = "sigmoid" if units == 1 else "softmax"
    model = keras.Sequential([keras.Input((4,)), L.Dense(5, "tanh"), L.Dense(units, last)])
    model.compile("adam", loss, **compiled)
    return model


def histories(make: Any, x: Any, y: Any, **options: Any) -> list[dict[str, list[Any]]]:
    """Of Keras and of ours."""
    told = []
    for fit in (keras.Model.fit, plimsoll.fit):
        history = fit(make(), x, y, batch_size=8, shuffle=False, verbose=0, **options)
        told.append(history.history)
    return told


def expect_equal(told: list[dict[str, list[Any]]]) -> None:
    keras_own, ours = told
    assert list(ours) == list(keras_own)
    for name, values in keras_own.items():
        for expected, received in zip(values, ours[name]):
            assert np.shape(received) == np.shape(expected), name
            np.testing.assert_allclose(received, expected, rtol=2e-3, atol=2e-4, err_msg=name)


@pytest.mark.parametrize(
    ("units", "loss", "y", "names"),
    [(1, "binary_crossentropy", BINARY, [*PLAIN, *OF_DENSE]),
     (3, "categorical_crossentropy", ONE_HOT, [*PLAIN, *OF_DENSE]),
     (3, "sparse_categorical_crossentropy", SPARSE, [*PLAIN, *OF_SPARSE])],
    ids=["binary", "one-hot", "sparse"],
)  # fmt: skip
def test_every_name_that_keras_takes(units: int, loss: str, y: Any, names: list[str]) -> None:
    def make() -> keras.Model:
        return small(units, loss, metrics=names)

    expect_equal(histories(make, X, y, validation_data=(X[:8], y[:8])))


def test_weighted_metrics_and_several_outputs() -> None:
    def make() -> keras.Model:
        keras.backend.clear_session()
        keras.utils.set_random_seed(4)
        x = keras.Input((4,))
        model = keras.Model(x, [L.Dense(1, "sigmoid", name="a")(x), L.Dense(1, name="b")(x)])
        model.compile("adam", {"a": "binary_crossentropy", "b": "mse"},
                      metrics={"a": ["AUC", "auc"], "b": ["MeanSquaredError"]},
                      weighted_metrics={"a": ["Precision"], "b": ["MAE", "R2Score"]})  # fmt: skip
        return model

    expect_equal(histories(make, X, [BINARY, normal(24, 1)]))


def test_callbacks_and_files_follow_the_names(tmp_path: Path) -> None:
    written = []
    for fit in (keras.Model.fit, plimsoll.fit):
        model = small(1, "binary_crossentropy", metrics=["AUC"])
        table = tmp_path / f"{len(written)}.csv"
        best = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="val_AUC",
                                               mode="max", save_best_only=True)  # fmt: skip
        ends = keras.callbacks.EarlyStopping(monitor="val_AUC", mode="max", patience=3)
        fit(model, X, BINARY, validation_data=(X, BINARY), verbose=0, epochs=2,
            callbacks=[ends, best, keras.callbacks.CSVLogger(table)])  # fmt: skip
        assert ends.best is not None and 0 < float(ends.best) <= 1
        assert 0 < float(best.best) <= 1
        written.append(table.read_text().splitlines()[0])
    assert written[0] == written[1] == "epoch,AUC,loss,val_AUC,val_loss"


SCORES: list[Any] = [
    lambda: keras.metrics.F1Score(threshold=0.5),
    lambda: keras.metrics.FBetaScore(average=None, beta=2.0, threshold=0.5),
    lambda: keras.metrics.R2Score(class_aggregation=None),
    lambda: keras.metrics.F1Score(average="macro", threshold=0.5, name="macro"),
    lambda: keras.metrics.R2Score(name="one"),
    lambda: keras.metrics.Precision(thresholds=[0.4], name="alone"),
    lambda: keras.metrics.Recall(thresholds=[0.4, 0.6], name="two"),
]


@pytest.mark.parametrize(
    ("units", "loss", "y"),
    [(1, "binary_crossentropy", BINARY), (3, "categorical_crossentropy", ONE_HOT)],
)
def test_scores_by_class_are_arrays(units: int, loss: str, y: Any) -> None:
    def make() -> keras.Model:
        return small(units, loss, metrics=[of() for of in SCORES])

    told = histories(make, X, y, validation_data=(X[:8], y[:8]))
    expect_equal(told)
    assert [type(told[0][name][0]) for name in told[0]] == [type(told[1][name][0])
                                                            for name in told[0]]  # fmt: skip


def test_scores_of_single_calls_are_arrays() -> None:
    def make() -> keras.Model:
        return small(1, "binary_crossentropy", metrics=[keras.metrics.F1Score(threshold=0.5)])

    for method in ("evaluate", "test_on_batch", "train_on_batch"):
        told = [getattr(where, method)
                for where in (keras.Model, plimsoll)]  # fmt: skip
        expected, received = (call(make(), X, BINARY, return_dict=True) for call in told)
        assert list(received) == list(expected), method
        assert np.shape(received["f1_score"]) == np.shape(expected["f1_score"]), method


def test_scores_from_another_process_are_arrays() -> None:
    model = small(1, "binary_crossentropy", metrics=[keras.metrics.F1Score(threshold=0.5)])
    told = plimsoll.fit(model, X, BINARY, verbose=0, isolate=True)
    expected = small(1, "binary_crossentropy", metrics=[keras.metrics.F1Score(threshold=0.5)]).fit(
        X, BINARY, verbose=0)  # fmt: skip
    assert np.shape(told.history["f1_score"][0]) == np.shape(expected.history["f1_score"][0])
