"""Compares what Keras and the built program make of a recipe.

A quick look compares both in float32. What is not plainly equal is judged by float64 and by what
Keras's own numbers do when every weight moves by a rounding:

- a first loss, a gradient: within max(1e-5 of it, twice Keras's error, 1e-9 of all gradients);
- what follows from several steps, and metrics: within 4 times the largest change that a rounding
  makes in Keras, or a share that is larger;
- a gradient or a slot that is 0 in float64: within 2^-22 of all gradients. Its terms may be as
  large as those of the others, each with a rounding of up to 2^-24 of it, and whether these cancel
  is chance: attention to positions that are all alike leaves 1.1e-7 in Keras and 0.9e-7 here, or 0.
  Normalization of numbers that are all alike enlarges such a rounding by 1 / sqrt(epsilon).
"""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from harness import BINARY, read_keras, read_log
from keras_side import (
    NotKeras,
    Run,
    loaded_run,
    run_again,
    slots_from,
    train_in_keras,
    trained,
)
from model_recipe import Recipe
from refusals import is_right

MODEL_REFUSED, OUR_BUG = 4, 70
SECONDS = 60
NUDGES = 12  # fewer do not show how far a gradient of a few numbers goes


@dataclass
class Verdict:
    """`outcome`: equal, refused, different, failed (another exit code), crash, or keras."""

    outcome: str
    kind: str = ""
    text: str = ""

    @property
    def is_finding(self) -> bool:
        if self.outcome == "refused":
            return not is_right(self.text)
        return self.outcome in ("different", "failed", "crash")


