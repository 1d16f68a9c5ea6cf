"""Keras models trained inside a memory limit.

    history = plimsoll.fit(model, x, y, batch_size=128, epochs=3, memory="2GiB")

The model is an ordinary compiled Keras model; after the call it holds the trained weights and the
optimizer's state. `memory` bounds the whole process. Where the limit cannot be met,
`ResourceExhausted` (a MemoryError) says why and what would do, before anything has changed.
Results do not depend on the limit.
"""

from __future__ import annotations

import itertools
from typing import Any

from plimsoll import _core, data, live, loop
from plimsoll.answers import PlanAnswer
from plimsoll.errors import Refused, ResourceExhausted
from plimsoll.loop import Callbacks, Fit, Listener, Options, Stepper

__all__ = ["PlanAnswer", "Refused", "ResourceExhausted", "evaluate", "fit", "plan", "predict"]
__version__ = _core.__version__

_BATCH = 32  # Keras's


def _check_batch_size(batch_size: int | None) -> None:
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size: expected 1 or more, received {batch_size}.")


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
    **options: Any,
) -> Any:
    """Trains as `model.fit` does, inside a limit; returns Keras's History.

    `x` and `y` are arrays (for several inputs or outputs lists or dicts of them), or `x` yields
    batches: a tf.data.Dataset, a PyDataset, a generator. Beyond Keras's arguments:

    memory: bytes of the whole process, or "2GiB", "75%", "auto"; None: the fastest plan.
    reserve: what of them others may take while the call runs; default the larger of 64 MiB and
        10 %.
    threads, seed (of dropout), precision ("f32", "bf16"), plan_time, max_slowdown, without,
    spill, spill_dir, times, tune, backend: as on the command line.

    Raises ResourceExhausted where the limit cannot be met, Refused (a ValueError) naming what is
    not Keras's own, ValueError and TypeError for data as Keras does. Ctrl-C leaves what was trained
    so far in the model.
    """
    if not model.compiled:
        raise ValueError(f"{model.name}: expected a compiled model. Call model.compile(…) first.")
    _check_batch_size(batch_size)
    if shuffle not in (True, False):
        raise ValueError(f"shuffle: expected True or False, received {shuffle!r}.")
    known = live.live_model(model)
    how = Options(**options)
    events = Callbacks(known, callbacks, epochs, verbose)
    run = Fit(known, how, events, epochs, initial_epoch, validation_freq)
    if data.is_iterated(x):
        for name, given in (("y", y), ("sample_weight", sample_weight)):
            if given is not None:
                raise ValueError(f"{name}: expected it in the batches of x, received it beside.")
        if validation_split:
            raise ValueError("validation_split: expected arrays, received batches.")
        return run.run(run.batches(x, validation_data, steps_per_epoch, class_weight,
                                   validation_steps, shuffle))  # fmt: skip
    if steps_per_epoch is not None:
        raise ValueError("steps_per_epoch: expected data that yield batches, received arrays.")
    samples = data.samples_of(known.engine, x, y, sample_weight, class_weight)
    samples, validation = loop._validation(known.engine, validation_data, validation_split, samples)
    batch = batch_size or _BATCH
    events.set_steps(-(-samples.rows // batch))
    return run.run(run.arrays(samples, validation, shuffle, batch))


def evaluate(
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    verbose: Any = "auto",
    sample_weight: Any = None,
    steps: int | None = None,
    return_dict: bool = False,
    **options: Any,
) -> Any:
    """Loss and metrics as `model.evaluate` gives them. Further options as in `fit`.

    `steps`: of what yields batches, so many. Nothing is printed, whatever `verbose` is.
    """
    del verbose
    _check_batch_size(batch_size)
    if not model.compiled:
        raise ValueError(f"{model.name}: expected a compiled model. Call model.compile(…) first.")
    known = live.live_model(model)
    how = Options(**options)
    known.adopt()
    try:
        if data.is_iterated(x):
            stepper = Stepper(known, how, Listener())
            for batch in itertools.islice(data.batches_of(x)[0], steps):
                stepper.step(data.samples_of(known.engine, *data.unpacked(batch)), train=False)
            logs = stepper.logs()
        else:
            samples = data.samples_of(known.engine, x, y, sample_weight)
            logs = dict(known.engine.evaluate(how.settings(batch_size or _BATCH), samples.arrays(),
                                              Listener()))  # fmt: skip
    except _core.EngineError as error:
        raise how.explain(error) from None
    finally:
        known.engine.close()
    if return_dict:
        return dict(sorted(logs.items()))  # Keras's order
    return model._flatten_metrics_in_order(logs)


def predict(
    model: Any, x: Any, batch_size: int | None = None, verbose: Any = "auto", **options: Any
) -> Any:
    """The model's outputs, as `model.predict` gives them. Further options as in `fit`."""
    import numpy as np

    del verbose
    _check_batch_size(batch_size)

    known = live.live_model(model)
    how = Options(**options)
    known.adopt()
    parts: list[list[Any]] = []
    try:
        whole = [(x,)] if not data.is_iterated(x) else data.batches_of(x)[0]
        for one in whole:
            samples = data.samples_of(known.engine, data.unpacked(one)[0])
            parts.append(list(known.engine.predict(how.settings(batch_size or _BATCH),
                                                   samples.arrays(), Listener())))  # fmt: skip
    except _core.EngineError as error:
        raise how.explain(error) from None
    finally:
        known.engine.close()
    outputs = parts[0] if len(parts) == 1 else [np.concatenate(all) for all in zip(*parts)]
    structure = getattr(model, "_outputs_struct", None)
    if isinstance(structure, (dict, list, tuple)):
        return live.keras_module().tree.pack_sequence_as(structure, outputs)
    return outputs[0] if len(outputs) == 1 else outputs


def plan(model: Any, batch_size: int = _BATCH, **options: Any) -> PlanAnswer:
    """What a training step of this batch size takes, before anything is taken.

    The figures are the engine's own; `held` is what the process holds beside it. Raises as `fit`
    does, but for a limit that is not met: that is an answer.
    """
    if not model.compiled:
        raise ValueError(f"{model.name}: expected a compiled model. Call model.compile(…) first.")
    known = live.live_model(model)
    how = Options(**options)
    how.refuses = False
    settings = how.settings(batch_size)
    held = how.limits.held
    answer = live.guarded(lambda: known.engine.plan(settings, Listener()))
    return PlanAnswer(answer, held, how.limits.reserve, how.limits.memory)
