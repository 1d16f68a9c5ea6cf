"""Values of several shapes that meet: repeating merges, products, attention over images, noise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import Case, assert_one_step, build_in, plimsoll_gradients
from keras import layers as L

RNG = np.random.default_rng(21)
BATCH = 7


def case(shape: tuple[int, ...], call: Callable[[Any], Any]) -> Case:
    """One input, a small head, a mean square."""

    def build() -> keras.Model:
        x = keras.Input(shape)
        return keras.Model(x, L.Dense(3)(L.Flatten()(call(x))))

    x = RNG.normal(0, 1, (BATCH, *shape)).astype("float32")
    return Case(build, x, RNG.normal(0, 1, (BATCH, 3)).astype("float32"), "mse")


def squeeze_and_excite(x: Any) -> Any:
    y = L.GlobalAveragePooling2D(keepdims=True)(x)
    y = L.Conv2D(2, 1, activation="silu")(y)
    return L.Multiply()([x, L.Conv2D(4, 1, activation="sigmoid")(y)])


IMAGE, VECTOR, STEPS = (6, 5, 4), (6,), (5, 6)
CASES = {
    "squeeze and excite": case(IMAGE, squeeze_and_excite),
    "scale of the left": case(
        IMAGE, lambda x: L.Multiply()([L.GlobalMaxPooling2D(keepdims=True)(x), x])
    ),
    "fewer dimensions": case(
        IMAGE, lambda x: L.Add()([x, L.Dense(4)(L.GlobalAveragePooling2D()(x))])
    ),
    "both repeat": case(
        STEPS, lambda x: L.Subtract()([L.Dense(1)(x), L.GlobalMaxPooling1D(keepdims=True)(x)])
    ),
    "three shapes": case(
        STEPS,
        lambda x: L.Average()(
            [L.Dense(1)(x), L.GlobalAveragePooling1D(keepdims=True)(x), L.Dense(6)(x)]
        ),
    ),
    "largest of rows": case(
        STEPS, lambda x: L.Maximum()([x, L.GlobalAveragePooling1D(keepdims=True)(x)])
    ),
    "dot of vectors": case(VECTOR, lambda x: L.Dot(1)([L.Dense(4)(x), L.Dense(4)(x)])),
    "cosine of vectors": case(
        VECTOR, lambda x: L.Dot(-1, normalize=True)([L.Dense(4)(x), L.Dense(4)(x)])
    ),
    "dot of matrices": case(STEPS, lambda x: L.Dot((1, 1))([x, L.Dense(3)(x)])),
    "dot of rows": case(STEPS, lambda x: L.Dot((2, 2))([x, L.Dense(6)(x)])),
    "dot across": case(STEPS, lambda x: L.Dot((2, 1))([L.Dense(5)(x), x])),
    "dot of a vector and a matrix": case(
        STEPS, lambda x: L.Dot((1, 2))([L.GlobalMaxPooling1D()(x), x])
    ),
    "dot of a matrix and a vector": case(
        STEPS, lambda x: L.Dot((2, 1))([x, L.GlobalMaxPooling1D()(x)])
    ),
    "dot of images": case(IMAGE, lambda x: L.Dot((2, 2), normalize=True)([x, L.Conv2D(3, 1)(x)])),
    "unit vectors": case(STEPS, lambda x: L.UnitNormalization()(L.Dense(3)(x))),
    "unit columns": case(STEPS, lambda x: L.UnitNormalization(axis=1)(L.Dense(3)(x))),
    # Without a key's bias: its gradient is nothing but rounding.
    "attention over an image": case(
        IMAGE, lambda x: L.MultiHeadAttention(2, 3, use_bias=False)(x, x)
    ),
    "attention over an image, axes given": case(
        (3, 2, 4),
        lambda x: L.MultiHeadAttention(2, 3, value_dim=5, attention_axes=(1, 2))(
            x, L.Conv2D(6, 1)(x)
        ),
    ),
    "noise of nothing": case(STEPS, lambda x: L.Dropout(0.0, noise_shape=(None, 1, 6))(x)),
}


@pytest.mark.parametrize("name", CASES)
def test_layer(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, CASES[name])


def kept_by(folder: Path, layer: Callable[[], L.Layer], shape: tuple[int, ...]) -> np.ndarray:
    """Which elements of a sample a layer that drops keeps.

    The gradient of a dense layer after the dropout is zero exactly where its input was dropped.
    """

    def build() -> keras.Model:
        return keras.Sequential([keras.Input(shape), layer(), L.Flatten(), L.Dense(1)])

    x = np.ones((1, *shape), "float32")
    one = Case(build, x, np.full((1, 1), 5, "float32"), "mse")
    weights = build_in("float32", one, None).get_weights()
    _, gradients = plimsoll_gradients(folder, one, weights, "--seed", 3)
    assert len(np.unique(np.round(gradients[0][gradients[0] != 0], 4))) <= 1
    return gradients[0].reshape(shape) != 0


@pytest.mark.parametrize("axes", [(1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3)])
def test_noise_shape(axes: tuple[int, ...], tmp_path: Path) -> None:
    """Elements along an axis of 1 are dropped together, others are drawn for themselves."""
    shape = (8, 7, 6)
    noise = [None, *(1 if d in axes else n for d, n in enumerate(shape, 1))]
    kept = kept_by(tmp_path, lambda: L.Dropout(0.4, noise_shape=noise), shape)
    drawn = np.take(kept, 0, axis=axes[0] - 1)
    assert (kept == kept.min(axis=tuple(d - 1 for d in axes), keepdims=True)).all()
    if len(axes) < 3:
        assert 0.1 < kept.mean() < 0.95, kept.mean()
        assert drawn.min() != drawn.max()


@pytest.mark.parametrize("channels", ["first", "last"])
def test_spatial_dropout(channels: str, tmp_path: Path) -> None:
    """Channels are kept or dropped whole."""
    shape = (16, 3, 4) if channels == "first" else (3, 4, 16)
    kept = kept_by(
        tmp_path, lambda: L.SpatialDropout2D(0.4, data_format=f"channels_{channels}"), shape
    )
    of_channels = kept.reshape(16, 12) if channels == "first" else kept.reshape(12, 16).T
    assert (of_channels == of_channels[:, :1]).all()
    assert 0.2 < kept.mean() < 0.95
