"""What `plimsoll watch` costs: TensorFlow's steps alone and under it, alternately.

The watched program's step may take 1 % longer, and the watcher's own memory stays within 16 MiB.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from materials import BINARY, option, prepare, steps_of, warm
from processes import run
from sides import checked, peer_command
from training import Row

MOST_SHARE = 1.01
MOST_BYTES = 16 << 20


def steps_alone(command: list[str], prefix: str) -> float:
    return checked(run(command, prefix=prefix), command).result()["seconds"]


def steps_watched(command: list[str], prefix: str) -> tuple[float, int]:
    """Seconds of a step, and the watcher's own resident memory."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "watch.json"
        words = [str(BINARY), "watch", "--quiet", "--json", str(report), "--", *command]
        seconds = steps_alone(words, prefix)
        own: dict[str, Any] = json.loads(report.read_text())["own"]
    return seconds, own["peak_resident_bytes"]


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    files = [option(arguments, "--data"), option(arguments, "--labels")]
    for file in files:
        warm(file)
    count = options.steps or steps_of(name, options.quick)
    words = ["steps", arguments[0], *files, option(arguments, "--batch"), str(count)]
    command = [*peer_command("tensorflow"), *words]
    alone: list[float] = []
    watched: list[tuple[float, int]] = []
    for _ in range(options.repeat):
        alone.append(steps_alone(command, options.prefix))
        watched.append(steps_watched(command, options.prefix))
    least = min(seconds for seconds, _ in watched)
    own = max(own_bytes for _, own_bytes in watched)
    ratio = least / min(alone)
    reached = ratio <= MOST_SHARE and own <= MOST_BYTES
    return [
        {
            "mode": "watch", "workload": name, "seconds": least, "peak_bytes": own,
            "alone_seconds": min(alone), "ratio": ratio,
            "median_ratio": median(seconds for seconds, _ in watched) / median(alone),
            "verdict": "reached" if reached
            else f"{ratio:.4f} of {MOST_SHARE} ×, {own / 2**20:.1f} of {MOST_BYTES >> 20} MiB",
        }
    ]  # fmt: skip
