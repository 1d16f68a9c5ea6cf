"""Files of models that look up strings and whole numbers, on tables, against Keras itself.

The numbers that a layer gives are compared exactly; what is trained on them, as elsewhere.
"""

import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import BINARY, run_plimsoll
from keras import layers as L
from looked_up import FIELDS, NUMBERS, TEXTS, VOCABULARY, WORDS, given, on, write_table

STRING_LAYERS: dict[str, Callable[[], Any]] = {
    "ids": lambda: L.StringLookup(vocabulary=WORDS),
    "ids with a mask": lambda: L.StringLookup(vocabulary=WORDS[3:], mask_token=""),
    "ids of several unknown": lambda: L.StringLookup(vocabulary=WORDS, num_oov_indices=5),
    "ids of salted unknown": lambda: L.StringLookup(
        vocabulary=WORDS, num_oov_indices=5, mask_token="sea!", salt=[3, -7]
    ),
    "special tokens in front": lambda: L.StringLookup(
        vocabulary=["", "[UNK]", "ship", "sea"], mask_token=""
    ),
    "one of its own": lambda: L.StringLookup(vocabulary=WORDS, output_mode="one_hot"),
    "masked rows": lambda: L.StringLookup(
        vocabulary=WORDS[3:], mask_token="ship", output_mode="multi_hot", num_oov_indices=2
    ),
    "padded rows": lambda: L.StringLookup(
        vocabulary=WORDS, max_tokens=30, pad_to_max_tokens=True, output_mode="count"
    ),
    "hashes": lambda: L.Hashing(1000),
    "hashes with a mask": lambda: L.Hashing(7, mask_value="sea"),
    "hashes with salt": lambda: L.Hashing(1000, salt=[1, 2**40]),
    "one bin": lambda: L.Hashing(1, mask_value="sea"),
    "rows of hashes": lambda: L.Hashing(9, salt=5, output_mode="one_hot"),
}


@pytest.mark.parametrize("name", STRING_LAYERS)
def test_strings(tmp_path: Path, name: str) -> None:
    ours, keras_own = given(tmp_path, STRING_LAYERS[name](), "string", {"x": FIELDS})
    np.testing.assert_array_equal(ours, keras_own)


@pytest.mark.parametrize("name", ["ids", "ids with a mask", "one of its own", "hashes"])
def test_inputs_without_dimension(tmp_path: Path, name: str) -> None:
    ours, keras_own = given(tmp_path, STRING_LAYERS[name](), "string", {"x": FIELDS}, ())
    np.testing.assert_array_equal(ours, keras_own)


INTEGER_LAYERS: dict[str, Callable[[], Any]] = {
    "ids": lambda: L.IntegerLookup(vocabulary=[7, 3, 10]),
    "ids with a mask": lambda: L.IntegerLookup(vocabulary=[7, 3, 10], mask_token=0),
    "remainders": lambda: L.IntegerLookup(vocabulary=[7, 3, 10], num_oov_indices=4),
    "hashed unknown": lambda: L.IntegerLookup(
        vocabulary=[7, 3], num_oov_indices=4, oov_method="farmhash"
    ),
    "salted unknown": lambda: L.IntegerLookup(
        vocabulary=[7, 3], num_oov_indices=4, oov_method="farmhash", salt=11, mask_token=-4
    ),
    "rows": lambda: L.IntegerLookup(vocabulary=[7, 3, 10], output_mode="one_hot"),
    "a vocabulary whose product is large": lambda: L.IntegerLookup(
        vocabulary=list(range(1, 60)) + [123456789012]
    ),
    "hashes": lambda: L.Hashing(1000),
    "masked hashes": lambda: L.Hashing(11, mask_value=7, salt=2),
}


@pytest.mark.parametrize("dtype", ["int64", "float32"])
@pytest.mark.parametrize("name", INTEGER_LAYERS)
def test_whole_numbers(tmp_path: Path, name: str, dtype: str) -> None:
    """From a table and from an array, of an input of integers and of floating point."""
    ours, keras_own = given(tmp_path, INTEGER_LAYERS[name](), dtype, {"x": NUMBERS})
    np.testing.assert_array_equal(ours, keras_own)
    np.save(tmp_path / "x.npy", np.array(NUMBERS)[:, None].astype(dtype))
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--output",
                 tmp_path / "y.npy")  # fmt: skip
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), keras_own)


