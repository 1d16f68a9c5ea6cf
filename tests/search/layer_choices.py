"""What a layer may be given: its options by name, each with a way to draw a value.

`ranks` are those of its input without the batch. Options in `must` are always drawn, those in `may`
now and then, so that defaults are met as well. A drawn configuration that Keras refuses is drawn
again, so nothing here has to be exact.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]
Draw = Callable[[random.Random, Shape], Any]


@dataclass(frozen=True)
class Choice:
    """One layer."""

    ranks: tuple[int, ...]
    must: dict[str, Draw] = field(default_factory=dict)
    may: dict[str, Draw] = field(default_factory=dict)
    call: dict[str, Draw] = field(default_factory=dict)


def one_of(*values: Any) -> Draw:
    return lambda rng, shape: rng.choice(values)


def number(low: float, high: float) -> Draw:
    return lambda rng, shape: round(rng.uniform(low, high), 3)


def whole(low: int, high: int) -> Draw:
    return lambda rng, shape: rng.randint(low, high)


def class_of(name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": name, "config": config}


off, on = one_of(False), one_of(True)

ACTIVATIONS = (
    "relu relu6 leaky_relu sigmoid tanh elu celu selu softplus softsign exponential gelu silu "
    "hard_sigmoid hard_silu hard_tanh hard_shrink soft_shrink tanh_shrink mish log_sigmoid "
    "squareplus sparse_plus sparse_sigmoid linear softmax log_softmax swish hard_swish"
).split()


def activation(rng: random.Random, shape: Shape) -> Any:
    if rng.random() < 0.06:
        return rng.choice(
            [
                {"layer": "LeakyReLU", "config": {"negative_slope": 0.1}},
                {"layer": "ReLU", "config": {"max_value": 1.5}},
                {"layer": "ELU", "config": {"alpha": 0.4}},
                {"layer": "PReLU", "config": {}},
            ]
        )
    return rng.choice(ACTIVATIONS)


def initializer(rng: random.Random, shape: Shape) -> Any:
    return rng.choice(
        [
            *("GlorotNormal", "HeNormal", "HeUniform", "LecunNormal", "LecunUniform", "Zeros"),
            *("Ones", "RandomNormal", "RandomUniform", "TruncatedNormal", "glorot_uniform"),
            class_of("Constant", value=round(rng.uniform(-0.5, 0.5), 2)),
            class_of("RandomNormal", mean=0.1, stddev=0.3),
            class_of("RandomUniform", minval=-0.3, maxval=0.4),
            class_of("TruncatedNormal", mean=-0.1, stddev=0.2),
            class_of(
                "VarianceScaling",
                scale=rng.choice([0.5, 2.0]),
                mode=rng.choice(["fan_in", "fan_out", "fan_avg"]),
                distribution=rng.choice(["uniform", "truncated_normal", "untruncated_normal"]),
            ),
        ]
    )


def matrix_initializer(rng: random.Random, shape: Shape) -> Any:
    if rng.random() < 0.2:
        return rng.choice(["Orthogonal", class_of("Orthogonal", gain=0.5), "Identity"])
    return initializer(rng, shape)


def regularizer(rng: random.Random, shape: Shape) -> Any:
    value = lambda: round(rng.uniform(0.001, 0.1), 4)  # noqa: E731
    return rng.choice(
        [
            "l2",
            class_of("L1", l1=value()),
            class_of("L2", l2=value()),
            class_of("L1L2", l1=value(), l2=value()),
        ]
    )


def constraint(rng: random.Random, shape: Shape) -> Any:
    axis = rng.choice([0, 0, -1])
    return rng.choice(
        [
            "NonNeg",
            class_of("MaxNorm", max_value=round(rng.uniform(0.3, 2), 2), axis=axis),
            class_of("UnitNorm", axis=axis),
            class_of("MinMaxNorm", min_value=0.3, max_value=0.9, rate=0.8, axis=axis),
        ]
    )


def seldom(draw: Draw) -> Draw:
    """Nothing, mostly: for what would otherwise end most of the models that have it."""
    return lambda rng, shape: draw(rng, shape) if rng.random() < 0.2 else None


def weight(name: str, draw: Draw = initializer, constrained: bool = True) -> dict[str, Draw]:
    """The options that a weight brings with it."""
    options = {f"{name}_initializer": draw, f"{name}_regularizer": regularizer}
    if constrained:
        options[f"{name}_constraint"] = constraint
    return options


def window(low: int, high: int, axes: int) -> Draw:
    """A kernel's size or stride: one number, or one for each axis."""

    def draw(rng: random.Random, shape: Shape) -> Any:
        if rng.random() < 0.6:
            return rng.randint(low, high)
        return [rng.randint(low, high) for _ in range(axes)]

    return draw


