"""Steps of Keras's own that run out of memory are undone, and done again in smaller parts."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from guarded import CUTS, installed, own_fit, parts_of
from live_models import normal, numbers

from plimsoll import surroundings
from plimsoll.guard import decide as guard
from plimsoll.guard import sizes as guard_sizes
from plimsoll.guard.step import CutStep

pytestmark = CUTS

L = keras.layers
X, Y = normal(32, 6), normal(32, 3, seed=2)
NO_MEMORY = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[9]")


def network() -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((6,)), L.Dense(5, "tanh"), L.BatchNormalization(), L.GaussianNoise(0.1),
        L.Dense(3),
    ])  # fmt: skip
    model.compile("adam", "mse", metrics=["mae", lambda true, predicted: keras.ops.max(predicted)])
    return model


def failing_at(count: int, own: Any, error: Exception = NO_MEMORY) -> Any:
    """The function, which raises in its call number `count` when half of its work is done."""
    calls = []

    def function(self: Any, *given: Any) -> Any:
        calls.append(1)
        answer = own(self, *given)
        if len(calls) == count:
            raise error
        return answer

    return function


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize(
    "phase, count", [("part", 1), ("part", 3), ("add", 2), ("update", 1), ("told", 1)]
)
def test_a_failed_step_leaves_nothing(
    phase: str, count: int, on_gpu: bool, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Weights, optimizer, seeds, statistics and metrics are those of a run that never failed."""
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: True)
    monkeypatch.setattr(surroundings, "_gpu", [on_gpu])
    found = []
    with installed(monkeypatch):
        for rows in (2, 4):
            model = network()
            parts_of(monkeypatch, rows)
            with monkeypatch.context() as patch:
                if rows == 4:
                    patch.setattr(CutStep, phase, failing_at(count, getattr(CutStep, phase)))
                history = model.fit(X, Y, batch_size=16, verbose=0, shuffle=False, epochs=2).history
            values = [numbers(one) for one in [*model.variables, *model.optimizer.variables]]
            found.append((values, history))
    said = capsys.readouterr().err
    assert "with 4 samples at a time does not fit (ResourceExhaustedError): it was undone" in said
    (values, history), (others, received) = found
    for one, other in zip(values, others, strict=True):
        np.testing.assert_array_equal(other, one)
    assert history == received


def test_what_is_no_lack_of_memory_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    with installed(monkeypatch):
        parts_of(monkeypatch, 4)
        error = ValueError("of the program")
        monkeypatch.setattr(CutStep, "part", failing_at(2, CutStep.part, error))
        with pytest.raises(ValueError, match="of the program"):
            network().fit(X, Y, batch_size=8, verbose=0)


class Large(L.Layer):
    """Takes 8 TiB for a batch of more than three samples, and next to nothing else."""

    def call(self, inputs: Any) -> Any:
        rows = tf.cast(tf.shape(inputs)[0] > 3, tf.int64) * 2**41 + 1
        return inputs + 0 * tf.reduce_max(tf.fill([rows], inputs[0, 0]))


