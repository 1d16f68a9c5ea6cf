"""train_on_batch, test_on_batch and predict_on_batch against Keras's own."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import CASES, Case, assert_like, classes, normal, numbers

import plimsoll

L = keras.layers
X, Y = normal(40, 4), normal(40, 1, seed=3)


def rows(data: Any, begin: int, end: int) -> Any:
    if isinstance(data, dict):
        return {name: rows(value, begin, end) for name, value in data.items()}
    if isinstance(data, list):
        return [rows(value, begin, end) for value in data]
    return data[begin:end]


def both(case: Case) -> list[tuple[keras.Model, Any]]:
    return [(case.compiled(), keras.Model), (case.compiled(), plimsoll)]


def of_the_batch(call: Any, model: keras.Model, *given: Any, **how: Any) -> Any:
    """What Keras 3.15 answers: before, metrics go on from call to call; before 3.14 as arrays."""
    model.reset_metrics()
    answer = call(model, *given, **how)
    if isinstance(answer, dict):
        return {name: float(value) for name, value in answer.items()}
    return [float(value) for value in answer] if isinstance(answer, list) else float(answer)


@pytest.mark.parametrize("return_dict", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_steps_and_what_they_return(name: str, return_dict: bool) -> None:
    """A short batch among them; weights, slots and answers."""
    case = CASES[name]
    answers, models = [], []
    for model, face in both(case):
        told = []
        for begin, end in ((0, 16), (16, 32), (32, 41), (0, 16), (41, 50)):
            x, y = rows(case.x, begin, end), rows(case.y, begin, end)
            for call in (face.train_on_batch, face.test_on_batch):
                told.append(of_the_batch(call, model, x, y, return_dict=return_dict))
        answers.append(told)
        models.append(model)
    for expected, received in zip(*answers, strict=True):
        assert type(received) is type(expected)
        if return_dict:
            assert list(received) == list(expected)
            expected, received = list(expected.values()), list(received.values())
        np.testing.assert_allclose(received, expected, rtol=2e-3, atol=2e-5)
    assert_like(*models)


@pytest.mark.parametrize("arguments", [
    {"sample_weight": np.linspace(0, 2, 30).astype("float32")},
    {"class_weight": {0: 1.0, 1: 2.5, 3: 0.5}},
], ids=lambda arguments: "+".join(arguments))  # fmt: skip
def test_weights(arguments: dict[str, Any]) -> None:
    case, losses, models = CASES["image"], [], []
    for model, face in both(case):
        losses.append([of_the_batch(face.train_on_batch, model, case.x[:30], case.y[:30],
                                    **arguments) for _ in range(3)])  # fmt: skip
        models.append(model)
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)
    assert_like(*models)


def test_predictions() -> None:
    case = CASES["two ports"]
    model = case.compiled()
    theirs, ours = model.predict_on_batch(case.x), plimsoll.predict_on_batch(model, case.x)
    for expected, received in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)


def test_predictions_between_steps() -> None:
    """Acting on single samples while training on batches."""
    models = []
    for model, face in both(CASES["image"]):
        x, y, seen = CASES["image"].x, CASES["image"].y, []
        for step in range(6):
            seen.append(face.predict_on_batch(model, x[step : step + 1]))
            face.train_on_batch(model, x[step * 8 : step * 8 + 8], y[step * 8 : step * 8 + 8])
        models.append((model, np.concatenate(seen)))
    assert_like(models[0][0], models[1][0])
    np.testing.assert_allclose(models[1][1], models[0][1], rtol=1e-2, atol=1e-3)


def small(optimizer: Any = "adam") -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((4,)), L.Dense(6, "tanh"), L.Dense(1)])
    model.compile(optimizer, "mse")
    return model


def _predicts(model: keras.Model) -> Callable[[], Any]:
    model.predict(X, verbose=0)
    return lambda: model.predict(X, verbose=0)


def _traced(model: keras.Model) -> Callable[[], Any]:
    function = tf.function(lambda: model(X, training=False))
    function()
    return lambda: function().numpy()


def _raw(model: keras.Model) -> Callable[[], Any]:
    raw = [variable.value for variable in model.trainable_variables]
    return lambda: np.concatenate([variable.numpy().ravel() for variable in raw])


def _get_weights(model: keras.Model) -> Callable[[], Any]:
    return lambda: np.concatenate([weight.ravel() for weight in model.get_weights()])


def _checkpoint(model: keras.Model) -> Callable[[], Any]:
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    folder = tf.compat.v1.test.get_temp_dir() + "/on_batch"

    def read() -> Any:
        reader = tf.train.load_checkpoint(checkpoint.save(folder))
        names = [
            name
            for name in sorted(reader.get_variable_to_shape_map())
            if name.startswith(("model", "optimizer")) and "_loss_tracker" not in name
        ]
        return np.concatenate([np.ravel(reader.get_tensor(name)).astype("float64")
                               for name in names])  # fmt: skip

    return read


def _goes_on(model: keras.Model) -> Callable[[], Any]:
    model.train_on_batch(X[:8], Y[:8])  # is traced

    def train() -> Any:
        model.train_on_batch(X[:8], Y[:8])
        return np.concatenate([numbers(v).ravel() for v in model.optimizer.variables])

    return train


@pytest.mark.parametrize("look", [_predicts, _traced, _raw, _get_weights, _checkpoint, _goes_on])
def test_every_look_sees_what_was_trained(look: Any) -> None:
    seen = []
    for face in (keras.Model, plimsoll):
        model = small()
        if face is plimsoll:  # sessions are there before anybody looks
            model.optimizer.build(model.trainable_variables)
        see = look(model)
        told = []
        for step in range(3):
            face.train_on_batch(model, X[step * 8 : step * 8 + 8], Y[step * 8 : step * 8 + 8])
            told.append(see())
        seen.append(told)
    for expected, received in zip(*seen, strict=True):
        np.testing.assert_allclose(received, expected, rtol=1e-3, atol=1e-5)


def test_what_is_set_between_steps_counts() -> None:
    models = []
    for face in (keras.Model, plimsoll):
        model = small()
        for step in range(4):
            face.train_on_batch(model, X[:8], Y[:8])
            if step == 1:
                model.layers[0].kernel.value.assign(np.full((4, 6), 0.1, "float32"))
                model.optimizer.learning_rate = 0.05
            if step == 2:
                model.optimizer.variables[2].assign(np.ones((4, 6), "float32"))
        models.append(model)
    assert_like(*models)


def test_tensors_that_are_held_do_not_change() -> None:
    model = small()
    plimsoll.train_on_batch(model, X, Y)
    held = [tf.identity(v.value) for v in model.variables]
    views = [memoryview(tensor) for tensor in held]
    before = [bytes(view) for view in views]
    for _ in range(3):
        plimsoll.train_on_batch(model, X, Y)
    assert [bytes(view) for view in views] == before


def test_a_second_step_plans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from plimsoll.options import Listener

    plans: list[str] = []
    monkeypatch.setattr(Listener, "begin", lambda self, plan: plans.append(plan))
    model = small()
    for _ in range(4):
        plimsoll.train_on_batch(model, X[:8], Y[:8])
        plimsoll.predict_on_batch(model, X[:1])
        plimsoll.test_on_batch(model, X[:8], Y[:8])
    assert len(plans) == 3


def test_dropout_draws_anew_each_step() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((50,)), L.Dropout(0.5), L.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    x, y = normal(8, 50), normal(8, 1)
    losses = {plimsoll.train_on_batch(model, x, y) for _ in range(5)}
    assert len(losses) == 5


def test_a_frozen_layer_and_a_new_compile() -> None:
    models = []
    for face in (keras.Model, plimsoll):
        model = small()
        face.train_on_batch(model, X, Y)
        model.layers[0].trainable = False
        model.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mae")
        for _ in range(3):
            face.train_on_batch(model, X, Y)
        models.append(model)
    assert_like(*models)


def test_bad_input_is_named() -> None:
    model = small()
    plimsoll.train_on_batch(model, X, Y)
    before = [numbers(v).tobytes() for v in model.variables]
    for call in (
        lambda: plimsoll.train_on_batch(model, X[:, :3], Y),
        lambda: plimsoll.train_on_batch(model, X, Y[:5]),
        lambda: plimsoll.train_on_batch(model, X, Y, np.ones(40), class_weight={0: 1.0}),
        lambda: plimsoll.train_on_batch(model, X),
        lambda: plimsoll.train_on_batch(keras.Sequential([keras.Input((4,)), L.Dense(1)]), X, Y),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
    assert [numbers(v).tobytes() for v in model.variables] == before
    assert np.isfinite(plimsoll.train_on_batch(model, X, Y))


def test_labels_that_are_classes() -> None:
    model = keras.Sequential([keras.Input((4,)), L.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])  # fmt: skip
    y = classes(40, 3)
    first = plimsoll.train_on_batch(model, X, y)
    assert isinstance(first, list) and len(first) == 2
    with pytest.raises(ValueError, match="7"):
        plimsoll.train_on_batch(model, X, np.full(40, 7))
