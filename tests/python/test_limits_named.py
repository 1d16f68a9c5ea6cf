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
