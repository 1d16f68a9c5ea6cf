"""What a model looks up of HDF5 files and of TFRecord files, against Keras itself."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import run_plimsoll
from keras import layers as L
from looked_up import TEXTS, on
from test_looked_up_inputs import mixed_model, mixed_table, mixed_tensors

WORDS = ["sea", "", "café \U0001f6a2", "a  b", "ship "]
STRINGS = [["ship", "sea"], ["", "café \U0001f6a2"], ["sea", "x" * 40], ["a  b", "ship "]] * 700


def words_model(mode: str = "int", width: int = 2) -> keras.Model:
    layer = L.StringLookup(vocabulary=WORDS, output_mode=mode, num_oov_indices=2)
    x = keras.Input((width,), dtype="string", name="x")
    y = layer(x)
    return keras.Model(x, L.Embedding(9, 1)(y) if mode == "int" else L.Identity()(y))


def encoded() -> np.ndarray:
    return np.array([[word.encode() for word in row] for row in STRINGS], dtype="S45")


def padded(padding: int) -> Callable[[h5py.File], None]:
    """Fixed strings as C and Fortran write them."""

    def fill(file: h5py.File) -> None:
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(46)
        kind.set_strpad(padding)
        space = h5py.h5s.create_simple((len(STRINGS), 2))
        data = h5py.h5d.create(file.id, b"x", kind, space)
        memory = h5py.h5t.C_S1.copy()
        memory.set_size(46)
        memory.set_strpad(h5py.h5t.STR_NULLPAD)
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, encoded().astype("S46"), memory)

    return fill


def variable(file: h5py.File) -> None:
    file.create_dataset("x", data=STRINGS, dtype=h5py.string_dtype())


def packed(file: h5py.File) -> None:
    file.create_dataset(
        "x", data=STRINGS, dtype=h5py.string_dtype(), chunks=(9, 1), compression="gzip"
    )


def overwritten(file: h5py.File) -> None:
    """Strings that lie in the heap in another order than the elements."""
    data = file.create_dataset("x", (len(STRINGS), 2), h5py.string_dtype("ascii"))
    for row in np.random.default_rng(1).permutation(len(STRINGS)):
        data[row] = [word.encode() for word in STRINGS[row]]


STORED: dict[str, Callable[[h5py.File], None]] = {
    "fixed": lambda file: file.create_dataset("x", data=encoded()),
    "fixed in large chunks": lambda file: file.create_dataset(
        "x", data=np.tile(encoded(), (8, 1)), chunks=(20000, 2), compression="gzip"
    ),
    "fixed of UTF-8 in chunks": lambda file: file.create_dataset(
        "x", data=encoded().astype(h5py.string_dtype("utf-8", 45)), chunks=(100, 2)
    ),
    "ended by a zero": padded(h5py.h5t.STR_NULLTERM),
    "padded with blanks": padded(h5py.h5t.STR_SPACEPAD),
    "variable": variable,
    "variable in chunks": packed,
    "variable in any order": overwritten,
    "never written": lambda file: file.create_dataset("x", (3, 2), h5py.string_dtype()),
}


@pytest.mark.parametrize("name", STORED)
def test_strings_in_hdf5(tmp_path: Path, name: str) -> None:
    model = words_model("count" if name == "fixed" else "int")
    model.save(tmp_path / "model.keras")
    for libver in ("earliest",) if "chunks" in name else ("earliest", "latest"):
        with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
            STORED[name](file)
        with h5py.File(tmp_path / "x.h5") as file:
            strings = file["x"][()]
        run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.h5", "--output",
                     tmp_path / "y.npy")  # fmt: skip
        expected = model.predict(tf.constant(strings), batch_size=1000, verbose=0)
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_a_zero_inside_of_a_fixed_string(tmp_path: Path) -> None:
    layer = L.StringLookup(vocabulary=["a\0b", "a"])
    model = on(layer, shape=(1,))
    model.save(tmp_path / "model.keras")
    strings = np.array([[b"a\0b"], [b"a"], [b"a\0\0"]])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = strings
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.h5", "--output",
                 tmp_path / "y.npy")  # fmt: skip
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model(tf.constant(strings)))


def text_model() -> keras.Model:
    keras.utils.set_random_seed(2)
    layer = L.TextVectorization(output_sequence_length=6)
    layer.adapt(TEXTS)
    model = keras.Sequential([
        keras.Input((), dtype="string", name="review"), layer, L.Embedding(40, 4),
        L.GlobalAveragePooling1D(), L.Dense(1),
    ])  # fmt: skip
    model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
    return model


def assert_trains(folder: Path, *data: Any) -> None:
    """One step, as Keras does it on three times TEXTS; within the predicted memory."""
    model = text_model()
    model.save(folder / "model.keras")
    done = run_plimsoll("fit", folder / "model.keras", "--data", *data, "--batch", 21, "--json",
                        "--output", folder / "out.keras")  # fmt: skip
    loss = model.train_on_batch(tf.constant(TEXTS * 3), np.arange(21)[:, None] % 2)
    summary = json.loads(done.stdout)
    assert summary["loss"] == pytest.approx(float(loss), rel=1e-5)
    assert summary["measured_process_bytes"] <= summary["predicted_process_bytes"]
    written = keras.saving.load_model(folder / "out.keras")
    for ours, expected in zip(written.get_weights(), model.get_weights()):
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_texts_in_hdf5_train(tmp_path: Path) -> None:
    """Beside labels; called as the input, as anything, and in a file of each input's own."""
    for name, words in (("review", []), ("x", []), ("mine", ["--columns", "mine"])):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset(name, data=TEXTS * 3, dtype=h5py.string_dtype())
            file["y"] = np.arange(21) % 2
        if words:
            words += ["--label-column", "y"]
        assert_trains(tmp_path, tmp_path / "x.h5", *words)


