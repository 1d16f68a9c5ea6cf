"""A search for a plan that takes long says so on a terminal, and leaves nothing there."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest


def chain(depth: int) -> dict:
    """Convolutions with normalizations, whose statistics cut the step many times."""
    layers = [{"class_name": "InputLayer",
               "config": {"name": "x", "batch_shape": [None, 32, 32, 8]}}]  # fmt: skip
    for i in range(depth):
        layers += [
            {"class_name": "Conv2D", "config": {
                "name": f"c{i}", "filters": 8, "kernel_size": [3, 3], "padding": "same"}},
            {"class_name": "BatchNormalization", "config": {"name": f"n{i}"}},
            {"class_name": "ReLU", "config": {"name": f"r{i}"}},
        ]  # fmt: skip
    layers += [{"class_name": "GlobalAveragePooling2D", "config": {"name": "mean"}},
               {"class_name": "Dense", "config": {"name": "out", "units": 1}}]  # fmt: skip
    return {"class_name": "Sequential", "config": {"name": "chain", "layers": layers}}


def on_a_terminal(words: list[object]) -> str:
    """What the program writes to a terminal that is its standard error."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminals here: {error}")
    process = subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:
        pass  # how a terminal ends
    process.wait()
    os.close(ours)
    return shown.decode()


def test_a_long_search(plimsoll: Path, tmp_path: Path) -> None:
    model = tmp_path / "chain.json"
    model.write_text(json.dumps(chain(32)))
    shown = on_a_terminal([
        plimsoll, "plan", model, "--batch", 64, "--optimizer", "adam", "--loss", "mse",
        "--memory", "40MiB", "--plan-time", 3,
    ])  # fmt: skip
    # What it was at after a second is the machine's business.
    assert re.search("\r\x1b\\[K(searching for|it )[^\r]+, 1 s", shown), shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[K")


@pytest.mark.nightly
def test_a_long_search_in_a_log(plimsoll: Path, tmp_path: Path) -> None:
    """A line every ten seconds, not the first one alone."""
    model = tmp_path / "chain.json"
    model.write_text(json.dumps(chain(32)))
    words = [plimsoll, "plan", model, "--batch", 64, "--optimizer", "adam", "--loss", "mse",
             "--memory", "40MiB", "--plan-time", 1000]  # fmt: skip
    process = subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stderr is not None
    try:
        lines = [process.stderr.readline() for _ in range(3)]
    finally:
        process.terminate()
        process.wait()
    seconds = [int(re.findall(r", (\d+) s$", line.rstrip())[0]) for line in lines]
    assert seconds[0] in range(10, 14) and seconds[2] in range(30, 40), lines
