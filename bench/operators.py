"""Operators far below their limits, beside TensorFlow's own time for the same calls.

`plimsoll bench --coverage --roofline` says of each operator, and of each node, what it takes of a
step and how near it is to what the machine could do. A line of the table is what takes 0.5 % of the
step or more below 40 % of its limit: nodes that ask for the same together, and of an operator that
is slow as a whole all its nodes, the small ones in one line. TensorFlow's time is that of the same
calls alone, from a process that does nothing else (operators_side.py); ours is the mean within
steps. It has two: with operands in caches, where they fit, and with operands that no cache holds.
What is faster than the former is faster, what is slower than the latter is slower. What TensorFlow
has no call for is not compared.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tables
from materials import BINARY, option, prepare, steps_of, warm
from processes import run
from sides import HERE, checked

Row = dict[str, Any]
COUNTS_FROM = 0.005  # of the step; the same as in report/coverage.h
LEAST_OF_LIMIT = 0.4
WARM_UP = 2  # steps that the times leave out
TIMES = ("seconds", "cold_seconds")  # of TensorFlow
UNTOLD = ("site",)  # attributes that differ between nodes that ask for the same


@dataclass
class Calls:
    """Nodes of a step that ask for the same, all together; those that count alone apart."""

    call: dict[str, Any]
    nodes: int = 0
    seconds: float = 0.0  # of a step
    limit: float = 0.0
    share: float = 0.0
    slow_alone: bool = False  # each of them counts by itself
    theirs: dict[str, Any] = field(default_factory=dict)  # TensorFlow's answer for one of them

    @property
    def operator(self) -> str:
        return str(self.call["operator"])

    @property
    def slow(self) -> bool:
        return self.slow_alone or is_slow(self.share, self.limit, self.seconds)


def is_slow(share: float, limit: float, seconds: float) -> bool:
    return limit > 0 and share >= COUNTS_FROM and limit < LEAST_OF_LIMIT * seconds


def calls_of(answer: dict[str, Any]) -> list[Calls]:
    """The nodes of the program that `--coverage` looked at, by what they ask for."""
    coverage, programs = answer["coverage"], answer["profile"]["programs"]
    program = next(each for each in programs if each["program"] == coverage["program"])
    found: dict[str, Calls] = {}
    for row in program["rows"]:
        if row["kind"] != "kernel":
            continue
        attributes = {key: row["attributes"][key] for key in row["attributes"] if key not in UNTOLD}
        call = {"operator": row["op"], "inputs": row["inputs"], "outputs": row["outputs"],
                "attributes": attributes}  # fmt: skip
        seconds = row["seconds"] / program["runs"]
        limit = (row["limit_seconds"] or 0.0) / program["runs"]
        alone = is_slow(row["share"], limit, seconds)
        key = json.dumps([call, alone], sort_keys=True)
        calls = found.setdefault(key, Calls(call, slow_alone=alone))
        calls.nodes += 1
        calls.seconds += seconds
        calls.limit += limit
        calls.share += row["share"]
    return list(found.values())


def lines_of(calls: list[Calls], slow_operators: Iterable[str]) -> list[list[Calls]]:
    """What stands in one line each, the largest share first."""
    slow = set(slow_operators)
    large = [
        each for each in calls if each.slow or (each.operator in slow and each.share >= COUNTS_FROM)
    ]
    lines = [[each] for each in large]
    for operator in sorted(slow):
        small = [each for each in calls if each.operator == operator and each not in large]
        lines += [small] if small else []
    return sorted(lines, key=lambda line: -sum(each.share for each in line))


def shape_text(values: list[dict[str, Any]]) -> str:
    return ", ".join(
        "packed" if each["dtype"] == "opaque" else "×".join(map(str, each["shape"])) or "1"
        for each in values
    )


def text_of(line: list[Calls]) -> str:
    """The operator and its shapes; of several, of the one that takes longest."""
    longest = max(line, key=lambda each: each.seconds)
    call, nodes = longest.call, sum(each.nodes for each in line)
    count = f", {nodes} nodes" if nodes > 1 else ""
    most = "" if len(line) == 1 else f" of {len(line)} kinds, most:"
    shapes = f"{shape_text(call['inputs'])} → {shape_text(call['outputs'])}"
    window = call["attributes"].get("kernel_size") or call["attributes"].get("pool_size")
    windows = f", windows {'×'.join(map(str, window))}" if window else ""
    return f"{longest.operator}{count}{most} ({shapes}{windows})"


def verdict_of(hot: float | None, cold: float | None) -> str:
    """By TensorFlow's time over ours, with operands in caches and past them."""
    if hot is None or cold is None:
        return "not compared"
    if hot >= 1:
        return "reached"
    return f"{hot:.2f} to {cold:.2f} ×" if cold >= 1 else f"{cold:.2f} of 1 ×"


