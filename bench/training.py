"""Training steps: every row of a workload's goals, alternately with the peers."""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from goals import Goal, goals_of
from materials import option, prepare, steps_of, warm
from sides import peer, peer_command, plimsoll_steps

FLOOR_STEPS = 3
ALIKE = 5e-5  # of a loss: the roundings of PyTorch's Adam, which divides in another order
Row = dict[str, Any]


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Several runs of one side in one row: the least and the median time, the largest peak."""
    if "refused" in runs[0]:
        return {"refused": runs[0]["refused"]}
    seconds = [r["seconds"] for r in runs]
    return {
        "seconds": seconds,
        "least_seconds": min(seconds),
        "median_seconds": median(seconds),
        "peak_bytes": max(r["peak_bytes"] for r in runs),
        **{k: runs[0][k] for k in runs[0] if k not in ("seconds", "peak_bytes", "losses", "floor")},
        "losses": runs[0].get("losses", []),
    }


def ratio(ours: dict[str, Any], theirs: dict[str, Any]) -> float | None:
    if "refused" in ours or "refused" in theirs:
        return None
    return theirs["least_seconds"] / ours["least_seconds"]


def loss_floor(
    name: str, precision: str, base: list[str], arguments: list[str], options: argparse.Namespace
) -> float:
    """How far TensorFlow's losses are from themselves over five disturbed runs; kept in a file."""
    kept = options.folder / name / f"floor-{precision}.json"
    if not kept.exists():
        files = (option(arguments, "--data"), option(arguments, "--labels"))
        batch = int(option(arguments, "--batch"))
        got = peer(base, "steps", arguments, files, batch, FLOOR_STEPS, precision, "", "--floor",
                   str(FLOOR_STEPS))  # fmt: skip
        kept.write_text(json.dumps({"floor": got["floor"], "steps": FLOOR_STEPS}))
    return json.loads(kept.read_text())["floor"]


def compare_losses(
    ours: list[float], theirs: list[float], floor: float, alike: float = 0.0
) -> dict[str, Any]:
    """Equal where they are within four times the floor, over the steps that it was taken of, or
    within a share `alike` of themselves."""
    count = min(FLOOR_STEPS, len(ours), len(theirs))
    off = max(abs(a - b) for a, b in zip(ours[:count], theirs[:count]))
    within = 4 * floor + 1e-7 + alike * max(abs(a) for a in theirs[:count])
    return {"steps": count, "difference": off, "floor": floor, "agree": off <= within}


def verdict(goal: Goal, row: Row) -> str:
    """What became of the goal: reached, or what is missing."""
    ours = row["plimsoll"]
    if "refused" in ours:
        return "refused"
    missed = []
    speed = row["ratios"].get("tensorflow")
    if goal.speed and speed is not None and speed < goal.speed:
        missed.append(f"{speed:.2f} of {goal.speed:g} ×")
    if goal.mib and ours["peak_bytes"] > goal.mib * 2**20:
        missed.append(f"{ours['peak_bytes'] / 2**20:.0f} of {goal.mib} MiB")
    for peer_name, compared in row.get("losses", {}).items():
        if not compared["agree"]:
            missed.append(f"losses differ from {peer_name}'s")
    if ours.get("oom_kills"):
        missed.append("killed at the limit")
    unknown = goal.speed and speed is None
    return "; ".join(missed) or ("not measured" if unknown else "reached")


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    goals = goals_of(name, options.memory, options.precision)
    steps = options.steps or steps_of(name, options.quick)
    files = (option(arguments, "--data"), option(arguments, "--labels"))
    batch = int(option(arguments, "--batch"))
    peers = [p for p in options.peers if name != "fashion"]
    bases = {p: peer_command(p, arguments[0]) for p in peers}
    ours: dict[Goal, list[dict[str, Any]]] = {goal: [] for goal in goals}
    theirs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(options.repeat):
        warm(*files)
        for goal in goals:
            ours[goal].append(
                plimsoll_steps(arguments, steps, goal.precision, goal.limit, options.prefix)
            )
        for precision in {g.precision: 0 for g in goals if "refused" not in ours[g][0]}:
            for p in peers:
                got = peer(bases[p], "steps", arguments, files, batch, steps, precision,
                           options.prefix)  # fmt: skip
                theirs.setdefault((p, precision), []).append(got)
    rows = []
    for goal in goals:
        row: Row = {
            "mode": "train", "workload": name, "precision": goal.precision, "limit": goal.limit,
            "batch": batch, "steps": steps, "plimsoll": summary(ours[goal]), "peers": {},
            "ratios": {}, "goal": {"speed": goal.speed, "mib": goal.mib},
        }  # fmt: skip
        for p in peers:
            if (p, goal.precision) in theirs:
                row["peers"][p] = summary(theirs[p, goal.precision])
                row["ratios"][p] = ratio(row["plimsoll"], row["peers"][p])
        if row["peers"] and goal.precision == "f32" and "refused" not in row["plimsoll"]:
            floor = loss_floor(name, "f32", peer_command("tensorflow"), arguments, options)
            row["losses"] = {
                p: compare_losses(
                    row["plimsoll"]["losses"],
                    side["losses"],
                    floor,
                    0.0 if p == "tensorflow" else ALIKE,
                )
                for p, side in row["peers"].items()
                if "losses" in side
            }
        row["verdict"] = verdict(goal, row)
        rows.append(row)
    return rows


def folder_of(options: argparse.Namespace) -> Path:
    options.folder.mkdir(parents=True, exist_ok=True)
    return options.folder
