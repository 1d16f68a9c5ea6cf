"""Keras's own training on torch in parts gives what whole batches give. Run by
test_guard_torch.py in a process whose Keras is on torch: a process has one backend."""

from pathlib import Path
from typing import Any

import guarded_kinds
import keras
import numpy as np
import pytest
import torch
from guarded import Kind, assert_equal_cut, installed, own_fit, parts_of
from guarded_kinds import X, Y, network, squares
from live_models import numbers
from torch_models import program

from plimsoll.guard import decide as guard
from plimsoll.guard import torch_graph

L, ops = keras.layers, keras.ops


KINDS = guarded_kinds.KINDS | {
    "a torch module": Kind(lambda: network(keras.layers.TorchModuleWrapper(torch.nn.Linear(5, 3))),
                           X, Y),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_parts_give_what_the_batch_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_equal_cut(KINDS[name], monkeypatch, memory=None)


def test_seeds_advance_as_in_one_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parts draw different numbers, and the state of a seed is that after a whole batch."""
    drawn: list[Any] = []

    class Drawing(L.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.seed_generator = keras.random.SeedGenerator(5)

        def call(self, inputs: Any, training: bool = False) -> Any:
            noise = keras.random.normal((6,), seed=self.seed_generator)
            if training:
                drawn.append(numbers(noise).tolist())
            return inputs + noise

    with installed(monkeypatch, memory=None):
        states = []
        for rows in (16, 4):
            parts_of(monkeypatch, rows)
            keras.utils.set_random_seed(3)
            model = keras.Sequential([keras.Input((6,)), Drawing(), L.Dense(3)])
            model.compile("sgd", "mse")
            drawn.clear()
            model.fit(X, Y, batch_size=16, verbose=0)
            states.append(numbers(model.layers[0].seed_generator.state).tolist())
            if rows == 16:
                assert len({str(one) for one in drawn}) == len(drawn) == 3
    assert states[0] == states[1]
    assert len({str(one) for one in drawn[-11:]}) == 11
    assert "random layers draw other numbers" in capsys.readouterr().err


def test_statistics_are_those_of_parts_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(monkeypatch, memory=None):
        parts_of(monkeypatch, 5)
        models, kept = [], X[0] ** 2 + 0.1
        for method in (own_fit(), keras.Model.fit):
            keras.utils.set_random_seed(3)
            frozen = L.BatchNormalization(trainable=False)
            model = keras.Sequential(
                [keras.Input((6,)), L.BatchNormalization(), frozen, L.Dense(3)]
            )
            model.compile("sgd", "mse")
            frozen.moving_variance.assign(kept)
            method(model, X[:15], Y[:15], batch_size=15, verbose=0)
            models.append(model)
    assert "BatchNormalization takes its statistics of a part." in capsys.readouterr().err
    one, other = (numbers(model.layers[0].moving_mean) for model in models)
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)
    assert (numbers(models[1].layers[1].moving_variance) == kept).all()


class Batches(torch.nn.Module):
    """Counts batches, as torch's own BatchNorm does."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, inputs: Any) -> Any:
        self.count += 1
        return inputs


class Mixing(L.Layer):
    def call(self, inputs: Any) -> Any:
        return inputs - ops.mean(inputs, axis=0)


class Counting(L.Layer):
    def build(self, shape: Any) -> None:
        self.n = self.add_weight(shape=(), initializer="zeros", trainable=False, name="n")

    def call(self, inputs: Any) -> Any:
        self.n.assign_add(1.0)
        return inputs


class Adding(L.Layer):
    def call(self, inputs: Any) -> Any:
        self.add_loss(ops.mean(inputs**2))
        return inputs


class OwnStep(keras.Sequential):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


class OwnLoss(keras.Sequential):
    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None,
                     sample_weight: Any = None, training: bool = True) -> Any:  # fmt: skip
        return ops.mean((y - y_pred) ** 2) + sum(self.losses)


def of(cls: Any) -> Any:
    model = cls([keras.Input((6,)), L.Dense(3, kernel_regularizer="l2")])
    model.compile("sgd", "mse")
    return model


def contrastive(true: Any, predicted: Any) -> Any:
    return -ops.log_softmax(predicted @ ops.transpose(predicted))[:, 0]


