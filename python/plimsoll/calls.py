"""The package's calls: Keras's arguments and options, checked and handed to what does the work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from plimsoll import data, sizes
from plimsoll.answers import PlanAnswer
from plimsoll.data import BATCH
from plimsoll.errors import guarded
from plimsoll.model import live, shared
from plimsoll.model.live import release
from plimsoll.options import Options
from plimsoll.training import inference, loop, on_batch
from plimsoll.training.loop import Callbacks, Fit, Validation
from plimsoll.versions import check_model


def _check_counts(**counts: int | None) -> None:
    for name, given in counts.items():
        if given is not None and given < 1:
            raise ValueError(f"{name}: expected 1 or more, received {given}.")


def _check_batches(validation_split: float, **beside: Any) -> None:
    for name, given in beside.items():
        if given is not None:
            raise ValueError(f"{name}: expected it in the batches of x, received it beside.")
    if validation_split:
        raise ValueError("validation_split: expected arrays, received batches.")


def _check_compiled(model: Any) -> None:
    check_model(model)
    if not model.compiled:
        raise ValueError(f"{model.name}: expected a compiled model. Call model.compile(…) first.")


def fit(
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Any = "auto",
    callbacks: Any = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: bool = True,
    class_weight: dict[int, float] | None = None,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: Any = 1,
    isolate: bool = False,
    **options: Any,
) -> Any:
    """Trains as `model.fit` does, inside a limit; returns Keras's History.

    `x` and `y` are arrays (for several inputs or outputs lists or dicts of them), or `x` yields
    batches: a tf.data.Dataset, a PyDataset, a generator. Beyond Keras's arguments:

    memory: bytes of the whole process, or "2GiB", "75%", "auto"; None: the fastest plan.
    reserve: what of them others may take while the call runs; default the largest of 64 MiB, 10 %
        and the largest variable, of which the framework makes a copy when it is handed back.
    isolate: the engine runs in a process of its own, without Keras, whose whole memory is
        `memory`; for arrays, and callbacks that act at the ends of epochs.
    threads, parts (of kernels' work), lanes (of the batch), seed (of dropout), precision ("f32",
        "bf16"), plan_time, max_slowdown, without, spill, spill_dir, times, tune, backend: as on the
        command line.

    Under `mpirun` all ranks train together (docs/machines.md): each of them calls fit with the same
    data, `memory` is the limit of each, and callbacks and progress are the first rank's.

    Raises ResourceExhausted where the limit cannot be met, Refused (a ValueError) naming what is
    not Keras's own, ValueError and TypeError for data as Keras does. Ctrl-C leaves what was trained
    so far in the model.
    """
    return prepared_fit(
        model, x, y, batch_size, epochs, verbose, callbacks, validation_split, validation_data,
        shuffle, class_weight, sample_weight, initial_epoch, steps_per_epoch, validation_steps,
        validation_batch_size, validation_freq, isolate, options,
    ).run()  # fmt: skip


class PreparedFit:
    """A call of fit whose model and arguments are accepted; nothing has changed yet."""

    def __init__(self, events: Callbacks, run: Callable[[], Any]) -> None:
        self.events, self.run = events, run

    @property
    def has_stepped(self) -> bool:
        """Whether anything was trained; before that a run that ended left the model as it was."""
        return self.events.has_stepped


def prepared_fit(
    model: Any, x: Any, y: Any, batch_size: int | None, epochs: int, verbose: Any, callbacks: Any,
    validation_split: float, validation_data: Any, shuffle: bool,
    class_weight: dict[int, float] | None, sample_weight: Any, initial_epoch: int,
    steps_per_epoch: int | None, validation_steps: int | None, validation_batch_size: int | None,
    validation_freq: Any, isolate: bool, options: dict[str, Any],
    before: Callable[[Any], Any] | None = None,
) -> PreparedFit:  # fmt: skip
    """What `fit` does before it begins; raises as `fit` does.

    `before` makes of x what is trained on.
    """
    group = shared.joined()

    def arguments() -> dict[str, Any]:
        """Those that ranks have alike; callbacks and progress are the first one's."""
        return {
            "x": _kind(x), "epochs": epochs, "initial_epoch": initial_epoch,
            "steps_per_epoch": steps_per_epoch, "batch_size": batch_size, "shuffle": shuffle,
            "validation_data": _kind(data.unpacked(validation_data)[0]),
            "validation_split": validation_split, "validation_freq": validation_freq,
            "validation_steps": validation_steps, "validation_batch_size": validation_batch_size,
            "class_weight": class_weight, "metrics": live.names_of_metrics(model),
        }  # fmt: skip

    def prepare() -> _Accepted:
        _check_compiled(model)
        _check_counts(
            batch_size=batch_size, validation_batch_size=validation_batch_size,
            steps_per_epoch=steps_per_epoch, validation_steps=validation_steps,
        )  # fmt: skip
        if shuffle not in (True, False):
            raise ValueError(f"shuffle: expected True or False, received {shuffle!r}.")
        found = _Accepted.of(model, before(x) if before is not None else x, options, group, isolate)
        if data.is_iterated(found.x):
            _check_batches(validation_split, y=y, sample_weight=sample_weight)
            return found
        samples = found.known.samples_of(found.x, y, sample_weight)
        found.samples, found.validation = loop._validation(found.known, validation_data,
                                                           validation_split, samples)  # fmt: skip
        if class_weight:  # of what is trained on alone
            data.weigh_classes(found.samples, class_weight)
        return found

    found = shared.accepted(group, arguments, prepare)
    ours = shared.Shared(group, found.known) if group is not None else None
    events = Callbacks(found.known, callbacks, epochs, verbose, ours)
    run = Fit(found.known, found.how, events, epochs, initial_epoch, validation_freq)
    if found.there is not None:
        from plimsoll.isolation import isolate as isolation

        isolation.check(events, data.is_iterated(found.x), steps_per_epoch)
    if found.samples is not None:
        return _of_arrays(run, found, found.samples, shuffle, batch_size, steps_per_epoch,
                          validation_batch_size or batch_size, validation_steps)  # fmt: skip
    held = None
    if validation_data is not None:
        given = data.unpacked(validation_data)
        if not data.is_iterated(validation_data) and not data.is_iterated(given[0]):
            loop.check_labels(given[1])
        held = Validation(*given, validation_batch_size or batch_size, validation_steps)
    epochs_of = partial(run.batches, found.x, steps_per_epoch, class_weight, shuffle, held)
    return PreparedFit(events, lambda: run.run(epochs_of()))


