"""One training on several ranks of one thread each, beside one process of as many threads.

With --peers pytorch also beside PyTorch's DistributedDataParallel over gloo. Both are started by
Open MPI's mpirun on this machine. PyTorch's BatchNormalization takes its statistics from each
rank's own samples, ours from the whole batch. Runs alternate; the least counts.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from materials import BINARY, option, prepare, steps_of, warm
from processes import run
from sides import Failed, checked, peer_command

Row = dict[str, Any]
RANKS = 2
ALONE, DDP = 0.9, 1.2  # × as fast as one process with as many threads, as PyTorch


def under_mpirun() -> list[str]:
    launcher = shutil.which("mpirun.openmpi")
    if launcher is None:
        raise Failed("mpirun.openmpi is not here: install openmpi-bin")
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return [launcher, *root, "--oversubscribe", "--bind-to", "none", "-n", str(RANKS)]


def ours(arguments: list[str], ranks: int, steps: int, prefix: str) -> dict[str, Any]:
    command = [*(under_mpirun() if ranks > 1 else []), str(BINARY), "fit", *arguments, "--epochs",
               "1000000", "--steps", str(steps), "--no-shuffle", "--json", "--threads",
               str(RANKS // ranks)]  # fmt: skip
    return checked(run(command, prefix=prefix), command).result()


def pytorch(arguments: list[str], files: list[str], batch: int, steps: int, prefix: str) -> float:
    """Seconds of a step; the ranks find each other by a file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*under_mpirun(), "env", "OMP_NUM_THREADS=1", *peer_command("pytorch",
                   arguments[0]), "steps", arguments[0], *files, str(batch), str(steps), "--meet",
                   str(Path(folder) / "ranks")]  # fmt: skip
        return float(checked(run(command, prefix=prefix), command).result()["seconds"])


def verdict(row: Row) -> str:
    missed = [f"{row[name]:.2f} of {goal:g} × {what}"
              for name, goal, what in (("of_threads", ALONE, "one process"),
                                       ("of_pytorch", DDP, "PyTorch"))
              if row[name] is not None and row[name] < goal]  # fmt: skip
    return "; ".join(missed) or "reached"


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    steps = options.steps or steps_of(name, options.quick)
    files = [option(arguments, "--data"), option(arguments, "--labels")]
    batch = int(option(arguments, "--batch"))
    alone, shared, theirs = [], [], []
    for _ in range(options.repeat):
        warm(*files)
        alone.append(ours(arguments, 1, steps, options.prefix))
        shared.append(ours(arguments, RANKS, steps, options.prefix))
        if "pytorch" in options.peers:
            theirs.append(pytorch(arguments, files, batch, steps, options.prefix))
    one = min(run["seconds_per_step"] for run in alone)
    least = min(shared, key=lambda run: run["seconds_per_step"])
    seconds = least["seconds_per_step"]
    row: Row = {
        "mode": "ranks", "workload": name, "batch": batch, "ranks": RANKS, "seconds": seconds,
        "alone_seconds": one, "pytorch_seconds": min(theirs) if theirs else None,
        "of_threads": one / seconds, "of_pytorch": min(theirs) / seconds if theirs else None,
        "waited_seconds": least["waited_seconds_per_step"],
        "exchanged_bytes": least["exchanged_bytes_per_step"],
        "peak_bytes": least["measured_process_bytes"],
    }  # fmt: skip
    row["verdict"] = verdict(row)
    print(f"ranks: {name}: {json.dumps(row)}", file=sys.stderr, flush=True)
    return [row]