class Ended(Exception):
    """The program did not do what it was told."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.text)
        self.verdict = verdict


def kind_of_message(text: str) -> str:
    """A message without names and numbers, so that its like count together."""
    lines = text.strip().splitlines() or [""]
    text = next((line for line in lines if line.startswith("plimsoll: ")), lines[-1])
    text = re.sub(r"^plimsoll: ", "", text)
    text = re.sub(r"\S*/\S+|\b\w*\.npy\b", "PATH", text)
    text = re.sub(r"\[[\w/]+\]", "[]", text)
    text = re.sub(r"\bn\d+\w*|\b[a-z_]+_\d+\b", "N", text)
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "0", text)[:160]


def run_program(*arguments: Any) -> str:
    """Standard output of the program, which must end well."""
    words = [str(BINARY), *map(str, arguments)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Ended(Verdict("crash", f"no end after {SECONDS} s", str(error))) from error
    if done.returncode == 0:
        return done.stdout
    message = done.stderr.strip()
    kind = kind_of_message(message)
    if done.returncode == MODEL_REFUSED:
        raise Ended(Verdict("refused", kind, message))
    if done.returncode < 0 or done.returncode == OUR_BUG:
        raise Ended(Verdict("crash", f"exit {done.returncode} {kind}", message[-800:]))
    raise Ended(Verdict("failed", f"exit {done.returncode} {kind}", message[-800:]))


def data_options(recipe: Recipe) -> list[str]:
    words = []
    for index in range(len(recipe["inputs"])):
        words += ["--data", f"x{index}.npy"]
    for index in range(len(recipe["targets"])):
        words += ["--labels", f"y{index}.npy"]
    if recipe.get("weights"):
        words += ["--sample-weights", "w.npy"]
    return words


def in_folder(folder: Path, words: list[str]) -> list[str]:
    return [
        str(folder / w) if w.endswith((".npy", ".keras", ".h5", ".jsonl")) else w for w in words
    ]


def run_ours(recipe: Recipe, folder: Path, model: Any) -> Run:
    """The same numbers of the built program."""
    data = [f"model.{recipe['form']}", *data_options(recipe), "--batch", str(recipe["batch"])]
    fit = [*data, "--no-shuffle", "--epochs", "1", "--threads", "1", "--log-steps"]
    if "class_weights" in recipe:
        fit += ["--class-weights", ",".join(f"{k}:{v}" for k, v in recipe["class_weights"].items())]
    first = [*fit, "--steps", "1", "--optimizer", "sgd(learning_rate=1,momentum=0.5)"]
    for name in ("first.jsonl", "all.jsonl"):
        (folder / name).unlink(missing_ok=True)
    told = run_program(*in_folder(folder, ["evaluate", *data, "--threads", "1", "--json"]))
    run_program("fit", *in_folder(folder, [*first, "--output", "first.keras"]))
    words = [*fit, "--output", "all.keras", "--log", "all.jsonl"]
    run_program("fit", *in_folder(folder, words))
    _, slots = read_keras(folder / "first.keras")
    rows = read_log(folder / "all.jsonl")
    epoch = {k: v for k, v in rows[-1].items() if k not in ("epoch", "seconds")}
    model.load_weights(folder / "all.keras")
    kept = read_keras(folder / "all.keras")[1][slots_from(recipe) :]
    return Run(
        json.loads(told),
        [row["loss"] for row in rows if "step" in row],
        [-slot for slot in slots[2:]],
        model.get_weights(),
        kept if model.trainable_variables else [],
        epoch,
        trained(model),
    )


@dataclass
class Part:
    """One number or tensor of a run: its name, values, and the share of it that may be off."""

    name: str
    ours: np.ndarray
    keras: np.ndarray
    share: float
    least: float  # what may be off in any case
    zero: float = 0.0  # what rounding may leave where the exact value is 0; 0: no such allowance

    def error(self, other: np.ndarray) -> float:
        return float(np.linalg.norm(np.ravel(np.asarray(self.ours, "float64") - other)))


def norm(values: Any) -> float:
    return float(np.linalg.norm(np.ravel(np.asarray(values, "float64"))))


METRIC_SHARE, STEP_SHARE = 1e-5, 1e-4
ZERO_SHARE = 2.0**-22


def parts_of(ours: Run, theirs: Run, start: list[np.ndarray]) -> list[Part]:
    """What is compared, in the order in which a difference shows first."""
    parts = []
    total = norm([norm(g) for g in theirs.gradients])
    rounded = ZERO_SHARE * max(total, abs(theirs.losses[0]) if theirs.losses else 0.0)
    for key, what in (("evaluation", "evaluation"), ("epoch", "epoch")):
        mine, other = getattr(ours, key), getattr(theirs, key)
        for name, value in other.items():
            if name in mine:
                given = np.nan if mine[name] is None else mine[name]
                parts.append(Part(f"{what} {name}", given, value, METRIC_SHARE, 1e-6))
    for step, (mine, other) in enumerate(zip(ours.losses, theirs.losses), 1):
        parts.append(Part(f"loss {step}", mine, other, 5e-6 if step == 1 else STEP_SHARE, 2e-7))
    for index, (mine, other) in enumerate(zip(ours.gradients, theirs.gradients)):
        name = f"gradient {index} {other.shape}"
        parts.append(Part(name, mine, other, 5e-6, 5e-10 * total, rounded))
    pairs = zip(ours.weights, theirs.weights, start)
    for index, (mine, other, begin) in enumerate(pairs):
        least = STEP_SHARE * norm(other - begin) + 1e-7 * norm(other) + 1e-9
        parts.append(Part(f"weight {index} {other.shape}", mine, other, 0, least))
    for index, (mine, other) in enumerate(zip(ours.slots, theirs.slots)):
        if mine.shape == other.shape:
            name = f"slot {index} {other.shape}"
            parts.append(Part(name, mine, other, STEP_SHARE, 1e-9, rounded))
    return parts


def named_alike(ours: Run, theirs: Run) -> str:
    """What one of both does not have at all, or ""."""
    for key in ("evaluation", "epoch"):
        missing = sorted(set(getattr(theirs, key)) - set(getattr(ours, key)))
        if missing:
            return f"{key}: no {re.sub('n[0-9]+', 'N', missing[0])}"
    for key in ("losses", "gradients", "weights", "slots"):
        mine, other = getattr(ours, key), getattr(theirs, key)
        if len(mine) != len(other):
            return f"{key}: {len(mine)} of {len(other)}"
        if key != "losses" and any(a.shape != b.shape for a, b in zip(mine, other)):
            return f"{key}: other shapes"
    return ""


def same(part: Part) -> bool:
    ours, theirs = np.asarray(part.ours, "float64"), np.asarray(part.keras, "float64")
    if ours.shape != theirs.shape:
        return False
    if not np.all(np.isfinite(theirs)):
        return np.array_equal(np.isfinite(ours), np.isfinite(theirs))
    return part.error(theirs) <= max(part.share * norm(theirs), part.least)


def is_zero(exact: Any, part: Part) -> bool:
    """Whether it is 0 but for the rounding of float64."""
    return norm(exact) < 2e-6 * part.zero


# Optimizers that divide by the size of gradients, or take their sign.
NORMALIZING = ("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Lion",
               "Muon", "Nadam", "RMSprop")  # fmt: skip


def most_drift(recipe: Recipe, steps: int, size: int) -> float:
    """How far a weight may go whose gradients are what rounding leaves of 0; 0: nowhere."""
    optimizer = recipe["compile"]["optimizer"]
    if optimizer["class_name"] not in NORMALIZING:
        return 0.0
    rate = optimizer["config"].get("learning_rate", 0.001)
    if not isinstance(rate, float):
        rate = rate["config"].get("initial_learning_rate", 0.1)
    return 3 * rate * steps * float(np.sqrt(size))


def without_gradient(exact: dict[str, Any], run: Run) -> set[str]:
    """Names of weights whose gradient is 0 but for rounding, which decides where they go."""
    gradients = {name: norm(g) for name, g in exact.items() if name.startswith("gradient")}
    size = max([norm(list(gradients.values())), abs(exact.get("loss 1", 0.0))])
    places = (run.trained[int(name.split()[1])]
              for name, g in gradients.items() if g < 2e-6 * ZERO_SHARE * size)  # fmt: skip
    return {f"weight {place} {run.weights[place].shape}" for place in places}


def amplification(recipe: Recipe) -> float:
    """By how much normalizations may enlarge what rounding leaves of numbers that are all alike.

    Their difference from their mean is divided by at least the root of epsilon.
    """
    smallest = [node.get("config", {}).get("epsilon", 1e-3) for node in recipe["nodes"]
                if node["layer"] in ("BatchNormalization", "LayerNormalization",
                                     "GroupNormalization")]  # fmt: skip
    return max([1.0, *(epsilon**-0.5 for epsilon in smallest if epsilon > 0)])


def judged(part: Part, exact: np.ndarray, others: list[np.ndarray], amplified: float = 1.0) -> bool:
    """Whether a part that is not plainly equal is within what Keras's rounding makes of it."""
    exact = np.asarray(exact, "float64")
    if not np.all(np.isfinite(exact)) or not np.all(np.isfinite(part.keras)):
        return True  # an overflow is no number to compare
    spread = max(norm(np.asarray(run, "float64") - exact) for run in [part.keras, *others])
    factor = 2 if part.name.startswith(("gradient", "loss 1")) else 4
    least = 2 * part.least
    if is_zero(exact, part):
        least = max(least, amplified * part.zero)
    return part.error(exact) <= max(2 * part.share * norm(exact), least, factor * spread)


