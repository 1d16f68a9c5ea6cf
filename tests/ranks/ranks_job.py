"""A training that `mpirun` starts on several ranks, and whether it does here.

PLIMSOLL_MPI=mpich: by MPICH rather than Open MPI, in all tests that use this.
"""

import functools
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from normalized_network import write_normalized_network

MPI = os.environ.get("PLIMSOLL_MPI", "openmpi")
MPIRUN = shutil.which(f"mpirun.{MPI}")
LIBRARY = {"openmpi": "Open MPI", "mpich": "MPICH"}[MPI]
# What the library takes of a rank, which `plan` does not know: more than was ever measured.
TAKEN = {"openmpi": 16 << 20, "mpich": 20 << 20}[MPI]
RANK = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}[MPI]


def skip_without_ranks(plimsoll: Path) -> None:
    if MPIRUN is None:
        pytest.skip(f"{LIBRARY}'s mpirun is not here")
    if not (plimsoll.parent.parent / "libexec" / "plimsoll" / f"plimsoll-{MPI}.so").exists():
        pytest.skip(f"built without {LIBRARY}'s headers")
    if why := why_not_started():
        pytest.skip(f"mpirun starts no processes here: {why}")


@functools.cache
def why_not_started() -> str:
    """Of programs that know nothing of MPI: what a container without a network may not allow."""
    try:
        done = subprocess.run(
            [*under_mpirun(2), "true"], capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        return "not within a minute"
    return done.stderr.strip() if done.returncode != 0 else ""


def started_by(run: subprocess.Popen[str]) -> list[int]:
    """The ranks that a launcher has started so far, in their order."""
    found = subprocess.run(["pgrep", "-f", "plimsoll"], capture_output=True, text=True)
    ranks = {}
    for process in map(int, found.stdout.split()):
        try:
            environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            if ancestor(process, run.pid):
                ranks |= {int(word.split(b"=")[1]): process for word in environment
                          if word.startswith(RANK.encode() + b"=")}  # fmt: skip
        except OSError:
            continue  # it has ended
    return [ranks[rank] for rank in sorted(ranks)]


def ancestor(process: int, wanted: int) -> bool:
    while process > 1 and process != wanted:
        process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return process == wanted


def under_mpirun(ranks: int) -> list[str]:
    if MPI == "mpich":
        return [str(MPIRUN), "-bind-to", "none", "-n", str(ranks)]
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return [str(MPIRUN), *root, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]


def side_by_side(*commands: list[str]) -> subprocess.CompletedProcess[str]:
    """A rank for each command."""
    words = [*under_mpirun(1), *commands[0]]
    for command in commands[1:]:
        words += [":", "-n", "1", *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


class Job:
    """72 images in batches of 64, the second one of 8, and BatchNormalization."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.batch = 64
        self.words = write_normalized_network(folder, side=16, filters=8)

    def command(self, *more: Any) -> list[str]:
        words = [self.binary, "fit", *self.words, "--batch", self.batch, "--times", "none",
                 "--parts", 2, "--threads", 1, *more]  # fmt: skip
        return [str(word) for word in words]

    def run(self, ranks: int, *more: Any) -> subprocess.CompletedProcess[str]:
        launcher = under_mpirun(ranks) if ranks > 1 else []
        return subprocess.run(
            [*launcher, *self.command(*more)], capture_output=True, text=True, timeout=120
        )

    def fit(self, ranks: int, *more: Any) -> tuple[str, dict[str, Any]]:
        """The digest of the weights, and what the run said."""
        output = self.folder / f"out{ranks}.weights.h5"
        output.unlink(missing_ok=True)
        done = self.run(ranks, "--epochs", 3, "--output", output, *more)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["measured_process_bytes"] <= told["predicted_process_bytes"]
        return hashlib.sha256(output.read_bytes()).hexdigest(), told
