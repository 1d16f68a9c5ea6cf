"""Measures workloads beside TensorFlow; `tools/bench` starts it in an environment of its own.

    tools/bench S0a S1a ResNet50          training steps, at the limits and precisions of goals.py
    tools/bench --all --mode predict      predictions at batch 1 and 32, evaluation
    tools/bench --mode scaling S0a        time against batch and limit
    tools/bench --mode disk               from page cache, and from disk in a group of 64 MiB
    tools/bench --mode start              from a cold start to the first step or prediction
    tools/bench --mode ladder S1c         limits held, and the same bits at each
    tools/bench --mode kernels S1c        every kernel at its box, and at other extents
    tools/bench --mode live S1c           live Keras models in Python: limits held, the same bits
    tools/bench --mode live_speed S1b     live Keras models beside the command line and Keras
    tools/bench --mode ranks S0a          two ranks of a thread each beside one process of two
    tools/bench --mode unseen             networks that nothing was tuned on, free and at limits
    tools/bench --mode drawn              networks drawn at random, by the commit's hash
    tools/bench --mode operators VGG16    slow operators beside TensorFlow's own calls
    tools/bench --mode watch S0a          TensorFlow's steps under plimsoll watch, and alone

Each run is a process of its own, runs of all sides alternate, all read the same files from page
cache. A run's time is the median of its steps; of several runs the least counts, and the median
stands beside it. Exit code 1 where a run failed or results differ, not where a goal is missed.
"""

import argparse
import json
import os
import platform
import shlex
import shutil
import string
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import charts
import tables
from goals import DRAWN, NAMES, UNSEEN
from materials import BINARY, ROOT
from processes import run
from sides import PYTORCH, Failed

Row = dict[str, Any]
REAL_TIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
USUAL_TIME = {"-o", "-b", "-i", "--other", "--batch", "--idle"}  # of chrt: no real-time priority
STOPPED = (
    "Linux stops programs of real-time priority for a part of each second, which spoils single "
    "times: set kernel.sched_rt_runtime_us to -1"
)
USUAL = {
    "train": ["S1a", "S1b", "S2", "S4", "S4b"],
    "predict": NAMES,
    "scaling": ["S0a", "S1c", "S4", "ResNet50"],
    "disk": ["S4"],
    "start": ["S0a", "S1a", "S1b", "S1c", "S2", "S4", "ResNet50"],
    "ladder": ["fashion"],
    "kernels": ["S0a", "S0c", "S1a", "S1c", "S2", "S4", "S4L", "S4s"],
    "watch": ["S0b"],
    "live": [
        "S0a",
        "S0b",
        "S0c",
        "S1a",
        "S1b",
        "S1c",
        "S2",
        "S4",
        "S4b",
        "MobileNetV2",
        "U-Net",
        "GPT-small",
    ],
    "live_speed": ["S0a", "S1b", "S4b"],
    "ranks": ["S0a", "ResNet50", "GPT-small"],
    "unseen": UNSEEN,
    "operators": UNSEEN,
    "drawn": DRAWN,
}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="workloads; default: what suits the mode")
    parser.add_argument("--all", action="store_true", help="every workload of goals.py")
    parser.add_argument("--mode", choices=USUAL, default="train")
    parser.add_argument(
        "--peers",
        default="tensorflow",
        help="tensorflow, pytorch, both with a comma between, or none",
    )
    parser.add_argument("--repeat", type=int, help="runs of each side; default 3, --quick 1")
    parser.add_argument("--steps", type=int, help="of a run; default: the workload's")
    parser.add_argument("--memory", help="this limit in place of those of the goals")
    parser.add_argument("--precision", default="f32,bf16", help="f32,bf16")
    parser.add_argument("--seed", default="", help="of networks that are drawn, for the commit's")
    parser.add_argument("--rungs", type=int, default=12, help="limits of a ladder")
    parser.add_argument("--quick", action="store_true", help="few steps, once")
    parser.add_argument("--prefix", default="", help="in front of every command (chrt -f 1)")
    parser.add_argument("--note", default="", help="a sentence for the results")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/plimsoll-bench"),
                        help="models and data, about 5 GB for --all")  # fmt: skip
    options = parser.parse_args(arguments)
    options.peers = [] if options.peers == "none" else options.peers.split(",")
    options.precision = options.precision.split(",")
    options.repeat = options.repeat or (1 if options.quick else 3)
    options.names = NAMES if options.all else options.names or USUAL[options.mode]
    for word, known in (
        (options.peers, ["tensorflow", "pytorch"]),
        (options.precision, ["f32", "bf16"]),
    ):
        for each in word:
            if each not in known:
                parser.error(f"expected {' or '.join(known)}, received {each}")
    check_names(parser, options)
    options.folder.mkdir(parents=True, exist_ok=True)
    return options


