"""Trainer: loops of one's own against GradientTape and Keras's optimizers."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import CASES, assert_like, normal, numbers
from test_on_batch import rows

import plimsoll

L = keras.layers
X, Y = normal(60, 4), normal(60, 1, seed=3)
PIECES = ((0, 16), (16, 25), (25, 41))  # of different sizes


def _taped(model: keras.Model, x: Any, y: Any, weights: Any = None) -> tuple[float, list[Any]]:
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True), weights)
    found = tape.gradient(loss, model.trainable_variables)
    return float(loss), [None if g is None else tf.convert_to_tensor(g).numpy() for g in found]


def _small(optimizer: Any = "adam", loss: Any = "mse") -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((4,)), L.Dense(6, "tanh"), L.Dense(1)])
    model.compile(optimizer, loss)
    return model


@pytest.mark.parametrize("name", CASES)
def test_gradients_and_steps(name: str) -> None:
    """Batches of several sizes, statistics of batches among what is trained."""
    case = CASES[name]
    theirs, ours = case.compiled(), case.compiled()
    trainer = plimsoll.Trainer(ours)
    for _ in range(3):
        sums: list[Any] = [0.0] * len(theirs.trainable_variables)
        for begin, end in PIECES:
            x, y = rows(case.x, begin, end), rows(case.y, begin, end)
            loss, gradients = _taped(theirs, x, y)
            sums = [s + g * (end - begin) for s, g in zip(sums, gradients, strict=True)]
            np.testing.assert_allclose(trainer.accumulate(x, y), loss, rtol=1e-3)
        means = [s / PIECES[-1][1] for s in sums]
        for expected, received in zip(means, trainer.gradients(), strict=True):
            np.testing.assert_allclose(received, expected, rtol=2e-3, atol=1e-5)
        theirs.optimizer.apply([tf.constant(g) for g in means], theirs.trainable_variables)
        trainer.apply()
    assert_like(theirs, ours)


def test_pieces_are_one_batch() -> None:
    """The mean over samples, with weights of samples: as train_on_batch on all of them."""
    whole, pieces = _small(), _small()
    weights = np.linspace(0, 2, 41).astype("float32")
    trainer = plimsoll.Trainer(pieces)
    for _ in range(3):
        whole.train_on_batch(X[:41], Y[:41], weights)
        for begin, end in PIECES:
            trainer.accumulate(X[begin:end], Y[begin:end], weights[begin:end])
        trainer.apply()
    assert_like(whole, pieces)


def test_sums_of_calls() -> None:
    model = _small(loss=keras.losses.MeanSquaredError(reduction="sum"))
    trainer = plimsoll.Trainer(model, reduce="sum")
    _loss, expected = _taped(model, X[:41], Y[:41])
    for begin, end in PIECES:
        trainer.accumulate(X[begin:end], Y[begin:end])
    for one, other in zip(expected, trainer.gradients(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


def test_gradients_of_ones_own() -> None:
    """Clipped outside, and applied."""
    theirs, ours = _small("sgd"), _small("sgd")
    trainer = plimsoll.Trainer(ours)
    for _ in range(3):
        gradients = [np.clip(g, -0.05, 0.05) for g in _taped(theirs, X, Y)[1]]
        theirs.optimizer.apply([tf.constant(g) for g in gradients], theirs.trainable_variables)
        trainer.accumulate(X, Y)
        trainer.apply([np.clip(g, -0.05, 0.05) for g in trainer.gradients()])
    assert_like(theirs, ours)
    with pytest.raises(ValueError, match="received none"):
        trainer.apply()


def test_given_gradients_alone() -> None:
    theirs, ours = _small(), _small()
    gradients = [np.full(v.shape, 0.1, "float32") for v in theirs.trainable_variables]
    trainer = plimsoll.Trainer(ours)
    for model_step in range(2):
        theirs.optimizer.apply([tf.constant(g) for g in gradients], theirs.trainable_variables)
        trainer.apply(gradients)
        assert int(numbers(ours.optimizer.iterations)) == model_step + 1
    assert_like(theirs, ours)


def _gan() -> tuple[keras.Model, keras.Model, keras.Model]:
    keras.backend.clear_session()
    keras.utils.set_random_seed(5)
    judge = keras.Sequential([keras.Input((3,)), L.Dense(8, "leaky_relu"), L.Dense(1, "sigmoid")])
    maker = keras.Sequential([keras.Input((2,)), L.Dense(8, "relu"), L.Dense(3)])
    noise = keras.Input((2,))
    return judge, maker, keras.Model(noise, judge(maker(noise)))


def test_gan() -> None:
    """Two optimizers, and layers that belong to two models, in Keras and here."""
    real, noise = normal(40, 3, seed=8), normal(40, 2, seed=9)
    ones, zeros = np.ones((20, 1), "float32"), np.zeros((20, 1), "float32")
    models = []
    for ours in (False, True):
        judge, maker, both = _gan()
        first, second = keras.optimizers.Adam(0.01), keras.optimizers.RMSprop(0.005)
        judge.compile(first, "binary_crossentropy")
        one = plimsoll.Trainer(judge) if ours else None
        judge.trainable = False
        both.compile(second, "binary_crossentropy")
        two = plimsoll.Trainer(both, second, "binary_crossentropy") if ours else None
        trained = maker.trainable_variables
        for step in range(6):
            at = slice(20 * (step % 2), 20 * (step % 2) + 20)
            made = maker(noise[at]).numpy()
            if one is not None and two is not None:
                one.accumulate(real[at], ones)
                one.accumulate(made, zeros)
                one.apply()
                two.accumulate(noise[at], ones)
                assert len(two.gradients()) == len(trained)
                two.apply()
                continue
            x, y = np.concatenate([real[at], made]), np.concatenate([ones, zeros])
            judged = [v for layer in judge.layers for v in layer.weights]
            with tf.GradientTape() as tape:
                tape.watch([v.value for v in judged])
                loss = judge.compute_loss(x, y, judge(x, training=True))
            first.apply(tape.gradient(loss, [v.value for v in judged]), judged)
            loss, gradients = _taped(both, noise[at], ones)
            second.apply([tf.constant(g) for g in gradients], trained)
        models.append((both, first, second))
    (a, *theirs), (b, *ours_too) = models
    for one_of, other in zip(a.variables, b.variables, strict=True):
        np.testing.assert_allclose(numbers(other), numbers(one_of), rtol=2e-4, atol=2e-4)
    for one_of, other in zip(theirs, ours_too, strict=True):
        assert int(numbers(one_of.iterations)) == int(numbers(other.iterations)) == 6
        for v, w in zip(one_of.variables, other.variables, strict=True):
            np.testing.assert_allclose(numbers(w), numbers(v), rtol=1e-2, atol=2e-4)


def test_two_trainers_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is planned once, and the second one's limit counts the first."""
    from plimsoll.options import Listener

    plans: list[str] = []
    monkeypatch.setattr(Listener, "begin", lambda self, plan: plans.append(plan))
    trainers = [plimsoll.Trainer(_small(), memory="8GiB") for _ in range(2)]
    for _ in range(3):
        for trainer in trainers:
            trainer.accumulate(X[:8], Y[:8])
            trainer.apply()
    assert len(plans) == 2
    with pytest.raises(plimsoll.ResourceExhausted, match="1.0 MiB"):
        plimsoll.Trainer(_small(), memory="1MiB").accumulate(X, Y)


