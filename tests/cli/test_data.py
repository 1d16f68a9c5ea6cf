"""Data as people have them: tables and their labels; from the file to a trained model."""

import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from data_place import DATA, IO, USAGE, Workplace, corpus, dense, place

__all__ = ["corpus", "place"]


def test_adult(place: Workplace, corpus: Path) -> None:
    """A table of numbers and categories with missing values, ten times over, in 28 MiB."""
    rows = (corpus / "adult-train.csv").read_text().strip() + "\n"
    data = place.write("adult.csv", 10 * rows)
    limit = 28 * 2**20
    assert data.stat().st_size > limit
    test = place.write("test.csv", (corpus / "adult-test.csv").read_text().replace("K.", "K"))
    model = place.model([105], dense(64, "relu", "hidden"), dense(1, "sigmoid"))
    result = place.fit(
        model, "--standardize", "--json", data=data, validation=test, fill="mean", batch=256,
        epochs=1, loss="binary_crossentropy", metrics="accuracy", memory="28MiB",
        output=place.folder / "adult.keras",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["measured_process_bytes"] <= summary["predicted_process_bytes"] <= limit
    assert summary["val_accuracy"] > 0.845
    evaluated = place.run(
        "evaluate", place.folder / "adult.keras", "--data", test, "--like",
        corpus / "adult-train.csv", "--fill", "mean", "--standardize", "--batch", 256, "--json",
    )  # fmt: skip
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["accuracy"] == pytest.approx(
        summary["val_accuracy"], abs=2e-3
    )


def test_iris_trains_on_its_label_names(place: Workplace, corpus: Path) -> None:
    model = place.model([4], dense(16, "relu", "hidden"), dense(3, "softmax"))
    result = place.fit(
        model, "--standardize", data=corpus / "iris.csv", batch=10, epochs=100,
        loss="sparse_categorical_crossentropy", metrics="accuracy",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "\ndata: 150 samples of (4) float32 from 4.44 KiB of CSV" in result.stderr
    sparse = place.epochs()[-1]
    assert sparse["accuracy"] > 0.95
    result = place.fit(
        model, "--standardize", data=corpus / "iris.csv", batch=10, epochs=100,
        loss="categorical_crossentropy",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert place.epochs()[-1]["loss"] == pytest.approx(sparse["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2,a\n3,4,b\n5,6,7,b\n", ["line 3", "expected 3 fields", "received 4"]),
        ("1,2,a\n3,,b\n", ["line 2", 'column "column 2"', "--fill"]),
        ("1,2,a\n3,4,\n", ["line 2", "without a label"]),
        ('1,2,a\n3,4,"b\n', ["line 2", "quote that is closed"]),
        ("", ["empty file"]),
    ],
)
def test_wrong_tables(place: Workplace, text: str, words: list[str]) -> None:
    model = place.model([2], dense(2, "softmax"))
    result = place.fit(
        model, data=place.write("t.csv", text), loss="sparse_categorical_crossentropy"
    )
    assert result.returncode == DATA, result.stderr
    for word in ["t.csv", *words]:
        assert word in result.stderr, result.stderr


def test_unknown_column_and_category(place: Workplace) -> None:
    data = place.write("t.csv", "age,job\n1,cook\n2,clerk\n")
    model = place.model([1], dense(2, "softmax"))
    loss = "sparse_categorical_crossentropy"
    result = place.fit(model, data=data, loss=loss, label_column="jbo")
    assert result.returncode == USAGE, result.stderr
    assert 'Did you mean "job"?' in result.stderr
    other = place.write("v.csv", "age,job\n1,cook\n2,clrek\n")
    result = place.fit(model, data=data, loss=loss, validation=other)
    assert result.returncode == DATA, result.stderr
    assert "v.csv: line 3" in result.stderr
    assert 'Did you mean "clerk"?' in result.stderr


def test_split_equals_files_of_the_parts(place: Workplace) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(0, 1, (103, 6)).astype("float32")
    y = rng.integers(0, 3, 103).astype("int32")
    cut = 82  # floor(103 × 0.8)
    for name, array in {
        "x": x,
        "y": y,
        "xa": x[:cut],
        "ya": y[:cut],
        "xb": x[cut:],
        "yb": y[cut:],
    }.items():
        np.save(place.folder / f"{name}.npy", array)
    model = place.model([6], dense(3, "softmax"))
    common = {"loss": "sparse_categorical_crossentropy", "epochs": 2, "batch": 16}
    folder = place.folder
    parts = place.fit(
        model, data=folder / "xa.npy", labels=folder / "ya.npy", validation=folder / "xb.npy",
        validation_labels=folder / "yb.npy", output=folder / "a.keras", **common,
    )  # fmt: skip
    assert parts.returncode == 0, parts.stderr
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in place.epochs()]
    split = place.fit(
        model, data=folder / "x.npy", labels=folder / "y.npy", validation_split=0.2,
        output=folder / "b.keras", **common,
    )  # fmt: skip
    assert split.returncode == 0, split.stderr
    assert lines == [{k: v for k, v in line.items() if k != "seconds"} for line in place.epochs()]
    assert (folder / "a.keras").read_bytes() == (folder / "b.keras").read_bytes()


def test_class_weights_are_sample_weights(place: Workplace) -> None:
    rng = np.random.default_rng(6)
    y = rng.integers(0, 3, 90).astype("int32")
    np.save(place.folder / "x.npy", rng.normal(0, 1, (90, 6)).astype("float32"))
    np.save(place.folder / "y.npy", y)
    np.save(place.folder / "w.npy", np.array([1, 2.5, 0.5], "float32")[y])
    model = place.model([6], dense(3, "softmax"))
    data = {"data": place.folder / "x.npy", "labels": place.folder / "y.npy", "batch": 32,
            "loss": "sparse_categorical_crossentropy"}  # fmt: skip
    by_sample = place.fit(model, **data, sample_weights=place.folder / "w.npy")
    assert by_sample.returncode == 0, by_sample.stderr
    expected = place.epochs()[0]["loss"]
    by_class = place.fit(model, **data, class_weights="1:2.5,2:0.5")
    assert by_class.returncode == 0, by_class.stderr
    assert place.epochs()[0]["loss"] == expected
    plain = place.fit(model, **data)
    assert plain.returncode == 0, plain.stderr
    assert place.epochs()[0]["loss"] != expected


def test_a_file_that_is_cut_while_it_is_read(place: Workplace) -> None:
    x = place.folder / "x.npy"
    np.save(x, np.zeros((20_000, 64), "float32"))
    np.save(place.folder / "y.npy", np.zeros(20_000, "float32"))
    model = place.model([64], dense(1, "linear"))
    command = [
        place.binary, "fit", model, "--data", x, "--labels", place.folder / "y.npy", "--batch", 64,
        "--epochs", 100_000, "--optimizer", "sgd", "--loss", "mse", "--log", place.log, "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (place.log.exists() and place.log.stat().st_size > 0):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.truncate(x, 1_000_000)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == IO, messages
    assert "x.npy" in messages and "cut short" in messages
