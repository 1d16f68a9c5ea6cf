"""Every layer with options drawn at random, and the shape of its output.

A layer is written with the options that were drawn alone: all others keep the defaults of the
program. Shapes are those of one sample, without the batch. `Draw` bounds what a draw may ask for: a
search for memory needs long axes and many of everything, but no more work than a second.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Shape = list[int]
Options = dict[str, Any]


@dataclass
class Draw:
    """Random choices within what a run may cost."""

    random: random.Random
    elements: int  # of one value of one sample
    weights: int  # of one layer
    work: int  # multiplications of one layer and sample
    stretched: bool = False  # sizes that lengthen an axis go as far as `elements` lets them

    def log(self, least: int, most: int) -> int:
        """As often between 1 and 10 as between 1,000 and 10,000."""
        if most <= least:
            return least
        return min(most, int(least * math.exp(self.random.random() * math.log((most + 1) / least))))

    def width(self, most: int, weights_of_one: int = 1, elements_of_one: int = 1,
              work_of_one: int = 1) -> int:  # fmt: skip
        """A number of units, of which each costs so much."""
        bounds = [(self.weights, weights_of_one), (self.elements, elements_of_one),
                  (self.work, work_of_one)]  # fmt: skip
        bound = min(most, *(whole // max(1, each) for whole, each in bounds))
        return self.log(1, max(1, bound))

    def grow(self, length: int, elements: int) -> int:
        """How often an axis may be repeated."""
        most = max(1, self.elements // max(1, elements))
        return self.log(max(1, most // 30), most) if self.stretched else self.log(1, min(4, most))

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def often(self, part: float) -> bool:
        return self.random.random() < part


@dataclass(frozen=True)
class Kind:
    """A layer class: the rank that it takes, its options, and what it makes of a shape."""

    rank: int  # of an input; 0: any
    options: Callable[[Draw, Shape], Options]
    output: Callable[[Shape, Options], Shape]
    inputs: int = 1


def same(shape: Shape, options: Options) -> Shape:
    return list(shape)


def fixed(**options: Any) -> Callable[[Draw, Shape], Options]:
    return lambda draw, shape: dict(options)


def window(length: int, size: int, stride: int, dilation: int, padding: str) -> int:
    if padding in ("same", "causal"):
        return -(-length // stride)
    return (length - dilation * (size - 1) - 1) // stride + 1


def draw_window(draw: Draw, lengths: Shape, channels: int, causal: bool = False) -> Options:
    most = 65 if draw.stretched else 5
    kernel = [draw.log(1, min(length, most)) for length in lengths]
    options: Options = {"kernel_size": kernel}
    options["padding"] = draw.one_of(*["valid", "same", "causal"][: 3 if causal else 2])
    which = draw.random.random()
    if which < 0.3:
        options["strides"] = [draw.log(1, min(n, 8)) for n in lengths]
    elif which < 0.5:
        room = [(n - 1) // max(1, k - 1) for n, k in zip(lengths, kernel)]
        options["dilation_rate"] = [draw.log(1, max(1, min(r, 16))) for r in room]
    return options


def windowed(shape: Shape, options: Options, key: str = "kernel_size") -> Shape:
    size = options[key]
    ones = [1] * len(size)
    strides = options.get("strides", size if key == "pool_size" else ones)
    dilation = options.get("dilation_rate", ones)
    padding = options.get("padding", "valid")
    return [window(*each, padding) for each in zip(shape, size, strides, dilation)]


def activation(draw: Draw) -> str:
    return draw.one_of("linear", "relu", "tanh", "sigmoid", "gelu", "elu", "silu", "softplus")


def dense(draw: Draw, shape: Shape) -> Options:
    rows = math.prod(shape[:-1])
    units = draw.width(100_000, shape[-1] + 1, rows, rows * shape[-1])
    options: Options = {"units": units, "activation": activation(draw)}
    if draw.often(0.2):
        options["use_bias"] = False
    if draw.often(0.1):
        options["kernel_regularizer"] = {"class_name": "L2", "config": {"l2": 0.01}}
    if draw.often(0.1):
        options["kernel_constraint"] = {
            "class_name": "MaxNorm",
            "config": {"max_value": 2.0, "axis": 0},
        }
    return options


def conv(draw: Draw, shape: Shape) -> Options:
    options = draw_window(draw, shape[:-1], shape[-1], causal=len(shape) == 2)
    places = math.prod(windowed(shape[:-1], options))
    inner = math.prod(options["kernel_size"]) * shape[-1]
    options["filters"] = draw.width(2048, inner, places, places * inner)
    if draw.often(0.2) and options["filters"] > 1:
        groups = math.gcd(options["filters"], shape[-1])
        options["groups"] = draw.one_of(1, groups)
    options["activation"] = activation(draw)
    return options


def separable(draw: Draw, shape: Shape) -> Options:
    options = draw_window(draw, shape[:-1], shape[-1])
    if "strides" in options:  # Keras takes equal ones alone
        options["strides"] = [min(options["strides"])] * len(options["strides"])
    places = math.prod(windowed(shape[:-1], options))
    options["filters"] = draw.width(1024, shape[-1], places, places * shape[-1])
    return options


def depthwise(draw: Draw, shape: Shape) -> Options:
    options = draw_window(draw, shape[:-1], shape[-1])
    if "strides" in options:
        options["strides"] = [min(options["strides"])] * len(options["strides"])
    places = math.prod(windowed(shape[:-1], options)) * shape[-1]
    options["depth_multiplier"] = min(8, draw.width(8, 1, places, places))
    return options


def transposed(draw: Draw, shape: Shape) -> Options:
    lengths, room = shape[:-1], draw.elements // max(1, math.prod(shape))
    most = 64 if draw.stretched else 3
    kernel = [draw.log(1, 5) for _ in lengths]
    strides = [draw.log(1, max(1, min(most, int(room ** (1 / len(lengths)))))) for _ in lengths]
    options: Options = {
        "kernel_size": kernel,
        "strides": strides,
        "padding": draw.one_of("valid", "same"),
    }
    places = math.prod(up(shape[:-1], options))
    inner = math.prod(kernel) * shape[-1]
    options["filters"] = draw.width(256, inner, places, math.prod(shape[:-1]) * inner)
    return options


def up(lengths: Shape, options: Options) -> Shape:
    rows = zip(lengths, options["kernel_size"], options["strides"])
    if options["padding"] == "same":
        return [n * s for n, _, s in rows]
    return [(n - 1) * s + max(k, s) for n, k, s in rows]


def pool(draw: Draw, shape: Shape) -> Options:
    lengths = shape[:-1]
    most = 1000 if draw.stretched else 4
    options: Options = {"pool_size": [draw.log(1, min(n, most)) for n in lengths]}
    options["padding"] = draw.one_of("valid", "same")
    if draw.often(0.3):
        options["strides"] = [draw.log(1, 4) for _ in lengths]
    return options


def recurrent(draw: Draw, shape: Shape, gates: int) -> Options:
    most = max(1, int(math.sqrt(draw.work // max(1, shape[0] * gates * 2))) - shape[-1])
    units = min(most, draw.width(300, gates * (shape[-1] + 1), shape[0]))
    options: Options = {"units": units, "return_sequences": draw.often(0.5)}
    for key, part in {"go_backwards": 0.1, "stateful": 0.0, "unroll": 0.1}.items():
        if draw.often(part):
            options[key] = True
    if draw.often(0.2):
        options["dropout"] = 0.2
    if draw.often(0.1):
        options["recurrent_dropout"] = 0.2
    return options


def recurrent_output(shape: Shape, options: Options) -> Shape:
    return [shape[0], options["units"]] if options["return_sequences"] else [options["units"]]


def nested(name: str, options: Options) -> Options:
    return {"class_name": name, "config": {"name": "inner", **options}}


def bidirectional(draw: Draw, shape: Shape) -> Options:
    name = draw.one_of("LSTM", "GRU", "SimpleRNN")
    options = recurrent(draw, shape, 8)
    options.pop("unroll", None)
    merge = draw.one_of("concat", "sum", "mul", "ave")
    return {"layer": nested(name, options), "merge_mode": merge}


def bidirectional_output(shape: Shape, options: Options) -> Shape:
    made = recurrent_output(shape, options["layer"]["config"])
    return [*made[:-1], made[-1] * (2 if options["merge_mode"] == "concat" else 1)]


def time_distributed(draw: Draw, shape: Shape) -> Options:
    rest = shape[1:]
    inside = Draw(draw.random, max(1, draw.elements // shape[0]), draw.weights,
                  max(1, draw.work // shape[0]), draw.stretched)  # fmt: skip
    name = draw.one_of("Dense", "Activation") if len(rest) == 1 else draw.one_of("Conv1D", "Dense")
    return {"layer": nested(name, KINDS[name].options(inside, rest))}


def time_distributed_output(shape: Shape, options: Options) -> Shape:
    inner = options["layer"]
    return [shape[0], *KINDS[inner["class_name"]].output(shape[1:], inner["config"])]


def attention_heads(draw: Draw, shape: Shape) -> Options:
    heads = draw.log(1, 8)
    most = max(1, draw.work // (4 * heads * shape[0] * (shape[0] + shape[-1])))
    return {
        "num_heads": heads,
        "key_dim": draw.width(min(256, most), 4 * heads * shape[-1], shape[0]),
    }


def embedding(draw: Draw, shape: Shape) -> Options:
    """`input_dim` is set by who knows the data; here the width alone is drawn."""
    width = draw.width(64 if not draw.stretched else 4, 1, shape[0])
    return {"input_dim": 2, "output_dim": width, "mask_zero": draw.often(0.2)}


def pad(draw: Draw, shape: Shape, axes: int) -> Options:
    """Up to 100,000 at either end of one axis."""
    pairs = [[draw.log(1, 3) - 1, draw.log(1, 3) - 1] for _ in range(axes)]
    if draw.stretched:
        row = math.prod(shape) // shape[0]
        pairs[0][draw.random.randrange(2)] = min(100_000, draw.grow(shape[0], row * 2))
    return {"padding": pairs if axes == 2 else pairs[0]}


def padded(shape: Shape, options: Options) -> Shape:
    pairs = options["padding"]
    pairs = pairs if isinstance(pairs[0], list) else [pairs]
    return [n + sum(pair) for n, pair in zip(shape, pairs)] + shape[len(pairs) :]


def crop(draw: Draw, shape: Shape, axes: int) -> Options:
    pairs = []
    for n in shape[:axes]:
        left = draw.random.randrange(n)
        pairs.append([left, draw.random.randrange(n - left)])
    return {"cropping": pairs if axes == 2 else pairs[0]}


def cropped(shape: Shape, options: Options) -> Shape:
    pairs = options["cropping"]
    pairs = pairs if isinstance(pairs[0], list) else [pairs]
    return [n - sum(pair) for n, pair in zip(shape, pairs)] + shape[len(pairs) :]


def up_sampling_2d(draw: Draw, shape: Shape) -> Options:
    rows = draw.grow(shape[0], math.prod(shape))
    columns = draw.log(1, 3) if rows == 1 else 1
    bilinear = {"interpolation": "bilinear"} if draw.often(0.3) else {}
    return {"size": [rows, columns] if draw.often(0.5) else [columns, rows], **bilinear}


def group_normalization(draw: Draw, shape: Shape) -> Options:
    groups = [n for n in (1, 2, 3, 4, 8, 16, 32) if shape[-1] % n == 0]
    return {"groups": draw.one_of(*groups)}


def permute(draw: Draw, shape: Shape) -> Options:
    dims = list(range(1, len(shape) + 1))
    draw.random.shuffle(dims)
    return {"dims": dims}


def trailing(draw: Draw, shape: Shape) -> Options:
    """The last axis, or some of the last."""
    return {"axis": list(range(draw.random.randint(1, len(shape)), len(shape) + 1))}


def reshape(draw: Draw, shape: Shape) -> Options:
    """The same elements in another shape, of axes of length 1 among others."""
    return {"target_shape": split(draw, math.prod(shape), draw.random.randint(1, 3))}


def split(draw: Draw, count: int, rank: int) -> Shape:
    """A shape of so many elements."""
    shape: Shape = []
    for _ in range(rank - 1):
        divisors = [d for d in range(1, min(count, 64) + 1) if count % d == 0]
        part = draw.one_of(*divisors)
        part = count // part if draw.often(0.5) else part
        shape.append(part)
        count //= part
    shape.append(count)
    draw.random.shuffle(shape)
    return shape


def operator(draw: Draw, shape: Shape) -> Options:
    return {"operation": draw.one_of("Relu", "Tanh", "Silu", "Softplus", "Gelu")}


def drop(draw: Draw, shape: Shape) -> Options:
    return {"rate": draw.one_of(0.0, 0.1, 0.5, 0.9)}


def prelu(draw: Draw, shape: Shape) -> Options:
    long = math.prod(shape) > draw.weights
    return (
        {"shared_axes": list(range(1, len(shape)))}
        if len(shape) > 1 and (long or draw.often(0.5))
        else {}
    )


def normalization(draw: Draw, shape: Shape) -> Options:
    return {"axis": [-1], "mean": [[0.5] * shape[-1]], "variance": [[2.0] * shape[-1]]}


def pooled(shape: Shape, options: Options) -> Shape:
    kept = [1] * (len(shape) - 1) if options.get("keepdims") else []
    return [*kept, shape[-1]]


def keep_dims(draw: Draw, shape: Shape) -> Options:
    return {"keepdims": True} if draw.often(0.2) else {}


def dot_output(shape: Shape, options: Options) -> Shape:
    return [1] if len(shape) == 1 else [shape[0], shape[0]]


def _with_channels(key: str) -> Callable[[Shape, Options], Shape]:
    def output(shape: Shape, options: Options) -> Shape:
        return [*windowed(shape[:-1], options), options[key]]

    return output


def _pools(shape: Shape, options: Options) -> Shape:
    return [*windowed(shape[:-1], options, "pool_size"), shape[-1]]


def _deep(shape: Shape, options: Options) -> Shape:
    return [*windowed(shape[:-1], options), shape[-1] * options["depth_multiplier"]]


def _transposes(shape: Shape, options: Options) -> Shape:
    return [*up(shape[:-1], options), options["filters"]]


def _flat(shape: Shape, options: Options) -> Shape:
    return [math.prod(shape)]


def adaptive(draw: Draw, shape: Shape) -> Options:
    return {"output_size": [draw.log(1, length) for length in shape[:-1]]}


def adapted(shape: Shape, options: Options) -> Shape:
    return [*options["output_size"], shape[-1]]


def image_size(draw: Draw, shape: Shape, larger: bool) -> Options:
    height, width = shape[0], shape[1]
    if larger:
        height = draw.grow(height, math.prod(shape)) * height
        width = draw.grow(width, height * math.prod(shape[1:])) * width
    return {"height": draw.log(1, height), "width": draw.log(1, width)}


def resized(shape: Shape, options: Options) -> Shape:
    return [options["height"], options["width"], shape[2]]


def resizing(draw: Draw, shape: Shape) -> Options:
    how = draw.one_of("bilinear", "nearest", "bicubic")
    return {**image_size(draw, shape, True), "interpolation": how}


def moved(**options: Any) -> Callable[[Draw, Shape], Options]:
    return lambda draw, shape: {**options, "fill_mode": draw.one_of("reflect", "constant")}


def spectral(draw: Draw, shape: Shape) -> Options:
    name = draw.one_of("Dense", *(["Conv2D"] if len(shape) == 3 else []))
    return {"layer": nested(name, KINDS[name].options(draw, shape))}


def spectral_output(shape: Shape, options: Options) -> Shape:
    inner = options["layer"]
    return KINDS[inner["class_name"]].output(shape, inner["config"])


def stft(draw: Draw, shape: Shape) -> Options:
    length = draw.log(2, max(2, min(shape[0], 256)))
    step = draw.random.randint(1, length)
    places = -(-shape[0] // step) * shape[1]
    while places * length * length > draw.work and step < length:
        step, places = length, -(-shape[0] // length) * shape[1]
    return {"frame_length": length, "frame_step": step, "padding": "same",
            "mode": draw.one_of("log", "magnitude", "psd", "real", "stft")}  # fmt: skip


def stft_output(shape: Shape, options: Options) -> Shape:
    frequencies = 2 ** math.ceil(math.log2(options["frame_length"])) // 2 + 1
    sides = 2 if options["mode"] == "stft" else 1
    return [-(-shape[0] // options["frame_step"]), shape[1] * sides * frequencies]


KINDS: dict[str, Kind] = {
    "AdaptiveAveragePooling1D": Kind(2, adaptive, adapted),
    "AdaptiveAveragePooling2D": Kind(3, adaptive, adapted),
    "AdaptiveMaxPooling1D": Kind(2, adaptive, adapted),
    "AdaptiveMaxPooling2D": Kind(3, adaptive, adapted),
    "Activation": Kind(0, lambda draw, _: {"activation": activation(draw)}, same),
    "Add": Kind(0, fixed(), same, 2),
    "Attention": Kind(2, lambda draw, _: {"use_scale": draw.often(0.5)}, same, 2),
    "Average": Kind(0, fixed(), same, 2),
    "AveragePooling1D": Kind(2, pool, _pools),
    "AveragePooling2D": Kind(3, pool, _pools),
    "BatchNormalization": Kind(0, fixed(), same),
    "Bidirectional": Kind(2, bidirectional, bidirectional_output),
    "CenterCrop": Kind(3, lambda draw, s: image_size(draw, s, False), resized),
    "Concatenate": Kind(0, fixed(axis=-1), lambda s, _: [*s[:-1], 2 * s[-1]], 2),
    "Conv1D": Kind(2, conv, _with_channels("filters")),
    "Conv1DTranspose": Kind(2, transposed, _transposes),
    "Conv2D": Kind(3, conv, _with_channels("filters")),
    "Conv2DTranspose": Kind(3, transposed, _transposes),
    "Cropping1D": Kind(2, lambda draw, s: crop(draw, s, 1), cropped),
    "Cropping2D": Kind(3, lambda draw, s: crop(draw, s, 2), cropped),
    "Dense": Kind(0, dense, lambda s, o: [*s[:-1], o["units"]]),
    "DepthwiseConv1D": Kind(2, depthwise, _deep),
    "DepthwiseConv2D": Kind(3, depthwise, _deep),
    "Dot": Kind(2, lambda draw, _: {"axes": [2, 2], "normalize": draw.often(0.3)}, dot_output, 2),
    "Dropout": Kind(0, drop, same),
    "ELU": Kind(0, fixed(alpha=0.7), same),
    "Embedding": Kind(1, embedding, lambda s, o: [*s, o["output_dim"]]),
    "Flatten": Kind(0, fixed(), _flat),
    "GRU": Kind(2, lambda draw, s: recurrent(draw, s, 3), recurrent_output),
    "GaussianDropout": Kind(0, drop, same),
    "GaussianNoise": Kind(0, fixed(stddev=0.1), same),
    "GlobalAveragePooling1D": Kind(2, keep_dims, pooled),
    "GlobalAveragePooling2D": Kind(3, keep_dims, pooled),
    "GlobalMaxPooling1D": Kind(2, keep_dims, pooled),
    "GlobalMaxPooling2D": Kind(3, keep_dims, pooled),
    "GroupNormalization": Kind(2, group_normalization, same),
    "Identity": Kind(0, fixed(), same),
    "LSTM": Kind(2, lambda draw, s: recurrent(draw, s, 4), recurrent_output),
    "LayerNormalization": Kind(0, fixed(), same),
    "LeakyReLU": Kind(0, fixed(negative_slope=0.1), same),
    "Masking": Kind(2, fixed(mask_value=0.0), same),
    "MaxPooling1D": Kind(2, pool, _pools),
    "MaxPooling2D": Kind(3, pool, _pools),
    "Maximum": Kind(0, fixed(), same, 2),
    "Minimum": Kind(0, fixed(), same, 2),
    "MultiHeadAttention": Kind(2, attention_heads, same, 2),
    "Multiply": Kind(0, fixed(), same, 2),
    "Normalization": Kind(0, normalization, same),
    "Operation": Kind(0, operator, same),
    "PReLU": Kind(0, prelu, same),
    "Permute": Kind(0, permute, lambda s, o: [s[d - 1] for d in o["dims"]]),
    "RMSNormalization": Kind(0, trailing, same),
    "RandomContrast": Kind(3, fixed(factor=0.4, value_range=[-3.0, 3.0]), same),
    "RandomFlip": Kind(3, lambda draw, _: {"mode": draw.one_of("horizontal", "vertical")}, same),
    "RandomRotation": Kind(3, moved(factor=0.2), same),
    "RandomTranslation": Kind(3, moved(height_factor=0.2, width_factor=0.3), same),
    "ReLU": Kind(0, fixed(max_value=6.0), same),
    "RepeatVector": Kind(1, lambda draw, s: {"n": draw.grow(1, s[0])}, lambda s, o: [o["n"], *s]),
    "Rescaling": Kind(0, fixed(scale=0.01, offset=0.1), same),
    "Reshape": Kind(0, reshape, lambda s, o: list(o["target_shape"])),
    "Resizing": Kind(3, resizing, resized),
    "STFTSpectrogram": Kind(2, stft, stft_output),
    "SeparableConv1D": Kind(2, separable, _with_channels("filters")),
    "SeparableConv2D": Kind(3, separable, _with_channels("filters")),
    "SimpleRNN": Kind(2, lambda draw, s: recurrent(draw, s, 1), recurrent_output),
    "Softmax": Kind(0, fixed(), same),
    "SpatialDropout1D": Kind(2, drop, same),
    "SpectralNormalization": Kind(0, spectral, spectral_output),
    "SpatialDropout2D": Kind(3, drop, same),
    "Subtract": Kind(0, fixed(), same, 2),
    "TimeDistributed": Kind(0, time_distributed, time_distributed_output),
    "UnitNormalization": Kind(0, fixed(), same),
    "UpSampling1D": Kind(2, lambda draw, s: {"size": draw.grow(s[0], math.prod(s))},
                         lambda s, o: [s[0] * o["size"], s[1]]),
    "UpSampling2D": Kind(3, up_sampling_2d,
                         lambda s, o: [s[0] * o["size"][0], s[1] * o["size"][1], s[2]]),
    "ZeroPadding1D": Kind(2, lambda draw, s: pad(draw, s, 1), padded),
    "ZeroPadding2D": Kind(3, lambda draw, s: pad(draw, s, 2), padded),
}  # fmt: skip

# Layers whose work grows with the square of the first axis, or that are slow for each place of it.
SHORT = {"Attention": 2048, "MultiHeadAttention": 1024, "Dot": 1024, "LSTM": 4096, "GRU": 4096,
         "SimpleRNN": 4096, "Bidirectional": 2048, "TimeDistributed": 100_000}  # fmt: skip


# Layers that make an axis longer.
STRETCHING = ("UpSampling1D", "UpSampling2D", "RepeatVector", "ZeroPadding1D", "ZeroPadding2D",
              "Conv1DTranspose", "Conv2DTranspose")  # fmt: skip


def output_of(kind: str, options: Options, shapes: list[Shape]) -> Shape:
    return KINDS[kind].output(shapes[0], options)
