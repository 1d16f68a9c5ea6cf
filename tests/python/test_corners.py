"""What is easily got wrong: failures between steps, odd data, replaced code, Keras's corners."""

import functools
import itertools
import threading
import types
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import CASES, OLD_EPOCHS, Case, classes, normal, numbers, skip_old_epochs

import plimsoll
from plimsoll.training import loop

L = keras.layers
X, Y = normal(40, 4), normal(40, 1, seed=3)


def small(loss: Any = "mse", optimizer: Any = "adam", **compiled: Any) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((4,)), L.Dense(6, "tanh"), L.Dense(1)])
    model.compile(optimizer, loss, **compiled)
    return model


def weights(model: keras.Model) -> list[bytes]:
    return [numbers(variable).tobytes() for variable in model.variables]


def test_a_failure_before_the_first_step_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, plan: str) -> None:
        raise OSError("standard error is closed")

    model = small()
    before = weights(model)
    monkeypatch.setattr(loop.Listener, "begin", fail)
    with pytest.raises(OSError, match="closed"):
        plimsoll.fit(model, X, Y, verbose=0)
    assert weights(model) == before


def test_weights_of_validation_samples_alone() -> None:
    heavy = np.linspace(0, 3, 40).astype("float32")
    losses = []
    for fit in (keras.Model.fit, plimsoll.fit):
        model = small()
        history = fit(model, X, Y, shuffle=False, verbose=0, validation_data=(X, Y, heavy))
        losses.append([history.history[name][0] for name in ("loss", "val_loss")])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_evaluate_lists_values_in_keras_order() -> None:
    case = CASES["two ports"]
    model = case.compiled()
    model.compile("sgd", case.loss, metrics={"value": ["mae"], "kind": ["accuracy"]})
    expected = model.evaluate(case.x, case.y, verbose=0)
    np.testing.assert_allclose(plimsoll.evaluate(model, case.x, case.y), expected, rtol=1e-4)


@functools.wraps(keras.losses.mean_squared_error)
def wrapped(y: Any, p: Any) -> Any:
    return 100 * keras.losses.mean_squared_error(y, p)


def _patched_model() -> keras.Model:
    model = small()
    model.train_step = types.MethodType(lambda self, data: {}, model)
    return model


def _patched_loss() -> keras.Model:
    loss = keras.losses.MeanSquaredError()
    loss.call = types.MethodType(lambda self, y, p: y, loss)
    return small(loss)


def _patched_optimizer() -> keras.Model:
    optimizer = keras.optimizers.Adam()
    optimizer.update_step = types.MethodType(lambda self, *given: None, optimizer)
    return small(optimizer=optimizer)


@pytest.mark.parametrize("make, named", [
    (lambda: small(wrapped), "wrapped|mean_squared_error"),
    (_patched_model, "train_step"), (_patched_loss, "call"), (_patched_optimizer, "update_step"),
], ids=["wraps", "model", "loss", "optimizer"])  # fmt: skip
def test_replaced_code_is_named(make: Any, named: str) -> None:
    with pytest.raises(plimsoll.Refused, match=named):
        plimsoll.fit(make(), X, Y, verbose=0)


def test_what_keras_has_is_its_own() -> None:
    from plimsoll.model.live import _is_of_keras

    for module in (keras.layers, keras.losses, keras.metrics, keras.optimizers, keras.activations,
                   keras.initializers, keras.regularizers, keras.constraints):  # fmt: skip
        public = [getattr(module, name) for name in dir(module) if not name.startswith("_")]
        objects = [one for one in public if isinstance(one, (type, types.FunctionType))]
        assert len(objects) > 3
        assert [one for one in objects if not _is_of_keras(one)] == []


class StopAtOnce(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.model.stop_training = True


@pytest.mark.parametrize("x", [X, tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)],
                         ids=["arrays", "batches"])  # fmt: skip
