"""Networks drawn at random, of sizes that people train: images or sequences, from usual blocks.

A seed and a number name one network for good: equal draws, equal files.
"""

import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from harness import Case
from keras import layers

COUNT = 3  # batches
CLASSES = 10
ACTIVATIONS = ["relu", "silu", "gelu", "elu", "leaky_relu", "hard_swish", "tanh"]

Block = Callable[[random.Random, Any, int], Any]


def normalized(rng: random.Random, x: Any) -> Any:
    """Batch normalization as a rule, and an activation."""
    if rng.random() < 0.8:
        x = layers.BatchNormalization()(x)
    return layers.Activation(rng.choice(ACTIVATIONS))(x)


def convolved(rng: random.Random, x: Any, filters: int, size: int, **options: Any) -> Any:
    bias = rng.random() < 0.3
    x = layers.Conv2D(filters, size, padding="same", use_bias=bias, **options)(x)
    return normalized(rng, x)


def plain(rng: random.Random, x: Any, filters: int) -> Any:
    x = convolved(rng, x, filters, rng.choice([3, 3, 5]), dilation_rate=rng.choice([1, 1, 2]))
    return layers.MaxPooling2D(rng.choice([2, 3]), 2, padding="same")(x)


def residual(rng: random.Random, x: Any, filters: int) -> Any:
    stride = rng.choice([1, 2])
    y = convolved(rng, x, filters, 3, strides=stride)
    y = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same")(y))
    if stride > 1 or x.shape[-1] != filters:
        x = layers.Conv2D(filters, 1, strides=stride, use_bias=False)(x)
    return layers.Activation("relu")(layers.Add()([x, y]))


