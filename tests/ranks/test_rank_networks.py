"""Ranks on hosts of their own, joined by TCP at a known rate: the bits, what is predicted of the
network, a link that is cut."""

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from dense_network import write_dense_network
from hosts import hosts
from normalized_network import layer
from ranks_job import Job, skip_without_ranks


class HostedJob(Job):
    """Dense layers of 30 MB together."""

    def __init__(self, binary: Path, folder: Path, units: int = 1024) -> None:
        super().__init__(binary, folder)
        hidden = (layer("Dense", f"d{i}", units=units, activation="relu") for i in range(8))
        self.words = write_dense_network(folder, 640, 256, 10, "adam", *hidden)

    def step(self, launcher: list[str], *more: Any) -> dict[str, Any]:
        words = self.command("--epochs", 3, *more)
        done = subprocess.run([*launcher, *words], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        return told

    def planned(self, ranks: int, rate: float, way: float, *more: Any) -> dict[str, float]:
        """By bytes a second, and seconds of a way."""
        network = f"{rate / 1e6:.3f}MB/s,{way * 1e6:.3f}us"
        words = self.command("--ranks", ranks, "--network", network, *more)
        words[words.index("fit")] = "plan"
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        told: dict[str, float] = json.loads(done.stdout)
        return told


@pytest.fixture(autouse=True)
def launcher(plimsoll: Path) -> None:
    skip_without_ranks(plimsoll)


def test_two_hosts_give_the_bits_of_one_process(plimsoll: Path, tmp_path: Path) -> None:
    job = HostedJob(plimsoll, tmp_path, units=128)
    digests = []
    with hosts(tmp_path, 2, "1gbit") as two:
        for launcher in ([], two.launcher()):
            output = tmp_path / "out.weights.h5"
            output.unlink(missing_ok=True)
            job.step(launcher, "--lanes", 2, "--output", output)
            digests.append(hashlib.sha256(output.read_bytes()).hexdigest())
    assert digests[0] == digests[1]


def test_a_link_that_is_cut(plimsoll: Path, tmp_path: Path) -> None:
    job = HostedJob(plimsoll, tmp_path, units=128)
    log = tmp_path / "log.jsonl"
    words = job.command("--epochs", 1000000, "--rank-timeout", 3, "--log", log, "--log-steps")
    with hosts(tmp_path, 2, "1gbit") as two:
        run = subprocess.Popen([*two.launcher(), *words], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while not (log.exists() and log.stat().st_size > 0) and time.monotonic() < deadline:
                time.sleep(0.05)
            two.cut(2)
            begin = time.monotonic()
            line = ""
            while "has not answered" not in line:
                line = run.stderr.readline()  # type: ignore[union-attr]
                assert line, "it ended without a word"
            assert "rank 1 has not answered for 3 seconds" in line
            assert time.monotonic() - begin < 20
        finally:
            run.kill()


@pytest.mark.nightly
@pytest.mark.parametrize("rate", ["1gbit", "10gbit"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_network_takes_what_is_predicted(
    plimsoll: Path, tmp_path: Path, ranks: int, rate: str
) -> None:
    """The exchange by itself: nothing is computed, and what ranks exchange is exchanged."""
    job = HostedJob(plimsoll, tmp_path)
    with hosts(tmp_path, ranks, rate) as several:
        carried, way = several.carries()
        told = job.step(several.launcher(), "--backend", "null")
    predicted = job.planned(ranks, carried, way)["exchange_seconds_per_step"]
    measured = told["waited_seconds_per_step"]
    print(f"{ranks} hosts at {rate} ({carried / 1e6:.0f} MB/s, {way * 1e6:.0f} us): predicted "
          f"{predicted:.4f} s, measured {measured:.4f} s ({measured / predicted:.2f})")  # fmt: skip
    # Faster networks than processors carry are theirs.
    if held(ranks) and rate == "1gbit":
        assert 0.8 < measured / predicted < 1.3


def held(ranks: int) -> bool:
    """Ranks that share a processor wait for it, too."""
    return ranks <= len(os.sched_getaffinity(0))


def test_kernels_that_sleep_take_what_is_estimated(plimsoll: Path, tmp_path: Path) -> None:
    job = HostedJob(plimsoll, tmp_path, units=512)
    words = job.command("--backend", "sleeping")
    words[words.index("fit")] = "plan"
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    estimated = json.loads(done.stdout)["seconds_per_step"]
    few = ["--steps", 6]
    assert job.step([], "--backend", "null", *few)["seconds_per_step"] < estimated / 2
    assert job.step([], "--backend", "sleeping", *few)["seconds_per_step"] > 0.9 * estimated


@pytest.mark.nightly
@pytest.mark.parametrize("way", [0, 0.001])
@pytest.mark.parametrize("rate", ["1gbit", "10gbit"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_step_takes_what_is_predicted(
    plimsoll: Path, tmp_path: Path, ranks: int, rate: str, way: float
) -> None:
    """Kernels sleep, so that ranks share no processor but for what they exchange."""
    job = HostedJob(plimsoll, tmp_path, units=512)
    sleeping = ["--backend", "sleeping"]
    with hosts(tmp_path, ranks, rate, way) as several:
        carried, seconds = several.carries()
        told = job.step(several.launcher(), *sleeping, "--lanes", ranks)
    planned = job.planned(ranks, carried, seconds, *sleeping)
    waited = planned["waited_seconds_per_step"]
    predicted = planned["seconds_per_step"] + waited
    measured = told["seconds_per_step"]
    exchange = planned["exchange_seconds_per_step"]
    print(f"{ranks} hosts at {rate}, {1000 * way:g} ms ({carried / 1e6:.1f} MB/s, "
          f"{seconds * 1e6:.0f} us): predicted {predicted:.4f} s, measured {measured:.4f} "
          f"({measured / predicted:.2f}); exchange {exchange:.4f}, of it waited {waited:.4f}, "
          f"measured {told['waited_seconds_per_step']:.4f}")  # fmt: skip
    assert told["waited_seconds_per_step"] > 0
    slack = 0.15 if held(ranks) else 0.25
    assert 1 - slack < measured / predicted < 1 + slack


@pytest.mark.nightly
def test_how_much_of_it_is_hidden(plimsoll: Path, tmp_path: Path) -> None:
    """Sums go on beside the backward pass."""
    job = HostedJob(plimsoll, tmp_path)
    with hosts(tmp_path, 2, "10gbit") as two:
        whole = job.step(two.launcher(), "--backend", "null")["waited_seconds_per_step"]
        told = job.step(two.launcher(), "--backend", "sleeping", "--lanes", 2)
    waited = told["waited_seconds_per_step"]
    print(f"exchange {whole:.4f} s, of which waited {waited:.4f}: {1 - waited / whole:.2f} hidden")
    assert waited < 0.2 * whole
