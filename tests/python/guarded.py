"""Training by Keras in parts against Keras's own: DESIGN's measure of equal results for many steps.

A cut run may differ from the whole one by four times what the whole one differs from itself, when
the samples of each batch are permuted and every weight is disturbed by its last bit.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pytest
from live_models import numbers

import plimsoll
from plimsoll import asked
from plimsoll.guard import decide as guard
from plimsoll.guard import proof
from plimsoll.guard import sizes as guard_sizes
from plimsoll.programs import finder
from plimsoll.replaced import keras_methods

BATCH = 16
# With a Keras whose functions are not known nothing is cut, as docs/reference/scripts.md says.
CUTS = pytest.mark.skipif(bool(proof.unknown_keras()), reason=proof.unknown_keras())
TRAINER = keras.Model.__mro__[1]


def own_fit() -> Callable[..., Any]:
    """Keras's own method, while ours is in its place."""
    method: Callable[..., Any] = TRAINER.fit.__wrapped__
    return method


@contextlib.contextmanager
def installed(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[None]:
    """Keras's methods replaced, and back again."""
    before = {name: vars(TRAINER)[name] for name in keras_methods.NAMES}
    monkeypatch.setattr(asked, "current", None)
    monkeypatch.setattr(asked, "outcome", asked.Outcome())
    monkeypatch.setattr(finder.atexit, "register", lambda _: None)
    plimsoll.install(**{"memory": "64GiB", "engine": "keras", **options})
    try:
        yield
    finally:
        asked.current = None
        for name, method in before.items():
            setattr(TRAINER, name, method)
        del TRAINER._plimsoll_replaces


def parts_of(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """As if an earlier run had found that so many samples fit."""
    monkeypatch.setattr(guard_sizes, "remembered", lambda key: rows)
    monkeypatch.setattr(guard_sizes, "remember", lambda *what: None)


def leaves(function: Callable[[Any], Any], data: Any) -> Any:
    return None if data is None else keras.tree.map_structure(function, data)


@dataclass
class Kind:
    """A model with data; rows: of a part."""

    model: Callable[[], Any]
    x: Any
    y: Any
    fit: dict[str, Any] = field(default_factory=dict)
    weights: Any = None
    rows: int = 5
    epochs: int = 2


class Repeated:
    """One model, trained again and again from the same weights."""

    def __init__(self, kind: Kind) -> None:
        keras.utils.set_random_seed(1)
        self.kind, self.model = kind, kind.model()
        self.model(leaves(lambda one: one[:2], kind.x))
        self.model.optimizer.build(self.model.trainable_variables)
        self.start = [numbers(one).copy() for one in self._variables()]
        self.count = len(keras.tree.flatten(kind.x)[0])

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *self.model.optimizer.variables]

    def train(self, disturbed: int = 0, method: Any = None) -> tuple[list[Any], dict[str, Any]]:
        """Weights and logs."""
        random = np.random.default_rng(disturbed)
        trained = {id(one) for one in self.model.trainable_variables}
        for variable, value in zip(self._variables(), self.start):
            if disturbed and id(variable) in trained:
                value = value * (1 + random.choice([-1, 1], value.shape) * 2.0**-23)
            variable.assign(value)
        order = np.arange(self.count)
        if disturbed:
            for begin in range(0, self.count, BATCH):
                random.shuffle(order[begin : begin + BATCH])
        kind = self.kind
        given = {"verbose": 0, "shuffle": False, "epochs": kind.epochs, "batch_size": BATCH,
                 "sample_weight": leaves(lambda a: a[order], kind.weights), **kind.fit}  # fmt: skip
        x, y = (leaves(lambda one: one[order], data) for data in (kind.x, kind.y))
        history = (method or own_fit())(self.model, x, y, **given).history
        return [numbers(one).copy() for one in self.model.trainable_variables], history


def far(one: list[Any], other: list[Any], start: list[Any]) -> float:
    """How far apart two trained models are, in parts of the way that one has gone."""
    gone = np.sqrt(sum(float(np.sum((a - b) ** 2)) for a, b in zip(one, start)))
    return float(np.sqrt(sum(float(np.sum((a - b) ** 2)) for a, b in zip(one, other))) / gone)


def assert_equal_cut(kind: Kind, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Repeated:
    """The cut run against the whole one."""
    with installed(monkeypatch, **options):
        repeated = Repeated(kind)
        whole, logs = repeated.train()
        trained = whole
        start = [value for variable, value in zip(repeated._variables(), repeated.start)
                 if any(variable is one for one in repeated.model.trainable_variables)]  # fmt: skip
        floors, of_logs = [2.0**-22], {name: 1e-6 for name in logs}
        for seed in range(1, 6):
            other, told = repeated.train(seed)
            floors.append(far(trained, other, start))
            for name in logs:
                apart = float(np.max(np.abs(np.subtract(told[name], logs[name]))))
                of_logs[name] = max(of_logs[name], apart)
        parts_of(monkeypatch, kind.rows)
        cut, received = repeated.train(method=TRAINER.fit)
        print(f"floor {max(floors):.2e}, cut {far(trained, cut, start):.2e}")
        assert list(received) == list(logs)
        assert guard._guards[repeated.model].rows == kind.rows  # it has been cut
        assert far(trained, cut, start) <= 4 * max(floors)
        for name in logs:
            near = 4 * of_logs[name] + 1e-6 * np.max(np.abs(logs[name]))
            np.testing.assert_allclose(received[name], logs[name], rtol=0, atol=near, err_msg=name)
    return repeated
