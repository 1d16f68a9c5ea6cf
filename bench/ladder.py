"""One workload under a ladder of limits, each in a control group of exactly that size.

Limits go geometrically from smallest_same_bits_bytes to 1.3 × the free plan's; every run must hold
its limit and end with the same bits. Two more lie below, down to smallest_feasible_bytes, and two
down to smallest_spill_bytes where a spill file reaches further, with the same bits. One page below
smallest_feasible_bytes a run without a spill file must be refused with exit code 3.
"""

import argparse
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import processes
from materials import BINARY, prepare

PAGE = 4096
STEPS = 20
SLACK = 1.05  # time may rise by this much between rungs: noise
ALLOWED = 8 * 2**20  # above the measured peak, half of it what the page cache maps beside a page


def plan(arguments: list[str]) -> dict[str, Any]:
    command = [str(BINARY), "plan", *arguments, "--json"]
    done = processes.run(command)
    if not done.ok:
        raise SystemExit(f"{' '.join(command)}: exit {done.exit_code}\n{done.errors}")
    return done.result()


def digest(path: Path) -> str:
    """A digest of every array in a .keras file, by name."""
    from harness import read_keras

    weights, slots = read_keras(path)
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode() + weights[name].tobytes())
    for slot in slots:
        total.update(slot.tobytes())
    return total.hexdigest()[:16]


def run(arguments: list[str], limit: int | None, steps: int, folder: Path) -> dict[str, Any]:
    """One training run; its JSON, the group's report and a digest of the weights."""
    output, log = folder / "out.keras", folder / "log.jsonl"
    command = [
        str(BINARY), "fit", *arguments, "--epochs", "1000", "--steps", str(steps), "--no-shuffle",
        "--json", "--output", str(output), "--log", str(log), "--log-steps",
    ]  # fmt: skip
    if limit is not None:
        command += ["--memory", str(limit)]
    done = processes.run(command, None if limit is None else str(limit))
    result: dict[str, Any] = {"exit": done.exit_code, "error": done.errors, "group": done.group}
    if done.ok:
        result.update(done.result())
        losses = [json.loads(line).get("loss") for line in log.read_text().splitlines()]
        result["digest"] = digest(output) + hashlib.sha256(repr(losses).encode()).hexdigest()[:8]
    return result


def rungs(answer: dict[str, Any], count: int) -> list[int]:
    low = answer["smallest_same_bits_bytes"]
    high = max(int(1.3 * answer["free_plan_bytes"]), low)
    limits = [round(low * (high / low) ** (i / (count - 1))) for i in range(count)]
    return sorted({low, *limits})


def check(name: str, limit: int, got: dict[str, Any]) -> list[str]:
    """What a held run must show."""
    if got["exit"] != 0:
        return [f"{name} at {limit}: exit {got['exit']}: {got['error'][-300:]}"]
    wrong = []
    if got["group"].get("oom_kills"):
        wrong.append(f"{name} at {limit}: killed by the kernel")
    if got["measured_process_bytes"] > limit:
        wrong.append(f"{name} at {limit}: measured {got['measured_process_bytes']}")
    predicted, measured = got["predicted_process_bytes"], got["measured_process_bytes"]
    if not measured <= predicted <= measured * 1.02 + ALLOWED:
        wrong.append(f"{name} at {limit}: predicted {predicted}, measured {measured}")
    return wrong


def ladder(name: str, options: argparse.Namespace) -> list[str]:
    wrong: list[str] = []
    arguments = prepare(name, options.folder)
    answer = plan(arguments)
    same, least = answer["smallest_same_bits_bytes"], answer["smallest_feasible_bytes"]
    print(
        f"{name}: free plan {answer['free_plan_bytes']}, same bits {same}, least {least}, "
        f"with a spill file {answer.get('smallest_spill_bytes')}"
    )
    print(f"{'limit':>12} {'planned':>12} {'predicted':>12} {'measured':>12} {'s/step':>9}  bits")
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        free = run(arguments, None, (options.steps or STEPS), folder)
        if free["exit"] != 0:
            return [f"{name}: the free plan failed: {free['error'][-300:]}"]
        times: dict[int, float] = {}
        plans: dict[int, tuple[int, int]] = {}
        below = sorted({least, (least + same) // 2}) if least < same else []
        spill = answer.get("smallest_spill_bytes") or least
        spilled = sorted({spill, (spill + least) // 2}) if spill < least else []
        for limit in spilled + below + rungs(answer, options.rungs):
            got = run(arguments, limit, (options.steps or STEPS), folder)
            wrong += check(name, limit, got)
            if got["exit"] != 0:
                print(f"{limit:12} exit {got['exit']}")
                continue
            bits = "same" if got["digest"] == free["digest"] else f"block set {got['block_set']}"
            bits += ", spilled" if limit in spilled else ""
            if limit >= same:
                times[limit] = got["seconds_per_step"]
                plans[limit] = (got["planned_arena_bytes"], got["block_set"])
                if got["digest"] != free["digest"]:
                    wrong.append(f"{name} at {limit}: other bits")
            elif got["block_set"] == 0 and got["digest"] != free["digest"]:
                wrong.append(f"{name} at {limit}: other bits, block set not said")
            print(
                f"{limit:12} {got['planned_arena_bytes']:12} {got['predicted_process_bytes']:12} "
                f"{got['measured_process_bytes']:12} {got['seconds_per_step']:9.5f}  {bits}"
            )
        repeat_rounds(arguments, times, options, folder)
        wrong += check_times(name, times, plans, options.repeat)
        refused = run([*arguments, "--no-spill"], least - PAGE, (options.steps or STEPS), folder)
        print(f"{least - PAGE:12} exit {refused['exit']}: {refused['error'][:160]}")
        if refused["exit"] != 3:
            wrong.append(f"{name} at {least - PAGE}: exit {refused['exit']}, expected 3")
    return wrong


def repeat_rounds(
    arguments: list[str], times: dict[int, float], options: argparse.Namespace, folder: Path
) -> None:
    """Further rounds over every rung, so that a slow spell of the machine meets all of them alike;
    keeps each rung's minimum."""
    for _ in range(options.repeat - 1):
        for limit in sorted(times):
            got = run(arguments, limit, options.steps or STEPS, folder)
            times[limit] = min(times[limit], got.get("seconds_per_step", times[limit]))


def check_times(
    name: str, times: dict[int, float], plans: dict[int, tuple[int, int]], repeat: int
) -> list[str]:
    """Time must not rise with the limit. Rungs that run one and the same plan do the same work:
    their least time is that plan's."""
    by_plan: dict[tuple[int, int], float] = {}
    for limit in sorted(times):
        print(f"{limit:12} {times[limit]:9.5f} s, minimum of {repeat}")
        by_plan[plans[limit]] = min(by_plan.get(plans[limit], float("inf")), times[limit])
    wrong, best = [], float("inf")
    for (arena, block_set), seconds in by_plan.items():
        print(f"plan of {arena} bytes, block set {block_set}: {seconds:.5f} s")
        if seconds > best * SLACK:
            wrong.append(f"{name}: plan of {arena} bytes: {seconds:.5f} s, {best:.5f} s with less")
        best = min(best, seconds)
    return wrong


def measure(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    wrong = ladder(name, options)
    return [{"mode": "ladder", "workload": name, "verdict": "; ".join(wrong) or "reached"}]