@pytest.mark.parametrize("mode", ["int", "one_hot", "multi_hot", "count"])
def test_columns_of_one_input(tmp_path: Path, mode: str) -> None:
    columns = {"left": FIELDS, "right": FIELDS[::-1], "third": ["sea"] * len(FIELDS)}
    if mode in ("int", "one_hot"):
        layer = L.StringLookup(vocabulary=WORDS, output_mode=mode)
    else:
        vocabulary = [word for word in WORDS if word != "Hull"]
        layer = L.StringLookup(vocabulary=vocabulary, mask_token="Hull", output_mode=mode)
    ours, keras_own = given(tmp_path, layer, "string", columns, (3,))
    np.testing.assert_array_equal(ours, keras_own)


TEXT_LAYERS: dict[str, Callable[[], Any]] = {
    "ids": lambda: L.TextVectorization(vocabulary=VOCABULARY, output_sequence_length=5),
    "two and one": lambda: L.TextVectorization(
        vocabulary=VOCABULARY, ngrams=2, output_sequence_length=12
    ),
    "widths in their order": lambda: L.TextVectorization(
        vocabulary=VOCABULARY, ngrams=(2, 1), output_sequence_length=12
    ),
    "characters": lambda: L.TextVectorization(
        vocabulary=VOCABULARY, split="character", output_sequence_length=20
    ),
    "lower": lambda: L.TextVectorization(
        vocabulary=VOCABULARY, standardize="lower", output_sequence_length=6
    ),
    "without punctuation": lambda: L.TextVectorization(
        vocabulary=VOCABULARY, standardize="strip_punctuation", output_sequence_length=6
    ),
    "as it is": lambda: L.TextVectorization(
        vocabulary=VOCABULARY, standardize=None, output_sequence_length=6
    ),
    "whole": lambda: L.TextVectorization(
        vocabulary=["sea", "the ship the sea the hull"], split=None, output_sequence_length=3
    ),
    "what occurs": lambda: L.TextVectorization(vocabulary=VOCABULARY, output_mode="multi_hot"),
    "counts": lambda: L.TextVectorization(
        vocabulary=VOCABULARY, ngrams=2, output_mode="count", max_tokens=20, pad_to_max_tokens=True
    ),
}


@pytest.mark.parametrize("name", TEXT_LAYERS)
def test_texts(tmp_path: Path, name: str) -> None:
    layer = TEXT_LAYERS[name]()
    shape: tuple[int, ...] = (1,) if layer.get_config()["output_mode"] == "int" else ()
    ours, keras_own = given(tmp_path, layer, "string", {"x": TEXTS}, shape)
    np.testing.assert_array_equal(ours, keras_own)


def test_bytes_that_are_no_characters(tmp_path: Path) -> None:
    """Of a table that is not UTF-8 throughout, taken apart as TensorFlow takes it apart."""
    rows = [
        b"a\xff!b\xe2.\x82?",
        b"Zo\xc3\xab \xff\xe2\x82x\xed\xa0\x80\xf0\x9f\x98\x80\xc0\x80",
        b"\xf5\x80\x80\x80|\xe2\x28\xa1|\xf0\x9f\x98|\xc3",
        b"c\x1cd\xc2\x85e\xc2\xa0f",
    ]
    x = keras.Input((1,), dtype="string", name="x")
    layer = L.TextVectorization(vocabulary=["\ufffd", "b", "d", "ë"], split="character",
                                output_sequence_length=16)  # fmt: skip
    table = L.Embedding(8, 1)
    model = keras.Model(x, table(layer(x)))
    table.set_weights([np.arange(8, dtype="float32")[:, None]])
    model.save(tmp_path / "model.keras")
    (tmp_path / "x.csv").write_bytes(b"x,n\n" + b"".join(b'"%s",1\n' % row for row in rows))
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.csv", "--output",
                 tmp_path / "y.npy")  # fmt: skip
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model(tf.constant(rows)[:, None]))