def check_names(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    more = {mode: UNSEEN for mode in ("unseen", "operators", "train")}
    more |= {"ladder": ["fashion"], "drawn": DRAWN}
    known = [*NAMES, *more.get(options.mode, [])]
    for name in options.names:
        if name not in known and options.mode != "start":
            parser.error(f"expected one of {', '.join(known)}; received {name}")


def first_line(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return "unknown"


def installed(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def circumstances(options: argparse.Namespace) -> dict[str, Any]:
    """Machine, date and versions: what the figures belong to."""
    words = ["bench", "S1b", "--steps", "10", "--roofline", "--json"]
    measured = run([str(BINARY), *words], prefix=options.prefix)
    if not measured.ok:
        raise SystemExit(f"bench: {BINARY} bench: exit {measured.exit_code}\n{measured.errors}")
    machine = measured.result()["profile"]["machine"]
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    versions = {"plimsoll": commit or "unknown", "python": platform.python_version()}
    if "tensorflow" in options.peers:
        versions |= installed("tensorflow-cpu", "tensorflow", "keras", "numpy")
    if "pytorch" in options.peers:
        words = [str(PYTORCH), "-c", "import torch; print(torch.__version__)"]
        versions["pytorch"] = subprocess.run(words, capture_output=True, text=True).stdout.strip()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": first_line("/proc/cpuinfo", "model name"),
        "processors": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_average": os.getloadavg()[0],
        "limits": machine,
        "versions": versions,
        "command": shlex.join(["tools/bench", *sys.argv[1:]]),
        "repeat": options.repeat,
        "note": options.note,
    }


def heading(about: dict[str, Any]) -> str:
    limits = about["limits"]
    speed = f"{limits['flops_per_second'] / 1e9:.0f} GFLOP/s f32"
    if limits["bf16_flops_per_second"]:
        speed += f", {limits['bf16_flops_per_second'] / 1e9:.0f} bf16"
    speed += f", memory {limits['bytes_per_second'] / 1e9:.0f} GB/s"
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    runs = f": the least and the median of {about['repeat']} runs of each side, alternately"
    if " --mode kernels" in about["command"]:
        runs = ": the least of many calls of each kernel"
    elif " --mode operators" in about["command"]:
        runs = f": the fastest of {about['repeat']} runs, beside TensorFlow's least of many calls"
    return (
        f"{about['date']} · {about['machine']}, {about['processors']} processors, "
        f"{about['memory_bytes'] / 2**30:.0f} GiB · {speed} at the start, load average "
        f"{about['load_average']:.1f} · {versions}\n\n`{about['command']}`{runs}. "
        f"{about['note']}\n"
    )


def write(
    about: dict[str, Any], mode: str, rows: list[Row], options: argparse.Namespace, stem: str
) -> None:
    options.output.mkdir(parents=True, exist_ok=True)
    base = options.output / stem
    lines = [{"about": about}, *rows]
    base.with_suffix(".jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = f"# {mode}\n\n{heading(about)}\n{tables.markdown(mode, rows, options.peers)}"
    for word, chart in charts.of_mode(mode, rows, options.peers).items():
        name = f"{stem}-{word}.svg"
        (options.output / name).write_text(chart)
        text += f"\n![{word}]({name})\n"
    base.with_suffix(".md").write_text(text)


def measure_all(options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    module = __import__(
        {
            "train": "training",
            "predict": "inference",
            "start": "starting",
            "watch": "watching",
        }.get(options.mode, options.mode)
    )
    rows: list[Row] = []
    failures: list[str] = []
    for name in options.names:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        try:
            rows += module.measure(name, options)
        except Failed as failed:
            failures.append(f"{name}: {failed}")
            rows.append({"mode": options.mode, "workload": name, "verdict": "failed"})
    return rows, failures


def wrong_results(rows: list[Row]) -> list[str]:
    """Rows whose results, not whose speed, are not what they must be."""
    words = ("differ", "killed", "not held", "failed")
    wrong = [
        row
        for row in rows
        if any(word in row["verdict"] for word in words)
        or (row["mode"] == "ladder" and row["verdict"] != "reached")
    ]
    return [f"{row['workload']}: {row['verdict']}" for row in wrong]


def unused_stamp(folder: Path) -> str:
    """The time to the minute, and a letter after it where results of that minute are there."""
    minute = time.strftime("%Y-%m-%d-%H%M", time.gmtime())
    stamps = [minute, *(minute + letter for letter in string.ascii_lowercase)]
    return next(stamp for stamp in stamps if not list(folder.glob(f"{stamp}-*")))


def stops_real_time(prefix: str, setting: Path = REAL_TIME) -> bool:
    """Whether programs that such a prefix starts are stopped now and then, whatever they do."""
    words = prefix.split()
    real_time = any(Path(word).name == "chrt" for word in words) and not USUAL_TIME & set(words)
    return real_time and setting.exists() and setting.read_text().strip() != "-1"


def main() -> int:
    options = parse(sys.argv[1:])
    if not BINARY.is_file():
        raise SystemExit(
            f"bench: expected {BINARY}. Build it, or name a build with PLIMSOLL_BUILD."
        )
    if shutil.which(options.prefix.split()[0]) is None if options.prefix else False:
        raise SystemExit(f"bench: no such program: {options.prefix}")
    if stops_real_time(options.prefix):
        print(f"bench: {STOPPED}", file=sys.stderr)
    about = circumstances(options)
    rows, failures = measure_all(options)
    modes = (
        list(dict.fromkeys(row["mode"] for row in rows))
        if options.mode == "scaling"
        else [options.mode]
    )
    stamp = unused_stamp(options.output)
    for mode in modes:
        own = [row for row in rows if row["mode"] == mode]
        write(about, mode, own, options, f"{stamp}-{mode}")
        print(tables.markdown(mode, own, options.peers))
    print(f"wrote {options.output}/{stamp}-*", file=sys.stderr)
    for line in [*failures, *wrong_results(rows)]:
        print(f"bench: {line}", file=sys.stderr)
    return 1 if failures or wrong_results(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
