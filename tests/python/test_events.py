"""Which batches come when, and which callbacks hear of it, against Keras."""

import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import CASES, Case, assert_like, normal, numbers, skip_old_epochs

import plimsoll

CASE = CASES["image"]
HOOKS = [name for name in dir(keras.callbacks.Callback)
         if name.startswith("on_") and name not in ("on_batch_begin", "on_batch_end")]  # fmt: skip


class Spy(keras.callbacks.Callback):
    """Hooks with their numbers and names of logs, and the count of steps so far."""

    def __init__(self, hooks: list[str] | None = None) -> None:
        super().__init__()
        self.events: list[Any] = []
        for name in hooks or HOOKS:
            setattr(self, name, self._hook(name))

    def _hook(self, name: str) -> Any:
        def hook(*given: Any, logs: Any = None) -> None:
            told = [sorted(one) if isinstance(one, dict) else one for one in (*given, logs) if one]
            self.events.append((name, *told))

        return hook


# Hooks are looked for on the class.
for _name in HOOKS:
    setattr(Spy, _name, lambda self, *given, **logs: None)


def trace(face: Any, call: str, x: Any, y: Any = None, **arguments: Any) -> list[Any]:
    spy = Spy()
    keras.utils.set_random_seed(8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # data that run out
        model = CASE.compiled()
        model.optimizer.build(model.trainable_variables)
        getattr(face, call)(model, x, *([] if y is None else [y]), verbose=0, callbacks=[spy],
                            **arguments)  # fmt: skip
    return spy.events


def assert_same_events(call: str, make: Any, **arguments: Any) -> None:
    theirs = trace(keras.Model, call, *make(), **arguments)
    ours = trace(plimsoll, call, *make(), **arguments)
    assert ours == theirs
    assert len(theirs) > 4


def arrays() -> tuple[Any, Any]:
    return CASE.x, CASE.y


def dataset() -> tuple[Any]:
    return (tf.data.Dataset.from_tensor_slices((CASE.x, CASE.y)).batch(32),)


def generator() -> tuple[Iterator[Any]]:
    cuts = (0, 32, 64, 0, 32, 64)
    return (((CASE.x[at : at + 32], CASE.y[at : at + 32]) for at in cuts),)


class Indexed(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return CASE.x[index * 32 :][:32], CASE.y[index * 32 :][:32]


def indexed() -> tuple[Any]:
    return (Indexed(),)


def _x_of(make: Any) -> Any:
    if make is arrays:
        return lambda: (CASE.x,)
    if make is dataset:
        return lambda: (dataset()[0].map(lambda x, y: x),)
    if make is generator:
        return lambda: (((x,) for x, y in generator()[0]),)
    return make


@pytest.mark.parametrize("make", [arrays, dataset, generator, indexed])
def test_of_evaluate(make: Any) -> None:
    arguments = {"steps": 2} if make is generator else {}
    if make is arrays:
        assert_same_events("evaluate", make, steps=2)
    assert_same_events("evaluate", make, **arguments)


@pytest.mark.parametrize("make", [arrays, dataset, generator, indexed])
def test_of_predict(make: Any) -> None:
    arguments = {"steps": 2} if make is generator else {}
    assert_same_events("predict", _x_of(make), **arguments)


def test_of_what_ends_by_itself() -> None:
    for call, make in (("evaluate", generator), ("predict", _x_of(generator))):
        assert_same_events(call, make)


@pytest.mark.parametrize("arguments", [
    {"epochs": 2, "validation_split": 0.4},
    {"epochs": 5, "steps_per_epoch": 2}, {"epochs": 3, "steps_per_epoch": 2, "batch_size": 32},
    {"epochs": 2, "steps_per_epoch": 2, "validation_split": 0.5},
    {"epochs": 2, "validation_data": (CASE.x[:50], CASE.y[:50]), "validation_batch_size": 20},
    {"epochs": 2, "validation_data": (CASE.x, CASE.y), "validation_steps": 2},
    {"epochs": 3, "validation_data": (CASE.x, CASE.y), "validation_steps": 2,
     "validation_batch_size": 20, "validation_freq": 2},
], ids=lambda arguments: "+".join(arguments))  # fmt: skip
def test_of_fit_on_arrays(arguments: dict[str, Any]) -> None:
    skip_old_epochs(arguments)
    assert_same_events("fit", arrays, **arguments)


@pytest.mark.parametrize("arguments", [
    {"epochs": 2}, {"epochs": 4, "steps_per_epoch": 2},
    {"epochs": 2, "validation_data": dataset()[0]},
    {"epochs": 2, "validation_data": (CASE.x[:50], CASE.y[:50]), "validation_steps": 1},
], ids=lambda arguments: "+".join(arguments))  # fmt: skip
@pytest.mark.parametrize("make", [dataset, indexed])
def test_of_fit_on_batches(make: Any, arguments: dict[str, Any]) -> None:
    skip_old_epochs(arguments)
    assert_same_events("fit", make, **arguments)


@pytest.mark.parametrize("arguments", [
    {"steps_per_epoch": 2}, {"steps_per_epoch": 2, "shuffle": False},
    {"validation_split": 0.4, "validation_steps": 1},
    {"validation_data": (CASE.x, CASE.y), "validation_steps": 2, "validation_batch_size": 25},
    {"steps_per_epoch": 1, "validation_split": 0.5,
     "sample_weight": np.linspace(0, 2, 90).astype("float32")},
    {"steps_per_epoch": 2, "class_weight": {0: 2.0, 3: 0.5}},
], ids=lambda arguments: "+".join(arguments))  # fmt: skip
def test_arguments_about_steps(arguments: dict[str, Any]) -> None:
    """Histories, weights and the order of samples."""
    skip_old_epochs(arguments)
    histories, models = [], []
    for face in (keras.Model, plimsoll):
        model = CASE.compiled()
        keras.utils.set_random_seed(8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            histories.append(face.fit(model, CASE.x, CASE.y, batch_size=32, epochs=4, verbose=0,
                                      **arguments).history)  # fmt: skip
        models.append(model)
    assert list(histories[0]) == list(histories[1])
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=3e-3, atol=3e-5, err_msg=name)
    assert_like(*models)


def test_epochs_of_two_one_two_steps() -> None:
    model, steps = CASE.compiled(), []
    count = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: steps.append(int(numbers(model.optimizer.iterations)))
    )
    plimsoll.fit(
        model, CASE.x, CASE.y, 32, steps_per_epoch=2, epochs=4, verbose=0, callbacks=[count]
    )
    assert steps == [2, 3, 5, 6]


@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_a_stop(call: str) -> None:
    counts = []
    for face in (keras.Model, plimsoll):
        spy = Spy()

        class Stop(keras.callbacks.Callback):
            def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
                self.model.stop_evaluating = batch == 1

            def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
                self.model.stop_predicting = batch == 1

        answer = getattr(face, call)(CASE.compiled(), *arrays()[: 2 if call == "evaluate" else 1],
                                     batch_size=20, verbose=0, callbacks=[spy, Stop()])  # fmt: skip
        counts.append((spy.events, np.shape(answer)))
    assert counts[0] == counts[1]


def test_outputs_are_told() -> None:
    case = CASES["two ports"]
    told = []
    for face in (keras.Model, plimsoll):
        seen: list[Any] = []
        hook = keras.callbacks.LambdaCallback()
        hook.on_predict_batch_end = lambda batch, logs: seen.append(logs["outputs"])  # noqa: B023
        model = case.compiled()
        face.predict(model, case.x, batch_size=40, verbose=0, callbacks=[hook])
        told.append(seen)
    assert [[np.shape(one) for one in outputs] for outputs in told[1]] == [
        [tuple(one.shape) for one in outputs] for outputs in told[0]
    ]


def test_evaluation_of_a_model_that_a_test_hook_looks_at() -> None:
    """What is evaluated is what was trained, and hooks may look at it."""
    looks = []
    for face in (keras.Model, plimsoll):
        model, seen = CASE.compiled(), []

        class Look(keras.callbacks.Callback):
            def on_test_begin(self, logs: Any = None) -> None:
                seen.append(numbers(self.model.layers[-1].bias))  # noqa: B023

        keras.utils.set_random_seed(8)
        face.fit(model, CASE.x, CASE.y, epochs=2, verbose=0, callbacks=[Look()],
                 validation_data=(CASE.x[:20], CASE.y[:20]))  # fmt: skip
        looks.append(seen)
    np.testing.assert_allclose(looks[1], looks[0], rtol=1e-3, atol=1e-5)


def test_batches_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sizes come in whatever order; a second pass plans nothing."""
    from plimsoll.options import Listener

    plans: list[str] = []
    monkeypatch.setattr(Listener, "begin", lambda self, plan: plans.append(plan))
    model = CASE.compiled()
    expected = model.evaluate(CASE.x, CASE.y, verbose=0)
    outputs = model.predict(CASE.x, verbose=0)
    for turn in range(2):
        np.testing.assert_allclose(plimsoll.evaluate(model, *dataset()), expected, rtol=1e-4)
        received = plimsoll.predict(model, *_x_of(dataset)())
        np.testing.assert_allclose(received, outputs, rtol=1e-4, atol=1e-6)
        assert len(plans) == 4, turn  # each: of 32 rows, and of 32 and 26


def test_metrics_go_on_over_batches_of_many_sizes() -> None:
    model = CASE.compiled()
    cuts = [0, 3, 40, 41, 60, 90]
    batches = [(CASE.x[a:b], CASE.y[a:b]) for a, b in zip(cuts, cuts[1:])]
    expected = model.evaluate(CASE.x, CASE.y, verbose=0)
    np.testing.assert_allclose(plimsoll.evaluate(model, iter(batches)), expected, rtol=1e-4)


def test_evaluating_takes_no_room_for_training() -> None:
    """A data set's batches, in no more than its arrays take."""
    L = keras.layers
    case = Case(
        lambda: keras.Sequential([keras.Input((64, 64, 3)), L.Conv2D(16, 3, activation="relu"),
                                  L.Conv2D(16, 3, activation="relu"), L.GlobalMaxPooling2D(),
                                  L.Dense(4)]),
        normal(64, 64, 64, 3), normal(64, 4, seed=2), "mse")  # fmt: skip
    model = case.compiled()
    plimsoll.evaluate(model, case.x, case.y)
    session = vars(model)["_plimsoll"].session("evaluate")
    of_arrays = session.held
    plimsoll.release(model)
    plimsoll.evaluate(model, tf.data.Dataset.from_tensor_slices((case.x, case.y)).batch(32))
    assert session.held <= of_arrays + 2**20
