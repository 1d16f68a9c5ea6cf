"""The limit of one rank changes under a run: all plan anew at one step, with the same bits."""

import ctypes
import hashlib
import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from normalized_network import layer, write_normalized_network
from ranks_job import TAKEN, Job, skip_without_ranks, under_mpirun
from test_ranks import ranks_of, wait_for_epoch

MIB = 1 << 20
EPOCHS = 40


@pytest.fixture(autouse=True)
def launcher(plimsoll: Path) -> None:
    skip_without_ranks(plimsoll)


@pytest.fixture
def job(plimsoll: Path, tmp_path: Path) -> Job:
    job = Job(plimsoll, tmp_path)
    job.words = write_normalized_network(job.folder, side=48, filters=16)
    return job


def send_limit(pid: int, mib: int) -> None:
    """SIGUSR1 with a value, as `kill -USR1 -q MIB PID` sends it."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.sigqueue(pid, signal.SIGUSR1, ctypes.c_void_p(mib)) == 0, ctypes.get_errno()


def fit_and_send(job: Job, mib: int, rank: int, *more: object) -> tuple[str, str, dict[str, Any]]:
    """The digest of the weights, what was said, and what the run told in the end."""
    log, output = job.folder / "log.jsonl", job.folder / "out.weights.h5"
    log.unlink(missing_ok=True)
    words = job.command("--epochs", EPOCHS, "--output", output, "--log", log, "--lanes", 4, *more)
    run = subprocess.Popen([*under_mpirun(2), *words], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        wait_for_epoch(log)
        send_limit(ranks_of(run)[rank], mib)
        told, said = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == 0, said
    assert len(log.read_text().splitlines()) == EPOCHS
    return hashlib.sha256(output.read_bytes()).hexdigest(), said, json.loads(told)


def alone(job: Job) -> str:
    """The digest of the weights that one process trains."""
    output = job.folder / "alone.weights.h5"
    done = job.run(1, "--lanes", 4, "--epochs", EPOCHS, "--output", output)
    assert done.returncode == 0, done.stderr
    return hashlib.sha256(output.read_bytes()).hexdigest()


@pytest.fixture
def undisturbed(job: Job) -> str:
    return alone(job)


def smallest(job: Job) -> int:
    """In MiB; what the library takes is not in it."""
    words = job.command("--lanes", 4, "--ranks", 2)
    words[words.index("fit")] = "plan"
    told = subprocess.run(words, capture_output=True, text=True, timeout=120)
    bytes_: int = json.loads(told.stdout)["smallest_same_bits_bytes"]
    return bytes_ // MIB + 1


@pytest.mark.parametrize("rank", [0, 1])
def test_all_plan_anew_at_one_step(job: Job, undisturbed: str, rank: int) -> None:
    limit = smallest(job) + 24
    digest, said, told = fit_and_send(job, limit, rank, "--checkpoint", job.folder / "kept")
    whose = "the limit" if rank == 0 else "the limit of rank 1"
    assert re.search(rf"{whose} is now {limit}(\.0)? MiB: planned anew at step \d+", said), said
    assert digest == undisturbed
    if rank == 0:
        assert told["predicted_process_bytes"] <= limit * MIB


@pytest.mark.parametrize("rank", [0, 1])
def test_a_limit_that_is_too_low_for_one(job: Job, undisturbed: str, rank: int) -> None:
    digest, said, _ = fit_and_send(job, 3, rank)
    assert "not enough, the run goes on as planned before" in said
    assert rank == 0 or "rank 1: " in said
    assert digest == undisturbed


@pytest.mark.parametrize("stage", [1, 3])
def test_what_is_held_in_parts_stays_in_parts(job: Job, undisturbed: str, stage: int) -> None:
    digest, said, _ = fit_and_send(job, smallest(job) + 24, 1, "--shard", stage)
    assert "planned anew at step" in said
    assert digest == undisturbed


def write_wide_network(job: Job) -> None:
    """46 MiB of weights, and twice as many slots."""
    layers = [layer("InputLayer", "image", batch_shape=[None, 16, 16, 3]),
              layer("Flatten", "row"),
              layer("Dense", "wide", units=4096, activation="relu"),
              layer("Dense", "wide2", units=2048, activation="relu"),
              layer("Dense", "classes", units=4, activation="softmax")]  # fmt: skip
    model = {"class_name": "Sequential", "config": {"name": "wide", "layers": layers}}
    (job.folder / "model.json").write_text(json.dumps(model))


def test_a_higher_stage_where_the_lower_one_does_not_fit(plimsoll: Path, tmp_path: Path) -> None:
    job = Job(plimsoll, tmp_path)
    write_wide_network(job)
    undisturbed = alone(job)
    limits = []
    for stage in (0, 3):
        words = job.command("--lanes", 4, "--ranks", 2, "--shard", stage, "--no-spill")
        words[words.index("fit")] = "plan"
        told = subprocess.run(words, capture_output=True, text=True, timeout=120)
        limits.append(json.loads(told.stdout)["smallest_same_bits_bytes"] // MIB)
    limit = limits[0] - 2
    assert limits[1] + TAKEN // MIB < limit, limits
    digest, said, _ = fit_and_send(job, limit, 1, "--no-spill")
    assert "planned anew at step" in said and "not enough" not in said, said
    assert digest == undisturbed
