"""Layers over time and over images, and what merges them: what Keras and Plimsoll must agree on."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from cases import BATCH, RNG, images, lazy, regress
from harness import Case
from keras import layers as L

SEQUENCE, IMAGE = (11, 4), (9, 8, 4)
FIRST: dict[str, Any] = {"data_format": "channels_first"}


def sequence_cases() -> dict[str, Case]:
    def on(layer: Callable[..., L.Layer], *args: Any, **kwargs: Any) -> Case:
        return regress(SEQUENCE, lazy(layer, *args, **kwargs))

    return {
        "conv1d valid": on(L.Conv1D, 5, 3),
        "conv1d same strided": on(L.Conv1D, 5, 4, strides=2, padding="same", activation="relu"),
        "conv1d causal": on(L.Conv1D, 5, 3, padding="causal"),
        "conv1d causal dilated": on(
            L.Conv1D, 6, 2, padding="causal", dilation_rate=3, use_bias=False
        ),
        "conv1d groups": on(L.Conv1D, 6, 3, groups=2, activation="softmax"),
        "conv1d twice": regress(
            SEQUENCE, lazy(L.Conv1D, 16, 3, activation="relu"), lazy(L.MaxPooling1D, 2),
            lazy(L.Conv1D, 16, 3, padding="same", activation="sigmoid"),
        ),
        "zeros before conv1d": regress(
            SEQUENCE, lazy(L.ZeroPadding1D, 2), lazy(L.Conv1D, 4, 3, strides=2),
        ),
        "conv1d transpose": on(L.Conv1DTranspose, 5, 3, strides=2),
        "conv1d transpose same": on(L.Conv1DTranspose, 5, 3, strides=2, padding="same"),
        "separable conv1d": on(L.SeparableConv1D, 6, 3, depth_multiplier=2, padding="same"),
        "separable conv1d strided": on(L.SeparableConv1D, 6, 3, strides=2, activation="relu"),
        "depthwise conv1d": on(L.DepthwiseConv1D, 3, depth_multiplier=2, activation="tanh"),
        "depthwise conv1d dilated": on(L.DepthwiseConv1D, 2, dilation_rate=2, padding="same"),
        "max pooling1d": on(L.MaxPooling1D, 2),
        "max pooling1d same": on(L.MaxPooling1D, 3, strides=2, padding="same"),
        "average pooling1d": on(L.AveragePooling1D, 3, strides=1),
        "average pooling1d same": on(L.AveragePooling1D, 4, padding="same"),
        "global max pooling1d": on(L.GlobalMaxPooling1D),
        "global max pooling1d keepdims": on(L.GlobalMaxPooling1D, keepdims=True),
        "global average pooling1d": on(L.GlobalAveragePooling1D),
        "global average pooling1d keepdims": on(L.GlobalAveragePooling1D, keepdims=True),
        "zero padding1d": on(L.ZeroPadding1D, (1, 3)),
        "cropping1d": on(L.Cropping1D, (2, 1)),
        "up sampling1d": on(L.UpSampling1D, 3),
    }  # fmt: skip


def image_cases() -> dict[str, Case]:
    def on(layer: Callable[..., L.Layer], *args: Any, **kwargs: Any) -> Case:
        return regress(IMAGE, lazy(layer, *args, **kwargs))

    return {
        "conv transpose": on(L.Conv2DTranspose, 5, 3),
        "conv transpose strides": on(L.Conv2DTranspose, 5, 2, strides=2, activation="relu"),
        "conv transpose same": on(L.Conv2DTranspose, 16, 3, strides=2, padding="same"),
        "conv transpose same 3": on(L.Conv2DTranspose, 3, (4, 5), strides=(2, 3), padding="same"),
        "conv transpose kernel below strides": on(L.Conv2DTranspose, 5, 2, strides=3),
        "conv transpose output padding": on(
            L.Conv2DTranspose, 5, 3, strides=2, output_padding=1, use_bias=False
        ),
        "conv transpose same output padding": on(
            L.Conv2DTranspose, 5, 3, strides=2, padding="same", output_padding=(1, 0)
        ),
        "conv transposes": regress(
            (4, 4, 3), lazy(L.Conv2DTranspose, 16, 2, strides=2), lazy(L.ReLU),
            lazy(L.Conv2DTranspose, 8, 4, strides=2, padding="same"),
        ),
        "depthwise": on(L.DepthwiseConv2D, 3),
        "depthwise same strided": on(L.DepthwiseConv2D, 3, strides=2, padding="same"),
        "depthwise multiplier": on(L.DepthwiseConv2D, (3, 2), depth_multiplier=3, use_bias=False),
        "depthwise dilated": on(L.DepthwiseConv2D, 3, dilation_rate=2, padding="same"),
        "depthwise wide": regress(
            IMAGE, lazy(L.Conv2D, 32, 1), lazy(L.DepthwiseConv2D, 3, padding="same"),
            lazy(L.ReLU, 6.0),
        ),
        "separable": on(L.SeparableConv2D, 6, 3),
        "separable same strided": on(
            L.SeparableConv2D, 6, (3, 2), strides=2, padding="same", activation="relu"
        ),
        "separable multiplier": on(L.SeparableConv2D, 6, 3, depth_multiplier=2, use_bias=False),
        "cropping": on(L.Cropping2D, ((1, 2), (0, 3))),
        "zeros before a convolution": regress(
            IMAGE, lazy(L.ZeroPadding2D, ((2, 0), (1, 2))), lazy(L.Conv2D, 5, 3, strides=2),
            lazy(L.ZeroPadding2D, ((0, 1), (0, 1))), lazy(L.DepthwiseConv2D, 3),
        ),
        "zeros before a dilated one": regress(
            IMAGE, lazy(L.ZeroPadding2D, 3), lazy(L.Conv2D, 5, 3, padding="same", dilation_rate=3),
        ),
        "zero padding of one number": on(L.ZeroPadding2D, 2),
        "up sampling": on(L.UpSampling2D, (2, 3)),
        "up sampling bilinear": on(L.UpSampling2D, (2, 3), interpolation="bilinear"),
        "up sampling bilinear 4": on(L.UpSampling2D, 4, interpolation="bilinear"),
        "identity": on(L.Identity),
    }  # fmt: skip


def channels_first_cases() -> dict[str, Case]:
    """Keras on the CPU has no channels_first convolution: its layout is tried where it does."""
    image = (4, 9, 8)

    def on(layer: Callable[..., L.Layer], *args: Any, **kwargs: Any) -> Case:
        return regress(image, lazy(layer, *args, **kwargs, **FIRST))

    return {
        "first depthwise": on(L.DepthwiseConv2D, 3, activation="relu"),
        # Not as many filters as columns: Keras would add the bias to columns then.
        "first separable": on(L.SeparableConv2D, 5, 3),
        "first global max pooling": on(L.GlobalMaxPooling2D, keepdims=True),
        "first global average pooling": on(L.GlobalAveragePooling2D),
        "first zero padding": on(L.ZeroPadding2D, ((1, 0), (2, 3))),
        "first cropping": on(L.Cropping2D, ((1, 0), (2, 3))),
        "first up sampling": on(L.UpSampling2D, (2, 3)),
        "first flatten": regress(image, lazy(L.Flatten, **FIRST)),
        "first batch normalization": regress(image, lazy(L.BatchNormalization, axis=1)),
        # Without a bias: after it the batch's mean goes, and its gradient is rounding alone.
        "first chain": regress(
            image, lazy(L.DepthwiseConv2D, 3, use_bias=False, **FIRST),
            lazy(L.BatchNormalization, axis=1),
            lazy(L.ReLU), lazy(L.ZeroPadding2D, 1, **FIRST), lazy(L.Activation, "tanh"),
            lazy(L.SeparableConv2D, 5, 3, **FIRST), lazy(L.Flatten, **FIRST),
        ),
        "first sequence": regress((4, 11), lazy(L.GlobalAveragePooling1D, **FIRST)),
        "first separable conv1d": regress((4, 11), lazy(L.SeparableConv1D, 6, 3, **FIRST)),
    }  # fmt: skip


def merged(merge: Callable[[], L.Layer], branches: int) -> Callable[[], keras.Model]:
    def build() -> keras.Model:
        x = keras.Input((6, 5))
        parts = [L.Dense(4, activation="tanh")(x) for _ in range(branches)]
        return keras.Model(x, L.Dense(3)(L.Flatten()(merge()(parts))))

    return build


def merge_cases() -> dict[str, Case]:
    merges = {
        "subtract": (L.Subtract, 2),
        "multiply": (L.Multiply, 3),
        "average": (L.Average, 3),
        "maximum": (L.Maximum, 3),
        "minimum": (L.Minimum, 2),
    }
    return {
        name: Case(merged(make, count), images(6, 5), images(3), "mse")
        for name, (make, count) in merges.items()
    }


def further_loss_cases() -> dict[str, Case]:
    losses = keras.losses
    x = images(12)

    def case(activation: str, units: int, y: np.ndarray, loss: Any) -> Case:
        build = lambda: keras.Sequential(  # noqa: E731
            [keras.Input((12,)), L.Dense(9, "tanh"), L.Dense(units, activation)]
        )
        return Case(build, x, y, loss)

    def one_hot(count: int) -> np.ndarray:
        return np.eye(count, dtype="float32")[RNG.integers(0, count, BATCH)]

    positive = RNG.random((BATCH, 5)).astype("float32") + 0.1
    simplex = positive / positive.sum(-1, keepdims=True)
    binary = RNG.integers(0, 2, (BATCH, 5)).astype("float32")
    focal = losses.BinaryFocalCrossentropy
    return {
        "mape": case("linear", 5, positive, "mape"),
        "msle": case("softplus", 5, positive, "msle"),
        # Keras does not save another delta.
        "huber": case("linear", 5, images(5), losses.Huber()),
        "log cosh": case("linear", 5, images(5), "log_cosh"),
        "hinge": case("linear", 5, binary, "hinge"),
        "hinge of signs": case("linear", 5, 2 * binary - 1, "hinge"),
        "squared hinge": case("linear", 5, binary, "squared_hinge"),
        "categorical hinge": case("linear", 5, one_hot(5), "categorical_hinge"),
        "kl divergence": case("softmax", 5, simplex, "kl_divergence"),
        "poisson": case("softplus", 5, positive, "poisson"),
        "cosine similarity": case("linear", 5, images(5), "cosine_similarity"),
        "focal after sigmoid": case("sigmoid", 5, binary, focal()),
        "focal after softmax": case("softmax", 5, binary, focal()),
        "focal after softmax, balanced": case(
            "softmax", 5, binary, focal(True, alpha=0.4, gamma=1.5)
        ),
        "focal of a softmax as logits": case("softmax", 5, binary, focal(from_logits=True)),
        "focal of a sigmoid as logits": case("sigmoid", 5, binary, focal(from_logits=True)),
        "focal on probabilities": case("hard_sigmoid", 5, binary, focal(gamma=1.5)),
        "focal from logits": case(
            "linear", 5, binary, focal(True, alpha=0.4, from_logits=True, label_smoothing=0.1)
        ),
        "categorical focal": case("softmax", 5, one_hot(5), "categorical_focal_crossentropy"),
        "categorical focal from logits": case(
            "linear", 5, one_hot(5), losses.CategoricalFocalCrossentropy(0.5, 1.0, from_logits=True)
        ),
    }


FURTHER_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adagrad": lambda: keras.optimizers.Adagrad(0.02),
    "adadelta": lambda: keras.optimizers.Adadelta(0.5, rho=0.9),
    "adamax": lambda: keras.optimizers.Adamax(0.003),
    "nadam": lambda: keras.optimizers.Nadam(0.003),
    "ftrl": lambda: keras.optimizers.Ftrl(
        0.05, l1_regularization_strength=0.001, l2_regularization_strength=0.01, beta=0.1
    ),
    "ftrl shrinkage": lambda: keras.optimizers.Ftrl(
        # Sums this small move with the gradients, so that disturbed runs round them apart.
        0.05,
        initial_accumulator_value=0.01,
        l2_shrinkage_regularization_strength=0.01,
        learning_rate_power=-0.6,
    ),  # fmt: skip
    "lion": lambda: keras.optimizers.Lion(0.001, weight_decay=0.01),
    "lamb": lambda: keras.optimizers.Lamb(0.003, weight_decay=0.01),
    "adafactor": lambda: keras.optimizers.Adafactor(0.02, clip_threshold=0.8, weight_decay=0.1),
    "muon": lambda: keras.optimizers.Muon(0.003, adam_lr_ratio=0.5, rms_rate=0.3),
    "muon without": lambda: keras.optimizers.Muon(
        0.003, nesterov=False, rms_rate=None, weight_decay=None, exclude_layers=["wi.e/k"]
    ),
    "schedule free": lambda: keras.optimizers.ScheduleFreeAdamW(
        0.01, warmup_steps=3, weight_decay=0.01
    ),
}
