"""Models that look up strings and whole numbers, and tables for them."""

import csv
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from harness import run_plimsoll
from keras import layers as L

WORDS = ["ship", "sea", "", "Hull", "café", "a", "wind and sail", "ship "]
FIELDS = ["ship", "sea", "", "hull", "Hull", "café", "x" * 70, "wind and sail", "NA", "?", "12"]
NUMBERS = [0, 3, 7, -4, 10, 123456789012, 7, -1, 2**40]
TEXTS = [
    "The ship, the SEA: the hull!", "", "  sea\tship\n sea ", "Café at the sea - at the sea?",
    "one two three four five six seven", "don't stop; 3.14 (pi) [x] {y} ~z~", "ÄÖ ship",
]  # fmt: skip
VOCABULARY = ["the", "sea", "ship", "at", "at the", "the sea", "dont", "314", "é", "s"]


def write_table(path: Path, columns: dict[str, list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))
    return path


def given(folder: Path, layer: Any, dtype: str, columns: dict[str, list[Any]],
          shape: tuple[int, ...] = (1,)) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """What the layer gives, by Plimsoll from the model's file and the table, and by Keras.

    Ids are looked up in a table of themselves, since they are no output that a model could have.
    """
    x = keras.Input(shape, dtype=dtype, name="x")
    y = layer(x)
    if "int" in str(y.dtype):
        table = L.Embedding(4096, 1)
        model = keras.Model(x, table(y))
        table.set_weights([np.arange(4096, dtype="float32")[:, None]])
    else:
        model = keras.Model(x, L.Identity()(y))
    model.save(folder / "model.keras")
    table_path = write_table(folder / "x.csv", columns)
    run_plimsoll("predict", folder / "model.keras", "--data", table_path, "--columns",
                 ",".join(columns), "--header", "yes", "--output", folder / "y.npy")  # fmt: skip
    values = np.stack([np.array(column) for column in columns.values()], axis=-1)
    tensor = tf.constant(values.astype(str) if dtype == "string" else values.astype(dtype))
    if len(shape) == 0:
        tensor = tensor[:, 0]
    return np.load(folder / "y.npy"), np.asarray(model(tensor))


def on(layer: Any, dtype: str = "string", shape: tuple[int, ...] = (1,)) -> keras.Model:
    x = keras.Input(shape, dtype=dtype, name="x")
    y = layer(x)
    return keras.Model(x, L.Embedding(64, 1)(y) if "int" in str(y.dtype) else L.Dense(1)(y))
