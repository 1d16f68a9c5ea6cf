"""Every form of data: arrays, chunks, HDF5, TFRecord, standard input, text, series."""

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_place import DATA, USAGE, Workplace, corpus, dense, layer, place

__all__ = ["corpus", "place"]


def small_classifier(place: Workplace) -> Path:
    return place.model([6], dense(3, "softmax"))


def arrays(count: int = 103) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    x = rng.normal(0, 1, (count, 6)).astype("float32")
    return x, rng.integers(0, 3, count).astype("int32")


def weights_after(place: Workplace, name: str, *more: Any, **values: Any) -> bytes:
    """Trains the small classifier on some form of the same data."""
    output = place.folder / f"{name}.keras"
    result = place.fit(
        small_classifier(place), *more, loss="sparse_categorical_crossentropy", epochs=2, batch=16,
        output=output, **values,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return output.read_bytes()


def test_every_form_of_the_same_arrays_gives_the_same_bits(place: Workplace) -> None:
    h5py = pytest.importorskip("h5py")
    x, y = arrays()
    folder = place.folder
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    expected = weights_after(place, "npy", data=folder / "x.npy", labels=folder / "y.npy")
    np.savez_compressed(folder / "xy.npz", x=x, y=y)
    assert weights_after(place, "npz", data=folder / "xy.npz") == expected
    np.save(folder / "f.npy", np.asfortranarray(x))
    assert weights_after(place, "f", data=folder / "f.npy", labels=folder / "y.npy") == expected
    for name, parts in {"xs": x, "ys": y}.items():
        (folder / name).mkdir()
        for i, part in enumerate(np.array_split(parts, [10, 50, 51])):
            np.save(folder / name / f"part-{i}.npy", part)
    assert weights_after(place, "chunks", data=folder / "xs", labels=folder / "ys") == expected
    (folder / "both").mkdir()
    for i, (a, b) in enumerate(zip(np.array_split(x, 4), np.array_split(y, 4))):
        np.savez(folder / "both" / f"{i}.npz", x=a, y=b)
    assert weights_after(place, "archives", data=folder / "both") == expected
    with h5py.File(folder / "xy.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(16, 4), compression="gzip", shuffle=True)
        file["y"] = y
        file["extra/z"] = y
    assert weights_after(place, "h5", data=folder / "xy.h5") == expected
    table = "\n".join(
        ",".join(map(repr, map(float, row))) + f",{label}" for row, label in zip(x, y)
    )
    assert weights_after(place, "csv", data=place.write("t.csv", table)) == expected


def test_tf_records(place: Workplace) -> None:
    tf = pytest.importorskip("tensorflow")
    x, y = arrays()
    np.save(place.folder / "x.npy", x)
    np.save(place.folder / "y.npy", y)
    expected = weights_after(
        place, "npy", data=place.folder / "x.npy", labels=place.folder / "y.npy"
    )
    path = place.folder / "xy.tfrecord"
    floats = lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v))  # noqa: E731
    integers = lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v))  # noqa: E731
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row, label in zip(x, y):
            feature = {"x": floats(row), "label": integers([label]), "id": integers([7, -7])}
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    assert weights_after(place, "records", data=path) == expected
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    result = place.fit(small_classifier(place), data=path, loss="sparse_categorical_crossentropy")
    assert result.returncode == DATA, result.stderr
    assert "checksum is wrong" in result.stderr and "record 5" in result.stderr


