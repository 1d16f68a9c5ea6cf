"""The predicted peak of the process is never below the measured one, nor far above it."""

import json
import subprocess
from pathlib import Path

import pytest

FASHION = Path("/usr/share/datasets/fashion-mnist")


@pytest.mark.parametrize("memory", ["64MiB", "28MiB"])
def test_fashion_mnist(plimsoll: Path, source_dir: Path, memory: str) -> None:
    command = [
        plimsoll, "fit", source_dir / "examples/fashion_mnist.json",
        "--data", FASHION / "train-images-idx3-ubyte.gz",
        "--labels", FASHION / "train-labels-idx1-ubyte.gz",
        "--batch", "64", "--steps", "10", "--optimizer", "adam",
        "--loss", "sparse_categorical_crossentropy", "--memory", memory, "--json",
    ]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    predicted, measured = run["predicted_process_bytes"], run["measured_process_bytes"]
    assert measured <= predicted <= measured * 1.02 + 4 * 2**20, (predicted, measured)
    assert measured <= run["limit_bytes"]
    assert run["measured_arena_bytes"] == run["planned_arena_bytes"]