def test_what_was_added_up_outlives_another_plan() -> None:
    """A larger batch, calls on the model between, a limit that is not met."""
    theirs, ours = _small(), _small()
    trainer = plimsoll.Trainer(ours)
    trainer.accumulate(X[:8], Y[:8])
    plimsoll.predict(ours, X)
    plimsoll.release()
    trainer._options = {"memory": "1MiB"}
    with pytest.raises(plimsoll.ResourceExhausted):
        trainer.accumulate(X[8:24], Y[8:24])
    trainer._options = {}
    trainer.accumulate(X[8:40], Y[8:40])
    trainer.apply()
    theirs.train_on_batch(X[:40], Y[:40])
    assert_like(theirs, ours)


def test_what_is_set_between_calls_counts() -> None:
    theirs, ours = _small(), _small()
    trainer = plimsoll.Trainer(ours)
    for step in range(4):
        theirs.train_on_batch(X, Y)
        trainer.accumulate(X, Y)
        trainer.apply()
        for model in (theirs, ours):
            if step == 0:
                model.layers[0].kernel.assign(np.full((4, 6), 0.1, "float32"))
            if step == 1:
                model.optimizer.learning_rate = 0.05
            if step == 2:
                model.optimizer.variables[2].assign(np.ones((4, 6), "float32"))
    plimsoll.fit(ours, X, Y, batch_size=60, verbose=0, shuffle=False)
    theirs.fit(X, Y, batch_size=60, verbose=0, shuffle=False)
    trainer.accumulate(X, Y)
    trainer.apply()
    theirs.train_on_batch(X, Y)
    assert_like(theirs, ours)