def test_a_stop_ends_one_fit_and_not_the_next(x: Any) -> None:
    model = small()
    y = Y if x is X else None
    plimsoll.fit(model, x, y, batch_size=8, verbose=0, callbacks=[StopAtOnce()])
    assert int(numbers(model.optimizer.iterations)) == 1
    history = plimsoll.fit(model, X, Y, batch_size=8, verbose=0)
    assert int(numbers(model.optimizer.iterations)) == 6 and history.history["loss"]


def test_validation_after_a_stop_as_in_keras() -> None:
    names = []
    for fit in (keras.Model.fit, plimsoll.fit):
        history = fit(small(), X, Y, batch_size=8, verbose=0, callbacks=[StopAtOnce()],
                      validation_data=(X, Y))  # fmt: skip
        names.append(sorted(history.history))
    assert names[0] == names[1] == ["loss", "val_loss"]


def test_one_call_at_a_time() -> None:
    """From another thread, or from inside: a message, no crash, and the outer call goes on."""
    model = small()
    seen: list[str] = []

    class Nested(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            try:
                plimsoll.evaluate(self.model, X, Y)
            except ValueError as error:
                seen.append(str(error))

    plimsoll.fit(model, X, Y, batch_size=8, verbose=0, callbacks=[Nested()])
    assert len(seen) == 5 and "in the middle of another call" in seen[0]

    def train() -> None:
        try:
            plimsoll.fit(model, X, Y, batch_size=8, epochs=30, verbose=0)
        except ValueError as error:
            seen.append(str(error))

    threads = [threading.Thread(target=train) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.isfinite(numbers(variable)).all() for variable in model.variables)


def test_evaluate_at_the_end_of_an_epoch_of_batches() -> None:
    model = small()
    values: list[float] = []
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
    look = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: values.append(plimsoll.evaluate(model, X, Y)))  # fmt: skip
    plimsoll.fit(model, dataset, epochs=3, verbose=0, callbacks=[look])
    assert len(values) == 3 and values[2] < values[0]
    np.testing.assert_allclose(values[2], plimsoll.evaluate(model, X, Y), rtol=1e-5)


def test_what_is_trained_changed_since_compile() -> None:
    model = small()
    plimsoll.fit(model, X, Y, verbose=0)
    model.layers[0].trainable = False
    with pytest.raises(plimsoll.Refused, match="Compile the model again"):
        plimsoll.fit(model, X, Y, verbose=0)


@pytest.mark.parametrize("named, call", [
    ("samples", lambda m: plimsoll.fit(m, X[:0], Y[:0])),
    (r"received \d+ in x, 5 in y\.", lambda m: plimsoll.fit(m, X, Y[:5])),
    ("batch_size", lambda m: plimsoll.fit(m, X, Y, batch_size=0)),
    ("validation_split", lambda m: plimsoll.fit(m, X, Y, validation_split=1.5)),
    ("class_weight", lambda m: plimsoll.fit(m, X, Y, class_weight={"a": 1.0})),
    ("plan_time", lambda m: plimsoll.fit(m, X, Y, plan_time=-1)),
    ("max_slowdown", lambda m: plimsoll.fit(m, X, Y, max_slowdown=0.1)),
    ("threads", lambda m: plimsoll.fit(m, X, Y, threads=100_000)),
    ("shuffle", lambda m: plimsoll.fit(m, X, Y, shuffle="batch")),
    ("y: expected", lambda m: plimsoll.fit(m, iter([(X, Y)]), Y)),
    ("epoch 2", lambda m: plimsoll.fit(m, iter([(X, Y)]), epochs=2, verbose=0)),
])  # fmt: skip
def test_bad_input_is_named(named: str, call: Any) -> None:
    with pytest.raises(ValueError, match=named):
        call(small())


