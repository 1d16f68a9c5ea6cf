"""LocallyConnected1D and 2D of Keras 2, which Keras 3 has no more.

The oracle is Keras 2's own definition (backend.local_conv: each place's window times the place's
matrix) written out in TensorFlow in float64: loss, predictions and one step of SGD.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorflow as tf
from harness import run_plimsoll

RNG = np.random.default_rng(17)
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "1D": ((7, 3), {"kernel_size": [3], "strides": [1]}),
    "1D in steps": ((8, 3), {"kernel_size": [2], "strides": [3], "use_bias": False}),
    "1D channels first": (
        (3, 7), {"kernel_size": [3], "strides": [2], "data_format": "channels_first"}
    ),
    "2D": ((5, 6, 2), {"kernel_size": [2, 3], "strides": [1, 1], "activation": "tanh"}),
    "2D in steps": ((6, 5, 2), {"kernel_size": [3, 2], "strides": [2, 1]}),
    "2D channels first": (
        (2, 5, 6), {"kernel_size": [2, 3], "strides": [1, 2], "data_format": "channels_first"}
    ),
}  # fmt: skip
FILTERS, SAMPLES, RATE = 4, 6, 0.2


def local(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None, options: dict[str, Any]) -> Any:
    """Keras 2's local_conv, place by place."""
    first = options.get("data_format") == "channels_first"
    size, stride = options["kernel_size"], options["strides"]
    spatial = x.shape[2:] if first else x.shape[1:-1]
    counts = [(n - k) // s + 1 for n, k, s in zip(spatial, size, stride)]
    rows = []
    for place in np.ndindex(*counts):
        cut = tuple(slice(p * s, p * s + k) for p, s, k in zip(place, stride, size))
        window = x[(slice(None), slice(None), *cut) if first else (slice(None), *cut)]
        rows.append(tf.reshape(window, (x.shape[0], -1)))
    y = tf.einsum("pbk,pkf->bpf", tf.stack(rows), kernel)
    y = tf.reshape(y, (x.shape[0], *counts, FILTERS))
    if bias is not None:
        y += bias
    if options.get("activation") == "tanh":
        y = tf.tanh(y)
    return tf.transpose(y, (0, len(counts) + 1, *range(1, len(counts) + 1))) if first else y


def place_counts(shape: tuple[int, ...], options: dict[str, Any]) -> list[int]:
    first = options.get("data_format") == "channels_first"
    spatial = shape[1:] if first else shape[:-1]
    return [
        (n - k) // s + 1 for n, k, s in zip(spatial, options["kernel_size"], options["strides"])
    ]


def old_file(path: Path, name: str) -> list[np.ndarray]:
    """An .h5 file as tf.keras 2 wrote it; returns its weights."""
    shape, options = CASES[name]
    counts = place_counts(shape, options)
    channels = shape[0] if options.get("data_format") == "channels_first" else shape[-1]
    window = int(np.prod(options["kernel_size"])) * channels
    weights = [RNG.normal(0, 0.4, (int(np.prod(counts)), window, FILTERS))]
    if options.get("use_bias", True):
        weights.append(RNG.normal(0, 0.4, (*counts, FILTERS)))
    kind = f"LocallyConnected{len(counts)}D"
    config = {"name": "local", "filters": FILTERS, "padding": "valid", "implementation": 1,
              "batch_input_shape": [None, *shape], "dtype": "float32", **options}  # fmt: skip
    model = {"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": kind, "config": config},
        {"class_name": "Flatten", "config": {"name": "flat"}},
    ]}}  # fmt: skip
    names = ["local/kernel:0", "local/bias:0"][: len(weights)]
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(model)
        file.attrs["keras_version"] = "2.12.0"
        file.attrs["backend"] = "tensorflow"
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [b"local", b"flat"]
        own = group.create_group("local")
        own.attrs["weight_names"] = [n.encode() for n in names]
        for weight_name, value in zip(names, weights):
            own.create_dataset(weight_name, data=value.astype("float32"))
        group.create_group("flat").attrs["weight_names"] = np.array([], "S1")
    return [w.astype("float32") for w in weights]


def trained_weights(path: Path) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    with (
        zipfile.ZipFile(path) as archive,
        h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file,
    ):
        group = file["layers"]["locally_connected1d" if "locally_connected1d" in file["layers"]
                               else "locally_connected2d"]["vars"]  # fmt: skip
        found = [np.array(group[str(i)]) for i in range(len(group))]
    return found


@pytest.mark.parametrize("name", CASES)
def test_one_step(name: str, tmp_path: Path) -> None:
    shape, options = CASES[name]
    weights = old_file(tmp_path / "m.h5", name)
    x = RNG.normal(0, 1, (SAMPLES, *shape)).astype("float32")
    variables = [tf.Variable(w.astype("float64")) for w in weights]
    with tf.GradientTape() as tape:
        y = local(tf.constant(x.astype("float64")), variables[0],
                  variables[1] if len(variables) > 1 else None, options)  # fmt: skip
        flat = tf.reshape(y, (SAMPLES, -1))
        wanted = RNG.normal(0, 1, flat.shape).astype("float32")
        loss = tf.reduce_mean(tf.square(flat - wanted))
    gradients = tape.gradient(loss, variables)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", wanted)
    data = [tmp_path / "m.h5", "--data", tmp_path / "x.npy"]
    run_plimsoll("predict", *data, "--output", tmp_path / "p.npy")
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), flat.numpy(), rtol=1e-5, atol=1e-5)
    run_plimsoll("fit", *data, "--labels", tmp_path / "y.npy", "--loss", "mse", "--optimizer",
                 f"sgd(learning_rate={RATE})", "--batch", SAMPLES, "--steps", 1, "--output",
                 tmp_path / "out.keras")  # fmt: skip
    found = trained_weights(tmp_path / "out.keras")
    for got, before, gradient in zip(found, weights, gradients, strict=True):
        moved = (before - got) / RATE
        np.testing.assert_allclose(moved, gradient.numpy(), rtol=1e-3, atol=2e-6)


def test_other_forms_of_the_kernel_are_refused(tmp_path: Path) -> None:
    old_file(tmp_path / "m.h5", "2D")
    with h5py.File(tmp_path / "m.h5", "r+") as file:
        model = json.loads(file.attrs["model_config"])
        (layer,) = [
            one for one in model["config"]["layers"] if one["class_name"] == "LocallyConnected2D"
        ]
        layer["config"]["implementation"] = 2
        file.attrs["model_config"] = json.dumps(model)
    done = run_plimsoll("check", tmp_path / "m.h5", check=False)
    assert done.returncode == 4
    assert "implementation: expected 1" in done.stdout + done.stderr