def row_of(name: str, line: list[Calls]) -> Row:
    """A line beside TensorFlow's time for those of its nodes that there is one for."""
    seconds, limit = (sum(getattr(each, key) for each in line) for key in ("seconds", "limit"))
    known = [each for each in line if "seconds" in each.theirs]
    ours, theirs, ratios = sum(each.seconds for each in known), [None] * 2, [None] * 2
    if known:
        theirs = [sum(each.nodes * each.theirs[key] for each in known) for key in TIMES]
        ratios = [time / ours for time in theirs]
    reasons = dict.fromkeys(each.theirs.get("none", "") for each in line if each not in known)
    beside = "; ".join(reason for reason in reasons if reason)
    if known and len(known) < len(line):
        beside = f"{len(known)} of {len(line)} kinds compared: {beside}"
    return {
        "mode": "operators", "workload": name, "operator": text_of(line),
        "share": sum(each.share for each in line), "seconds": seconds,
        "of_limit": limit / seconds, "tensorflow_seconds": theirs[0],
        "tensorflow_cold_seconds": theirs[1], "ratio": ratios[0], "cold_ratio": ratios[1],
        "beside": beside, "calls": [{**each.call, "nodes": each.nodes, "seconds": each.seconds,
                                     "tensorflow": each.theirs} for each in line],
        "verdict": verdict_of(*ratios),
    }  # fmt: skip


def coverage(arguments: list[str], steps: int, prefix: str) -> dict[str, Any]:
    command = [str(BINARY), "bench", *arguments, "--coverage", "--roofline", "--json",
               "--steps", str(steps + WARM_UP)]  # fmt: skip
    answer = checked(run(command, prefix=prefix), command).result()
    if not any("inputs" in row for row in answer["profile"]["programs"][0]["rows"]):
        raise SystemExit(f"bench: {BINARY}: its profile tells no shapes. Build it again.")
    return answer


def times_of_theirs(calls: list[Calls], threads: int, prefix: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "calls.json"
        asked.write_text(json.dumps({"threads": threads, "calls": [each.call for each in calls]}))
        command = [sys.executable, str(HERE / "operators_side.py"), str(asked)]
        return json.loads(checked(run(command, prefix=prefix), command).output.splitlines()[-1])


def compare(calls: list[Calls], threads: int, options: argparse.Namespace) -> None:
    """Asks TensorFlow for the times of each; of several rounds the least count."""
    if not calls or "tensorflow" not in options.peers:
        return
    for _ in range(options.repeat):
        for each, found in zip(calls, times_of_theirs(calls, threads, options.prefix)):
            before = each.theirs
            if "seconds" in before and "seconds" in found:
                found = {key: min(before[key], found[key]) for key in TIMES}
            if "seconds" in found or not before:
                each.theirs = found


def told(row: Row) -> str:
    columns = ", ".join(f"{head} {cell(row)}" for head, cell in tables.of_operators()[1:])
    return f"operators: {row['workload']}: {row['operator']}: {columns}: {row['verdict']}"


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    warm(option(arguments, "--data"), option(arguments, "--labels"))
    steps = options.steps or steps_of(name, options.quick)
    runs = [coverage(arguments, steps, options.prefix) for _ in range(options.repeat)]
    answer = min(runs, key=lambda each: each["seconds_per_step"])
    slow = [each["operator"] for each in answer["coverage"]["operators"] if each["slow"]]
    lines = lines_of(calls_of(answer), slow)
    compare([each for line in lines for each in line], answer["threads"], options)
    rows = [row_of(name, line) for line in lines]
    for row in rows:
        print(told(row), file=sys.stderr, flush=True)
    return rows or [{"mode": "operators", "workload": name, "verdict": "reached: none is slow"}]