def test_steps_per_epoch_of_a_whole_data_set() -> None:
    skip_old_epochs(["steps_per_epoch"])
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(10)
    for steps in (4, 3):
        counts = []
        for fit in (keras.Model.fit, plimsoll.fit):
            model = small()
            fit(model, dataset.repeat() if steps == 3 else dataset, steps_per_epoch=steps, epochs=2,
                verbose=0)  # fmt: skip
            counts.append(int(numbers(model.optimizer.iterations)))
        assert counts[0] == counts[1] == 2 * steps


def test_a_validation_generator_is_drawn_from_as_often_as_keras_does() -> None:
    drawn = itertools.count()
    batches = ((X[:8], Y[:8]) for _ in drawn)
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(10)
    plimsoll.fit(small(), dataset, validation_data=batches, validation_steps=2, epochs=3, verbose=0)
    assert next(drawn) == 6


@pytest.mark.parametrize("counted", [True, False])
def test_a_shuffled_data_set_has_keras_order(counted: bool) -> None:
    """In every epoch, validation and evaluation: such a data set counts its iterators."""
    if counted and OLD_EPOCHS:
        pytest.skip("before Keras 3.7 an epoch made another number of a data set's iterators")

    def losses(fit: Any, evaluate: Any) -> list[float]:
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((4,)), L.Dense(3, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.01), "mse")
        dataset = tf.data.Dataset.from_tensor_slices((normal(90, 4), normal(90, 3)))
        dataset = dataset if counted else dataset.filter(lambda *_: True)
        dataset = dataset.shuffle(90, seed=1).batch(16)
        part = dataset.take(2)
        history = fit(model, dataset, epochs=3, verbose=0, validation_data=part).history
        return [*history["loss"], *history["val_loss"], evaluate(model, part),
                evaluate(model, part)]  # fmt: skip

    expected = losses(keras.Model.fit, lambda m, d: m.evaluate(d, verbose=0))
    np.testing.assert_allclose(losses(plimsoll.fit, plimsoll.evaluate), expected, rtol=1e-5)


def test_hooks_of_a_lambda_callback() -> None:
    seen: list[int] = []
    hook = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
    plimsoll.fit(small(), X, Y, batch_size=10, verbose=0, callbacks=[hook])
    assert seen == [0, 1, 2, 3]


