"""Models over sequences: recurrences, embeddings, attention, masks, at odd lengths."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from harness import Case
from keras import layers as L

RNG = np.random.default_rng(9)
START = RNG.bit_generator.state
BATCH = 7
STEPS = 11  # neither a power of two nor a multiple of one


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, (BATCH, *shape)).astype("float32")


def tokens(length: int, count: int, padded: bool = True) -> np.ndarray:
    """Class numbers from 1; with `padded`, zeros after, before and between them."""
    numbers = RNG.integers(1, count, (BATCH, length)).astype("int32")
    if padded:
        for row, used in zip(numbers, RNG.integers(1, length + 1, BATCH)):
            row[used:] = 0
        numbers[1, 0] = numbers[2, length // 2] = 0
    return numbers


def lazy(layer: Callable[..., L.Layer], *args: Any, **kwargs: Any) -> Callable[[], L.Layer]:
    return lambda: layer(*args, **kwargs)


def on_floats(
    *make: Callable[[], L.Layer], shape: tuple[int, ...] = (STEPS, 5), outputs: int = 3
) -> Case:
    """Layers on a sequence of vectors, a dense head, a mean square."""

    def build() -> keras.Model:
        return keras.Sequential(
            [keras.Input(shape), *(m() for m in make), L.Flatten(), L.Dense(outputs)]
        )

    return Case(build, floats(*shape), floats(outputs), "mse")


def spectrograms() -> dict[str, Case]:
    """Channels last: tests/python/test_spectrograms.py has what Keras computes in float32 alone."""
    stft = lambda *shape, **options: on_floats(  # noqa: E731
        lazy(L.STFTSpectrogram, window=None, **options), shape=shape or (50, 2)
    )
    return {
        "spectrogram": stft(frame_length=12),
        "spectrogram of magnitudes": stft(
            mode="magnitude", frame_length=10, frame_step=3, padding="same", expand_dims=True
        ),
        "spectrogram of power": stft(mode="psd", frame_length=8, fft_length=20),
        "spectrogram, real": stft(mode="real", frame_length=9),
    }


def on_tokens(*make: Callable[[], L.Layer], mask_zero: bool = True, steps: bool = False) -> Case:
    """Layers after an embedding; with `steps`, one label for each of them."""

    def build() -> keras.Model:
        head = [] if steps else [L.Flatten()]
        return keras.Sequential(
            [
                keras.Input((STEPS,), dtype="int32"),
                L.Embedding(20, 6, mask_zero=mask_zero),
                *(m() for m in make),
                *head,
                L.Dense(3),
            ]
        )

    y = floats(STEPS, 3) if steps else floats(3)
    return Case(build, tokens(STEPS, 20), y, "mse")


def recurrent_cases() -> dict[str, Case]:
    cases = {}
    for layer in (L.LSTM, L.GRU, L.SimpleRNN):
        name = layer.__name__
        cases |= {
            name: on_floats(lazy(layer, 4)),
            f"{name} sequences": on_floats(lazy(layer, 5, return_sequences=True)),
            f"{name} backwards": on_floats(lazy(layer, 4, go_backwards=True)),
            f"{name} sequences backwards": on_floats(
                lazy(layer, 3, go_backwards=True, return_sequences=True)
            ),
            f"{name} no bias": on_floats(lazy(layer, 4, use_bias=False)),
            f"{name} stacked": on_floats(
                lazy(layer, 4, return_sequences=True), lazy(layer, 3, unroll=True)
            ),
            f"{name} relu": on_floats(lazy(layer, 4, activation="relu")),
            f"{name} one step": on_floats(lazy(layer, 4), shape=(1, 5)),
            f"{name} regularized": on_floats(
                lazy(
                    layer, 4, kernel_regularizer="l2", recurrent_regularizer="l1",
                    bias_regularizer="l2",
                )
            ),
            f"{name} masked": on_tokens(lazy(layer, 4)),
            f"{name} masked sequences": on_tokens(
                lazy(layer, 4, return_sequences=True), lazy(layer, 3, go_backwards=True)
            ),
            f"{name} masked zeros": on_tokens(
                lazy(layer, 4, return_sequences=True, zero_output_for_mask=True),
            ),
            f"{name} masked to the loss": on_tokens(
                lazy(layer, 4, return_sequences=True), steps=True
            ),
        }  # fmt: skip
    cases |= {
        "LSTM hard": on_floats(
            lazy(L.LSTM, 4, recurrent_activation="hard_sigmoid", activation="softsign")
        ),
        "LSTM of sums": on_floats(
            lazy(L.LSTM, 4, recurrent_activation="hard_silu", activation="gelu")
        ),
        "LSTM no forget bias": on_floats(lazy(L.LSTM, 4, unit_forget_bias=False)),
        "GRU reset before": on_floats(lazy(L.GRU, 4, reset_after=False, return_sequences=True)),
        "GRU reset before, masked": on_tokens(lazy(L.GRU, 4, reset_after=False)),
    }
    return cases


def convolved(layer: Callable[..., L.Layer], *shape: int, **options: Any) -> Case:
    """Over 4 steps of shape `shape`, with options that every layer of that family has."""
    return on_floats(lazy(layer, 3, 2, **options), shape=(4, *shape))


def conv_lstm_cases() -> dict[str, Case]:
    states: dict[str, Any] = {"return_sequences": True, "padding": "same"}
    return {
        "ConvLSTM1D": convolved(L.ConvLSTM1D, 7, 2),
        "ConvLSTM1D same": convolved(
            L.ConvLSTM1D, 7, 2, strides=3, padding="same", go_backwards=True, return_sequences=True
        ),
        "ConvLSTM1D dilated": convolved(L.ConvLSTM1D, 7, 2, dilation_rate=2, **states),
        "ConvLSTM2D": convolved(L.ConvLSTM2D, 5, 4, 2, recurrent_activation="hard_sigmoid"),
        "ConvLSTM2D no bias": convolved(
            L.ConvLSTM2D, 5, 4, 2, use_bias=False, activation="relu", **states
        ),
        "ConvLSTM2D stacked": on_floats(
            lazy(L.ConvLSTM2D, 2, (3, 1), **states, unit_forget_bias=False),
            lazy(L.BatchNormalization),
            lazy(L.ConvLSTM2D, 2, 2, kernel_regularizer="l2", bias_regularizer="l1"),
            shape=(3, 4, 5, 2),
        ),
        "ConvLSTM3D": convolved(L.ConvLSTM3D, 3, 4, 3, 2, padding="same"),
    }


def embedding_cases() -> dict[str, Case]:
    return {
        "embedding": on_tokens(mask_zero=False),
        "embedding, steps": on_tokens(mask_zero=False, steps=True),
        "embedding to the loss": on_tokens(mask_zero=True, steps=True),
    }


def functional(
    shapes: list[tuple[int, ...]], call: Callable[..., Any], mask: bool = False
) -> Callable[[], keras.Model]:
    """One vector of inputs cut into several, so that a case has one file of data."""

    def build() -> keras.Model:
        x = keras.Input(shapes[0])
        return keras.Model(x, L.Dense(3)(L.Flatten()(call(x))))

    return build


def wrapper_cases() -> dict[str, Case]:
    cases = {
        f"bidirectional {mode}": on_floats(
            lazy(lambda m: L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode=m), mode)
        )
        for mode in ("concat", "sum", "mul", "ave")
    }
    return cases | {
        "bidirectional last": on_floats(lambda: L.Bidirectional(L.GRU(4))),
        "bidirectional cells": on_floats(
            lambda: L.Bidirectional(
                L.RNN([L.LSTMCell(3), L.GRUCell(2)], return_sequences=True), merge_mode="sum"
            ),
            lambda: L.Bidirectional(
                L.RNN(L.SimpleRNNCell(2)), backward_layer=L.LSTM(2, go_backwards=True)
            ),
        ),
        "bidirectional ConvLSTM1D": on_floats(
            lambda: L.Bidirectional(L.ConvLSTM1D(2, 2, padding="same", return_sequences=True)),
            shape=(4, 5, 2),
        ),
        "bidirectional ConvLSTM2D": on_floats(
            lambda: L.Bidirectional(L.ConvLSTM2D(3, 2, dropout=0.0), merge_mode="sum"),
            shape=(3, 4, 5, 2),
        ),
        "bidirectional ConvLSTM3D": on_floats(
            lambda: L.Bidirectional(L.ConvLSTM3D(2, 2, return_sequences=True), merge_mode="ave"),
            shape=(3, 3, 2, 3, 2),
        ),
        "bidirectional cells masked": on_tokens(
            lambda: L.Bidirectional(L.RNN([L.GRUCell(2), L.GRUCell(3)], return_sequences=True)),
            steps=True,
        ),
        "bidirectional masked": on_tokens(
            lambda: L.Bidirectional(L.LSTM(3, return_sequences=True)),
            lambda: L.Bidirectional(L.SimpleRNN(2)),
        ),
        "bidirectional masked to the loss": on_tokens(
            lambda: L.Bidirectional(L.GRU(3, return_sequences=True)), steps=True
        ),
        "time distributed dense": on_floats(lambda: L.TimeDistributed(L.Dense(4, "relu"))),
        "time distributed convolution": on_floats(
            lambda: L.TimeDistributed(L.Conv2D(3, 2)), shape=(3, 4, 5, 2)
        ),
        "time distributed flatten": on_floats(
            lambda: L.TimeDistributed(L.Flatten()), lazy(L.LSTM, 3), shape=(3, 4, 2)
        ),
        "time distributed lstm": on_floats(
            lambda: L.TimeDistributed(L.LSTM(3)), lazy(L.GRU, 2), shape=(3, 4, 2)
        ),
        "masking": Case(
            lambda: keras.Sequential(
                [keras.Input((STEPS, 4)), L.Masking(), L.LSTM(3, return_sequences=True), L.Dense(2)]
            ),
            np.where(RNG.random((BATCH, STEPS, 1)) < 0.4, 0, floats(STEPS, 4)).astype("float32"),
            floats(STEPS, 2),
            "mse",
        ),
        "repeat vector": on_floats(lazy(L.RepeatVector, 5), lazy(L.LSTM, 3), shape=(6,)),
    }


def normalization_cases() -> dict[str, Case]:
    return {
        "layer normalization": on_floats(lazy(L.LayerNormalization)),
        "layer normalization, no scale": on_floats(
            lazy(L.LayerNormalization, scale=False, epsilon=1e-5)
        ),
        "layer normalization of two axes": on_floats(lazy(L.LayerNormalization, axis=[1, 2])),
        "layer normalization masked": on_tokens(
            lazy(L.LayerNormalization), lazy(L.LSTM, 3), mask_zero=True
        ),
        **spectrograms(),
        "rms normalization": on_floats(lazy(L.RMSNormalization)),
        "rms normalization of two axes": on_floats(
            lazy(L.RMSNormalization, axis=[1, 2], epsilon=1e-3)
        ),
        "rms normalization between layers": on_tokens(
            lazy(L.RMSNormalization),
            lazy(L.LSTM, 3, return_sequences=True),
            lazy(L.RMSNormalization),
        ),
        "group normalization": on_floats(lazy(L.GroupNormalization, groups=2), shape=(5, 3, 6)),
        "group normalization of all": on_floats(
            lazy(L.GroupNormalization, groups=-1, scale=False), shape=(STEPS, 6)
        ),
        "normalization": on_floats(
            lazy(L.Normalization, mean=[1.0, 2.0, 0.5], variance=[1.0, 4.0, 0.0]), shape=(7, 3)
        ),
        "normalization by one number": on_floats(
            lazy(L.Normalization, axis=None, mean=0.3, variance=2.0)
        ),
        "prelu": on_floats(lazy(L.PReLU, alpha_initializer="glorot_uniform")),
        "prelu shared": on_floats(
            lazy(L.PReLU, alpha_initializer="ones", shared_axes=[1]), shape=(5, 3)
        ),
        "permute": on_floats(lazy(L.Permute, (2, 1)), lazy(L.LSTM, 3)),
        "noise of nothing": on_floats(
            lazy(L.GaussianNoise, 0.0), lazy(L.GaussianDropout, 0.0), lazy(L.SpatialDropout1D, 0.0)
        ),
    }


def attend(**options: Any) -> Callable[[Any], Any]:
    return lambda x: L.MultiHeadAttention(2, 3, **options)(x, x)


def attention_cases() -> dict[str, Case]:
    def on(call: Callable[[Any], Any], length: int = STEPS) -> Case:
        return Case(functional([(length, 5)], call), floats(length, 5), floats(3), "mse")

    def masked() -> keras.Model:
        x = keras.Input((STEPS,), dtype="int32")
        y = L.Embedding(20, 6, mask_zero=True)(x)
        y = L.MultiHeadAttention(2, 3)(y, y, use_causal_mask=True)
        return keras.Model(x, L.Dense(3)(y))

    def cross() -> keras.Model:
        x = keras.Input((STEPS, 5))
        key, value = L.Dense(4)(x), L.Dense(6)(x)
        query = L.Dense(7)(x[:, :3])
        y = L.MultiHeadAttention(3, 2, value_dim=4, output_shape=5)(query, value, key=key)
        return keras.Model(x, L.Dense(3)(L.Flatten()(y)))

    def given_mask() -> keras.Model:
        x = keras.Input((STEPS, 5))
        allowed = np.random.default_rng(1).random((1, STEPS, STEPS)) < 0.7
        y = L.MultiHeadAttention(2, 3)(x, x, attention_mask=keras.ops.convert_to_tensor(allowed))
        return keras.Model(x, L.Dense(3)(L.Flatten()(y)))

    return {
        "attention": on(attend()),
        "attention no bias": on(attend(use_bias=False, value_dim=4)),
        "attention long": on(attend(), 75),
        "attention causal": on(
            lambda x: L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True), 33
        ),
        "attention masked to the loss": Case(masked, tokens(STEPS, 20), floats(STEPS, 3), "mse"),
        "attention across": Case(cross, floats(STEPS, 5), floats(3), "mse"),
        "attention with a mask": Case(given_mask, floats(STEPS, 5), floats(3), "mse"),
        "attention of one head": on(lambda x: L.Attention(use_scale=True)([x, L.Dense(5)(x)])),
    }


def state_cases() -> dict[str, Case]:
    def seq2seq(layer: Callable[..., L.Layer], masked: bool) -> Callable[[], keras.Model]:
        def build() -> keras.Model:
            x = keras.Input((STEPS,), dtype="int32")
            y = L.Embedding(20, 5, mask_zero=masked)(x)
            _, *states = layer(4, return_state=True)(y)
            z = layer(4, return_sequences=True)(
                L.Embedding(20, 3, mask_zero=masked)(x), initial_state=states
            )
            return keras.Model(x, L.Dense(2)(z))

        return build

    cases = {}
    for layer in (L.LSTM, L.GRU, L.SimpleRNN):
        for masked in (False, True):
            name = f"{layer.__name__} from states{', masked' if masked else ''}"
            cases[name] = Case(seq2seq(layer, masked), tokens(STEPS, 20), floats(STEPS, 2), "mse")
    return cases


def operation_cases() -> dict[str, Case]:
    ops = keras.ops

    def on(call: Callable[[Any], Any]) -> Case:
        return Case(functional([(6, 4)], call), floats(6, 4), floats(3), "mse")

    def positive(x: Any) -> Any:
        return ops.square(L.Dense(4)(x)) + 0.5

    def heads(x: Any) -> Any:
        turn = lambda y: ops.transpose(ops.reshape(L.Dense(6)(y), (-1, 6, 2, 3)), (0, 2, 1, 3))  # noqa: E731
        return ops.matmul(turn(x), ops.transpose(turn(x), (0, 1, 3, 2)))

    table = np.random.default_rng(2).normal(0, 1, (6, 4)).astype("float32")
    return {
        "plus a number": on(lambda x: x + 1.5),
        "number minus": on(lambda x: 2 - x),
        "times and over": on(lambda x: x * 3 / (ops.square(x) + 1)),
        "plus an array": on(lambda x: x + table),
        "plus a row": on(lambda x: x * table[0]),
        "two values": on(lambda x: (x + L.Dense(4)(x)) * L.Dense(1)(x)),
        "items": on(lambda x: ops.concatenate([x[:, -1:], x[:, 1:4]], axis=1)),
        "item": on(lambda x: x[:, 2] * x[..., 0:1, :][:, 0]),
        "reshape": on(lambda x: ops.expand_dims(ops.reshape(x, (-1, 3, 8)), 1)),
        "transpose": on(lambda x: ops.transpose(x, (0, 2, 1))),
        "mean": on(lambda x: ops.mean(x, axis=1) + ops.sum(x, axis=(1,))),
        "stack": on(lambda x: ops.stack([x, -x], axis=2)),
        "activations": on(lambda x: ops.gelu(ops.relu(x) + ops.tanh(x)) + ops.sigmoid(x)),
        "softmax": on(lambda x: ops.softmax(x, axis=-1)),
        "flip": on(lambda x: L.LSTM(3)(ops.flip(x, axis=1))),
        "roots": on(lambda x: ops.sqrt(positive(x)) + ops.rsqrt(positive(x))),
        "logarithms": on(lambda x: ops.log(positive(x)) - ops.log1p(positive(x))),
        "powers": on(lambda x: ops.power(positive(x), 1.5) + ops.expm1(L.Dense(4)(x))),
        "waves": on(lambda x: ops.sin(L.Dense(4)(x)) * ops.cos(L.Dense(4)(x))),
        "absolute": on(lambda x: ops.abs(L.Dense(4)(x)) + ops.sign(L.Dense(4)(x))),
        "reciprocal": on(lambda x: ops.reciprocal(positive(x))),
        "largest": on(lambda x: ops.max(L.Dense(4)(x), axis=1) - ops.min(L.Dense(4)(x), axis=(1,))),
        "largest of all": on(lambda x: ops.max(L.Dense(4)(x), axis=(1, 2), keepdims=True)),
        "clip": on(lambda x: ops.clip(L.Dense(4)(x), -0.5, 0.7)),
        "where": on(lambda x: ops.where(x > 0, L.Dense(4)(x), 0.5)),
        "where of a column": on(lambda x: ops.where(x[..., :1] > 0, x, L.Dense(4)(x))),
        "matmul": on(lambda x: ops.matmul(L.Dense(3)(x), ops.transpose(L.Dense(3)(x), (0, 2, 1)))),
        "matmul in heads": on(heads),
        "softmax of steps": on(lambda x: ops.softmax(L.Dense(4)(x), axis=1)),
        "any and all": on(
            lambda x: (
                L.Dense(4)(x)
                * ops.cast(ops.any(x > 0, axis=1, keepdims=True), "float32")
                * ops.cast(ops.logical_not(ops.all(x > 0.5, axis=(1, 2), keepdims=True)), "float32")
            )
        ),
    }
