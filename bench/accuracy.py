"""Trains the networks of examples/ from their files, and the same networks in Keras.

    bench/accuracy.py [NAME…] [--seeds 1,2,3] [--scale 1.0] --corpus FOLDER

Each run starts both from the same initial weights (made by Keras for the seed). Keras gets the
samples as arrays that NumPy prepared; Plimsoll reads the files with the command of
examples/data_sets/README.md. Prints one JSON line a run, then a Markdown table. --scale makes
epochs fewer where time is short.
"""

import argparse
import csv
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("PLIMSOLL_BUILD", ROOT / "build/release")) / "bin/plimsoll"
FASHION = Path("/usr/share/datasets/fashion-mnist")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # faster, and left out without AVX-512

Arrays = dict[str, np.ndarray]


def adult(corpus: Path, work: Path) -> Arrays:
    """Numbers standardized, categories one-hot, what is missing a mean or no category."""
    test = (corpus / "adult-test.csv").read_text().replace("K.", "K")
    (work / "data").mkdir(exist_ok=True)
    (work / "data" / "adult-test.csv").write_text(test)
    (work / "data" / "adult-train.csv").symlink_to(corpus / "adult-train.csv")
    tables = []
    for name in ("train", "test"):
        with (work / "data" / f"adult-{name}.csv").open() as file:
            tables.append([r for r in csv.reader(file, skipinitialspace=True) if len(r) == 15])
    parts: list[list[np.ndarray]] = [[], []]
    for column in range(14):
        values = [np.array([row[column] for row in table]) for table in tables]
        try:
            numbers = [v.astype(float) for v in values]
            mean, deviation = numbers[0].mean(), numbers[0].std()
            made = [((n - mean) / deviation)[:, None] for n in numbers]
        except ValueError:
            known = np.array(sorted(set(values[0]) - {"?"}))
            made = [(v[:, None] == known) for v in values]
        for part, columns in zip(parts, made, strict=True):
            part.append(columns)
    labels = [np.array([row[14] == ">50K" for row in table], "float32") for table in tables]
    x = [np.concatenate(part, 1).astype("float32") for part in parts]
    return {"x": x[0], "y": labels[0], "val_x": x[1], "val_y": labels[1]}


def airline(corpus: Path, work: Path) -> Arrays:
    (work / "data").mkdir(exist_ok=True)
    path = work / "data" / "airline-passengers.csv"
    path.symlink_to(corpus / path.name)
    with path.open() as file:
        series = np.array([float(row[1]) for row in list(csv.reader(file))[1:]])
    series = (series - series.mean()) / series.std()
    windows = np.stack([series[i : i + 12] for i in range(len(series) - 12)])[..., None]
    cut = int(len(windows) * 0.8)
    x, y = windows.astype("float32"), series[12:].astype("float32")
    return {"x": x[:cut], "y": y[:cut], "val_x": x[cut:], "val_y": y[cut:]}


def shakespeare(corpus: Path, work: Path) -> Arrays:
    (work / "data").mkdir(exist_ok=True)
    path = work / "data" / "tinyshakespeare.txt"
    path.symlink_to(corpus / path.name)
    text = np.frombuffer(path.read_bytes(), "uint8")
    numbers = np.unique(text, return_inverse=True)[1].astype("int32")
    count = (len(numbers) - 1) // 100
    x = numbers[: count * 100].reshape(count, 100)
    return {"x": x, "y": numbers[1 : count * 100 + 1].reshape(count, 100)}


def cats_dogs(corpus: Path, work: Path) -> Arrays:
    """Every fifth image of a class is for validation; both read the same folders."""
    import tensorflow as tf

    made: Arrays = {}
    for part in ("train", "validation"):
        images, labels = [], []
        for number, name in enumerate(("cat", "dog")):
            folder = work / "data" / "cats_dogs" / part / name
            folder.mkdir(parents=True)
            for i, path in enumerate(sorted((corpus / "cats_dogs" / name).iterdir())):
                if (i % 5 == 4) == (part == "validation"):
                    (folder / path.name).symlink_to(path)
                    image = tf.io.decode_image(path.read_bytes(), 3, expand_animations=False)
                    images.append(tf.image.resize(image, (150, 150)).numpy())
                    labels.append(number)
        key = "" if part == "train" else "val_"
        made[key + "x"], made[key + "y"] = np.stack(images), np.array(labels, "float32")
    return made


def fashion_mnist(_: Path, __: Path) -> Arrays:
    import gzip

    def read(name: str) -> np.ndarray:
        data = gzip.decompress((FASHION / name).read_bytes())
        shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
        return np.frombuffer(data, "uint8", offset=4 + 4 * data[3]).reshape(shape)

    return {
        "x": read("train-images-idx3-ubyte.gz")[..., None].astype("float32"),
        "y": read("train-labels-idx1-ubyte.gz").astype("int32"),
        "val_x": read("t10k-images-idx3-ubyte.gz")[..., None].astype("float32"),
        "val_y": read("t10k-labels-idx1-ubyte.gz").astype("int32"),
    }


