"""Keras's own training on JAX in parts gives what whole batches give. Run by test_guard_jax.py in a
process whose Keras is on JAX: a process has one backend."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import guarded_kinds
import jax
import keras
import numpy as np
import pytest
from guarded import Kind, assert_equal_cut, installed, own_fit, parts_of
from guarded_kinds import X, Y, network, squares
from live_models import numbers

from plimsoll.guard import decide as guard
from plimsoll.guard import jax_graph
from plimsoll.guard.jax_step import JaxStep

L, ops = keras.layers, keras.ops
ON_GPU = jax.default_backend() != "cpu"  # tools/gpu_check runs some of this there
jax.config.update("jax_default_matmul_precision", "highest")
NO_MEMORY = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")


KINDS = guarded_kinds.KINDS | {
    "several steps at a time": Kind(lambda: network(steps_per_execution=2), X, Y, epochs=1),
}


@pytest.mark.parametrize("name", KINDS)
def test_parts_give_what_the_batch_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_equal_cut(KINDS[name], monkeypatch, memory=None)


def everything() -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((6,)), L.Dense(5, "tanh"), L.BatchNormalization(), L.GaussianNoise(0.1),
        L.Dense(3),
    ])  # fmt: skip
    model.compile(keras.optimizers.Adam(epsilon=1e-3), "mse",
                  metrics=["mae", lambda true, predicted: ops.max(predicted)])  # fmt: skip
    return model


def assert_same(one: Any, other: Any) -> None:
    """To the bit; on a GPU each compilation chooses the order of sums anew."""
    if ON_GPU:
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(other, one)


def values_of(model: Any) -> list[Any]:
    return [numbers(one).copy() for one in [*model.variables, *model.optimizer.variables]]


def test_a_whole_batch_is_that_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two functions, with what is drawn, averaged and counted; no loss is left for another."""
    with installed(monkeypatch, memory=None):
        whole, ours = everything(), everything()
        given = {"batch_size": 16, "verbose": 0, "shuffle": False, "epochs": 2}
        history = own_fit()(whole, X, Y, **given).history
        received = ours.fit(X, Y, **given).history
    for name, values in history.items():
        np.testing.assert_allclose(received[name], values, rtol=1e-5, err_msg=name)
    for one, other in zip(values_of(whole), values_of(ours), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def failing_at(count: int, own: Any, error: Exception = NO_MEMORY) -> Any:
    """The function, which raises in its call number `count` when its work is done."""
    calls = []

    def function(self: Any, *given: Any) -> Any:
        calls.append(1)
        answer = own(self, *given)
        if len(calls) == count:
            raise error
        return answer

    return function


PHASES = [("part", 1), ("part", 3), ("add", 2), ("told", 1), ("update", 1)]


@pytest.mark.parametrize("phase, count", PHASES)
def test_a_failed_step_leaves_nothing(
    phase: str, count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights, optimizer, seeds, statistics and metrics are those of a run that never failed."""
    found = []
    with installed(monkeypatch, memory=None):
        for rows in (2, 4):
            model = everything()
            parts_of(monkeypatch, rows)
            with monkeypatch.context() as patch:
                if rows == 4:
                    patch.setattr(JaxStep, phase, failing_at(count, getattr(JaxStep, phase)))
                history = model.fit(X, Y, batch_size=16, verbose=0, shuffle=False, epochs=2).history
            found.append((values_of(model), history))
    said = capsys.readouterr().err
    assert "with 4 samples at a time does not fit (JaxRuntimeError): it was undone" in said
    (values, history), (others, received) = found
    for one, other in zip(values, others, strict=True):
        assert_same(one, other)
    for name, one in history.items():
        assert_same(one, received[name])


@pytest.mark.parametrize("phase", ["part", "told", "update"])
@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_a_step_that_fails_for_good_leaves_the_model(
    phase: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fits not even with one sample raises JAX's error; the model is as it was, and trains."""
    with installed(monkeypatch, memory=None):
        model = everything()
        model.optimizer.build(model.trainable_variables)
        before = values_of(model)
        given = {"batch_size": 16, "verbose": 0} if method == "fit" else {}
        own = getattr(JaxStep, phase)

        def fail(self: Any, *given: Any) -> Any:
            own(self, *given)
            raise NO_MEMORY

        with monkeypatch.context() as patch:
            patch.setattr(JaxStep, phase, fail)
            with pytest.raises(jax.errors.JaxRuntimeError, match="a step with 1 samples at a time"):
                getattr(model, method)(X[:16], Y[:16], **given)
        for one, other in zip(before, values_of(model), strict=True):
            np.testing.assert_array_equal(other, one)
        model.fit(X, Y, batch_size=16, verbose=0)
        assert int(model.optimizer.iterations) == 3


def test_a_later_update_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are gone, as Keras's own are then; no step is done with what is not there."""
    with installed(monkeypatch, memory=None):
        model = everything()
        monkeypatch.setattr(JaxStep, "update", failing_at(2, JaxStep.update))
        with pytest.raises(jax.errors.JaxRuntimeError, match="allocating 9 bytes"):
            model.train_on_batch(X[:16], Y[:16])
            model.train_on_batch(X[:16], Y[:16])


def test_what_is_no_lack_of_memory_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the state of the last whole step in the model."""
    with installed(monkeypatch, memory=None):
        parts_of(monkeypatch, 4)
        model, error = everything(), ValueError("of the program")
        monkeypatch.setattr(JaxStep, "part", failing_at(6, JaxStep.part, error))
        with pytest.raises(ValueError, match="of the program"):
            model.fit(X, Y, batch_size=16, verbose=0)
        assert int(model.optimizer.iterations) == 1 and np.isfinite(values_of(model)[0]).all()


class Large(L.Layer):
    """Takes more than any memory for a batch of more than three samples, and next to nothing
    else; its output is its input."""

    def call(self, inputs: Any) -> Any:
        if not isinstance(inputs.shape[0], int) or inputs.shape[0] <= 3:
            return inputs
        line = jax.numpy.arange(1 << 20, dtype="float32") * jax.lax.stop_gradient(inputs[0, 0])
        wide = jax.numpy.sin(line[:, None] * line[None, :])
        return inputs + 0 * ops.max(jax.numpy.cumsum(wide, axis=0)[::7])


def test_a_real_failure_ends_trained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The allocation fails in XLA itself; the next run begins with the size that fits."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def model() -> Any:
        keras.utils.set_random_seed(3)
        one = keras.Sequential([keras.Input((6,)), Large(), L.Dense(3)])
        one.compile("sgd", "mse")
        return one

    whole = keras.Sequential([keras.Input((6,)), L.Dense(3)])
    whole.compile("sgd", "mse")
    with installed(monkeypatch, memory=None):
        for begins in (16, 2):
            ours = model()
            whole.set_weights(ours.get_weights())
            own_fit()(whole, X, Y, batch_size=16, verbose=0, shuffle=False)
            ours.fit(X, Y, batch_size=16, verbose=0, shuffle=False)
            said = capsys.readouterr().err
            assert "is trained in 8 parts of 2" in said
            assert ("with 16 samples at a time does not fit" in said) == (begins == 16)
            for one, other in zip(whole.get_weights(), ours.get_weights(), strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def test_seeds_advance_as_in_one_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parts draw different numbers, and the state of a seed is that after a whole batch."""
    drawn: list[Any] = []

    class Drawing(L.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.seed_generator = keras.random.SeedGenerator(5)

        def call(self, inputs: Any) -> Any:
            noise = keras.random.normal((6,), seed=self.seed_generator)
            jax.debug.callback(lambda one: drawn.append(np.asarray(one).tolist()), noise)
            return inputs + noise

    with installed(monkeypatch, memory=None):
        states = []
        for rows in (16, 4):
            parts_of(monkeypatch, rows)
            keras.utils.set_random_seed(3)
            model = keras.Sequential([keras.Input((6,)), Drawing(), L.Dense(3)])
            model.compile("sgd", "mse")
            drawn.clear()
            model.fit(X[:32], Y[:32], batch_size=16, verbose=0)
            states.append(numbers(model.layers[0].seed_generator.state).tolist())
            jax.effects_barrier()
            if rows == 16:
                assert len({str(one) for one in drawn}) == len(drawn) == 2
    assert states[0] == states[1] and states[0][1] == 2
    assert len({str(one) for one in drawn[-8:]}) == 8
    said = capsys.readouterr().err
    assert "random layers draw other numbers; its debug_callback runs in each part" in said


def test_statistics_are_those_of_parts_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(monkeypatch, memory=None):
        parts_of(monkeypatch, 4)
        models = []
        for method in (own_fit(), keras.Model.fit):
            keras.utils.set_random_seed(3)
            model = keras.Sequential([keras.Input((6,)), L.BatchNormalization(), L.Dense(3)])
            model.compile("sgd", "mse")
            method(model, X[:16], Y[:16], batch_size=16, verbose=0)
            models.append(model)
    assert "BatchNormalization takes its statistics of a part." in capsys.readouterr().err
    one, other = (numbers(model.layers[0].moving_mean) for model in models)
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)


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
    def train_step(self, state: Any, data: Any) -> Any:
        return super().train_step(state, data)


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


def stateful() -> Any:
    model = keras.Sequential(
        [keras.Input((6,), batch_size=4), L.Reshape((2, 3)), L.GRU(3, stateful=True)]
    )
    model.compile("sgd", "mse")
    return model


NOT_CUT = {
    "dice": (lambda: network(L.Dense(3, "sigmoid"), loss="dice"), "loss dice compares samples"),
    "contrastive": (lambda: network(loss=contrastive),
                    "loss contrastive is not proved to be a mean over samples: its "),
    "one value": (lambda: network(loss=lambda t, p: ops.mean((t - p) ** 2)),
                  "its reduce_sum may put samples together"),
    "a count": (lambda: network(loss=lambda t, p: ops.mean((t - p) ** 2, -1) / t.shape[0]),
                "its graph depends on how many samples there are"),
    "a mixing layer": (lambda: network(Mixing(), L.Dense(3)), "changes with another sample"),
    "a counting layer": (lambda: network(Counting(), L.Dense(3)), "n changes in each part"),
    "an added loss": (lambda: network(Adding(), L.Dense(3)), "adds to the loss by add_loss"),
    "a step": (lambda: of(OwnStep), "it has a train_step of its own"),
    "a loss": (lambda: of(OwnLoss), "it has a compute_loss of its own"),
    "a state": (stateful, "keeps a state for each place in a batch"),
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


def whole_rows(true: Any, predicted: Any) -> Any:
    return ops.sum(ops.one_hot(ops.cast(true[:, 0], "int32"), 3) * ops.log_softmax(predicted), -1)


PROVED = {
    "mean": (squares, ""),
    "one hot": (whole_rows, ""),
    "weights for classes": (lambda t, p: ops.sum(t * p * np.array([1.0, 2.0, 3.0], "f"), -1), ""),
    "squeezed": (lambda t, p: ops.squeeze(ops.max(abs(t - p), -1, keepdims=True), -1), ""),
    "a matrix": (lambda t, p: ops.sum((t - p) @ np.eye(3, dtype="f"), -1), ""),
    "sorted": (lambda t, p: ops.sum(ops.sort(p, axis=-1) - ops.sort(t, axis=-1), -1), ""),
    "sorted samples": (lambda t, p: ops.sum(ops.sort(p, axis=0) - t, -1), "its sort"),
    "flipped": (lambda t, p: ops.sum(ops.flip(p, axis=0) - t, -1), "its rev"),
    "numbered": (lambda t, p: ops.mean(t - p, -1) * ops.arange(ops.shape(t)[0], dtype="float32"),
                 "its iota"),
    "transposed": (lambda t, p: ops.sum(ops.transpose(t - p), -1), "its transpose"),
    "a shift": (lambda t, p: ops.mean(t - ops.roll(p, 1, axis=0), -1), "its "),
    "a number of them": (lambda t, p: ops.mean(t - p, -1) * ops.cast(t.shape[0], "float32"),
                         "depends on how many"),
    "whole number of them": (lambda t, p: ops.mean(t - p, -1) * ops.cast(
        ops.convert_to_tensor(t.shape[0], "int32") // 2, "float32"), "depends on how many"),
    "drawn": (lambda t, p: ops.mean(t - p, -1) + keras.random.normal((1,), seed=3), "its "),
}  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_what_a_graph_proves(name: str) -> None:
    function, why = PROVED[name]
    found = jax_graph.why_not(function, [(8, 3), (8, 3)], "float32")
    assert why in found and bool(why) == bool(found), found


def test_a_limit_is_not_kept_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(monkeypatch):
        model = network()
        model.fit(X, Y, batch_size=16, verbose=0)
        model.fit(X, Y, batch_size=16, verbose=0)
    assert capsys.readouterr().err.count("on jax the limit of 65536.0 MiB is not kept") == 1


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
    root = Path(__file__).parents[2]
    (tmp_path / "net.py").write_text(PROGRAM)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path),
                   "PYTHONPATH": os.pathsep.join([str(root / "python"), *sys.path])}  # fmt: skip
    losses = []
    for options in ([], ["-m", "plimsoll", "--engine", "keras"]):
        done = subprocess.run([sys.executable, *options, "net.py"], cwd=tmp_path, env=environment,
                              text=True, capture_output=True, timeout=300)  # fmt: skip
        assert done.returncode == 0, done.stderr
        losses.append([float(one) for one in done.stdout.strip("[]\n").split(",")])
    assert "fit of net runs in Keras, in parts where a batch does not fit" in done.stderr
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)
