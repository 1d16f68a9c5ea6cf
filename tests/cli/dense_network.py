"""A network of dense layers, and data of classes for it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from normalized_network import layer


def write_dense_network(folder: Path, rows: int, inputs: int, classes: int, optimizer: str,
                        *between: dict[str, Any]) -> list[str]:  # fmt: skip
    """With these layers between input and classes; options that train it."""
    rng = np.random.default_rng(5)
    np.save(folder / "wide_x.npy", rng.normal(size=(rows, inputs)).astype("float32"))
    np.save(folder / "wide_y.npy", rng.integers(0, classes, rows))
    layers = [layer("InputLayer", "x", batch_shape=[None, inputs]), *between,
              layer("Dense", "classes", units=classes, activation="softmax")]  # fmt: skip
    model = {"class_name": "Sequential", "config": {"name": "wide", "layers": layers}}
    (folder / "wide.json").write_text(json.dumps(model))
    return [str(folder / "wide.json"), "--data", str(folder / "wide_x.npy"), "--labels",
            str(folder / "wide_y.npy"), "--optimizer", optimizer, "--loss",
            "sparse_categorical_crossentropy", "--json"]  # fmt: skip
