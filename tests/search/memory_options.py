"""Options of `fit`, `evaluate` and `predict`, each by a name that coverage counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memory_forms import Form
from memory_layers import Draw

Words = list[str]
COMMANDS = ("fit", "evaluate", "predict")


@dataclass(frozen=True)
class Option:
    """`words` may hold {folder}, the run's folder."""

    words: Callable[[Draw], Words]
    commands: tuple[str, ...] = ("fit",)
    part: float = 0.1  # of the runs


def _fixed(*words: str) -> Callable[[Draw], Words]:
    return lambda draw: list(words)


def _size(option: str, least: int, most: int) -> Callable[[Draw], Words]:
    return lambda draw: [option, str(draw.log(least, most))]


OPTIMIZERS = (
    "sgd", "sgd(momentum=0.9,nesterov=true)", "adam", "adam(amsgrad=true)", "adam(clipnorm=1.0)",
    "adam(global_clipnorm=1.0)", "adam(clipvalue=0.5)", "adamw(weight_decay=0.01)", "rmsprop",
    "rmsprop(momentum=0.9,centered=true)", "adadelta", "adagrad", "adamax", "ftrl", "lion", "nadam",
    "lamb", "adafactor", "muon", "schedulefreeadamw",
)  # fmt: skip
OPTIONS: dict[str, Option] = {
    **{
        f"precision {name}": Option(_fixed("--precision", name), COMMANDS, part)
        for name, part in {"f32": 0.1, "bf16": 0.2}.items()
    },
    **{
        f"threads {n}": Option(_fixed("--threads", str(n)), COMMANDS, 0.12) for n in (1, 2, 3, 16)
    },
    **{
        f"shuffle {name}": Option(_fixed("--shuffle", name), part=0.15)
        for name in ("full", "block", "none")
    },
    "backend reference": Option(_fixed("--backend", "reference"), COMMANDS, 0.05),
    "spill": Option(_fixed("--spill"), COMMANDS, 0.12),
    "no spill": Option(_fixed("--no-spill"), COMMANDS, 0.12),
    "spill limit": Option(_fixed("--spill-limit", "64MiB"), COMMANDS, 0.06),
    "batch norm slices": Option(
        lambda draw: ["--batch-norm", f"slice:{draw.log(1, 8)}"], COMMANDS, 0.08
    ),
    "max slowdown": Option(_fixed("--max-slowdown", "1.5x"), COMMANDS, 0.06),
    # All other runs search for a tenth of a second: they are to be many.
    "usual plan time": Option(_fixed("--plan-time", "2"), COMMANDS, 0.06),
    "without slices": Option(_fixed("--without", "slices"), COMMANDS, 0.06),
    "without recompute": Option(_fixed("--without", "recompute,in-place"), COMMANDS, 0.06),
    "seed": Option(_size("--seed", 1, 1000), COMMANDS, 0.06),
    "epochs": Option(_fixed("--epochs", "2"), part=0.25),
    "validation split": Option(_fixed("--validation-split", "0.3"), part=0.15),
    "validation": Option(_fixed(), part=0.1),
    "sample weights": Option(_fixed(), ("fit", "evaluate"), 0.1),
    "class weights": Option(_fixed("--class-weights", "balanced"), part=0.1),
    "metrics": Option(_fixed("--metrics", "mse,mae"), ("fit", "evaluate"), 0.2),
    "accuracy": Option(_fixed("--metrics", "accuracy"), ("fit", "evaluate"), 0.2),
    "early stopping": Option(_fixed("--early-stopping", "patience=1"), part=0.1),
    "plateau": Option(_fixed("--reduce-on-plateau", "factor=0.5,patience=1"), part=0.1),
    "keep best": Option(_fixed("--keep-best", "{folder}/best.keras"), part=0.1),
    "log": Option(_fixed("--log", "{folder}/log.jsonl", "--log-steps"), part=0.15),
    "csv log": Option(_fixed("--csv-log", "{folder}/log.csv"), part=0.1),
    "tensorboard": Option(_fixed("--tensorboard", "{folder}/events"), part=0.1),
    "histograms": Option(_fixed("--tensorboard", "{folder}/events", "--histograms", "1"), part=0.1),
    "checkpoint": Option(_fixed("--checkpoint", "{folder}/checkpoints"), part=0.1),
    "checkpoint every step": Option(
        _fixed("--checkpoint", "{folder}/checkpoints", "--checkpoint-every", "1steps",
               "--checkpoint-keep", "1"), part=0.1),
    **{
        f"output {ending}": Option(_fixed("--output", f"{{folder}}/out{ending}"), part=0.12)
        for ending in (".keras", ".h5", ".weights.h5", ".json")
    },
    **{
        f"predictions {ending}": Option(
            _fixed("--output", f"{{folder}}/p{ending}"), ("predict",), 0.0
        )
        for ending in (".npy", ".csv", ".jsonl")
    },
    "profile": Option(_fixed("--profile"), part=0.06),
    "profile file": Option(_fixed("--profile-output", "{folder}/profile.json"), part=0.06),
    "tune": Option(_fixed("--tune", "--times", "{folder}/times"), COMMANDS, 0.05),
    "saved weights": Option(_fixed(), COMMANDS, 0.06),
    "saved plan": Option(_fixed(), part=0.07),
    "resumed": Option(_fixed(), part=0.07),
    **{f"optimizer {name}": Option(_fixed("--optimizer", name), part=0.0) for name in OPTIMIZERS},
}  # fmt: skip
# At most one of a group is drawn.
GROUPS = ("precision", "threads", "shuffle", "output", "checkpoint", "without")
PAIRS_THAT_EXCLUDE = (
    ("validation", "validation split"), ("spill", "no spill"), ("tensorboard", "histograms"),
    ("metrics", "accuracy"), ("resumed", "checkpoint"), ("resumed", "checkpoint every step"),
    ("no spill", "spill limit"), ("saved plan", "resumed"), ("profile", "profile file"),
    ("saved plan", "max slowdown"), ("sample weights", "validation"),
    ("saved plan", "plateau"), ("saved weights", "resumed"),
)  # fmt: skip


