"""What calls say where something is wrong: in Python's words, naming what was given."""

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import normal

import plimsoll
from plimsoll import errors

L = keras.layers
X, Y = normal(16, 4), normal(16, 1, seed=3)


def small(**compiled: Any) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), L.Dense(1)], name="small")
    model.compile("sgd", "mse", **compiled)
    return model


@pytest.mark.parametrize(
    ("given", "meant"),
    [("batchsize", "batch_size"), ("epoch", "epochs"), ("memori", "memory"),
     ("validation_dat", "validation_data"), ("callback", "callbacks")],
)  # fmt: skip
def test_an_argument_that_is_mistyped(given: str, meant: str) -> None:
    with pytest.raises(TypeError) as raised:
        plimsoll.fit(small(), X, Y, **{given: 4})
    text = str(raised.value)
    assert text.startswith(f"got an unexpected keyword argument '{given}'."), text
    assert f"Did you mean '{meant}'?" in text and "max_slowdown" in text


def test_labels_that_are_missing() -> None:
    with pytest.raises(
        ValueError, match="expected labels, received none. Give them as y"
    ) as raised:
        plimsoll.fit(small(), X, None)
    assert "--" not in str(raised.value)
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    for x, y in ((X, Y), (batches, None)):
        with pytest.raises(ValueError, match="^validation_data: expected .*, received no y"):
            plimsoll.fit(small(), x, y, validation_data=(X,), verbose=0)


@pytest.mark.parametrize("options", [
    {"backend": "none"}, {"without": "everything"}, {"spill_dir": "/nowhere"},
    {"lanes": 8}, {"times": "/nowhere"},
], ids=str)  # fmt: skip
def test_options_are_called_as_they_are_given(options: dict[str, Any], tmp_path: Path) -> None:
    """Whatever the engine says of them, none is called by its name on the command line."""
    try:
        plimsoll.fit(small(), X, Y, verbose=0, memory="4GiB", **options)
    except (ValueError, OSError, MemoryError) as error:
        assert "--" not in str(error), error


def test_a_notice_of_a_model_comes_once(capfd: pytest.CaptureFixture[str]) -> None:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = keras.Sequential([keras.Input((4,)), L.Dense(1)], name="told_once")
        model.compile("sgd", "mse")
    finally:
        keras.config.set_dtype_policy("float32")
    plimsoll.fit(model, X, Y, verbose=0)
    plimsoll.predict(model, X)
    plimsoll.evaluate(model, X, Y)
    lines = [line for line in capfd.readouterr().err.splitlines() if "mixed_float16" in line]
    assert len(lines) == 1 and lines[0].startswith("plimsoll: [told_once] layers of"), lines


def test_smaller_blocks_are_told_in_plain_words(capfd: pytest.CaptureFixture[str]) -> None:
    from plimsoll.options import Listener

    for smaller, words in ((1, "halved once"), (4, "halved 4 times")):
        Listener().begin(f'{{"predicted_process_bytes": 1, "block_set": {smaller}}}')
        told = capfd.readouterr().err
        assert words in told and "block set" not in told and told.startswith("plimsoll: the limit")


def size_after(words: str, text: str) -> float:
    """MiB."""
    found = re.match(r"([\d.]+) ?([MG])iB", text.partition(words)[2])
    assert found, (words, text)
    return float(found[1]) * (2**10 if found[2] == "G" else 1)


def test_limits_are_told_as_they_are_named() -> None:
    """One basis for all figures: what the user has named, with the reserve in it."""
    model = keras.Sequential([keras.Input((32, 32, 3)), L.Conv2D(64, 3), L.Conv2D(64, 3),
                              L.GlobalAveragePooling2D(), L.Dense(3)])  # fmt: skip
    model.compile("adam", "mse")
    memory = plimsoll._core.held_by_process() + 86 * 2**20
    answer = plimsoll.plan(model, 128, memory=memory, reserve="64MiB", spill=False)
    text = str(answer)
    assert not answer.fits
    limit = size_after("above the limit of ", text)
    needs, named = size_after("needs ", text), size_after('memory="', text)
    beside = size_after("raise the limit: the same result (", text)
    digit = 0.1 if "GiB" not in text else 0.01 * 2**10  # the last one that is printed
    assert abs(limit - memory / 2**20) <= digit, text
    assert abs(named - beside) <= digit + 0.1 and needs <= named + digit, text
    fits = plimsoll.plan(model, 128, memory="8GiB", reserve="64MiB")
    assert fits.fits and "of 8.00 GiB (" in str(fits) and "beside the reserve of" in str(fits)
    assert np.isfinite(fits.predicted)


@pytest.mark.parametrize(
    ("message", "told"),
    [("--memory: expected a size", "memory: expected a size"),
     ("Name --batch 32 or less.", "Name batch_size=32 or less."),
     ("or pass --no-spill.", "or pass spill=False."),
     ("/data/no--memory/x: expected a folder", "/data/no--memory/x: expected a folder"),
     ("out--batch-2", "out--batch-2")],
)  # fmt: skip
def test_options_are_told_as_arguments(message: str, told: str) -> None:
    assert str(errors.translate(plimsoll._core.EngineError("config", message))) == told


def test_an_array_whose_name_begins_as_validation() -> None:
    model = keras.Sequential([keras.Input((4,)), L.Dense(1, activation="sigmoid")])
    model.compile("sgd", "bce", metrics=[keras.metrics.F1Score(threshold=0.5, name="val_f")])
    history = plimsoll.fit(model, X, (Y > 0).astype("float32"), verbose=0).history
    assert np.shape(history["val_f"]) == (1, 1)
