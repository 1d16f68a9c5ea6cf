"""The smallest limit that `plan` prints without data holds for a run with data of any form, in a
memory control group of exactly that size where one can be made."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from memory_data import Place, write_data
from memory_run import IN_CGROUP, can_make_groups

MODELS: dict[str, tuple[list[int], list[tuple[str, dict[str, Any]]]]] = {
    "table": ([24], [("Dense", {"units": 512, "activation": "relu"}),
                     ("BatchNormalization", {}), ("Dense", {"units": 512})]),
    "image": ([40, 40, 3], [("Conv2D", {"filters": 16, "kernel_size": [3, 3]}),
                            ("BatchNormalization", {}), ("MaxPooling2D", {}),
                            ("Conv2D", {"filters": 32, "kernel_size": [3, 3]}),
                            ("GlobalAveragePooling2D", {})]),
    "words": ([16], [("Embedding", {"input_dim": 2000, "output_dim": 64}), ("LSTM", {"units": 64}),
                     ("Dropout", {"rate": 0.2})]),
}  # fmt: skip
CLASSES = 5
ROWS, BATCH = 70, 32  # a short last batch of 6
IMAGE = {"height": 90, "width": 120, "mode": "RGB", "classes": CLASSES}
CHUNKS = {"chunk_part": 1, "chunk_rows": 16, "shuffled_bytes": True}
PAIRS: list[tuple[str, str, dict[str, Any]]] = [
    ("table", "npy", {}),
    ("table", "csv", {"columns": 24}),
    ("table", "hdf5_gzip", CHUNKS),
    ("table", "tfrecord", {"kind": "floats"}),
    ("image", "npy", {"dtype": "uint8"}),
    ("image", "images_jpeg", IMAGE),
    ("image", "images_png", IMAGE),
    ("image", "hdf5_gzip", CHUNKS),
    ("image", "npz_compressed", {}),
    ("words", "npy", {}),
    ("words", "text_words", {"tokens": 600, "words": 700, "word_length": 4, "vocabulary": 500}),
    ("words", "tfrecord", {"kind": "integers"}),
]


def write_model(folder: Path, name: str, classes: int) -> Path:
    shape, layers = MODELS[name]
    dtype = "int32" if name == "words" else "float32"
    start = {"name": "in", "batch_shape": [None, *shape], "dtype": dtype}
    named: list[dict[str, Any]] = [{"class_name": "InputLayer", "config": start}]
    end = ("Dense", {"units": classes, "activation": "softmax"})
    for i, (kind, config) in enumerate([*layers, end]):
        named.append({"class_name": kind, "config": {"name": f"layer{i}", **config}})
    path = folder / f"{name}-{classes}.json"
    config = {"name": name, "layers": named}
    path.write_text(json.dumps({"class_name": "Sequential", "config": config}))
    return path


class Program:
    """Plans of one model without data, made once."""

    def __init__(self, plimsoll: Path, folder: Path) -> None:
        self.plimsoll, self.folder = plimsoll, folder
        self.plans: dict[tuple[str, int], dict[str, Any]] = {}
        self.groups = can_make_groups()

    def run(
        self, verb: str, model: str, classes: int, *more: str, group: list[str] | None = None
    ) -> dict[str, Any]:
        command = [*(group or []), str(self.plimsoll), verb,
                   str(write_model(self.folder, model, classes)), "--batch", str(BATCH),
                   "--optimizer", "adam", "--json", "--times", "none", "--loss",
                   "sparse_categorical_crossentropy", "--no-spill", *more]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def plan(self, model: str, classes: int) -> dict[str, Any]:
        key = (model, classes)
        if key not in self.plans:
            self.plans[key] = self.run("plan", model, classes)
        return self.plans[key]


@pytest.fixture(scope="module")
def program(plimsoll: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(plimsoll, tmp_path_factory.mktemp("any-source"))


@pytest.mark.parametrize(("model", "form", "how"), PAIRS, ids=[f"{m}-{f}" for m, f, _ in PAIRS])
def test_the_printed_smallest_limit_is_the_runs(
    program: Program, tmp_path: Path, model: str, form: str, how: dict[str, Any]
) -> None:
    classes = 500 if form == "text_words" else CLASSES
    planned = program.plan(model, classes)
    limit = planned["smallest_same_bits_bytes"]
    recipe = {"seed": 1, "inputs": [MODELS[model][0]], "values": 200, "nest": 0, "name_length": 0,
              "loss": "sparse_categorical_crossentropy", "layers": [], "outputs": [0],
              "data": {"form": form, "rows": ROWS, **how}}  # fmt: skip
    place = Place(tmp_path, recipe)
    place.labels = lambda rows, dtype="float32": [  # type: ignore[method-assign]
        place.numbers([rows], "int32", below=classes)
    ]
    words = write_data(place)
    report = tmp_path / "group.json"
    group = [str(IN_CGROUP), f"{limit}B", "--report", str(report), "--"] if program.groups else []
    run = program.run("fit", model, classes, *words, "--memory", str(limit), "--epochs", "1",
                      group=group)  # fmt: skip
    if group:
        assert json.loads(report.read_text())["oom_kills"] == 0
    assert run["block_set"] == 0
    assert run["measured_process_bytes"] <= limit


def test_the_plan_says_what_it_counts(program: Program, tmp_path: Path) -> None:
    planned = program.plan("table", CLASSES)
    named = {part["name"]: part["bytes"] for part in planned["parts"]}
    assert named["data buffers, of any source"] > 8 * 2**20
    # What is proved holds for data that take nothing.
    assert planned["lower_bound_bytes"] < planned["smallest_same_bits_bytes"] - 8 * 2**20
    text = subprocess.run(
        [str(program.plimsoll), "plan", str(write_model(tmp_path, "table", CLASSES)), "--batch",
         "32", "--optimizer", "adam", "--loss", "sparse_categorical_crossentropy",
         "--times", "none"], capture_output=True, text=True, timeout=120,
    ).stdout  # fmt: skip
    assert "data: none named; counted are the largest buffers of any source" in text
