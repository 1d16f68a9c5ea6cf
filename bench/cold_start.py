#!/usr/bin/env python3
"""From a cold start to the prediction of one image: wall time and peak memory, beside Keras.

    bench/cold_start.py [ResNet50 MobileNetV2 …] [--repeat 5] [--memory 256MiB]

Each run is a process of its own that loads the network's .keras file, predicts one 224×224 image
and writes the answer; files are in page cache. Runs alternate, the least time of each side counts,
and the answers must agree. Prints a Markdown table.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from materials import BINARY

KERAS = """
import sys
import numpy, keras
model = keras.saving.load_model(sys.argv[1], compile=False)
numpy.save(sys.argv[3], model.predict(numpy.load(sys.argv[2]), verbose=0))
"""


def prepare(name: str, folder: Path) -> tuple[Path, Path]:
    """The network's file, with its initial weights, and one image; written where missing."""
    place = folder / f"cold-{name}"
    if not (place / "done").exists():
        import keras

        place.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(7)
        getattr(keras.applications, name)(weights=None).save(place / "model.keras")
        image = np.random.default_rng(11).random((1, 224, 224, 3), dtype="float32")
        np.save(place / "x.npy", image)
        (place / "done").touch()
    return place / "model.keras", place / "x.npy"


# Starts a command from a small process, whose own memory does not count as the command's.
MEASURE = """
import resource, subprocess, sys, time
began = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
seconds = time.monotonic() - began
print(code, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def run(command: list[str]) -> tuple[float, float]:
    """Seconds and peak resident MiB of a process."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"}
    outer = [sys.executable, "-I", "-S", "-c", MEASURE, *command]
    done = subprocess.run(outer, env=environment, capture_output=True, text=True)
    code, seconds, kib = done.stdout.split()
    if code != "0":
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return float(seconds), float(kib) / 1024


def row(name: str, options: argparse.Namespace) -> str:
    model, image = map(str, prepare(name, options.folder))
    ours, theirs = (str(options.folder / f"cold-{side}.npy") for side in ("ours", "keras"))
    plimsoll = [str(BINARY), "predict", model, "--data", image, "--batch", "1", "--output", ours]
    if options.memory:
        plimsoll += ["--memory", options.memory]
    keras = [sys.executable, "-c", KERAS, model, image, theirs]
    our_runs, their_runs = [], []
    for _ in range(options.repeat):
        our_runs.append(run(options.prefix.split() + plimsoll))
        their_runs.append(run(keras))
    answer, expected = np.load(ours), np.load(theirs)
    error = np.abs(answer - expected).max() / np.abs(expected).max()
    if not error <= 1e-5:
        sys.exit(f"{name}: the predictions differ by {error:.1e}")
    seconds, their_seconds = min(our_runs)[0], min(their_runs)[0]
    mib, their_mib = max(r[1] for r in our_runs), min(r[1] for r in their_runs)
    return (
        f"| {name} | {seconds:.3f} | {their_seconds:.2f} | {their_seconds / seconds:.1f} × "
        f"| {mib:.0f} | {their_mib:.0f} | {mib / their_mib:.2f} | {error:.1e} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["ResNet50"])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--memory", help="limit for Plimsoll")
    parser.add_argument("--prefix", default="", help="in front of Plimsoll's command (chrt -f 1)")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/plimsoll-bench"))
    options = parser.parse_args()
    print(
        "| network | s | Keras | ratio | peak MiB | Keras MiB | share | difference |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for name in options.names:
        print(row(name, options), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
