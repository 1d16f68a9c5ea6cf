"""Sessions that stay between calls: never old weights or an old model, and memory comes back."""

import gc
import time
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import CASES, normal, numbers

import plimsoll
from plimsoll.model import kept

L = keras.layers
X, Y = normal(40, 4), normal(40, 1, seed=3)


def small(name: str | None = None) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), L.Dense(6, "tanh"), L.BatchNormalization(),
                              L.Dense(1)], name=name)  # fmt: skip
    model.compile("adam", "mse")
    return model


def session_of(model: keras.Model, kind: str = "predict") -> kept.Session:
    return vars(model)["_plimsoll"]._sessions[kind]  # type: ignore[no-any-return]


def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each plan."""
    from plimsoll.options import Listener

    plans: list[str] = []
    monkeypatch.setattr(Listener, "begin", lambda self, plan: plans.append(plan))
    return plans


def _by_function(model: keras.Model) -> Callable[[], Any]:
    raw = model.layers[0].kernel.value

    @tf.function
    def assign() -> None:
        raw.assign(raw + 1.0)

    assign()
    return assign


def _by_checkpoint(model: keras.Model) -> Callable[[], Any]:
    folder = Path(tf.io.gfile.join(tf.compat.v1.test.get_temp_dir(), "kept"))
    checkpoint = tf.train.Checkpoint(model=model)
    model.layers[0].kernel.assign(np.full((4, 6), 0.25, "float32"))
    path = checkpoint.save(str(folder))
    model.layers[0].kernel.assign(np.full((4, 6), -1, "float32"))
    return lambda: checkpoint.restore(path)


def _by_weights_file(model: keras.Model) -> Callable[[], Any]:
    path = Path(tf.compat.v1.test.get_temp_dir()) / "kept.weights.h5"
    model.save_weights(path)
    model.layers[0].kernel.assign(np.full((4, 6), -1, "float32"))
    return lambda: model.load_weights(path)


CHANGES: dict[str, Callable[[keras.Model], Callable[[], Any]]] = {
    "assign": lambda m: lambda: m.layers[0].kernel.assign(np.full((4, 6), 0.5, "float32")),
    "value.assign": lambda m: lambda: m.layers[0].kernel.value.assign(np.ones((4, 6), "float32")),
    "one number": lambda m: lambda: m.layers[-1].bias.value[0].assign(9.0),
    "in place": lambda m: lambda: m.layers[-1].bias.value.assign_add([2.0]),
    "scatter": lambda m: lambda: m.layers[0].kernel.value.scatter_nd_update([[1, 2]], [7.0]),
    "set_weights": lambda m: lambda: m.set_weights([w + 1 for w in m.get_weights()]),
    "fit of Keras": lambda m: lambda: m.fit(X, Y, verbose=0),
    "fit": lambda m: lambda: plimsoll.fit(m, X, Y, verbose=0),
    "traced function": _by_function,
    "checkpoint": _by_checkpoint,
    "weights file": _by_weights_file,
}


@pytest.mark.parametrize("change", CHANGES)
def test_weights_are_those_of_the_moment(change: str) -> None:
    model = small()
    make = CHANGES[change](model)
    for turn, rows in enumerate((1, 1, 5)):
        plimsoll.predict(model, X[:rows])
        plimsoll.evaluate(model, X, Y)
        make()
        after = plimsoll.predict(model, X[:rows])
        np.testing.assert_allclose(after, model.predict(X[:rows], verbose=0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(plimsoll.evaluate(model, X, Y), model.evaluate(X, Y, verbose=0),
                                   rtol=1e-4)  # fmt: skip
        model.layers[-1].bias.assign([-3.0 - turn])
        assert (plimsoll.predict(model, X[:rows]) != after).all()


def test_a_second_call_plans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = planned(monkeypatch)
    model = small()
    for _ in range(3):
        plimsoll.predict(model, X[:1])
        plimsoll.evaluate(model, X, Y)
    assert len(plans) == 2
    model.fit(X, Y, verbose=0)
    model.predict(X, verbose=0)
    plimsoll.predict(model, X[:1])
    assert len(plans) == 2


def test_sizes_of_batches_that_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = planned(monkeypatch)
    model = small()
    expected = model.predict(X, verbose=0)
    for _ in range(3):
        for rows in (1, 32, 1, 32):
            received = plimsoll.predict(model, X[:rows])
            np.testing.assert_allclose(received, expected[:rows], rtol=1e-4, atol=1e-6)
    assert len(plans) == 2  # of one row, and of both
    for rows in (40, 33, 64):
        received = plimsoll.predict(model, np.resize(X, (rows, 4)))
        np.testing.assert_allclose(received, np.resize(expected, (rows, 1)), rtol=1e-4, atol=1e-6)


def test_another_option_is_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = planned(monkeypatch)
    model = small()
    for options in ({}, {"threads": 1}, {"memory": "8GiB"}, {"memory": "8GiB"}, {"batch_size": 8}):
        plimsoll.predict(model, X, **options)
    assert len(plans) == 4


def _activation(model: keras.Model) -> None:
    model.layers[0].activation = keras.activations.relu


def _epsilon(model: keras.Model) -> None:
    model.layers[1].epsilon = 0.5


def _layer(model: keras.Model) -> None:
    model.add(L.Activation("sigmoid"))


def _pop(model: keras.Model) -> None:
    model.pop()


@pytest.mark.parametrize("change", [_activation, _epsilon, _layer, _pop])
def test_a_model_that_changed(change: Any) -> None:
    model = small()
    for _ in range(2):
        before = plimsoll.predict(model, X)
    change(model)
    after = plimsoll.predict(model, X)
    model.compile("adam", "mse")  # Keras's traced function is made anew
    np.testing.assert_allclose(after, model.predict(X, verbose=0), rtol=1e-4, atol=1e-6)
    assert after.shape != before.shape or (after != before).any()


def test_code_that_is_replaced_later_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    plimsoll.predict(model, X)
    model.layers[1].call = types.MethodType(lambda self, x, **_: x, model.layers[1])
    with pytest.raises(plimsoll.Refused, match="its call was replaced"):
        plimsoll.predict(model, X)
    del model.layers[1].call
    plimsoll.predict(model, X)
    monkeypatch.setattr(L.Dense, "call", lambda self, inputs, training=None: inputs)
    with pytest.raises(plimsoll.Refused, match=r"Dense\.call was replaced"):
        plimsoll.predict(model, X)


def test_another_loss_or_optimizer() -> None:
    model = small()
    plimsoll.evaluate(model, X, Y)
    model.compile(keras.optimizers.SGD(0.1), "mae")
    expected = model.evaluate(X, Y, verbose=0)
    np.testing.assert_allclose(plimsoll.evaluate(model, X, Y), expected, rtol=1e-4)


def test_a_model_that_goes_takes_its_sessions_along() -> None:
    model = small()
    plimsoll.predict(model, X)
    plimsoll.evaluate(model, X, Y)
    plimsoll.train_on_batch(model, X, Y)
    sessions = [weakref.ref(session_of(model, kind)) for kind in ("predict", "evaluate", "train")]
    held = weakref.ref(model)
    del model
    keras.backend.clear_session()
    gc.collect()
    assert held() is None and [one() for one in sessions] == [None] * 3


def test_release() -> None:
    model, other = small(), small()
    for one in (model, other):
        plimsoll.predict(one, X)
    expected = plimsoll.predict(model, X)
    plimsoll.release(model)
    assert session_of(model).held == 0 and session_of(other).held > 0
    assert (plimsoll.predict(model, X) == expected).all()
    plimsoll.release()
    assert session_of(model).held == 0 == session_of(other).held
    plimsoll.release(small())  # nothing is kept


def wide() -> keras.Model:
    return keras.Sequential([keras.Input((2000,)), L.Dense(8000), L.Dense(10)])


def test_a_limit_counts_what_is_kept() -> None:
    """A call within a limit has the room of sessions of other models."""
    one, other = wide(), wide()
    plimsoll.predict(one, normal(4, 2000))
    assert session_of(one).held > 2**26
    memory = plimsoll._core.process_memory() + 2**24
    plimsoll.predict(other, normal(4, 2000), memory=memory, reserve=0)
    assert session_of(one).held == 0 < session_of(other).held
    # … and has its own again while the process stays within the limit.
    plimsoll.predict(other, normal(4, 2000), memory=memory, reserve=0)
    ballast = np.ones(2**23)
    with pytest.raises(plimsoll.ResourceExhausted):
        plimsoll.predict(other, normal(4, 2000), memory=memory, reserve=0)
    del ballast


def test_models_that_alternate_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GAN's steps, a DQN's predictions: each model is planned once where all have their room."""
    plans = planned(monkeypatch)
    models, apart = [small(), small()], [small(), small()]
    for model, other in zip(models, apart, strict=True):
        other.set_weights(model.get_weights())
    limited = plimsoll._core.process_memory() + 2**28
    for _ in range(3):
        for model in models:
            plimsoll.train_on_batch(model, X, Y, memory=limited, reserve=0)
            plimsoll.predict(model, X, memory=limited, reserve=0)
    assert len(plans) == 4
    for model in apart:
        for _ in range(3):
            plimsoll.train_on_batch(model, X, Y)
    for model, other in zip(models, apart, strict=True):
        for one, same in zip(model.get_weights(), other.get_weights(), strict=True):
            assert one.tobytes() == same.tobytes()


