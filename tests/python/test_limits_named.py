"""The limit that an exception names is one that does, wherever below it the user was."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

# What interpreter and framework hold changes so much from call to call.
NOISE_MIB = 4.0

PROGRAM = """
import json, re
import keras, numpy as np, plimsoll

L = keras.layers
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((32, 32, 3)), L.Conv2D(32, 3, activation="relu"),
                          L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(),
                          L.Dense(10, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
x, y = np.ones((128, 32, 32, 3), "float32"), np.zeros(128)

def fit(memory):
    plimsoll.fit(model, x, y, batch_size=64, memory=memory, spill=False, verbose=0)

def needs(memory):
    try:
        fit(memory)
    except plimsoll.ResourceExhausted as error:
        return float(re.search(r": needs ([0-9.]+) MiB, ", str(error))[1]), str(error)
    return None, ""

held = plimsoll._core.held_by_process() / 2**20
told = []
for above in (40, 66, 72):  # less than the reserve, and little more than that
    memory = held + above
    figure, text = needs(f"{memory:.1f}MiB")
    planned = str(plimsoll.plan(model, 64, memory=f"{memory:.1f}MiB", spill=False))
    told.append([memory, figure, text, planned])
fit(f"{told[0][1]}MiB")  # literally
print(json.dumps(told))
"""


def test_the_same_figure_at_three_limits(package: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True,
                          text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    figures = [figure for _, figure, _, _ in told]
    print(figures)
    assert all(figures) and max(figures) - min(figures) <= NOISE_MIB, figures
    for memory, figure, text, planned in told:
        limit = f"above the limit of {memory:.1f} MiB"
        assert limit in text and limit in planned, planned
        also = float(re.search(r": (?:the best plan found )?needs ([0-9.]+) MiB", planned)[1])
        assert abs(also - figure) <= NOISE_MIB, (also, figure)
        # Remedies are on the same footing: one that raises the limit names what it takes.
        for takes, named in re.findall(
            r"raise the limit[^(]*\(([0-9.]+) MiB[^)]*\)\n +memory=\"([0-9.]+)MiB\"", text
        ):
            assert abs(float(takes) - float(named)) <= 0.2, text


BOUNDS = """
import json, re
import keras, numpy as np, plimsoll

L = keras.layers
model = keras.Sequential([keras.Input((24, 24, 3)), L.Conv2D(16, 3), L.Flatten(), L.Dense(4)])
model.compile("adam", "mse")
x, y = np.ones((64, 24, 24, 3), "float32"), np.zeros((64, 4), "float32")

def fit(memory):
    plimsoll.fit(model, x, y, batch_size=64, memory=memory, reserve="0", spill=False, verbose=0)

held, proved, trained = plimsoll._core.held_by_process(), [], []
for above in range(4, 48, 2):
    memory = held + above * 2**20
    try:
        fit(memory)
    except plimsoll.ResourceExhausted as error:
        for bound in re.findall(r"(?:impossible below|Below) ([0-9.]+) ([MG])iB", str(error)):
            proved.append(float(bound[0]) * (1 if bound[1] == "M" else 1024))
    else:
        trained.append(memory / 2**20)
print(json.dumps([proved, trained]))
"""


def test_what_is_proved_to_be_too_little_is(package: Path) -> None:
    """No limit trains below one that is called impossible; `reserve` may be nothing."""
    environment = {**os.environ, "PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", BOUNDS], env=environment, capture_output=True,
                          text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    proved, trained = json.loads(done.stdout.splitlines()[-1])
    print(proved, trained)
    assert proved and trained and max(proved) <= min(trained), (max(proved), min(trained))
