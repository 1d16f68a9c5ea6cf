"""Ctrl-C at any moment ends a training with KeyboardInterrupt and a whole model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from plimsoll import interrupts


@pytest.fixture(autouse=True)
def python_handles_it() -> object:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_it_comes_at_the_end_once() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts.put_off():
        interrupt()
        interrupt()
        reached = True
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_comes_after_an_error() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, interrupts.put_off():
        interrupt()
        raise LookupError("of the block")
    assert isinstance(caught.value.__context__, LookupError)


def test_nothing_comes_where_nothing_came() -> None:
    with interrupts.put_off():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_within_another_leaves_it_to_the_outer_one() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts.put_off():
        with interrupts.put_off():
            interrupt()
        reached = True
    assert reached


def test_a_handler_that_is_set_meanwhile_stays() -> None:
    own = lambda *_: None  # noqa: E731
    with interrupts.put_off():
        signal.signal(signal.SIGINT, own)
    assert signal.getsignal(signal.SIGINT) is own


def test_what_is_ignored_stays_ignored_and_other_threads_set_no_handler() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.put_off():
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    failed = []

    def elsewhere() -> None:
        try:
            with interrupts.put_off():
                pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert failed == []


def test_within_tensorflow_between_two_epochs(package: Path, tmp_path: Path) -> None:
    # The order of an epoch comes from a data set; where Ctrl-C comes as that one ends, TensorFlow
    # raises a RuntimeError.
    script = textwrap.dedent("""
        import os, signal, sys
        import keras, numpy as np, plimsoll, tensorflow as tf
        from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
        signal.signal(signal.SIGINT, signal.default_int_handler)
        epochs, made = [], ArrayDataAdapter.get_tf_dataset
        def at_the_end(*_):
            if len(epochs) == 3:
                os.kill(os.getpid(), signal.SIGINT)
            return False
        def ends_so(self):
            data = made(self)
            return data.concatenate(data.filter(
                lambda *x: tf.py_function(at_the_end, list(tf.nest.flatten(x)), tf.bool)))
        ArrayDataAdapter.get_tf_dataset = ends_so
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile("adam", "mse")
        x = np.ones((40, 4), "float32"); y = np.ones((40, 3), "float32")
        count = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, _: epochs.append(epoch))
        try:
            plimsoll.fit(model, x, y, batch_size=10, epochs=9, verbose=0, callbacks=[count])
        except KeyboardInterrupt:
            model.save(sys.argv[1])
            print("epochs", len(epochs), "steps", int(model.optimizer.iterations.numpy()))
    """)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "m.keras")], text=True,
                          capture_output=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": str(package)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["epochs", "3", "steps", "12"]
    assert (tmp_path / "m.keras").exists()
