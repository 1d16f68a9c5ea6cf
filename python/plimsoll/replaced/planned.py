"""The plan of a program's first training call, in place of the call."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from plimsoll import calls, data, sizes
from plimsoll.answers import PlanAnswer
from plimsoll.model import live
from plimsoll.surroundings import call_site

DOES_NOT_FIT = 3  # the exit code, as of `plimsoll plan`


def _batch(known: live.Live, x: Any, batch_size: int | None, steps: int | None) -> int:
    """Samples of a batch, as the call would cut them."""
    if not data.is_iterated(x):
        return data.batch_size_of(known.samples_of(x).rows, batch_size, steps)
    first = next(iter(data.batches_of(x)[0]), None)
    if first is None:
        raise ValueError("x: expected batches, received none.")
    return known.samples_of(data.unpacked(first)[0]).rows


def end_with_plan(
    model: Any, x: Any, batch_size: int | None, steps: int | None, options: dict[str, Any]
) -> NoReturn:
    """Prints what a training step takes and ends the process. Raises as `fit` does.

    The process ends here: no `finally` of the program saves a model that was not trained.
    """
    shapes, x = sizes.of_data(model, x)
    known = live.live_model(model, shapes=shapes)
    batch = _batch(known, x, batch_size, steps)
    _end(model, batch, calls.plan(model, batch, **options))


def end_with_step(known: live.Live, x: Any, options: dict[str, Any]) -> NoReturn:
    """The same for a training step of the program's own on a batch."""
    batch = known.samples_of(x).rows
    _end(known.model, batch, calls.plan_of(known, batch, options))


def _end(model: Any, batch: int, answer: PlanAnswer) -> NoReturn:
    print(f"{call_site()}: {model.name}, batches of {batch}\n\n{answer}")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if answer.fits else DOES_NOT_FIT)
