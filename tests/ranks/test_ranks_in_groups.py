"""Ranks in memory control groups of exactly their limits: a GPT takes what is predicted, stage by
stage, with the bits of one process."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from ranks_job import TAKEN, skip_without_ranks, under_mpirun
from scripts import load

DATA = os.environ.get("PLIMSOLL_TEST_DATA")
NETWORKS = Path(DATA) / "networks.py" if DATA else Path("/nonexistent")
MEBIBYTE = 1 << 20
DOES_NOT_FIT = 3
OTHER_STAGES = 24 * MEBIBYTE  # what searches for them leave behind (--shard auto)
# Layers, width, heads, steps, words; the memory that all ranks take together.
SIZES = {
    "tiny": ((2, 256, 4, 16, 4001), 1 << 30),
    "GPT-small": ((6, 384, 6, 128, 8192), 2 << 30),
    "GPT": ((12, 768, 12, 64, 50257), 10 << 30),
}
LARGE = [pytest.param("GPT-small", marks=pytest.mark.nightly),
         pytest.param("GPT", marks=pytest.mark.nightly)]  # fmt: skip


def write_network(folder: Path, size: tuple[int, ...]) -> list[str]:
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(3)
    model = load(NETWORKS).gpt(*size)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.001), loss=loss)
    model.save(folder / "gpt.keras")
    tokens = np.random.default_rng(5).integers(0, size[4], (8, size[3] + 1)).astype("int32")
    np.save(folder / "x.npy", tokens[:, :-1])
    np.save(folder / "y.npy", tokens[:, 1:])
    return [str(folder / "gpt.keras"), "--data", str(folder / "x.npy"), "--labels",
            str(folder / "y.npy"), "--batch", "4", "--lanes", "4", "--parts", "2", "--threads", "1",
            "--times", "none", "--json"]  # fmt: skip


class GroupedJob:
    """Two steps of four sequences."""

    def __init__(self, plimsoll: Path, in_cgroup: Path, folder: Path, name: str) -> None:
        if not NETWORKS.is_file():
            pytest.skip("PLIMSOLL_TEST_DATA does not name a folder with networks.py")
        size, together = SIZES[name]
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + page_cache()
        if free < together:
            pytest.skip(f"the ranks take {together >> 30} GiB, and {free >> 30} are free")
        self.plimsoll, self.in_cgroup, self.folder, self.name = plimsoll, in_cgroup, folder, name
        self.words = write_network(folder, size)

    def plan(self, *more: Any) -> dict[str, Any]:
        words = [str(self.plimsoll), "plan", *self.words, *map(str, more)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
        assert done.returncode in (0, DOES_NOT_FIT), done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def smallest(self, ranks: int, stage: int) -> int:
        shared = ["--ranks", ranks, "--shard", stage] if ranks > 1 else []
        smallest: int = self.plan(*shared)["smallest_same_bits_bytes"]
        return smallest + (TAKEN if ranks > 1 else 0)

    def grouped(self, rank: int, limit: int, *more: Any) -> list[str]:
        report = ["--report", self.folder / f"group{rank}.json"]
        fit = [self.plimsoll, "fit", *self.words, "--epochs", 1, "--memory", limit,
               "--rank-timeout", 1000, "--output", self.folder / "out.weights.h5"]  # fmt: skip
        return [str(word) for word in (self.in_cgroup, f"{limit}B", *report, "--", *fit, *more)]

    def train(self, limits: list[int], *more: Any) -> tuple[str, dict[str, Any]]:
        """The digest of weights and what the run said; a rank for each limit, none of which is
        reached by what the kernel cannot take back."""
        output = self.folder / "out.weights.h5"
        output.unlink(missing_ok=True)
        words = [*under_mpirun(1)] if len(limits) > 1 else []
        for rank, limit in enumerate(limits):
            words += [*([":", "-n", "1"] if rank > 0 else []), *self.grouped(rank, limit, *more)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=3000)
        assert done.returncode == 0, done.stderr[-2000:]
        for rank in range(len(limits)):
            group = json.loads((self.folder / f"group{rank}.json").read_text())
            assert group["oom_kills"] == 0
        told = json.loads(done.stdout)
        assert told["measured_process_bytes"] <= told["predicted_process_bytes"] <= limits[0]
        return hashlib.sha256(output.read_bytes()).hexdigest(), told

    def tell(self, what: str, limits: list[int], told: dict[str, Any]) -> None:
        each = ", ".join(f"{limit / MEBIBYTE:.0f}" for limit in limits)
        print(f"{self.name}, {what}: limit {each} MiB, predicted "
              f"{told['predicted_process_bytes'] / MEBIBYTE:.0f}, measured "
              f"{told['measured_process_bytes'] / MEBIBYTE:.0f}, a step "
              f"{told['seconds_per_step']:.2f} s", flush=True)  # fmt: skip


def page_cache() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Cached:"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.fixture
def job(
    plimsoll: Path, in_cgroup: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> GroupedJob:
    skip_without_ranks(plimsoll)
    return GroupedJob(plimsoll, in_cgroup, tmp_path, request.param)


@pytest.mark.parametrize("job", ["tiny", *LARGE], indirect=True)
def test_each_stage_keeps_its_limit(job: GroupedJob) -> None:
    several = [(2, 0), (4, 0), (4, 1), (4, 2), (4, 3)]
    if job.name == "tiny":
        several = [(4, 0), (4, 3)]
    limits, digests = {}, set()
    for ranks, stage in [(1, 0), *several]:
        limit = job.smallest(ranks, stage)
        limits[ranks, stage] = limit
        shared = ["--shard", stage] if ranks > 1 else []
        digest, told = job.train([limit] * ranks, "--no-spill", *shared)
        digests.add(digest)
        job.tell(f"{ranks} ranks, stage {stage}", [limit], told)
    assert len(digests) == 1
    assert limits[4, 3] < limits[4, 0]


@pytest.mark.parametrize("job", ["tiny", *LARGE], indirect=True)
def test_one_rank_spills_where_four_need_not(job: GroupedJob) -> None:
    limit = job.smallest(4, 3)
    alone = job.plan("--memory", limit, "--no-spill")
    assert alone["answer"] != "fits" or alone["block_set"] > 0
    four, told = job.train([limit] * 4, "--no-spill", "--shard", 3)
    job.tell("4 ranks without a file", [limit], told)
    one, told = job.train([limit])
    job.tell("1 rank with a file", [limit], told)
    assert told["block_set"] == 0
    assert job.plan("--memory", limit)["spill_bytes"] > 0
    assert one == four


@pytest.mark.parametrize("job", ["tiny", *LARGE], indirect=True)
def test_four_limits_on_four_ranks(job: GroupedJob) -> None:
    """The stage is that of the rank that has least."""
    free = job.plan()["free_plan_bytes"]
    alone, _ = job.train([free])
    least = job.smallest(4, 3) + OTHER_STAGES
    limits = [job.smallest(4, 1), least, free + 64 * MEBIBYTE, least + 16 * MEBIBYTE]
    limits[0] = max(limits[0], limits[3] + 8 * MEBIBYTE)
    assert len(set(limits)) == 4
    digest, told = job.train(limits, "--no-spill")
    job.tell("4 ranks", limits, told)
    assert digest == alone
