"""What the engine's image layers make of pictures in training, read off one step of a fit.

Beside each layer stands a table with a row of zeros for each sample, which is added to what the
layer gives. With targets of 0 the mean squared error's gradient of a row is what the layer gave,
times a number, and one step of SGD leaves it in the table.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from harness import run_plimsoll
from keras import layers as L

START = {"embeddings_initializer": "zeros"}


def seen_through(layers: dict[str, L.Layer], x: np.ndarray) -> keras.Model:
    """The model that adds each layer's table to what the layer gives, one output for all."""
    image = keras.Input(x.shape[1:], dtype=str(x.dtype))
    sample = keras.Input((1,), dtype="int32")
    parts = []
    for name, layer in layers.items():
        given = L.Rescaling(1.0)(layer(image))
        if isinstance(layer, L.RandomCrop):  # which crops nothing outside of training
            given = L.CenterCrop(layer.height, layer.width)(given)
        given = L.Flatten()(given)
        table = L.Embedding(len(x), given.shape[-1], name=f"seen_{name}", **START)
        parts.append(L.Add()([given, L.Flatten()(table(sample))]))
    y = parts[0] if len(parts) == 1 else L.Concatenate()(parts)
    return keras.Model([image, sample], y)


def save_for_training(
    folder: Path, layers: dict[str, L.Layer], x: np.ndarray, batch: int | None = None
) -> tuple[keras.Model, list[Any]]:
    """Writes model and data; returns the model and the arguments of fit."""
    folder.mkdir(parents=True, exist_ok=True)
    model = seen_through(layers, x)
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.save(folder / "model.keras")
    np.save(folder / "x.npy", x)
    np.save(folder / "ids.npy", np.arange(len(x), dtype="int32")[:, None])
    np.save(folder / "y.npy", np.zeros((len(x), model.output_shape[-1]), "float32"))
    return model, [
        folder / "model.keras", "--data", folder / "x.npy", "--data", folder / "ids.npy",
        "--labels", folder / "y.npy", "--batch", batch or len(x),
    ]  # fmt: skip


def tables(model: keras.Model, trained: Path) -> dict[str, np.ndarray]:
    """The tables of a trained file, by the name of their layer."""
    model.load_weights(trained)
    seen = [layer for layer in model.layers if layer.name.startswith("seen_")]
    return {layer.name.removeprefix("seen_"): layer.get_weights()[0] for layer in seen}


def trained_outputs(
    folder: Path, layers: dict[str, L.Layer], x: np.ndarray, *options: Any, batch: int | None = None
) -> dict[str, np.ndarray]:
    """What each layer gave in an epoch of training, in the shape that Keras says it has.

    Samples are all one batch unless `batch` says how many are one.
    """
    model, arguments = save_for_training(folder, layers, x, batch)
    run_plimsoll("fit", *arguments, "--epochs", 1, "--no-shuffle", "--output", folder / "out.keras",
                 *options)  # fmt: skip
    found = tables(model, folder / "out.keras")
    numbers = sum(table.size for table in found.values()) / len(x) * (batch or len(x))
    return {
        name: (-found[name].astype("float64") * numbers / 2).reshape(
            len(x), *layer.compute_output_shape(x.shape)[1:]
        )
        for name, layer in layers.items()
    }
