"""Training loops: Keras's order of events around the engine's epochs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from plimsoll import _core, asked, data
from plimsoll.model import live
from plimsoll.model.shared import Shared, rate_in, rate_of
from plimsoll.options import MIB, Listener, Options
from plimsoll.training import inference
from plimsoll.versions import keras_module, reported

# Callbacks of Keras's that look at no variable of the model at the end of an epoch.
_BLIND = {"History", "ProgbarLogger", "CSVLogger", "TerminateOnNaN", "ReduceLROnPlateau",
          "RemoteMonitor"}  # fmt: skip
_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
_TEST_HOOKS = ("on_test_begin", "on_test_end", "on_test_batch_begin", "on_test_batch_end")


def _is_blind(callback: Any) -> bool:
    return type(callback).__name__ in _BLIND and type(callback).__module__.startswith("keras.")


def _ends_on_nan(callback: Any) -> bool:
    return type(callback).__name__ == "TerminateOnNaN" and _is_blind(callback)


def _saves_at_epochs(callback: Any) -> bool:
    """Keras's own that save; with these settings their methods for batches do nothing."""
    cls = type(callback)
    return (cls.__name__ in ("ModelCheckpoint", "BackupAndRestore")
            and cls.__module__.startswith("keras.") and callback.save_freq == "epoch")  # fmt: skip


def _has_hooks(callback: Any, hooks: tuple[str, ...]) -> bool:
    base = keras_module().callbacks.Callback
    if _is_blind(callback) or _saves_at_epochs(callback):
        return False
    return any(
        getattr(getattr(callback, hook), "__func__", None) is not getattr(base, hook)
        for hook in hooks
    )


def _of_epoch(logs: dict[str, float]) -> dict[str, float]:
    """Keras's order: those of training, then those of validation."""
    return dict(sorted(logs.items(), key=lambda item: (item[0].startswith("val_"), item[0])))


