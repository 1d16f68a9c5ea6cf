"""Models that begin with text or with a look-up: Keras's layer runs, the engine trains the rest."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import plimsoll

L = keras.layers
WORDS = ["the ship", "a ship sails", "the sea", "a storm at sea", "the calm", "storm"]
TEXTS = np.array(WORDS * 5, dtype=object)
NUMBERS = np.arange(30, dtype="int64").reshape(-1, 1) * 7 % 11
Y = (np.arange(30) % 3 == 0).astype("float32").reshape(-1, 1)


def text_layer(**options: Any) -> L.Layer:
    layer = L.TextVectorization(max_tokens=12, output_sequence_length=4, **options)
    layer.adapt(TEXTS)
    return layer


def custom(text: Any) -> Any:
    return tf.strings.regex_replace(tf.strings.lower(text), "s", "z")


def sequential() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((1,), dtype="string", name="words"),
            text_layer(standardize=custom),
            L.Embedding(12, 4),
            L.GlobalAveragePooling1D(),
            L.Dense(1, "sigmoid"),
        ]
    )


def look_up(*layers: L.Layer, dtype: str = "string") -> keras.Model:
    """One sample is one thing to look up."""
    return keras.Sequential(
        [keras.Input((1,), dtype=dtype), *layers, L.Flatten(), L.Dense(1, "sigmoid")]
    )


def two_inputs() -> keras.Model:
    words = keras.Input((), dtype="string", name="words")
    number = keras.Input((1,), dtype="int64", name="number")
    y = L.Embedding(12, 3)(text_layer()(words))
    z = L.IntegerLookup(vocabulary=[0, 3, 7], output_mode="one_hot", num_oov_indices=2)(number)
    y = L.Concatenate()([L.GlobalMaxPooling1D()(y), z])
    return keras.Model([words, number], L.Dense(1, "sigmoid")(y))


CASES: dict[str, tuple[Callable[[], keras.Model], Any]] = {
    "text": (sequential, TEXTS),
    "text in columns": (sequential, TEXTS[:, None]),
    "text as counts": (
        lambda: look_up(L.TextVectorization(output_mode="count", vocabulary=["ship", "sea"])),
        TEXTS,
    ),
    "strings": (
        lambda: look_up(L.StringLookup(vocabulary=WORDS[:3], output_mode="one_hot")),
        TEXTS,
    ),
    "integers": (
        lambda: look_up(L.IntegerLookup(vocabulary=[7, 3, 10]), L.Embedding(4, 3), dtype="int64"),
        NUMBERS,
    ),
    "hashed integers": (
        lambda: look_up(L.Hashing(5), L.Embedding(5, 3), dtype="int64"),
        NUMBERS,
    ),
    "hashed strings": (lambda: look_up(L.Hashing(5, salt=7), L.Embedding(5, 3)), TEXTS),
    "two inputs": (two_inputs, {"words": TEXTS, "number": NUMBERS}),
    "two inputs in a list": (two_inputs, [TEXTS, NUMBERS]),
}


def trained(make: Callable[[], keras.Model], fit: Any, x: Any, *y: Any) -> tuple[Any, keras.Model]:
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    model = make()
    model.compile(keras.optimizers.SGD(0.2), "binary_crossentropy", metrics=["accuracy"])
    history = fit(model, x, *y, batch_size=8 if y else None, epochs=2, shuffle=False, verbose=0)
    return history.history, model


def tensors(x: Any) -> Any:
    """As Keras's own fit takes them."""
    if isinstance(x, dict):
        return {name: tensors(value) for name, value in x.items()}
    if isinstance(x, list):
        return [tensors(value) for value in x]
    return tf.constant(x)


@pytest.mark.parametrize("name", CASES)
def test_trains_as_keras(name: str) -> None:
    make, x = CASES[name]
    expected, _ = trained(make, keras.Model.fit, tensors(x), tf.constant(Y))
    found, model = trained(make, plimsoll.fit, x, Y)
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        plimsoll.predict(model, x), model.predict(tensors(x), verbose=0), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        plimsoll.evaluate(model, tensors(x), Y), model.evaluate(tensors(x), Y, verbose=0), rtol=1e-4
    )


def test_trains_on_batches_of_text() -> None:
    def batches() -> Any:
        return tf.data.Dataset.from_tensor_slices((tf.constant(TEXTS), Y)).batch(8)

    expected, _ = trained(sequential, keras.Model.fit, batches())
    found, model = trained(sequential, plimsoll.fit, batches())
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-4)
    plimsoll.train_on_batch(model, TEXTS[:8], Y[:8])


def test_another_vocabulary_is_seen() -> None:
    _, model = trained(sequential, plimsoll.fit, TEXTS, Y)
    model.layers[0].set_vocabulary(["zea", "ztorm", "the"])
    found = plimsoll.predict(model, TEXTS)
    np.testing.assert_allclose(found, model.predict(tensors(TEXTS), verbose=0), rtol=1e-4)


def test_an_open_length_is_refused() -> None:
    layer = L.TextVectorization(vocabulary=["ship", "sea"])
    model = keras.Sequential(
        [keras.Input((1,), dtype="string"), layer, L.Embedding(4, 3), L.GlobalMaxPooling1D()]
    )
    model.compile("sgd", "mse")
    with pytest.raises(plimsoll.Refused, match="Give output_sequence_length"):
        plimsoll.fit(model, TEXTS, np.zeros((30, 3), "float32"), verbose=0)


def test_ragged_output_is_refused() -> None:
    layer = L.TextVectorization(vocabulary=["ship", "sea"], ragged=True)
    model = keras.Sequential([keras.Input((1,), dtype="string"), layer, L.Embedding(4, 3)])
    model.compile("sgd", "mse")
    with pytest.raises(plimsoll.Refused):
        plimsoll.fit(model, TEXTS, np.zeros((30, 3), "float32"), verbose=0)
