"""A program that grows while it trains, and one that trains many times."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from live_models import normal, numbers

import plimsoll

L = keras.layers
MIB = 1 << 20
X, Y = normal(96, 64, 64, 3), normal(96, 4, seed=2)


def convolutions() -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    model = keras.Sequential([
        keras.Input((64, 64, 3)), L.Conv2D(32, 3, activation="relu"), L.BatchNormalization(),
        L.Conv2D(32, 3, activation="relu"), L.GlobalAveragePooling2D(), L.Dropout(0.3),
        L.Dense(4),
    ])  # fmt: skip
    model.compile("adam", "mse")
    return model


class Grows(keras.callbacks.Callback):  # type: ignore[misc]
    """Holds more after its first epoch."""

    def __init__(self, mib: int) -> None:
        super().__init__()
        self.mib, self.held, self.peaks = mib, [], []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.peaks.append(plimsoll._core.process_memory())
        if epoch == 0:
            self.held.append(np.ones(self.mib * MIB, np.uint8))


def fit(model: keras.Model, memory: int | None, grows: Grows, **more: Any) -> None:
    plimsoll.fit(model, X, Y, batch_size=48, epochs=3, shuffle=False, verbose=0, memory=memory,
                 callbacks=[grows], **more)  # fmt: skip


def test_a_callback_that_grows_is_planned_around(capfd: pytest.CaptureFixture[str]) -> None:
    """The next epoch has less, and the same bits."""
    free, held = convolutions(), convolutions()
    fit(free, None, Grows(1))
    answer = plimsoll.plan(held, 48, reserve=0)
    share = answer.details["free_plan_bytes"] - answer.held  # what the fastest plan takes
    small = answer.details["smallest_same_bits_bytes"] - answer.held
    growth = (share - small) // MIB - 8
    assert growth > 24
    reserve = 16 * MIB
    memory = plimsoll._core.held_by_process() + share + reserve + 4 * MIB
    grows = Grows(growth)
    fit(held, memory, grows, reserve=reserve)
    told = capfd.readouterr().err
    assert "has grown by" in told
    for one, other in zip(free.variables, held.variables, strict=True):
        assert numbers(one).tobytes() == numbers(other).tobytes(), one.path
    assert grows.peaks[-1] <= memory


def test_a_callback_that_leaves_nothing_ends_the_fit() -> None:
    model, grows = convolutions(), Grows(200)
    memory = plimsoll._core.held_by_process() + 160 * MIB
    with pytest.raises(plimsoll.ResourceExhausted) as raised:
        fit(model, memory, grows, reserve=64 * MIB)
    assert "interpreter, framework and the program's arrays" in str(raised.value)
    assert int(numbers(model.optimizer.iterations)) == 2  # the first epoch, whole
    assert len(grows.peaks) == 1
    grows.held.clear()
    fit(model, None, Grows(1))  # … and it goes on


def test_many_models_and_fits_leave_nothing() -> None:
    x, y = normal(32, 8), normal(32, 1, seed=3)

    def turn() -> None:
        keras.backend.clear_session()
        model = keras.Sequential([keras.Input((8,)), L.Dense(16, "relu"), L.Dense(1)])
        model.compile("adam", "mse")
        plimsoll.fit(model, x, y, batch_size=8, verbose=0)

    def ours() -> int:
        """What the engine's sessions hold; the rest of the process is Keras's own graphs."""
        gc.collect()
        return plimsoll.model.kept.held_by_all()

    for _ in range(30):
        turn()
    assert ours() == 0
    model = convolutions()
    plimsoll.fit(model, X, Y, batch_size=48, verbose=0)
    gc.collect()
    before = plimsoll._core.process_memory()
    for _ in range(30):
        plimsoll.fit(model, X[:16], Y[:16], batch_size=16, verbose=0)
    gc.collect()
    assert plimsoll._core.process_memory() - before < 16 * MIB


LARGE = """
import re, sys
import keras, numpy as np, plimsoll

model = keras.Sequential([keras.Input((6000,)), keras.layers.Dense(9000), keras.layers.Dense(4)])
model.compile("sgd", "mse")
x, y = np.ones((8, 6000), "float32"), np.ones((8, 4), "float32")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # what making the weights has taken is over
memory = plimsoll._core.held_by_process() + (320 << 20)  # the reserve, and what does not do

def train(memory):
    if sys.argv[1] == "fit":
        plimsoll.fit(model, x, y, verbose=0, memory=memory, spill=False)
    elif sys.argv[1] == "train_on_batch":
        plimsoll.train_on_batch(model, x, y, memory=memory, spill=False)
        plimsoll.release()
    else:
        trainer = plimsoll.Trainer(model, memory=memory, spill=False)
        for _ in range(2):
            trainer.accumulate(x, y)
        trainer.apply()

for _ in range(6):
    try:
        train(memory)
        break
    except plimsoll.ResourceExhausted as error:
        named = re.search(r"needs ([0-9.]+) MiB", str(error))
        memory = int(float(named[1]) * 2**20)
else:
    sys.exit("no limit that was named did")
with open("/proc/self/status") as file:
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", file.read())[1]) << 10
print(peak, memory, plimsoll.plan(model, 8, memory=memory).reserve)
"""


@pytest.mark.parametrize("call", ["fit", "train_on_batch", "Trainer"])
def test_a_large_variable_is_handed_back_within_the_limit(call: str, package: Path) -> None:
    """The framework makes a copy of it, which 10 % of the limit may be too little for."""
    environment = {**os.environ, "PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", LARGE, call], env=environment,
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    peak, memory, reserve = map(int, done.stdout.split()[-3:])
    assert reserve >= max(6000 * 9000 * 4, memory // 10)
    assert peak <= memory, (peak, memory)


DAEMON = """
import threading
import keras, numpy as np, plimsoll

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.compile("sgd", "mse")
plimsoll.train_on_batch(model, np.ones((8, 4), "float32"), np.ones((8, 2), "float32"))

def wait(held):
    threading.Event().wait()

threading.Thread(target=wait, args=(model,), daemon=True).start()
"""


def test_a_thread_that_runs_on_at_the_end(package: Path) -> None:
    """What it holds outlives the interpreter, and nothing is printed about that."""
    environment = {**os.environ, "PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", DAEMON], env=environment,
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0
    assert "nanobind" not in done.stderr and "plimsoll" not in done.stderr
