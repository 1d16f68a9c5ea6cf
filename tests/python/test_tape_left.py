"""Training steps that no engine does: TensorFlow runs them, and one line says why."""

import itertools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from scripts import load
from tape_programs import classifier, closure
from tape_twins import distance, installed, plain_function, run

from plimsoll.tapes.grammar import not_a_plain_mean

TEXT = """\
import keras
import numpy as np
import tensorflow as tf

L = keras.layers


def program(function, strategy=None):
    model = keras.Sequential([keras.Input((8,)), {layers} L.Dense(3, "softmax")])
    other = keras.Sequential([keras.Input((8,)), L.Dense(3)])
    optimizer = keras.optimizers.{optimizer}(0.01)
    loss_fn = {loss}
    accuracy = {metric}
    seen = tf.Variable(0.0)
    scale = 0.5

    @function
    def step(x, y):
        {before}
        with tf.GradientTape() as tape:
            predictions = {call}
            loss = {value}
        gradients = tape.gradient(loss, {variables})
        {between}
        optimizer.apply_gradients(zip(gradients, {variables}))
        accuracy.update_state(y, predictions)
        return {answer}

    return step, model, [accuracy]
"""
STANDARD = {
    "layers": 'L.Dense(6, "relu"),', "optimizer": "SGD", "between": "pass", "before": "pass",
    "loss": "keras.losses.SparseCategoricalCrossentropy()",
    "metric": "keras.metrics.SparseCategoricalAccuracy()", "answer": "loss",
    "call": "model(x, training=True)", "value": "loss_fn(y, predictions)",
    "variables": "model.trainable_variables",
}  # fmt: skip
OWN_LOSS = "lambda y, p: tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, p))"
# What differs from the standard, and what the line says.
LEFT: dict[str, tuple[dict[str, str], str]] = {
    "print": ({"before": "print('traced')"}, ":19: print('traced'): what print does"),
    "an operation": ({"before": "x = tf.abs(x)"}, "tf.abs(x): what tf.abs does is not known"),
    "python inside": (
        {"between": "tf.py_function(lambda: 0, [], tf.int32)"}, "what tf.py_function does"),
    "a variable": ({"between": "seen.assign_add(1.0)"}, "seen.assign_add(1.0): what"),
    "changed gradients": (
        {"between": "gradients = [tf.clip_by_norm(g, 0.1) for g in gradients]"}, "clip_by_norm"),
    "a scaled loss": ({"value": "scale * loss_fn(y, predictions)"}, "scale * loss_fn"),
    "some variables": ({"variables": "model.layers[-1].trainable_variables"}, "model.layers[-1]"),
    "its own loss": ({"loss": OWN_LOSS}, "loss_fn(y, predictions): what loss_fn does"),
    "a condition": ({"between": "if scale > 0: gradients = gradients"}, "if scale > 0"),
    "two calls": ({"value": "loss_fn(y, model(x, training=True))"}, "one call of one model"),
    "weights of samples": ({"value": "loss_fn(y, predictions, y)"}, "2 arguments are expected"),
    "a reduction": (
        {"loss": "keras.losses.SparseCategoricalCrossentropy(reduction='none')"},
        "expected loss, variables, received values, variables"),
    "no training": (
        {"call": "model(x)", "layers": "L.BatchNormalization(),"}, "(BatchNormalization)"),
    "a metric of ranks": ({"metric": "keras.metrics.SparseTopKCategoricalAccuracy(2)",
                           "layers": "L.Masking(),"}, "without masks, received masking"),
    "two losses": ({"layers": "L.Dense(4, kernel_regularizer='l2'),",
                    "answer": "loss_fn(y, predictions)"}, "one loss is expected"),
    "an own metric": ({"metric": "type('Own', (keras.metrics.SparseCategoricalAccuracy,), {})()"},
                      "the program's own"),
    "mixed precision": ({"layers": "L.Dense(4, dtype='mixed_bfloat16'),"}, "expected float32"),
    "clipped twice": (
        {"between": "gradients, _ = tf.clip_by_global_norm(gradients, 1.0)",
         "optimizer": "SGD(0.1, clipnorm=1.0) or keras.optimizers.SGD"}, "clipped once"),
    "a part of a trained model": (
        {"layers": "part := keras.Sequential([L.Dense(6)]),",
         "variables": "part.trainable_variables"},
        "the variables of the model that is called"),
    "a class that is ignored": (
        {"loss": "keras.losses.sparse_categorical_crossentropy",
         "value": "tf.reduce_mean(loss_fn(y, predictions, ignore_class=0))"},
        "and not with ignore_class=0"),
    "a class that an object ignores": (
        {"loss": "keras.losses.SparseCategoricalCrossentropy(ignore_class=0, reduction=None)",
         "value": "tf.reduce_mean(loss_fn(y, predictions))"},
        "whose mean is that over all samples, received ignore_class=0"),
    "a loss that counts what is above zero": (
        {"loss": "keras.losses.Circle(reduction=None)",
         "value": "tf.reduce_mean(loss_fn(y, predictions))"}, "over all samples, received Circle"),
    "penalties of values": ({"layers": "L.ActivityRegularization(0.01),"},
                            "ActivityRegularization"),
}  # fmt: skip
_numbers = itertools.count()


