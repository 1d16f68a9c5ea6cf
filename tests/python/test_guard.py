"""Keras's own training in parts gives what whole batches give."""

from typing import Any

import guarded_kinds
import keras
import numpy as np
import pytest
from guarded import CUTS, Kind, assert_equal_cut, installed, own_fit, parts_of
from guarded_kinds import LABELS, WEIGHTS, Own, Twice, X, Y, network, share
from live_models import numbers

pytestmark = CUTS

L = keras.layers


class OfOneInput(Twice):
    """The same with one input."""

    def call(self, inputs: Any) -> Any:
        found = self.shared(inputs)
        return {"one": self.one(found), "two": self.two(found)}


def twice() -> Any:
    model = OfOneInput()
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        {"one": "mse", "two": "sparse_categorical_crossentropy"},
        loss_weights={"one": 0.3, "two": 2.0}, metrics={"two": ["accuracy"], "one": [share]},
        weighted_metrics={"two": ["accuracy"]},
    )  # fmt: skip
    return model


def doubled() -> Any:
    policy = {"dtype": "float64"}
    loss = keras.losses.MeanSquaredError(**policy)
    model = keras.Sequential([keras.Input((6,), **policy), L.Dense(5, "tanh", **policy),
                              L.Dense(3, **policy)])  # fmt: skip
    model.compile(keras.optimizers.SGD(0.05), loss)
    return model