def test_what_holds_much_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = wide()
    monkeypatch.setattr(kept, "MOST", 2**20)
    plimsoll.predict(model, normal(4, 2000))
    assert session_of(model).held == 0


def test_fit_ends_what_is_kept() -> None:
    model = small()
    plimsoll.predict(model, X)
    plimsoll.fit(model, X, Y, verbose=0)
    assert session_of(model).held == 0


def test_errors_end_nothing_else() -> None:
    model = small()
    expected = plimsoll.predict(model, X[:4])
    for bad in (normal(3, 5), np.zeros((0, 4))):
        with pytest.raises(ValueError):
            plimsoll.predict(model, bad)
    assert (plimsoll.predict(model, X[:4]) == expected).all()


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_model(name: str) -> None:
    case = CASES[name]
    model = case.compiled()
    for _ in range(2):
        expected, received = model.predict(case.x, verbose=0), plimsoll.predict(model, case.x)
        pairs = zip(expected, received) if isinstance(expected, list) else [(expected, received)]
        for one, other in pairs:
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
        model.fit(case.x, case.y, verbose=0)


def test_a_call_is_much_faster_than_keras() -> None:
    model = small()
    plimsoll.predict(model, X[:1])
    model.predict(X[:1], verbose=0)
    seconds = []
    for predict in (model.predict, lambda x, verbose: plimsoll.predict(model, x)):
        times = []
        for _ in range(9):
            begin = time.perf_counter()
            predict(X[:1], verbose=0)
            times.append(time.perf_counter() - begin)
        seconds.append(min(times))
    assert seconds[1] < seconds[0] / 20  # 100 and more on a machine that is not busy


def test_variables_are_unharmed() -> None:
    model = small()
    before = [numbers(v).tobytes() for v in model.variables]
    plimsoll.predict(model, X)
    plimsoll.evaluate(model, X, Y)
    assert [numbers(v).tobytes() for v in model.variables] == before