def dense_block(rng: random.Random, x: Any, filters: int) -> Any:
    for _ in range(rng.randint(2, 4)):
        y = convolved(rng, x, filters, 1)
        x = layers.Concatenate()([x, convolved(rng, y, filters // 4, 3)])
    return layers.AveragePooling2D(2)(convolved(rng, x, filters, 1))


def inverted(rng: random.Random, x: Any, filters: int) -> Any:
    """Wider, depthwise, perhaps squeezed and excited, narrow again."""
    wide = x.shape[-1] * rng.choice([3, 4, 6])
    stride = rng.choice([1, 2])
    y = convolved(rng, x, wide, 1)
    y = layers.DepthwiseConv2D(rng.choice([3, 5]), strides=stride, padding="same")(y)
    y = normalized(rng, y)
    if rng.random() < 0.6:
        gate = layers.GlobalAveragePooling2D(keepdims=True)(y)
        gate = layers.Conv2D(max(wide // 16, 4), 1, activation="relu")(gate)
        y = layers.Multiply()([y, layers.Conv2D(wide, 1, activation="sigmoid")(gate)])
    y = layers.BatchNormalization()(layers.Conv2D(filters, 1, use_bias=False)(y))
    if stride == 1 and x.shape[-1] == filters:
        y = layers.Add()([x, layers.Dropout(0.1)(y)])
    return y


def branched(rng: random.Random, x: Any, filters: int) -> Any:
    """Convolutions of several windows beside each other, and a pooling."""
    each = filters // 4
    parts = [convolved(rng, x, each, 1), convolved(rng, convolved(rng, x, each, 1), each, 3)]
    parts.append(convolved(rng, convolved(rng, x, each, 1), each, (1, 7)))
    parts.append(convolved(rng, layers.AveragePooling2D(3, 1, padding="same")(x), each, 1))
    return layers.MaxPooling2D(2)(layers.Concatenate()(parts))


def patched(rng: random.Random, x: Any, filters: int) -> Any:
    """As ConvNeXt: a wide depthwise window, layer normalization, two dense layers."""
    x = layers.Conv2D(filters, 2, strides=2, padding="same")(x)
    y = layers.LayerNormalization()(layers.DepthwiseConv2D(7, padding="same")(x))
    y = layers.Dense(filters)(layers.Dense(rng.choice([2, 4]) * filters, activation="gelu")(y))
    return layers.Add()([x, y])


def upwards(rng: random.Random, x: Any, filters: int) -> Any:
    """Down and up again, as U-Net."""
    y = convolved(rng, x, filters, 3, strides=2)
    y = layers.Conv2DTranspose(filters, rng.choice([2, 4]), strides=2, padding="same")(y)
    x = layers.Concatenate()([x, y]) if x.shape[1] % 2 == 0 else x
    return layers.MaxPooling2D(2)(convolved(rng, x, filters, 3))


IMAGE_BLOCKS: list[Block] = [plain, residual, dense_block, inverted, branched, patched, upwards]


def images(rng: random.Random) -> tuple[keras.Model, tuple[int, ...]]:
    side, filters = rng.choice([64, 96, 112, 128]), rng.choice([16, 24, 32, 48])
    x = inputs = keras.Input((side, side, 3))
    x = convolved(rng, x, filters, rng.choice([3, 5, 7]), strides=rng.choice([1, 2]))
    for block in rng.choices(IMAGE_BLOCKS, k=rng.randint(3, 6)):
        filters = min(rng.choice([filters, filters * 2]), 384) // 4 * 4
        x = block(rng, x, filters)
    if rng.random() < 0.7 or x.shape[1] > 8:
        x = layers.GlobalAveragePooling2D()(x)
    else:
        x = layers.Dense(rng.choice([128, 512]), activation="relu")(layers.Flatten()(x))
    x = layers.Dropout(rng.choice([0.0, 0.3]))(x)
    return keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(x)), (side, side, 3)


def recurrent(rng: random.Random, x: Any, units: int) -> Any:
    layer = rng.choice([layers.LSTM, layers.GRU])(units, return_sequences=True)
    return layers.Bidirectional(layer)(x) if rng.random() < 0.3 else layer(x)


def causal(rng: random.Random, x: Any, units: int) -> Any:
    rate, size = rng.choice([1, 2, 4, 8]), rng.choice([2, 3, 5])
    y = layers.Conv1D(units, size, padding="causal", dilation_rate=rate)(x)
    y = layers.Activation(rng.choice(ACTIVATIONS))(y)
    return layers.Add()([x, y]) if x.shape[-1] == units else y


def attended(rng: random.Random, x: Any, units: int) -> Any:
    if x.shape[-1] != units:
        x = layers.Dense(units)(x)
    heads = rng.choice([2, 4, 8])
    y = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(heads, units // heads)(y, y)])
    y = layers.Dense(rng.choice([2, 4]) * units, activation="gelu")(layers.LayerNormalization()(x))
    return layers.Add()([x, layers.Dense(units)(y)])


SEQUENCE_BLOCKS: list[Block] = [recurrent, causal, attended, attended]


def sequences(rng: random.Random) -> tuple[keras.Model, tuple[int, ...]]:
    steps, features = rng.choice([64, 128, 200, 512]), rng.choice([8, 32, 64])
    units = rng.choice([64, 128, 192, 256])
    x = inputs = keras.Input((steps, features))
    for block in rng.choices(SEQUENCE_BLOCKS, k=rng.randint(2, 5)):
        x = block(rng, x, units)
    x = layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(x))
    return model, (steps, features)


def draw(seed: str, number: int) -> tuple[Case, int]:
    """The case of one network, and its batch."""
    rng = random.Random(f"{seed}/{number}")
    kind = images if rng.random() < 0.65 else sequences
    built = rng.getrandbits(32)
    shape = kind(random.Random(built))[1]
    batch = rng.choice([4, 8, 16, 32])
    numbers = np.random.default_rng(rng.getrandbits(32))
    x = numbers.random((COUNT * batch, *shape), dtype="float32")
    y = numbers.integers(0, CLASSES, COUNT * batch).astype("int32")

    def build() -> keras.Model:
        return kind(random.Random(built))[0]

    return Case(build, x, y, "sparse_categorical_crossentropy"), batch
