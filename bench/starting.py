"""From a cold start: to the first training step of a workload, or to a network's first prediction.

For a workload: wall time of a process that trains one step. For a network of keras.applications: a
process loads its file, predicts one image and writes the answer, beside the same in Keras; the
answers must agree.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from materials import BINARY, option, prepare, warm
from processes import run
from sides import checked
from training import Row

MOST_SECONDS = 0.3  # to the first step
MOST_DIFFERENCE = 1e-5

KERAS = """
import sys
import numpy, keras
model = keras.saving.load_model(sys.argv[1], compile=False)
numpy.save(sys.argv[3], model.predict(numpy.load(sys.argv[2]), verbose=0))
"""


def network_files(name: str, folder: Path) -> tuple[str, str]:
    """The network's file, with its initial weights, and one image; written where missing."""
    place = folder / f"cold-{name}"
    if not (place / "done").exists():
        import keras
        import numpy as np

        place.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(7)
        getattr(keras.applications, name)(weights=None).save(place / "model.keras")
        image = np.random.default_rng(11).random((1, 224, 224, 3), dtype="float32")
        np.save(place / "x.npy", image)
        (place / "done").touch()
    return str(place / "model.keras"), str(place / "x.npy")


def first_prediction(name: str, options: argparse.Namespace) -> Row:
    import numpy as np

    model, image = network_files(name, options.folder)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        answers = [str(Path(folder) / f"{side}.npy") for side in ("ours", "keras")]
        plimsoll = [str(BINARY), "predict", model, "--data", image, "--batch", "1"]
        plimsoll += ["--output", answers[0]]
        if options.memory:
            plimsoll += ["--memory", options.memory]
        keras = [sys.executable, "-c", KERAS, model, image, answers[1]]
        for _ in range(options.repeat):
            ours.append(checked(run(plimsoll, prefix=options.prefix), plimsoll))
            if "tensorflow" in options.peers:
                theirs.append(checked(run(keras, prefix=options.prefix), keras))
        row: Row = {
            "mode": "start", "workload": name, "what": "first prediction",
            "seconds": min(r.seconds for r in ours), "peak_bytes": max(r.peak_bytes for r in ours),
            "verdict": "measured",
        }  # fmt: skip
        if theirs:
            answer, expected = (np.load(path) for path in answers)
            row["difference"] = float(np.abs(answer - expected).max() / np.abs(expected).max())
            row["keras_seconds"] = min(r.seconds for r in theirs)
            row["keras_peak_bytes"] = min(r.peak_bytes for r in theirs)
            row["ratio"] = row["keras_seconds"] / row["seconds"]
            if not row["difference"] <= MOST_DIFFERENCE:
                row["verdict"] = f"predictions differ by {row['difference']:.1e}"
    return row


def first_step(name: str, options: argparse.Namespace) -> Row:
    arguments = prepare(name, options.folder)
    warm(option(arguments, "--data"))
    command = [str(BINARY), "fit", *arguments, "--steps", "1", "--no-shuffle", "--json"]
    runs = [checked(run(command, prefix=options.prefix), command) for _ in range(options.repeat)]
    least = min(r.seconds for r in runs)
    step = min(r.result()["seconds_per_step"] for r in runs)
    before = least - step  # what is no computing of that step
    return {
        "mode": "start", "workload": name, "what": "first step", "seconds": least,
        "seconds_before_the_step": before, "peak_bytes": max(r.peak_bytes for r in runs),
        "verdict": "reached" if before <= MOST_SECONDS
        else f"{before:.2f} of {MOST_SECONDS} s before the step",
    }  # fmt: skip


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    from workloads import WORKLOADS

    seed = name in WORKLOADS
    return [first_step(name, options) if seed else first_prediction(name, options)]
