"""plimsoll.predict_peak: what a plan says as numbers, and a step that measures it."""

import keras
import numpy as np
import pytest
from live_models import normal, numbers

import plimsoll
from plimsoll import _core

MIB = 1 << 20
L = keras.layers


def images() -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((None, None, 3)), L.Conv2D(16, 3, activation="relu"),
        L.Conv2D(16, 3, activation="relu"), L.GlobalAveragePooling2D(), L.Dense(4),
    ])  # fmt: skip
    model.compile("adam", "mse")
    return model


def test_predicted_alone() -> None:
    peak = plimsoll.predict_peak(images(), 64, input_shape=(64, 64, 3))
    assert peak.engine == "native" and peak.fits
    assert peak.predicted == peak.plan.predicted == peak.held + peak.predicted_ours
    assert 10 * MIB < peak.predicted_ours < 200 * MIB
    assert peak.measured is None and "measured" not in str(peak)


def test_measured_is_what_was_predicted() -> None:
    """Without a limit and within one that costs recomputation; the model is as before."""
    model, x, y = images(), normal(70, 64, 64, 3), normal(70, 4)
    before = [numbers(v).tobytes() for v in model.variables]
    free = plimsoll.predict_peak(model, 64, x, y)
    assert abs(free.measured_ours - free.predicted_ours) <= 0.1 * free.predicted_ours + 4 * MIB
    assert free.measured == free.held + free.measured_ours
    small = min(limit for limit, _seconds, _name in free.plan.frontier())
    memory = small - free.held + _core.held_by_process() + 12 * MIB
    tight = plimsoll.predict_peak(model, 64, x, y, memory=memory, reserve="8MiB")
    assert tight.fits and tight.predicted_ours < free.predicted_ours
    assert tight.measured_ours < free.measured_ours
    assert tight.measured_ours <= memory - tight.held - 8 * MIB
    assert f"measured peak  {tight.measured / MIB:9.1f} MiB" in str(tight)
    assert before == [numbers(v).tobytes() for v in model.variables]
    assert int(model.optimizer.iterations.numpy()) == 0


def test_what_does_not_fit_and_what_is_not_native() -> None:
    model, x, y = images(), normal(4, 64, 64, 3), normal(4, 4)
    none = plimsoll.predict_peak(model, 4, x, y, memory="1MiB")
    assert none.engine == "native" and not none.fits and none.measured is None
    with pytest.raises(ValueError, match="expected 8 samples, one batch, received 4"):
        plimsoll.predict_peak(model, 8, x, y)

    class Mine(L.Layer):
        def call(self, inputs: object) -> object:
            return inputs

    other = keras.Sequential([keras.Input((4,)), Mine(), L.Dense(1)])
    other.compile("sgd", "mse")
    told = plimsoll.predict_peak(other, 8, np.ones((8, 4)), np.ones((8, 1)))
    assert told.engine == "keras" and "Mine" in told.reason and told.reason in str(told)
    assert told.predicted is None and told.fits is None
