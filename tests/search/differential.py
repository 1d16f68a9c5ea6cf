#!/usr/bin/env python3
"""Looks for models on which Keras and Plimsoll disagree: random ones, a seed each.

    .deps/venv/bin/python tests/search/differential.py [--models 3000] [--seed N] [--jobs 2]
        [--minutes M] [--no-shrink] [--output build/search-findings] [--show SEED]

One process of Keras runs 50 models. Prints what became of them, refusals by reason, findings with
their seeds, and which options and neighbours of layers were met. Findings are made small and
written to OUTPUT. Ends with 1 where there were any. Without --seed the clock gives one.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "parity")]
from refusals import is_right  # noqa: E402

ROOT = HERE.parents[1]
PER_PROCESS = 50
CRASHES = {-signal.SIGFPE, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS}


def run_seeds(seeds: list[int]) -> Iterator[dict[str, Any]]:
    """In a process of its own: one line of result per seed."""
    import warnings

    from comparison import compare
    from model_draw import draw_recipe

    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            recipe = draw_recipe(seed)
            verdict = compare(recipe, Path(folder) / "run")
            yield {
                "seed": seed,
                "recipe": recipe,
                "outcome": verdict.outcome,
                "kind": verdict.kind,
                "text": verdict.text,
            }


def worker(first: int, count: int) -> None:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for row in run_seeds(list(range(first, first + count))):
        print("row " + json.dumps(row), flush=True)


def start_worker(first: int, count: int) -> list[dict[str, Any]]:
    """Rows of seeds from `first`; seeds after one that ended its process get another process.

    The program that is compared runs in processes of its own. So where a signal ends this one,
    TensorFlow crashed: a division by 0 for an empty tensor, say.
    """
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        begin, left = first + len(rows), count - len(rows)
        words = [sys.executable, str(HERE / "differential.py"), "--worker", str(begin), str(left)]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        lines = done.stdout.splitlines()
        rows += [json.loads(line[4:]) for line in lines if line.startswith("row ")]
        if len(rows) < count:
            crashed = done.returncode in CRASHES
            rows.append({"seed": first + len(rows), "recipe": None,
                         "outcome": "keras" if crashed else "search",
                         "kind": f"its process ended: {done.returncode}",
                         "text": done.stderr[-2000:]})  # fmt: skip
    return rows


def search(
    seed: int, models: int, jobs: int, minutes: float = 600, file: Path | None = None
) -> list[dict[str, Any]]:
    """All rows, in the order of the seeds; written to `file` as they come."""
    until = time.monotonic() + 60 * minutes
    starts = range(seed, seed + models, PER_PROCESS)

    def part(first: int) -> list[dict[str, Any]]:
        if time.monotonic() > until:
            return []
        rows = start_worker(first, min(PER_PROCESS, seed + models - first))
        if file is not None:
            with file.open("a") as lines:
                lines.write("".join(json.dumps(row) + "\n" for row in rows))
        return rows

    with ThreadPoolExecutor(jobs) as pool:
        return [row for rows in pool.map(part, starts) for row in rows]


def is_finding(row: dict[str, Any]) -> bool:
    if row["outcome"] == "refused":
        return not is_right(row["text"])
    return row["outcome"] in ("different", "failed", "crash", "search")


def report_findings(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Makes the first finding of each kind small, and writes them all to the output folder."""
    from comparison import Verdict
    from shrinking import shrink, structural, write_finding

    seen: set[tuple[str, ...]] = set()
    for row in rows:
        if not is_finding(row) or row["recipe"] is None:
            continue
        verdict = Verdict(row["outcome"], row["kind"], row["text"])
        recipe = row["recipe"]
        layers = sorted({node["layer"] for node in recipe["nodes"]})
        kind = (row["outcome"], structural(row["kind"]), *layers)
        if not options.no_shrink and kind not in seen:
            recipe, verdict = shrink(recipe, verdict)
            seen.add(kind)
        path = write_finding(options.output, row["seed"], recipe, verdict)
        print(f"  {path}: {verdict.text[:160]}", flush=True)


def print_summary(rows: list[dict[str, Any]]) -> None:
    """Counts of outcomes, refusals by reason, findings by kind."""
    outcomes = Counter(row["outcome"] for row in rows)
    print(", ".join(f"{count} {name}" for name, count in outcomes.most_common()))
    for outcome in ("keras", "refused"):
        reasons: dict[str, list[int]] = {}
        for row in rows:
            if row["outcome"] == outcome:
                reasons.setdefault(row["kind"], []).append(row["seed"])
        if reasons:
            print(f"\n{outcome}:")
        for kind, seeds in sorted(reasons.items(), key=lambda item: -len(item[1])):
            print(f"  {len(seeds):4} {kind}  (seeds {' '.join(map(str, seeds[:3]))})")
    found = [row for row in rows if is_finding(row)]
    print(f"\n{len(found)} findings (refusals that no page announces among them)")
    for row in found:
        if row["outcome"] == "refused":
            continue
        layers = sorted({n["layer"] for n in row["recipe"]["nodes"]}) if row["recipe"] else []
        print(f"  seed {row['seed']} {row['outcome']} {row['text'][:200]!r} {' '.join(layers)}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=3000)
    parser.add_argument("--seed", type=int, help="the first one; default: from the clock")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "build/search-findings")
    parser.add_argument("--rows", type=Path, help="writes every row there, as JSON lines")
    parser.add_argument(
        "--show", type=int, metavar="SEED", help="the recipe of one seed, and its end"
    )
    parser.add_argument("--worker", nargs=2, type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = read_options()
    if options.worker:
        worker(*options.worker)
        return 0
    if options.show is not None:
        for row in run_seeds([options.show]):
            print(json.dumps(row, indent=1))
        return 0
    seed = options.seed if options.seed is not None else int(time.time()) % 10**8 * 10
    print(f"seed {seed}, {options.models} models", flush=True)
    from coverage_of_pairs import report

    began = time.monotonic()
    if options.rows:
        options.rows.unlink(missing_ok=True)
    rows = search(seed, options.models, options.jobs, options.minutes, options.rows)
    print(f"{len(rows)} models in {time.monotonic() - began:.0f} s")
    print_summary(rows)
    print(report([row["recipe"] for row in rows if row["recipe"] is not None]))
    report_findings(rows, options)
    return 1 if any(map(is_finding, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
