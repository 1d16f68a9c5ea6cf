"""plimsoll.install in this process: which of Keras's methods are replaced, and when not."""

import functools
import importlib.util
import inspect
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
from live_models import CASES, assert_like, normal

import plimsoll
from plimsoll import asked, surroundings
from plimsoll.programs import finder
from plimsoll.replaced import fallback, keras_methods

TRAINER = keras.Model.__mro__[1]
L = keras.layers


@pytest.fixture(name="installed")
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installed for one test; then Keras's own methods are back."""
    before = {name: vars(TRAINER)[name] for name in keras_methods.NAMES}
    monkeypatch.setattr(asked, "current", None)
    monkeypatch.setattr(asked, "outcome", asked.Outcome())
    monkeypatch.setattr(finder.atexit, "register", lambda _: None)
    meta_path = list(sys.meta_path)
    plimsoll.install(memory="4GiB")
    yield
    sys.meta_path[:] = meta_path
    for name, method in before.items():
        setattr(TRAINER, name, method)
    del TRAINER._plimsoll_replaces


def small(**more: Any) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((8,)), L.Dense(4, name="one"), L.Dense(1)], name="small")
    model.compile("sgd", "mse", **more)
    return model


X, Y = normal(32, 8), normal(32, 1, seed=2)


def test_methods_are_replaced_where_keras_is_loaded(installed: None) -> None:
    """With Keras's names, signatures and results; a second install changes options alone."""
    for name in keras_methods.NAMES:
        method = getattr(keras.Model, name)
        assert method.__name__ == name and method.__doc__ == method.__wrapped__.__doc__
        assert inspect.signature(method) == inspect.signature(method.__wrapped__)
    first = keras.Model.fit
    plimsoll.install(memory="3GiB", threads=1)
    assert keras.Model.fit is first
    assert asked.current.of_calls == {"memory": "3GiB", "threads": 1}
    case = CASES["image"]
    theirs, ours = case.compiled(), case.compiled()
    assert asked.outcome.taken == 0
    expected = type(theirs).fit.__wrapped__(theirs, case.x, case.y, verbose=0, shuffle=False)
    received = ours.fit(case.x, case.y, verbose=0, shuffle=False)
    assert asked.outcome.taken == 1 and not asked.outcome.told
    assert list(expected.history) == list(received.history)
    assert_like(theirs, ours)


def test_options_are_checked_when_they_are_named() -> None:
    for named, error in [({"memory": "3GG"}, ValueError), ({"thread": 1}, TypeError),
                         ({"engine": "gpu"}, ValueError)]:  # fmt: skip
        with pytest.raises(error):
            plimsoll.install(**named)
    assert asked.current is None and not hasattr(TRAINER, "_plimsoll_replaces")


def test_a_trainer_that_is_not_known_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """Replaced by somebody, or written anew: one line says which method it is."""
    known = sys.modules[TRAINER.__module__]
    for change, text in [
        (lambda own: functools.wraps(own)(lambda *a: own(*a)), "evaluate was replaced by"),
        (lambda own: types.FunctionType(other.__code__, {}), "evaluate was replaced by"),
        (lambda own: None, "has no method evaluate"),
        (lambda own: known.TensorFlowTrainer.predict, "its evaluate is not one that this version"),
    ]:  # fmt: skip
        module = types.ModuleType(known.__name__)
        module.__file__ = known.__file__
        members = {name: vars(TRAINER)[name] for name in keras_methods.NAMES}
        members["evaluate"] = change(members["evaluate"])
        module.TensorFlowTrainer = type("TensorFlowTrainer", (), members)
        finder.replace_methods(module)
        assert module.TensorFlowTrainer.fit is keras.Model.fit
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and text in lines[0], lines
    assert finder.unknown_method(known, TRAINER) == ""


def other(self: Any) -> None:
    raise NotImplementedError


def test_a_fingerprint_tells_parameters_and_names() -> None:
    texts = ["def f(self, x): return self.a(x)", "def f(self, x): return self.b(x)",
             "def f(self, y): return self.a(y)", "def f(self, x): return [self.a(x) for _ in x]",
             "def f(self, *x): return self.a(x)"]  # fmt: skip
    found = []
    for text in texts:
        names: dict[str, Any] = {}
        exec(text, names)
        found.append(finder.fingerprint(names["f"].__code__))
    assert found[0] == found[3] and len({*found}) == 4


