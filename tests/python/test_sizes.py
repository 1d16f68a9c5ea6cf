"""Models whose inputs leave sizes open: planned for the sizes that come."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import assert_like, classes, normal, numbers

import plimsoll

L = keras.layers
SIZES = ((12, 10), (9, 14))


def convolutions(height: int | None, width: int | None) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(5)
    model = keras.Sequential([
        keras.Input((height, width, 3)), L.Conv2D(6, 3, activation="relu"), L.BatchNormalization(),
        L.GlobalAveragePooling2D(), L.Dropout(0.2), L.Dense(4, activation="softmax"),
    ])  # fmt: skip
    model.compile(
        keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


def pictures(size: tuple[int, int], rows: int = 20) -> tuple[np.ndarray, np.ndarray]:
    return normal(rows, *size, 3, seed=rows), classes(rows, 4)


def weights(model: keras.Model) -> list[np.ndarray]:
    return [numbers(variable) for variable in [*model.variables, *model.optimizer.variables]]


def test_sizes_come_from_the_data() -> None:
    x, y = pictures(SIZES[0])
    free, fixed = convolutions(None, None), convolutions(*SIZES[0])
    for model in (free, fixed):
        plimsoll.fit(model, x, y, batch_size=8, epochs=2, shuffle=False, verbose=0, seed=4)
    for one, other in zip(weights(free), weights(fixed)):
        assert np.array_equal(one, other)
    assert np.array_equal(plimsoll.predict(free, x), plimsoll.predict(fixed, x))
    assert plimsoll.evaluate(free, x, y) == plimsoll.evaluate(fixed, x, y)


def test_each_size_has_an_engine_of_its_own() -> None:
    ours, keras_own = convolutions(None, None), convolutions(None, None)
    for model in (ours, keras_own):
        model.layers[3].rate = 0.0  # Keras draws otherwise
    for step in range(6):
        x, y = pictures(SIZES[step % 2], rows=6)
        got = plimsoll.train_on_batch(ours, x, y)
        wanted = keras_own.train_on_batch(x, y)
        assert got[0] == pytest.approx(float(wanted[0]), rel=2e-4) or step  # Keras's is a mean
    assert_like(ours, keras_own)
    for size in SIZES:
        x, _ = pictures(size)
        np.testing.assert_allclose(plimsoll.predict(ours, x), keras_own.predict(x, verbose=0),
                                   rtol=1e-3, atol=1e-5)  # fmt: skip


def test_engines_beyond_the_last_eight_go() -> None:
    model = convolutions(None, None)
    for side in range(8, 20):
        plimsoll.predict(model, pictures((side, 9), rows=2)[0])
    known = vars(model)["_plimsoll"]
    assert len(known.siblings) == 8
    assert known.siblings[known.shapes] is known


def batches(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for begin in range(0, len(x), 8):
        yield x[begin : begin + 8], y[begin : begin + 8]


class Indexed(keras.utils.PyDataset):
    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        super().__init__()
        self.parts = list(batches(x, y))

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.parts[index]


@pytest.mark.parametrize("source", ["generator", "dataset", "py_dataset"])
def test_batches_say_their_sizes(source: str) -> None:
    x, y = pictures(SIZES[1])
    data: dict[str, Any] = {
        "generator": lambda: batches(x, y),
        "dataset": lambda: tf.data.Dataset.from_tensor_slices((x, y)).batch(8),
        "py_dataset": lambda: Indexed(x, y),
    }
    free, whole = convolutions(None, None), convolutions(*SIZES[1])
    plimsoll.fit(free, data[source](), epochs=1, shuffle=False, verbose=0, seed=4)
    plimsoll.fit(whole, x, y, batch_size=8, epochs=1, shuffle=False, verbose=0, seed=4)
    for one, other in zip(weights(free), weights(whole)):
        assert np.array_equal(one, other)


def test_one_call_has_one_size() -> None:
    model = convolutions(None, None)
    before = weights(model)[0]

    def mixed() -> Iterator[Any]:
        yield pictures(SIZES[0], rows=4)
        yield pictures(SIZES[1], rows=4)

    with pytest.raises(plimsoll.Refused, match=r"one size within a call.*\(12, 10, 3\)") as caught:
        plimsoll.fit(model, mixed(), epochs=1, verbose=0)
    assert "(9, 14, 3)" in str(caught.value)
    assert not np.array_equal(before, weights(model)[0]), "the first batch was trained on"
    with pytest.raises(plimsoll.Refused, match="one size within a call"):
        plimsoll.predict(model, (x for x, _y in mixed()))


def test_data_that_do_not_fit_what_is_said_of_the_input() -> None:
    model = convolutions(None, None)
    with pytest.raises(ValueError, match=r"expected samples of shape \(None, None, 3\)"):
        plimsoll.fit(model, normal(4, 12, 10, 1), classes(4, 4), verbose=0)
    with pytest.raises(ValueError, match=r"received \(12, 10\)"):
        plimsoll.predict(model, normal(4, 12, 10))


def arena(answer: plimsoll.PlanAnswer) -> int:
    return answer.details["planned_arena_bytes"]


def test_plan_is_told_the_sizes() -> None:
    model = convolutions(None, None)
    with pytest.raises(ValueError, match="input_shape="):
        plimsoll.plan(model, 8)
    small = arena(plimsoll.plan(model, 8, input_shape=(12, 10, 3)))
    large = arena(plimsoll.plan(model, 8, input_shape=(96, 80, 3)))
    assert large > small + 4 * 96 * 80 * 3, "a picture more"
    assert arena(plimsoll.plan(model, 8)) == large, "the sizes of the last call"
    with pytest.raises(ValueError, match="input_shape="):
        plimsoll.Trainer(model)
    trainer = plimsoll.Trainer(model, input_shape=(12, 10, 3))
    trainer.accumulate(*pictures(SIZES[0], rows=4))
    trainer.apply()
    with pytest.raises(ValueError, match="leaves none"):
        plimsoll.plan(convolutions(12, 10), 8, input_shape=(12, 10, 3))


def test_a_sequence_of_any_length() -> None:
    keras.backend.clear_session()
    keras.utils.set_random_seed(5)
    first, second = keras.Input((None, 4), name="first"), keras.Input((3,), name="second")
    joined = L.Concatenate()([L.LSTM(5)(first), second])
    model = keras.Model({"first": first, "second": second}, L.Dense(1)(joined))
    model.compile("sgd", "mse")
    for length in (5, 9):
        x = {"first": normal(6, length, 4), "second": normal(6, 3)}
        np.testing.assert_allclose(plimsoll.predict(model, x), model.predict(x, verbose=0),
                                   rtol=1e-4, atol=1e-5)  # fmt: skip
