"""Corners of training that programs rely on: data that change, runs that break, what others set."""

import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import assert_like, normal, numbers

import plimsoll

L = keras.layers
X, Y = normal(64, 4), normal(64, 1, seed=3)
Fit = Callable[..., Any]


def isolated(model: keras.Model, *data: Any, **arguments: Any) -> Any:
    return plimsoll.fit(model, *data, isolate=True, **arguments)


FITS: dict[str, Fit] = {"in the process": plimsoll.fit, "isolated": isolated}


def small(optimizer: Any = "sgd", seed: int = 1) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((4,)), L.Dense(6, "tanh"), L.Dense(1)])
    model.compile(optimizer, "mse")
    return model


class Advances(keras.utils.PyDataset):  # type: ignore[misc]
    """Takes other samples in each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.ended, self.seen = 0, 0, []

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        at = (32 * self.ended + 16 * index) % 64
        self.seen.append(at)
        return X[at : at + 16], Y[at : at + 16]

    def on_epoch_begin(self) -> None:
        self.begun += 1

    def on_epoch_end(self) -> None:
        self.ended += 1


def test_a_data_set_is_told_of_epochs() -> None:
    kept = []
    for fit in (keras.Model.fit, plimsoll.fit):
        data, model = Advances(), small()
        fit(model, data, epochs=3, verbose=0, shuffle=False)
        kept.append((data, model))
    (theirs, one), (ours, other) = kept
    assert (ours.begun, ours.ended) == (theirs.begun, theirs.ended)
    assert ours.seen == theirs.seen[-len(ours.seen) :] and len(ours.seen) == 6
    assert_like(one, other)


@pytest.mark.parametrize("call", ["evaluate", "predict", "validation"])
def test_a_data_set_is_told_where_nothing_is_trained(call: str) -> None:
    """Twice each; Keras asks for some batches more than once, as it reads ahead."""
    kept = []
    for face in (keras.Model, plimsoll):
        model, data = small(), Advances()
        if call == "evaluate":
            told = [face.evaluate(model, data, verbose=0) for _ in range(2)]
        elif call == "predict":
            told = [float(np.sum(face.predict(model, data, verbose=0))) for _ in range(2)]
        else:
            told = face.fit(model, Advances(), epochs=2, verbose=0, shuffle=False,
                            validation_data=data).history["val_loss"]  # fmt: skip
        kept.append((data, told))
    (theirs, expected), (ours, received) = kept
    assert (ours.begun, ours.ended) == (theirs.begun, theirs.ended)
    np.testing.assert_allclose(received, expected, rtol=1e-4)


def test_whoever_makes_batches_sees_what_the_last_epoch_trained() -> None:
    class Looks(Advances):
        def on_epoch_end(self) -> None:
            super().on_epoch_end()
            self.norms.append(float(np.abs(numbers(self.model.weights[0])).sum()))

    kept = []
    for fit in (keras.Model.fit, plimsoll.fit):
        data = Looks()
        data.norms, data.model = [], small()
        fit(data.model, data, epochs=3, verbose=0, shuffle=False)
        kept.append(data.norms)
    np.testing.assert_allclose(kept[1], kept[0], rtol=1e-5)
    assert len(set(kept[1])) == 4


def test_a_schedule_that_looks_at_the_model_sees_it() -> None:
    kept = []
    for fit in (keras.Model.fit, plimsoll.fit):
        model, seen = small(), []

        def schedule(epoch: int, rate: float, model: Any = model, seen: Any = seen) -> float:
            seen.append(float(np.abs(numbers(model.weights[0])).sum()))
            return rate

        fit(model, X, Y, epochs=3, verbose=0, shuffle=False,
            callbacks=[keras.callbacks.LearningRateScheduler(schedule)])  # fmt: skip
        kept.append(seen)
    np.testing.assert_allclose(kept[1], kept[0], rtol=1e-5)
    assert len(set(kept[1])) == 3


class Breaks(keras.callbacks.Callback):  # type: ignore[misc]
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 2:
            raise RuntimeError("power")


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_run_that_broke_is_taken_up(fit: Fit, tmp_path: Path) -> None:
    """Epochs, weights and slots are those of a run that did not break, bit by bit."""
    how = {"epochs": 4, "verbose": 0, "shuffle": False}
    whole = small("adam")
    fit(whole, X, Y, **how)
    backup = keras.callbacks.BackupAndRestore(str(tmp_path))
    with pytest.raises(RuntimeError, match="power"):
        fit(small("adam"), X, Y, callbacks=[backup, Breaks()], **how)
    again = small("adam", seed=2)
    history = fit(again, X, Y, callbacks=[keras.callbacks.BackupAndRestore(str(tmp_path))], **how)
    assert len(history.history["loss"]) == 2
    for one, other in zip([*whole.variables, *whole.optimizer.variables],
                          [*again.variables, *again.optimizer.variables], strict=True):  # fmt: skip
        assert numbers(one).tobytes() == numbers(other).tobytes(), one.path


class Zeros(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self, hook: str) -> None:
        super().__init__()
        setattr(self, hook, self.write_and_raise)

    def write_and_raise(self, *_: Any) -> None:
        self.model.set_weights([np.zeros_like(w) for w in self.model.get_weights()])
        raise RuntimeError("after writing")


def test_what_a_callback_wrote_before_it_raised_stays() -> None:
    class AtBatches(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            Zeros.write_and_raise(self)  # type: ignore[arg-type]

    for callback, fit in ((Zeros("on_epoch_end"), plimsoll.fit), (Zeros("on_epoch_end"), isolated),
                          (AtBatches(), plimsoll.fit)):  # fmt: skip
        model = small()
        with pytest.raises(RuntimeError, match="after writing"):
            fit(model, X, Y, verbose=0, callbacks=[callback])
        assert all((w == 0).all() for w in model.get_weights())


@pytest.mark.parametrize("change", [
    lambda o: setattr(o, "clipnorm", 0.01), lambda o: setattr(o, "momentum", 0.9),
    lambda o: setattr(o, "learning_rate", keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
], ids=["clipnorm", "momentum", "schedule"])  # fmt: skip
def test_a_trainer_whose_optimizer_changed_says_so(change: Any) -> None:
    optimizer = keras.optimizers.SGD(0.1)
    trainer = plimsoll.Trainer(small(), optimizer, "mse")
    trainer.accumulate(X, Y)
    change(optimizer)
    with pytest.raises(ValueError, match="has changed since. Make another Trainer"):
        trainer.apply()


def test_gradients_of_rows_are_taken() -> None:
    """What TensorFlow's tape gives for an Embedding."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((5,), dtype="int32"), L.Embedding(9, 3), L.Flatten(),
                              L.Dense(1)])  # fmt: skip
    twin = keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    x, y = np.arange(20).reshape(4, 5) % 9, normal(4, 1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(twin(x) - y))
    gradients = tape.gradient(loss, twin.trainable_variables)
    assert isinstance(gradients[0], tf.IndexedSlices)
    keras.optimizers.SGD(0.1).apply(gradients, twin.trainable_variables)
    trainer = plimsoll.Trainer(model, keras.optimizers.SGD(0.1), "mse")
    trainer.accumulate(x, y)
    trainer.apply(gradients)
    for one, other in zip(model.variables, twin.variables, strict=True):
        np.testing.assert_allclose(numbers(one), numbers(other), rtol=1e-6)