def test_a_real_failure_ends_trained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The allocation fails in TensorFlow itself; one call finds the size that fits."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def model() -> Any:
        keras.utils.set_random_seed(3)
        one = keras.Sequential([keras.Input((6,)), Large(), L.Dense(3)])
        one.compile("sgd", "mse")
        return one

    whole = keras.Sequential([keras.Input((6,)), L.Dense(3)])
    whole.compile("sgd", "mse")
    with installed(monkeypatch):
        ours = model()
        whole.set_weights(ours.get_weights())
        own_fit()(whole, X, Y, batch_size=16, verbose=0, shuffle=False)
        ours.fit(X, Y, batch_size=16, verbose=0, shuffle=False)
    assert "is trained in 8 parts of 2" in capsys.readouterr().err
    for one, other in zip(whole.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


PROGRAM = """\
import numpy as np, keras
from keras import layers as L, ops
class Wide(L.Layer):
    def call(self, inputs):
        wide = ops.tile(inputs, (1, 1 << 18))
        return inputs + ops.mean(ops.sin(ops.cos(ops.sin(wide))), axis=1, keepdims=True)
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((8,)), Wide(), L.Dense(1)], name="wide")
model.compile("sgd", "mse")
x = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
print(model.fit(x, x[:, :1], batch_size=48, verbose=0, epochs=2).history["loss"])
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print("peak", int(line.split()[1]) >> 10)
"""


def test_a_limit_on_a_processor(package: Path, tmp_path: Path) -> None:
    """Sizes are measured, the limit is kept, and the next run knows the size."""
    (tmp_path / "wide.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(package), "XDG_CACHE_HOME": str(tmp_path),
                   "TF_CPP_MIN_LOG_LEVEL": "3"}  # fmt: skip

    def ran(*options: str) -> tuple[str, list[float], int]:
        done = subprocess.run([sys.executable, *options, "wide.py"], cwd=tmp_path, env=environment,
                              text=True, capture_output=True, timeout=300, check=True)  # fmt: skip
        loss, peak = done.stdout.splitlines()
        return (
            done.stderr,
            [float(one) for one in loss.strip("[]").split(",")],
            int(peak.split()[1]),
        )

    _, losses, peak = ran()
    limit = 560 + (peak - 560) // 2
    said, received, taken = ran("-m", "plimsoll", "--memory", f"{limit}MiB")
    assert "fit of wide runs in Keras, in parts where a batch does not fit" in said
    assert "a batch of 48 samples is trained in" in said, (said, limit, peak)
    assert taken <= limit < peak, (taken, limit, peak, said)
    np.testing.assert_allclose(received, losses, rtol=1e-4)
    (known,) = (tmp_path / "plimsoll" / "parts").iterdir()
    assert known.stat().st_mode & 0o777 == 0o600
    again, received, taken = ran("-m", "plimsoll", "--memory", f"{limit}MiB")
    assert taken <= limit, (taken, limit, again)
    np.testing.assert_allclose(received, losses, rtol=1e-4)


def test_what_passes_the_limit_later_is_cut_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keras's own function ran, the process grew, and the next batches are in parts."""
    taken = [100 * guard_sizes.MIB]
    monkeypatch.setattr(guard_sizes, "peak", lambda read_meanwhile=True: taken[0])
    monkeypatch.setattr(guard, "_LOOKS_EVERY_S", 0)

    class Grows(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            taken[0] = (200 << 30) if batch == 2 else 100 * guard_sizes.MIB

    with installed(monkeypatch):
        parts_of(monkeypatch, 8)
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((6,)), L.Dense(3)])
        model.compile("sgd", "mse")
        model.fit(X, Y, batch_size=4, verbose=0, callbacks=[Grows()])
        assert guard._guards[model].rows == 3 and int(model.optimizer.iterations) == 8
    said = capsys.readouterr().err
    assert "a step with 4 samples at a time took 204800.0 MiB, above the limit" in said
    assert "a batch of 4 samples is trained in 2 parts of 2" in said


WIDE = """
import keras, numpy as np, tensorflow as tf
class Wide(keras.layers.Layer):
    def call(self, x):
        line = tf.range(1 << 19, dtype="float32") * x[0, 0]
        return x + 0 * tf.reduce_max(line[:, None] * line[None, :])
model = keras.Sequential([keras.Input((4,)), Wide(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
try:
    model.fit(np.ones((4, 4)), np.ones((4, 1)), batch_size=4, verbose=0)
except tf.errors.ResourceExhaustedError as error:
    print("caught", type(error).__name__)
    raise
"""


def test_a_program_that_fits_in_no_size_ends_with_3(package: Path, tmp_path: Path) -> None:
    """A tensor of a TiB for any number of samples: TensorFlow's error, and this package's."""
    (tmp_path / "p.py").write_text(WIDE)
    words = f"ulimit -v {64 << 20}; exec {sys.executable} -m plimsoll --engine keras p.py"
    done = subprocess.run(
        ["bash", "-c", words], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert done.stdout == "caught ResourceExhausted\n"
    assert "a step with 4 samples at a time does not fit (ResourceExhaustedError)" in done.stderr
