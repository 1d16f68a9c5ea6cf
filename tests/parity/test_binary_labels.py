"""Labels of more than two classes beside a loss that tells two apart."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import run_plimsoll
from keras import layers as L
from looked_up import write_table


def save(folder: Path, layers: list[Any], loss: Any = "binary_crossentropy") -> Path:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.SGD(0.1), loss)
    model.save(folder / "model.keras")
    return folder / "model.keras"


def image_model(folder: Path, units: int, loss: str = "binary_crossentropy") -> Path:
    return save(
        folder, [keras.Input((4, 4, 3)), L.Flatten(), L.Dense(units, "sigmoid", name="out")], loss
    )


def write_classes(folder: Path, names: list[str], texts: bool = False) -> Path:
    for i, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for sample in range(3):
            path = folder / name / f"{sample}.{'txt' if texts else 'png'}"
            if texts:
                path.write_text("the sea " * i)
            else:
                keras.utils.save_img(path, np.full((4, 4, 3), 40 * i + sample), scale=False)
    return folder


def assert_refused(verb: str, model: Path, data: Path, *words: str) -> None:
    done = run_plimsoll(verb, model, "--data", data, check=False)
    assert done.returncode == 5, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_folders_of_three_classes(tmp_path: Path) -> None:
    """Keras's image_dataset_from_directory refuses them with label_mode="binary", too."""
    three = write_classes(tmp_path / "three", ["ant", "bee", "cat"])
    model = image_model(tmp_path, 1)
    for verb in ("fit", "evaluate"):
        assert_refused(
            verb, model, three,
            "three: expected 2 class folders, since output out is one number whose loss tells "
            "two classes apart, received 3 (ant, bee, cat). Give the model 3 outputs with softmax",
        )  # fmt: skip
    run_plimsoll("predict", model, "--data", three, "--output", tmp_path / "y.npy")
    np.save(tmp_path / "labels.npy", np.arange(9) % 2)
    run_plimsoll("fit", model, "--data", three, "--labels", tmp_path / "labels.npy")


def test_a_folder_without_samples_is_no_class_too_many(tmp_path: Path) -> None:
    data = write_classes(tmp_path / "images", ["cats", "dogs"])
    (data / "empty").mkdir()
    run_plimsoll("fit", image_model(tmp_path, 1), "--data", data)


@pytest.mark.parametrize("classes, units, loss", [
    (2, 1, "binary_crossentropy"), (3, 3, "binary_crossentropy"), (3, 1, "mse"),
    (3, 3, "sparse_categorical_crossentropy"),
])  # fmt: skip
def test_what_fits_is_trained(tmp_path: Path, classes: int, units: int, loss: str) -> None:
    data = write_classes(tmp_path / "images", ["ant", "bee", "cat"][:classes])
    done = run_plimsoll("fit", image_model(tmp_path, units, loss), "--data", data)
    assert "expected labels" not in done.stderr


def test_texts_and_tables_of_three_classes(tmp_path: Path) -> None:
    layer = L.TextVectorization(vocabulary=["the", "sea"], output_mode="multi_hot")
    model = save(tmp_path, [keras.Input((), dtype="string"), layer, L.Dense(1, "sigmoid")])
    data = write_classes(tmp_path / "texts", ["ant", "bee", "cat"], texts=True)
    assert_refused("fit", model, data, "texts: expected 2 class folders", "received 3")
    model = save(tmp_path, [keras.Input((1,)), L.Dense(1, "sigmoid")])
    rows: dict[str, list[Any]] = {"n": [1, 2, 3, 4], "label": ["ant", "bee", "cat", "ant"]}
    assert_refused(
        "fit", model, write_table(tmp_path / "t.csv", rows),
        "t.csv: expected 2 words as labels", "received 3 (ant, bee, cat)",
    )  # fmt: skip


def test_numbers_are_taken_as_keras_takes_them(tmp_path: Path) -> None:
    """It trains on them without a word; it is said here, once."""
    x = np.random.default_rng(1).normal(size=(12, 4)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    for labels, said in ((np.arange(12) % 3, "received 2 in row 2"), (np.arange(12) % 2, ""),
                         (np.linspace(-1, 1, 12), "received -1 in row 0")):  # fmt: skip
        path = save(tmp_path, [keras.Input((4,)), L.Dense(1, "sigmoid")])
        np.save(tmp_path / "y.npy", labels)
        done = run_plimsoll("fit", path, "--data", tmp_path / "x.npy", "--labels",
                            tmp_path / "y.npy", "--batch", 12, "--epochs", 3, "--json")  # fmt: skip
        history = keras.saving.load_model(path).fit(
            x, labels, batch_size=12, epochs=3, shuffle=False, verbose=0
        )
        loss = json.loads(done.stdout)["loss"]
        assert loss == pytest.approx(history.history["loss"][-1], rel=1e-5)
        assert done.stderr.count("y.npy: expected labels from 0 to 1") == (1 if said else 0)
        assert said in done.stderr, done.stderr