KINDS = guarded_kinds.KINDS | {
    "sample weights": Kind(
        lambda: network(metrics=["mae"], weighted_metrics=["mse"], jit_compile=False), X, Y,
        weights=WEIGHTS),
    "class weights": Kind(
        lambda: network(L.Dense(3, activation="softmax"), loss="sparse_categorical_crossentropy",
                        metrics=["accuracy", squares_of_classes]),
        X, LABELS, {"class_weight": {0: 1.0, 1: 3.0, 2: 0.2}}),
    "two outputs": Kind(twice, X, {"one": Y, "two": LABELS}, rows=6),
    "in double precision": Kind(lambda: doubled(), X.astype("float64"), Y.astype("float64")),
    "several steps at a time": Kind(lambda: network(steps_per_execution=2), X, Y, epochs=1),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_parts_give_what_the_batch_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_equal_cut(KINDS[name], monkeypatch)


def test_single_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What train_on_batch returns, and an optimizer that counts batches."""
    with installed(monkeypatch):
        parts_of(monkeypatch, 3)
        logs = []
        for method in (keras.Model.train_on_batch.__wrapped__, keras.Model.train_on_batch):
            keras.utils.set_random_seed(2)
            model = twice()
            for at in (0, 16, 32):
                labels = {"one": Y[at : at + 16], "two": LABELS[at : at + 16]}
                logs.append(method(model, X[at : at + 16], labels, return_dict=True))
            assert int(model.optimizer.iterations) == 3
    for whole, cut in zip(logs[:3], logs[3:], strict=True):
        assert list(whole) == list(cut)
        for name, value in whole.items():
            assert cut[name] == pytest.approx(value, rel=1e-5, abs=1e-6), name


def test_what_differs_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Moving means are those of the batch all the same; draws are other ones."""

    def model() -> Any:
        keras.utils.set_random_seed(3)
        one = keras.Sequential(
            [keras.Input((6,)), L.BatchNormalization(), Own(), L.Dropout(0.5), L.Dense(3)]
        )
        one.compile("sgd", "mse")
        return one

    with installed(monkeypatch):
        parts_of(monkeypatch, 4)
        whole, cut = model(), model()
        own_fit()(whole, X[:16], Y[:16], batch_size=16, verbose=0)
        cut.fit(X[:16], Y[:16], batch_size=16, verbose=0)
    said = capsys.readouterr().err
    assert "BatchNormalization takes its statistics of a part; random layers draw other" in said
    assert "trained in 4 parts of 4" in said
    one, other = whole.layers[0].moving_mean, cut.layers[0].moving_mean
    np.testing.assert_allclose(numbers(other), numbers(one), rtol=1e-5, atol=1e-7)


class Sampling(L.Layer):
    """Draws in inference too, as a variational autoencoder does."""

    def __init__(self) -> None:
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(5)

    def call(self, inputs: Any) -> Any:
        return inputs + keras.random.normal(keras.ops.shape(inputs), seed=self.seed_generator)


def test_layers_that_draw_are_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are asked from one state of their seeds."""
    with installed(monkeypatch):
        parts_of(monkeypatch, 4)
        network(Sampling(), L.Dense(3)).fit(X[:16], Y[:16], batch_size=16, verbose=0)
    assert "trained in 4 parts of 4" in capsys.readouterr().err


class Mixing(L.Layer):
    def call(self, inputs: Any) -> Any:
        return inputs - keras.ops.mean(inputs, axis=0)


class Counting(L.Layer):
    def build(self, shape: Any) -> None:
        self.n = self.add_weight(shape=(), initializer="zeros", trainable=False, name="n")

    def call(self, inputs: Any) -> Any:
        self.n.assign_add(1.0)
        return inputs


class Adding(L.Layer):
    def call(self, inputs: Any) -> Any:
        self.add_loss(keras.ops.mean(inputs**2))
        return inputs


class OwnStep(keras.Sequential):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


def own_step() -> Any:
    model = OwnStep([keras.Input((6,)), L.Dense(3)])
    model.compile("sgd", "mse")
    return model


def contrastive(true: Any, predicted: Any) -> Any:
    ops = keras.ops
    return -ops.log_softmax(predicted @ ops.transpose(predicted))[:, 0]


NOT_CUT = {
    "dice": (lambda: network(L.Dense(3, "sigmoid"), loss="dice"), "loss dice compares samples"),
    "hinge": (lambda: network(loss="hinge"), "loss hinge compares samples"),
    "contrastive": (lambda: network(loss=contrastive),
                    "loss contrastive is not proved to be a mean over samples: its "),
    "one value": (lambda: network(loss=lambda t, p: keras.ops.mean((t - p) ** 2)),
                  "its Mean may put samples together"),
    "spread": (lambda: network(loss=lambda t, p: keras.ops.mean(abs(t - p), -1, keepdims=True)
                               * keras.ops.mean(abs(t), -1)), "its Mul may put samples together"),
    "a mixing layer": (lambda: network(Mixing(), L.Dense(3)), "changes with another sample"),
    "a counting layer": (lambda: network(Counting(), L.Dense(3)), "n changes in each part"),
    "an added loss": (lambda: network(Adding(), L.Dense(3)), "adds to the loss by add_loss"),
    "a step": (own_step, "it has a train_step of its own"),
    "a state": (lambda: stateful(), "keeps a state for each place in a batch"),
}  # fmt: skip


def stateful() -> Any:
    model = keras.Sequential(
        [keras.Input((6,), batch_size=4), L.Reshape((2, 3)), L.GRU(3, stateful=True)]
    )
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("name", NOT_CUT)
def test_what_is_not_proved_is_not_cut(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is Keras's own result to the bit, and one line says why."""
    make, why = NOT_CUT[name]
    x, y = X[:8], Y[:8]
    with installed(monkeypatch):
        parts_of(monkeypatch, 2)
        keras.utils.set_random_seed(4)
        whole = make()
        history = own_fit()(whole, x, y, batch_size=4, verbose=0, shuffle=False).history
        keras.utils.set_random_seed(4)
        cut = make()
        capsys.readouterr()
        received = cut.fit(x, y, batch_size=4, verbose=0, shuffle=False).history
        said = [line for line in capsys.readouterr().err.splitlines() if "not cut" in line]
    assert len(said) == 1 and why in said[0], said
    assert received["loss"] == pytest.approx(history["loss"], rel=1e-6)
    for one, other in zip(whole.variables, cut.variables, strict=True):
        np.testing.assert_allclose(numbers(other), numbers(one), rtol=1e-6, atol=1e-7)


def test_inexact_cuts_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(monkeypatch, inexact=True):
        parts_of(monkeypatch, 2)
        for name in ("dice", "an added loss", "a mixing layer"):
            make, why = NOT_CUT[name]
            make().fit(X[:8], Y[:8], batch_size=4, verbose=0)
            said = capsys.readouterr().err
            assert "it is cut all the same (--inexact), though" in said and why in said
            assert "trained in 2 parts of 2" in said


def squares_of_classes(true: Any, predicted: Any) -> Any:
    return keras.ops.sum(predicted**2, axis=-1)
