"""Networks that nothing was tuned on: free, at half and at a third of the free memory.

The free run and TensorFlow's alternate, `--repeat` times; the limits come after them in the first
rounds, each in a memory control group of that size, and must end with the free run's weights and
slots, bit by bit. Where no plan is as small as a third, the row has the smallest limit with
the same bits. Estimates stand beside the times.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import zipfile
from pathlib import Path
from statistics import median
from typing import Any

from materials import BINARY, option, prepare, steps_of, warm
from processes import run
from sides import checked, peer, peer_command

Row = dict[str, Any]
MIB = 1 << 20
FASTER = 1.0  # than TensorFlow, free and at a third
STATE = ("model.weights.h5",)
LIMITED = 3  # rounds with runs inside limits


def digest(path: Path) -> str:
    """A hash of the weights and slots in a file."""
    total = hashlib.sha256()
    with zipfile.ZipFile(path) as file:
        for name in STATE:
            total.update(file.read(name))
    return total.hexdigest()[:16]


def fit(arguments: list[str], steps: int, limit: int | None, options: argparse.Namespace) -> Row:
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        output = Path(folder) / "out.keras"
        command = [
            str(BINARY), "fit", *arguments, "--epochs", "1000000", "--steps", str(steps),
            "--no-shuffle", "--json", "--output", str(output),
        ]  # fmt: skip
        if limit is not None:
            command += ["--memory", str(limit)]
        done = run(command, None if limit is None else str(limit), options.prefix)
        if limit is not None and done.exit_code == 3:
            return {"refused": done.errors.splitlines()[0]}
        checked(done, command)
        return {
            **done.result(), "digest": digest(output), "peak_bytes": done.peak_bytes,
            "killed": done.group.get("oom_kills", 0), "all_seconds": done.seconds,
        }  # fmt: skip


def plan(arguments: list[str], limit: int | None) -> dict[str, Any]:
    command = [str(BINARY), "plan", *arguments, "--json"]
    if limit is not None:
        command += ["--memory", str(limit)]
    done = run(command)
    if done.exit_code not in (0, 3, 4):
        checked(done, command)
    return done.result()


def limits_of(free: dict[str, Any]) -> dict[str, int]:
    """Half and a third of the free memory, each no less than the smallest with the same bits."""
    whole, least = free["free_plan_bytes"], free["smallest_same_bits_bytes"]
    limits = {}
    for part, word in ((2, "half"), (3, "third")):
        limits[word if whole // part >= least else f"smallest, for a {word}"] = max(
            whole // part, least
        )
    return limits


def estimate_of(result: Row) -> str:
    ratio = result["estimated_seconds_per_step"] / result["seconds_per_step"]
    return f"{ratio:.2f}"


def told(row: Row) -> str:
    speed = row["speed"]
    mark = "" if speed is None else f" ({speed:.2f} × TensorFlow)"
    return (f"unseen: {row['workload']}: {row['what']}: {row['seconds']:.3g} s{mark}, "
            f"{row['peak_bytes'] / MIB:.0f} MiB of {row['limit_bytes'] / MIB:.0f}, "
            f"estimated {row['estimate']} of it: {row['verdict']}")  # fmt: skip


def row_of(name: str, what: str, limit: int, result: Row, theirs: float | None, same: bool) -> Row:
    wrong = []
    if not same:
        wrong.append("bits differ")
    if result["killed"]:
        wrong.append("killed at the limit")
    if result["peak_bytes"] > limit:
        wrong.append("limit not held")
    speed = None if theirs is None else theirs / result["seconds_per_step"]
    if speed is not None and speed < FASTER and "half" not in what:
        wrong.append(f"{speed:.2f} of {FASTER:g} ×")
    return {
        "mode": "unseen", "workload": name, "what": what, "limit_bytes": limit,
        "seconds": result["seconds_per_step"], "peak_bytes": result["peak_bytes"],
        "speed": speed, "tensorflow_seconds": theirs, "estimate": estimate_of(result),
        "verdict": "; ".join(wrong) or "reached",
    }  # fmt: skip


def limited_row(
    name: str, what: str, limit: int, results: list[Row], theirs: float | None, digest: str
) -> Row:
    """Of the fastest run within a limit; all of them have to hold it, with these bits."""
    for result in results:
        if "refused" in result:
            row = {"mode": "unseen", "workload": name, "what": what, "limit_bytes": limit,
                   "verdict": f"failed: {result['refused']}"}  # fmt: skip
            print(f"unseen: {name}: {what}: {json.dumps(row)}", file=sys.stderr, flush=True)
            return row
    least = min(results, key=lambda each: each["seconds_per_step"])
    worst = {key: max(each[key] for each in results) for key in ("killed", "peak_bytes")}
    same = all(each["digest"] == digest for each in results)
    return row_of(name, what, limit, {**least, **worst}, theirs, same)


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    files = (option(arguments, "--data"), option(arguments, "--labels"))
    batch, steps = int(option(arguments, "--batch")), options.steps or steps_of(name, False)
    base = peer_command("tensorflow")
    free_plan = plan(arguments, None)
    free, theirs = [], []
    limited: dict[str, list[Row]] = {}
    limits = limits_of(free_plan)
    for turn in range(options.repeat):
        warm(*files)
        free.append(fit(arguments, steps, None, options))
        if "tensorflow" in options.peers:
            theirs.append(peer(base, "steps", arguments, files, batch, steps, "f32",
                               options.prefix))  # fmt: skip
        for what, limit in limits.items() if turn < LIMITED else ():
            limited.setdefault(what, []).append(fit(arguments, steps, limit, options))
    beside = min((each["seconds"] for each in theirs), default=None)
    least = min(free, key=lambda each: each["seconds_per_step"])
    rows = [row_of(name, "free", free_plan["free_plan_bytes"], least, beside,
                   len({each["digest"] for each in free}) == 1)]  # fmt: skip
    rows[0]["middle_seconds"] = median(each["seconds_per_step"] for each in free)
    rows[0]["tensorflow_peak_bytes"] = max((each["peak_bytes"] for each in theirs), default=None)
    for what, results in limited.items():
        rows.append(limited_row(name, what, limits[what], results, beside, least["digest"]))
    for row in rows:
        if "seconds" in row:
            print(told(row), file=sys.stderr, flush=True)
    return rows
