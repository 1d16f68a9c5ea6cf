"""Thirteen answers that somebody meets whose training was just killed, each as commands."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Plans of equal kernels on every machine.
SAME = ["--backend", "reference", "--threads", "1", "--times", "none"]

KILLED_LOG = """\
Epoch 1/20
 1/938 [..............................] - ETA: 12:31 - loss: 2.3026
 2/938 [..............................] - ETA: 10:02 - loss: 2.2871
Killed
"""

LEAK = """
import time
kept = []
for step in range(60):
    kept.append(bytearray(b"x" * (3 << 20)))
    print("step", step, flush=True)
    time.sleep(0.05)
"""


def layer(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


def write_model(path: Path, name: str, layers: list[dict[str, Any]]) -> None:
    config = {"name": name, "layers": layers}
    path.write_text(json.dumps({"class_name": "Sequential", "config": config}))


def write_files(folder: Path) -> None:
    """A small classifier of images, one with normalizations, one of wide layers; data for them."""
    rng = np.random.default_rng(3)
    np.save(folder / "x.npy", rng.normal(size=(600, 16, 16, 3)).astype("float32"))
    np.save(folder / "y.npy", rng.integers(0, 4, 600))
    np.save(folder / "gray.npy", rng.normal(size=(600, 28, 28)).astype("float32"))
    ends = [layer("GlobalAveragePooling2D", "mean"),
            layer("Dense", "classes", units=4, activation="softmax")]  # fmt: skip
    filters = {"filters": 32, "kernel_size": [3, 3], "padding": "same", "activation": "relu"}
    write_model(folder / "plain.json", "plain", [
        layer("InputLayer", "image", batch_shape=[None, 16, 16, 3]),
        layer("Conv2D", "filters", **filters), *ends])  # fmt: skip
    layers = [layer("InputLayer", "image", batch_shape=[None, 64, 64, 3])]
    for i in range(3):
        layers.append(layer("Conv2D", f"filters{i}", **filters))
        layers.append(layer("BatchNormalization", f"norm{i}"))
    write_model(folder / "normalized.json", "normalized", layers + ends)
    write_model(folder / "large.json", "large", [
        layer("InputLayer", "image", batch_shape=[None, 128, 128, 3]),
        layer("Conv2D", "filters0", **filters), layer("Conv2D", "filters1", **filters),
        *ends])  # fmt: skip
    wide = [layer("InputLayer", "x", batch_shape=[None, 1024])]
    wide += [layer("Dense", f"wide{i}", units=1024, activation="relu") for i in range(6)]
    write_model(folder / "wide.json", "wide", [*wide, layer("Dense", "out", units=1)])
    (folder / "train.log").write_text(KILLED_LOG)
    (folder / "leak.py").write_text(LEAK)


@dataclass
class Told:
    """A command, its exit code, and what it printed to either stream."""

    words: list[str]
    code: int
    output: str


TRAINING = ["--optimizer", "adam", "--loss", "sparse_categorical_crossentropy"]
DATA = ["--data", "x.npy", "--labels", "y.npy", "--batch", "32"]
FIT = ["fit", "plain.json", *DATA, *TRAINING, "--epochs", "2", "--memory", "64MiB", *SAME]


class Teller:
    """Runs commands in one folder, as somebody does who reads both streams."""

    def __init__(self, plimsoll: Path, folder: Path) -> None:
        self.plimsoll, self.folder = plimsoll, folder
        write_files(folder)
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["plimsoll", *words], executable=self.plimsoll, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment,
        )  # fmt: skip

    def tell(self, *words: str) -> Told:
        process = self.start(*words)
        output, _ = process.communicate(timeout=240)
        return Told(["plimsoll", *words], process.returncode, output)

    def plan(self, model: str, memory: str, *more: str) -> list[Told]:
        loss = "mse" if model == "wide" else "sparse_categorical_crossentropy"
        return [self.tell("plan", f"{model}.json", "--batch", "64", "--optimizer", "adam",
                          "--loss", loss, "--memory", memory, *more, *SAME)]  # fmt: skip

    def interrupted(self) -> list[Told]:
        words = [*FIT, "--checkpoint", "run", "--epochs", "1000", "--log", "log.jsonl"]
        words.remove("2")
        words.remove("--epochs")
        process = self.start(*words)
        log = self.folder / "log.jsonl"
        end = time.monotonic() + 30
        while time.monotonic() < end and not (log.exists() and log.stat().st_size > 0):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        return [Told(["plimsoll", *words], process.returncode, output)]

    def resume(self) -> list[Told]:
        fit = [*FIT, "--checkpoint", "kept", "--output", "trained.keras"]
        first = self.tell(*fit)
        return [first, self.tell(*fit), self.tell(*fit, "--resume")]

    def no_data(self) -> list[Told]:
        return [self.tell("fit", "plain.json", *TRAINING),
                self.tell("fit", "plain.json", *TRAINING, "--data", "X.npy")]  # fmt: skip


def cases(teller: Teller) -> dict[str, Callable[[], list[Told]]]:
    shape = ["fit", "plain.json", *TRAINING, "--data", "gray.npy", "--labels", "y.npy"]
    short = ["--plan-time", "0.1"]
    return {
        "fits": lambda: teller.plan("plain", "64MiB"),
        "spill": lambda: teller.plan("wide", "76MiB", *short),
        "no_spill": lambda: teller.plan("wide", "64MiB", "--no-spill", *short),
        "not_found": lambda: teller.plan("normalized", "51MiB", "--no-spill", *short),
        "impossible": lambda: teller.plan("plain", "10MiB", *short),
        "smaller_blocks": lambda: teller.plan("large", "62MiB", "--no-spill", *short),
        "remedies": lambda: teller.plan("normalized", "44MiB", "--no-spill", *short),
        "no_data": teller.no_data,
        "wrong_shape": lambda: [teller.tell(*shape)],
        "killed_log": lambda: [teller.tell("explain", "train.log")],
        "leak": lambda: [teller.tell("watch", "--", sys.executable, "leak.py")],
        "resume": teller.resume,
        "interrupted": teller.interrupted,
    }


def write_all(plimsoll: Path, work: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True)
    for name, case in cases(Teller(plimsoll, work)).items():
        began = time.monotonic()
        text = "".join(
            f"$ {' '.join(told.words)}\n{told.output}[exit code {told.code}]\n\n" for told in case()
        )
        (output / f"{name}.txt").write_text(text)
        print(f"{name}: {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
