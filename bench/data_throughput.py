"""Training from data that are far larger than the memory, inside a control group.

    bench/data_throughput.py array|images FOLDER [--gib 10] [--files 200000] [--limit 128MiB]
                             [--corpus FOLDER]

array: a dense network on an .npy of float64, held first on a file of --gib (sparse), then timed on
one of real numbers, cold. Against the disk alone (the same file, read in order in the same group)
and the network alone (the same rows from the page cache, outside of the group).
images: a folder of --files JPEGs (links to those of the corpus). Against the decoder alone (a
network that costs nothing).

Prints JSON lines. Needs root for the group (tools/in_cgroup).
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("PLIMSOLL_BUILD", ROOT / "build/release")) / "bin/plimsoll"
READER = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
begin, total = time.perf_counter(), 0
while piece := os.read(file, 1 << 20):
    total += len(piece)
print(total / (time.perf_counter() - begin))
"""


def layer(kind: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": kind, "config": {"name": name, **config}}


def write_model(path: Path, layers: list[dict[str, Any]]) -> Path:
    model = {"class_name": "Sequential", "config": {"name": path.stem, "layers": layers}}
    path.write_text(json.dumps(model))
    return path


def in_group(limit: str, report: Path, words: list[Any]) -> list[Any]:
    return [ROOT / "tools/in_cgroup", limit, "--report", report, "--", *words] if limit else words


def run(words: list[Any]) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"exit {done.returncode}\n{done.stderr}")
    return done.stdout


def fit(folder: Path, model: Path, limit: str, batch: int, rows: int, *more: Any) -> dict[str, Any]:
    """One pass, with the rows a second of all of it and of its steps alone, waiting for data
    included; the last batch's own program is left out."""
    report, log = folder / "group.json", folder / "log.jsonl"
    report.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    words = [BINARY, "fit", model, "--batch", batch, "--steps", rows // batch, "--epochs", 100,
             "--optimizer", "adam", "--loss", "binary_crossentropy", "--json", "--log", log,
             *more]  # fmt: skip
    if limit:
        words += ["--memory", limit]
    begin = time.monotonic()
    summary = json.loads(run(in_group(limit, report, words)))
    seconds = time.monotonic() - begin
    group = json.loads(report.read_text()) if limit else {}
    in_steps = sum(json.loads(line)["seconds"] for line in log.read_text().splitlines())
    return {
        "step_rows_per_second": rows / in_steps,
        "rows_per_second": round(rows / seconds, 1), "seconds": round(seconds, 2),
        "median_step_ms": round(1e3 * summary["seconds_per_step"], 3),
        "measured_mib": round(summary["measured_process_bytes"] / 2**20, 1),
        "oom_kills": group.get("oom_kills"),
    }  # fmt: skip


def drop_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def tell(what: str, **values: Any) -> None:
    print(json.dumps({"what": what, **values}), flush=True)


def array(options: argparse.Namespace) -> None:
    folder: Path = options.folder
    model = write_model(folder / "dense.json", [
        layer("InputLayer", "in", batch_shape=[None, 1000], dtype="float32"),
        layer("Dense", "hidden", units=128, activation="relu"),
        layer("Dense", "out", units=1, activation="sigmoid"),
    ])  # fmt: skip
    batch, row_bytes = 1024, 8000

    def labels(rows: int) -> Path:
        np.save(folder / "y.npy", np.arange(rows) % 2)
        return folder / "y.npy"

    x = folder / "sparse.npy"
    rows = int(options.gib * 2**30) // row_bytes
    np.lib.format.open_memmap(x, "w+", np.float64, (rows, 1000)).flush()
    data = ["--data", x, "--labels", labels(rows), "--shuffle", "none"]
    tell("held", gib=options.gib, **fit(folder, model, options.limit, batch, rows, *data))
    data[-1] = "block"
    tell("held, blocks", gib=options.gib, **fit(folder, model, options.limit, batch, rows, *data))
    x.unlink()

    x, rows = folder / "real.npy", 200 * batch
    made = np.lib.format.open_memmap(x, "w+", np.float64, (rows, 1000))
    source = np.random.default_rng(1)
    for i in range(0, rows, batch):
        made[i : i + batch] = source.random((batch, 1000))
    made.flush()
    del made
    data = ["--data", x, "--labels", labels(rows), "--shuffle", "none"]
    compute = fit(folder, model, "", batch, rows, *data)
    drop_cache(x)
    disk = float(run(in_group(options.limit, folder / "g.json", ["python3", "-c", READER, x])))
    drop_cache(x)
    both = fit(folder, model, options.limit, batch, rows, *data)
    disk_rows, compute_rows = disk / row_bytes, compute["step_rows_per_second"]
    both_rows = both["step_rows_per_second"]
    slower = min(disk_rows, compute_rows)
    tell("timed", disk_mb_per_second=round(disk / 1e6), disk_rows=round(disk_rows),
         compute_rows=round(compute_rows), of_the_slower=round(both_rows / slower, 3),
         **both)  # fmt: skip
    x.unlink()


def images(options: argparse.Namespace) -> None:
    folder: Path = options.folder / "images"
    corpus = {
        name: sorted((options.corpus / "cats_dogs" / name).iterdir()) for name in ("cat", "dog")
    }
    for name, files in corpus.items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        if len(os.listdir(place)) != options.files // 2:
            for i in range(options.files // 2):
                (place / f"{i:06}.jpg").symlink_to(files[i % len(files)])
    head = [layer("InputLayer", "in", batch_shape=[None, 96, 96, 3], dtype="float32")]
    tail = [
        layer("GlobalAveragePooling2D", "mean"),
        layer("Dense", "out", units=1, activation="sigmoid"),
    ]
    convolutions = [
        layer("Conv2D", "c1", filters=16, kernel_size=[3, 3], activation="relu"),
        layer("MaxPooling2D", "p1"),
        layer("Conv2D", "c2", filters=32, kernel_size=[3, 3], activation="relu"),
    ]
    light = write_model(options.folder / "light.json", head + tail)
    real = write_model(options.folder / "real.json", head + convolutions + tail)
    np.save(options.folder / "x.npy", np.zeros((1280, 96, 96, 3), "float32"))
    np.save(options.folder / "y.npy", np.arange(1280) % 2)
    memory = ["--data", options.folder / "x.npy", "--labels", options.folder / "y.npy"]
    compute = fit(options.folder, real, "", 32, 1280, *memory)
    count = options.steps * 32
    decoder = fit(options.folder, light, options.limit, 32, count, "--data", folder)
    both = fit(options.folder, real, options.limit, 32, count, "--data", folder)
    decoder_rows, compute_rows, both_rows = (
        each["step_rows_per_second"] for each in (decoder, compute, both)
    )
    slower = min(decoder_rows, compute_rows)
    in_turn = 1 / (1 / decoder_rows + 1 / compute_rows)  # where both want the same processors
    rates = {"decoder_rows": round(decoder_rows), "compute_rows": round(compute_rows)}
    shares = {
        "of_the_slower": round(both_rows / slower, 3),
        "of_both_in_turn": round(both_rows / in_turn, 3),
    }
    tell("images", files=options.files, **rates, **shares, **both)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["array", "images"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gib", type=float, default=10)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--limit", default="128MiB")
    parser.add_argument("--corpus", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    array(options) if options.what == "array" else images(options)


if __name__ == "__main__":
    main()
