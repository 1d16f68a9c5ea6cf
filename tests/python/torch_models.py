"""Models of Keras on torch, and programs of them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import torch
from live_models import numbers

from plimsoll.guard.torch_step import _generators

L, ops = keras.layers, keras.ops
ON_GPU = torch.device(keras.src.backend.torch.core.get_device()).type != "cpu"  # tools/gpu_check


def everything() -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((6,)), L.Dense(5, "tanh"), L.BatchNormalization(), L.GaussianNoise(0.1),
        L.Dropout(0.2), L.Dropout(0.2, seed=7), L.Dense(3),
    ])  # fmt: skip
    model.compile(keras.optimizers.Adam(epsilon=1e-3), "mse",
                  metrics=["mae", lambda true, predicted: ops.max(predicted)])  # fmt: skip
    return model


def assert_same(one: Any, other: Any) -> None:
    """To the bit; a GPU may add up in another order each time."""
    if ON_GPU:
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(other, one)


def values_of(model: Any) -> list[Any]:
    """Of all variables, and of the random numbers that torch draws next."""
    found = [*model.variables, *model.optimizer.variables]
    return [*(numbers(one).copy() for one in found), *(get().numpy() for get, _ in _generators())]


def program(
    folder: Path, text: str, options: list[str], *words: str
) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with the package's Python files alone."""
    root = Path(__file__).parents[2]
    (folder / "net.py").write_text(text)
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder),
                   "PYTHONPATH": os.pathsep.join([str(root / "python"), *sys.path])}  # fmt: skip
    return subprocess.run([sys.executable, *options, "net.py", *words], cwd=folder,
                          env=environment, text=True, capture_output=True, timeout=300)  # fmt: skip
