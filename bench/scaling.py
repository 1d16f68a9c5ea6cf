"""Time against the batch, from 1 to 1024, and against the limit: Plimsoll alone, as charts.

Twice the batch may take 2.05 times the time, and more memory may not be slower.
"""

import argparse
import json
from typing import Any

from materials import BINARY, option, prepare, steps_of, warm
from processes import run
from sides import checked, plimsoll_steps
from training import Row

MOST_GROWTH = 2.05
MOST_RISE = 1.05  # of time between a limit and a larger one: noise
RUNGS = 6
MOST_STEP_SECONDS = 300.0  # larger batches than this allows are left out, and said
# Steps of a run where one takes more than so many seconds. The first two do not count, since they
# meet memory that is not there yet; but where there are two alone, the better one does.
LONG_STEPS = ((100.0, 2), (30.0, 3), (5.0, 4))
MOST_BATCH_SECONDS = 500.0  # of all runs of a batch, the first aside
MEMORY = "75%"  # of what the process may use, where a batch needs more
BATCHES = [2**i for i in range(11)]
# Weights stand still: kernels skip gradients that are zero, and few steps of a large batch would
# leave fewer of them than many of a small one.
STILL = "adam(learning_rate=0)"


def bench_batch(model: str, batch: int, steps: int, limited: bool, prefix: str) -> dict[str, Any]:
    """Random samples of the model's shapes: the files have fewer than 1024."""
    command = [
        str(BINARY), "bench", model, "--batch", str(batch), "--steps", str(steps), "--json",
        "--optimizer", STILL,
    ]  # fmt: skip
    within = [*command, "--memory", MEMORY]
    done = run(within if limited else command, prefix=prefix)
    if done.exit_code == 3 and not limited:  # the free plan is too large
        limited = True
        done = run(within, prefix=prefix)
    if done.exit_code == 3:
        return {"refused": done.errors.splitlines()[0]}
    result = checked(done, command).result()
    seconds = result["least_seconds_per_step"]
    return {"seconds": seconds, "peak_bytes": done.peak_bytes, "limited": limited}


def steps_for(seconds: float, quick: bool) -> int:
    """So many that a run takes about a second, but three that count at least; fewer long ones."""
    for least, steps in LONG_STEPS:
        if seconds > least:
            return steps
    return 2 + max(3, min(2000, int((0.2 if quick else 1.0) / max(seconds, 1e-7))))


def against_batch(name: str, options: argparse.Namespace) -> list[Row]:
    model = prepare(name, options.folder)[0]
    points: dict[int, list[dict[str, Any]]] = {}
    left_out = ""
    expected = 1e-3
    batches = BATCHES[:6] if options.quick else BATCHES
    for _ in range(options.repeat):
        for batch in batches:
            before = points.get(batch, [])
            if before:
                expected = before[0]["seconds"]
            elif batch // 2 in points:
                expected = 2 * points[batch // 2][0]["seconds"]
            if expected > MOST_STEP_SECONDS:
                left_out = f"batches from {batch} on: a step would take {expected:.0f} s"
                break
            steps = steps_for(expected, options.quick)
            if before and (len(before) + 1) * steps * expected > MOST_BATCH_SECONDS:
                continue
            limited = bool(before) and before[0]["limited"]
            got = bench_batch(model, batch, steps, limited, options.prefix)
            if "refused" in got:
                left_out = f"batches from {batch} on: {got['refused']}"
                break
            points.setdefault(batch, []).append(got)
    rows: list[Row] = []
    times = {batch: min(r["seconds"] for r in runs) for batch, runs in points.items()}
    for batch, runs in points.items():
        growth = times[batch] / times[batch // 2] if batch // 2 in times else None
        reached = growth is None or growth <= MOST_GROWTH
        verdict = "reached" if reached else f"{growth:.2f} of {MOST_GROWTH} ×"
        if len(runs) < options.repeat:
            verdict += f", {len(runs)} of {options.repeat} runs"
        if runs[0]["limited"]:
            verdict += f", within {MEMORY} of the memory"
        rows.append({
            "mode": "batch", "workload": name, "batch": batch, "seconds": times[batch],
            "peak_bytes": max(r["peak_bytes"] for r in runs), "growth": growth,
            "verdict": verdict,
        })  # fmt: skip
    if left_out:
        rows.append({"mode": "batch", "workload": name, "verdict": "left out: " + left_out})
    return rows


def against_limit(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    command = [str(BINARY), "plan", *arguments, "--json"]
    answer = json.loads(checked(run(command), command).output)
    low, high = answer["smallest_same_bits_bytes"], 1.1 * answer["free_plan_bytes"]
    count = 3 if options.quick else RUNGS
    limits = sorted(
        {round(low * (max(high, low) / low) ** (i / (count - 1))) for i in range(count)}
    )
    steps = options.steps or steps_of(name, True)
    warm(option(arguments, "--data"))
    times: dict[int, float] = {}
    peaks: dict[int, int] = {}
    for _ in range(options.repeat):
        for limit in limits:
            got = plimsoll_steps(arguments, steps, "f32", str(limit), options.prefix)
            if "refused" in got:
                raise SystemExit(f"{name} at {limit}: {got['refused']}")
            times[limit] = min(times.get(limit, got["seconds"]), got["seconds"])
            peaks[limit] = max(peaks.get(limit, 0), got["process_bytes"])
    rows: list[Row] = []
    for i, limit in enumerate(limits):
        rise = times[limit] / min(times[smaller] for smaller in limits[: i + 1])
        held = peaks[limit] <= limit
        rows.append({
            "mode": "limit", "workload": name, "limit_bytes": limit, "seconds": times[limit],
            "peak_bytes": peaks[limit], "rise": rise,
            "verdict": "not held" if not held else "reached" if rise <= MOST_RISE
            else f"{rise:.2f} × the time of a smaller limit",
        })  # fmt: skip
    return rows


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    return against_batch(name, options) + against_limit(name, options)
