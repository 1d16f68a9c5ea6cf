"""Training loops: Keras's order of events around the engine's epochs."""

from __future__ import annotations

import itertools
import json
import numbers
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plimsoll import _core, data, live
from plimsoll.errors import exhausted

MIB = 1 << 20
_MOST_SEED = 1 << 62


@dataclass
class Limits:
    """What of the process's memory is the engine's."""

    memory: int | None  # of the whole process; None: none was named
    held: int = 0  # by interpreter, framework and the program's arrays when the call began
    reserve: int = 0  # for what others will take

    @property
    def ours(self) -> int | None:
        return None if self.memory is None else self.memory - self.held - self.reserve

    @property
    def run(self) -> int | None:
        """The limit of the process while the engine runs."""
        return None if self.memory is None else max(self.memory - self.reserve, 1)


def size(value: int | str | None) -> int | None:
    """Bytes of "2GiB", "75%", "auto" or a number."""
    if value is None:
        return None
    if isinstance(value, numbers.Real):
        return int(value)
    if not isinstance(value, str):
        raise TypeError(f'memory: expected bytes or a text such as "2GiB", received {value!r}.')
    return live.guarded(lambda: _core.parse_memory(value))


def limits_of(memory: int | str | None, reserve: int | str | None, refuses: bool = True) -> Limits:
    """With `refuses`, ResourceExhausted where the process holds more than the limit already."""
    whole = size(memory)
    held = _core.held_by_process()
    if whole is None:
        return Limits(None, held)
    kept = size(reserve)
    limits = Limits(whole, held, max(64 * MIB, whole // 10) if kept is None else kept)
    assert limits.ours is not None
    if limits.ours <= 0 and refuses:
        raise exhausted(
            f"memory={_mib(whole)}: the process holds {_mib(limits.held)} already (interpreter, "
            f"framework and the program's arrays), and {_mib(limits.reserve)} are kept in reserve "
            "for what they will take. Name a higher limit, a smaller reserve=, or free arrays."
        )
    return limits


def _mib(count: int) -> str:
    return f"{count / MIB:.1f} MiB"


@dataclass
class Options:
    """What every call takes beside its data."""

    batch_size: int | None = None
    memory: int | str | None = None
    reserve: int | str | None = None
    threads: int = 0
    seed: int = 0
    precision: str = ""
    backend: str = ""
    plan_time: float | None = None
    max_slowdown: float | None = None
    without: str = ""
    times: str = ""
    tune: bool = False
    spill: bool | None = None  # None: only where nothing fits without a spill file
    spill_dir: str = ""
    refuses: bool = field(default=True, init=False)  # a limit that the process has passed already
    limits: Limits = field(default_factory=lambda: Limits(None), init=False)

    def __post_init__(self) -> None:
        if self.plan_time is not None and not self.plan_time > 0:
            raise ValueError(f"plan_time: expected seconds, received {self.plan_time}.")
        if self.max_slowdown is not None and not self.max_slowdown >= 1:
            raise ValueError(f"max_slowdown: expected 1 or more, received {self.max_slowdown}.")
        if not 0 <= self.threads <= 1024:
            raise ValueError(f"threads: expected 1 to 1024, received {self.threads}.")

    def settings(self, batch: int, iterations: int = 0) -> _core.Settings:
        """`iterations`: steps that the model has seen, so that draws do not begin again."""
        if self.limits.held == 0:  # once a call: what the engine takes is not held by others
            self.limits = limits_of(self.memory, self.reserve, self.refuses)
        settings = _core.Settings()
        settings.batch = batch
        settings.memory = self.limits.run
        settings.given = self.limits.held
        settings.threads = self.threads
        settings.seed = (self.seed + 1_000_003 * iterations) % _MOST_SEED
        settings.precision = self.precision
        settings.backend = self.backend
        settings.plan_time = self.plan_time
        settings.max_slowdown = self.max_slowdown
        settings.without = self.without
        settings.times = self.times
        settings.tune = self.tune
        settings.spill_directory = self.spill_dir
        if self.spill is not None:
            settings.spill = _core.Spill.ALWAYS if self.spill else _core.Spill.NEVER
        return settings

    def explain(self, error: _core.EngineError) -> BaseException:
        """The engine's error; of a limit, with who holds what of it."""
        if error.args[0] != "budget" or self.limits.memory is None:
            return live.translate(error)
        limits = self.limits
        assert limits.ours is not None and limits.memory is not None
        return exhausted(
            f"memory={_mib(limits.memory)} does not fit: {_mib(limits.held)} are held by "
            f"interpreter, framework and the program's arrays, {_mib(limits.reserve)} are in "
            f"reserve, which leaves {_mib(limits.ours)} for training: {error.args[1]}"
        )


class Listener:
    """What the engine calls while it works; does nothing."""

    def notice(self, text: str) -> None:
        print(text, file=sys.stderr)

    def begin(self, plan: str) -> None:
        """The plan that is about to run, as JSON."""
        smaller = json.loads(plan)["block_set"]
        if smaller:
            self.notice(
                "plimsoll: the limit is met with smaller blocks only (block set "
                f"{smaller}): results differ from those without a limit by rounding."
            )

    def step(self, step: int, loss: float) -> None:
        pass

    def validation(self, begins: bool) -> None:
        pass

    def passed_limit(self, measured: int, limit: int) -> None:
        print(
            f"plimsoll: the process has taken {_mib(measured)}, above its limit of {_mib(limit)} "
            "(without the reserve). Where nothing else of the program has grown, this is a fault "
            "of Plimsoll: please report it with the model and this line.",
            file=sys.stderr,
        )


# Callbacks of Keras's that look at no variable of the model at the end of an epoch.
_BLIND = {"History", "ProgbarLogger", "CSVLogger", "TerminateOnNaN", "LearningRateScheduler",
          "ReduceLROnPlateau", "RemoteMonitor"}  # fmt: skip
_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


def _is_blind(callback: Any) -> bool:
    return type(callback).__name__ in _BLIND and type(callback).__module__.startswith("keras.")


def _has_batch_hooks(callback: Any) -> bool:
    base = live.keras_module().callbacks.Callback
    if _is_blind(callback):
        return False
    return any(
        getattr(getattr(callback, hook), "__func__", None) is not getattr(base, hook)
        for hook in _BATCH_HOOKS
    )


class Callbacks(Listener):
    """A CallbackList of Keras's, told of the engine's progress, and the model it may look at."""

    def __init__(self, known: live.Live, callbacks: Any, epochs: int, verbose: Any) -> None:
        keras = live.keras_module()
        self.known, self.model, self.epochs = known, known.model, epochs
        if isinstance(callbacks, keras.callbacks.CallbackList):
            self.list = callbacks
        else:
            self.list = keras.callbacks.CallbackList(
                callbacks, add_history=True, add_progbar=False, model=self.model, verbose=verbose,
                epochs=epochs, steps=None,
            )  # fmt: skip
        own = [one for one in self.list.callbacks if not _is_blind(one)]
        self.look = bool(own)
        self.batches = [one for one in self.list.callbacks if _has_batch_hooks(one)]
        self.ends_on_nan = any(type(one).__name__ == "TerminateOnNaN" and _is_blind(one)
                               for one in self.list.callbacks)  # fmt: skip
        self.whole_epochs = False  # the engine runs them
        self.verbose = 1 if verbose == "auto" else int(verbose)
        self.bar: Any = None
        self.first_step = 0
        self.steps: int | None = None

    @property
    def every_step(self) -> bool:
        return bool(self.batches)

    def set_steps(self, steps: int | None) -> None:
        self.steps = steps
        self.list.set_params({"verbose": self.verbose, "epochs": self.epochs, "steps": steps})

    def begin_epoch(self, epoch: int) -> None:
        self.list.on_epoch_begin(epoch)
        if self.look and self.known.trains():
            self.known.take()
        self.push_rate()
        self.first_step = 0
        if self.verbose:
            from keras.src.utils.progbar import Progbar

            if self.epochs > 1:
                print(f"Epoch {epoch + 1}/{self.epochs}")
            self.bar = Progbar(target=self.steps, verbose=self.verbose, unit_name="step")
        if self.every_step:
            self.list.on_train_batch_begin(0)

    def push_rate(self) -> None:
        """A rate that a callback has set; one of a schedule is the engine's own."""
        rate = getattr(self.model.optimizer, "_learning_rate", None)
        if hasattr(rate, "assign"):
            value = live.keras_module().ops.convert_to_numpy(rate)
            self.known.engine.set_learning_rate(float(np.asarray(value)))

    def step(self, step: int, loss: float) -> None:
        if not self.every_step and self.bar is None:
            return  # nobody looks
        logs = self.known.engine.metrics()
        if self.every_step:
            self.known.give()
            self.list.on_train_batch_end(step - 1, logs)
            if self.model.stop_training:
                if self.whole_epochs:
                    self.known.engine.request_stop()
            elif self.steps is None or step < self.steps:
                self.list.on_train_batch_begin(step)
            self.known.take()
            self.push_rate()
        if self.bar is not None and self.steps is not None and step < self.steps:
            self.bar.update(step, list(logs.items()), finalize=False)

    def validation(self, begins: bool) -> None:
        if begins:
            self.list.on_test_begin()
        else:
            self.list.on_test_end(self.known.engine.metrics())

    def end_epoch(self, epoch: int, logs: dict[str, float], steps: int) -> None:
        if self.bar is not None:
            self.bar.update(steps, list(logs.items()), finalize=True)
        if self.look:
            self.known.give()
        self.list.on_epoch_end(epoch, logs)
        if self.look:
            self.known.take()
        self.push_rate()


def _validation(
    engine: _core.Engine, validation_data: Any, part: float, samples: data.Samples
) -> tuple[data.Samples, data.Samples | None]:
    if validation_data is not None:
        x, y, weights = data.unpacked(validation_data)
        if data.is_iterated(validation_data) or data.is_iterated(x):
            raise TypeError(
                "validation_data: expected arrays beside a training set of arrays, received "
                f"{type(validation_data).__name__}. Give arrays, or train on batches too."
            )
        return samples, data.samples_of(engine, x, y, weights)
    if part:
        return data.split(samples, part)
    return samples, None


def _due(epoch: int, frequency: Any) -> bool:
    """Keras's validation_freq: every so many epochs, or the epochs of a list, from 1."""
    if isinstance(frequency, int):
        return (epoch + 1) % frequency == 0
    return (epoch + 1) in frequency


@dataclass
class Fit:
    """One call of fit."""

    known: live.Live
    options: Options
    callbacks: Callbacks
    epochs: int
    initial_epoch: int = 0
    validation_freq: Any = 1

    def run(self, epochs: Iterator[tuple[int, dict[str, float], int]]) -> Any:
        """Keras's events around `epochs`, which runs one each time that it is asked."""
        model, engine = self.known.model, self.known.engine
        model.stop_training = False
        self.known.adopt()
        logs: dict[str, float] | None = None
        try:
            self.callbacks.list.on_train_begin()
            for epoch, logs, steps in epochs:
                self.callbacks.end_epoch(epoch, logs, steps)
                if model.stop_training:
                    break
        except _core.EngineError as error:
            self.keep()
            raise self.options.explain(error) from None
        except BaseException:
            self.keep()
            raise
        self.known.give()
        engine.close()
        self.callbacks.list.on_train_end(logs)
        return model.history

    def keep(self) -> None:
        """What was trained so far goes back into the model, whatever ended the run."""
        try:
            if self.known.trains():
                self.known.give()
        finally:
            self.known.engine.close()

    def arrays(
        self, samples: data.Samples, validation: data.Samples | None, shuffle: bool, batch: int
    ) -> Iterator[tuple[int, dict[str, float], int]]:
        """Epochs over arrays: the engine runs each of them without coming back."""
        engine = self.known.engine
        settings = self.options.settings(batch, self.known.iterations())
        orders = data.permutation(samples.rows, shuffle)
        arrays = samples.arrays()
        held = (validation or data.Samples([])).arrays()
        steps = -(-samples.rows // batch)
        self.callbacks.whole_epochs = True
        for epoch in range(self.initial_epoch, self.epochs):
            self.callbacks.begin_epoch(epoch)
            skip = validation is None or not _due(epoch, self.validation_freq)
            try:
                ended = engine.fit(settings, arrays, held, next(orders), skip,
                                   self.callbacks.every_step, self.callbacks)  # fmt: skip
            except _core.EngineError as error:
                if not self.callbacks.ends_on_nan or "finite loss" not in error.args[1]:
                    raise
                print(f"{error.args[1]} Terminating training.")
                self.known.model.stop_training = True
                yield epoch, dict(engine.metrics()), steps
                return
            settings.tune = False
            logs = dict(ended["logs"])
            if ended["interrupted"] and not skip:  # Keras validates what it stops
                for name, value in engine.evaluate(settings, held, self.callbacks).items():
                    logs[f"val_{name}"] = value
            yield epoch, logs, steps

    def batches(
        self, source: Any, validation: Any, steps_per_epoch: int | None,
        class_weight: dict[int, float] | None, validation_steps: int | None, shuffle: bool,
    ) -> Iterator[tuple[int, dict[str, float], int]]:  # fmt: skip
        """Epochs over what yields batches."""
        stepper = Stepper(self.known, self.options, self.callbacks)
        batches, count = data.batches_of(source, shuffle)
        iterator = iter(batches)
        for epoch in range(self.initial_epoch, self.epochs):
            self.callbacks.set_steps(steps_per_epoch or count)
            self.callbacks.begin_epoch(epoch)
            stepper.begin()
            done = 0
            while steps_per_epoch is None or done < steps_per_epoch:
                batch = next(iterator, None)
                if batch is None and (steps_per_epoch is not None or done == 0):
                    iterator = iter(batches)  # a generator does not begin anew
                    batch = next(iterator, None)
                if batch is None:
                    iterator = iter(batches)
                    break
                x, y, weights = data.unpacked(batch)
                loss = stepper.step(
                    data.samples_of(self.known.engine, x, y, weights, class_weight), train=True
                )
                done += 1
                self.callbacks.step(done, loss)
                if self.callbacks.model.stop_training:
                    break
            if done == 0 and epoch == self.initial_epoch:
                raise ValueError("x: expected batches, received none.")
            if done == 0:
                raise ValueError(
                    f"x: expected batches for epoch {epoch + 1}, received none: a generator yields "
                    "each of its batches once. Give steps_per_epoch, or a PyDataset."
                )
            count = count or done
            logs = stepper.logs()
            if validation is not None and _due(epoch, self.validation_freq):
                logs |= self._validate(stepper, validation, validation_steps)
            yield epoch, logs, done

    def _validate(
        self, stepper: Stepper, validation: Any, most: int | None
    ) -> dict[str, float]:  # fmt: skip
        self.callbacks.validation(True)
        stepper.begin()
        every = _validation_batches(self.known.engine, validation, stepper.batch)
        for samples in itertools.islice(every, most):
            stepper.step(samples, train=False)
        self.callbacks.validation(False)
        return {f"val_{name}": value for name, value in stepper.logs().items()}


def _validation_batches(
    engine: _core.Engine, validation: Any, batch: int
) -> Iterator[data.Samples]:
    x, y, weights = data.unpacked(validation)
    if data.is_iterated(x):
        for one in data.batches_of(x)[0]:
            yield data.samples_of(engine, *data.unpacked(one))
        return
    samples = data.samples_of(engine, x, y, weights)
    for begin in range(0, samples.rows, batch):
        yield samples.part(begin, min(begin + batch, samples.rows))


class Stepper:
    """Steps on batches that come one by one, of whatever size."""

    def __init__(self, known: live.Live, options: Options, listener: Listener) -> None:
        self.known, self.options, self.listener = known, options, listener
        self.batch = self.short = 0
        self.settings: _core.Settings | None = None
        self.fresh = True

    def begin(self) -> None:
        """Metrics begin anew."""
        if self.settings is not None and self.known.engine.trains:
            self.known.engine.reset_metrics()

    def step(self, samples: data.Samples, train: bool) -> float:
        rows = samples.rows
        if rows > self.batch:
            self.batch, self.short = rows, self.batch
            self.settings = self.options.settings(rows, self.known.iterations())
        elif rows not in (self.batch, self.short):
            self.short = rows
        assert self.settings is not None
        loss = self.known.engine.step(self.settings, samples.arrays(), self.short, train,
                                      self.listener)  # fmt: skip
        self.known.stepped = True
        return loss

    def logs(self) -> dict[str, float]:
        return dict(self.known.engine.metrics())
