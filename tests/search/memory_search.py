#!/usr/bin/env python3
"""Searches for runs that pass their limit, or whose memory was predicted wrongly.

    tests/search/memory_search.py --runs 2000 --seed 1 --jobs 2 --seconds 7200

Every run follows from its number: the same seed, the same run. What failed is made small and
written to build/search-findings/, one JSON file each, which --recipe FILE runs again.
Exit code: 0 where every promise held, 1 where one did not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from memory_coverage import Coverage
from memory_recipe import PROFILES, Recipe, draw_recipe, layer_kinds
from memory_run import ROOT, Outcome, Runner
from memory_shrink import gap, shrink


def trial(
    runner: Runner, recipe: Recipe, shrinks: bool, leave: float
) -> tuple[Recipe, Outcome, Recipe, Outcome]:
    """A run, and where it failed the small case."""
    outcome = runner.run(recipe)
    small, failed = recipe, outcome
    slight = 0 < gap(outcome) < leave
    if outcome.finding and shrinks and not slight:
        small, failed = shrink(runner, recipe, outcome)
    return recipe, outcome, small, failed


def describe(recipe: Recipe) -> str:
    kinds = sorted(layer_kinds(recipe))
    layers = f"{len(recipe['layers'])} layers" if len(kinds) > 6 else "+".join(kinds)
    options = ", ".join(recipe["options"]) or "no options"
    return f"{recipe['command']} · {recipe['data']['form']} · {layers} · {options}"


def write_finding(folder: Path, recipe: Recipe, failed: Outcome, first: Recipe) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    kind = re.sub(r"\W+", "-", failed.finding)
    path = folder / f"{kind}-{first['seed']}.json"
    text = {"finding": asdict(failed), "recipe": recipe, "first": first}
    if len(json.dumps(first)) > 20_000:
        del text["first"]  # the seed gives it again
    path.write_text(json.dumps(text, indent=1) + "\n")
    return path


def results(arguments: argparse.Namespace, runner: Runner) -> Iterator[Any]:
    """Of the seeds in any order, until the time is over."""
    until = time.monotonic() + arguments.seconds
    seeds = iter(range(arguments.seed, arguments.seed + arguments.runs))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        waiting: set[Any] = set()
        while True:
            while len(waiting) < arguments.jobs and time.monotonic() < until:
                seed = next(seeds, None)
                if seed is None:
                    break
                recipe = draw_recipe(seed, arguments.quick)
                if arguments.profile not in ("", recipe["profile"]):
                    continue
                waiting.add(
                    pool.submit(
                        trial, runner, recipe, not arguments.no_shrink, arguments.leave * 2**20
                    )
                )
            if not waiting:
                return
            done = next(as_completed(waiting))
            waiting.remove(done)
            yield done.result()


def search(arguments: argparse.Namespace) -> int:
    runner = Runner(arguments.program, arguments.timeout)
    if not runner.groups:
        print("no memory control group can be made here: limits are held against what the program "
              "measures of itself alone")  # fmt: skip
    print(f"seeds {arguments.seed} to {arguments.seed + arguments.runs - 1}", flush=True)
    coverage, found, refused = Coverage(), Counter(), Counter()
    count = 0
    for recipe, outcome, small, failed in results(arguments, runner):
        count += 1
        if outcome.refusal:
            refused[outcome.refusal] += 1
            if arguments.verbose:
                print(f"seed {recipe['seed']}: refused: {outcome.detail}", flush=True)
            continue
        coverage.add(recipe)
        if not outcome.finding:
            continue
        found[outcome.finding] += 1
        if 0 < gap(outcome) < arguments.leave * 2**20:
            if arguments.verbose:
                told = outcome.detail.splitlines()[0]
                print(f"seed {recipe['seed']}: {outcome.finding}: {told}: {describe(recipe)}",
                      flush=True)  # fmt: skip
            continue
        path = write_finding(arguments.findings, small, failed, recipe)
        print(f"seed {recipe['seed']} ({recipe['profile']}): {failed.finding}: {describe(small)}\n"
              f"  {failed.detail.splitlines()[0]}\n  {path}", flush=True)  # fmt: skip
    print(f"{count} runs, {sum(refused.values())} refused {dict(refused)}, "
          f"{sum(found.values())} findings {dict(found)}")  # fmt: skip
    print(coverage.text(), flush=True)
    return 1 if found else 0


def again(arguments: argparse.Namespace) -> int:
    """One recipe, its files kept."""
    recipe = json.loads(arguments.recipe.read_text())
    recipe = recipe.get("recipe", recipe)
    keep = arguments.findings / "run"
    keep.mkdir(parents=True, exist_ok=True)
    outcome = Runner(arguments.program, arguments.timeout).run(recipe, keep)
    newest = max(keep.iterdir(), key=lambda path: path.stat().st_mtime)
    commands = newest / "command.txt"
    print(commands.read_text() if commands.exists() else "not run")
    print(json.dumps(asdict(outcome), indent=1))
    return 1 if outcome.finding else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    build = Path(os.environ.get("PLIMSOLL_BUILD", ROOT / "build" / "dev"))
    parser.add_argument("--program", type=Path, default=build / "bin" / "plimsoll")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=7200, help="no run begins later")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--timeout", type=float, default=60, help="seconds of a processor for one run"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument(
        "--profile", choices=PROFILES, default="", help="only the seeds that make this large"
    )
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument(
        "--leave", type=float, default=0, help="do not make small what is wrong by fewer MiB"
    )
    parser.add_argument("--verbose", action="store_true", help="say what was refused")
    parser.add_argument("--recipe", type=Path, help="run this case alone, and keep its files")
    parser.add_argument("--findings", type=Path, default=ROOT / "build" / "search-findings")
    arguments = parser.parse_args()
    return again(arguments) if arguments.recipe else search(arguments)


if __name__ == "__main__":
    sys.exit(main())