def values_by_name(run: Run, like: Run, start: list[np.ndarray]) -> dict[str, Any]:
    return {part.name: part.keras for part in parts_of(like, run, start)}


def keras_loads(recipe: Recipe, folder: Path) -> bool:
    """Whether Keras reads the file that it wrote; what it does not read may be refused."""
    try:
        keras.saving.load_model(folder / f"model.{recipe['form']}")
    except Exception:
        return False
    return True


def compare(recipe: Recipe, folder: Path) -> Verdict:
    """What became of one recipe."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        model, start, theirs = train_in_keras(recipe, folder)
    except NotKeras as error:
        return Verdict("keras", kind_of_message(str(error)), str(error)[-600:])
    try:
        ours = run_ours(recipe, folder, model)
    except Ended as ended:
        finite = np.all(np.isfinite(theirs.losses))
        if not finite and "expected a finite loss" in ended.verdict.text:
            return Verdict("keras", "its loss is no number")
        return ended.verdict if keras_loads(recipe, folder) else Verdict("keras", "does not load")
    missing = named_alike(ours, theirs)
    if missing:
        return Verdict("different", missing, missing)
    suspects = [part for part in parts_of(ours, theirs, start) if not same(part)]
    if not suspects:
        return Verdict("equal")
    try:
        loaded = loaded_run(recipe, folder)
    except Exception as error:
        return Verdict("keras", "does not load", str(error)[-600:])
    if not all(same(part) for part in parts_of(loaded, theirs, start)):
        return Verdict("keras", "its file says other than its model")
    return judge(recipe, suspects, ours, start)


def without_ranks(recipe: Recipe) -> Recipe:
    """The recipe without the metrics that TensorFlow does not have in float64."""
    metrics = [[m for m in each if "TopK" not in str(m)] for each in recipe["compile"]["metrics"]]
    return {**recipe, "compile": {**recipe["compile"], "metrics": metrics}}


def judge(recipe: Recipe, suspects: list[Part], ours: Run, start: list[np.ndarray]) -> Verdict:
    """The careful look."""
    plain = without_ranks(recipe)
    try:
        exact = values_by_name(run_again(plain, "float64"), ours, start)
        nudged = [
            values_by_name(run_again(recipe, "float32", seed), ours, start)
            for seed in range(NUDGES)
        ]
    except Exception as error:
        return Verdict("keras", "float64 " + kind_of_message(str(error)), str(error)[-600:])
    drifting = without_gradient(exact, ours)
    amplified = amplification(recipe)
    wrong = [
        part
        for part in suspects
        if not (
            part.name in drifting
            and part.error(exact[part.name])
            <= most_drift(recipe, len(ours.losses), np.size(part.ours))
        )
        and not judged(
            part, exact.get(part.name, part.keras), [run[part.name] for run in nudged], amplified
        )
    ]
    if not wrong:
        return Verdict("equal", "within rounding")
    first = wrong[0]
    text = "; ".join(f"{p.name}: ours {brief(p.ours)}, Keras {brief(p.keras)}" for p in wrong[:4])
    return Verdict("different", first.name.split(" ")[0], text)


def brief(values: Any) -> str:
    flat = np.ravel(np.asarray(values))
    return " ".join(f"{value:.7g}" for value in flat[:4]) + (" …" if flat.size > 4 else "")
