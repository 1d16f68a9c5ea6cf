"""The predicted peak of the process is never below the measured one, nor far above it."""

import json
import subprocess
from pathlib import Path

import pytest

FASHION = Path("/usr/share/datasets/fashion-mnist")


def run_fashion(plimsoll: Path, source_dir: Path, *options: str) -> dict[str, int]:
    """A run's report, held against what was predicted."""
    command = [
        plimsoll, "fit", source_dir / "examples/fashion_mnist.json",
        "--data", FASHION / "train-images-idx3-ubyte.gz",
        "--labels", FASHION / "train-labels-idx1-ubyte.gz",
        "--batch", "64", "--optimizer", "adam",
        "--loss", "sparse_categorical_crossentropy", "--json", *options,
    ]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    predicted, measured = run["predicted_process_bytes"], run["measured_process_bytes"]
    assert measured <= predicted <= measured * 1.02 + 4 * 2**20, (predicted, measured)
    assert run["measured_arena_bytes"] == run["planned_arena_bytes"]
    return run


@pytest.mark.parametrize("memory", ["64MiB", "28MiB"])
@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_fashion_mnist(plimsoll: Path, source_dir: Path, memory: str, threads: str) -> None:
    run = run_fashion(plimsoll, source_dir, "--memory", memory, "--threads", threads,
                      "--steps", "10")  # fmt: skip
    assert run["measured_process_bytes"] <= run["limit_bytes"]


def test_more_threads_than_processors(plimsoll: Path, source_dir: Path) -> None:
    run_fashion(plimsoll, source_dir, "--threads", "16", "--steps", "5")


def test_reference_backend(plimsoll: Path, source_dir: Path) -> None:
    run_fashion(plimsoll, source_dir, "--backend", "reference", "--steps", "1")