class Callbacks(Listener):
    """A CallbackList of Keras's, told of the engine's progress, and the model it may look at."""

    def __init__(
        self,
        known: live.Live,
        callbacks: Any,
        epochs: int,
        verbose: Any,
        shared: Shared | None = None,
    ) -> None:
        """`shared`: with ranks of which the first one alone has callbacks and tells of progress."""
        keras = keras_module()
        self.known, self.model, self.epochs, self.shared = known, known.model, epochs, shared
        self.leads = shared is None or shared.leads
        if not self.leads:
            callbacks, verbose = None, 0
        if isinstance(callbacks, keras.callbacks.CallbackList):
            self.list = callbacks
        else:
            self.list = keras.callbacks.CallbackList(
                callbacks, add_history=True, add_progbar=False, model=self.model, verbose=verbose,
                epochs=epochs, steps=None,
            )  # fmt: skip
        own = [one for one in self.list.callbacks if not _is_blind(one)]
        self.look = bool(own)
        self.every_step = any(_has_hooks(one, _BATCH_HOOKS) for one in self.list.callbacks)
        self.tests = any(_has_hooks(one, _TEST_HOOKS) for one in self.list.callbacks)
        self.every_test = any(_has_hooks(one, _TEST_HOOKS[2:]) for one in self.list.callbacks)
        self.test_steps = 0  # of a validation that the engine runs
        # Where each step is told, it is told as all are.
        self.ends_on_nan = not self.every_step and any(map(_ends_on_nan, self.list.callbacks))
        if shared is not None:  # all stop where the first rank's callbacks look
            (self.look, self.every_step, self.tests, self.every_test, self.ends_on_nan) = (
                shared.first((self.look, self.every_step, self.tests, self.every_test,
                              self.ends_on_nan)))  # fmt: skip
        self.whole_epochs = False  # the engine runs them
        self.has_stepped = False  # or is about to: a plan has begun to run
        self.verbose = 1 if verbose == "auto" else int(verbose)
        self.bar: Any = None
        self.first_step = 0
        self.ran_out = False  # a hook for batches has ended the epoch
        self.steps: int | None = None

    def acting_within_epochs(self) -> list[str]:
        """Names of callbacks that may look at the model in the middle of an epoch."""
        return [type(one).__name__ for one in self.list.callbacks
                if _has_hooks(one, _BATCH_HOOKS + _TEST_HOOKS)]  # fmt: skip

    def begin(self, plan: str) -> None:
        self.has_stepped = True
        super().begin(plan)

    def _mark(self) -> None:
        if self.shared is not None and (self.look or self.every_step or self.tests):
            self.shared.mark()

    def agree(self, logs: Any = None) -> Any:
        """What the first rank's callbacks have decided and written, on all ranks; its logs."""
        if self.shared is None:
            return logs
        rate = rate_of(self.model)
        told = self.shared.agree({
            "stop": self.model.stop_training, "ran_out": self.ran_out, "logs": logs,
            "stop_evaluating": getattr(self.model, "stop_evaluating", False),
            "initial_epoch": getattr(self.model, "_initial_epoch", None),
            "rate": None if rate is None else rate_in(rate),
        })  # fmt: skip
        if not self.leads:
            self.model.stop_training, self.ran_out = told["stop"], told["ran_out"]
            self.model.stop_evaluating = told["stop_evaluating"]
            self.model._initial_epoch = told["initial_epoch"]
            if rate is not None and told["rate"] is not None and told["rate"] != rate_in(rate):
                rate.assign(told["rate"])
        return told["logs"]

    def begin_training(self) -> None:
        self.list.on_train_begin()
        if self.shared is not None:
            self.agree()
            self.shared.begin()
            self.known.take()

    def end_training(self, logs: dict[str, float] | None) -> None:
        self._mark()
        self.list.on_train_end(logs)
        history = self.model.history
        told = self.agree((history.epoch, history.history))  # with what callbacks have added
        if not self.leads:
            history.epoch, history.history = told

    def set_steps(self, steps: int | None) -> None:
        self.steps = steps
        self.list.set_params({"verbose": self.verbose, "epochs": self.epochs, "steps": steps})

    def _of_batches(self, hook: Callable[..., None], *given: Any) -> None:
        """A hook in which StopIteration ends the epoch: Keras takes it for the end of the data."""
        try:
            hook(*given)
        except StopIteration:
            self.ran_out = True
            warnings.warn(
                "Your input ran out of data; interrupting training. Make sure that your dataset or "
                "generator can generate at least `steps_per_epoch * epochs` batches. You may need "
                "to use the `.repeat()` function when building your dataset.",
                stacklevel=2,
            )

    def begin_epoch(self, epoch: int) -> None:
        self.ran_out = False
        self._mark()
        self.list.on_epoch_begin(epoch)
        self.agree()
        if self.look:
            self.known.take()
        self.push_rate()
        self.first_step = 0
        if self.verbose:
            from keras.src.utils.progbar import Progbar

            if self.epochs > 1:
                print(f"Epoch {epoch + 1}/{self.epochs}")
            self.bar = Progbar(target=self.steps, verbose=self.verbose, unit_name="step")
        if self.every_step and self.whole_epochs:
            self._mark()
            self._of_batches(self.list.on_train_batch_begin, 0)
            self.agree()
            self.known.take()
            self.push_rate()

    def begin_batch(self, step: int) -> bool:
        """Before a batch is asked for, where they come one by one; whether the epoch goes on."""
        if self.every_step:
            self._mark()
            self._of_batches(self.list.on_train_batch_begin, step)
            self.agree()
            self.known.take()
            self.push_rate()
        return not self.ran_out

    def push_rate(self) -> None:
        """A rate that a callback has set; one of a schedule is the engine's own."""
        rate = rate_of(self.model)
        if rate is not None:
            self.known.engine.set_learning_rate(rate_in(rate))

    def end_on_nan(self, step: int) -> None:
        """What TerminateOnNaN does, which is told of no other step."""
        logs = inference.metrics_of(self.known.engine)
        for one in self.list.callbacks if self.leads else []:
            if _ends_on_nan(one):
                one.on_batch_end(step - 1, logs)
        self.model.stop_training = True

    def step(self, step: int, loss: float) -> None:
        if self.ends_on_nan and not np.isfinite(loss):
            self.end_on_nan(step)
        if not self.every_step and self.bar is None:
            return  # nobody looks
        logs = inference.metrics_of(self.known.engine)
        if self.every_step:
            self.known.give()
            self.known.lent = True  # the epoch goes on in the engine
            self._mark()
            self._of_batches(self.list.on_train_batch_end, step - 1, logs)
            if self.shared is not None and not self.whole_epochs:
                self.agree()
            ends = self.model.stop_training or self.ran_out
            if self.whole_epochs and not ends and (self.steps is None or step < self.steps):
                self._of_batches(self.list.on_train_batch_begin, step)
                ends = self.ran_out
            if self.whole_epochs:
                self.agree()
            if self.whole_epochs and ends:
                self.known.engine.request_stop()
            self.known.take()
            self.push_rate()
        if self.bar is not None and self.steps is not None and step < self.steps:
            self.bar.update(step, list(logs.items()), finalize=False)

    def validation(self, begins: bool) -> None:
        if self.tests:
            self.known.give()
            self.known.lent = True
            self._mark()
        if begins:
            self.list.on_test_begin()
            if self.every_test and self.whole_epochs:
                self.list.on_test_batch_begin(0)
        else:
            self.list.on_test_end(inference.metrics_of(self.known.engine))
        if self.tests:
            self.agree()
            self.known.take()

    def test_step(self, step: int) -> None:
        """A step of a validation that the engine runs is over."""
        with self.batch_of_validation():
            self.list.on_test_batch_end(step - 1, inference.metrics_of(self.known.engine))
            if step < self.test_steps:
                self.list.on_test_batch_begin(step)

    @contextmanager
    def batch_of_validation(self) -> Iterator[None]:
        """Around its hooks, which may write variables."""
        self._mark()
        yield
        self.agree()
        self.known.take()

    def begin_test_batch(self, step: int) -> None:
        """Where batches of validation come one by one."""
        if self.every_test:
            with self.batch_of_validation():
                self.list.on_test_batch_begin(step)

    def end_epoch(self, epoch: int, logs: dict[str, float], steps: int) -> None:
        if self.bar is not None:
            self.bar.update(steps, list(logs.items()), finalize=True)
        if self.look:
            self.known.give()
            self._mark()
        if self.leads:
            self.list.on_epoch_end(epoch, logs)
        logs = self.agree(logs)
        if not self.leads:
            self.list.on_epoch_end(epoch, logs)
        if self.look:
            self.known.take()
        self.push_rate()


