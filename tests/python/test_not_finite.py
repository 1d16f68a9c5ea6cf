"""Losses that become infinite, or no numbers: training goes on, or ends, as Keras has it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from live_models import normal

import plimsoll

L = keras.layers
X, Y = normal(40, 4), normal(40, 1, seed=3)


def small(loss: Any = "mse", metrics: Any = None) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((4,)), L.Dense(6, "relu"), L.Dense(1)])
    model.compile(keras.optimizers.SGD(10.0), loss, metrics=metrics)
    return model


def as_keras(x: Any = X, y: Any = Y, metrics: Any = None, **options: Any) -> list[dict[str, Any]]:
    told = []
    for fit in (keras.Model.fit, plimsoll.fit):
        model = small(metrics=metrics)
        given = {name: one() if callable(one) else one for name, one in options.items()}
        history = fit(model, x, y, batch_size=8, shuffle=False, verbose=0, **given)
        told.append(history.history)
    return told


def expect_equal(told: list[dict[str, Any]]) -> None:
    keras_own, ours = told
    assert list(ours) == list(keras_own)
    for name, values in keras_own.items():
        assert len(ours[name]) == len(values), name
        np.testing.assert_array_equal(np.isfinite(ours[name]), np.isfinite(values), err_msg=name)
        np.testing.assert_array_equal(np.isnan(ours[name]), np.isnan(values), err_msg=name)


@pytest.mark.parametrize("options", [{}, {"validation_data": (X, Y)}, {"steps_per_epoch": 3}])
def test_training_goes_on(options: dict[str, Any]) -> None:
    told = as_keras(epochs=12, **options)
    assert not np.isfinite(told[0]["loss"][-1]) and len(told[0]["loss"]) == 12
    expect_equal(told)


def test_training_goes_on_in_another_process() -> None:
    told = plimsoll.fit(small(), X, Y, batch_size=8, epochs=12, verbose=0, isolate=True)
    assert len(told.history["loss"]) == 12 and not np.isfinite(told.history["loss"][-1])


def test_metrics_of_what_is_no_number() -> None:
    """Counting goes on without touching what is not the metric's."""
    names = ["mae", "RootMeanSquaredError", "R2Score", "CosineSimilarity", "BinaryAccuracy",
             "LogCoshError", "Hinge"]  # fmt: skip
    expect_equal(as_keras(epochs=12, metrics=names))
    model = small(metrics=["AUC", "Precision", "TruePositives", "F1Score"])
    told = plimsoll.fit(model, X, (Y > 0).astype("float32"), batch_size=8, epochs=12, verbose=0)
    assert len(told.history["AUC"]) == 12 and not np.isfinite(told.history["loss"][-1])
    assert told.history["TruePositives"][-1] <= (Y > 0).sum()


def test_numbers_in_the_data_that_are_none() -> None:
    x = X.copy()
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3: expected a finite number, received nan"):
        plimsoll.fit(small(), x, Y, batch_size=8, shuffle=False, verbose=0)


def _ends() -> list[Any]:
    return [keras.callbacks.TerminateOnNaN()]


def _beside() -> list[Any]:
    return [keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None), *_ends()]


@pytest.mark.parametrize("callbacks", [_ends, _beside])
@pytest.mark.parametrize(
    "options", [{"validation_data": (X, Y)}, {"validation_data": (X, Y), "steps_per_epoch": 3}, {}]
)
def test_the_callback_ends_it(
    callbacks: Any, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    told = as_keras(epochs=12, callbacks=callbacks, **options)
    assert len(told[0]["loss"]) < 12
    expect_equal(told)
    printed = capsys.readouterr().out.splitlines()
    said = [line for line in printed if "Invalid loss" in line]
    assert len(said) == 2 and said[0] == said[1]


def test_the_callback_ends_it_in_another_process() -> None:
    told = []
    for isolate in (False, True):
        history = plimsoll.fit(
            small(), X, Y, batch_size=8, epochs=12, verbose=0, isolate=isolate, shuffle=False,
            callbacks=_ends(), validation_data=(X, Y),
        )  # fmt: skip
        told.append(history.history)
    expect_equal(told)


def test_the_callback_raises() -> None:
    if "raise_error" not in keras.callbacks.TerminateOnNaN.__init__.__code__.co_varnames:
        pytest.skip("this Keras has no such option")
    said = []
    for fit in (keras.Model.fit, plimsoll.fit):
        ends = keras.callbacks.TerminateOnNaN(raise_error=True)
        with pytest.raises(RuntimeError, match="NaN or Inf loss encountered") as raised:
            fit(small(), X, Y, batch_size=8, epochs=12, verbose=0, shuffle=False, callbacks=[ends])
        said.append(str(raised.value).partition(" Loss value")[0])
    assert said[0] == said[1]


def test_a_program_that_runs_unchanged(package: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import keras, numpy as np\n"
        "m = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "m.compile(keras.optimizers.SGD(10.0), 'mse')\n"
        "x = np.random.default_rng(0).normal(size=(40, 4))\n"
        "h = m.fit(x, x[:, :1] * 9, epochs=40, batch_size=8, verbose=0)\n"
        "print(len(h.history['loss']), np.isfinite(h.history['loss'][-1]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-m", "plimsoll", "script.py"], cwd=tmp_path,
                          env=environment, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["40", "False"], done.stdout + done.stderr