def test_weights_that_are_set_as_an_epoch_begins() -> None:
    class Reset(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.layers[-1].kernel.assign(np.full((6, 1), 0.5, "float32"))

    losses = []
    for fit in (keras.Model.fit, plimsoll.fit):
        history = fit(small(), X, Y, epochs=2, shuffle=False, verbose=0, callbacks=[Reset()])
        losses.append(history.history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_terminate_on_nan() -> None:
    losses = []
    for fit in (keras.Model.fit, plimsoll.fit):
        model = small(optimizer=keras.optimizers.SGD(1e8))
        history = fit(model, X * 1e3, Y * 1e9, batch_size=8, epochs=4, verbose=0,
                      callbacks=[keras.callbacks.TerminateOnNaN()])  # fmt: skip
        losses.append(len(history.history["loss"]))
    assert losses[0] == losses[1] == 1


def test_outputs_in_a_dict() -> None:
    x = keras.Input((4,))
    model = keras.Model(x, {"a": L.Dense(2)(x), "b": L.Dense(3)(x)})
    expected, received = model.predict(X, verbose=0), plimsoll.predict(model, X)
    assert sorted(received) == ["a", "b"]
    for name, values in expected.items():
        np.testing.assert_allclose(received[name], values, rtol=1e-4, atol=1e-5)


def test_a_plan_below_what_the_process_holds_is_an_answer() -> None:
    answer = plimsoll.plan(small(), 32, memory="10MiB")
    assert not answer.fits


def test_batches_that_grow_within_a_limit() -> None:
    """What the engine holds already is not taken off its share again."""
    case = Case(
        lambda: keras.Sequential([keras.Input((64, 64, 3)), L.Conv2D(16, 3, activation="relu"),
                                  L.GlobalAveragePooling2D(), L.Dense(4)]),
        normal(63, 64, 64, 3), normal(63, 4, seed=2), "mse")  # fmt: skip
    model = case.compiled()
    free = plimsoll.plan(model, 32, reserve=0).details["free_plan_bytes"]
    memory = free + 12 * 2**20
    batches = iter([(case.x[:31], case.y[:31]), (case.x[31:], case.y[31:])])
    plimsoll.fit(model, batches, verbose=0, memory=memory, reserve=0)
    assert int(numbers(model.optimizer.iterations)) == 2


def test_nothing_is_said_of_a_roomy_limit(capfd: pytest.CaptureFixture[str]) -> None:
    model = CASES["image"].compiled()
    plimsoll.fit(model, CASES["image"].x, classes(90, 5), verbose=0, memory="4GiB")
    told = capfd.readouterr()
    assert "plimsoll" not in told.err and told.out == ""


class Stops(keras.callbacks.Callback):
    """StopIteration out of one of its methods, when that is called for the n-th time."""

    def __init__(self, hook: str, at: int = 2) -> None:
        super().__init__()
        self.hook, self.at, self.told = hook, at, list[str]()

    def tell(self, hook: str) -> None:
        self.told.append(hook)
        if hook == self.hook and self.told.count(hook) == self.at:
            raise StopIteration

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.tell("epoch begins")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.tell("epoch ends")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.tell("batch begins")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.tell("batch ends")


class Tells(keras.utils.PyDataset):
    """Four batches, and what it is told."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self.told = told

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return X[index * 10 :][:10], Y[index * 10 :][:10]

    def on_epoch_begin(self) -> None:
        self.told.append("data begin")

    def on_epoch_end(self) -> None:
        self.told.append("data end")


def source(kind: str, stops: Stops) -> dict[str, Any]:
    if kind == "arrays":
        return {"x": X, "y": Y, "batch_size": 10}
    if kind == "PyDataset":
        return {"x": Tells(stops.told)}
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(10)
    return {"x": data}


@pytest.mark.parametrize("kind, hook, at", [
    ("arrays", "epoch begins", 2), ("dataset", "epoch begins", 2),
    ("arrays", "epoch ends", 2), ("dataset", "epoch ends", 2),
    ("arrays", "batch begins", 2), ("dataset", "batch begins", 2), ("PyDataset", "batch begins", 2),
    ("arrays", "batch ends", 2), ("dataset", "batch ends", 2), ("PyDataset", "batch ends", 2),
    # Before the first step of the first epoch, and of the second.
    ("arrays", "batch begins", 1), ("arrays", "batch begins", 5),
    ("PyDataset", "batch begins", 1), ("PyDataset", "batch begins", 5),
])  # fmt: skip
def test_stop_iteration_of_a_callback(kind: str, hook: str, at: int) -> None:
    """It ends the epoch where it comes with a batch, as the end of the data, and else the fit."""
    skip_old_epochs([kind])
    found = []
    for fit in (keras.Model.fit, plimsoll.fit):
        # Keras fails where nothing has built metrics yet.
        model, stops = small(metrics=["mae"] if at > 1 else None), Stops(hook, at)
        model.run_eagerly = fit is keras.Model.fit  # which traces nothing
        given = {"epochs": 3, "verbose": 0, "shuffle": False, "callbacks": [stops]}
        if at != 2:
            held = source("arrays" if kind == "arrays" else "dataset", stops)
            given["validation_data"] = (X, Y) if kind == "arrays" else held["x"]
        given |= source(kind, stops)
        history: Any = {}
        if hook.startswith("epoch"):
            with pytest.raises(StopIteration):
                fit(model, **given)
        else:
            with pytest.warns(UserWarning, match="ran out of data"):
                history = fit(model, **given).history
        found.append((stops.told, int(model.optimizer.iterations), history))
    assert found[0][:2] == found[1][:2]
    assert list(found[0][2]) == list(found[1][2])
    for name, values in found[0][2].items():
        np.testing.assert_allclose(found[1][2][name], values, rtol=1e-4)