def program(folder: Path, **changes: str) -> Any:
    path = folder / f"step_{next(_numbers)}.py"
    path.write_text(TEXT.format(**{**STANDARD, **changes}))
    return load(path).program


@pytest.mark.parametrize("name", LEFT)
def test_what_is_not_standard_runs_in_tensorflow(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    changes, expected = LEFT[name]
    made = program(tmp_path, **changes)
    with installed(monkeypatch) as outcome:
        received = run(made, tf.function)
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("plimsoll:")]
    assert outcome.taken == 0 and len(said) == 1 and expected in said[0], said
    assert "step runs in TensorFlow, untouched: " in said[0]
    plain = run(made, plain_function)
    np.testing.assert_array_equal(received[2], plain[2])
    for one, other in zip(received[0], plain[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_step_without_changes_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The template itself is not what stands in the way."""
    with installed(monkeypatch) as outcome:
        run(program(tmp_path), tf.function)
    assert outcome.taken == 20 and not outcome.told


def test_momentum_that_begins_at_0_is_tensorflows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first trace makes it; the short last batches, of another kind, find it made."""
    made = program(tmp_path, optimizer="ScheduleFreeAdamW")
    plain = run(made, plain_function)
    with installed(monkeypatch) as outcome:
        received = run(made, tf.function)
    ((_, why),) = outcome.told
    assert outcome.taken == 2 and "expected a ScheduleFreeAdamW that is built" in why
    assert distance(plain, received) < 1e-3


def test_an_optimizer_that_is_built_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its momentum is the weights then, for both."""

    def made(function: Any) -> Any:
        model, optimizer = classifier(), keras.optimizers.ScheduleFreeAdamW(0.01)
        optimizer.build(model.trainable_variables)
        return closure(function, optimizer, model)

    plain = run(made, plain_function)
    with installed(monkeypatch) as outcome:
        received = run(made, tf.function)
    assert outcome.taken == 20 and not outcome.told, outcome.told
    assert distance(plain, received) < 1e-3


MEANS: dict[str, dict[str, Any]] = {
    "MeanSquaredError": {}, "MeanAbsoluteError": {}, "MeanAbsolutePercentageError": {},
    "MeanSquaredLogarithmicError": {}, "CosineSimilarity": {}, "LogCosh": {}, "Hinge": {},
    "SquaredHinge": {}, "CategoricalHinge": {}, "KLDivergence": {}, "Poisson": {},
    "Huber": {"delta": 0.2}, "BinaryCrossentropy": {"label_smoothing": 0.1},
    "BinaryFocalCrossentropy": {"apply_class_balancing": True, "alpha": 0.3, "gamma": 1.5},
    "CategoricalCrossentropy": {"from_logits": True, "label_smoothing": 0.1},
    "CategoricalFocalCrossentropy": {"alpha": 0.3, "gamma": 1.5},
    "SparseCategoricalCrossentropy": {"from_logits": True},
}  # fmt: skip


@pytest.mark.parametrize("name", MEANS)
def test_losses_whose_means_are_plain(name: str) -> None:
    """Keras's mean is TensorFlow's of all values, for values of one axis and of two."""
    random, cls = np.random.default_rng(0), getattr(keras.losses, name)
    for shape in ((7, 3), (4, 5, 3)):
        y, p = random.integers(0, 2, shape), random.uniform(0.1, 0.9, shape).astype("float32")
        y = y[..., 0] if name == "SparseCategoricalCrossentropy" else y.astype("float32")
        each = cls(reduction=None, **MEANS[name])
        assert not not_a_plain_mean(name, each._fn_kwargs)
        np.testing.assert_allclose(tf.reduce_mean(each(y, p)), cls(**MEANS[name])(y, p), rtol=1e-6)


def test_strict_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with installed(monkeypatch, strict=True) as outcome:
        with pytest.raises(plimsoll_refused(), match=r"print\('traced'\)"):
            run(program(tmp_path, **LEFT["print"][0]), tf.function)
        assert outcome.refused == 1
        with pytest.raises(plimsoll_refused(), match="plimsoll migrate"):
            _eager_step()


def plimsoll_refused() -> Any:
    import plimsoll

    return plimsoll.Refused


def _eager_step(count: int = 1) -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    for _ in range(count):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(np.ones((4, 8), "float32")))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


def test_an_eager_loop_is_named_once(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """With its place and the command that rewrites it; Keras's own training never is."""
    with installed(monkeypatch):
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
        model.compile("sgd", lambda y, p: tf.reduce_mean((y - p) ** 2), run_eagerly=True)
        model.fit(np.ones((4, 8)), np.ones(4), verbose=0)
        assert "step of" not in capfd.readouterr().err
        _eager_step(3)
        _eager_step()
    said = [line for line in capfd.readouterr().err.splitlines() if "step of" in line]
    assert len(said) == 1, said
    assert "test_tape_left.py:" in said[0] and "`python -m plimsoll migrate " in said[0]