def assert_refused(folder: Path, data: Path, word: str) -> None:
    done = run_plimsoll("predict", folder / "model.keras", "--data", data, "--output",
                        folder / "y.npy", check=False)  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert word in done.stderr, done.stderr


def test_refused_datasets(tmp_path: Path) -> None:
    known = L.StringLookup(vocabulary=["a", "b"], num_oov_indices=0)
    on(known, shape=(2,)).save(tmp_path / "model.keras")
    long = "a" * (2**20 + 1)
    for strings, word in (
        ([["a", "b", "a"]], "x.h5/x: expected samples of 2 strings"),
        ([["a", "b"], ["a", "q"]], 'x.h5/x: row 1: expected one of the 2 words'),
        ([["a", "b"], [long, "b"]], "x.h5/x: row 1: expected a text of at most 1 MiB"),
        (np.zeros((3, 2), "f4"), "or an array of strings"),
        (np.zeros((0, 2), "S3"), "x.h5/x: expected rows of strings, received an array of shape"),
    ):  # fmt: skip
        with h5py.File(tmp_path / "x.h5", "w") as file:
            dtype = h5py.string_dtype() if isinstance(strings, list) else None
            file.create_dataset("x", data=strings, dtype=dtype)
        assert_refused(tmp_path, tmp_path / "x.h5", word)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=[["a", "b"]] * 9, dtype=h5py.string_dtype())
    content = bytearray((tmp_path / "x.h5").read_bytes())
    content[content.index(b"GCOL")] = ord("X")
    (tmp_path / "x.h5").write_bytes(content)
    assert_refused(tmp_path, tmp_path / "x.h5", "received no heap where one should be")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (2**40, 2), h5py.string_dtype(), chunks=(1000, 2))
    assert_refused(tmp_path, tmp_path / "x.h5", "texts, which it has no room for")


def feature(values: Any) -> tf.train.Feature:
    values = np.asarray(values).ravel()
    if values.dtype.kind in "SUO":
        strings = [v if isinstance(v, bytes) else str(v).encode() for v in values.tolist()]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=strings))
    if values.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def write_records(path: Path, rows: list[dict[str, Any]], compression: str = "") -> Path:
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for row in rows:
            features = tf.train.Features(feature={k: feature(v) for k, v in row.items()})
            writer.write(tf.train.Example(features=features).SerializeToString())
    return path


@pytest.mark.parametrize("mode", ["int", "count"])
def test_strings_in_records(tmp_path: Path, mode: str) -> None:
    """Two in one list, and in two features side by side; bytes that are no text."""
    model = words_model(mode)
    model.save(tmp_path / "model.keras")
    strings = np.array(STRINGS[:50] + [["a\0b", "x" * 70_000]], dtype=object)
    expected = model(tf.constant([[word.encode() for word in row] for row in strings]))
    whole = [{"other": "word", "x": list(row)} for row in strings]
    apart = [{"left": row[0], "right": row[1], "n": 3} for row in strings]
    for rows, words in ((whole, []), (apart, ["--columns", "left,right"]), (apart, [])):
        for packing in ("", "GZIP"):
            path = write_records(tmp_path / "x.tfrecord", rows, packing)
            run_plimsoll("predict", tmp_path / "model.keras", "--data", path, *words, "--output",
                         tmp_path / "y.npy")  # fmt: skip
            np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_texts_in_records_train(tmp_path: Path) -> None:
    for name in ("review", "text", "x"):
        rows = [{name: text, "label": i % 2} for i, text in enumerate(TEXTS * 3)]
        assert_trains(tmp_path, write_records(tmp_path / "x.tfrecord", rows))


def test_records_of_several_inputs(tmp_path: Path) -> None:
    """Strings, whole numbers and numbers, each called as its input."""
    table = mixed_table(24)
    model = mixed_model()
    model.save(tmp_path / "model.keras")
    rows = [{name: values[i] for name, values in table.items()} for i in range(24)]
    data = write_records(tmp_path / "data.tfrecord", rows)
    done = run_plimsoll("fit", tmp_path / "model.keras", "--data", data, "--batch", 8, "--epochs",
                        2, "--no-shuffle", "--label-column", "target", "--json")  # fmt: skip
    history = model.fit(mixed_tensors(table), np.array(table["target"], "float32")[:, None],
                        batch_size=8, epochs=2, shuffle=False, verbose=0)  # fmt: skip
    summary = json.loads(done.stdout)
    assert summary["loss"] == pytest.approx(history.history["loss"][-1], rel=1e-5)
    assert summary["measured_process_bytes"] <= summary["predicted_process_bytes"]


def test_refused_records(tmp_path: Path) -> None:
    known = L.StringLookup(vocabulary=["a", "b"], num_oov_indices=0, name="words")
    on(known, shape=(2,)).save(tmp_path / "model.keras")
    good: dict[str, Any] = {"x": ["a", "b"]}
    place = 'record 1, feature "x": '
    for row, word in (
        ({"x": ["a", "b", "a"]}, place + "expected 2 strings in a tf.train.BytesList, which layer "
         "words looks up, received 3 strings"),
        ({"x": ["a"]}, place + "expected 2 strings in a tf.train.BytesList"),
        ({"x": [0.5, 1.5]}, "received 2 floats"),
        ({"y": ["a", "b"]}, "received none"),
        ({"x": ["a", "q"]}, "record 1: expected one of the 2 words"),
        ({"x": ["a", "a" * (2**20 + 1)]}, "record 1: expected a text of at most 1 MiB"),
    ):  # fmt: skip
        data = write_records(tmp_path / "x.tfrecord", [good, row])
        assert_refused(tmp_path, data, word)
