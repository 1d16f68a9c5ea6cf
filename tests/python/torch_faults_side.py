"""Steps of Keras on torch that run out of memory are undone, and done again in smaller parts. Run
by test_guard_torch.py in a process whose Keras is on torch: a process has one backend."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import torch
from guarded import installed, own_fit, parts_of
from guarded_kinds import X, Y
from torch_models import ON_GPU, assert_same, everything, program, values_of

from plimsoll.guard import sizes as guard_sizes
from plimsoll.guard.torch_step import TorchStep

L = keras.layers
NO_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 bytes.")
TRAINER = keras.src.trainers.trainer.Trainer  # what all backends have in common
OPTIMIZER = keras.src.optimizers.base_optimizer.BaseOptimizer


def test_a_whole_batch_is_that_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras's own function does it."""
    found = []
    with installed(monkeypatch, memory=None):
        for method in (own_fit(), keras.Model.fit):
            model = everything()
            history = method(model, X, Y, batch_size=16, verbose=0, shuffle=False, epochs=2).history
            found.append((values_of(model), history))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert_same(one, other)
    for name, values in found[0][1].items():
        assert_same(values, found[1][1][name])


def failing_at(count: int, own: Any, error: Exception = NO_MEMORY) -> Any:
    """The function, which raises in its call number `count` when its work is done."""
    calls = []

    def function(self: Any, *given: Any, **named: Any) -> Any:
        calls.append(1)
        answer = own(self, *given, **named)
        if len(calls) == count:
            raise error
        return answer

    return function


# Of a step in parts; the first call of `part` is a look at one sample. And of Keras's own step.
PARTS = [(TorchStep, "part", 2), (TorchStep, "part", 4), (TorchStep, "told", 1),
         (TorchStep, "update", 1), (torch.Tensor, "backward", 3)]  # fmt: skip
WHOLE = [(TRAINER, "_compute_loss", 1), (torch.Tensor, "backward", 1), (OPTIMIZER, "apply", 1),
         (TRAINER, "compute_metrics", 1)]  # fmt: skip


