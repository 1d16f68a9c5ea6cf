"""A causal transformer with learned positions: files, one step, many steps."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import Case, assert_many_steps, assert_one_step, run_plimsoll, save_case
from keras import layers as L


def transformer(layers: int, width: int, heads: int, length: int, vocabulary: int) -> keras.Model:
    """Pre-norm, positions added by an operator node, untied output without a bias."""
    tokens = keras.Input((length,), dtype="int32")
    places = L.Embedding(length, width)(keras.ops.arange(length))
    x = L.Embedding(vocabulary, width)(tokens) + places
    for _ in range(layers):
        y = L.LayerNormalization(epsilon=1e-5)(x)
        y = L.MultiHeadAttention(heads, width // heads)(y, y, use_causal_mask=True)
        x = L.Add()([x, y])
        y = L.LayerNormalization(epsilon=1e-5)(x)
        x = L.Add()([x, L.Dense(width)(L.Dense(4 * width, activation="gelu")(y))])
    x = L.LayerNormalization(epsilon=1e-5)(x)
    return keras.Model(tokens, L.Dense(vocabulary, use_bias=False, dtype="float32")(x))


def case(*sizes: int, samples: int = 13) -> Case:
    length, vocabulary = sizes[3], sizes[4]
    rng = np.random.default_rng(4)
    text = rng.integers(0, vocabulary, (samples, length + 1)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Case(lambda: transformer(*sizes), text[:, :-1], text[:, 1:], loss)


# The last one has so many logits that they are never kept.
@pytest.mark.parametrize("sizes", [(1, 8, 2, 7, 11), (2, 12, 3, 33, 50), (1, 8, 2, 512, 8200)])
def test_one_step(sizes: tuple[int, ...], tmp_path: Path) -> None:
    # A bias of keys moves no probability: its gradient is what rounding leaves of a sum.
    assert_one_step(tmp_path, case(*sizes), zero=5e-9)


# Against a table of 40 rows for each token read, and against a small one, whose rows are read
# several times in each step.
@pytest.mark.parametrize(
    "optimizer, sizes",
    [
        ("SGD", (2, 8, 2, 5, 200)),
        ("Adam", (1, 8, 2, 9, 11)),
        pytest.param("Adam", (2, 8, 2, 5, 200), marks=pytest.mark.nightly),
        pytest.param("SGD", (1, 8, 2, 9, 11), marks=pytest.mark.nightly),
    ],
)
def test_many_steps(optimizer: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    make = {"Adam": lambda: keras.optimizers.Adam(0.003), "SGD": lambda: keras.optimizers.SGD(0.1)}
    assert_many_steps(tmp_path, case(*sizes), make[optimizer], 4, 10)


def small_table() -> keras.Model:
    tokens = keras.Input((9,), dtype="int32")
    x = L.Flatten()(L.Embedding(7, 5)(tokens))
    return keras.Model(tokens, L.Dense(4)(x))


@pytest.mark.parametrize(
    "optimizer",
    [
        {"class_name": "RMSprop", "config": {"learning_rate": 0.003}},
        {"class_name": "Adagrad", "config": {"learning_rate": 0.02}},
        {"class_name": "Adadelta", "config": {"learning_rate": 1.0}},
        {"class_name": "Adamax", "config": {"learning_rate": 0.003}},
        # 1 - 0.999^t in float32 depends on the last bit of the power.
        {"class_name": "Nadam", "config": {"learning_rate": 0.003, "beta_2": 0.9}},
        {"class_name": "Ftrl", "config": {"learning_rate": 0.02}},
    ],
)
def test_rows_that_are_read_several_times(optimizer: dict[str, Any], tmp_path: Path) -> None:
    """Nine reads a sample of a table of seven rows: Keras squares each read's gradient."""
    rng = np.random.default_rng(6)
    x = rng.integers(0, 7, (12, 9)).astype("int32")
    y = rng.normal(0, 1, (12, 4)).astype("float32")
    small = Case(small_table, x, y, keras.losses.MeanSquaredError())
    assert_many_steps(tmp_path, small, lambda: keras.optimizers.get(optimizer), 4, 12)


def test_a_limit_changes_no_bit(tmp_path: Path) -> None:
    """The same weights at several limits down to the smallest one of the same bits."""
    model = case(2, 16, 2, 19, 700)
    weights = keras.Model.get_weights(model.build())
    arguments = save_case(tmp_path, model, weights, keras.optimizers.Adam(0.01))
    written = []
    for limit in ("64MiB", "48MiB"):
        run_plimsoll(
            "fit", *arguments, "--batch", 6, "--steps", 5, "--epochs", 9, "--no-shuffle",
            "--memory", limit, "--output", tmp_path / f"{limit}.keras",
        )  # fmt: skip
        written.append(keras.saving.load_model(tmp_path / f"{limit}.keras").get_weights())
    for a, b in zip(*written):
        np.testing.assert_array_equal(a, b)
