"""Parts, not threads, make the bits: runs of equal parts are equal on any number of threads."""

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

FASHION = Path("/usr/share/datasets/fashion-mnist")
USAGE = 2


class Fashion:
    def __init__(self, binary: Path, source: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.words = [
            source / "examples/fashion_mnist.json", "--data",
            FASHION / "train-images-idx3-ubyte.gz", "--labels",
            FASHION / "train-labels-idx1-ubyte.gz", "--loss",
            "sparse_categorical_crossentropy", "--optimizer", "adam", "--batch", 64, "--times",
            "none",
        ]  # fmt: skip

    def run(self, command: str, *more: Any) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in (self.binary, command, *self.words, *more)]
        return subprocess.run(words, capture_output=True, text=True, timeout=300)

    def fit(self, *more: Any) -> tuple[str, dict[str, Any]]:
        """The digest of the weights, and what the run said."""
        output = self.folder / "out.weights.h5"
        done = self.run("fit", "--json", "--output", output, *more)
        assert done.returncode == 0, done.stderr
        return hashlib.sha256(output.read_bytes()).hexdigest(), json.loads(done.stdout)


@pytest.fixture
def fashion(plimsoll: Path, source_dir: Path, tmp_path: Path) -> Fashion:
    return Fashion(plimsoll, source_dir, tmp_path)


@pytest.mark.parametrize("options", [[], ["--memory", "30MiB"], ["--precision", "bf16"],
                                     ["--backend", "cpu"]], ids=" ".join)  # fmt: skip
def test_equal_parts_are_equal_bits(fashion: Fashion, options: list[str]) -> None:
    steps = ["--steps", 6, *options]
    three = [fashion.fit(*steps, "--parts", 3, "--threads", threads) for threads in (1, 2, 3, 5)]
    assert len({digest for digest, _ in three}) == 1
    for _, told in three:
        assert told["measured_process_bytes"] <= told["predicted_process_bytes"]
    # Threads alone are parts too, and other parts add up in another order.
    assert fashion.fit(*steps, "--threads", 3)[0] == three[0][0]
    assert fashion.fit(*steps, "--threads", 1)[0] != three[0][0]


def test_a_run_goes_on_with_the_parts_that_it_began_with(fashion: Fashion) -> None:
    whole, _ = fashion.fit("--steps", 12, "--parts", 4, "--threads", 1)
    kept = ["--checkpoint", fashion.folder / "kept", "--checkpoint-every", "6steps"]
    fashion.fit("--steps", 6, *kept, "--threads", 4)
    done = fashion.run("fit", "--steps", 12, *kept, "--resume", "--threads", 1, "--output",
                       fashion.folder / "out.weights.h5")  # fmt: skip
    assert done.returncode == 0 and "continues bit for bit" in done.stderr, done.stderr
    assert hashlib.sha256((fashion.folder / "out.weights.h5").read_bytes()).hexdigest() == whole
    other = fashion.run("fit", "--steps", 13, *kept, "--resume", "--parts", 2)
    assert other.returncode == 0 and "parts was 4, is 2" in other.stderr, other.stderr


def test_a_plan_of_many_parts_runs_on_one_thread(fashion: Fashion) -> None:
    path = fashion.folder / "plan.txt"
    planned = fashion.run("plan", "--parts", 4, "--threads", 2, "--json", "--output", path)
    assert planned.returncode == 0, planned.stderr
    facts = json.loads(planned.stdout)
    assert (facts["kernel_parts"], facts["threads"]) == (4, 2)
    assert re.search(r"^plan .* parts=4 ", path.read_text(), re.M)
    whole, _ = fashion.fit("--steps", 3, "--threads", 4)
    for threads in (1, 3):
        assert fashion.fit("--steps", 3, "--plan", path, "--threads", threads)[0] == whole
    refused = fashion.run("fit", "--steps", 3, "--plan", path, "--parts", 2)
    assert refused.returncode == USAGE and "--parts" in refused.stderr


def test_more_threads_than_parts_are_no_threads(fashion: Fashion) -> None:
    planned = fashion.run("plan", "--parts", 2, "--threads", 8, "--json")
    assert json.loads(planned.stdout)["threads"] == 2
