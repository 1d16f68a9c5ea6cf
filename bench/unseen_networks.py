"""Networks that nothing was tuned on, as people train them: keras.applications and our own."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from harness import Case
from keras import layers

COUNT = 3  # batches

# Batch, and the side of the images.
APPLICATIONS = {
    "EfficientNetB0": (32, 224),
    "EfficientNetV2B0": (16, 224),
    "DenseNet121": (16, 224),
    "Xception": (16, 299),
    "InceptionV3": (16, 299),
    "NASNetMobile": (32, 224),
    "ConvNeXtTiny": (8, 224),
    "VGG16": (8, 224),
    "ResNet50V2": (32, 224),
    "MobileNetV3Large": (32, 224),
}
SEQUENCES = {
    "LSTM3": 32,
    "WaveNet": 8,
    "ViT-small": 16,
    "BERT-small": 16,
    "DCGAN": 64,
    "LSTM-autoencoder": 32,
}
BATCHES = {name: batch for name, (batch, _) in APPLICATIONS.items()} | SEQUENCES


def lstm3() -> keras.Model:
    """Three LSTM layers of 256 units over 200 steps of 64 features; ten classes."""
    x = inputs = keras.Input((200, 64))
    for last in (False, False, True):
        x = layers.LSTM(256, return_sequences=not last)(x)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x))


def wavenet(steps: int = 4096, channels: int = 64, classes: int = 256) -> keras.Model:
    """Gated causal convolutions with dilations 1 to 512, residual and skip paths."""
    inputs = keras.Input((steps, 1))
    x = layers.Conv1D(channels, 2, padding="causal")(inputs)
    skips = []
    for step in range(10):
        options: dict[str, Any] = {"padding": "causal", "dilation_rate": 2**step}
        gate = layers.Multiply()([
            layers.Conv1D(channels, 2, activation="tanh", **options)(x),
            layers.Conv1D(channels, 2, activation="sigmoid", **options)(x),
        ])  # fmt: skip
        skips.append(layers.Conv1D(channels, 1)(gate))
        x = layers.Add()([x, layers.Conv1D(channels, 1)(gate)])
    x = layers.Activation("relu")(layers.Add()(skips))
    x = layers.Conv1D(channels, 1, activation="relu")(x)
    return keras.Model(inputs, layers.Conv1D(classes, 1, activation="softmax")(x))


def encoder(x: Any, blocks: int, width: int, heads: int, before: bool) -> Any:
    """Transformer blocks, normalized before their parts (as ViT) or after them (as BERT)."""
    for _ in range(blocks):
        y = layers.LayerNormalization(epsilon=1e-6)(x) if before else x
        x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(y, y)])
        if not before:
            x = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.LayerNormalization(epsilon=1e-6)(x) if before else x
        y = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(y))
        x = layers.Add()([x, y])
        if not before:
            x = layers.LayerNormalization(epsilon=1e-6)(x)
    return x


def vit_small() -> keras.Model:
    """Patches of 16 × 16, 12 blocks of 384 units with 6 heads; mean of the patches."""
    inputs = keras.Input((224, 224, 3))
    x = layers.Reshape((196, 384))(layers.Conv2D(384, 16, strides=16)(inputs))
    x = x + layers.Embedding(196, 384)(keras.ops.arange(196))
    x = layers.LayerNormalization(epsilon=1e-6)(encoder(x, 12, 384, 6, before=True))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(1000, activation="softmax")(x))


def bert_small(words: int = 30522, steps: int = 128) -> keras.Model:
    """Four blocks of 512 units with 8 heads; two classes of the first token."""
    inputs = keras.Input((steps,), dtype="int32")
    x = layers.Embedding(words, 512)(inputs) + layers.Embedding(steps, 512)(keras.ops.arange(steps))
    x = encoder(layers.LayerNormalization(epsilon=1e-6)(x), 4, 512, 8, before=False)
    first = layers.Flatten()(layers.Cropping1D((0, steps - 1))(x))
    return keras.Model(inputs, layers.Dense(2, activation="softmax")(
        layers.Dense(512, activation="tanh")(first)))  # fmt: skip


def dcgan() -> keras.Model:
    """The generator's step: 100 numbers become images, which a frozen discriminator judges."""
    x = noise = keras.Input((100,))
    x = layers.Reshape((4, 4, 512))(layers.Dense(4 * 4 * 512, use_bias=False)(x))
    for filters in (256, 128, 64):
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.Conv2DTranspose(filters, 4, strides=2, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    generator = keras.Model(
        noise, layers.Conv2DTranspose(3, 4, strides=2, padding="same", activation="tanh")(x)
    )
    x = images = keras.Input((64, 64, 3))
    for filters in (64, 128, 256, 512):
        x = layers.LeakyReLU()(layers.Conv2D(filters, 4, strides=2, padding="same")(x))
    x = layers.Dense(1, activation="sigmoid")(layers.Flatten()(x))
    discriminator = keras.Model(images, x)
    discriminator.trainable = False
    inputs = keras.Input((100,))
    return keras.Model(inputs, discriminator(generator(inputs)))


def lstm_autoencoder() -> keras.Model:
    """100 steps of 16 features become 64 numbers and are made again from them."""
    x = inputs = keras.Input((100, 16))
    x = layers.LSTM(64)(layers.LSTM(128, return_sequences=True)(x))
    x = layers.LSTM(64, return_sequences=True)(layers.RepeatVector(100)(x))
    x = layers.LSTM(128, return_sequences=True)(x)
    return keras.Model(inputs, layers.TimeDistributed(layers.Dense(16))(x))


def application(name: str, batch: int, side: int) -> Case:
    rng = np.random.default_rng(11)
    x = rng.random((COUNT * batch, side, side, 3), dtype="float32")
    y = rng.integers(0, 1000, COUNT * batch).astype("int32")
    build = getattr(keras.applications, name)
    return Case(lambda: build(weights=None, input_shape=(side, side, 3)), x, y,
                "sparse_categorical_crossentropy")  # fmt: skip


def sequence(name: str, batch: int) -> Case:
    rng = np.random.default_rng(12)
    count = COUNT * batch
    classes = "sparse_categorical_crossentropy"

    def numbers(*shape: int) -> np.ndarray:
        return rng.random((count, *shape), dtype="float32")

    def ids(limit: int, *shape: int) -> np.ndarray:
        return rng.integers(0, limit, (count, *shape)).astype("int32")

    cases: dict[str, tuple[Callable[[], keras.Model], np.ndarray, np.ndarray, str]] = {
        "LSTM3": (lstm3, numbers(200, 64), ids(10), classes),
        "WaveNet": (wavenet, numbers(4096, 1), ids(256, 4096), classes),
        "ViT-small": (vit_small, numbers(224, 224, 3), ids(1000), classes),
        "BERT-small": (bert_small, ids(30522, 128), ids(2), classes),
        "DCGAN": (dcgan, numbers(100), np.ones((count, 1), "float32"), "binary_crossentropy"),
    }
    if name == "LSTM-autoencoder":
        x = numbers(100, 16)
        return Case(lstm_autoencoder, x, x, "mean_squared_error")
    return Case(*cases[name])


def network(name: str) -> tuple[Case, int]:
    """The case of one of `BATCHES`, and its batch."""
    if name in APPLICATIONS:
        batch, side = APPLICATIONS[name]
        return application(name, batch, side), batch
    return sequence(name, SEQUENCES[name]), SEQUENCES[name]