def test_standard_input(place: Workplace) -> None:
    x, y = arrays()
    np.save(place.folder / "x.npy", x)
    np.save(place.folder / "y.npy", y)
    expected = weights_after(
        place, "npy", data=place.folder / "x.npy", labels=place.folder / "y.npy"
    )
    stream = io.BytesIO()
    for begin in range(0, 103, 20):
        np.save(stream, x[begin : begin + 20])
        np.save(stream, y[begin : begin + 20])
    output = place.folder / "stream.keras"
    command = [
        place.binary, "fit", small_classifier(place), "--data", "-", "--optimizer", "adam",
        "--loss", "sparse_categorical_crossentropy", "--epochs", 2, "--batch", 16,
        "--output", output,
    ]  # fmt: skip
    words = [str(word) for word in command]
    done = subprocess.run(words, input=stream.getvalue(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert output.read_bytes() == expected
    cut = subprocess.run(words, input=stream.getvalue()[:-10], capture_output=True, text=False)
    assert cut.returncode == DATA
    assert b"standard input, array 12: expected" in cut.stderr
    empty = subprocess.run(words, input=b"", capture_output=True)
    assert empty.returncode == DATA
    assert b"standard input: expected arrays" in empty.stderr
    unlike = io.BytesIO()
    for width in range(1, 70):
        np.save(unlike, np.zeros((1, width), "float32"))
    odd = subprocess.run(words, input=unlike.getvalue(), capture_output=True)
    assert odd.returncode == DATA
    assert b"standard input, array 65: expected at most 64 types of numbers" in odd.stderr


def embedding(vocabulary: int, units: int) -> dict[str, Any]:
    return layer("Embedding", "embed", input_dim=vocabulary, output_dim=units)


def test_characters_of_shakespeare(place: Workplace, corpus: Path) -> None:
    """The next character for every character of a window; better than their frequencies alone."""
    model = place.model(
        [64], embedding(65, 32), layer("LSTM", "lstm", units=64, return_sequences=True),
        dense(65, "softmax"), dtype="int32",
    )  # fmt: skip
    result = place.fit(
        model, data=corpus / "tinyshakespeare.txt", batch=32, steps=150, metrics="accuracy",
        loss="sparse_categorical_crossentropy", optimizer="adam(learning_rate=0.01)",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    # 1,115,394 characters: windows of 64 with a target after the last
    assert "data: 17,428 samples of (64) uint8" in result.stderr
    assert "characters (65 different)" in result.stderr
    assert place.epochs()[-1]["loss"] < 2.9


def test_words(place: Workplace) -> None:
    data = place.write("a.txt", "the cat sat on the mat . the dog sat on the log .\n" * 40)
    model = place.model([3], embedding(9, 8), layer("Flatten", "flat"), dense(9, "softmax"))
    result = place.fit(
        model, data=data, text="words", batch=16, epochs=12, metrics="accuracy",
        loss="sparse_categorical_crossentropy", optimizer="adam(learning_rate=0.02)",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "words (9 different)" in result.stderr  # eight and the unknown one
    assert place.epochs()[-1]["accuracy"] > 0.8


def test_windows_over_airline_passengers(place: Workplace, corpus: Path) -> None:
    model = place.model([12, 1], layer("LSTM", "lstm", units=16), dense(1, "linear"))
    result = place.fit(
        model, "--standardize", data=corpus / "airline-passengers.csv", columns="Passengers",
        window=12, batch=8, epochs=30, loss="mse", optimizer="adam(learning_rate=0.01)",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "data: 132 samples of (12)" in result.stderr  # 144 months
    assert place.epochs()[-1]["loss"] < 0.1


def test_windows_are_those_of_numpy(place: Workplace) -> None:
    x = np.arange(40, dtype="float32").reshape(20, 2)
    np.save(place.folder / "x.npy", x)
    model = place.model([5, 2], layer("Flatten", "flat"))
    out = place.folder / "out.npy"
    result = place.run(
        "predict", model, "--data", place.folder / "x.npy", "--window", 5, "--stride", 3,
        "--horizon", 2, "--output", out,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    starts = range(0, 20 - 5 - 2 + 1, 3)
    expected = np.stack([x[s : s + 5] for s in starts]).reshape(len(starts), 10)
    np.testing.assert_array_equal(np.load(out), expected)


def test_text_that_is_none(place: Workplace) -> None:
    (place.folder / "a.txt").write_bytes(b"abc\xff" * 40)
    model = place.model([3], embedding(9, 8), layer("Flatten", "flat"), dense(9, "softmax"))
    loss = "sparse_categorical_crossentropy"
    result = place.fit(model, data=place.folder / "a.txt", loss=loss)
    assert result.returncode == DATA, result.stderr
    assert "a.txt: byte 3: expected UTF-8" in result.stderr
    result = place.fit(model, data=place.write("b.txt", "abc"), loss=loss)
    assert result.returncode == DATA, result.stderr
    assert "expected at least 4 rows for a window of 3" in result.stderr
    text = place.write("c.txt", "abcdef")
    result = place.fit(model, data=text, loss=loss, validation=place.write("d.txt", "abcxyz"))
    assert result.returncode == DATA, result.stderr
    assert "d.txt: byte 3: expected a character of the training text" in result.stderr


def test_chunks_must_agree(place: Workplace) -> None:
    (place.folder / "xs").mkdir()
    np.save(place.folder / "xs/a.npy", np.zeros((4, 6), "float32"))
    np.save(place.folder / "xs/b.npy", np.zeros((4, 5), "float32"))
    np.save(place.folder / "y.npy", np.zeros(8, "int32"))
    result = place.fit(
        small_classifier(place), data=place.folder / "xs", labels=place.folder / "y.npy",
        loss="sparse_categorical_crossentropy",
    )  # fmt: skip
    assert result.returncode == DATA, result.stderr
    assert "xs/b.npy: expected rows of (6) float32" in result.stderr


def two_inputs_and_outputs(place: Workplace) -> Path:
    """left (6) and right (4) through a layer each; "sum" of both, and "class" of right alone."""

    def call(layer: dict[str, Any], *sources: str) -> dict[str, Any]:
        return {**layer, "name": layer["config"]["name"],
                "inbound_nodes": [[[source, 0, 0, {}] for source in sources]]}  # fmt: skip

    def first(name: str, size: int) -> dict[str, Any]:
        config = {"name": name, "batch_shape": [None, size], "dtype": "float32"}
        return {"class_name": "InputLayer", "name": name, "config": config, "inbound_nodes": []}

    layers = [
        first("left", 6), first("right", 4),
        call(dense(3, "relu", "l"), "left"), call(dense(3, "relu", "r"), "right"),
        call(layer("Concatenate", "both"), "l", "r"),
        call(dense(1, "linear", "sum"), "both"), call(dense(3, "softmax", "class"), "r"),
    ]  # fmt: skip
    config = {
        "name": "net", "layers": layers,
        "input_layers": [["left", 0, 0], ["right", 0, 0]],
        "output_layers": [["sum", 0, 0], ["class", 0, 0]],
    }  # fmt: skip
    compiled = {
        "optimizer": "adam",
        "loss": {"sum": "mse", "class": "sparse_categorical_crossentropy"},
    }
    document = {"class_name": "Functional", "config": config, "compile_config": compiled}
    return place.write("two.json", json.dumps(document))


def test_several_inputs_and_outputs(place: Workplace) -> None:
    h5py = pytest.importorskip("h5py")
    model, folder = two_inputs_and_outputs(place), place.folder
    rng = np.random.default_rng(3)
    samples = {
        "left": rng.normal(0, 1, (50, 6)).astype("float32"),
        "right": rng.normal(0, 1, (50, 4)).astype("float32"),
    }
    labels = {
        "sum": samples["left"].sum(1) + samples["right"].sum(1),
        "class": samples["right"].argmax(1).clip(0, 2).astype("int32"),
    }
    for name, array in {**samples, **labels}.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(folder / "all.npz", **samples, **labels)
    with h5py.File(folder / "all.h5", "w") as file:
        for name, array in {**samples, **labels}.items():
            file[name] = array

    def trained(name: str, *data: Any) -> bytes:
        output = folder / f"{name}.keras"
        result = place.run("fit", model, "--epochs", 3, "--batch", 16, "--output", output, *data)
        assert result.returncode == 0, result.stderr
        return output.read_bytes()

    paths = {name: f"{name}={folder / name}.npy" for name in {**samples, **labels}}
    given = ["--data", paths["right"], "--data", paths["left"]]
    given += ["--labels", paths["class"], "--labels", paths["sum"]]
    expected = trained("names", *given, "--validation", folder / "all.npz")
    assert trained("archive", "--data", folder / "all.npz") == expected
    assert trained("h5", "--data", folder / "all.h5") == expected
    ordered = [word.split("=")[1] for word in given if "=" in word]
    assert trained(
        "order", "--data", ordered[1], "--data", ordered[0], "--labels", ordered[3], "--labels",
        ordered[2],
    ) == expected  # fmt: skip

    result = place.run("evaluate", folder / "names.keras", *given)
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "loss", "sum_loss", "class_loss",
    ]  # fmt: skip
    for ending in ("npy", "csv", "jsonl"):
        out = folder / f"p.{ending}"
        result = place.run(
            "predict", folder / "names.keras", "--data", folder / "all.npz", "--output", out
        )
        assert result.returncode == 0, result.stderr
        assert not out.exists()
    assert np.load(folder / "p-sum.npy").shape == (50, 1)
    classes = np.load(folder / "p-class.npy")
    np.testing.assert_allclose(classes.sum(1), 1, rtol=1e-5)
    table = np.loadtxt(folder / "p-class.csv", delimiter=",", skiprows=1, dtype="float32")
    np.testing.assert_array_equal(table, classes)
    lines = [json.loads(line) for line in (folder / "p-class.jsonl").read_text().splitlines()]
    np.testing.assert_array_equal(np.float32([line["output"] for line in lines]), classes)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["left=a.npy"], "received none for right"),
        (["left=a.npy", "left=b.npy"], "received left twice"),
        (["left=a.npy", "rihgt=b.npy"], 'Did you mean "right"?'),
        (["a.npy", "b.npy", "c.npy"], "received 3 paths"),
    ],
)
def test_paths_for_other_inputs(place: Workplace, words: list[str], message: str) -> None:
    model = two_inputs_and_outputs(place)
    given = [word for path in words for word in ("--data", path)]
    result = place.run("predict", model, *given, "--output", place.folder / "p.npy")
    assert result.returncode == USAGE, result.stderr
    assert "expected one path, or NAME=PATH for each of left, right" in result.stderr
    assert message in result.stderr


@pytest.mark.parametrize("form", ["csv", "npz", "labels"])
def test_labels_of_the_first_output_that_has_a_loss(place: Workplace, form: str) -> None:
    """One column or array of labels is not of an output that learns nothing."""
    document = json.loads(two_inputs_and_outputs(place).read_text())
    config = document["config"]
    config["layers"] = [
        node for node in config["layers"] if node["name"] not in ("left", "l", "both", "sum")
    ]
    config["layers"].append(
        {**dense(5, "linear", "sum"), "name": "sum", "inbound_nodes": [[["r", 0, 0, {}]]]}
    )
    config["input_layers"] = [["right", 0, 0]]
    document["compile_config"]["loss"] = {"class": "categorical_crossentropy"}
    model = place.write("one.json", json.dumps(document))
    x = np.random.default_rng(7).integers(-9, 9, (30, 4))
    y = x.argmax(1).clip(0, 2)
    folder = place.folder
    np.save(folder / "x.npy", x.astype("float32"))
    np.save(folder / "y.npy", np.eye(3, dtype="float32")[y])

    def trained(*data: Any) -> bytes:
        result = place.run("fit", model, "--output", folder / "o.keras", *data)
        assert result.returncode == 0, result.stderr
        return (folder / "o.keras").read_bytes()

    expected = trained("--data", folder / "x.npy", "--labels", f"class={folder / 'y.npy'}")
    if form == "csv":
        rows = [",".join(map(str, [*row, "abc"[label]])) for row, label in zip(x, y)]
        data = [place.write("t.csv", "a,b,c,d,label\n" + "\n".join(rows))]
    elif form == "npz":
        np.savez(folder / "t.npz", x=x.astype("float32"), y=np.eye(3, dtype="float32")[y])
        data = [folder / "t.npz"]
    else:
        data = [folder / "x.npy", "--labels", folder / "y.npy"]
    assert trained("--data", *data) == expected