def test_cleared_and_released() -> None:
    theirs, ours = _small(), _small()
    trainer = plimsoll.Trainer(ours)
    for forget in (trainer.clear, trainer.release):
        trainer.accumulate(X[40:], Y[40:])
        forget()
        with pytest.raises(ValueError, match="received none"):
            trainer.gradients()
        trainer.accumulate(X[:40], Y[:40])
        trainer.apply()
        theirs.train_on_batch(X[:40], Y[:40])
    assert_like(theirs, ours)


def test_metrics_and_a_loss_of_the_trainers_own() -> None:
    model = keras.Sequential([keras.Input((4,)), L.Dense(3, "softmax")])
    trainer = plimsoll.Trainer(model, "sgd", "sparse_categorical_crossentropy", ["accuracy"])
    logs = trainer.accumulate(X, np.arange(60) % 3, return_dict=True)
    assert list(logs) == ["accuracy", "loss"]
    first = logs["loss"]
    for _ in range(20):
        trainer.apply()
        last = trainer.accumulate(X, np.arange(60) % 3)
    assert last < first and not model.compiled


def test_draws_differ_from_call_to_call() -> None:
    model = keras.Sequential([keras.Input((50,)), L.Dropout(0.5), L.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    trainer = plimsoll.Trainer(model)
    assert len({trainer.accumulate(normal(8, 50), normal(8, 1)) for _ in range(5)}) == 5


def test_refused_by_name() -> None:
    def mse(y_true: Any, y_pred: Any) -> Any:
        return keras.ops.mean((y_true - y_pred) ** 2, -1)

    model = _small()
    with pytest.raises(plimsoll.Refused, match="mse"):
        plimsoll.Trainer(model, loss=mse)
    other = keras.optimizers.Adam()
    other.build(_small().trainable_variables)
    with pytest.raises(plimsoll.Refused, match="optimizer of its own"):
        plimsoll.Trainer(model, other)
    with pytest.raises(ValueError, match="loss: expected one"):
        plimsoll.Trainer(keras.Sequential([keras.Input((4,)), L.Dense(1)]), "sgd")
    with pytest.raises(TypeError, match="limit"):
        plimsoll.Trainer(model, limit=1)
    trainer = plimsoll.Trainer(model)
    for call in (
        lambda: trainer.accumulate(X[:, :3], Y),
        lambda: trainer.accumulate(X, Y[:5]),
        lambda: trainer.accumulate(X),
        lambda: trainer.apply([np.zeros((4, 6))]),
        lambda: trainer.apply([np.zeros(3)] * 4),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
    model.layers[0].activation = keras.activations.relu
    with pytest.raises(ValueError, match="Make another Trainer"):
        trainer.accumulate(X, Y)


def test_labels_that_are_refused_change_nothing() -> None:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    theirs, ours = _classifier(), _classifier()
    theirs.compile("sgd", loss)
    trainer = plimsoll.Trainer(ours, "sgd", loss)
    trainer.accumulate(X[:30], np.arange(30) % 3)
    with pytest.raises(ValueError, match="7"):
        trainer.accumulate(X[30:], np.full(30, 7))
    trainer.accumulate(X[30:], np.arange(30, 60) % 3)
    trainer.apply()
    theirs.train_on_batch(X, np.arange(60) % 3)
    for one, other in zip(theirs.variables, ours.variables, strict=True):
        np.testing.assert_allclose(numbers(other), numbers(one), rtol=1e-4, atol=1e-5)


def test_one_of_two_labels_that_is_refused() -> None:
    """The other one's gradients would be complete before it is read."""
    case = CASES["two ports"]
    trainer = plimsoll.Trainer(case.compiled())
    trainer.accumulate(case.x, case.y)
    before = [gradient.tobytes() for gradient in trainer.gradients()]
    with pytest.raises(ValueError, match="9"):
        trainer.accumulate(case.x, [case.y[0], np.full(64, 9)])
    assert [gradient.tobytes() for gradient in trainer.gradients()] == before


def _classifier() -> keras.Model:
    keras.utils.set_random_seed(6)
    return keras.Sequential([keras.Input((4,)), L.Dense(3)])


def test_a_model_that_was_saved(tmp_path: Path) -> None:
    """Keras takes the optimizer out of the model's description when it writes an .h5 file."""
    theirs, ours = _small(), _small()
    ours.save(tmp_path / "model.h5")
    trainer = plimsoll.Trainer(ours)
    trainer.accumulate(X, Y)
    trainer.apply()
    theirs.train_on_batch(X, Y)
    assert_like(theirs, ours)


def test_beside_steps_of_other_ways() -> None:
    """train_on_batch of Keras and of this package between, on the same model and optimizer."""
    theirs, ours = _small(), _small()
    trainer = plimsoll.Trainer(ours)
    for _ in range(2):
        plimsoll.train_on_batch(ours, X, Y)
        trainer.accumulate(X, Y)
        trainer.apply()
        plimsoll.train_on_batch(ours, X, Y)
        ours.train_on_batch(X, Y)
        for _ in range(4):
            theirs.train_on_batch(X, Y)
    assert_like(theirs, ours)


def test_what_a_tape_leaves_out() -> None:
    """Penalties of layers, and training mode; metrics are the program's objects."""

    def made(*layers: Any) -> keras.Model:
        keras.backend.clear_session()
        keras.utils.set_random_seed(4)
        return keras.Sequential([keras.Input((4,)), L.Dense(6, kernel_regularizer="l2"), *layers,
                                 L.Dense(1)])  # fmt: skip

    model, metric = made(), keras.metrics.MeanAbsoluteError()
    with tf.GradientTape() as tape:
        outputs = model(X[:16])
        loss = keras.losses.MeanSquaredError()(Y[:16], outputs)
    expected = tape.gradient(loss, model.trainable_variables)
    trainer = plimsoll.Trainer(model, "sgd", "mse", losses=False, training=False, updates=[metric])
    for _ in range(2):
        received = trainer.accumulate(X[:16], Y[:16], return_dict=True)
    np.testing.assert_allclose(received["loss"], float(loss), rtol=1e-5)
    for one, other in zip(expected, trainer.gradients(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(metric.result(), np.abs(Y[:16] - outputs).mean(), rtol=1e-5)
    assert float(metric.count) == 32
    with pytest.raises(plimsoll.Refused, match="BatchNormalization"):
        plimsoll.Trainer(made(L.BatchNormalization()), "sgd", "mse", training=False)
    with pytest.raises(plimsoll.Refused, match="a mean over samples"):
        plimsoll.Trainer(made(), "sgd", "mse", updates=[keras.metrics.AUC()])