# What prepares the arrays, and the figure that is compared.
DATA: dict[str, tuple[Callable[[Path, Path], Arrays], str]] = {
    "adult": (adult, "val_accuracy"),
    "airline": (airline, "val_loss"),
    "cats_dogs": (cats_dogs, "val_accuracy"),
    "shakespeare": (shakespeare, "loss"),
    "shakespeare_gpt": (shakespeare, "loss"),
    "fashion_mnist": (fashion_mnist, "val_accuracy"),
}


def command_of(name: str) -> list[str]:
    readme = (ROOT / "examples" / "data_sets" / "README.md").read_text()
    for line in readme.replace("\\\n", " ").splitlines():
        words = shlex.split(line[2:]) if line.startswith("$ plimsoll fit") else []
        if words and Path(words[2]).stem == name:
            return words[1:]
    raise SystemExit(f"no command for {name} in examples/data_sets/README.md")


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def spelled(text: str) -> tuple[str, dict[str, Any]]:
    """adam(learning_rate=0.01) as a name and its arguments."""
    name, _, rest = text.partition("(")
    pairs = re.findall(r"(\w+)=([\w.]+)", rest)
    return name, {key: {"true": True}.get(value) or float(value) for key, value in pairs}


def run_plimsoll(words: list[str], work: Path) -> dict[str, Any]:
    log = work / "log.jsonl"
    log.unlink(missing_ok=True)
    done = subprocess.run([BINARY, *words, "--json", "--log", log], cwd=work, capture_output=True,
                          text=True)  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    epoch = json.loads(log.read_text().splitlines()[-1])
    return {**epoch, "peak": json.loads(done.stdout)["measured_process_bytes"]}


def run_keras(model: Any, arrays: Arrays, words: list[str], epochs: int) -> dict[str, Any]:
    import keras

    kind, arguments = spelled(option(words, "--optimizer"))
    optimizer = keras.optimizers.get({"class_name": kind, "config": arguments})
    loss, logits = spelled(option(words, "--loss"))
    if logits:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    metrics = ["accuracy"] if "--metrics" in words else []
    model.compile(optimizer, loss, metrics=metrics)
    validation = (arrays["val_x"], arrays["val_y"]) if "val_x" in arrays else None
    history = model.fit(arrays["x"], arrays["y"], batch_size=int(option(words, "--batch")),
                        epochs=epochs, verbose=0, validation_data=validation)  # fmt: skip
    return {key: values[-1] for key, values in history.history.items()}


def compare(name: str, seed: int, scale: float, corpus: Path) -> dict[str, Any]:
    import keras

    prepare, figure = DATA[name]
    words = command_of(name)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        arrays = prepare(corpus, work)
        keras.utils.set_random_seed(seed)
        model = keras.models.model_from_json((ROOT / words[1]).read_text())
        model.save(work / "initial.keras")
        epochs = max(1, round(int(option(words, "--epochs")) * scale))
        ours = [words[0], "initial.keras", *words[2:], "--seed", str(seed)]
        ours[ours.index("--epochs") + 1] = str(epochs)
        if name == "cats_dogs":  # the same samples on both sides
            ours = [word for word in ours if not word.startswith("--validation-split")]
            ours[ours.index("--data") + 1] = "data/cats_dogs/train"
            ours += ["--validation", "data/cats_dogs/validation"]
        begin = time.monotonic()
        plimsoll = run_plimsoll(ours, work)
        middle = time.monotonic()
        peer = run_keras(model, arrays, words, epochs)
        return {
            "name": name, "seed": seed, "epochs": epochs, "figure": figure,
            "plimsoll": round(plimsoll[figure], 4), "keras": round(peer[figure], 4),
            "plimsoll_seconds": round(middle - begin, 1),
            "keras_seconds": round(time.monotonic() - middle, 1),
            "plimsoll_mib": round(plimsoll["peak"] / 2**20, 1),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help=", ".join(DATA))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--corpus", type=Path, required=True)
    options = parser.parse_args()
    runs = []
    for name in options.names or DATA:
        for seed in options.seeds.split(","):
            runs.append(compare(name, int(seed), options.scale, options.corpus))
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    print("| network | epochs | figure | Plimsoll | Keras | Plimsoll's peak |\n" + "|---" * 6 + "|")
    for name in dict.fromkeys(run["name"] for run in runs):
        own = [run for run in runs if run["name"] == name]
        sides = [", ".join(f"{run[side]:.4f}" for run in own) for side in ("plimsoll", "keras")]
        peak = max(run["plimsoll_mib"] for run in own)
        print(f"| {name} | {own[0]['epochs']} | {own[0]['figure']} | {sides[0]} | {sides[1]} | "
              f"{peak} MiB |")  # fmt: skip


if __name__ == "__main__":
    main()
