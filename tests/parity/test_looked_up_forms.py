"""What a model looks up in other forms than a table, which columns are whose, weights of words."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import run_plimsoll
from keras import layers as L
from looked_up import on, write_table


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
    """It is told by the layer behind it: a file's own word for it would be anybody's."""
    model = keras.Sequential([keras.Input((1,), name="x"), L.Dense(1)])
    config = json.loads(model.to_json())
    described = {"class_name": "Hashing", "config": {"name": "h", "num_bins": 9}}
    config["config"]["layers"][0]["config"]["lookup"] = described
    (tmp_path / "model.json").write_text(json.dumps(config))
    done = run_plimsoll("show", tmp_path / "model.json", check=False)
    assert done.returncode == 4, done.stderr
    for word in ("[x]", "expected the options of an InputLayer", 'received "lookup"'):
        assert word in done.stderr, done.stderr