def any_axis(rng: random.Random, shape: Shape) -> int:
    axis = rng.randint(1, len(shape))
    return axis if rng.random() < 0.6 else axis - len(shape) - 1


def axes(rng: random.Random, shape: Shape) -> Any:
    if rng.random() < 0.5:
        return any_axis(rng, shape)
    return sorted(rng.sample(range(1, len(shape) + 1), rng.randint(1, len(shape))))


def axes_with_last(rng: random.Random, shape: Shape) -> Any:
    first = rng.randint(1, len(shape))
    return list(range(first, len(shape) + 1))


ACTIVITY = {"activity_regularizer": seldom(regularizer)}
DENSE = {
    "activation": activation,
    "use_bias": off,
    **weight("kernel", matrix_initializer),
    **weight("bias"),
}
FIRST = {"data_format": one_of("channels_first")}


def conv(axes_count: int, transposed: bool = False) -> dict[str, Draw]:
    paddings = ["same", "same", "causal"] if axes_count == 1 and not transposed else ["same"]
    options = {
        "strides": window(1, 3, axes_count),
        "padding": one_of(*paddings),
        "dilation_rate": window(1, 3, axes_count),
        "activation": activation,
        "use_bias": off,
        **FIRST,
        **ACTIVITY,
    }
    if transposed:
        options["output_padding"] = whole(0, 2)
    return options


def convolution(axes_count: int, transposed: bool = False) -> Choice:
    options = {**conv(axes_count, transposed), **weight("kernel"), **weight("bias")}
    if not transposed:
        options["groups"] = one_of(2, 2, 3)
    must = {"filters": one_of(1, 2, 3, 4, 6), "kernel_size": window(1, 3, axes_count)}
    return Choice((axes_count + 1,), must, options)


def depthwise(axes_count: int) -> Choice:
    options = {
        **conv(axes_count),
        "depth_multiplier": whole(2, 3),
        **weight("depthwise"),
        **weight("bias"),
    }
    return Choice((axes_count + 1,), {"kernel_size": window(1, 3, axes_count)}, options)


def separable(axes_count: int) -> Choice:
    options = {
        **conv(axes_count),
        "depth_multiplier": whole(2, 3),
        **weight("depthwise"),
        **weight("pointwise"),
        **weight("bias"),
    }
    must = {"filters": whole(1, 4), "kernel_size": window(1, 3, axes_count)}
    return Choice((axes_count + 1,), must, options)


def pooling(axes_count: int) -> Choice:
    options = {
        "pool_size": window(1, 3, axes_count),
        "strides": window(1, 3, axes_count),
        "padding": one_of("same"),
        **FIRST,
    }
    return Choice((axes_count + 1,), {}, options)


def adaptive(axes_count: int, least: int = 1) -> Choice:
    return Choice((axes_count + 1,), {"output_size": window(least, 4, axes_count)}, {**FIRST})


def recurrent(**more: Draw) -> Choice:
    options = {
        "return_sequences": on,
        "return_state": on,
        "go_backwards": on,
        "stateful": one_of(False, False, False, True),
        "unroll": on,
        "zero_output_for_mask": on,
        "dropout": one_of(0.0),
        "recurrent_dropout": one_of(0.0),
        "seed": whole(1, 9),
        "activation": activation,
        "use_bias": off,
        **weight("kernel", constrained=False),
        **weight("recurrent", matrix_initializer, constrained=False),
        **weight("bias", constrained=False),
        **ACTIVITY,
        **more,
    }
    return Choice((2,), {"units": whole(1, 4)}, options)


def groups_of(rng: random.Random, shape: Shape) -> int:
    return rng.choice([n for n in (-1, 1, 2, 3, 4) if n < 0 or shape[-1] % n == 0])


def merged(rng: random.Random, shape: Shape) -> list[int]:
    """Another shape of as many elements; one size may be left open."""
    elements = 1
    for size in shape:
        elements *= size
    parts: list[int] = []
    for _ in range(rng.randint(0, 2)):
        parts.append(rng.choice([n for n in range(1, 7) if elements % n == 0]))
        elements //= parts[-1]
    parts.append(elements if rng.random() < 0.6 else -1)
    rng.shuffle(parts)
    return parts


def permutation(rng: random.Random, shape: Shape) -> list[int]:
    order = list(range(1, len(shape) + 1))
    rng.shuffle(order)
    return order


def borders(count: int, high: int) -> Draw:
    def pair(rng: random.Random) -> list[int]:
        return [rng.randint(0, high), rng.randint(0, high)]

    def draw(rng: random.Random, shape: Shape) -> Any:
        if rng.random() < 0.4:
            return rng.randint(0, high)
        if count == 1:
            return pair(rng)
        single = [rng.randint(0, high) for _ in range(count)]
        return rng.choice([single, [pair(rng) for _ in range(count)]])

    return draw


