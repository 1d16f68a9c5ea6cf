"""What goes wrong on one rank is told, and ends all; what was killed goes on, bit for bit."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from dense_network import write_dense_network
from normalized_network import layer
from ranks_job import Job, skip_without_ranks, started_by, under_mpirun
from small_disk import small_disk

FILE_FAILURE = 6


@pytest.fixture(autouse=True)
def launcher(plimsoll: Path) -> None:
    skip_without_ranks(plimsoll)


class KeptJob(Job):
    """Forty samples in batches of 16, the last one of 8; weights that ranks hold parts of."""

    def __init__(self, binary: Path, folder: Path) -> None:
        super().__init__(binary, folder)
        self.batch = 16
        self.kept = folder / "kept"
        self.output = folder / "end.weights.h5"
        hidden = [
            layer("Dense", "first", units=131, activation="relu"),
            layer("BatchNormalization", "norm"),
            layer("Dropout", "drop", rate=0.3),
        ]
        self.words = write_dense_network(folder, 40, 67, 3, "adam", *hidden)

    def words_of(self, ranks: int, *more: Any) -> list[str]:
        launcher = under_mpirun(ranks) if ranks > 1 else []
        return [*launcher, *self.command("--epochs", 60, "--lanes", 4, "--output", self.output,
                                         *more)]  # fmt: skip

    def digest(self) -> str:
        return hashlib.sha256(self.output.read_bytes()).hexdigest()


@pytest.fixture
def job(plimsoll: Path, tmp_path: Path) -> KeptJob:
    return KeptJob(plimsoll, tmp_path)


def kill_session(leader: subprocess.Popen[str]) -> None:
    """The launcher and all that it started, as a machine that loses its power does."""
    found = subprocess.run(["pgrep", "-s", str(leader.pid)], capture_output=True, text=True)
    for process in found.stdout.split():
        try:
            os.kill(int(process), signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.nightly)])
def test_killed_at_random_instants(job: KeptJob, kills: int) -> None:
    """Checkpoints are written after every step: many kills meet one that is being written."""
    assert subprocess.run(job.words_of(1), capture_output=True, timeout=120).returncode == 0
    whole = job.digest()
    kept = ["--resume", "--checkpoint", job.kept, "--checkpoint-every", "1steps"]
    choose = random.Random(kills)
    started = time.monotonic()
    timed = job.words_of(2, *kept)
    assert subprocess.run(timed, capture_output=True, timeout=300).returncode == 0
    seconds = time.monotonic() - started
    killed = 0
    kept_one = False
    while killed < kills or not kept_one:
        stage = choose.choice([0, 1, 3])
        words = job.words_of(choose.choice([1, 2, 4]), *kept, "--shard", stage)
        run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)  # fmt: skip
        try:
            _, said = run.communicate(timeout=choose.uniform(0.2, 1) * seconds)
        except subprocess.TimeoutExpired:
            kill_session(run)
            killed += 1
            run.communicate(timeout=30)
            kept_one = any(job.kept.glob("*.ckpt"))
            continue
        assert run.returncode == 0, said  # it came to its end: from the start again
        assert job.digest() == whole
        shutil.rmtree(job.kept)
    left = job.folder / "left"
    job.kept.rename(left)
    for ranks in (1, 2, 4):
        job.output.unlink(missing_ok=True)
        shutil.copytree(left, job.kept)
        done = subprocess.run(job.words_of(ranks, *kept), capture_output=True, text=True,
                              timeout=300)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "continues bit for bit" in done.stderr
        assert job.digest() == whole
        shutil.rmtree(job.kept)


def start(words: list[str]) -> tuple[subprocess.Popen[str], list[int]]:
    """A run of two ranks that has begun to train, and who they are, by rank."""
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    ranks: list[int] = []
    while len(ranks) < 2 and time.monotonic() < deadline:
        ranks = started_by(run)
        time.sleep(0.1)
    return run, ranks


@pytest.mark.parametrize("stopped", [0, 1])
def test_the_other_one_tells_who_stands_still(job: KeptJob, stopped: int) -> None:
    log = job.folder / "log.jsonl"
    words = [*under_mpirun(2), *job.command("--epochs", 1000000, "--rank-timeout", 3, "--log",
                                            log, "--log-steps")]  # fmt: skip
    run, ranks = start(words)
    try:
        deadline = time.monotonic() + 60
        while not (log.exists() and log.stat().st_size > 0) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(ranks[stopped], signal.SIGSTOP)
        begin = time.monotonic()
        _, said = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode != 0
    assert time.monotonic() - begin < 20
    assert f"rank {stopped} has not answered for 3 seconds" in said
    assert stopped == 1 or "rank 1 on" in said


def test_a_rank_that_is_killed_ends_all(job: KeptJob) -> None:
    run, ranks = start([*under_mpirun(2), *job.command("--epochs", 1000000)])
    try:
        time.sleep(1)
        os.kill(ranks[1], signal.SIGKILL)
        run.communicate(timeout=30)
    finally:
        run.kill()
    assert run.returncode != 0
    deadline = time.monotonic() + 10
    while Path(f"/proc/{ranks[0]}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{ranks[0]}").exists()


def two_commands(one: list[str], two: list[str]) -> subprocess.CompletedProcess[str]:
    words = [*under_mpirun(1), *one, ":", "-n", "1", *two]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def test_another_processor(job: KeptJob) -> None:
    """Pretended: its kernels give other bits."""
    other = ["env", "PLIMSOLL_PROCESSOR=avx2/l2=512K/l3=32768K", *job.command("--lanes", 2)]
    own = ["env", "PLIMSOLL_PROCESSOR=avx2/l2=256K/l3=8192K", *job.command("--lanes", 2)]
    done = two_commands(own, other)
    assert done.returncode != 0
    assert "the kernel set: expected the same on all ranks, received" in done.stderr
    assert "l2=512K" in done.stderr and "l2=256K" in done.stderr


def test_a_full_disk_keeps_the_old_checkpoint(job: KeptJob) -> None:
    with small_disk(job.folder / "disk", "size=512k") as disk:
        kept = ["--checkpoint", disk / "kept", "--checkpoint-every", "10steps"]
        done = subprocess.run(job.words_of(2, *kept, "--shard", 3), capture_output=True,
                              text=True, timeout=120)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "no checkpoint at step" in done.stderr and "the run goes on" in done.stderr
        digest = job.digest()
        assert all(path.suffix == ".ckpt" for path in (disk / "kept").iterdir())
    assert subprocess.run(job.words_of(1), capture_output=True, timeout=120).returncode == 0
    assert job.digest() == digest


def test_a_full_disk_for_the_output(job: KeptJob) -> None:
    begin = time.monotonic()
    with small_disk(job.folder / "disk", "size=4k") as disk:
        done = job.run(2, "--epochs", 2, "--spill-dir", job.folder, "--output", disk / "out.keras")
        assert done.returncode != 0
        assert "No space left" in done.stderr
    assert time.monotonic() - begin < 30
    (elsewhere,) = job.folder.glob("plimsoll-*-out.keras")
    assert f"The trained model is in {elsewhere} instead." in done.stderr
