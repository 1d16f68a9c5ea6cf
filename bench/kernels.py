"""Whether the kernel set's boxes are the right ones: every kernel of a training step alone, at its
box and at 1, 2, 4, … samples a call (bench/step_kernels)."""

import argparse
import json
from typing import Any

from materials import BINARY, option, prepare
from processes import run
from sides import Failed, checked
from training import Row

MOST_SHARE = 1.02  # of a step's kernels at their boxes, against each at its fastest extent
SECONDS = 0.02


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    batch = option(arguments, "--batch")
    program = BINARY.with_name("step_kernels")
    if not program.is_file():
        raise Failed(f"expected {program}: configure with -DPLIMSOLL_DEVELOPER=ON and oneDNN")
    command = [str(program), arguments[0], batch, str(SECONDS / (4 if options.quick else 1))]
    done = checked(run(command, prefix=options.prefix), command)
    result: dict[str, Any] = json.loads(done.output)
    lost = max(result["nodes"], key=lambda n: n["seconds"] - n["best_seconds"])
    share = result["seconds"] / result["best_seconds"]
    return [{
        "mode": "kernels", "workload": name, "batch": int(batch),
        "kernel_set": result["kernel_set"], "seconds": result["seconds"],
        "best_seconds": result["best_seconds"], "share": share, "most_lost": lost,
        "nodes": result["nodes"],
        "verdict": "reached" if share <= MOST_SHARE else f"{share:.3f} of {MOST_SHARE} ×",
    }]  # fmt: skip
