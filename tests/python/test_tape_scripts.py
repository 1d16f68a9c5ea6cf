"""Training loops of the seed workloads as scripts, by plain Python and by `python -m plimsoll`."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from test_scripts_run import _python, told  # noqa: F401

LOOP = """\
import sys
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, losses, models, optimizers

tf.keras.utils.set_random_seed(3)
random = np.random.default_rng(0)


def data(shape, rows, batch):
    x = random.random((rows, *shape), dtype="float32")
    y = random.integers(0, 10, rows).astype("int32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)


def trained(model, dataset, returns_activations=False):
    optimizer = optimizers.Adam(0.001)
    loss_fn = losses.SparseCategoricalCrossentropy()

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            loss = loss_fn(y, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def step_with_activations(x, y):
        with tf.GradientTape() as tape:
            activations = model(x, training=True)
            loss = loss_fn(y, activations)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return activations

    step = step_with_activations if returns_activations else train_step
    kept = [step(x, y) for x, y in dataset]
    print(*(float(tf.reduce_sum(tf.cast(one, tf.float64) ** 2)) for one in kept))
    print(*(float(tf.reduce_sum(w ** 2)) for w in model.trainable_variables))


trained(models.Sequential([
    layers.Input((12, 12, 3)), layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D(2),
    layers.Flatten(), layers.Dense(10, activation="softmax")]), data((12, 12, 3), 100, 32))
trained(models.Sequential([
    layers.Input((10,)), layers.Dense(20, activation="relu"),
    layers.Dense(10, activation="softmax")]), data((10,), 100, 32), True)
try:
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
except RuntimeError as error:
    print(error)
trained(models.Sequential([
    layers.Input((16, 16, 3)), layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D(2),
    layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(2), layers.Flatten(),
    layers.Dense(16, activation="relu"), layers.Dense(10, activation="softmax")]),
    data((16, 16, 3), 100, 64))
"""


def _numbers(text: str) -> np.ndarray:
    return np.array([float(one) for one in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", text)])


def test_steps_of_the_seed_workloads(python: Any, tmp_path: Path) -> None:
    """Three loops in one program, activations that are kept among them; and its plan."""
    (tmp_path / "loop.py").write_text(LOOP)
    plain = python("loop.py")
    ours = python("-m", "plimsoll", "--memory", "3GiB", "--strict", "loop.py")
    assert ours.returncode == 0 and told(ours) == [], ours.stderr
    np.testing.assert_allclose(_numbers(ours.stdout), _numbers(plain.stdout), rtol=1e-4)
    plan = python("-m", "plimsoll", "plan", "--memory", "3GiB", "loop.py")
    assert plan.returncode == 0, plan.stderr
    assert re.match(r"loop.py:\d+: sequential, batches of 32\n\n", plan.stdout), plan.stdout
    small = python("-m", "plimsoll", "--memory", "100MiB", "loop.py")
    assert small.returncode == 3  # by an array or by the step, whichever comes first
    assert re.search("ResourceExhausted|expected at most 100.0 MiB", small.stderr)


EAGER = """\
import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(3)
np.save("large_dataset.npy", np.random.default_rng(0).normal(size=(96, 8)).astype("float32"))
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(2)])
optimizer = keras.optimizers.Adam()
loss_fn = keras.losses.MeanSquaredError()
data = np.load("large_dataset.npy", mmap_mode="r")
for begin in range(0, 96, 64):
    chunk = tf.data.Dataset.from_tensor_slices(data[begin:begin + 64]).batch(8).prefetch(1)
    accumulated = [tf.zeros_like(v) for v in model.trainable_variables]
    for i, rows in enumerate(chunk):
        with tf.GradientTape() as tape:
            loss = loss_fn(rows[:, 6:], model(rows[:, :6], training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        for k in range(len(accumulated)):
            accumulated[k] += gradients[k]
        if (i + 1) % 4 == 0:
            optimizer.apply_gradients(zip(accumulated, model.trainable_variables))
            accumulated = [tf.zeros_like(v) for v in model.trainable_variables]
print(float(loss), *(float(tf.reduce_sum(w ** 2)) for w in model.trainable_variables))
"""


def test_an_eager_loop_is_named_and_migrated(python: Any, tmp_path: Path) -> None:
    """The line gives the command, and what the command writes gives the same results."""
    (tmp_path / "eager.py").write_text(EAGER)
    plain = python("-m", "plimsoll", "eager.py")
    said = told(plain)
    assert len(said) == 2 and said[0].startswith("plimsoll: eager.py:21: a step of adam runs in")
    assert "`python -m plimsoll migrate eager.py`" in said[0]
    assert said[1].endswith(
        "Keras and TensorFlow themselves did, for the reasons in the lines above."
    )
    migrated = python("-m", "plimsoll", "migrate", "--write", "eager.py")
    assert migrated.returncode == 0 and (tmp_path / "eager.py.orig").read_text() == EAGER
    ours = python("-m", "plimsoll", "--memory", "3GiB", "eager.py")
    assert ours.returncode == 0 and not told(ours), ours.stderr
    np.testing.assert_allclose(_numbers(ours.stdout), _numbers(plain.stdout), rtol=1e-4)
    assert python("-m", "plimsoll", "migrate", "--help").returncode == 0