def mixed_model(adapted: bool = True) -> keras.Model:
    """As Keras's example of structured data: columns of strings, integers and numbers."""
    keras.utils.set_random_seed(3)
    sex, age = (
        keras.Input((1,), dtype="string", name="sex"),
        keras.Input((1,), dtype="int64", name="age"),
    )
    text = keras.Input((), dtype="string", name="text")
    size, code = keras.Input((1,), name="size"), keras.Input((1,), dtype="string", name="code")
    of_sex, of_text = L.StringLookup(name="of_sex"), L.TextVectorization(output_sequence_length=4)
    of_age = L.IntegerLookup(output_mode="one_hot")
    of_sex.adapt(["m", "f", "m", "other"])
    of_text.adapt(TEXTS)
    of_age.adapt(np.array([[20], [30], [20], [40]]))
    parts = [
        L.CategoryEncoding(4, output_mode="one_hot")(of_sex(sex)),
        of_age(age),
        L.Flatten()(L.Embedding(40, 3)(of_text(text))),
        size,
        L.Flatten()(L.Embedding(8, 2)(L.Hashing(8)(code))),
    ]
    hidden = L.Dense(6, "tanh")(L.Concatenate()(parts))
    model = keras.Model([sex, age, text, size, code], L.Dense(1, "sigmoid")(hidden))
    model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy")
    return model


def mixed_table(rows: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(1)
    return {
        "code": [f"c{n}" for n in rng.integers(0, 50, rows)],
        "size": rng.normal(size=rows).astype("float32").tolist(),
        "unused": ["word"] * rows,
        "text": [TEXTS[n] for n in rng.integers(0, len(TEXTS), rows)],
        "age": rng.choice([20, 30, 40, 55, -3], rows).tolist(),
        "sex": rng.choice(["m", "f", "", "nobody"], rows).tolist(),
        "target": rng.integers(0, 2, rows).tolist(),
    }


def mixed_tensors(table: dict[str, list[Any]]) -> dict[str, Any]:
    return {
        "sex": tf.constant(table["sex"])[:, None],
        "age": tf.constant(table["age"], tf.int64)[:, None],
        "text": tf.constant(table["text"]),
        "size": tf.constant(table["size"])[:, None],
        "code": tf.constant(table["code"])[:, None],
    }


def test_columns_by_name(tmp_path: Path) -> None:
    """Trained, evaluated, predicted; the file that is written is Keras's again."""
    table = mixed_table(24)
    model = mixed_model()
    path, data = tmp_path / "model.keras", write_table(tmp_path / "data.csv", table)
    model.save(path)
    x, y = mixed_tensors(table), np.array(table["target"], "float32")[:, None]
    out = tmp_path / "out.keras"
    done = run_plimsoll("fit", path, "--data", data, "--batch", 8, "--epochs", 3, "--no-shuffle",
                        "--output", out, "--validation", data, "--json")  # fmt: skip
    history = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0,
                        validation_data=(x, y))  # fmt: skip
    summary = json.loads(done.stdout)
    assert summary["loss"] == pytest.approx(history.history["loss"][-1], rel=1e-5)
    assert summary["val_loss"] == pytest.approx(history.history["val_loss"][-1], rel=1e-5)
    assert summary["measured_process_bytes"] <= summary["predicted_process_bytes"]
    written = keras.models.load_model(out)
    for ours, expected in zip(written.get_weights(), model.get_weights()):
        np.testing.assert_allclose(ours, expected, atol=2e-6)
    assert written.get_layer("of_sex").get_vocabulary() == ["[UNK]", "m", "other", "f"]
    np.testing.assert_allclose(
        written.predict(x, verbose=0), model.predict(x, verbose=0), atol=2e-6
    )
    evaluated = json.loads(run_plimsoll("evaluate", out, "--data", data, "--json").stdout)
    assert evaluated["loss"] == pytest.approx(written.evaluate(x, y, verbose=0), rel=1e-5)
    without = {name: values for name, values in table.items() if name != "target"}
    predicted = write_table(tmp_path / "unlabelled.csv", without)
    run_plimsoll("predict", out, "--data", predicted, "--output", tmp_path / "p.npy")
    np.testing.assert_allclose(
        np.load(tmp_path / "p.npy"), written.predict(x, verbose=0), atol=1e-6
    )


def test_resumed(tmp_path: Path) -> None:
    """A run that goes on from a checkpoint gives the bits of one that was not cut."""
    path, data = tmp_path / "model.keras", write_table(tmp_path / "data.csv", mixed_table(40))
    mixed_model().save(path)
    common = ("fit", path, "--data", data, "--batch", 8, "--epochs", 4)
    run_plimsoll(*common, "--output", tmp_path / "whole.keras")
    check = ("--checkpoint", tmp_path / "checkpoints", "--checkpoint-every", "2steps")
    run_plimsoll(*common, *check, "--steps", 7)
    run_plimsoll(*common, *check, "--resume", "--output", tmp_path / "resumed.keras")
    whole, resumed = (
        keras.models.load_model(tmp_path / f"{n}.keras") for n in ("whole", "resumed")
    )
    for a, b in zip(whole.get_weights(), resumed.get_weights()):
        np.testing.assert_array_equal(a, b)