def scales(rng: random.Random, shape: Shape) -> Any:
    if rng.random() < 0.6:
        return round(rng.uniform(-1, 2), 2)
    return [round(rng.uniform(-1, 2), 2) for _ in range(shape[-1])]


def positive_list(rng: random.Random, shape: Shape) -> list[float]:
    return [round(rng.uniform(0.5, 2), 2) for _ in range(shape[-1])]


def noise(rng: random.Random, shape: Shape) -> list[int | None]:
    return [None, *(rng.choice([1, size]) for size in shape)]


ANY, SEQUENCE, IMAGE, VOLUME = (1, 2, 3), (2,), (3,), (4,)
NORM = {
    "epsilon": number(1e-4, 0.1),
    "center": off,
    "scale": off,
    **weight("beta"),
    **weight("gamma"),
}

CHOICES: dict[str, Choice] = {
    "Activation": Choice(ANY, {"activation": activation}),
    "AdaptiveAveragePooling1D": adaptive(1),
    "AdaptiveAveragePooling2D": adaptive(2),
    "AdaptiveAveragePooling3D": adaptive(3),
    # With one window along a side TensorFlow 2.21 divides by zero, which ends Keras's process.
    "AdaptiveMaxPooling1D": adaptive(1, 2),
    "AdaptiveMaxPooling2D": adaptive(2, 2),
    "AdaptiveMaxPooling3D": adaptive(3, 2),
    "AveragePooling1D": pooling(1),
    "AveragePooling2D": pooling(2),
    "AveragePooling3D": pooling(3),
    "BatchNormalization": Choice(
        ANY,
        {},
        {
            **NORM,
            "axis": any_axis,
            "momentum": number(0.1, 0.95),
            "moving_mean_initializer": initializer,
            "moving_variance_initializer": one_of("Ones", class_of("Constant", value=0.5)),
        },
    ),
    "CenterCrop": Choice(IMAGE, {"height": whole(1, 8), "width": whole(1, 8)}, FIRST),
    "Conv1D": convolution(1),
    "Conv1DTranspose": convolution(1, True),
    "Conv2D": convolution(2),
    "Conv2DTranspose": convolution(2, True),
    "Conv3D": convolution(3),
    "Conv3DTranspose": convolution(3, True),
    "Cropping1D": Choice(SEQUENCE, {}, {"cropping": borders(1, 2)}),
    "Cropping2D": Choice(IMAGE, {"cropping": borders(2, 1)}, FIRST),
    "Cropping3D": Choice(VOLUME, {"cropping": borders(3, 1)}, FIRST),
    "Dense": Choice(ANY, {"units": whole(1, 5)}, {**DENSE, **ACTIVITY}),
    "DepthwiseConv1D": depthwise(1),
    "DepthwiseConv2D": depthwise(2),
    "Dropout": Choice(ANY, {"rate": one_of(0.0)}, {"seed": whole(1, 9), "noise_shape": noise}),
    "ELU": Choice(ANY, {}, {"alpha": number(0.1, 2)}),
    "Flatten": Choice(ANY, {}, FIRST),
    "GRU": recurrent(recurrent_activation=activation, reset_after=off),
    "GaussianDropout": Choice(ANY, {"rate": one_of(0.0)}, {"seed": whole(1, 9)}),
    "GaussianNoise": Choice(ANY, {"stddev": one_of(0.0)}, {"seed": whole(1, 9)}),
    "GlobalAveragePooling1D": Choice(SEQUENCE, {}, {"keepdims": on, **FIRST}),
    "GlobalAveragePooling2D": Choice(IMAGE, {}, {"keepdims": on, **FIRST}),
    "GlobalAveragePooling3D": Choice(VOLUME, {}, {"keepdims": on, **FIRST}),
    "GlobalMaxPooling1D": Choice(SEQUENCE, {}, {"keepdims": on, **FIRST}),
    "GlobalMaxPooling2D": Choice(IMAGE, {}, {"keepdims": on, **FIRST}),
    "GlobalMaxPooling3D": Choice(VOLUME, {}, {"keepdims": on, **FIRST}),
    "GroupNormalization": Choice(
        (2, 3), {"groups": groups_of}, {**NORM, "axis": one_of(-1, -1, 1)}
    ),
    "Identity": Choice(ANY),
    "LSTM": recurrent(recurrent_activation=activation, unit_forget_bias=off),
    "LayerNormalization": Choice(ANY, {}, {**NORM, "axis": axes_with_last}),
    "LeakyReLU": Choice(ANY, {}, {"negative_slope": number(0, 0.9)}),
    "Masking": Choice((2,), {}, {"mask_value": one_of(0.0, 1.0)}),
    "MaxPooling1D": pooling(1),
    "MaxPooling2D": pooling(2),
    "MaxPooling3D": pooling(3),
    "MultiHeadAttention": Choice(
        (2, 2, 3),
        {"num_heads": whole(1, 3), "key_dim": whole(1, 3)},
        {
            "value_dim": whole(1, 3),
            "use_bias": off,
            "output_shape": whole(1, 4),
            "attention_axes": axes,
            "dropout": one_of(0.0),
            "seed": whole(1, 9),
            **weight("kernel", constrained=False),
            **weight("bias", constrained=False),
        },
        {"use_causal_mask": on, "return_attention_scores": one_of(False, False, True)},
    ),
    "Normalization": Choice(ANY, {"mean": scales, "variance": positive_list}, {"axis": one_of(-1)}),
    "PReLU": Choice(
        ANY,
        {},
        {
            "alpha_initializer": initializer,
            "alpha_regularizer": regularizer,
            "alpha_constraint": seldom(constraint),
            "shared_axes": axes,
        },
    ),
    "Permute": Choice((2, 3), {"dims": permutation}),
    "RMSNormalization": Choice(ANY, {}, {"axis": axes_with_last, "epsilon": number(1e-4, 0.1)}),
    "ReLU": Choice(
        ANY,
        {},
        {
            "max_value": number(0.3, 3),
            "negative_slope": number(0, 0.5),
            "threshold": number(0, 0.5),
        },
    ),
    "RepeatVector": Choice((1,), {"n": whole(1, 4)}),
    "Rescaling": Choice(ANY, {"scale": scales}, {"offset": scales}),
    "Reshape": Choice(ANY, {"target_shape": merged}),
    "Resizing": Choice(
        IMAGE,
        {"height": whole(1, 8), "width": whole(1, 8)},
        {
            "interpolation": one_of("nearest"),
            "crop_to_aspect_ratio": on,
            "pad_to_aspect_ratio": one_of(False),
            "fill_value": number(-1, 1),
            **FIRST,
        },
    ),
    "STFTSpectrogram": Choice(
        SEQUENCE,
        {
            "frame_length": whole(2, 5),
            "mode": one_of("psd", "real", "imag", "stft"),
            "window": one_of(None),  # by name scipy makes them
        },
        {
            "frame_step": whole(1, 2),
            "fft_length": one_of(6, 8),
            "padding": one_of("same"),
            "expand_dims": on,
            **FIRST,
        },
    ),
    "SeparableConv1D": separable(1),
    "SeparableConv2D": separable(2),
    "SimpleRNN": recurrent(),
    "Softmax": Choice(ANY, {}, {"axis": any_axis}),
    "SpatialDropout1D": Choice(SEQUENCE, {"rate": one_of(0.0)}, {"seed": whole(1, 9)}),
    "SpatialDropout2D": Choice(IMAGE, {"rate": one_of(0.0)}, {"seed": whole(1, 9), **FIRST}),
    "SpatialDropout3D": Choice(VOLUME, {"rate": one_of(0.0)}, {"seed": whole(1, 9), **FIRST}),
    "UnitNormalization": Choice(ANY, {}, {"axis": axes}),
    "UpSampling1D": Choice(SEQUENCE, {}, {"size": whole(1, 3)}),
    "UpSampling2D": Choice(
        IMAGE,
        {},
        {"size": window(1, 3, 2), "interpolation": one_of("bilinear", "bilinear"), **FIRST},
    ),
    "UpSampling3D": Choice(VOLUME, {}, {"size": window(1, 3, 3), **FIRST}),
    "ZeroPadding1D": Choice(SEQUENCE, {}, {"padding": borders(1, 2), **FIRST}),
    "ZeroPadding2D": Choice(IMAGE, {}, {"padding": borders(2, 2), **FIRST}),
    "ZeroPadding3D": Choice(VOLUME, {}, {"padding": borders(3, 2), **FIRST}),
}

# Options whose value says nothing about numbers at rate 0, or that only a wrapper has.
EMBEDDING: dict[str, Draw] = {
    "mask_zero": on,
    "embeddings_initializer": initializer,
    "embeddings_regularizer": regularizer,
    "embeddings_constraint": seldom(constraint),
}
ELEMENTWISE = ("Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract")

UNARY_OPERATORS = (
    "elu exp gelu hard_sigmoid hard_tanh leaky_relu log_sigmoid negative relu relu6 selu sigmoid "
    "silu soft_shrink softplus softsign square sqrt tanh softmax log_softmax abs "
    "activations.relu activations.relu activations.relu activations.elu activations.softmax"
).split()
