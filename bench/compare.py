#!/usr/bin/env python3
"""Plimsoll beside Keras on TensorFlow: seconds a step and peak memory, alternately in one run.

    bench/compare.py S0a S1a ResNet50 [--repeat 3] [--steps N] [--memory 64MiB]

Each run is a process of its own; both read the same files from page cache. A step's time is the
median within a run, and the least of those over the runs. Prints a Markdown table.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from materials import BINARY, prepare

HERE = Path(__file__).resolve().parent
STEPS = {"ResNet50": 5, "MobileNetV2": 5, "U-Net": 5, "GPT-small": 8, "GPT": 4, "S0c": 60}
STEPS |= {"S0a": 8, "S0b": 20, "S1a": 100, "S1b": 2000, "S1c": 24, "S2": 200}
DEFAULT_STEPS = 300


def plimsoll(arguments: list[str], steps: int, memory: str | None) -> dict[str, Any]:
    command = [
        str(BINARY), "fit", *arguments, "--epochs", "100000", "--steps", str(steps), "--no-shuffle",
        "--json",
    ]  # fmt: skip
    if memory:
        command += ["--memory", memory]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {process.returncode}\n{errors}")
    return json.loads(output)


def keras(arguments: list[str], steps: int) -> dict[str, Any]:
    values = dict(zip(arguments[1::2], arguments[2::2]))
    command = [
        sys.executable, str(HERE / "keras_steps.py"), arguments[0], values["--data"],
        values["--labels"], values["--batch"], str(steps),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str, options: argparse.Namespace) -> str:
    arguments = prepare(name, options.folder)
    steps = options.steps or STEPS.get(name, DEFAULT_STEPS)
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    for _ in range(options.repeat):
        ours.append(plimsoll(arguments, steps, options.memory))
        theirs.append(keras(arguments, steps))
    our_time = min(r["seconds_per_step"] for r in ours)
    their_time = min(r["median_seconds"] for r in theirs)
    our_peak = max(r["measured_process_bytes"] for r in ours) / 2**20
    predicted = max(r["predicted_process_bytes"] for r in ours) / 2**20
    their_peak = min(r["peak_bytes"] for r in theirs) / 2**20
    arena = ours[0]
    return (
        f"| {name} | {our_time:.5f} | {their_time:.5f} | {their_time / our_time:.2f} × "
        f"| {our_peak:.1f} | {predicted:.1f} | {their_peak:.0f} "
        f"| {arena['planned_arena_bytes']} | {arena['measured_arena_bytes']} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--memory")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/plimsoll-bench"))
    options = parser.parse_args()
    print(
        "| workload | s/step | TensorFlow | ratio | peak MiB | predicted | TensorFlow MiB "
        "| arena planned | touched |\n|---|---|---|---|---|---|---|---|---|"
    )
    for name in options.names:
        print(row(name, options), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
