"""Operators of keras.ops between layers, and layers made of such, against Keras in float64.

Each operator stands behind a layer with weights, so that its gradient is compared too.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import ROUNDED_ZERO, Case, assert_one_step, plimsoll_gradients, run_plimsoll
from keras import layers as L
from keras import ops
from sequence_cases import BATCH, floats, functional, tokens

Call = Callable[[Any], Any]
SHAPE = (6, 4)


def on(call: Call) -> Case:
    return Case(functional([SHAPE], call), floats(*SHAPE), floats(3), "mse")


def trained(x: Any) -> Any:
    """Numbers of either sign."""
    return L.Dense(4)(x)


def unbiased(x: Any) -> Any:
    """The same without a bias, of which a difference would have no part."""
    return L.Dense(4, use_bias=False)(x)


def positive(x: Any) -> Any:
    return ops.square(L.Dense(4)(x)) + 0.5


def within(x: Any) -> Any:
    """Numbers well inside of −1 to 1."""
    return 0.9 * ops.tanh(L.Dense(4)(x))


def real(x: Any) -> Any:
    return ops.cast(x, "float32")


def constant(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(0, 1, shape).astype("float32")


def functions() -> dict[str, Case]:
    """Functions of one number, and of two."""
    bounds = np.array([-1, 0, 1], "float32")

    def each(names: str, call: Callable[[Call], Call]) -> dict[str, Case]:
        return {name: on(call(getattr(ops, name))) for name in names.split()}

    cases = (
        each(
            """arcsinh arctan cosh erf erfc exp2 i0 sinc sinh fabs nan_to_num deg2rad rad2deg real
            conj copy""",
            lambda f: lambda x: f(trained(x)),
        )
        | each("arccos arcsin arctanh erfinv tan", lambda f: lambda x: f(within(x)))
        | each("cbrt log10 log2", lambda f: lambda x: f(positive(x)))
        | each("arccosh", lambda f: lambda x: f(positive(x) + 1))
        | each("trunc angle imag", lambda f: lambda x: f(3 * x) * trained(x))
        | each(
            "arctan2 hypot logaddexp logaddexp2 divide_no_nan fmax fmin",
            lambda f: lambda x: f(trained(x), positive(x)),
        )
        | each(
            "mod fmod",
            lambda f: lambda x: f(trained(x), 0.7) + f(trained(x), -1.1 - positive(x)),
        )
    )
    return cases | {
        "power of values": on(lambda x: ops.power(positive(x), trained(x)) + 2 ** trained(x)),
        "floor_divide": on(lambda x: ops.floor_divide(x, 0.7) * trained(x)),
        "round to places": on(lambda x: ops.round(x, 1) * trained(x)),
        "heaviside": on(lambda x: ops.heaviside(ops.relu(x), trained(x)) * trained(x)),
        "logaddexp with a number": on(lambda x: ops.logaddexp(trained(x), 0.3)),
        "classes of numbers": on(
            lambda x: trained(x) * real(ops.isfinite(x)) + real(ops.isnan(ops.log(x)))
        ),
        "infinities": on(
            lambda x: trained(x) * real(ops.isinf(1 / ops.relu(x)))
            - real(ops.isposinf(1 / ops.relu(x))) + 2 * real(ops.isneginf(-1 / ops.relu(x)))
        ),
        "replaced infinities": on(
            lambda x: trained(x) + ops.nan_to_num(1 / ops.relu(x), posinf=3.0)
        ),
        "close": on(lambda x: trained(x) * real(ops.isclose(x, ops.round(x), 0.1, 0.2))),
        "digitize": on(lambda x: trained(x) * real(ops.digitize(x, np.array([-0.5, 0.1, 0.8])))),
        "searchsorted": on(
            lambda x: trained(x)[:, 0]
            * real(ops.searchsorted(bounds, x[:, 0, 0], "right"))[:, None]
        ),
        "in a list": on(
            lambda x: trained(x) * real(ops.isin(ops.round(x), [0.0, 1.0]))
            + real(ops.isin(ops.round(x), [2.0, -1.0], invert=True))
        ),
        "select": on(
            lambda x: ops.select([x > 0.5, x < -0.5], [trained(x), 2 * trained(x)], trained(x))
        ),
        "select a number": on(lambda x: ops.select([x > 0.5], [trained(x)], 0.25)),
        "full like": on(lambda x: trained(x) + ops.full_like(x, 0.5)),
        "isreal": on(lambda x: trained(x) * real(ops.isreal(x))),
        "signbit": on(lambda x: trained(x) * real(ops.signbit(ops.round(x)))),
        "ldexp": on(lambda x: ops.ldexp(trained(x), ops.cast(3 * x, "int32"))),
        "stop gradient": on(lambda x: trained(x) * ops.stop_gradient(ops.square(x))),
    }  # fmt: skip


def moves() -> dict[str, Case]:
    table = constant(5, 3)
    numbers = np.arange(97) * 5 % 6

    def numbers_of(x: Any) -> Any:
        return ops.cast(ops.abs(2 * x) % 5, "int32")

    def parts(cut: Call) -> Case:
        return on(
            lambda x: ops.concatenate([p * (i + 1) for i, p in enumerate(cut(trained(x)))], axis=1)
        )

    return {
        "swapaxes": on(lambda x: ops.swapaxes(trained(x), 1, -1)),
        "moveaxis": on(lambda x: ops.moveaxis(trained(x), 1, 2)),
        "moveaxis of several": on(
            lambda x: ops.moveaxis(ops.reshape(trained(x), (-1, 2, 3, 4)), (1, 3), (3, 2))
        ),
        "roll": on(lambda x: ops.roll(trained(x), 2, axis=1) * trained(x)),
        "roll back": on(lambda x: ops.roll(trained(x), -5, axis=2) * trained(x)),
        "tile": on(lambda x: ops.tile(trained(x), (1, 2, 3))),
        "repeat": on(lambda x: ops.repeat(trained(x), 3, axis=1)),
        "repeat by place": on(lambda x: ops.repeat(trained(x), [2, 0, 1, 3], axis=2)),
        "pad": on(lambda x: ops.pad(trained(x), ((0, 0), (1, 2), (0, 3)))),
        "pad with a number": on(
            lambda x: ops.pad(trained(x), ((0, 0), (1, 0), (2, 3)), constant_values=0.7)
        ),
        "pad by reflection": on(lambda x: ops.pad(trained(x), ((0, 0), (2, 3), (0, 1)), "reflect")),
        "pad symmetric": on(lambda x: ops.pad(trained(x), ((0, 0), (6, 0), (1, 4)), "symmetric")),
        "split": parts(lambda x: ops.split(x, 3, axis=1)),
        "split at": parts(lambda x: ops.split(x, [1, 4], axis=1)),
        "array_split": parts(lambda x: ops.array_split(x, 4, axis=1)),
        "hsplit": parts(lambda x: ops.hsplit(x, 2)),
        "dsplit": on(lambda x: ops.dsplit(trained(x), 2)[0] * ops.dsplit(trained(x), 2)[1]),
        "unstack": on(lambda x: ops.unstack(trained(x), axis=1)[2] * ops.unstack(x, axis=1)[0]),
        "hstack": on(lambda x: ops.hstack([trained(x), x])),
        "dstack": on(lambda x: ops.dstack([trained(x), x])),
        "dstack of rows": on(lambda x: ops.dstack([trained(x)[:, 0], x[:, 1]])),
        "append": on(lambda x: ops.append(trained(x), x, axis=2)),
        "squeeze": on(lambda x: ops.squeeze(trained(x)[:, 2:3])),
        "expand and squeeze": on(lambda x: ops.squeeze(ops.expand_dims(trained(x), (1, 3)), (1,))),
        "items in steps": on(lambda x: trained(x)[:, 1::2, ::3]),
        "items backwards": on(lambda x: trained(x)[:, ::-1, 2::-1]),
        "items in steps backwards": on(lambda x: trained(x)[:, -2:0:-3, None, ..., ::-2]),
        "fliplr": on(lambda x: ops.fliplr(trained(x)) * x),
        "flip of both": on(lambda x: ops.flip(trained(x), axis=(1, 2)) * x),
        "rot90": on(lambda x: ops.rot90(trained(x), axes=(1, 2))),
        "rot90 back": on(lambda x: ops.rot90(trained(x), k=-1, axes=(1, 2))),
        "rot90 twice": on(lambda x: ops.rot90(trained(x)[:, :4], k=2, axes=(2, 1))),
        "take": on(lambda x: ops.take(trained(x), [0, 1, 4, -1, 0], axis=1)),
        "take one": on(lambda x: ops.take(trained(x), 2, axis=2)),
        "take by a matrix": on(lambda x: ops.take(trained(x), np.array([[0, 2], [3, 3]]), axis=2)),
        "take many": on(lambda x: ops.take(trained(x), numbers, axis=1)),
        "take from a table": on(
            lambda x: trained(x)[..., :3] * ops.take(table, numbers_of(x[..., 0]) - 2, axis=0)
        ),
        "diagonal": on(lambda x: ops.diagonal(trained(x), axis1=1, axis2=2)),
        "diagonal above": on(lambda x: ops.diagonal(trained(x), offset=2, axis1=1, axis2=2)),
        "diagonal below": on(lambda x: ops.diagonal(trained(x), offset=-3, axis1=1, axis2=2)),
        "trace": on(lambda x: ops.trace(trained(x)[:, :4], axis1=1, axis2=2)[:, None]),
        "tril": on(lambda x: ops.tril(trained(x), k=-1)),
        "triu": on(lambda x: ops.triu(trained(x), k=1)),
        "diff": on(lambda x: ops.diff(unbiased(x), axis=1)),
        "diff of diff": on(lambda x: ops.diff(unbiased(x), n=2, axis=1)),
        "trapezoid": on(lambda x: ops.trapezoid(trained(x), dx=0.3, axis=1)),
    }  # fmt: skip


def folds() -> dict[str, Case]:
    names = "var std prod amax amin ptp logsumexp norm nanmean nansum nanmax nanmin nanvar nanstd"
    cases = {}
    for name in names.split():
        fold = getattr(ops, name)
        # A sum of distances from the mean has no part of a bias.
        values = unbiased if "var" in name or "std" in name else trained
        cases[name] = on(lambda x, f=fold, v=values: f(v(x), axis=1))
        cases[f"{name} kept"] = on(lambda x, f=fold, v=values: f(v(x), axis=2, keepdims=True))
        if name in ("nansum", "nanmax", "nanmean"):
            cases[f"{name} with a NaN"] = on(
                lambda x, f=fold: f(ops.where(x > 1, ops.sqrt(-ops.abs(x)), trained(x)), axis=1)
            )
    for order in (0.5, 1, 3):
        cases[f"norm {order}"] = on(lambda x, o=order: ops.norm(trained(x), ord=o, axis=1))
    return cases | {
        "prod of both": on(lambda x: ops.prod(trained(x), axis=(1, 2), keepdims=True)),
        "prod with zeros": on(lambda x: ops.prod(ops.relu(trained(x)), axis=2)),
        "frobenius": on(lambda x: ops.norm(trained(x), ord="fro", axis=(1, 2), keepdims=True)),
        "logsumexp of both": on(lambda x: ops.logsumexp(trained(x), axis=(1, 2), keepdims=True)),
        "moments": on(lambda x: ops.moments(trained(x), axes=[1])[1] - ops.moments(x, axes=[1])[0]),
        "average": on(lambda x: ops.average(trained(x), axis=1)),
        "weighted average": on(
            lambda x: ops.average(trained(x), axis=1, weights=np.arange(6, dtype="float32"))
        ),
        "normalize": on(lambda x: ops.normalize(trained(x), axis=-1)),
        "normalize rows of zeros": on(
            lambda x: ops.normalize(unbiased(x * real(x[..., :1] > 0)), axis=-1)
        ),
        "normalize 3": on(lambda x: ops.normalize(trained(x), axis=1, order=3)),
        "count_nonzero": on(
            lambda x: trained(x)[:, 0] * real(ops.count_nonzero(ops.relu(x), axis=1))
        ),
        "cumprod": on(lambda x: ops.cumprod(trained(x), axis=1)),
        "nancumprod": on(
            lambda x: ops.nancumprod(ops.where(x > 1, ops.sqrt(-ops.abs(x)), trained(x)), axis=1)
        ),
        "nancumsum": on(
            lambda x: ops.nancumsum(ops.where(x > 1, ops.sqrt(-ops.abs(x)), trained(x)), axis=1)
        ),
        "nanprod": on(
            lambda x: ops.nanprod(ops.where(x > 1, ops.sqrt(-ops.abs(x)), trained(x)), axis=1)
        ),
        "cumsum": on(lambda x: ops.cumsum(trained(x), axis=1)),
        "cumsum of the last": on(lambda x: ops.cumsum(trained(x), axis=-1)),
    }


def orders() -> dict[str, Case]:
    cases = {
        "sort": on(lambda x: ops.sort(trained(x), axis=1)),
        "argsort": on(lambda x: trained(x) * real(ops.argsort(x, axis=2))),
        "nanargmax": on(lambda x: trained(x)[:, 0] * real(ops.nanargmax(ops.sqrt(1 - x), axis=1))),
        "argmax": on(lambda x: trained(x)[:, 0] * real(ops.argmax(x, axis=1))),
        "argmin kept": on(lambda x: trained(x) * real(ops.argmin(x, axis=2, keepdims=True))),
        "top_k": on(lambda x: ops.top_k(trained(x), 2)[0] * real(ops.top_k(x, 2)[1] + 1)),
        "take_along_axis": on(
            lambda x: ops.take_along_axis(trained(x), ops.argsort(x, axis=1), axis=1)
        ),
        "quantile": on(lambda x: ops.quantile(trained(x), 0.37, axis=2)),
        "median": on(lambda x: ops.median(trained(x), axis=1)),
        "percentile": on(lambda x: ops.percentile(trained(x), 30, axis=1, keepdims=True)),
    }
    return cases


def products() -> dict[str, Case]:
    def two(text: str) -> Case:
        return on(lambda x: ops.einsum(text, trained(x), L.Dense(4)(x)))

    def one(text: str, *shape: int) -> Case:
        return on(lambda x: ops.einsum(text, trained(x), constant(*shape)))

    texts = "bij,bkj->bik bij,bij->bi bij,bik->bjk bij,bkl->bijkl bij,bij->bij ...ij,...kj->...ik"
    return {text: two(text) for text in [*texts.split(), "bij,bij->b"]} | {
        "einsum of one": on(lambda x: ops.einsum("bij->bji", trained(x))),
        "einsum that sums": on(lambda x: ops.einsum("bij->bj", trained(x))),
        "einsum of three": on(
            lambda x: ops.einsum("bij,jk,bkl->bil", trained(x), constant(4, 6), trained(x))
        ),
        "einsum with a matrix": one("bij,jk->bik", 4, 3),
        "einsum with a transposed matrix": one("bij,kj->bik", 3, 4),
        "einsum with two axes": one("bij,ijk->bk", 6, 4, 2),
        "einsum with split axes": one("bij,jki->bk", 4, 2, 6),
        "einsum by place": one("bij,ijk->bik", 6, 4, 2),
        "einsum with a matrix first": on(
            lambda x: ops.einsum("kj,bij->bik", constant(3, 4), trained(x))
        ),
        "einsum implied": on(lambda x: ops.einsum("aij,jk", trained(x), constant(4, 3))),
        "matmul with a constant": on(lambda x: ops.matmul(trained(x), constant(4, 2))),
        "matmul with a vector": on(lambda x: ops.matmul(trained(x), constant(4))),
        "matmul of rows and one column": on(
            lambda x: ops.matmul(L.Dense(1)(x[:, 0]), constant(1, 3))
        ),
        "matmul of rows and one number": on(
            lambda x: ops.matmul(L.Dense(1)(x[:, 0]), constant(1, 1))[:, :1]
        ),
        "matmul with one matrix for all": on(lambda x: ops.matmul(trained(x), constant(1, 4, 2))),
        "matmul after a constant": on(lambda x: ops.matmul(constant(2, 6), trained(x))),
        "matmul of one for all": on(
            lambda x: ops.matmul(ops.reshape(trained(x), (-1, 2, 3, 4)), trained(x)[:, None, :4])
        ),
        "dot": on(lambda x: ops.dot(trained(x), constant(4, 2))),
        "dot with a vector": on(lambda x: ops.dot(trained(x), constant(4))),
        "inner": on(lambda x: ops.inner(trained(x), constant(2, 4))),
        "tensordot": on(lambda x: ops.tensordot(trained(x), constant(4, 3), axes=1)),
        "tensordot over both": on(
            lambda x: ops.tensordot(trained(x), constant(4, 6, 2), axes=[[1, 2], [1, 0]])
        ),
        "cdist": on(lambda x: ops.cdist(trained(x), L.Dense(4)(x[:, :2]))),
        "cross": on(lambda x: ops.cross(L.Dense(3)(x), L.Dense(3)(x))),
        "cross with a constant": on(lambda x: ops.cross(L.Dense(3)(x), constant(3))),
    }


def networks() -> dict[str, Case]:
    def image(x: Any) -> Any:
        return ops.reshape(trained(x), (-1, 6, 2, 2))

    def heads(x: Any, count: int = 2) -> Any:
        return ops.reshape(L.Dense(3 * count)(x), (-1, 6, count, 3))

    classes = lambda x: ops.cast(ops.abs(2 * x), "int32") - 1  # noqa: E731
    seen = np.tril(np.ones((1, 1, 6, 6))) > 0
    return {
        "one_hot": on(lambda x: trained(x)[..., None] * ops.one_hot(classes(x), 4)),
        "one_hot of fractions": on(lambda x: trained(x)[..., None] * ops.one_hot(2 * x, 3)),
        "multi_hot of fractions": on(
            lambda x: trained(x)[:, 0] * real(ops.multi_hot(2 * x[..., 0], 4))
        ),
        "one_hot on axis 1": on(lambda x: trained(x)[:, None] * ops.one_hot(classes(x), 4, axis=1)),
        "multi_hot": on(lambda x: trained(x)[:, 0] * real(ops.multi_hot(classes(x)[..., 0], 4))),
        "multi_hot of rows": on(
            lambda x: trained(x)[:, :4] * real(ops.multi_hot(classes(x), 5))[..., :1]
        ),
        "max_pool": on(lambda x: ops.max_pool(trained(x), 2, padding="same")),
        "max_pool of images": on(lambda x: ops.max_pool(image(x), (2, 1), strides=1)),
        "average_pool": on(lambda x: ops.average_pool(trained(x), 3, strides=2)),
        "adaptive_average_pool": on(
            lambda x: ops.adaptive_average_pool(trained(x), (3,), "channels_first")
        ),
        "adaptive_max_pool": on(
            # Not one output along a side: TensorFlow's gradient is then of unwritten memory.
            lambda x: ops.adaptive_max_pool(
                ops.reshape(trained(x), (-1, 2, 4, 3)), (3, 2), data_format="channels_first"
            )
        ),
        "layer_normalization": on(
            lambda x: ops.layer_normalization(trained(x), constant(4), constant(4), epsilon=1e-3)
        ),
        "layer_normalization over steps": on(lambda x: ops.layer_normalization(trained(x), axis=1)),
        "rms_normalization": on(lambda x: ops.rms_normalization(trained(x), constant(4))),
        "batch_normalization": on(
            lambda x: ops.batch_normalization(
                trained(x), constant(4), constant(4) ** 2 + 0.5, -1, constant(4), constant(4)
            )
        ),
        "space_to_depth": on(lambda x: ops.space_to_depth(image(x), 2)),
        "depth_to_space": on(
            lambda x: ops.depth_to_space(ops.reshape(trained(x), (-1, 3, 2, 4)), 2)
        ),
        "attention": on(lambda x: ops.dot_product_attention(heads(x), heads(x), heads(x))),
        "attention causal": on(
            lambda x: ops.dot_product_attention(heads(x), heads(x), heads(x), is_causal=True)
        ),
        "attention of shared heads": on(
            lambda x: ops.dot_product_attention(heads(x, 4), heads(x), heads(x), scale=0.3)
        ),
        "attention with bias and mask": on(
            lambda x: ops.dot_product_attention(
                heads(x), heads(x), heads(x), bias=constant(1, 2, 6, 6), mask=seen
            )
        ),
    }  # fmt: skip


def einsum_layers() -> dict[str, Case]:
    def case(equation: str, shape: Any, shaped: Call = lambda x: x, **options: Any) -> Case:
        return on(lambda x: L.EinsumDense(equation, shape, **options)(shaped(trained(x))))

    images = lambda x: ops.reshape(x, (-1, 6, 2, 2))  # noqa: E731
    return {
        "dense": case("abc,cd->abd", (6, 5), bias_axes="d", activation="relu"),
        "dense of any length": on(
            lambda x: ops.reshape(
                L.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d")(trained(x)), (-1, 30)
            )
        ),
        "dense with an ellipsis": case("...x,xy->...y", 5, bias_axes="y"),
        "dense of steps": case("abc,bd->adc", (5, 4)),
        "dense before an ellipsis": case("ab...,bc->ac...", (5,), images, bias_axes="c"),
        "heads": case("abc,cde->abde", (6, 2, 3), bias_axes="de"),
        "heads transposed": case("abc,dec->abde", (6, 2, 3), bias_axes="d"),
        "heads apart": case("abc,dce->abde", (6, 2, 3), bias_axes="e"),
        "back from heads": case("abcd,cde->abe", (6, 3), images, bias_axes="e"),
        "by place": case("abc,bcd->abd", (6, 3), bias_axes="bd"),
        "of two axes": case("abc,bcd->ad", 5, kernel_regularizer="l2"),
    }


def attention_layers() -> dict[str, Case]:
    def grouped(**options: Any) -> Call:
        return lambda x: L.GroupQueryAttention(3, 4, 2, **options)(trained(x), L.Dense(4)(x))

    seen = np.random.default_rng(1).random((1, 6, 6)) < 0.7
    return {
        "additive attention": on(lambda x: L.AdditiveAttention()([trained(x), L.Dense(4)(x)])),
        "additive attention without a scale": on(
            lambda x: L.AdditiveAttention(use_scale=False)(
                [trained(x), L.Dense(4)(x[:, :5]), x[:, 1:]]
            )
        ),
        "additive attention causal": on(
            lambda x: L.AdditiveAttention()([trained(x), trained(x)], use_causal_mask=True)
        ),
        "additive attention masked": on(
            lambda x: L.AdditiveAttention()(
                [trained(x), L.Dense(4)(x)], mask=[x[..., 0] > 0, x[..., 1] > -0.5]
            )
        ),
        "grouped attention": on(grouped()),
        "grouped attention gated": on(grouped(use_gate=True, use_bias=False)),
        "grouped attention in a window": on(grouped(sliding_window=2)),
        "grouped attention causal": on(
            lambda x: L.GroupQueryAttention(3, 4, 1)(trained(x), trained(x), use_causal_mask=True)
        ),
        "grouped attention with a mask": on(
            lambda x: L.GroupQueryAttention(3, 2, 2)(
                trained(x), trained(x), attention_mask=ops.convert_to_tensor(seen)
            )
        ),
    }  # fmt: skip


def recurrent_layers() -> dict[str, Case]:
    def stack() -> list[L.Layer]:
        return [L.LSTMCell(3), L.GRUCell(4), L.SimpleRNNCell(2), L.LSTMCell(3)]

    def masked(make: Callable[[], L.Layer]) -> Case:
        def build() -> keras.Model:
            x = keras.Input((5,), dtype="int32")
            return keras.Model(x, L.Dense(2)(make()(L.Embedding(9, 4, mask_zero=True)(x))))

        return Case(build, tokens(5, 9), floats(5, 2), "mse")

    def states(x: Any) -> Any:
        _, (h, c), g = L.RNN([L.LSTMCell(3), L.GRUCell(2)], return_state=True)(x)
        y = L.RNN([L.LSTMCell(3), L.GRUCell(2)], return_sequences=True)
        return y(trained(x), initial_state=[[h, c], g])

    cases = {
        cell.__name__: on(lambda x, c=cell: L.RNN(c(3), return_sequences=True)(x))
        for cell in (L.LSTMCell, L.GRUCell, L.SimpleRNNCell)
    }
    return cases | {
        "stacked cells": on(lambda x: L.RNN(stack())(x)),
        "stacked cells backwards": on(
            lambda x: L.RNN(stack(), return_sequences=True, go_backwards=True)(x)
        ),
        "stacked cells masked": masked(lambda: L.RNN(stack(), return_sequences=True)),
        "stacked cells masked to zero": masked(
            lambda: L.RNN(stack(), return_sequences=True, zero_output_for_mask=True)
        ),
        "states of stacked cells": on(states),
        "a cell with options": on(
            lambda x: L.RNN(
                L.GRUCell(3, activation="relu", use_bias=False, reset_after=False,
                          kernel_regularizer="l2"),
                return_sequences=True, unroll=True,
            )(x)
        ),
    }  # fmt: skip


def number_layers() -> dict[str, Case]:
    def coded(call: Call, length: int = 5) -> Case:
        def build() -> keras.Model:
            x = keras.Input((length,), dtype="int32")
            return keras.Model(x, L.Dense(3)(L.Flatten()(call(x))))

        return Case(build, tokens(length, 7), floats(3), "mse")

    def reversible(**options: Any) -> Case:
        def build() -> keras.Model:
            x = keras.Input((5,), dtype="int32")
            layer = L.ReversibleEmbedding(9, 4, **options)
            return keras.Model(x, layer(L.Dense(4)(layer(x)), reverse=True))

        return Case(build, tokens(5, 9), floats(5, 9), "mse")

    bounds = [-0.8, 0.1, 0.7]
    return {
        "reversible embedding": reversible(),
        "reversible embedding of two tables": reversible(tie_weights=False, mask_zero=True),
        "reversible embedding capped": reversible(logit_soft_cap=0.5),
        "multi-hot categories": coded(L.CategoryEncoding(7)),
        "counted categories": coded(L.CategoryEncoding(7, output_mode="count")),
        "weighted categories": coded(
            lambda x: L.CategoryEncoding(7, output_mode="count")(x, count_weights=real(x) / 2)
        ),
        "one-hot categories": coded(L.CategoryEncoding(7, output_mode="one_hot")),
        "one-hot category": coded(L.CategoryEncoding(7, output_mode="one_hot"), 1),
        "bins": on(lambda x: real(L.Discretization(bounds)(x)) * trained(x)),
        "one-hot bins": on(lambda x: L.Discretization(bounds, output_mode="one_hot")(x)),
        "counted bins": on(
            lambda x: L.Discretization(bounds, output_mode="count")(ops.reshape(x, (-1, 24)))
        ),
        "alpha dropout of nothing": on(lambda x: L.AlphaDropout(0.0)(trained(x))),
    }


# What mixes samples, or has sizes that no one means: a model, and words of the answer.
REFUSED: dict[str, tuple[Call, str]] = {
    "cumprod": (lambda x: ops.cumprod(ops.cast(x, "int32"), axis=1), "expected real numbers"),
    "sum over the batch": (lambda x: ops.sum(trained(x), axis=0), "Samples are not mixed"),
    "std of everything": (lambda x: trained(x) * ops.std(x), "name the axes to fold"),
    "einsum": (lambda x: ops.einsum("bij,cij->bij", trained(x), x), "Samples are not mixed"),
    "a matrix before the batch": (
        lambda x: ops.matmul(trained(x)[:, 0], constant(1, 4, 2)),
        "Samples are not mixed",
    ),
    "take between values": (
        lambda x: ops.take(trained(x), ops.cast(x[:, 0, 0], "int32"), axis=1),
        "Use take_along_axis",
    ),
    "swap of the batch": (lambda x: ops.swapaxes(trained(x), 0, 1), "an axis after the batch"),
    "padding of the batch": (lambda x: ops.pad(trained(x), 1), "0 for the batch"),
    "half a turn": (
        lambda x: ops.rot90(trained(x), k=2, axes=(1, 2)),
        "a plane as wide as high for half a turn",
    ),
    "another quantile": (
        lambda x: ops.quantile(trained(x), 0.3, axis=1, method="lower"),
        "computes linear whatever it is told",
    ),
    "tiles without end": (lambda x: ops.tile(trained(x), (1, 1 << 30, 1 << 30)), "at most"),
    "classes without end": (
        lambda x: ops.one_hot(ops.cast(trained(x), "int32"), 1 << 39)[..., 0],
        "at most",
    ),
    "stateful cells": (
        lambda x: L.RNN(L.GRUCell(3), stateful=True)(trained(x)),
        "stateful: expected false",
    ),
}


CASES = functions() | moves() | folds() | orders() | products() | networks()
LAYERS = einsum_layers() | attention_layers() | recurrent_layers() | number_layers()


def zero_of(name: str) -> float:
    """Attention's key bias has a gradient of 0 but for rounding, as in test_sequences.py."""
    return 2.0**-24 if "attention" in name else ROUNDED_ZERO


