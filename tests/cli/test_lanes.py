"""--lanes: sums over each lane by itself, joined in a fixed tree, the same bits at every limit."""

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dense_network import write_dense_network
from normalized_network import layer, write_normalized_network

USAGE = 2


class Job:
    """72 images in batches of 64: the second one has 8."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.batch = 64
        self.words = write_normalized_network(folder, side=48, filters=16)

    def run(self, command: str, *more: Any) -> subprocess.CompletedProcess[str]:
        order = ["--no-shuffle"] if command == "fit" else []
        words = [self.binary, command, *self.words, "--batch", self.batch, "--times", "none",
                 *order, *more]  # fmt: skip
        return subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, timeout=120
        )

    def fit(self, *more: Any) -> tuple[str, dict[str, Any]]:
        """The digest of the weights, and what the run said."""
        output = self.folder / "out.weights.h5"
        done = self.run("fit", "--epochs", 3, "--output", output, *more)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["measured_process_bytes"] <= told["predicted_process_bytes"]
        return hashlib.sha256(output.read_bytes()).hexdigest(), told


@pytest.fixture
def job(plimsoll: Path, tmp_path: Path) -> Job:
    return Job(plimsoll, tmp_path)


@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_every_limit_gives_the_same_bits(job: Job, lanes: int) -> None:
    planned = json.loads(job.run("plan", "--lanes", lanes).stdout)
    free, told = job.fit("--lanes", lanes)
    limits = sorted(point["process_bytes"] for point in planned["frontier"])
    assert len(limits) > 2
    for limit in (limits[0], limits[len(limits) // 2]):
        digest, within = job.fit("--lanes", lanes, "--memory", limit)
        assert digest == free
        assert within["loss"] == told["loss"]
    assert job.fit("--lanes", lanes, "--parts", 2, "--threads", 1)[0] == job.fit(
        "--lanes", lanes, "--parts", 2, "--threads", 2)[0]  # fmt: skip


def test_lanes_of_odd_lengths(job: Job) -> None:
    """Batches of 50 and 22 in eight lanes: of 7, the last one 1, and of 3, the last one 1."""
    job.batch = 50
    odd = ["--lanes", 8]
    planned = json.loads(job.run("plan", *odd).stdout)
    assert planned["lanes"] == 8
    smallest = min(point["process_bytes"] for point in planned["frontier"])
    assert job.fit(*odd)[0] == job.fit(*odd, "--memory", smallest)[0]


def test_merged_updates(job: Job) -> None:
    """Gradients are merged with their updates where there is one lane."""
    wide = layer("Dense", "wide", units=2048, activation="relu")
    job.words = write_dense_network(job.folder, 64, 1024, 4, "sgd", wide)
    path = job.folder / "plan.txt"
    assert job.run("plan", "--lanes", 2, "--output", path).returncode == 0
    assert "wide/dense/grad_kernel" in path.read_text()
    assert job.fit("--plan", path)[0] == job.fit("--lanes", 2)[0]
    assert job.run("plan", "--output", path).returncode == 0
    assert "wide/dense/grad_kernel" not in path.read_text()
    kept = ["--checkpoint", job.folder / "kept", "--checkpoint-every", "1steps"]
    assert job.run("fit", "--epochs", 1, *kept).returncode == 0
    other = job.run("fit", "--epochs", 2, *kept, "--resume", "--lanes", 2)
    assert other.returncode == USAGE
    assert "expected --lanes 1, received 2" in other.stderr


def test_one_lane_that_was_asked_for_is_no_plan_of_four(job: Job) -> None:
    path = job.folder / "plan.txt"
    assert job.run("plan", "--lanes", 4, "--output", path).returncode == 0
    assert job.run("fit", "--plan", path, "--lanes", 1).returncode == USAGE


def test_other_lanes_add_up_in_another_order(job: Job) -> None:
    results = [job.fit("--lanes", lanes) for lanes in (1, 2, 4)]
    assert len({digest for digest, _ in results}) == 3
    assert results[0][0] == job.fit()[0]
    losses = [told["loss"] for _, told in results]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)


def test_a_run_goes_on_with_the_lanes_that_it_began_with(job: Job) -> None:
    whole, _ = job.fit("--lanes", 4)
    kept = ["--checkpoint", job.folder / "kept", "--checkpoint-every", "1steps"]
    first = job.run("fit", "--steps", 3, "--lanes", 4, *kept)
    assert first.returncode == 0, first.stderr
    done = job.run("fit", "--epochs", 3, *kept, "--resume", "--output",
                   job.folder / "out.weights.h5")  # fmt: skip
    assert "continues bit for bit" in done.stderr, done.stderr
    assert hashlib.sha256((job.folder / "out.weights.h5").read_bytes()).hexdigest() == whole
    other = job.run("fit", "--epochs", 4, *kept, "--resume", "--lanes", 2)
    assert other.returncode == 0 and "lanes was 4, is 2" in other.stderr, other.stderr


def test_a_saved_plan_says_its_lanes(job: Job) -> None:
    path = job.folder / "plan.txt"
    assert job.run("plan", "--lanes", 4, "--output", path).returncode == 0
    assert re.search(r"^plan .* lanes=4 ", path.read_text(), re.M)
    assert re.search(r"^program train batch=64 lane=16 ", path.read_text(), re.M)
    assert job.fit("--plan", path)[0] == job.fit("--lanes", 4)[0]


@pytest.mark.parametrize("lanes", ["3", "0", "8192"])
def test_other_numbers_are_refused(job: Job, lanes: str) -> None:
    done = job.run("plan", "--lanes", lanes)
    assert done.returncode == USAGE
    assert "lanes" in done.stderr


def test_statistics_of_slices_have_no_lanes(job: Job) -> None:
    done = job.run("plan", "--lanes", 2, "--batch-norm", "slice:4")
    assert done.returncode == USAGE
    assert "statistics of slices" in done.stderr
