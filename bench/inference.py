"""Predictions at batch 1 and 32, and evaluation, beside TensorFlow's compiled inference."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from goals import PREDICTION
from materials import option, prepare, samples, warm
from sides import peer, peer_command, plimsoll_passes, plimsoll_predictions
from training import Row, ratio, summary

PASSES = 5
# From the peer's predictions in float64, against the largest: this, or four times how far its own
# in float32 are from them.
MOST_DIFFERENCE = 1e-5
MOST_OF_PEER = 1e-3  # beyond that the two are not one network, and nothing is held


def sample_count(batch: int, quick: bool) -> int:
    return (2 if quick else 8) * batch


def differences(
    arguments: list[str], base: list[str], files: tuple[str, str], batch: int
) -> tuple[float, float]:
    """How far Plimsoll's predictions and the peer's are from the peer's in float64, against the
    largest of them."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        ours, theirs, exact = (Path(folder) / f"{name}.npy" for name in ("ours", "theirs", "exact"))
        plimsoll_predictions(arguments, batch, files[0], ours)
        peer(base, "predict", arguments, files, batch, 1, "f32", "", "--output", str(theirs),
             "--exact", str(exact))  # fmt: skip
        truth = np.load(exact)
        most = np.abs(truth).max()
        far = [np.abs(np.load(p).reshape(truth.shape) - truth).max() / most for p in (ours, theirs)]
        return float(far[0]), float(far[1])


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    rows = []
    whole = int(option(arguments, "--batch"))
    for program, batch in (("predict", 1), ("predict", 32), ("evaluate", whole)):
        files = samples(arguments, sample_count(batch, options.quick))
        warm(*files)
        ours: list[dict[str, Any]] = []
        theirs: dict[str, list[dict[str, Any]]] = {p: [] for p in options.peers}
        for _ in range(options.repeat):
            ours.append(plimsoll_passes(program, arguments, batch, files, options.prefix))
            for p, runs in theirs.items():
                base = peer_command(p, arguments[0])
                runs.append(
                    peer(base, program, arguments, files, batch, PASSES, "f32", options.prefix)
                )
        row: Row = {
            "mode": "predict", "workload": name, "program": program, "precision": "f32",
            "limit": None, "batch": batch, "plimsoll": summary(ours), "peers": {}, "ratios": {},
            "goal": {"speed": PREDICTION, "mib": None},
        }  # fmt: skip
        for p, runs in theirs.items():
            row["peers"][p] = summary(runs)
            row["ratios"][p] = ratio(row["plimsoll"], row["peers"][p])
        row["verdict"] = verdict(row, arguments, files, batch, options)
        rows.append(row)
    return rows


def verdict(
    row: Row, arguments: list[str], files: tuple[str, str], batch: int, options: argparse.Namespace
) -> str:
    speed = row["ratios"].get("tensorflow")
    if speed is None:
        return "not measured"
    missed = [] if speed >= PREDICTION else [f"{speed:.2f} of {PREDICTION:g} ×"]
    if row["program"] == "predict":
        base = peer_command("tensorflow")
        row["difference"], row["peer_difference"] = differences(arguments, base, files, batch)
        most = max(MOST_DIFFERENCE, 4 * row["peer_difference"])
        if not row["peer_difference"] <= MOST_OF_PEER or not row["difference"] <= most:
            missed.append(f"predictions differ by {row['difference']:.1e}")
    return "; ".join(missed) or "reached"
