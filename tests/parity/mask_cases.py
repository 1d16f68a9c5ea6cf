"""Models in which a mask is made by one thing and met by another.

A *producer* gives values with a mask; a *consumer* is called on them. What comes out goes through a
small Dense layer to the model's output, so that a mask that is still there counts in the loss, in
the metrics and in every gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers as L
from keras import ops
from keras.src.applications.convnext import LayerScale, StochasticDepth
from keras.src.applications.inception_resnet_v2 import CustomScaleLayer

BATCH, STEPS, WIDTH, WORDS = 5, 6, 4, 9


@dataclass
class Made:
    """What a producer hands on: the model's inputs, values with a mask, and values without one."""

    inputs: list[Any]
    x: Any  # (batch, steps, width), masked
    other: Any  # the same shape, masked in other places
    bare: Any  # the same shape, no mask
    mask: Any = None  # a mask that a caller gives by hand, where there is one


@dataclass
class MaskCase:
    """One cell of the table."""

    producer: str
    consumer: str
    build: Callable[[], keras.Model]
    x: list[np.ndarray]


def word_data(seed: int) -> np.ndarray:
    """Numbers of words with zeros after, in between, and in front."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1, WORDS, (BATCH, STEPS)).astype("int32")
    words[0, 4:] = 0
    words[1, 2] = 0
    words[2, :2] = 0
    words[3, 1::2] = 0
    return words


def value_data(seed: int) -> np.ndarray:
    """Steps of numbers, of which some are all zero."""
    values = np.random.default_rng(seed).normal(0, 1, (BATCH, STEPS, WIDTH)).astype("float32")
    return values * (word_data(seed)[..., None] != 0)


def embedding() -> Made:
    words, more = keras.Input((STEPS,), dtype="int32"), keras.Input((STEPS,), dtype="int32")
    return Made(
        [words, more],
        L.Embedding(WORDS, WIDTH, mask_zero=True)(words),
        L.Embedding(WORDS, WIDTH, mask_zero=True)(more),
        L.Embedding(WORDS, WIDTH)(more),
    )


def masking() -> Made:
    values, more = keras.Input((STEPS, WIDTH)), keras.Input((STEPS, WIDTH))
    return Made(
        [values, more],
        L.Dense(WIDTH)(L.Masking()(values)),
        L.Masking()(more),
        L.Dense(WIDTH)(more),
    )


def given_mask() -> Made:
    values, mask = keras.Input((STEPS, WIDTH)), keras.Input((STEPS,), dtype="bool")
    return Made(
        [values, mask],
        L.SimpleRNN(WIDTH, return_sequences=True)(values, mask=mask),
        L.SimpleRNN(WIDTH, return_sequences=True)(values, mask=ops.logical_not(mask)),
        values,
        mask,
    )


def merged() -> Made:
    made = embedding()
    both = L.Add()([made.x, made.other])
    return Made(made.inputs, both, L.Maximum()([made.x, made.other]), made.bare)


def joined() -> Made:
    made = masking()
    side = L.Concatenate()([made.x, made.other])
    return Made(made.inputs, L.Dense(WIDTH)(side), made.x, made.bare)


def nested() -> Made:
    words, more = keras.Input((STEPS,), dtype="int32"), keras.Input((STEPS,), dtype="int32")
    inner = keras.Sequential(
        [keras.Input((STEPS,), dtype="int32"), L.Embedding(WORDS, WIDTH, mask_zero=True),
         L.Dense(WIDTH, activation="tanh")]
    )  # fmt: skip
    return Made([words, more], inner(words), inner(more), L.Embedding(WORDS, WIDTH)(more))


def attended() -> Made:
    made = embedding()
    return Made(made.inputs, L.Attention()([made.x, made.other]), made.other, made.bare)


PRODUCERS: dict[str, Callable[[], Made]] = {
    "Embedding": embedding,
    "Masking": masking,
    "mask= of a bool input": given_mask,
    "Add of two": merged,
    "Concatenate of two": joined,
    "nested model": nested,
    "Attention": attended,
}


def given(words: np.ndarray) -> np.ndarray:
    """A mask that hides something of each sample, as its opposite does."""
    words[4, 0] = 0
    return words != 0


def producer_data(producer: str) -> list[np.ndarray]:
    if producer == "mask= of a bool input":
        return [value_data(1), given(word_data(2))]
    if producer in ("Masking", "Concatenate of two"):
        return [value_data(1), value_data(2)]
    return [word_data(1), word_data(2)]


def causal(m: Made) -> Any:
    return L.MultiHeadAttention(2, 3, use_bias=False)(m.x, m.other, use_causal_mask=True)


def residual_attention(m: Made) -> Any:
    """Attention takes the mask of its inputs away: the sum has none."""
    return L.Add()([m.x, L.MultiHeadAttention(2, 3, use_bias=False)(m.x, m.x)])


def attention_beside(m: Made) -> Any:
    """What comes after attention in the order of layers sees no mask, what comes before does."""
    a = L.MultiHeadAttention(2, 3, use_bias=False)(m.x, m.other)
    b = L.GlobalAveragePooling1D()(L.Dense(WIDTH)(m.x))
    return L.Concatenate()([L.GlobalAveragePooling1D()(a), b, L.GlobalAveragePooling1D()(m.other)])


def gated_attention(m: Made) -> Any:
    """Both are called on the same values at one depth: which comes first decides on the mask."""
    gate = L.Dense(WIDTH, activation="sigmoid")(m.x)
    return L.Multiply()([L.MultiHeadAttention(2, 3, use_bias=False)(m.x, m.x), gate])


def attention_and_gate(m: Made) -> Any:
    attended = L.MultiHeadAttention(2, 3, use_bias=False)(m.x, m.x)
    return L.Multiply()([L.Dense(WIDTH, activation="sigmoid")(m.x), attended])


def with_states(m: Made) -> Any:
    y, h, c = L.LSTM(3, return_sequences=True, return_state=True)(m.x)
    return L.LSTM(3, return_sequences=True)(m.bare, initial_state=[h, c]) + y


def conv_steps(x: Any) -> Any:
    """Steps of an image of width 1; the mask of steps stays where it is put on again."""
    return L.TimeDistributed(L.Reshape((WIDTH, 1)))(x)


def conv_sequences(m: Made, **options: Any) -> Any:
    """Steps of vectors again, which is what a mask of steps fits in a loss."""
    y = L.ConvLSTM1D(2, 2, return_sequences=True, **options)(conv_steps(m.x))
    return L.TimeDistributed(L.Flatten())(y)


def conv_lstm_with_states(m: Made) -> Any:
    _, h, c = L.ConvLSTM1D(2, 2, return_state=True, padding="same")(conv_steps(m.bare))
    y = L.ConvLSTM1D(2, 2, return_sequences=True, padding="same")
    return L.TimeDistributed(L.Flatten())(y(conv_steps(m.x), initial_state=[h, c]))


def recipe(m: Made) -> Any:
    """Attention over time as it is often written by hand."""
    y = L.LSTM(WIDTH, return_sequences=True)(m.x)
    a = L.Activation("softmax")(L.Flatten()(L.Dense(1, activation="tanh")(y)))
    a = L.Permute([2, 1])(L.RepeatVector(WIDTH)(a))
    return L.Multiply()([y, a])


def two_dimensions(m: Made) -> Any:
    y = L.TimeDistributed(L.Reshape((2, WIDTH // 2)))(m.x)
    return L.TimeDistributed(L.Flatten())(L.TimeDistributed(L.Dense(3))(y))


def inner_model() -> keras.Model:
    return keras.Sequential(
        [keras.Input((WIDTH,)), L.Dense(5, activation="tanh"), L.BatchNormalization(), L.Dense(3)]
    )


def inner_steps() -> keras.Model:
    return keras.Sequential(
        [keras.Input((STEPS, WIDTH)), L.Dense(WIDTH), L.LSTM(3, return_sequences=True)]
    )


def inner_graph() -> keras.Model:
    x = keras.Input((WIDTH,))
    y = L.Dense(WIDTH, activation="relu")(x)
    return keras.Model(x, L.Concatenate()([L.Add()([x, y]), y]))


CONSUMERS: dict[str, Callable[[Made], Any]] = {
    "nothing": lambda m: m.x,
    # Layers that pass a mask on.
    "Activation": lambda m: L.Activation("tanh")(m.x),
    "ActivityRegularization": lambda m: L.ActivityRegularization(l2=0.1)(m.x),
    "BatchNormalization": lambda m: L.BatchNormalization()(m.x),
    "BatchNormalization frozen": lambda m: L.BatchNormalization(trainable=False)(m.x),
    "Dense": lambda m: L.Dense(3, activation="tanh")(m.x),
    "Dropout": lambda m: L.Dropout(0.0)(m.x),
    "ELU": lambda m: L.ELU()(m.x),
    "GaussianNoise": lambda m: L.GaussianNoise(0.0)(m.x),
    "GroupNormalization": lambda m: L.GroupNormalization(2)(m.x),
    "Identity": lambda m: L.Identity()(m.x),
    "LayerNormalization": lambda m: L.LayerNormalization()(m.x),
    "LeakyReLU": lambda m: L.LeakyReLU()(m.x),
    "PReLU": lambda m: L.PReLU()(m.x),
    "ReLU": lambda m: L.ReLU()(m.x),
    "Rescaling": lambda m: L.Rescaling(2.0)(m.x),
    "SpatialDropout1D": lambda m: L.SpatialDropout1D(0.0)(m.x),
    "UnitNormalization": lambda m: L.UnitNormalization()(m.x),
    "TimeDistributed(Dense)": lambda m: L.TimeDistributed(L.Dense(3))(m.x),
    "TimeDistributed(BatchNormalization)": lambda m: L.TimeDistributed(L.BatchNormalization())(m.x),
    "TimeDistributed(Sequential)": lambda m: L.TimeDistributed(inner_model())(m.x),
    "TimeDistributed(Functional)": lambda m: L.TimeDistributed(inner_graph())(m.x),
    "TimeDistributed twice": two_dimensions,
    "AlphaDropout": lambda m: L.AlphaDropout(0.0)(m.x),
    "EinsumDense": lambda m: L.EinsumDense("...x,xy->...y", 3)(m.x),  # which ends it
    "RMSNormalization": lambda m: L.RMSNormalization()(m.x),  # which ends it
    "LayerScale": lambda m: LayerScale(0.3, m.x.shape[-1])(m.x),  # which ends it
    "CustomScaleLayer": lambda m: CustomScaleLayer(0.17)([m.x, m.x]),  # which ends it
    "StochasticDepth": lambda m: StochasticDepth(0.0)(m.x),  # which ends it in training
    "STFTSpectrogram": lambda m: L.STFTSpectrogram("real", 2, window=None)(m.x),
    "SpectralNormalization": lambda m: L.SpectralNormalization(L.Dense(3))(m.x),
    # Layers that look at it.
    "Softmax": lambda m: L.Softmax()(m.x),
    "GlobalAveragePooling1D": lambda m: L.GlobalAveragePooling1D()(m.x),
    "GlobalAveragePooling1D keepdims": lambda m: L.GlobalAveragePooling1D(keepdims=True)(m.x),
    "LSTM": lambda m: L.LSTM(3)(m.x),
    "LSTM sequences": lambda m: L.LSTM(3, return_sequences=True)(m.x),
    "LSTM backwards": lambda m: L.LSTM(3, return_sequences=True, go_backwards=True)(m.x),
    "LSTM zero_output": lambda m: L.LSTM(3, return_sequences=True, zero_output_for_mask=True)(m.x),
    "LSTM states": with_states,
    "GRU": lambda m: L.GRU(3, return_sequences=True)(m.x),
    "SimpleRNN": lambda m: L.SimpleRNN(3, return_sequences=True)(m.x),
    "RNN": lambda m: L.RNN([L.LSTMCell(3), L.GRUCell(2)])(m.x),
    "RNN sequences": lambda m: L.RNN(
        [L.LSTMCell(3), L.GRUCell(2)], return_sequences=True, go_backwards=True
    )(m.x),
    "Bidirectional": lambda m: L.Bidirectional(L.GRU(3, return_sequences=True))(m.x),
    "ConvLSTM1D": lambda m: L.ConvLSTM1D(2, 2)(conv_steps(m.x)),
    "ConvLSTM1D sequences": lambda m: conv_sequences(m, padding="same", go_backwards=True),
    "ConvLSTM1D zero_output": lambda m: conv_sequences(m, zero_output_for_mask=True),
    "ConvLSTM1D states": conv_lstm_with_states,
    "Bidirectional last": lambda m: L.Bidirectional(L.LSTM(3), merge_mode="sum")(m.x),
    "Attention to bare": lambda m: L.Attention()([m.x, m.bare]),
    "Attention to masked": lambda m: L.Attention()([m.bare, m.other]),
    "Attention scaled": lambda m: L.Attention(use_scale=True)([m.x, m.other, m.bare]),
    "MultiHeadAttention": lambda m: L.MultiHeadAttention(2, 3, use_bias=False)(m.x, m.other),
    "MultiHeadAttention key": lambda m: L.MultiHeadAttention(2, 3, use_bias=False)(
        m.bare, m.x, m.other
    ),
    "MultiHeadAttention causal": causal,
    "GroupQueryAttention": lambda m: L.GroupQueryAttention(3, 2, 1, use_bias=False)(m.x, m.other),
    "AdditiveAttention to bare": lambda m: L.AdditiveAttention()([m.x, m.bare]),
    "AdditiveAttention to masked": lambda m: L.AdditiveAttention()([m.bare, m.other]),
    "attention and sum": residual_attention,
    "attention beside": attention_beside,
    "attention, gated": gated_attention,
    "attention and gate": attention_and_gate,
    # Merges.
    **{
        f"{merge.__name__} {name}": lambda m, merge=merge, pick=pick: merge()(pick(m))
        for merge in (L.Add, L.Average, L.Maximum, L.Minimum, L.Multiply, L.Subtract, L.Concatenate)
        for name, pick in {
            "masked": lambda m: [m.x, m.other],
            "masked, bare": lambda m: [m.x, m.bare],
            "bare, masked": lambda m: [m.bare, m.x],
        }.items()
    },
    "Multiply three": lambda m: L.Multiply()([m.x, m.bare, m.other]),
    "Maximum three": lambda m: L.Maximum()([m.x, m.bare, m.other]),
    "Minimum three": lambda m: L.Minimum()([m.x, m.other, L.Dense(WIDTH)(m.x)]),
    "Multiply by a column": lambda m: L.Multiply()([m.x, L.Dense(1)(m.other)]),
    "Maximum of a column": lambda m: L.Maximum()([m.x, L.Dense(1)(m.other)]),
    "Multiply by a vector": lambda m: L.Multiply()([m.x, L.GlobalMaxPooling1D()(m.bare)]),
    "Concatenate of steps": lambda m: L.Concatenate(axis=1)([m.x, m.other]),
    "Concatenate of steps, bare": lambda m: L.Concatenate(axis=1)([m.bare, m.x]),
    "Dot": lambda m: L.Dot((2, 2))([m.x, m.other]),
    "attention by hand": recipe,
    # Layers that end it.
    "AdaptiveAveragePooling1D": lambda m: L.AdaptiveAveragePooling1D(2)(m.x),
    "AdaptiveMaxPooling1D": lambda m: L.AdaptiveMaxPooling1D(2)(m.x),
    "AveragePooling1D": lambda m: L.AveragePooling1D(2)(m.x),
    "Conv1D": lambda m: L.Conv1D(3, 2)(m.x),
    "Cropping1D": lambda m: L.Cropping1D(1)(m.x),
    "DepthwiseConv1D": lambda m: L.DepthwiseConv1D(2)(m.x),
    "Flatten": lambda m: L.Flatten()(m.x),
    "GlobalMaxPooling1D": lambda m: L.GlobalMaxPooling1D()(m.x),
    "MaxPooling1D": lambda m: L.MaxPooling1D(2)(m.x),
    "Permute": lambda m: L.Permute((2, 1))(m.x),
    "Reshape": lambda m: L.Reshape((STEPS, WIDTH))(m.x),
    "SeparableConv1D": lambda m: L.SeparableConv1D(3, 2)(m.x),
    "UpSampling1D": lambda m: L.UpSampling1D(2)(m.x),
    "ZeroPadding1D": lambda m: L.ZeroPadding1D(1)(m.x),
    # Operators end it too.
    "x + 1": lambda m: m.x + 1.0,
    "x * y": lambda m: m.x * m.other,
    "slice": lambda m: m.x[:, 1:],
}

# Called with the mask by hand.
WITH_MASK: dict[str, Callable[[Made], Any]] = {
    "LSTM mask=": lambda m: L.LSTM(3, return_sequences=True)(m.bare, mask=m.mask),
    "GRU mask=": lambda m: L.GRU(3)(m.x, mask=m.mask),
    "Bidirectional mask=": lambda m: L.Bidirectional(L.LSTM(3, return_sequences=True))(
        m.bare, mask=m.mask
    ),
    "GlobalAveragePooling1D mask=": lambda m: L.GlobalAveragePooling1D()(m.bare, mask=m.mask),
    "GlobalAveragePooling1D of rows mask=": lambda m: L.GlobalAveragePooling1D(
        data_format="channels_first", keepdims=True
    )(L.Permute((2, 1))(m.bare), mask=m.mask),
    "BatchNormalization mask=": lambda m: L.BatchNormalization()(m.bare, mask=m.mask),
    "TimeDistributed mask=": lambda m: L.TimeDistributed(L.BatchNormalization())(
        m.bare, mask=m.mask
    ),
    "Softmax mask=": lambda m: L.Softmax(axis=1)(m.bare, mask=ops.expand_dims(m.mask, -1)),
    "Attention mask=": lambda m: L.Attention()([m.bare, m.x], mask=[None, m.mask]),
    "Attention without masks": lambda m: L.Attention()([m.x, m.other], mask=[None, None]),
    "nested model mask=": lambda m: inner_steps()(m.bare, mask=m.mask),
    "MultiHeadAttention attention_mask=": lambda m: L.MultiHeadAttention(2, 3, use_bias=False)(
        m.bare, m.bare, attention_mask=ops.expand_dims(m.mask, 1)
    ),
}