NOT_CUT = {
    "dice": (lambda: network(L.Dense(3, "sigmoid"), loss="dice"), "loss dice compares samples"),
    "contrastive": (lambda: network(loss=contrastive),
                    "loss contrastive is not proved to be a mean over samples: its "),
    "one value": (lambda: network(loss=lambda t, p: ops.mean((t - p) ** 2)),
                  "its mean may put samples together"),
    "a count": (lambda: network(loss=lambda t, p: ops.mean((t - p) ** 2, -1) / t.shape[0]),
                "its graph depends on how many samples there are"),
    "a mixing layer": (lambda: network(Mixing(), L.Dense(3)), "changes with another sample"),
    "a counting layer": (lambda: network(Counting(), L.Dense(3)), "n changes in each part"),
    "a counting module": (lambda: network(keras.layers.TorchModuleWrapper(Batches()), L.Dense(3)),
                          "count of a Batches of torch changes in each part"),
    "an added loss": (lambda: network(Adding(), L.Dense(3)), "adds to the loss by add_loss"),
    "a step": (lambda: of(OwnStep), "it has a train_step of its own"),
    "a loss": (lambda: of(OwnLoss), "it has a compute_loss of its own"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_CUT)
def test_what_is_not_proved_is_not_cut(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is Keras's own result, and one line says why."""
    make, why = NOT_CUT[name]
    with installed(monkeypatch, memory=None):
        parts_of(monkeypatch, 2)
        keras.utils.set_random_seed(4)
        whole = make()
        history = own_fit()(whole, X[:8], Y[:8], batch_size=4, verbose=0, shuffle=False).history
        keras.utils.set_random_seed(4)
        cut = make()
        capsys.readouterr()
        received = cut.fit(X[:8], Y[:8], batch_size=4, verbose=0, shuffle=False).history
        said = [line for line in capsys.readouterr().err.splitlines() if "not cut" in line]
    assert len(said) == 1 and why in said[0], said
    assert received["loss"] == pytest.approx(history["loss"], rel=1e-6)
    for one, other in zip(whole.variables, cut.variables, strict=True):
        np.testing.assert_allclose(numbers(other), numbers(one), rtol=1e-6, atol=1e-7)


def test_inexact_cuts_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(monkeypatch, memory=None, inexact=True):
        parts_of(monkeypatch, 2)
        for name in ("dice", "an added loss", "a mixing layer", "a loss"):
            make, why = NOT_CUT[name]
            make().fit(X[:8], Y[:8], batch_size=4, verbose=0)
            said = capsys.readouterr().err
            assert "it is cut all the same (--inexact), though" in said and why in said
            assert "trained in 2 parts of 2" in said


def softened(true: Any, predicted: Any) -> Any:
    return -ops.sum((true * 0.9 + 0.1 / 3) * ops.log_softmax(predicted), -1)


PROVED = {
    "mean": (squares, ""),
    "smoothed": (softened, ""),
    "weights for classes": (lambda t, p: ops.sum(t * p * torch.tensor([1.0, 2.0, 3.0]), -1), ""),
    "squeezed": (lambda t, p: ops.squeeze(ops.max(abs(t - p), -1, keepdims=True), -1), ""),
    "a matrix": (lambda t, p: ops.sum((t - p) @ torch.eye(3).flip(0), -1), ""),
    "sorted": (lambda t, p: ops.sum(ops.sort(p, axis=-1) - ops.sort(t, axis=-1), -1), ""),
    "gathered": (lambda t, p: torch.gather(p, 1, t[:, :1].long())[:, 0], ""),
    "by torch": (lambda t, p: torch.nn.functional.smooth_l1_loss(p, t, reduction="none").mean(-1),
                 "its smooth_l1_loss"),
    "sorted samples": (lambda t, p: ops.sum(ops.sort(p, axis=0) - t, -1), "its sort"),
    "flipped": (lambda t, p: ops.sum(ops.flip(p, axis=0) - t, -1), "its flip"),
    "numbered": (lambda t, p: ops.mean(t - p, -1) * ops.arange(ops.shape(t)[0], dtype="float32"),
                 "its arange"),
    "transposed": (lambda t, p: ops.sum(ops.transpose(t - p), -1), "its "),
    "all of them": (lambda t, p: ops.mean(t - p, -1) - ops.mean(p), "its mean"),
    "a shift": (lambda t, p: ops.mean(t - ops.roll(p, 1, axis=0), -1), "its roll"),
    "the first": (lambda t, p: ops.mean(t - p[:1], -1), "its slice"),
    "written": (lambda t, p: (t - p).clamp_(0).mean(-1), "its clamp_"),
    "a number of them": (lambda t, p: ops.mean(t - p, -1) * float(t.shape[0]),
                         "depends on how many"),
    "whole number of them": (lambda t, p: ops.mean(t - p, -1) * ops.cast(
        ops.convert_to_tensor(t.shape[0], "int32") // 2, "float32"), "depends on how many"),
    "one value": (lambda t, p: p[0, 0], "its select"),
    "a constant": (lambda t, p: ops.ones(()), "does not return a value for each sample"),
    "drawn": (lambda t, p: ops.mean(t - p, -1) + torch.rand_like(p)[:, 0], "its rand_like"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_what_a_graph_proves(name: str) -> None:
    function, why = PROVED[name]
    found = torch_graph.why_not(function, [(8, 3), (8, 3)], "float32")
    assert why in found and bool(why) == bool(found), found


def test_a_limit_is_not_kept_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(monkeypatch):
        model = network()
        model.fit(X, Y, batch_size=16, verbose=0)
        model.fit(X, Y, batch_size=16, verbose=0)
    assert capsys.readouterr().err.count("on torch the limit of 65536.0 MiB is not kept") == 1


def test_a_model_without_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    with installed(monkeypatch, memory=None):
        parts_of(monkeypatch, 4)
        model = keras.Sequential([L.Dense(5), L.Dense(3)])
        model.compile("sgd", "mse")
        logs = model.train_on_batch(X[:16], Y[:16], return_dict=True)
        assert guard._guards[model].rows == 4 and np.isfinite(logs["loss"])


PROGRAM = """\
import keras, numpy as np
keras.utils.set_random_seed(1)
class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.last = keras.layers.Dense(1)
    def call(self, inputs):
        return self.last(inputs)
model = Net()
model.compile("sgd", "mse")
x = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
print(model.fit(x, x[:, :1], batch_size=48, verbose=0, epochs=2).history["loss"])
"""


def test_a_program_without_the_engine(tmp_path: Path) -> None:
    """The package's Python files alone do for `--engine keras`."""
    losses = []
    for options in ([], ["-m", "plimsoll", "--engine", "keras"]):
        done = program(tmp_path, PROGRAM, options)
        assert done.returncode == 0, done.stderr
        losses.append([float(one) for one in done.stdout.strip("[]\n").split(",")])
    assert "fit of net runs in Keras, in parts where a batch does not fit" in done.stderr
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)


def test_the_engine_takes_nothing_over(tmp_path: Path) -> None:
    done = program(tmp_path, PROGRAM, ["-m", "plimsoll"])
    assert done.returncode == 0, done.stderr
    assert "fit of net runs in Keras, untouched: expected Keras with the backend" in done.stderr
