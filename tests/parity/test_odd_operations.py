"""What test_operations.py tests, at odd numbers and in files that Keras would not write."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import run_plimsoll
from keras import layers as L
from keras import ops

Call = Callable[[Any], Any]
SHAPE = (6, 4)
NAN, INFINITY = np.nan, np.inf
ODD_NUMBERS = np.array(
    [[NAN, 1, 0], [1, NAN, 0], [0, 1, NAN], [2, NAN, NAN], [NAN, NAN, NAN], [1, 2, 0],
     [-INFINITY, NAN, INFINITY], [NAN, NAN, -INFINITY], [INFINITY, NAN, INFINITY]],
    "float32",
)  # fmt: skip
# Operators of numbers that may be none or infinite: only forward, for they have no useful gradient.
ODD: dict[str, Call] = {
    "median": lambda x: ops.median(x, axis=1),
    "lowest quantile": lambda x: ops.quantile(x, 0.0, axis=1),
    "highest quantile": lambda x: ops.quantile(x, 1.0, axis=1),
    "quantile between": lambda x: ops.quantile(x, 0.3, axis=1),
    "argmax": lambda x: ops.argmax(x, axis=1),
    "argmin": lambda x: ops.argmin(x, axis=1),
    "nanmax": lambda x: ops.nanmax(x, axis=1),
    "nanmin": lambda x: ops.nanmin(x, axis=1),
    "digitize": lambda x: ops.digitize(x, np.array([0.0, 1.0])),
    "bins": lambda x: L.Discretization([0.0, 1.0])(x),
}


def predicted(folder: Path, call: Call, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What Plimsoll and Keras predict."""
    x = keras.Input(values.shape[1:], dtype=values.dtype.name)
    model = keras.Model(x, call(x))
    model.save(folder / "model.keras")
    np.save(folder / "x.npy", values)
    files = ["--data", folder / "x.npy", "--output", folder / "y.npy"]
    run_plimsoll("predict", folder / "model.keras", *files, "--memory", "1GiB")
    return np.load(folder / "y.npy"), np.asarray(model(values))


@pytest.mark.parametrize("name", ODD)
def test_odd_numbers(name: str, tmp_path: Path) -> None:
    ours, keras_own = predicted(tmp_path, ODD[name], ODD_NUMBERS)
    np.testing.assert_allclose(ours, keras_own, rtol=1e-6)


def test_take_keeps_integers(tmp_path: Path) -> None:
    values = (np.arange(200) + (1 << 24)).reshape(2, 100).astype("int32")
    ours, keras_own = predicted(
        tmp_path, lambda x: ops.take(x, np.arange(100)[::-1], axis=1), values
    )
    assert ours.dtype == keras_own.dtype == "int32"
    np.testing.assert_array_equal(ours, keras_own)


INTEGERS: dict[str, Call] = {
    "sort": lambda x: ops.sort(x, axis=1),
    "top_k": lambda x: ops.top_k(x, 2)[0],
    "take_along_axis": lambda x: ops.take_along_axis(x, ops.argsort(x, axis=1), axis=1),
    "cumsum": lambda x: ops.cumsum(x, axis=1),
    "cumsum of what counts": lambda x: ops.cumsum(x > 2, axis=1),
    "sums": lambda x: ops.cumsum(x, axis=1) + x * 3 - 1,
    "quotient": lambda x: (x + x) / 4,
    "number of floating point": lambda x: x * 0.5,
}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_stay_integers(name: str, dtype: str, tmp_path: Path) -> None:
    values = np.array([[5, -2, 9, 0], [3, 3, -7, 1], [0, 0, 4, 2]], dtype)
    ours, keras_own = predicted(tmp_path, INTEGERS[name], values)
    assert ours.dtype == (keras_own.dtype if keras_own.dtype.kind == "i" else "float32")
    np.testing.assert_array_equal(ours, keras_own)


def test_sort_keeps_large_integers(tmp_path: Path) -> None:
    values = (np.arange(12)[::-1] * 3 + (1 << 26)).reshape(2, 6).astype("int32")
    ours, keras_own = predicted(tmp_path, lambda x: ops.sort(x, axis=1), values)
    assert ours.dtype == keras_own.dtype == "int32"
    np.testing.assert_array_equal(ours, keras_own)


def edited(path: Path, kind: str, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Changes the layers of one class in a model's file, as Keras itself would not."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    config = json.loads(parts["config.json"])
    for layer in config["config"]["layers"]:
        if layer["class_name"] == kind:
            edit(layer)
    parts["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            file.writestr(name, data)


def ellipses(count: int) -> Callable[[dict[str, Any]], Any]:
    dots = {"class_name": "__ellipsis__", "config": {}}
    return lambda layer: layer["inbound_nodes"][0]["args"].__setitem__(1, [dots] * count)


def einsum_of(**keys: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda layer: layer["config"].update(keys)


# A model, the class of what is changed in its file, the change, and words of the answer.
WRONG: dict[str, tuple[Call, str, Callable[[dict[str, Any]], Any], str]] = {
    "two ellipses": (lambda x: x[..., 0], "GetItem", ellipses(2), "at most one ellipsis"),
    "many ellipses": (lambda x: x[..., 0], "GetItem", ellipses(3000), "at most one ellipsis"),
    "a bias for each sample": (
        lambda x: L.EinsumDense("ab,bc->ac", 4, bias_axes="c")(x[:, 0]),
        "EinsumDense",
        einsum_of(bias_axes="a"),
        "bias_axes without the batch's axis",
    ),
    "a bias in place of the batch": (
        lambda x: L.EinsumDense("ab,bc->ac", 4, bias_axes="c")(x[:, 0]),
        "EinsumDense",
        einsum_of(equation="ab,b->xb", bias_axes="x", output_shape=[4]),
        "bias_axes without the batch's axis",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_file(name: str, tmp_path: Path) -> None:
    call, kind, edit, words = WRONG[name]
    x = keras.Input(SHAPE)
    keras.Model(x, call(x)).save(tmp_path / "model.keras")
    edited(tmp_path / "model.keras", kind, edit)
    answer = run_plimsoll("check", tmp_path / "model.keras", check=False)
    assert answer.returncode == 4, answer.stdout + answer.stderr
    assert words in answer.stdout + answer.stderr, answer.stdout + answer.stderr