def test_words_that_are_written(tmp_path: Path) -> None:
    """JSON and HDF5 keep words of the configuration; adapted ones are in every file we write."""
    x = keras.Input((1,), dtype="string", name="x")
    layer = L.StringLookup()
    layer.adapt(["b", "a", "b"])
    keras.Model(x, L.Flatten()(L.Embedding(4, 1)(layer(x)))).save(tmp_path / "model.keras")
    for ending in ("keras", "h5", "json"):
        run_plimsoll("convert", tmp_path / "model.keras", tmp_path / f"out.{ending}")
    for ending in ("keras", "h5"):
        model = keras.models.load_model(tmp_path / f"out.{ending}")
        assert model.layers[1].get_vocabulary() == ["[UNK]", "b", "a"]
    model = keras.models.model_from_json((tmp_path / "out.json").read_text())
    assert model.layers[1].get_vocabulary() == ["[UNK]", "b", "a"]


def test_sequential(tmp_path: Path) -> None:
    """The usual classifier of texts, from the only column beside the label."""
    keras.utils.set_random_seed(2)
    layer = L.TextVectorization(output_sequence_length=6)
    layer.adapt(TEXTS)
    table = L.Embedding(40, 4, mask_zero=True)
    model = keras.Sequential(
        [keras.Input((1,), dtype="string"), layer, table, L.GlobalAveragePooling1D(), L.Dense(1)]
    )
    model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
    model.save(tmp_path / "model.keras")
    texts = [text for text in TEXTS if text]  # no word at all has no average
    rows = {"review": texts, "label": [0, 1, 0, 1, 1, 0]}
    data = write_table(tmp_path / "data.csv", rows)
    done = run_plimsoll("fit", tmp_path / "model.keras", "--data", data, "--batch", 6, "--json",
                        "--output", tmp_path / "out.keras")  # fmt: skip
    loss = model.train_on_batch(tf.constant(texts)[:, None], np.array(rows["label"])[:, None])
    assert json.loads(done.stdout)["loss"] == pytest.approx(float(loss), rel=1e-5)
    written = keras.models.load_model(tmp_path / "out.keras")
    for ours, expected in zip(written.get_weights(), model.get_weights()):
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def after_a_layer() -> keras.Model:
    x = keras.Input((1,), name="x")
    return keras.Model(x, L.Embedding(9, 1)(L.Hashing(9)(L.Discretization([0.0])(x))))


def two_readers() -> keras.Model:
    x = keras.Input((1,), dtype="string", name="x")
    parts = [L.Embedding(9, 1)(L.Hashing(9)(x)), L.Embedding(9, 1)(L.Hashing(9, salt=1)(x))]
    return keras.Model(x, L.Add()(parts))


def inner() -> keras.Model:
    x = keras.Input((1,), dtype="string", name="x")
    model = keras.Sequential([keras.Input((1,), dtype="string"), L.Hashing(9), L.Embedding(9, 1)])
    return keras.Model(x, model(x))


def adapted() -> keras.Model:
    layer = L.StringLookup()
    layer.adapt(["a"])
    return on(layer)


