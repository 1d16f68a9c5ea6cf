"""plimsoll.watch: around a block, and as a callback of Keras's fit and of ours."""

import gc
import subprocess
import sys
import threading
import time
from os import environ
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from live_models import normal

import plimsoll

MIB = 1 << 20
X, Y = normal(32, 8), normal(32, 1)


def small() -> keras.Model:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def threads() -> int:
    return sum(one.name == "plimsoll watch" for one in threading.enumerate())


def test_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    """Its own peak and a child's; one line at the end."""
    child = "import time; held = b'x' * (200 << 20); time.sleep(0.6)"
    with plimsoll.watch() as seen:
        held = np.ones(8 << 20)
        time.sleep(0.2)
        own = seen.peak - seen.began
        del held
        subprocess.run([sys.executable, "-c", child], check=True)
    assert 60 * MIB < own < 80 * MIB
    assert 200 * MIB < seen.of_children < 260 * MIB
    assert seen.peak - seen.began > 190 * MIB and seen.explanation is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"plimsoll: {seen}" and "by descendants" in line
    assert threads() == 0


@pytest.mark.parametrize("fit", [keras.Model.fit, plimsoll.fit])
def test_a_callback(fit: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What grows with epochs is seen."""
    kept = []

    class Keeps(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            kept.append(b"x" * (8 * MIB))

    seen = plimsoll.watch(quiet=True)
    fit(small(), X, Y, epochs=10, verbose=0, callbacks=[Keeps(), seen])
    assert len(seen.epochs) == 10 and seen.peak >= seen.epochs[-1] - MIB
    assert 7 * MIB < seen.per_epoch < 10 * MIB
    assert "MiB an epoch" in str(seen) and capsys.readouterr().err == ""
    with seen:
        fit(small(), X, Y, epochs=2, verbose=0, callbacks=[seen])
    assert len(seen.epochs) == 2 and seen.per_epoch is None and threads() == 0


def test_a_fit_that_an_error_ends() -> None:
    """The next fit begins anew; and what nobody has any more looks no longer."""

    class Raises(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            raise RuntimeError("its own")

    seen = plimsoll.watch(quiet=True)
    with pytest.raises(RuntimeError):
        small().fit(X, Y, epochs=3, verbose=0, callbacks=[seen, Raises()])
    assert len(seen.epochs) == 1 and threads() == 1
    small().fit(X, Y, epochs=2, verbose=0, callbacks=[seen])
    assert len(seen.epochs) == 2 and threads() == 0
    with pytest.raises(RuntimeError):
        small().fit(X, Y, epochs=3, verbose=0, callbacks=[seen, Raises()])
    del seen
    gc.collect()
    time.sleep(0.3)
    assert threads() == 0


def test_an_error_of_memory_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    seen = plimsoll.watch()
    with pytest.raises(MemoryError), seen:
        np.ones(1 << 40)
    assert seen.explanation.framework == "numpy"
    assert str(seen.explanation) in capsys.readouterr().err
    for error in (RuntimeError("other"), plimsoll.ResourceExhausted("says what it is")):
        other = plimsoll.watch(quiet=True)
        with pytest.raises(type(error)), other:
            raise error
        assert other.explanation is None


def test_near_the_limit_a_line_comes_once(capsys: pytest.CaptureFixture[str]) -> None:
    with plimsoll.watch(memory="64MiB"):
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "of 64.0 MiB are held" in lines[0]
    with pytest.raises(ValueError, match="memory"):
        plimsoll.watch(memory="64MB2")


def test_without_keras(package: Path) -> None:
    program = (
        "import sys, plimsoll\n"
        "with plimsoll.watch(quiet=True) as seen: held = b'x' * (32 << 20)\n"
        "assert seen.peak - seen.began > 30 << 20\n"
        "assert 'keras' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True,
                   env=environ | {"PYTHONPATH": str(package)})  # fmt: skip
