"""What a training step takes: predicted by the plan, and measured where a step can be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plimsoll import calls, sizes
from plimsoll.answers import PlanAnswer
from plimsoll.data import BATCH
from plimsoll.errors import Refused
from plimsoll.isolation import isolate
from plimsoll.model import live
from plimsoll.options import MIB, Listener


@dataclass(frozen=True)
class Peak:
    """Sizes are in bytes; None is what is not known.

    engine: "native", or "keras" where the engine refuses the model, for `reason`. fits: whether
    there is a plan within the limit. held: by interpreter, framework and the program's arrays.
    predicted, measured: of the whole process; predicted_ours, measured_ours: without `held`.
    plan: the whole answer of `plimsoll.plan`.
    """

    engine: str
    reason: str = ""
    fits: bool | None = None
    held: int | None = None
    predicted: int | None = None
    predicted_ours: int | None = None
    measured: int | None = None
    measured_ours: int | None = None
    plan: PlanAnswer | None = None

    def __str__(self) -> str:
        if self.engine != "native":
            return f"{self.engine}: nothing is predicted: {self.reason}"
        rows = [
            ("held before", self.held), ("predicted peak", self.predicted),
            ("measured peak", self.measured),
        ]  # fmt: skip
        lines = [f"{name:14} {size / MIB:9.1f} MiB" for name, size in rows if size is not None]
        return "\n".join([f"{self.engine}: {'fits' if self.fits else 'does not fit'}", *lines])


def _measured(
    model: Any, shapes: sizes.Shapes, x: Any, y: Any, batch: int, answer: PlanAnswer,
    options: dict[str, Any],
) -> int:  # fmt: skip
    """By how much a process of its own grew in one step of the plan; its state is dropped."""
    share = None
    if answer.memory is not None:
        share = answer.memory - answer.held - answer.reserve
    known = live.live_model(model, shapes=shapes)
    options = {**options, "memory": None, "reserve": None}
    there, how, engine = isolate.elsewhere(known, options, share)
    samples = known.samples_of(x, y)
    if samples.rows < batch:
        raise ValueError(f"x: expected {batch} samples, one batch, received {samples.rows}.")
    with engine.start(samples.part(0, batch), None):
        there.adopt()
        engine.fit(how.settings(batch), None, None, None, True, False, False, False, 0,
                   Listener())  # fmt: skip
        return engine.grown


def predict_peak(
    model: Any, batch_size: int = BATCH, x: Any = None, y: Any = None, **options: Any
) -> Peak:
    """The most memory that training in batches of this size takes, before anything is trained.

    Predicted by the plan. With `x` and `y`, arrays of a batch or more, it is measured too: one
    step is done in a process of its own and what it trained is dropped, so the model stays as it
    is. Further options as in `plan`.

    A model that the engine refuses is an answer, `engine="keras"`. Raises else as `plan` does, and
    ChildProcessError where the process that measures is killed.
    """
    shapes: sizes.Shapes = ()
    try:
        if x is not None:
            shapes, x = sizes.of_data(model, x)
        named = options.pop("input_shape", None)
        if shapes and named is None and len(shapes) == 1:
            named = shapes[0]
        elif shapes and named is None:
            named = list(shapes)
        answer = calls.plan(model, batch_size, named, **options)
    except Refused as error:
        return Peak("keras", str(error))
    ours = None
    if answer.fits and x is not None:
        ours = _measured(model, shapes, x, y, batch_size, answer, options)
    return Peak(
        "native", "", answer.fits, answer.held,
        answer.predicted, answer.predicted - answer.held,
        None if ours is None else answer.held + ours, ours, answer,
    )  # fmt: skip