REFUSED_MODELS: dict[str, tuple[Callable[[], keras.Model], list[str]]] = {
    "after a layer": (
        after_a_layer, ["[hashing", "on an input of the model", "Look the values up first"]
    ),
    "two readers": (two_readers, ["the input x for itself", "an input of its own"]),
    "an inner model": (inner, ["after an input of the whole model"]),
    "backwards": (
        lambda: keras.Model(
            x := keras.Input((1,), dtype="int64"), L.StringLookup(vocabulary=["a"], invert=True)(x)
        ),
        ["invert", "expected false"],
    ),
    "open length": (lambda: on(L.TextVectorization(vocabulary=["a"])), ["output_sequence_length"]),
    "Python code": (
        lambda: on(L.TextVectorization(
            vocabulary=["a"], output_sequence_length=3, standardize=tf.strings.lower
        )),
        ["standardize", "Python code"],
    ),
    "a batch as one sample": (
        lambda: keras.Model(
            x := keras.Input((), dtype="string"),
            L.StringLookup(vocabulary=["a"], output_mode="multi_hot")(x),
        ),
        ["an input of shape (values,)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_MODELS)
def test_refused_models(tmp_path: Path, name: str) -> None:
    build, words = REFUSED_MODELS[name]
    (tmp_path / "model.json").write_text(build().to_json())
    done = run_plimsoll("show", tmp_path / "model.json", check=False)
    assert done.returncode == 4, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_a_vocabulary_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(adapted().to_json())
    done = run_plimsoll("show", tmp_path / "model.json", check=False)
    assert done.returncode == 4
    assert "vocabulary: expected words, received none. Adapt the layer" in done.stderr


TABLES: dict[str, tuple[Callable[[], keras.Model], str, list[str]]] = {
    "a word without a number": (
        lambda: on(L.StringLookup(vocabulary=["a", "b"], num_oov_indices=0)),
        "x\na\nc\n", ["line 3", 'column "x"', "one of the 2 words", "num_oov_indices=0", '"c"'],
    ),
    "no whole number": (
        lambda: on(L.IntegerLookup(vocabulary=[1, 2]), "int64"),
        "x\n1\n2.5\n", ["line 3", "a whole number", '"2.5"'],
    ),
    "a missing number": (
        lambda: on(L.IntegerLookup(vocabulary=[1, 2]), "int64"),
        "x,n\n1,0\n,0\n", ["line 3", "received none", "--fill 0"],
    ),
    "too many columns": (
        lambda: on(L.StringLookup(vocabulary=["a"])),
        "left,right,label\na,b,1\n", ["one column for the input x", "received 2 (left, right)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_refused_tables(tmp_path: Path, name: str) -> None:
    build, text, words = TABLES[name]
    build().save(tmp_path / "model.keras")
    (tmp_path / "x.csv").write_text(text)
    done = run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.csv",
                        "--output", tmp_path / "y.npy", check=False)  # fmt: skip
    assert done.returncode == 5, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_missing_numbers_are_filled(tmp_path: Path) -> None:
    model = on(L.IntegerLookup(vocabulary=[1, 2, 0]), "int64")
    model.save(tmp_path / "model.keras")
    (tmp_path / "x.csv").write_text("x,n\n1,0\n,0\nNA,0\n2.0,0\n")
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.csv", "--fill", 0,
                 "--output", tmp_path / "y.npy")  # fmt: skip
    expected = model(np.array([[1], [0], [0], [2]]))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_inputs_without_columns(tmp_path: Path) -> None:
    mixed_model().save(tmp_path / "model.keras")
    data = write_table(tmp_path / "x.csv", {"sex": ["m"], "age": [20], "other": ["a"]})
    done = run_plimsoll("predict", tmp_path / "model.keras", "--data", data, "--output",
                        tmp_path / "y.npy", check=False)  # fmt: skip
    assert done.returncode == 5
    for word in ("inputs sex, age, text, size, code", "without text and size", "NAME=PATH"):
        assert word in done.stderr, done.stderr


def test_text_in_other_forms(tmp_path: Path) -> None:
    on(L.Hashing(9)).save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", np.zeros((3, 1), "int32"))
    done = run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.npy",
                        "--output", tmp_path / "y.npy", check=False)  # fmt: skip
    assert done.returncode == 5
    assert "expected a table (.csv) with a column of text for the input x" in done.stderr


def memory_of(folder: Path, known: int, counted: int) -> tuple[int, int]:
    """What a run predicts and takes whose inputs know so many words."""
    words = [f"word{n}" for n in range(known)]
    x = keras.Input((1,), dtype="string", name="x")
    text = keras.Input((), dtype="string", name="text")
    counts = L.TextVectorization(vocabulary=words[:counted], output_mode="count")(text)
    ids = L.Flatten()(L.Embedding(known + 1, 2)(L.StringLookup(vocabulary=words)(x)))
    model = keras.Model([x, text], L.Dense(1)(L.Concatenate()([ids, counts])))
    model.compile(keras.optimizers.SGD(1e-7), "mse")
    model.save(folder / "model.keras")
    rows = 3000
    data = write_table(folder / "x.csv", {
        "x": [f"word{n * 31 % 100_000}" for n in range(rows)],
        "text": [" ".join(f"word{n % 50 + k}" for k in range(n % 300)) for n in range(rows)],
        "y": [n % 2 for n in range(rows)],
    })  # fmt: skip
    done = run_plimsoll("fit", folder / "model.keras", "--data", data, "--batch", 16, "--steps",
                        40, "--json")  # fmt: skip
    summary = json.loads(done.stdout)
    return summary["predicted_process_bytes"], summary["measured_process_bytes"]


def test_large_vocabularies_are_counted(tmp_path: Path) -> None:
    """What 100,000 words take beside what a hundred do is predicted to the MiB."""
    small, small_measured = memory_of(tmp_path, 100, 50)
    large, large_measured = memory_of(tmp_path, 100_000, 4000)
    assert small_measured <= small and large_measured <= large
    assert large_measured - small_measured > 4 * 2**20  # else it would show nothing
    grown, measured = large - small, large_measured - small_measured
    assert measured - 2**19 <= grown <= measured + 3 * 2**19, (grown, measured)


def test_blanks_around_words(tmp_path: Path) -> None:
    """As pandas keeps them: the table of the census has ", State-gov"."""
    model = on(L.StringLookup(vocabulary=[" State-gov", "Private", "Private "]))
    model.save(tmp_path / "model.keras")
    (tmp_path / "x.csv").write_text(
        'n,x,m\n39, State-gov,1\n40,Private,2\n41,Private ,3\n1,"x",4\n'
    )
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.csv", "--output",
                 tmp_path / "y.npy")  # fmt: skip
    words = tf.constant([[" State-gov"], ["Private"], ["Private "], ["x"]])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model(words))


@pytest.mark.parametrize("form", ["table", "array"])
def test_masks_of_fractions(tmp_path: Path, form: str) -> None:
    """Hashing compares 7.5 with its mask of 7, and hashes 7."""
    model = on(L.Hashing(11, mask_value=7, output_mode="one_hot"), "float32")
    model.save(tmp_path / "model.keras")
    numbers = np.array([[7.5], [7.0], [-3.25], [8.0]], dtype="float32")
    data = tmp_path / ("x.csv" if form == "table" else "x.npy")
    if form == "table":
        write_table(data, {"x": list(numbers[:, 0])})
    else:
        np.save(data, numbers)
    run_plimsoll("predict", tmp_path / "model.keras", "--data", data, "--output",
                 tmp_path / "y.npy")  # fmt: skip
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model(numbers))


