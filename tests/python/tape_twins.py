"""A training step by TensorFlow and by us, and how far rounding alone takes them apart."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import numbers

import plimsoll
from plimsoll import asked
from plimsoll.programs import finder
from plimsoll.replaced import keras_methods

TRAINER = keras.Model.__mro__[1]
STEPS = 20
ROWS = 100  # in batches of 16: the last one is short


def plain_function(*arguments: Any, **named: Any) -> Any:
    """TensorFlow's own, whatever stands for it now."""
    own = getattr(tf.function, "__wrapped__", tf.function)
    return own(*arguments, **named)


@contextmanager
def installed(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[asked.Outcome]:
    """Then everything is as before, but that steps are watched by nobody."""
    before = {name: vars(TRAINER)[name] for name in keras_methods.NAMES}
    monkeypatch.setattr(asked, "current", None)
    monkeypatch.setattr(asked, "outcome", asked.Outcome())
    monkeypatch.setattr(finder.atexit, "register", lambda _: None)
    meta_path = list(sys.meta_path)
    own = tf.function
    plimsoll.install(**options)
    try:
        yield asked.outcome
    finally:
        sys.meta_path[:] = meta_path
        tf.function = own
        for name, method in before.items():
            setattr(TRAINER, name, method)
        del TRAINER._plimsoll_replaces


def batches(
    seed: int = 0, permute: int | None = None, y: Any = None, count: int = STEPS
) -> Iterator[tuple[Any, Any]]:
    """Over and over; `permute`: samples of each batch in another order."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(ROWS, 8)).astype("float32")
    labels = random.integers(0, 3, ROWS) if y is None else y
    order = np.random.default_rng(permute)
    for step in range(count):
        begin = step * 16 % 112
        which = np.arange(begin, min(begin + 16, ROWS))
        if permute is not None:
            which = order.permutation(which)
        yield tf.constant(x[which]), tf.constant(labels[which])


Run = tuple[list[Any], np.ndarray, np.ndarray, list[float]]


def run(program: Any, function: Any, permute: int | None = None, y: Any = None, **more: Any) -> Run:
    """What a program's step returns, the weights before and after, and its metrics."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    step, model, metrics = program(function, **more)
    if permute is not None:
        draw = np.random.default_rng(permute)
        for weight in model.weights:
            sign = draw.choice([-1.0, 1.0], weight.shape)
            weight.assign(numbers(weight) * (1 + sign * 2.0**-23))
    before = flat(model)
    answers = [np.asarray(step(x, y)) for x, y in batches(permute=permute, y=y)]
    return answers, before, flat(model), [float(metric.result()) for metric in metrics]


def flat(model: keras.Model) -> np.ndarray:
    return np.concatenate([numbers(one).ravel().astype("float64") for one in model.weights])


def distance(one: Run, other: Run) -> float:
    """Of two runs' weights, beside the way from where they began."""
    return float(np.linalg.norm(one[2] - other[2]) / np.linalg.norm(one[2] - one[1]))


def floor(program: Any, reference: Run, **more: Any) -> tuple[float, float]:
    """Of weights and losses: the largest distance of five disturbed runs from the reference."""
    runs = [run(program, plain_function, permute=seed, **more) for seed in range(5)]
    losses = max(float(np.max(np.abs(np.subtract(one[0], reference[0])))) for one in runs)
    return max(distance(reference, one) for one in runs), losses