def check_labels(y: Any) -> None:
    """Of validation on arrays."""
    if y is None:
        raise ValueError(
            "validation_data: expected (x, y) or (x, y, sample_weight), received no y."
        )


def _validation(
    known: live.Live, validation_data: Any, part: float, samples: data.Samples
) -> tuple[data.Samples, data.Samples | None]:
    if validation_data is not None:
        x, y, weights = data.unpacked(validation_data)
        if data.is_iterated(validation_data) or data.is_iterated(x):
            raise TypeError(
                "validation_data: expected arrays beside a training set of arrays, received "
                f"{type(validation_data).__name__}. Give arrays, or train on batches too."
            )
        check_labels(y)
        return samples, known.samples_of(x, y, weights)
    if part:
        return data.split(samples, part)
    return samples, None


def _due(epoch: int, frequency: Any) -> bool:
    """Keras's validation_freq: every so many epochs, or the epochs of a list, from 1."""
    if isinstance(frequency, int):
        return (epoch + 1) % frequency == 0
    return (epoch + 1) in frequency


@dataclass
class Validation:
    """What is evaluated on at the end of epochs whose batches come one by one."""

    x: Any  # arrays, Samples of them, or what yields batches
    y: Any = None
    weights: Any = None
    batch: int | None = None
    steps: int | None = None