def test_the_error_of_a_limit_travels_between_processes() -> None:
    with pytest.raises(plimsoll.ResourceExhausted) as raised:
        plimsoll.fit(small(), X, Y, verbose=0, memory="1MiB")
    copy = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(copy, plimsoll.ResourceExhausted)
    assert isinstance(copy, tf.errors.ResourceExhaustedError)
    assert str(copy) == str(raised.value)


@pytest.mark.parametrize("options, kind, told", [
    ({"threads": 2.5}, TypeError, "threads: expected a whole number, received 2.5"),
    ({"seed": None}, TypeError, "seed: expected a whole number, received None"),
    ({"plan_time": "1"}, TypeError, "plan_time: expected a number, received '1'"),
    ({"memory_": 1}, TypeError, "argument 'memory_'. Did you mean 'memory'?"),
    ({"memory": -5}, ValueError, "memory: expected bytes, not below 0, received -5"),
    ({"precision": "f64"}, ValueError, 'precision: expected "f32" or "bf16", received \'f64\''),
], ids=lambda value: "+".join(value) if isinstance(value, dict) else "")  # fmt: skip
def test_options_that_are_wrong(options: dict[str, Any], kind: type, told: str) -> None:
    for fit in FITS.values():
        with pytest.raises(kind, match=told):
            fit(small(), X, Y, verbose=0, **options)


def test_options_of_other_types_that_will_do(tmp_path: Path) -> None:
    for fit in FITS.values():
        fit(small(), X, Y, verbose=0, spill_dir=tmp_path, threads=np.int64(1),
            plan_time=np.float32(1))  # fmt: skip


SCRIPT = """
    import keras, numpy as np, os, sys, plimsoll
    x, y = np.ones((32, 4), "float32"), np.ones((32, 1), "float32")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
"""


@pytest.mark.parametrize("script", [
    """
    import tensorflow as tf
    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():  # the first call of the process
        plimsoll.train_on_batch(model, x, y)
        plimsoll.fit(model, x, y, verbose=0)
    """,
    """
    for stream in (0, 1, 2):
        os.close(stream)
    plimsoll.fit(model, x, y, verbose=0, isolate=True)
    """,
], ids=["in a strategy's scope", "isolated, without standard streams"])  # fmt: skip
def test_in_a_process_of_another_kind(script: str, package: Path, tmp_path: Path) -> None:
    done = tmp_path / "done"
    text = textwrap.dedent(SCRIPT) + textwrap.dedent(script) + f"open({str(done)!r}, 'w').close()\n"
    subprocess.run([sys.executable, "-c", text], timeout=300, capture_output=True,
                   env=os.environ | {"PYTHONPATH": str(package)})  # fmt: skip
    assert done.exists()
