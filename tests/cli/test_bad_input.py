"""What goes wrong by a user's hand: message, exit code, nothing half-written."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_disk import small_disk

USAGE, DOES_NOT_FIT, MODEL, DATA, IO = 2, 3, 4, 5, 6


def layer(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


def small_model(path: Path, last: str = "Dense") -> Path:
    layers = [
        layer("InputLayer", "in", batch_shape=[None, 6], dtype="float32"),
        layer("Dense", "hidden", units=8, activation="relu"),
        layer(last, "out", units=3, activation="softmax"),
    ]
    model = {"class_name": "Sequential", "config": {"name": "small", "layers": layers}}
    path.write_text(json.dumps(model))
    return path


class Workplace:
    """A folder with a good model and good data, and a way to run the program on them."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.model = small_model(folder / "model.json")
        rng = np.random.default_rng(1)
        self.x = self.save("x.npy", rng.normal(0, 1, (40, 6)).astype("float32"))
        self.y = self.save("y.npy", rng.integers(0, 3, 40).astype("int32"))
        self.output = folder / "out.keras"

    def save(self, name: str, array: np.ndarray) -> Path:
        np.save(self.folder / name, array)
        return self.folder / name

    def run(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        command = [str(self.binary), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def fit(self, *more: Any, **changes: Any) -> subprocess.CompletedProcess[str]:
        values: dict[str, Any] = {
            "model": self.model, "data": self.x, "labels": self.y, "batch": 16,
            "output": self.output, "optimizer": "sgd",
            "loss": "sparse_categorical_crossentropy", **changes,
        }  # fmt: skip
        model = values.pop("model")
        options = [word for key, value in values.items() for word in (f"--{key}", value)]
        return self.run("fit", model, *options, *more)


@pytest.fixture
def place(plimsoll: Path, tmp_path: Path) -> Workplace:
    return Workplace(plimsoll, tmp_path)


def assert_refused(
    place: Workplace, result: subprocess.CompletedProcess[str], code: int, *words: str
) -> None:
    assert result.returncode == code, (result.returncode, result.stderr)
    for word in words:
        assert word in result.stderr, (word, result.stderr)
    assert not place.output.exists()
    leftover = [p.name for p in place.folder.iterdir() if "out" in p.name]
    assert leftover == [], leftover


def test_good_input_trains(place: Workplace) -> None:
    result = place.fit("--json")
    assert result.returncode == 0, result.stderr
    assert place.output.exists()
    summary = json.loads(result.stdout)
    assert summary["steps"] == 3
    assert summary["planned_arena_bytes"] >= summary["measured_arena_bytes"] > 0


def test_missing_model(place: Workplace) -> None:
    missing = place.folder / "none.keras"
    assert_refused(place, place.fit(model=missing), IO, "none.keras", "No such file")


def test_missing_data(place: Workplace) -> None:
    assert_refused(place, place.fit(data=place.folder / "none.npy"), IO, "none.npy")


def test_wrong_sample_shape(place: Workplace) -> None:
    x = place.save("wide.npy", np.zeros((40, 7), "float32"))
    assert_refused(place, place.fit(data=x), DATA, "wide.npy", "7", "6")


def test_row_counts_differ(place: Workplace) -> None:
    y = place.save("short.npy", np.zeros(39, "int32"))
    assert_refused(place, place.fit(labels=y), DATA, "39", "40")


@pytest.mark.parametrize("label", [3, -1])
def test_label_out_of_range(place: Workplace, label: int) -> None:
    y = np.zeros(40, "int32")
    y[17] = label
    result = place.fit("--no-shuffle", labels=place.save("bad.npy", y))
    assert_refused(place, result, DATA, "17", str(label), "3")


def test_nan_in_data_ends_with_the_step(place: Workplace) -> None:
    x = np.load(place.x)
    x[20, 2] = np.nan
    result = place.fit("--no-shuffle", data=place.save("nan.npy", x))
    assert_refused(place, result, DATA, "nan.npy: row 20: expected a finite number, received nan")


def test_infinity_in_a_table_is_no_category(place: Workplace) -> None:
    rows = [f"{i * 0.5},{i},1,2,3,4,{i % 3}" for i in range(40)]
    rows[7] = rows[7].replace("3.5", "-Inf", 1)
    table = place.folder / "table.csv"
    table.write_text("\n".join(["a,b,c,d,e,f,label", *rows]))
    command = ["fit", place.model, "--data", table, "--optimizer", "sgd", "--loss",
               "sparse_categorical_crossentropy", "--output", place.output]  # fmt: skip
    expected = 'table.csv: line 9, column "a": expected a finite number, received "-Inf"'
    assert_refused(place, place.run(*command), DATA, expected)


def test_a_loss_that_grows_beyond_all_numbers(place: Workplace) -> None:
    y = place.save("large.npy", np.full((40, 3), 1e30, "float32"))
    result = place.fit(labels=y, loss="mse")
    assert_refused(place, result, DATA, "expected a finite loss", "lower the learning rate")


def test_unknown_layer(place: Workplace) -> None:
    model = small_model(place.folder / "typo.json", last="Dens")
    assert_refused(place, place.fit(model=model), MODEL, "Dens", 'Did you mean "Dense"?')


def test_a_product_beyond_the_library(place: Workplace) -> None:
    """The library's division by zero ended the program."""
    model = json.loads(place.model.read_text())
    layers = model["config"]["layers"]
    layers[0]["config"]["batch_shape"] = [None, 2**20, 2**13]
    layers.insert(1, layer("Flatten", "flat"))
    path = place.folder / "wide.json"
    path.write_text(json.dumps(model))
    result = place.run("plan", path, "--batch", 4, "--loss", "sparse_categorical_crossentropy",
                       "--optimizer", "sgd", "--memory", "4GiB")  # fmt: skip
    assert result.returncode in (MODEL, DOES_NOT_FIT), (result.returncode, result.stderr)


def test_lambda_is_refused_by_name(place: Workplace) -> None:
    model = small_model(place.folder / "lambda.json", last="Lambda")
    assert_refused(place, place.fit(model=model), MODEL, "out", "Lambda")


def test_unknown_option(place: Workplace) -> None:
    assert_refused(place, place.fit("--memroy", "64MiB"), USAGE, "--memroy", '"--memory"')


def test_unknown_command(place: Workplace) -> None:
    assert_refused(place, place.run("fitt"), USAGE, "fitt", '"fit"')


def test_no_command(place: Workplace) -> None:
    assert_refused(place, place.run(), USAGE, "--help")


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("optimizer", "adm", '"adam"'),
        ("loss", "sparse_categorical_crosentropy", '"sparse_categorical_crossentropy"'),
        ("metrics", "acuracy", '"accuracy"'),
        ("optimizer", "adam(learning_rat=0.1)", "learning_rat"),
        ("backend", "onedn", '"onednn"'),
        ("memory", "64Mib2", "64Mib2"),
        ("batch", "0", "--batch"),
    ],
)
def test_unknown_words(place: Workplace, option: str, value: str, hint: str) -> None:
    assert_refused(place, place.fit(**{option: value}), USAGE, hint)


