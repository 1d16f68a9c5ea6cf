"""Validation in a fit that Keras does: its batches are cut as those of training are.

Keras's own function is called with one part after the other, as with batches of that size. Its loss
and metrics are means over samples, so they come to the same but for rounding; where they may not,
batches stay whole, and what they take is told as validation's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plimsoll.guard import sizes as guard_sizes
from plimsoll.guard.base import mib, samples
from plimsoll.guard.parts import again, each_batch, tensors_of
from plimsoll.guard.step import Packing

if TYPE_CHECKING:
    from plimsoll.guard.decide import Guard


class Validation:
    """Stands in place of Keras's test function; `guard` knows what training is cut into."""

    def __init__(self, guard: Guard, model: Any) -> None:
        self._guard, self._model = guard, model
        model.make_test_function()
        self._keras = model.test_function
        self._told = False
        self.has_run = False  # since a step of training
        model.test_function = self._ours = self._steps

    def end(self) -> None:
        if self._model.test_function is self._ours:
            self._model.test_function = self._keras

    def _steps(self, iterator: Any) -> Any:
        return each_batch(iterator, self._model.steps_per_execution, self._batch)

    def _batch(self, given: Any, element: Any) -> Any:
        measures = self._guard.measures and not self._told
        if measures and not self.has_run:
            guard_sizes.release()
            guard_sizes.reset_peak()
        self.has_run = True
        data, tensors, why = tensors_of(given)
        count = 0 if why else int(tensors[0].shape[0])
        packing = None if why else Packing(data, element)
        rows = 0 if packing is None else self._rows(packing, count)
        if packing is None or not rows:
            logs = self._keras(again(given, element))
        else:
            told = None if packing.is_static else element  # it tells the size of the whole
            for at in range(0, count, rows):
                part = packing.packed(one[at : at + rows] for one in tensors)
                logs = self._keras(again(part, told))
        if measures:
            self._look(count, rows or count)
        return logs

    def _rows(self, packing: Packing, count: int) -> int:
        """Samples of a part; 0: the batch stays whole."""
        rows = self._guard.rows_of(packing)
        return guard_sizes.even(count, rows) if 0 < rows < count else 0

    def _look(self, count: int, rows: int) -> None:
        """At what it has taken, against the limit."""
        limit, taken = self._guard.limit, guard_sizes.peak(read_meanwhile=False)
        if limit is None or taken <= limit:
            return
        self._told = True
        how = "" if rows == count else ", in parts of " + samples(rows)
        self._guard.say(
            f"validation with batches of {samples(count)}{how} took {mib(taken)}, above the limit "
            f"of {mib(limit)}: a smaller validation_batch_size= takes less."
        )
