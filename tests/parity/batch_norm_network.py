"""A small network with two BatchNormalization layers, for 32×32×3 images of ten classes."""

import keras
from keras import layers as L


def network() -> keras.Model:
    def block(filters: int, x: keras.KerasTensor) -> keras.KerasTensor:
        x = L.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        return L.ReLU()(L.BatchNormalization()(x))

    x = keras.Input((32, 32, 3))
    y = block(32, L.MaxPooling2D(2)(block(16, x)))
    return keras.Model(x, L.Dense(10)(L.GlobalAveragePooling2D()(y)))


def loss() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
