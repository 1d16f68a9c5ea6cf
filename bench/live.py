"""Workloads from live Keras models, TensorFlow in the process: limits held, the same bits.

Each run is a process that loads the model with Keras and trains it with `plimsoll.fit`: without a
limit, at the limits of a ladder in control groups of exactly that size, and by the command line on
the saved file. All must end with the same weights and slots, bit by bit. Beside them Keras trains
the same steps; how far its weights end from ours is told in units of what the steps changed, and
held against how far they end from each other when Keras meets each batch's samples in the other
order.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from materials import BINARY, ROOT, option, prepare
from processes import Run, run
from sides import checked

Row = dict[str, Any]
STEPS = 3
LIMITS = 6
MOST_APART = 0.05  # of what training changed: Adam's first steps make rounding of small gradients
MIB = 1 << 20


def child(words: list[str], group: str | None = None) -> Run:
    package = str(BINARY.parent.parent / "python")
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    script = str(ROOT / "bench" / "live_side.py")
    return run(["env", f"PYTHONPATH={path}", sys.executable, script, *words], group)


def by_command_line(arguments: list[str], folder: Path, words: list[str]) -> str:
    """The digest of what the command line trains on the saved file and the same rows."""
    names = []
    for name in ("--data", "--labels"):
        part = folder / f"{name[2:]}.npy"
        np.save(part, np.load(option(arguments, name), mmap_mode="r")[: int(words[-1])])
        names += [name, str(part)]
    output = str(folder / "out.keras")
    command = [str(BINARY), "fit", arguments[0], *names, "--batch", words[-2], "--no-shuffle",
               "--output", output]  # fmt: skip
    checked(run(command), command)
    return str(checked(child(["read", output, *words[1:]]), ["read"]).result()["digest"])


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    batch = int(option(arguments, "--batch"))
    steps = options.steps or STEPS
    rows = min(steps * batch - batch // 2, len(np.load(option(arguments, "--data"), mmap_mode="r")))
    files = [arguments[0], option(arguments, "--data"), option(arguments, "--labels")]
    words = [*files, str(batch), str(rows)]
    facts = checked(child(["plan", *words]), ["plan"]).result()
    free = checked(child(["fit", *words]), ["fit"])
    expected = free.result()["digest"]
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if by_command_line(arguments, Path(folder), words) != expected:
            wrong.append("the command line's bits differ")
    compared = checked(child(["compare", *words]), ["compare"]).result()
    apart, own = compared["apart"], compared["own"]
    if not apart <= max(MOST_APART, 2 * own):
        wrong.append(f"Keras's weights differ by {apart:.3g} of what training changed, with its "
                     f"samples turned by {own:.3g}")  # fmt: skip
    low, high = facts["least"], max(int(1.1 * facts["free"]), facts["least"] + MIB)
    held = 0
    for rung in range(LIMITS):
        limit = round(low * (high / low) ** (rung / (LIMITS - 1)))
        done = child(["fit", *words, str(limit)], str(limit))
        if not done.ok:
            wrong.append(f"{limit / MIB:.0f} MiB: exit {done.exit_code}: {done.errors[-300:]}")
        elif done.result()["digest"] != expected:
            wrong.append(f"{limit / MIB:.0f} MiB: bits differ")
        elif "above its limit" in done.errors or done.group.get("oom_kills"):
            wrong.append(f"{limit / MIB:.0f} MiB: not held")
        else:
            held += 1
    verdict = "reached" if not wrong else "; ".join(wrong)
    print(f"live: {name}: {held} of {LIMITS} limits from {low / MIB:.0f} to {high / MIB:.0f} MiB "
          f"held, {apart:.2g} from Keras, which is {own:.2g} from itself: {verdict}",
          file=sys.stderr, flush=True)  # fmt: skip
    return [
        {
            "mode": "live", "workload": name, "held": held, "limits": LIMITS, "least_bytes": low,
            "most_bytes": high, "free_peak_bytes": free.peak_bytes, "apart": apart, "own": own,
            "verdict": verdict,
        }
    ]  # fmt: skip
