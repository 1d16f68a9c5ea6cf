"""Attention in which one key has nearly all of a row: what is small beside it decides gradients.

Gradients are then differences of nearly equal numbers. They are held to twice the error of Keras's
own in float32, against float64.
"""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import run_plimsoll
from keras import layers as L

STEPS, WIDTH = 1024, 64


def gradient(queries: np.ndarray, keys: np.ndarray, wanted: np.ndarray, dtype: str) -> np.ndarray:
    """The mean squared error's, by a kernel that the queries are multiplied by; it is I."""
    kernel = tf.eye(queries.shape[-1], dtype=dtype)
    q, k, y = (tf.constant(values.astype(dtype)) for values in (queries, keys, wanted))
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        shares = tf.nn.softmax((q @ kernel) @ tf.transpose(k, (0, 2, 1)))
        loss = tf.reduce_mean((shares @ k - y) ** 2)
    return tape.gradient(loss, kernel).numpy()


# The reference rounds each query's result after every 64 keys.
@pytest.mark.parametrize("backend, spread, seed", [
    ("onednn", 0.5, 1), ("onednn", 0.55, 1), ("onednn", 0.55, 2), ("onednn", 0.6, 2),
    ("reference", 0.5, 1), ("reference", 0.55, 1), ("reference", 0.55, 2),
])  # fmt: skip
def test_a_key_that_has_nearly_all(backend: str, spread: float, seed: int, tmp_path: Path) -> None:
    draw = np.random.default_rng(seed)
    keys = (draw.normal(size=(4, STEPS, WIDTH)) * spread + 2 * spread).astype("float32")
    noise = 0.1 * draw.normal(size=(4, 4, WIDTH))
    queries = (keys[:, :4] - 2 * spread + noise).astype("float32")
    wanted = draw.normal(size=(4, 4, WIDTH)).astype("float32")
    q, k = keras.Input((4, WIDTH), name="q"), keras.Input((STEPS, WIDTH), name="k")
    dense = L.Dense(WIDTH, use_bias=False)
    model = keras.Model([q, k], L.Attention()([dense(q), k, k]))
    dense.set_weights([np.eye(WIDTH, dtype="float32")])
    model.save(tmp_path / "m.keras")
    for name, values in (("q", queries), ("k", keys), ("y", wanted)):
        np.save(tmp_path / f"{name}.npy", values)
    exact = gradient(queries, keys, wanted, "float64")
    rate = 10.0 ** np.ceil(1 - np.log10(np.linalg.norm(exact)))
    done = run_plimsoll(
        "fit", tmp_path / "m.keras", "--data", f"q={tmp_path / 'q.npy'}", "--data",
        f"k={tmp_path / 'k.npy'}", "--labels", tmp_path / "y.npy", "--no-shuffle", "--batch", 4,
        "--loss", "mse", "--optimizer", f"sgd(learning_rate={rate})", "--steps", 1, "--backend",
        backend, "--output", tmp_path / "o.keras",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (trained,) = keras.models.load_model(tmp_path / "o.keras", compile=False).get_weights()
    ours = (np.eye(WIDTH) - trained) / rate
    keras_error = np.linalg.norm(gradient(queries, keys, wanted, "float32") - exact)
    assert np.linalg.norm(ours - exact) <= 2 * keras_error + 1e-6 * np.linalg.norm(exact)
