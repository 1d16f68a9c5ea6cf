"""What nothing is cut of is Keras's own result to the bit, whatever the program keeps beside it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from guarded import TRAINER, installed, own_fit
from live_models import normal, numbers

from plimsoll import guard, guard_sizes

L = keras.layers
X, Y = normal(64, 6), normal(64, 3, seed=2)


class Counting(L.Layer):
    """Counts by a variable that is none of Keras's, and in Python."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.count = tf.Variable(0, trainable=False)

    def call(self, inputs: Any) -> Any:
        self.count.assign_add(1)
        Counting.calls += 1
        return inputs


class Drawing(L.Layer):
    def __init__(self, draw: Callable[[Any], Any]) -> None:
        super().__init__()
        self.draw = draw

    def call(self, inputs: Any) -> Any:
        return inputs + self.draw(tf.shape(inputs))


class Centered(L.Layer):
    def call(self, inputs: Any) -> Any:
        return inputs - keras.ops.mean(inputs, axis=0, keepdims=True)


def network(layer: Any, optimizer: Any = "adam", **more: Any) -> Any:
    model = keras.Sequential([keras.Input((6,)), L.Dense(4), layer, L.Dense(3)])
    model.compile(optimizer, "mse", **more)
    return model


def generated() -> Any:
    source = tf.random.Generator.from_seed(5)
    return network(Drawing(source.normal))


KINDS: dict[str, Callable[[], Any]] = {
    "a variable": lambda: network(Counting()),
    "a generator": generated,
    "a seed": lambda: network(Drawing(lambda shape: tf.random.normal(shape, seed=3))),
    "the program's seed": lambda: network(Drawing(tf.random.uniform)),
    "eagerly": lambda: network(Counting(), run_eagerly=True),
    "eagerly drawn": lambda: network(Drawing(tf.random.normal), run_eagerly=True),
    "slots that start at weights": lambda: network(
        Centered(), keras.optimizers.ScheduleFreeAdamW(0.01)
    ),
}


def trained(make: Callable[[], Any], fit: Any) -> list[Any]:
    """Losses, weights, slots, and what was counted."""
    keras.utils.set_random_seed(7)
    model = make()
    Counting.calls = 0
    losses = fit(model, X, Y, batch_size=16, epochs=2, verbose=0, shuffle=False).history["loss"]
    values = [numbers(one) for one in [*model.variables, *model.optimizer.variables]]
    layer = model.layers[1]
    if isinstance(layer, Counting):
        values.append(layer.count.numpy())
        assert layer.count.numpy() == 8
        assert not model.run_eagerly or Counting.calls == 8
    return [losses, *values]


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_measuring_changes_nothing(
    name: str, raises: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """raises: memory that runs out is an exception, and steps are done in two functions."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: raises)
    with installed(monkeypatch):
        whole = trained(KINDS[name], own_fit())
        received = trained(KINDS[name], TRAINER.fit)
    for one, other in zip(whole, received, strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("raises", [False, True])
def test_a_larger_batch_later_is_not_cut_without_proof(
    raises: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: raises)
    found = []
    with installed(monkeypatch):
        for method in (TRAINER.train_on_batch.__wrapped__, TRAINER.train_on_batch):
            keras.utils.set_random_seed(7)
            model = network(Centered(), "sgd")
            losses = [method(model, X[:size], Y[:size]) for size in (8, 64, 64)]
            found.append([np.array(losses), *model.get_weights()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("name", ["a size", "a length"])
def test_a_size_that_is_known_needs_proof_of_each_kind(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four samples fit; the next batches have more, or are of another kind."""
    monkeypatch.setattr(guard_sizes, "remembered", lambda key: 4)
    monkeypatch.setattr(guard_sizes, "remember", lambda *what: None)
    monkeypatch.setattr(guard, "_ALL", 4 if name == "a size" else guard._ALL)
    with installed(monkeypatch):
        model = network(Centered(), "sgd")
        for size in (4, 16):
            model.train_on_batch(X[:size], Y[:size])
    said = capsys.readouterr().err
    assert "trained in" not in said


@pytest.mark.parametrize("eagerly", [False, True])
def test_what_is_not_measured_is_cut_when_it_passes_the_limit(
    eagerly: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    taken = [100 * guard_sizes.MIB]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard_sizes, "peak", lambda: taken[0])
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: False)
    monkeypatch.setattr(guard, "_LOOKS_EVERY_S", 0)

    class Grows(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            taken[0] = (200 << 30) if batch == 1 else 100 * guard_sizes.MIB

    layer = Drawing(lambda shape: 0 * tf.random.normal(shape))
    with installed(monkeypatch):
        model = network(layer, "sgd", run_eagerly=eagerly)
        model.fit(X, Y, batch_size=16, verbose=0, callbacks=[Grows()])
    said = capsys.readouterr().err
    assert "a step with 16 samples at a time took 204800.0 MiB, above the limit" in said
    assert "a batch of 16 samples is trained in 2 parts of 8" in said


def test_an_eager_step_that_fails_is_undone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Keras's own function has done its update when memory runs out; the parts start afresh."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: True)
    own = TRAINER.compute_metrics

    class Failing(keras.callbacks.Callback):
        pass

    def fails(self: Any, x: Any, *given: Any, **more: Any) -> Any:
        answer = own(self, x, *given, **more)
        if int(tf.shape(x)[0]) == 16:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")
        return answer

    found = []
    for raises in (False, True):
        with installed(monkeypatch), monkeypatch.context() as patch:
            keras.utils.set_random_seed(7)
            model = network(L.Dense(4, "tanh"), run_eagerly=True)
            if raises:
                patch.setattr(TRAINER, "compute_metrics", fails)
                patch.setattr("plimsoll.guard_proof.unknown_keras", lambda: "")
            fit = TRAINER.fit if raises else own_fit()
            history = fit(model, X, Y, batch_size=16, verbose=0, shuffle=False).history
            found.append([np.array(history["loss"]), *model.get_weights()])
    said = capsys.readouterr().err
    assert "with 16 samples at a time does not fit (ResourceExhaustedError): it was undone" in said
    assert "a batch of 16 samples is trained in 2 parts of 8" in said
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)