@pytest.mark.parametrize("cls, phase, count, first, then", [
    *((*one, 4, 2) for one in PARTS), *((*one, 16, 8) for one in WHOLE)
])  # fmt: skip
def test_a_failed_step_leaves_nothing(
    cls: Any, phase: str, count: int, first: int, then: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Weights, optimizer, seeds, statistics and metrics are those of a run that never failed."""
    found = []
    with installed(monkeypatch, memory=None):
        for rows in (then, first):
            model = everything()
            model._symbolic_build(data_batch=(X[:16], Y[:16]))  # it tells metrics too
            parts_of(monkeypatch, rows)
            with monkeypatch.context() as patch:
                if rows == first:
                    patch.setattr(cls, phase, failing_at(count, getattr(cls, phase)))
                history = model.fit(X, Y, batch_size=16, verbose=0, shuffle=False, epochs=2).history
            found.append((values_of(model), history))
    said = capsys.readouterr().err
    assert f"with {first} samples at a time does not fit (OutOfMemoryError): it was undone" in said
    (values, history), (others, received) = found
    for one, other in zip(values, others, strict=True):
        assert_same(one, other)
    for name, one in history.items():
        assert_same(one, received[name])


def test_weights_of_samples_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras's losses on torch multiply them by masks, in the program's own array."""
    words = np.random.default_rng(4).integers(0, 3, (16, 7))
    weights = np.random.default_rng(5).uniform(1, 2, (16, 7)).astype("float32")
    found = []
    with installed(monkeypatch, memory=None):
        for rows in (8, 16):
            keras.utils.set_random_seed(3)
            model = keras.Sequential([
                keras.Input((7,), dtype="int32"), L.Embedding(3, 4, mask_zero=True), L.Dense(3),
            ])  # fmt: skip
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            model._symbolic_build(data_batch=(words, words, weights))
            parts_of(monkeypatch, rows)
            own = torch.tensor(weights)
            with monkeypatch.context() as patch:
                if rows == 16:
                    patch.setattr(torch.Tensor, "backward", failing_at(1, torch.Tensor.backward))
                model.train_on_batch(words, words, own)
            np.testing.assert_array_equal(own.numpy(), weights)
            found.append(values_of(model))
    for one, other in zip(*found, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("phase", ["_compute_loss", "apply"])
@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_a_step_that_fails_for_good_leaves_the_model(
    phase: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fits not even with one sample raises torch's error; the model is as it was."""
    with installed(monkeypatch, memory=None):
        model = everything()
        model._symbolic_build(data_batch=(X[:16], Y[:16]))
        before = values_of(model)
        given = {"batch_size": 16, "verbose": 0} if method == "fit" else {}
        cls = TRAINER if phase == "_compute_loss" else OPTIMIZER
        own, part = getattr(cls, phase), TorchStep.part

        def fail(self: Any, *given: Any, **named: Any) -> Any:
            own(self, *given, **named)
            raise NO_MEMORY

        def fail_later(self: Any, *given: Any) -> Any:
            part(self, *given)
            if self.is_looked_at:
                raise NO_MEMORY

        with monkeypatch.context() as patch:
            patch.setattr(cls, phase, fail)
            if phase == "_compute_loss":
                patch.setattr(TorchStep, "part", fail_later)
            with pytest.raises(
                torch.OutOfMemoryError, match="a step with 1 samples at a time"
            ) as e:
                getattr(model, method)(X[:16], Y[:16], **given)
        assert isinstance(e.value, MemoryError) and "out of memory" in str(e.value)
        assert "The last error: CUDA out of memory. Tried to allocate 9 bytes." in str(e.value)
        same = len(before) - (1 + ON_GPU) * (method == "fit")  # which draws when it begins to read
        for one, other in zip(before[:same], values_of(model)[:same], strict=True):
            np.testing.assert_array_equal(other, one)
        model.fit(X, Y, batch_size=16, verbose=0)
        assert int(model.optimizer.iterations) == 3


def test_a_later_update_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are not held any more, and half of them may be others; no step is done with those."""
    with installed(monkeypatch, memory=None):
        model = everything()
        monkeypatch.setattr(OPTIMIZER, "apply", failing_at(2, OPTIMIZER.apply))
        model.train_on_batch(X[:16], Y[:16])
        with pytest.raises(torch.OutOfMemoryError, match="allocate 9 bytes"):
            model.train_on_batch(X[:16], Y[:16])


def test_a_later_update_is_undone_in_a_limited_address_space(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: True)
    with installed(monkeypatch, memory=None):
        model = everything()
        monkeypatch.setattr(OPTIMIZER, "apply", failing_at(2, OPTIMIZER.apply))
        model.fit(X[:32], Y[:32], batch_size=16, verbose=0)
    assert "with 16 samples at a time does not fit" in capsys.readouterr().err
    assert int(model.optimizer.iterations) == 2


def test_what_is_no_lack_of_memory_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the state of the last whole step in the model."""
    with installed(monkeypatch, memory=None):
        parts_of(monkeypatch, 4)
        model, error = everything(), ValueError("of the program")
        monkeypatch.setattr(TorchStep, "part", failing_at(7, TorchStep.part, error))
        with pytest.raises(ValueError, match="of the program"):
            model.fit(X, Y, batch_size=16, verbose=0)
        assert int(model.optimizer.iterations) == 1 and np.isfinite(values_of(model)[0]).all()


class Large(L.Layer):
    """Takes more than any memory for a batch of more than three samples, and next to nothing
    else; its output is its input."""

    def call(self, inputs: Any) -> Any:
        if inputs.is_meta or inputs.shape[0] <= 3:
            return inputs
        return inputs + 0 * torch.max(torch.empty(1 << 45, device=inputs.device))


def test_a_real_failure_ends_trained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The allocation fails in torch itself; the next run begins with the size that fits."""
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


LIMITED = """\
import resource, sys
import keras, numpy as np, torch
torch.set_num_threads(2)
keras.utils.set_random_seed(1)
L = keras.layers
model = keras.Sequential([keras.Input((16,)), L.Dense(8192, "tanh"), L.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse")
x = np.random.default_rng(0).normal(size=(8192, 16)).astype("float32")
model.train_on_batch(x[:64], x[:64, :1])  # threads and libraries are there
if sys.argv[1] == "limited":
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (600 << 20),) * 2)
model.fit(x, x[:, :1], batch_size=8192, verbose=0, shuffle=False)
np.savez(sys.argv[2], *model.get_weights())
"""


def test_a_real_failure_in_a_limited_address_space(tmp_path: Path) -> None:
    """Activations of 8192 samples take 268 MB each; with 600 MiB a whole batch fails by itself."""
    said, found = {}, {}
    for how, options in (("limited", []), ("limited", ["-m", "plimsoll", "--engine", "keras"]),
                         ("free", [])):  # fmt: skip
        saved = tmp_path / f"{how}.npz"
        done = program(tmp_path, LIMITED, options, how, str(saved))
        name = how if options or how == "free" else "alone"
        said[name] = done.stderr
        assert (done.returncode == 0) == (name != "alone"), done.stderr
        if name != "alone":
            found[name] = [*np.load(saved).values()]
    assert "can't allocate memory" in said["alone"]
    assert (
        "with 8192 samples at a time does not fit (RuntimeError): it was undone" in said["limited"]
    )
    assert "a batch of 8192 samples is trained in " in said["limited"]
    for one, other in zip(found["free"], found["limited"], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)
