"""Files that Plimsoll writes are loaded by Keras alone, whatever layer is in them."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import ROOT, run_plimsoll
from keras import layers as L

# What constructors must be given, by the name of the argument.
REQUIRED: dict[str, Any] = {
    "activation": "tanh", "axes": 1, "bin_boundaries": [0.0, 0.5], "dims": (2, 1),
    "equation": "abc,cd->abd", "filters": 4, "head_dim": 3, "height": 3, "input_dim": 9,
    "kernel_size": 2, "key_dim": 3, "n": 2, "num_bins": 9, "num_heads": 2, "num_key_value_heads": 1,
    "num_query_heads": 2, "num_tokens": 9, "output_dim": 4, "output_shape": (None, 3),
    "output_size": 2, "pool_size": 2, "rate": 0.3, "scale": 2.0, "stddev": 0.1,
    "target_shape": (-1, 2), "units": 3, "width": 3, "width_factor": 0.2,
    "factor": 0.2, "height_factor": 0.2,
}  # fmt: skip
SHAPES = [(6, 4), (6,), (6, 6, 4), (6, 6, 3), (4, 4, 4, 4), (3, 6, 6, 4), (2, 3, 4, 4, 2), (1,)]
# What must not be left at its default to be seen, or is not called on one array of numbers.
MADE: dict[str, Callable[[], L.Layer]] = {
    "Bidirectional": lambda: L.Bidirectional(L.GRU(3)),
    "CategoryEncoding": lambda: L.CategoryEncoding(9),
    "Discretization": lambda: L.Discretization(bin_boundaries=[0.0, 0.5], output_mode="one_hot"),
    "EinsumDense": lambda: L.EinsumDense("...x,xy->...y", 3, bias_axes="y"),
    "MelSpectrogram": lambda: L.MelSpectrogram(8, 2, num_mel_bins=4),
    "STFTSpectrogram": lambda: L.STFTSpectrogram("psd", 4, 2, window=None),  # by name: scipy's
    "RNN": lambda: L.RNN([L.LSTMCell(3), L.GRUCell(2)]),
    "GroupNormalization": lambda: L.GroupNormalization(groups=2),
    "Normalization": lambda: L.Normalization(axis=None, mean=0.5, variance=2.0),
    "RandomPosterization": lambda: L.RandomPosterization(4),
    "SpectralNormalization": lambda: L.SpectralNormalization(L.Dense(3)),
    "TimeDistributed": lambda: L.TimeDistributed(L.Dense(3)),
}
# What every model has or none: Keras 2's layers, and one that Keras 3.15 leaves out of a model, as
# it tells its own input as its result.
OTHERS = ("InputLayer", "Operation", "Equalization", "LocallyConnected1D", "LocallyConnected2D")
# Layers of strings and whole numbers, directly behind an input: test_looked_up_inputs.py.
OTHERS += ("Hashing", "IntegerLookup", "StringLookup", "TextVectorization")
# Layers of keras.applications, which Keras finds in .keras alone: test_application_layers.py.
OTHERS += ("CustomScaleLayer", "LayerScale", "StochasticDepth")
OF_NUMBERS = ("Embedding", "ReversibleEmbedding", "CategoryEncoding", "HashedCrossing")


def supported() -> list[str]:
    """The names in the table of layers of the page that is written from the registry."""
    page = (ROOT / "docs/reference/supported-layers.md").read_text()
    table = page[page.index("## Layers\n") : page.index("## Layers that are refused")]
    return [n for n in re.findall(r"^\| ([A-Z]\w+) \|", table, re.M) if n not in OTHERS]


def layer_of(name: str) -> L.Layer:
    if name in MADE:
        return MADE[name]()
    cls = getattr(L, name)
    given = inspect.signature(cls.__init__).parameters.values()
    return cls(**{
        p.name: REQUIRED[p.name]
        for p in given
        if p.name in REQUIRED and p.default is inspect.Parameter.empty
    })  # fmt: skip


def models_with(name: str) -> Iterator[keras.Model]:
    """The layer on inputs of every shape, alone and several at once."""
    dtype = "int32" if name in OF_NUMBERS else "float32"
    for shape in SHAPES:
        for count in (1, 2, 3):
            inputs = [keras.Input(shape, dtype=dtype) for _ in range(count)]
            for given in ([inputs[0]],) if count == 1 else ([inputs], inputs):
                try:
                    yield keras.Model(inputs, layer_of(name)(*given))
                except (ValueError, TypeError, AttributeError, IndexError, KeyError):
                    continue  # it is not called so


@pytest.mark.parametrize("name", supported())
def test_keras_loads_what_is_written_of_a_layer(name: str, tmp_path: Path) -> None:
    refusal = "no shape of inputs fits it: give it arguments in MADE"
    for model in models_with(name):
        model.save(tmp_path / "in.keras")
        done = run_plimsoll("convert", tmp_path / "in.keras", tmp_path / "out.keras", check=False)
        if done.returncode != 0:
            refusal = done.stderr
            continue
        loaded = keras.saving.load_model(tmp_path / "out.keras")
        run_plimsoll("convert", tmp_path / "out.keras", tmp_path / "again.h5")
        from_h5 = keras.saving.load_model(tmp_path / "again.h5")
        draw = np.random.default_rng(3)
        x = [draw.integers(0, 9, (2, *i.shape[1:])) if i.dtype == "int32"
             else draw.normal(size=(2, *i.shape[1:])).astype("float32")
             for i in model.inputs]  # fmt: skip
        expected = model(x[0] if len(x) == 1 else x, training=False)
        for other in (loaded, from_h5):
            got = other(x[0] if len(x) == 1 else x, training=False)
            for a, b in zip(keras.tree.flatten(expected), keras.tree.flatten(got)):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        return
    pytest.fail(f"{name}: {refusal}")
