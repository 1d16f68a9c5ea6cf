"""What a model looks up in other forms than a table, which columns are whose, weights of words."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import run_plimsoll
from keras import layers as L
from looked_up import given, on, write_table


def test_named_columns_alone_are_taken(tmp_path: Path) -> None:
    """--columns leaves out a column that is called as the input is."""
    model = on(L.StringLookup(vocabulary=["ship", "sea"]))
    model.save(tmp_path / "model.keras")
    data = write_table(tmp_path / "x.csv", {"x": ["ship", "sea"], "other": ["sea", "a"]})
    run_plimsoll("predict", tmp_path / "model.keras", "--data", data, "--columns", "other",
                 "--output", tmp_path / "y.npy")  # fmt: skip
    expected = model(tf.constant([["sea"], ["a"]]))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_what_an_input_looks_up_no_file_says(tmp_path: Path) -> None:
    """It is told by the layer after it: a file's own word for it would be anybody's."""
    model = keras.Sequential([keras.Input((1,), name="x"), L.Dense(1)])
    config = json.loads(model.to_json())
    described = {"class_name": "Hashing", "config": {"name": "h", "num_bins": 9}}
    config["config"]["layers"][0]["config"]["lookup"] = described
    (tmp_path / "model.json").write_text(json.dumps(config))
    done = run_plimsoll("show", tmp_path / "model.json", check=False)
    assert done.returncode == 4, done.stderr
    for word in ("[x]", "expected the options of an InputLayer", 'received "lookup"'):
        assert word in done.stderr, done.stderr


WEIGHTS = [0.25, 1.3, 0.1, 2.0 / 3.0]
WORDS = ["sea", "ship", "the", "at"]
TEXTS = ["The ship, the SEA: the hull!", "", "sea sea sea\tship a b c", "at the sea - at the sea?"]


def test_weighted_words(tmp_path: Path) -> None:
    """Vocabularies with and without the unknown word, of words, texts and whole numbers."""
    unknown = {"vocabulary": ["[UNK]", *WORDS], "idf_weights": [0.7, *WEIGHTS]}
    plain = {"vocabulary": WORDS, "idf_weights": WEIGHTS}
    words = [["sea", "ship", "sea"], ["x", "at", "y"], ["", "the", "x"]]
    numbers = [[3, 3, 4], [9, 8, 5], [4, 4, 4]]
    columns = {name: [row[i] for row in words] for i, name in enumerate("abc")}
    layers = {
        "plain": L.StringLookup(output_mode="tf_idf", **plain),
        "two unknown": L.StringLookup(output_mode="tf_idf", num_oov_indices=2, **plain),
        "padded": L.StringLookup(
            output_mode="tf_idf", max_tokens=9, pad_to_max_tokens=True, **unknown
        ),
        "masked": L.StringLookup(output_mode="tf_idf", mask_token="x", **unknown),
    }
    for name, layer in layers.items():
        ours, expected = given(tmp_path, layer, "string", columns, (3,))
        np.testing.assert_array_equal(ours, expected, name)
    integers = L.IntegerLookup(
        vocabulary=[3, 4, 5], idf_weights=[0.1, 0.2, 0.7], output_mode="tf_idf"
    )
    model = keras.Model(x := keras.Input((3,), dtype="int64"), L.Identity()(integers(x)))
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", numbers)
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--output",
                 tmp_path / "y.npy")  # fmt: skip
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model(np.array(numbers)))
    texts = L.TextVectorization(output_mode="tf_idf", ngrams=2, **plain)
    ours, expected = given(tmp_path, texts, "string", {"x": TEXTS}, ())
    np.testing.assert_array_equal(ours, expected)


def test_adapted_weights_go_through_files(tmp_path: Path) -> None:
    """They lie beside the weights; what is written has them there and in the configuration."""
    keras.utils.set_random_seed(4)
    layer = L.TextVectorization(output_mode="tf_idf")
    layer.adapt(TEXTS)
    x = keras.Input((), dtype="string", name="text")
    model = keras.Model(x, L.Dense(1)(layer(x)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.save(tmp_path / "model.keras")
    data = write_table(tmp_path / "data.csv", {"text": TEXTS, "y": [1, 0, 3, 2]})
    run_plimsoll("fit", tmp_path / "model.keras", "--data", data, "--batch", 4, "--output",
                 tmp_path / "out.keras")  # fmt: skip
    model.train_on_batch(tf.constant(TEXTS), np.array([[1.0], [0], [3], [2]]))
    written = keras.saving.load_model(tmp_path / "out.keras")
    for ours, expected in zip(written.get_weights(), model.get_weights()):
        np.testing.assert_allclose(ours, expected, atol=1e-6)
    np.testing.assert_array_equal(written.layers[1](tf.constant(TEXTS)), layer(tf.constant(TEXTS)))
    # Ours again, and other forms of files.
    table = write_table(tmp_path / "x.csv", {"text": TEXTS})
    for ending in ("keras", "h5"):
        run_plimsoll("convert", tmp_path / "out.keras", tmp_path / f"again.{ending}")
        again = keras.saving.load_model(tmp_path / f"again.{ending}", compile=False)
        expected = again.predict(tf.constant(TEXTS), verbose=0)
        np.testing.assert_array_equal(expected, written.predict(tf.constant(TEXTS), verbose=0))
        run_plimsoll("predict", tmp_path / f"again.{ending}", "--data", table, "--header", "yes",
                     "--output", tmp_path / "y.npy")  # fmt: skip
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=1e-6)


def test_words_without_their_weights_are_refused(tmp_path: Path) -> None:
    layer = L.StringLookup(vocabulary=WORDS, idf_weights=WEIGHTS, output_mode="tf_idf")
    config = json.loads(on(layer, shape=(3,)).to_json())
    for given_weights, received in ((None, "none"), ([0.5], "1")):
        config["config"]["layers"][1]["config"]["idf_weights"] = given_weights
        (tmp_path / "model.json").write_text(json.dumps(config))
        done = run_plimsoll("show", tmp_path / "model.json", check=False)
        assert done.returncode == 4
        assert f"idf_weights: expected a weight for each of 4 words, received {received}" in (
            done.stderr
        )


def review_model(**options: object) -> keras.Model:
    keras.utils.set_random_seed(2)
    layer = L.TextVectorization(**({"output_sequence_length": 6} | options))
    layer.adapt(TEXTS)
    table = L.Embedding(40, 4)
    model = keras.Sequential([
        keras.Input((), dtype="string"), layer,
        *([table, L.GlobalAveragePooling1D()] if not options else []), L.Dense(1),
    ])  # fmt: skip
    model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
    return model


def write_folders(folder: Path, count: int = 14) -> Path:
    """As the reviews of IMDB lie: a folder a class, a file a text."""
    rng = np.random.default_rng(5)
    for name in ("neg", "pos"):
        (folder / name / "more").mkdir(parents=True)
    words = np.array(["sea", "ship", "café", "the", "a", "\n", "BAD!", "<br />"])
    for i in range(count):
        text = " ".join(rng.choice(words, rng.integers(0, 40)))
        place = folder / ("neg" if i % 2 else "pos") / ("more" if i % 5 == 4 else "")
        (place / f"{i}_7.txt").write_bytes(text.encode())
    (folder / "pos" / "urls.html").write_text("no sample")
    return folder


def test_folders_of_texts(tmp_path: Path) -> None:
    """Trained as Keras does on text_dataset_from_directory."""
    folder = write_folders(tmp_path / "reviews")
    model = review_model()
    model.save(tmp_path / "model.keras")
    done = run_plimsoll("fit", tmp_path / "model.keras", "--data", folder, "--batch", 16,
                        "--epochs", 2, "--json", "--validation", folder,
                        "--output", tmp_path / "out.keras")  # fmt: skip
    data = keras.utils.text_dataset_from_directory(
        folder, batch_size=16, shuffle=False, verbose=False
    )
    history = model.fit(data, epochs=2, verbose=0, validation_data=data).history
    summary = json.loads(done.stdout)
    assert summary["loss"] == pytest.approx(history["loss"][-1], rel=1e-5)
    assert summary["val_loss"] == pytest.approx(history["val_loss"][-1], rel=1e-5)
    assert summary["measured_process_bytes"] <= summary["predicted_process_bytes"]
    written = keras.saving.load_model(tmp_path / "out.keras")
    for ours, expected in zip(written.get_weights(), model.get_weights()):
        np.testing.assert_allclose(ours, expected, atol=1e-6)
    run_plimsoll("predict", tmp_path / "out.keras", "--data", folder, "--output",
                 tmp_path / "y.npy")  # fmt: skip
    expected = written.predict(data, verbose=0)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=1e-6)


def test_texts_come_in_kerass_order(tmp_path: Path) -> None:
    """Files of a folder before those of folders in it; a name may be nothing but its ending."""
    folder = write_folders(tmp_path / "reviews")
    for inner, name in (("pos", "zz.txt"), ("pos/aa", "b.txt"), ("pos/aa/b", "a.TXT"),
                        ("neg/1", ".txt"), ("neg", "1.txt")):  # fmt: skip
        (folder / inner).mkdir(parents=True, exist_ok=True)
        (folder / inner / name).write_text(f"the sea {inner} ship {name} " * (len(inner) % 4))
    model = review_model()
    model.save(tmp_path / "model.keras")
    run_plimsoll("predict", tmp_path / "model.keras", "--data", folder, "--batch", 4, "--output",
                 tmp_path / "y.npy")  # fmt: skip
    data = keras.utils.text_dataset_from_directory(
        folder, batch_size=4, shuffle=False, verbose=False
    )
    expected = model.predict(data, verbose=0)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=1e-6)


def test_weights_of_words_are_those_of_the_file(tmp_path: Path) -> None:
    """What the configuration has is of the constructor, and Keras overwrites it as it loads."""
    layer = L.StringLookup(vocabulary=["a", "b"], idf_weights=[1.0, 2.0], output_mode="tf_idf")
    layer.set_vocabulary(["a", "b"], [5.0, 7.0])
    ours, expected = given(tmp_path, layer, "string", {"x": ["a", "zz", "b"]})
    np.testing.assert_array_equal(ours, expected)


def test_a_flat_folder_of_texts(tmp_path: Path) -> None:
    """With labels of its own; a class that there was not, a long text and none are refused."""
    for name, text in zip("badc", TEXTS):
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / f"{name}.txt").write_text(text)
    np.save(tmp_path / "y.npy", np.array([0, 1, 1, 0]))
    review_model(output_mode="tf_idf", output_sequence_length=None).save(tmp_path / "model.keras")
    fit = ("fit", tmp_path / "model.keras", "--batch", 4)
    run_plimsoll(*fit, "--data", tmp_path / "texts", "--labels", tmp_path / "y.npy")
    (tmp_path / "texts" / "e.txt").write_text("a" * (2**20 + 1))
    folder = write_folders(tmp_path / "reviews")
    (tmp_path / "others" / "new").mkdir(parents=True)
    (tmp_path / "others" / "new" / "1.txt").write_text("sea")
    (tmp_path / "empty" / "pos").mkdir(parents=True)
    for data, word in (
        (["--data", tmp_path / "texts"], "e.txt: expected a text of at most 1 MiB"),
        (["--data", tmp_path / "empty"], "class folders with texts (files that end in .txt)"),
        (["--data", folder, "--validation", tmp_path / "others"], "named as one of the classes"),
    ):
        done = run_plimsoll(*fit, *data, check=False)
        assert done.returncode == 5, done.stderr
        assert word in done.stderr, done.stderr


STRINGS = [["ship", "sea"], ["", "café \U0001f6a2"], ["sea", "x" * 40], ["a\0b", "b"]]


@pytest.mark.parametrize("dtype", ["<U41", ">U41", "S45"])
@pytest.mark.parametrize("mode", ["int", "one_hot", "multi_hot", "count"])
def test_arrays_of_strings(tmp_path: Path, mode: str, dtype: str) -> None:
    vocabulary = ["sea", "", "café \U0001f6a2", "a\0b"]
    layer = L.StringLookup(vocabulary=vocabulary, output_mode=mode, num_oov_indices=2)
    x = keras.Input((2,), dtype="string", name="x")
    y = layer(x)
    model = keras.Model(x, L.Embedding(9, 1)(y) if mode == "int" else L.Identity()(y))
    model.save(tmp_path / "model.keras")
    encoded = [[word.encode() if dtype[0] == "S" else word for word in row] for row in STRINGS]
    array = np.array(encoded, dtype=dtype)
    expected = model(tf.constant([[word.encode() for word in row] for row in STRINGS]))
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", x=array)
    np.savez_compressed(tmp_path / "packed.npz", x=array)
    for name in ("x.npy", "x.npz", "packed.npz"):
        run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / name, "--output",
                     tmp_path / "y.npy")  # fmt: skip
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_arrays_of_texts_train(tmp_path: Path) -> None:
    """From one archive with labels; beside numbers of another file for another input."""
    model = review_model()
    model.save(tmp_path / "model.keras")
    texts, labels = np.array(TEXTS * 3), np.array([0, 1, 1, 0] * 3)
    np.savez(tmp_path / "data.npz", x=texts, y=labels)
    done = run_plimsoll("fit", tmp_path / "model.keras", "--data", tmp_path / "data.npz",
                        "--batch", 12, "--json")  # fmt: skip
    loss = model.train_on_batch(tf.constant(texts), labels[:, None])
    assert json.loads(done.stdout)["loss"] == pytest.approx(float(loss), rel=1e-5)


REFUSED = {
    "Fortran order": (np.asfortranarray([["a", "b"], ["c", "d"]]), "ascontiguousarray"),
    "another width": (np.array([["a", "b", "c"]]), "samples of 2 strings"),
    "objects": (np.array([["a", {}]], dtype=object), "pickled Python objects"),
    "numbers": (np.zeros((3, 2), "int32"), "or an array of strings"),
    "a word without a number": (np.array([["a", "b"], ["a", "q"]]), 'row 1: expected one of the 2'),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_arrays(tmp_path: Path, name: str) -> None:
    array, word = REFUSED[name]
    on(L.StringLookup(vocabulary=["a", "b"], num_oov_indices=0), shape=(2,)).save(
        tmp_path / "model.keras"
    )
    np.save(tmp_path / "x.npy", array)
    done = run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.npy",
                        "--output", tmp_path / "y.npy", check=False)  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert word in done.stderr, done.stderr