def legal(name: str, form: Form, command: str, sparse: bool, outputs: int) -> bool:
    """Whether the program promises to take this option with such data."""
    option = OPTIONS[name]
    if command not in option.commands:
        return False
    if name == "class weights":
        return sparse and outputs == 1 and form.labels not in ("mask", "token")
    if name in ("accuracy", "metrics"):
        return sparse == (name == "accuracy")
    if name in ("validation", "sample weights", "resumed", "saved plan") and form.name == "stdin":
        return False  # it is read once
    if name == "sample weights":
        return form.name in (
            "npy",
            "npy_folder",
            "npy_gz",
            "idx",
            "csv",
            "tsv",
            "hdf5",
            "images_flat",
        )
    return True


def draw_options(draw: Draw, form: Form, recipe: dict[str, Any], quick: bool) -> dict[str, Any]:
    """The command, its options by name, and the batch."""
    command = draw.random.choices(COMMANDS, (0.8, 0.1, 0.1))[0]
    sparse = recipe["loss"].startswith("sparse")
    outputs = len(recipe["outputs"])
    taken: dict[str, Words] = {}
    names = list(OPTIONS)
    draw.random.shuffle(names)
    for name in names:
        part = OPTIONS[name].part * (0.6 if name.startswith("threads") else 1)
        if not draw.often(part) or not legal(name, form, command, sparse, outputs):
            continue
        if any(name in pair and any(o in taken for o in pair) for pair in PAIRS_THAT_EXCLUDE):
            continue
        rows = max(8, 4 * recipe["data"].get("window", 0))  # some are to be left on both sides
        if name == "validation split" and recipe["data"]["rows"] < rows:
            continue
        group = name.split()[0]
        if group in GROUPS and any(other.split()[0] == group for other in taken):
            continue
        if name in ("tune", "backend reference") and (recipe["profile"] in ("deep", "wide") or quick
                                                      and name == "tune"):  # fmt: skip
            continue
        taken[name] = OPTIONS[name].words(draw)
    if command == "fit":
        optimizer = draw.one_of(*OPTIMIZERS)
        taken[f"optimizer {optimizer}"] = ["--optimizer", optimizer]
    if command == "predict":
        ending = draw.one_of(".npy", ".csv", ".jsonl")
        taken[f"predictions {ending}"] = ["--output", f"{{folder}}/p{ending}"]
    limit = draw.one_of("predicted", "smallest")
    if any(name.startswith("profile") or name == "tune" for name in taken):
        limit = "predicted"  # `plan` cannot be asked for what these hold
    return {"command": command, "batch": _draw_batch(draw, recipe, quick), "options": taken,
            "limit": limit}  # fmt: skip


def _draw_batch(draw: Draw, recipe: dict[str, Any], quick: bool) -> int:
    """Of as many samples as the elements of the largest value let it take."""
    from memory_recipe import tensor_shapes

    largest = 1
    for shape in tensor_shapes(recipe):
        count = 1
        for n in shape:
            count *= n
        largest = max(largest, count)
    most = max(1, (1_000_000 if quick else 8_000_000) // largest)
    return draw.log(1, min(most, 20_000 if recipe["profile"] == "many rows" else 256))
