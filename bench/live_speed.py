"""Speed of live Keras models in Python, beside the command line and beside Keras's own training.

Each run is a process of its own; the sides alternate. `fit`: seconds of a step within epochs of
`plimsoll.fit`, of the command line on the saved file and of `model.fit`, and the largest resident
memory of the processes. `predict` and `train_on_batch`: one call, of one sample and of one batch,
the least of many.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from materials import BINARY, ROOT, option, prepare, warm
from processes import run
from sides import checked, plimsoll_steps

Row = dict[str, Any]
STEPS = {"S0a": 8, "S1b": 2000, "S4": 100}
USUAL_STEPS = 100
EPOCHS = 4
MOST_SLOWER = 1.02  # than the command line
MOST_PYTHON = 20e-6  # seconds of a step, where that is more
CALLS = {"predict": 100.0, "train_on_batch": 10.0}  # × as fast as Keras
SMALL = ("S1b", "S4b")  # where calls, not arithmetic, take the time
MIB = 1 << 20


def child(words: list[str], prefix: str) -> dict[str, Any]:
    package = str(BINARY.parent.parent / "python")
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    script = str(ROOT / "bench" / "live_speed_side.py")
    command = ["env", f"PYTHONPATH={path}", sys.executable, script, *words]
    done = checked(run(command, prefix=prefix), command)
    return {**done.result(), "peak_bytes": done.peak_bytes}


def first_rows(arguments: list[str], count: int, folder: Path) -> tuple[list[str], list[str]]:
    """The arguments with files of so many samples, which all sides hold, and the files; where there
    are fewer, they come again."""
    files, words = [], list(arguments)
    for name in ("--data", "--labels"):
        part = folder / f"speed{name[1:]}-{count}.npy"
        if not part.exists():
            rows = np.load(option(arguments, name), mmap_mode="r")
            np.save(part, rows[np.arange(count) % len(rows)])
        words[words.index(name) + 1] = str(part)
        files.append(str(part))
    return words, files


def least(runs: list[dict[str, Any]], key: str = "seconds") -> float:
    return min(run[key] for run in runs)


def of_fit(name: str, arguments: list[str], options: argparse.Namespace) -> Row:
    batch, steps = int(option(arguments, "--batch")), options.steps or STEPS.get(name, USUAL_STEPS)
    words, files = first_rows(arguments, steps * batch, Path(arguments[0]).parent)
    side = [arguments[0], *files, str(batch), str(EPOCHS)]
    ours, keras, line = [], [], []
    for _ in range(options.repeat):
        warm(*files)
        ours.append(child(["plimsoll", *side], options.prefix))
        line.append(plimsoll_steps(words, EPOCHS * steps, "f32", None, options.prefix))
        keras.append(child(["keras", *side], options.prefix))
    seconds, peak = least(ours), max(run["peak_bytes"] for run in ours)
    by_line = least(line)
    more = seconds - by_line
    reached = seconds <= by_line * MOST_SLOWER or more <= MOST_PYTHON
    return {
        "mode": "live_speed", "workload": name, "what": "fit, a step", "batch": batch,
        "seconds": seconds, "line_seconds": by_line, "keras_seconds": least(keras),
        "peak_bytes": peak, "keras_peak_bytes": min(run["peak_bytes"] for run in keras),
        "verdict": "reached" if reached else
                   f"{(seconds / by_line - 1) * 100:.1f} %, {more * 1e6:.1f} µs more than the "
                   "command line",
    }  # fmt: skip


def of_calls(name: str, arguments: list[str], options: argparse.Namespace) -> list[Row]:
    batch = option(arguments, "--batch")
    _, files = first_rows(arguments, int(batch), Path(arguments[0]).parent)
    runs = [child(["calls", arguments[0], *files, batch], options.prefix)
            for _ in range(options.repeat)]  # fmt: skip
    rows = []
    for what, goal in CALLS.items():
        ours, keras = least(runs, what), least(runs, f"keras_{what}")
        speed = keras / ours
        rows.append({
            "mode": "live_speed", "workload": name, "what": what, "batch": int(batch),
            "seconds": ours, "keras_seconds": keras,
            "verdict": "reached" if speed >= goal else f"{speed:.1f} of {goal:g} ×",
        })  # fmt: skip
    return rows


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    rows = [of_fit(name, arguments, options)]
    if name in SMALL:
        rows += of_calls(name, arguments, options)
    for row in rows:
        ratio = row["keras_seconds"] / row["seconds"]
        beside = f", command line {row['line_seconds']:.3g} s" if "line_seconds" in row else ""
        memory = (f", {row['peak_bytes'] / MIB:.0f} MiB and {row['keras_peak_bytes'] / MIB:.0f} "
                  f"({row['peak_bytes'] / row['keras_peak_bytes']:.2f})"
                  if "peak_bytes" in row else "")  # fmt: skip
        print(f"live_speed: {name}: {row['what']}: {row['seconds']:.3g} s, Keras "
              f"{row['keras_seconds']:.3g} s ({ratio:.1f} ×){beside}{memory}: {row['verdict']}",
              file=sys.stderr, flush=True)  # fmt: skip
    return rows