@pytest.mark.parametrize("name", CASES)
def test_operation(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, CASES[name], orders=8 if name == "moments" else 1, zero=zero_of(name))


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, LAYERS[name], zero=zero_of(name))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    call, words = REFUSED[name]
    x = keras.Input(SHAPE, batch_size=BATCH if "stateful" in name else None)
    keras.Model(x, call(x)).save(tmp_path / "model.keras")
    answer = run_plimsoll("check", tmp_path / "model.keras", check=False)
    assert answer.returncode == 4
    assert words in answer.stdout + answer.stderr, answer.stdout + answer.stderr


def test_alpha_dropout_keeps_mean_and_variance(tmp_path: Path) -> None:
    """One step on a scale and an offset after it tells Σ y and Σ y² of what the layer gave."""
    count, rate = 200, 0.3
    x = keras.Input((count,))
    y = L.AlphaDropout(rate)(x)
    both = keras.Model(
        x, ops.sum(L.Dense(1)(ops.stack([y, ops.square(y)], axis=2)), axis=(1, 2))[:, None]
    )
    values = np.random.default_rng(5).normal(0, 1, (500, count)).astype("float32")
    case = Case(lambda: both, values, np.full(500, -1e6, "float32"), "mae")
    weights = [np.zeros((2, 1), "float32"), np.zeros(1, "float32")]
    _, (kernel, bias) = plimsoll_gradients(tmp_path, case, weights)
    mean, power = kernel[:, 0] / bias[0]
    assert abs(mean) < 0.02, mean
    assert abs(power - 1) < 0.05, power
