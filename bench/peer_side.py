"""What the peers' processes have in common; each peer has an environment of its own, with NumPy."""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Work = Callable[[Any, np.ndarray, np.ndarray, argparse.Namespace], dict[str, Any]]


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/self/status has no VmHWM")


def result(seconds: list[float], losses: list[float]) -> dict[str, Any]:
    """What a run is told by: the median time, the largest resident set, the first losses."""
    return {
        "seconds": sorted(seconds)[len(seconds) // 2],
        "peak_bytes": peak_bytes(),
        "losses": losses[:8],
    }


def parser(summary: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=summary.splitlines()[0])
    made.add_argument("program", choices=["steps", "predict", "evaluate"])
    made.add_argument("model")
    made.add_argument("x")
    made.add_argument("y")
    made.add_argument("batch", type=int)
    made.add_argument("count", type=int)
    made.add_argument("--precision", default="f32")
    made.add_argument("--output")
    made.add_argument("--meet", help="PyTorch: the file by which ranks find each other")
    return made


def answer(model: Any, options: argparse.Namespace, train: Work, infer: Work) -> None:
    """Does the work on the files and prints one JSON line."""
    x, y = np.load(options.x, mmap_mode="r"), np.load(options.y, mmap_mode="r")
    work = train if options.program == "steps" else infer
    answered = work(model, x, y, options)
    if int(os.environ.get("OMPI_COMM_WORLD_RANK", "0")) == 0:
        print(json.dumps(answered))