def _kind(x: Any) -> str:
    if x is None:
        return "none"
    return "batches" if data.is_iterated(x) else "arrays"


@dataclass
class _Accepted:
    """A model and data that the engine takes."""

    known: Any
    how: Options
    x: Any
    there: Any = None  # the engine's process, where it has one of its own
    samples: data.Samples | None = None  # None: they come in batches
    validation: data.Samples | None = None

    @classmethod
    def of(
        cls, model: Any, x: Any, options: dict[str, Any], group: Any, isolate: bool
    ) -> _Accepted:
        shapes, x = sizes.of_data(model, x)
        known = live.live_model(model, shapes=shapes)
        how = Options.of(options)
        how.handed, how.ranks = known.largest, group
        if isolate and group is not None:
            raise ValueError("isolate: expected False where ranks train together, received True.")
        if isolate:
            from plimsoll.isolation import isolate as isolation

            known, how, there = isolation.elsewhere(known, options)
            return cls(known, how, x, there)
        release(model if how.memory is None else None)
        return cls(known, how, x)


def _of_arrays(
    run: Fit, found: _Accepted, samples: data.Samples, shuffle: bool, batch_size: int | None,
    steps: int | None, validation_batch: int | None, validation_steps: int | None,
) -> PreparedFit:  # fmt: skip
    """Over arrays: the engine runs whole epochs, or batches come one by one."""
    events, validation, there = run.callbacks, found.validation, found.there
    batch = data.batch_size_of(samples.rows, batch_size, steps)
    own = batch  # of validation
    if validation is not None:
        own = data.batch_size_of(validation.rows, validation_batch, validation_steps)
        if validation_steps is not None:
            validation = validation.part(0, min(validation.rows, validation_steps * own))
    if steps is None and (own == batch or not events.every_test):

        def in_one() -> Any:
            events.set_steps(-(-samples.rows // batch))
            with there.start(samples, validation) if there is not None else nullcontext():
                return run.run(run.arrays(samples, validation, shuffle, batch))

        return PreparedFit(events, in_one)
    held = Validation(validation, batch=own) if validation is not None else None
    order = events.shared.order if events.shared is not None else None
    batches = data.ArrayBatches(samples, batch, shuffle, order)
    epochs_of = partial(run.batches, batches, steps, None, shuffle, held)
    return PreparedFit(events, lambda: run.run(epochs_of()))


def evaluate(
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    verbose: Any = "auto",
    sample_weight: Any = None,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,
    **options: Any,
) -> Any:
    """Loss and metrics as `model.evaluate` gives them. Further options as in `fit`.

    Nothing is printed, whatever `verbose` is.
    """
    _check_counts(batch_size=batch_size)
    _check_compiled(model)
    return inference.evaluate(model, x, y, batch_size, sample_weight, steps, callbacks, verbose,
                              return_dict, Options.of(options))  # fmt: skip


def predict(
    model: Any,
    x: Any,
    batch_size: int | None = None,
    verbose: Any = "auto",
    steps: int | None = None,
    callbacks: Any = None,
    **options: Any,
) -> Any:
    """The model's outputs, as `model.predict` gives them. Further options as in `fit`.

    The plan and its memory are kept for the next call (`release` ends that).
    """
    _check_counts(batch_size=batch_size)
    return inference.predict(model, x, batch_size, steps, callbacks, verbose, Options.of(options))


def train_on_batch(
    model: Any,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    return_dict: bool = False,
    **options: Any,
) -> Any:
    """One step, as `model.train_on_batch` does it. Further options as in `fit`.

    The model's variables hold the outcome when the call returns.
    """
    _check_compiled(model)
    return on_batch.train(
        model, x, y, sample_weight, class_weight, return_dict, Options.of(options)
    )


def test_on_batch(
    model: Any,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    return_dict: bool = False,
    **options: Any,
) -> Any:
    """Loss and metrics of one batch, as `model.test_on_batch` gives them."""
    _check_compiled(model)
    return on_batch.test(model, x, y, sample_weight, return_dict, Options.of(options))


def predict_on_batch(model: Any, x: Any, **options: Any) -> Any:
    """The outputs for one batch, as `model.predict_on_batch` gives them."""
    return on_batch.predict(model, x, Options.of(options))


def plan(
    model: Any, batch_size: int = BATCH, input_shape: Any = None, **options: Any
) -> PlanAnswer:
    """What a training step of this batch size takes, before anything is taken.

    `input_shape`: of a sample, where the model leaves sizes open; for several inputs a list or
    dict of shapes. Without it, that of the last call.
    The figures are the engine's own; `held` is what the process holds beside it. Raises as `fit`
    does, but for a limit that is not met: that is an answer.
    """
    _check_compiled(model)
    shapes = sizes.given_shapes(model, input_shape) if input_shape is not None else ()
    return plan_of(live.live_model(model, shapes=shapes), batch_size, options)


def plan_of(known: live.Live, batch_size: int, options: dict[str, Any]) -> PlanAnswer:
    """The same of a model that is known."""
    how = Options.of(options)
    how.handed = known.largest
    if how.memory is not None:
        release()
    answer = guarded(lambda: how.planned(known.engine, batch_size))
    return PlanAnswer(answer, how.limits.held, how.limits.reserve, how.limits.memory)