def test_a_limit_without_its_unit(place: Workplace) -> None:
    result = place.fit(memory="100")
    assert_refused(place, result, USAGE, "--memory", "100 bytes", "Did you mean 100MiB?")


def test_labels_that_are_one_hot(place: Workplace) -> None:
    y = place.save("hot.npy", np.eye(3, dtype="float32")[np.arange(40) % 3])
    result = place.fit(labels=y)
    assert_refused(place, result, DATA, "hot.npy", "each of the 3 classes",
                   "use categorical_crossentropy, or labels of whole numbers")  # fmt: skip
    done = place.fit(labels=y, loss="categorical_crossentropy")
    assert done.returncode == 0 and place.output.exists(), done.stderr


def test_evaluate_says_of_labels_what_fit_says(place: Workplace) -> None:
    layers = [layer("InputLayer", "in", batch_shape=[None, 6], dtype="float32"),
              layer("Dense", "out", units=1, activation="sigmoid")]  # fmt: skip
    path = place.folder / "one.json"
    config = {"name": "one", "layers": layers}
    path.write_text(json.dumps({"class_name": "Sequential", "config": config}))
    y = place.save("five.npy", np.full(40, 5, "int32"))
    words = ["--data", place.x, "--labels", y, "--loss", "binary_crossentropy", "--batch", 16]
    for command in (["fit", path, *words, "--optimizer", "sgd"], ["evaluate", path, *words]):
        done = place.run(*command)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("expected labels from 0 to 1") == 1, done.stderr