def _build_metrics(model: Any, targets: list[np.ndarray[Any, Any]]) -> None:
    """Keras's metric objects as its own fit makes them; callbacks look for them by name.

    Where outputs without a loss have no targets, nothing tells what metrics of theirs would be.
    """
    metrics = model._compile_metrics
    if metrics is None or metrics.built or len(targets) != len(model.outputs):
        return
    tensor = keras_module().KerasTensor
    true = [tensor((None, *one.shape[1:]), str(one.dtype)) for one in targets]
    predicted = [tensor(one.shape, one.dtype) for one in model.outputs]
    metrics.build(true if len(true) > 1 else true[0], inference.outputs_like(model, predicted))


def _no_batches(epoch: int | None) -> str:
    """`epoch`: one that others with batches came before."""
    if epoch is None:
        return "x: expected batches, received none."
    return (
        f"x: expected batches for epoch {epoch + 1}, received none: a generator yields each of its "
        "batches once. Give steps_per_epoch, or a PyDataset."
    )


@dataclass
class Fit:
    """One call of fit."""

    known: live.Live
    options: Options
    callbacks: Callbacks
    epochs: int
    initial_epoch: int = 0
    validation_freq: Any = 1
    taken: int = 0  # by the process, at the ends of epochs
    batch: int = 0  # samples, the most so far
    has_trained: bool = False  # a step of this call

    def run(self, epochs: Iterator[tuple[int, dict[str, float], int]]) -> Any:
        """Keras's events around `epochs`, which runs one each time that it is asked."""
        model, engine = self.known.model, self.known.engine
        model.stop_training = False
        self.known.adopt()
        logs: dict[str, float] | None = None
        try:
            self.callbacks.begin_training()
            for epoch, logs, steps in epochs:
                asked.outcome.ran += 1
                self._measure()
                self.callbacks.end_epoch(epoch, logs, steps)
                self._release()
                if model.stop_training:
                    break
                if epoch + 1 < self.epochs:
                    self._make_room()
        except _core.EngineError as error:
            self.keep()
            raise self.options.explain(error, engine, self.batch) from None
        except BaseException as error:
            self.keep()
            if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
                raise error.__cause__ from None  # a callback's, that has come through a generator
            raise
        self.known.give()
        engine.close()
        if self.epochs > 0:  # averages of weights take their places (use_ema)
            model.optimizer.finalize_variable_values(model.trainable_weights)
        self.callbacks.end_training(logs)
        memory = self.options.limits.memory
        if self.callbacks.verbose and memory is not None:
            print(f"memory: at most {self.taken / MIB:.1f} of {memory / MIB:.1f} MiB "
                  "when an epoch ended")  # fmt: skip
        return model.history

    def _measure(self) -> None:
        """The arena is as large as in the middle of the epoch."""
        if self.callbacks.verbose and self.options.limits.memory is not None:
            self.taken = max(self.taken, _core.process_memory())

    def _release(self) -> None:
        """The room of what calls in callbacks have kept."""
        live.release(self.known.model if self.options.memory is None else None)

    def _make_room(self) -> None:
        """Where others have grown the next epoch is planned for what they leave.

        Raises ResourceExhausted where they leave nothing.
        """
        shared = self.callbacks.shared
        if not self.known.engine.trains:
            return
        grown = self.options.has_grown(self.callbacks.predicted)
        if not (grown if shared is None else shared.any(grown)):  # all plan, or none
            return
        before = self.options.limits.held
        self.known.give()
        self.known.engine.close()
        self.known.take()
        self.options.measure(again=True)
        more = (self.options.limits.held - before) / MIB
        if grown:
            self.callbacks.notice(
                f"plimsoll: what is not Plimsoll's has grown by {more:.1f} MiB: planned anew"
            )

    def keep(self) -> None:
        """What was trained so far goes back into the model, whatever ended the run."""
        try:
            if self.known.trains():
                self.known.give()
        finally:
            self.known.lent = False
            self.known.engine.close()

    def arrays(
        self, samples: data.Samples, validation: data.Samples | None, shuffle: bool, batch: int
    ) -> Iterator[tuple[int, dict[str, float], int]]:
        """Epochs over arrays: the engine runs each of them without coming back."""
        engine, self.batch = self.known.engine, batch
        settings, seen = self.options.settings(batch), self.known.iterations()
        orders = data.permutation(samples.rows, shuffle)
        shared = self.callbacks.shared
        if shared is not None:
            shared.expect_samples("the samples", samples)
            shared.expect_samples("the samples of validation", validation)
        arrays = samples.arrays()
        _build_metrics(self.known.model, samples.y)
        held = (validation or data.Samples([])).arrays()
        steps = -(-samples.rows // batch)
        self.callbacks.whole_epochs = True
        self.callbacks.test_steps = -(-validation.rows // batch) if validation is not None else 0
        first = self._first_epoch()
        for epoch in range(first, self.epochs):
            self.callbacks.begin_epoch(epoch)
            if not engine.trains and epoch > first:  # a callback had it ended
                settings, seen = self.options.settings(batch), self.known.iterations()
                settings.tune = False
            skip = validation is None or not _due(epoch, self.validation_freq)
            if self.callbacks.ran_out:  # before its first step
                logs = self._of_no_step()
                if not skip:
                    logs |= self._validate_afterwards(validation, batch)
                yield epoch, logs, 0
                continue
            self.known.lent, self.known.shown = True, False
            order = next(orders) if shared is None else shared.order(next(orders))
            ended = engine.fit(settings, arrays, held, order, skip,
                               self.callbacks.every_step, self.callbacks.every_test,
                               self.callbacks.ends_on_nan, seen, self.callbacks)  # fmt: skip
            settings.tune, self.has_trained = False, True
            logs = _of_epoch(reported(ended["logs"], engine.output_names))
            if ended["interrupted"] and not skip:  # Keras validates what it stops
                logs |= self._validate_afterwards(validation, batch)
            yield epoch, logs, steps

    def _first_epoch(self) -> int:
        """BackupAndRestore sets another one as the training begins."""
        return getattr(self.known.model, "_initial_epoch", None) or self.initial_epoch

    def _validate_afterwards(self, validation: data.Samples | None, batch: int) -> dict[str, float]:
        """When the engine has ended its run."""
        assert validation is not None
        self.known.give()
        caller = inference.Caller(self.known, self.options, "evaluate")
        logs = inference.evaluate_batches(
            self.known.model, caller,
            inference.Batches(self.known, validation, batch=batch), self.callbacks.list,
        )  # fmt: skip
        caller.session.release()
        return {f"val_{name}": value for name, value in inference.by_name(logs).items()}

    def batches(
        self, source: Any, steps_per_epoch: int | None, class_weight: dict[int, float] | None,
        shuffle: bool, validation: Validation | None,
    ) -> Iterator[tuple[int, dict[str, float], int]]:  # fmt: skip
        """Epochs over what yields batches, or data.ArrayBatches."""
        stepper = Stepper(self.known, self.options, self.callbacks)
        batches, count = data.batches_of(source, shuffle)
        epochs = data.Epochs(batches, count, steps_per_epoch)
        data.tell_epoch(batches, "on_epoch_end")  # as Keras begins
        first = self._first_epoch()
        for epoch in range(first, self.epochs):
            self.callbacks.set_steps(steps_per_epoch or count)
            self.callbacks.begin_epoch(epoch)
            data.tell_epoch(batches, "on_epoch_begin")
            stepper.begin()
            done, stopped = 0, False
            for batch in epochs.epoch(self.callbacks.begin_batch):
                batch = self._samples(batch, class_weight)
                self._expect(batch)
                _build_metrics(self.known.model, batch.y)
                self.batch = max(self.batch, batch.rows)
                loss = stepper.step(batch, train=True)
                done, self.has_trained = done + 1, True
                self.callbacks.step(done, loss)
                if self.callbacks.ran_out:
                    epochs.interrupt()
                    break
                stopped = self.callbacks.model.stop_training
                if stopped:
                    break
            else:
                self._expect(None)
            if not stopped:
                if done and not isinstance(source, data.ArrayBatches):
                    self.known.give()  # whoever makes the batches sees what the epoch has trained
                data.tell_epoch(batches, "on_epoch_end")
            if done == 0 and not self.callbacks.ran_out:
                raise ValueError(_no_batches(epoch if epoch > first else None))
            count = epochs.count or done or None
            logs = stepper.logs() if done else self._of_no_step()
            if validation is not None and _due(epoch, self.validation_freq):
                logs |= self._validate(stepper, validation)
            yield epoch, logs, done

    def _expect(self, batch: data.Samples | None) -> None:
        """Ranks all have the same batch, or have all come to the end (None)."""
        if self.callbacks.shared is not None:
            self.callbacks.shared.expect_samples("the samples of a batch", batch)

    def _of_no_step(self) -> dict[str, float]:
        """What an epoch logs that ended before its first step: zeros, and nothing at first."""
        if not self.has_trained:
            return {}
        self.known.model.reset_metrics()
        return inference.by_name(self.known.model.get_metrics_result())

    def _samples(self, batch: Any, class_weight: dict[int, float] | None) -> data.Samples:
        if isinstance(batch, data.Samples):
            return batch
        x, y, weights = data.unpacked(batch)
        samples = self.known.samples_of(x, y, weights, class_weight)
        self.known.check_sizes(samples)
        return samples

    def _validate(self, stepper: Stepper, validation: Validation) -> dict[str, float]:
        events, model = self.callbacks, self.known.model
        # Batches of another size than those of training cost a plan: where nobody counts them
        # they are made alike.
        counted = events.every_test or validation.steps
        batch = validation.batch or (None if counted else stepper.batch or None)
        batches = inference.Batches(self.known, validation.x, validation.y,
                                    validation.weights, batch, validation.steps)  # fmt: skip
        model.stop_evaluating = False
        events.validation(True)
        stepper.begin()
        for step, samples in batches.counted(events.begin_test_batch):
            self._expect(samples)
            stepper.step(samples, train=False)
            if events.every_test:
                with events.batch_of_validation():
                    events.list.on_test_batch_end(step, stepper.logs())
                if model.stop_evaluating:
                    break
        else:
            self._expect(None)
        events.validation(False)
        return {f"val_{name}": value for name, value in stepper.logs().items()}


class Stepper:
    """Steps on batches that come one by one, of whatever size."""

    def __init__(self, known: live.Live, options: Options, listener: Listener) -> None:
        self.known, self.options, self.listener = known, options, listener
        self.batch = self.short = self.seen = 0
        self.settings: _core.Settings | None = None

    def begin(self) -> None:
        """Metrics begin anew."""
        if self.settings is not None and self.known.engine.trains:
            self.known.engine.reset_metrics()

    def step(self, samples: data.Samples, train: bool) -> float:
        rows = samples.rows
        # A new session, also where a callback had the last one ended, draws from here on.
        fresh = rows > self.batch or not self.known.engine.trains
        if rows > self.batch:
            self.batch, self.short = rows, self.batch
        elif rows not in (self.batch, self.short):
            self.short = rows
        if self.settings is None or fresh:
            self.settings, self.seen = self.options.settings(self.batch), self.known.iterations()
        self.known.shown = False
        loss = self.known.engine.step(self.settings, samples.arrays(), self.short, train,
                                      self.seen, self.listener)  # fmt: skip
        self.known.stepped = self.known.lent = True
        return loss

    def logs(self) -> dict[str, float]:
        return inference.metrics_of(self.known.engine)
