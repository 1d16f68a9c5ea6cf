"""Twenty networks that nobody has seen: drawn at random, by the hash of the commit as the seed.

Each runs free, at half of the free memory and at the smallest limit with the same bits, in a memory
control group of that size, and must end with the free run's weights and slots, bit by bit. Beside
the times stand their estimates and what `plimsoll bench --coverage` calls slow.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
from drawn_networks import draw
from harness import save_case, shaken_weights
from materials import BINARY, ROOT
from processes import run
from sides import checked
from unseen import MIB, fit, plan, row_of

STEPS = 4
Row = dict[str, Any]


def seed_of(options: argparse.Namespace) -> str:
    if options.seed:
        return str(options.seed)
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def prepare(seed: str, name: str, folder: Path) -> tuple[list[str], str]:
    """Arguments of the network that it writes, and what it is made of."""
    case, batch = draw(seed, int(name.removeprefix("drawn-")))
    keras.utils.set_random_seed(7)
    model = case.build()
    save_case(folder, case, shaken_weights(model), keras.optimizers.Adam(0.001))
    arguments = [
        str(folder / "model.keras"), "--data", str(folder / "x.npy"),
        "--labels", str(folder / "y.npy"), "--batch", str(batch),
    ]  # fmt: skip
    shape = "×".join(str(size) for size in case.x.shape[1:])
    return arguments, f"{shape}, batch {batch}, {len(model.layers)} layers"


def slow_operators(arguments: list[str], options: argparse.Namespace) -> dict[str, float]:
    """What takes 0.5 % of the step and stays below 40 % of its limit, with its share."""
    command = [str(BINARY), "bench", *arguments, "--coverage", "--json", "--steps",
               str(STEPS)]  # fmt: skip
    done = checked(run(command, prefix=options.prefix), command)
    operators = done.result()["coverage"]["operators"]
    return {each["operator"]: each["share"] for each in operators if each["slow"]}


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    seed = seed_of(options)
    folder = options.folder / f"{seed[:12]}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        arguments, what = prepare(seed, name, folder)
        return measured(f"{name}: {what}", arguments, options)
    finally:
        shutil.rmtree(folder)


def measured(name: str, arguments: list[str], options: argparse.Namespace) -> list[Row]:
    free_plan = plan(arguments, None)
    steps = options.steps or STEPS
    free = fit(arguments, steps, None, options)
    slow = slow_operators(arguments, options)
    rows = [row_of(name, "free", free_plan["free_plan_bytes"], free, None, True)]
    rows[0]["slow"] = ", ".join(f"{word} {share:.0%}" for word, share in slow.items())
    least = free_plan["smallest_same_bits_bytes"]
    limits = {"half": free_plan["free_plan_bytes"] // 2, "smallest": least}
    for what, limit in limits.items():
        if what == "half" and limit < least:
            continue
        result = fit(arguments, steps, limit, options)
        if "refused" in result:
            rows.append({"mode": "drawn", "workload": name, "what": what, "limit_bytes": limit,
                         "verdict": f"failed: {result['refused']}"})  # fmt: skip
        else:
            same = result["digest"] == free["digest"]
            rows.append(row_of(name, what, limit, result, None, same))
    for row in rows:
        row["mode"] = "drawn"
        told = {key: row.get(key) for key in ("seconds", "estimate", "slow", "verdict")}
        size = row["limit_bytes"] / MIB
        print(f"drawn: {name}: {row['what']}, {size:.0f} MiB: {json.dumps(told)}",
              file=sys.stderr, flush=True)  # fmt: skip
    return rows