def test_check_as_an_object(place: Workplace) -> None:
    done = place.run("check", place.model, "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["can_be_trained"] and answer["reasons"] == []
    small_model(place.model, last="Lambda")
    done = place.run("check", place.model, "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == MODEL and not answer["can_be_trained"]
    assert len(answer["reasons"]) == 1 and "[out]" in answer["reasons"][0]


def test_limit_of_one_kibibyte(place: Workplace) -> None:
    result = place.fit(memory="1KiB")
    assert_refused(place, result, DOES_NOT_FIT, "--memory 1KiB", "impossible below")


def test_plan_answers_with_numbers(place: Workplace) -> None:
    result = place.run(
        "plan", place.model, "--batch", 16, "--optimizer", "adam", "--loss",
        "sparse_categorical_crossentropy", "--memory", "1KiB", "--json",
    )  # fmt: skip
    assert result.returncode == DOES_NOT_FIT
    answer = json.loads(result.stdout)
    assert answer["answer"] == "impossible"
    assert answer["lower_bound_bytes"] <= answer["smallest_feasible_bytes"]
    assert answer["smallest_feasible_bytes"] <= answer["smallest_same_bits_bytes"]
    assert answer["culprits"]


def test_no_training_configuration(place: Workplace) -> None:
    command = ["fit", place.model, "--data", place.x, "--labels", place.y]
    assert_refused(place, place.run(*command), USAGE, "--optimizer")


def test_unknown_output_ending(place: Workplace) -> None:
    result = place.fit(output=place.folder / "out.onnx")
    assert_refused(place, result, USAGE, "out.onnx", ".keras")


def test_output_folder_missing(place: Workplace) -> None:
    result = place.fit(output=place.folder / "no" / "out.keras")
    assert_refused(place, result, IO, "No such file")


@pytest.mark.parametrize(
    ("option", "read"),
    [("log", "rows.csv"), ("csv-log", "rows.csv"), ("csv-log", "later.csv"),
     ("log", "model.json"), ("csv-log", "model.json")],
)  # fmt: skip
def test_a_log_replaces_nothing_that_is_read(place: Workplace, option: str, read: str) -> None:
    rows = np.hstack([np.load(place.x), np.load(place.y)[:, None]])
    lines = ["a,b,c,d,e,f,y", *(",".join(map(str, row)) for row in rows)]
    (place.folder / "rows.csv").write_text("\n".join(lines))
    (place.folder / "later.csv").write_text("\n".join(lines))
    before = {path.name: path.read_bytes() for path in place.folder.iterdir()}
    result = place.run(
        "fit", place.model, "--data", place.folder / "rows.csv", "--label-column", "y",
        "--optimizer", "sgd", "--loss", "mse", "--validation", place.folder / "later.csv",
        "--output", place.output, f"--{option}", place.folder / read,
    )  # fmt: skip
    assert_refused(place, result, USAGE, f"--{option}: expected a file of its own", read)
    assert {path.name: path.read_bytes() for path in place.folder.iterdir()} == before


def test_predictions_replace_no_data(place: Workplace) -> None:
    before = place.x.read_bytes()
    result = place.run("predict", place.model, "--data", place.x, "--output", place.x)
    assert_refused(place, result, USAGE, "--output: expected a file of its own", "x.npy")
    assert place.x.read_bytes() == before


def test_no_space_for_the_output(place: Workplace) -> None:
    """A file system of one page: the trained file does not fit."""
    with small_disk(place.folder / "disk", "size=4k") as full:
        result = place.fit("--spill-dir", place.folder, output=full / "trained.keras")
        assert result.returncode == IO, result.stderr
        assert "No space left" in result.stderr, result.stderr
        assert list(full.iterdir()) == []
        (elsewhere,) = place.folder.glob("plimsoll-*-trained.keras")
        assert f"The trained model is in {elsewhere} instead." in result.stderr
        there = ["--data", place.x, "--output", place.folder / "p.npy"]
        assert place.run("predict", elsewhere, *there).returncode == 0


@pytest.mark.parametrize(
    ("option", "name", "epochs"),
    [("log", "log.jsonl", 60), ("csv-log", "log.csv", 200), ("tensorboard", "events", 30)],
)
def test_a_log_on_a_full_disk_costs_no_training(
    place: Workplace, option: str, name: str, epochs: int
) -> None:
    with small_disk(place.folder / "disk", "size=8k") as full:
        more = ["--log-steps"] if option == "log" else []
        result = place.fit(*more, **{option: full / name, "epochs": epochs})
    assert result.returncode == IO, result.stderr
    assert result.stderr.count("this log ends here, the run goes on") == 1, result.stderr
    assert "No space left" in result.stderr and place.output.exists()


def test_garbage_model(place: Workplace) -> None:
    for name, content in {
        "empty.json": b"",
        "text.json": b"hello",
        "cut.json": place.model.read_bytes()[:100],
        "zip.keras": b"PK\x03\x04" + os.urandom(200),
        "pickle.keras": b"\x80\x04\x95",
    }.items():
        path = place.folder / name
        path.write_bytes(content)
        assert_refused(place, place.fit(model=path), MODEL, name)


def test_garbage_data(place: Workplace) -> None:
    header = "{'descr': '|O', 'fortran_order': False, 'shape': (40,)}".ljust(118).encode()
    for name, content in {
        "empty.npy": b"",
        "cut.npy": place.x.read_bytes()[:300],
        "objects.npy": b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header,
        "idx.gz": b"\x1f\x8b\x08\x00" + os.urandom(60),
    }.items():
        path = place.folder / name
        path.write_bytes(content)
        assert_refused(place, place.fit(data=path), DATA, name)


def table_model(path: Path) -> Path:
    """Two tables of 20 and 7 rows, read by parts of one input."""
    tables = []
    for name, rows, begin, end in (("words", 20, 0, 4), ("kinds", 7, 4, 6)):
        cut = {
            "class_name": "Cropping1D",
            "name": f"cut_{name}",
            "config": {"name": f"cut_{name}", "cropping": [begin, 6 - end]},
            "inbound_nodes": [[["steps", 0, 0, {}]]],
        }
        flat = {
            "class_name": "Reshape",
            "name": f"flat_{name}",
            "config": {"name": f"flat_{name}", "target_shape": [end - begin]},
            "inbound_nodes": [[[f"cut_{name}", 0, 0, {}]]],
        }
        table = {
            "class_name": "Embedding",
            "name": name,
            "config": {"name": name, "input_dim": rows, "output_dim": 3},
            "inbound_nodes": [[[f"flat_{name}", 0, 0, {}]]],
        }
        tables += [cut, flat, table]
    functional = {
        "name": "tables",
        "layers": [
            {
                "class_name": "InputLayer",
                "name": "in",
                "config": {"name": "in", "batch_input_shape": [None, 6], "dtype": "float32"},
                "inbound_nodes": [],
            },
            {
                "class_name": "Reshape",
                "name": "steps",
                "config": {"name": "steps", "target_shape": [6, 1]},
                "inbound_nodes": [[["in", 0, 0, {}]]],
            },
            *tables,
            {
                "class_name": "Concatenate",
                "name": "both",
                "config": {"name": "both", "axis": 1},
                "inbound_nodes": [[["words", 0, 0, {}], ["kinds", 0, 0, {}]]],
            },
            {
                "class_name": "Flatten",
                "name": "flat",
                "config": {"name": "flat"},
                "inbound_nodes": [[["both", 0, 0, {}]]],
            },
            {
                "class_name": "Dense",
                "name": "out",
                "config": {"name": "out", "units": 3, "activation": "softmax"},
                "inbound_nodes": [[["flat", 0, 0, {}]]],
            },
        ],
        "input_layers": [["in", 0, 0]],
        "output_layers": [["out", 0, 0]],
    }
    path.write_text(json.dumps({"class_name": "Functional", "config": functional}))
    return path


@pytest.mark.parametrize(
    ("element", "value", "rows", "table"),
    [
        (0, 20, 20, "words"), (3, -1, 20, "words"), (4, 7, 7, "kinds"), (5, -3, 7, "kinds"),
        (5, 1e9, 7, "kinds"),
    ],
)  # fmt: skip
def test_numbers_beyond_a_table(
    place: Workplace, element: int, value: float, rows: int, table: str
) -> None:
    """Refused with file, row, number and table, in training and in prediction."""
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.integers(0, 20, (40, 4)), rng.integers(0, 7, (40, 2))], 1)
    model = table_model(place.folder / "tables.json")
    good = place.save("good.npy", x.astype("float32"))
    assert place.fit(model=model, data=good).returncode == 0
    x[33, element] = value
    bad = place.save("bad.npy", x.astype("float32"))
    predict = ("predict", model, "--data", bad, "--output", place.folder / "p.npy")
    for run in (place.fit(model=model, data=bad), place.run(*predict)):
        assert run.returncode == DATA, run.stderr
        assert "bad.npy: row 33: expected a number from 0 to " in run.stderr
        assert f"{rows - 1} (the table {table}/embeddings has {rows} rows)" in run.stderr
        assert f"received {value:g}" in run.stderr.replace("000000000", "e+09")
