"""A small network whose BatchNormalization takes more time within less memory, and its data."""

import json
from pathlib import Path
from typing import Any

import numpy as np


def layer(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


def write_normalized_network(folder: Path, side: int, filters: int) -> list[str]:
    """72 images of three channels, `side` pixels wide and high; options that train it on them."""
    rng = np.random.default_rng(3)
    np.save(folder / "x.npy", rng.normal(size=(72, side, side, 3)).astype("float32"))
    np.save(folder / "y.npy", rng.integers(0, 4, 72))
    convolution = {"filters": filters, "kernel_size": [3, 3], "padding": "same", "use_bias": False}
    layers = [layer("InputLayer", "image", batch_shape=[None, side, side, 3])]
    for i in range(3):
        layers.append(layer("Conv2D", f"filters{i}", **convolution))
        layers.append(layer("BatchNormalization", f"norm{i}"))
        layers.append(layer("ReLU", f"relu{i}"))
    layers.append(layer("GlobalAveragePooling2D", "mean"))
    layers.append(layer("Dense", "classes", units=4, activation="softmax"))
    model = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    (folder / "model.json").write_text(json.dumps(model))
    return [
        str(folder / "model.json"),
        "--data", str(folder / "x.npy"), "--labels", str(folder / "y.npy"),
        "--optimizer", "adam", "--loss", "sparse_categorical_crossentropy", "--json",
    ]  # fmt: skip