def test_a_module_that_is_imported_is_as_ever(installed: None) -> None:
    """The finder leaves the module's own loader behind."""
    name = TRAINER.__module__
    spec = finder._FINDER.find_spec(name, sys.modules[name.rpartition(".")[0]].__path__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert type(spec.loader).__name__ == "SourceFileLoader"
    assert module.__spec__ is spec
    assert module.__loader__ is module.__spec__.loader
    assert hasattr(module.TensorFlowTrainer, "_plimsoll_replaces")
    assert "class TensorFlowTrainer" in inspect.getsource(module)


def test_what_is_refused_is_said_once_and_runs(
    installed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """For a model and a reason, or a place and a kind of reason; another place says it again."""

    class Mine(L.Layer):
        def call(self, inputs: Any) -> Any:
            return 2 * inputs

    for _ in range(3):
        model = keras.Sequential([keras.Input((8,)), Mine(), L.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(X, Y, verbose=0)
        model.evaluate(X, Y, verbose=0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    place = f"test_install.py:{here() - 4}: fit of {model.name.rsplit('_', 1)[0]}"
    assert place in lines[0] and "Mine is the program's own" in lines[0]
    replaced = small()
    replaced.train_step = types.MethodType(lambda self, data: {"loss": 0.0}, replaced)
    assert replaced.fit(X, Y, verbose=0).history == {"loss": [0.0]}
    assert "small: train_step was replaced" in capsys.readouterr().err
    assert asked.outcome.taken == 0


def here() -> int:
    return sys._getframe(1).f_lineno


def test_a_model_that_was_refused_is_taken_when_it_is_compiled_anew(installed: None) -> None:
    model = small()
    model.compile("sgd", lambda true, predicted: (true - predicted) ** 2)
    model.train_on_batch(X, Y)
    assert fallback.is_left(model, "predict") and asked.outcome.taken == 0
    model.compile("sgd", "mse")
    model.train_on_batch(X, Y)
    assert asked.outcome.taken == 1


def test_generators_lose_no_batch_to_a_refusal(installed: None) -> None:
    """What was looked at before the refusal is given to Keras too."""

    def deferred() -> Any:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([L.Dense(1)])
        model.compile("sgd", lambda true, predicted: (true - predicted) ** 2)
        return model

    def batches() -> Iterator[Any]:
        for step in range(4):
            yield X + step, Y

    theirs, ours = deferred(), deferred()
    type(theirs).fit.__wrapped__(theirs, batches(), steps_per_epoch=4, verbose=0)
    ours.fit(batches(), steps_per_epoch=4, verbose=0)
    assert asked.outcome.told
    assert_like(theirs, ours)


def test_errors_of_the_programs_own_code_pass(installed: None) -> None:
    """They are no refusal, whatever their class: nothing is run twice."""
    asks = []

    def batches() -> Iterator[Any]:
        asks.append(1)
        yield X, Y
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        small().fit(batches(), verbose=0)
    assert asks == [1] and not asked.outcome.told
    with pytest.raises(ValueError, match="call `compile"):
        keras.Sequential([keras.Input((8,)), L.Dense(1)]).fit(X, Y)
    assert not asked.outcome.told


def test_within_a_hook_keras_answers(installed: None, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that the engine is running is left to Keras for the call, with current weights."""
    seen = []

    class Looks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(self.model.predict(X[:1], verbose=0)[0, 0])

    theirs, ours = small(), small()
    type(theirs).fit.__wrapped__(theirs, X, Y, 8, verbose=0, shuffle=False, callbacks=[Looks()])
    ours.fit(X, Y, 8, verbose=0, shuffle=False, callbacks=[Looks()])
    np.testing.assert_allclose(seen[4:], seen[:4], rtol=1e-4, atol=1e-5)
    assert_like(theirs, ours)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_gpu_keeps_models_in_keras(
    installed: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(surroundings, "_gpu", [True])
    small().fit(X, Y, verbose=0)
    assert "Keras sees a GPU" in capsys.readouterr().err
    assert asked.outcome.taken == 0
    plimsoll.install(engine="native")
    small().fit(X, Y, verbose=0)
    assert asked.outcome.taken == 1


def test_what_is_not_taken_over_costs_next_to_nothing(installed: None) -> None:
    """At most 1 % of the cheapest step: 8 µs of 0.8 ms, the best of many."""
    model = small()
    model.compile("sgd", lambda true, predicted: (true - predicted) ** 2)
    model.train_on_batch(X, Y)
    own = TRAINER.train_on_batch.__wrapped__
    replaced = finder.methods._REPLACING[3](lambda *_: None)
    assert own is not replaced
    best = min(timed(lambda: replaced(model, X, Y, return_dict=True)) for _ in range(20))
    assert best < 8e-6, best


def timed(call: Any) -> float:
    begin = time.perf_counter()
    for _ in range(200):
        call()
    return (time.perf_counter() - begin) / 200