def test_numbers_that_no_integer_holds(tmp_path: Path) -> None:
    on(L.Hashing(11, output_mode="one_hot"), "float32").save(tmp_path / "model.keras")
    (tmp_path / "x.csv").write_text("x\n1\n9223372036854775807\n")
    done = run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.csv",
                        "--output", tmp_path / "y.npy", check=False)  # fmt: skip
    assert done.returncode == 5
    assert "line 3" in done.stderr and "expected a whole number" in done.stderr


def with_vocabulary(folder: Path, text: bytes) -> Path:
    """A saved model of an adapted layer, with another vocabulary beside its configuration."""
    adapted().save(folder / "model.keras")
    with (
        zipfile.ZipFile(folder / "model.keras") as old,
        zipfile.ZipFile(folder / "other.keras", "w") as new,
    ):
        for name in old.namelist():
            words = name.endswith("vocabulary.txt")
            new.writestr(name, text if words else old.read(name))
    return folder / "other.keras"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("caf\xe9\nsea\n".encode("cp1252"), "UTF-8"),
        (b"\n" * 600_000 + b"a", "at most 131072 words"),
    ],
)
def test_refused_vocabularies(tmp_path: Path, text: bytes, word: str) -> None:
    path = with_vocabulary(tmp_path, text)
    done = run_plimsoll("show", path, check=False)
    assert done.returncode == 4, done.stderr
    assert word in done.stderr


def test_vocabularies_that_no_configuration_holds(tmp_path: Path) -> None:
    inputs = [keras.Input((1,), dtype="string", name=f"x{i}") for i in range(3)]
    rows = [L.StringLookup(name=f"words{i}", output_mode="multi_hot") for i in range(3)]
    for layer in rows:
        layer.adapt(np.array([f"w{i}" for i in range(60_000)]))
    outputs = L.Concatenate()([layer(x) for layer, x in zip(rows, inputs)])
    keras.Model(inputs, outputs).save(tmp_path / "model.keras")
    done = run_plimsoll("show", tmp_path / "model.keras", check=False)
    assert done.returncode == 4
    assert "131072 words and 4 MiB in all vocabularies" in done.stderr


def test_unknown_words_without_end(tmp_path: Path) -> None:
    """A million numbers of one long word are not made a list of."""
    layer = L.StringLookup(vocabulary=["a"], num_oov_indices=1 << 20, oov_token="x" * 100_000)
    (tmp_path / "model.json").write_text(on(layer).to_json())
    words = ["prlimit", f"--as={1 << 30}", str(BINARY), "show", str(tmp_path / "model.json")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
