"""What programs do to a model, to its optimizer and between batches while sessions are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as L

import plimsoll

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(32, 8)).astype("float32")
Y = RANDOM.integers(0, 2, 32).astype("float32")


def network(optimizer: Any = "adam", dropout: float = 0.0) -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((8,)), L.Dense(64, activation="relu"), L.Dropout(dropout),
        L.Dense(1, activation="sigmoid", name="head"),
    ])  # fmt: skip
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
    return model


def at_rest(model: Any) -> Any:
    """Steps that change no weight: losses differ by dropout alone."""
    model.optimizer.learning_rate.assign(0.0)
    return model


def test_draws_go_on_when_weights_of_samples_come_and_go() -> None:
    model = at_rest(network("sgd", 0.5))
    ones = np.ones(len(X), "float32")
    losses = [plimsoll.train_on_batch(model, X, Y, ones if i % 2 else None)[0] for i in range(6)]
    assert len(set(losses)) == 6


def test_draws_do_not_depend_on_sessions_that_end() -> None:
    model = at_rest(network("sgd", 0.5))
    whole = [plimsoll.train_on_batch(model, X, Y)[0] for _ in range(4)]
    model.optimizer.iterations.assign(0)
    cut = []
    for _ in range(4):
        cut.append(plimsoll.train_on_batch(model, X, Y)[0])
        plimsoll.release(model)
    assert cut == whole


class Losses(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(logs["loss"])


def test_draws_are_the_same_by_every_way_of_training() -> None:
    """By seed, step and layer: whoever runs the steps, and however often sessions begin."""
    keras.backend.clear_session()  # draws go by the names of layers
    model = network("sgd", 0.5)
    expected = [plimsoll.train_on_batch(model, X, Y)[0] for _ in range(6)]
    keras.backend.clear_session()  # draws go by the names of layers
    model = network("sgd", 0.5)
    told = [plimsoll.train_on_batch(model, X, Y)[0] for _ in range(2)]
    for x, y, steps in ((X, Y, None), (iter([(X, Y)] * 2), None, 1)):
        losses = Losses()
        plimsoll.fit(model, x, y, batch_size=32, epochs=2, verbose=0, shuffle=False,
                     steps_per_epoch=steps, callbacks=[losses])  # fmt: skip
        told += losses.seen
    np.testing.assert_allclose(told, expected, rtol=1e-5)


class Evaluates(keras.callbacks.Callback):  # type: ignore[misc]
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        plimsoll.evaluate(self.model, X, Y)


def test_draws_go_on_after_a_callback_that_evaluates() -> None:
    history = plimsoll.fit(at_rest(network("sgd", 0.5)), X, Y, batch_size=32, epochs=4, verbose=0,
                           shuffle=False, callbacks=[Evaluates()])  # fmt: skip
    assert len(set(history.history["loss"])) == 4


def test_a_layer_that_was_replaced_by_one_alike_is_seen() -> None:
    model = network()
    plimsoll.predict(model, X)
    model.pop()
    model.add(L.Dense(1, activation="sigmoid", name="head"))
    np.testing.assert_allclose(plimsoll.predict(model, X), model.predict(X, verbose=0), atol=1e-6)


@pytest.mark.parametrize("other", [
    lambda: keras.optimizers.RMSprop(1e-3), lambda: keras.optimizers.Adam(1e-3, clipnorm=1.0),
])  # fmt: skip
def test_another_optimizer_without_compile_is_refused(other: Any) -> None:
    model = network()
    plimsoll.train_on_batch(model, X, Y)
    model.optimizer = other()
    with pytest.raises(plimsoll.Refused, match="Compile the model with it"):
        plimsoll.train_on_batch(model, X, Y)


def test_an_optimizer_that_is_alike_is_taken() -> None:
    model = network()
    model.optimizer = keras.optimizers.Adam(1e-2)
    plimsoll.train_on_batch(model, X, Y)
    assert int(model.optimizer.iterations.numpy()) == 1


def test_a_variable_that_is_frozen_by_itself_is_refused() -> None:
    model = network()
    model.layers[0].kernel.trainable = False
    model.compile("sgd", "mse")
    with pytest.raises(plimsoll.Refused, match="kernel: expected a variable that is trained"):
        plimsoll.train_on_batch(model, X, Y)


def test_an_evaluation_outlives_what_others_do_between_its_batches() -> None:
    model, other = network(), network()

    def batches() -> Iterator[Any]:
        for begin in range(0, 32, 8):
            plimsoll.predict(other, X, memory="6GiB")
            plimsoll.release()
            yield X[begin : begin + 8], Y[begin : begin + 8]

    ours = plimsoll.evaluate(model, batches(), memory="6GiB")
    np.testing.assert_allclose(ours, model.evaluate(X, Y, batch_size=8, verbose=0), rtol=1e-5)


class EvaluatesBatches(keras.callbacks.Callback):  # type: ignore[misc]
    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        plimsoll.evaluate(self.model, X, Y)


def test_an_evaluation_inside_of_an_evaluation_is_refused() -> None:
    model = network()
    with pytest.raises(ValueError, match="in the middle of another call"):
        plimsoll.evaluate(model, X, Y, batch_size=8, callbacks=[EvaluatesBatches()])
    np.testing.assert_allclose(plimsoll.evaluate(model, X, Y), model.evaluate(X, Y, verbose=0),
                               rtol=1e-5)  # fmt: skip


def test_options_of_other_calls_are_refused() -> None:
    with pytest.raises(TypeError, match="batch_size"):
        plimsoll.train_on_batch(network(), X, Y, batch_size=4)


def test_draws_go_on_where_batches_come_one_by_one() -> None:
    def batches() -> Iterator[Any]:
        while True:
            yield X, Y

    model = at_rest(network("sgd", 0.5))
    history = plimsoll.fit(model, batches(), steps_per_epoch=1, epochs=4, verbose=0,
                           callbacks=[Evaluates()])  # fmt: skip
    assert len(set(history.history["loss"])) == 4
