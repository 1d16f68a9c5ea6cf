"""Keras's own steps on torch: one for which memory runs out is undone and done again in parts.

torch says where it asks for memory that there is none, so that nothing is pending by then. Keras's
own function does whole batches. It updates when all gradients are there; what it changes before
that is held in each step, and weights and the optimizer's variables until one update has been
through, or in each step where the process has a limited address space. How often a variable was
written tells whether a failed step had begun its update.

Nothing is measured here: a limit for the process on a processor is not kept, which a line says.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from plimsoll import asked
from plimsoll.guard import proof as guard_proof
from plimsoll.guard import sizes as guard_sizes
from plimsoll.guard.batches import ArrayPacking, Arrays, arrays_of
from plimsoll.guard.parts import shares_of
from plimsoll.guard.torch_step import Kept, TorchState, TorchStep, release
from plimsoll.guard.unmeasured import Unmeasured


class _Doubtful(Exception):
    """What is seen only when a step has been done in parts."""


class TorchGuard(Unmeasured):
    """On torch; `train` stands in place of Keras's train function."""

    named = ("torch", "torch")

    def __init__(self, model: Any, what: asked.Asked) -> None:
        super().__init__(model, what)
        self._steps: dict[str, TorchStep] = {}
        self._always_keeps = guard_sizes.may_raise(False)

    def train(self, data: Any) -> Any:
        """Keras's train function: a step on the one batch of a list; its logs."""
        arrays, why = arrays_of(data[0])
        if not why and not self._model().trainable_variables:
            why = "it has no weights that are trained"
        if why:
            if not self._reason:
                self._leave_whole(why)
            return self._keras(data)
        step, batch = self._step(data[0]), int(arrays[0].shape[0])
        if self.rows == 0:
            self._choose(step, arrays, batch)
        while True:
            rows = guard_sizes.even(batch, min(self.rows, batch))
            if rows < batch and not self._is_approved(step, arrays, rows):
                rows = batch
            logs, why, doubt = self._try(step, data, arrays, rows)
            if not why and not doubt:
                self._done(step, batch, rows)
                return logs
            gc.collect()
            release()
            if doubt:
                self._leave_whole(f"{doubt}. --inexact cuts it all the same")
            else:
                self._shrink(step, arrays, rows, why)

    def _step(self, data: Any) -> TorchStep:
        packing = ArrayPacking(data)
        if packing.key not in self._steps:
            self._steps[packing.key] = TorchStep(self._model(), packing)
        return self._steps[packing.key]

    def _is_approved(self, step: TorchStep, arrays: Arrays, rows: int) -> bool:
        """A step is looked at when it is to be cut for the first time, and not before: the
        program's code runs once more for that."""
        if self._reason:
            return False
        if not step.is_looked_at:
            try:
                step.look(arrays)
            except Exception as error:
                if not guard_sizes.is_of_memory(error):
                    self._cannot(error)
                return False
        return super()._is_approved(step, arrays, rows)

    def _coupled(self, step: TorchStep, tensors: Arrays) -> str:
        modes = [False] if step.has_statistics or step.draws() else [False, True]

        def coupled(few: Arrays) -> str:
            before = step.state()

            def asking(mode: bool) -> Callable[[Arrays], Any]:
                look = step.looking(mode)

                def ask(part: Arrays) -> Any:
                    before.restore()
                    return look(part)

                return ask

            try:
                found = [guard_proof.coupled(asking(one), few, step.draws()) for one in modes]
            finally:
                before.restore()
            return next((one for one in found if one), "")

        return self._looked(coupled, tensors)

    def _no_memory(self, text: str) -> BaseException:
        # Programs look for these words in what torch says.
        return super()._no_memory(f"out of memory: {text} The last error: {self._said}")

    def _try(self, step: TorchStep, data: Any, arrays: Arrays, rows: int) -> tuple[Any, str, str]:
        """One batch, so many samples at a time: its logs; or why it was undone, which is that
        memory ran out, or that parts change what they should not."""
        before, kept, weights = step.state(), self._keep(step), step.weights_in(arrays)
        versions, is_whole = step.versions(), rows >= int(arrays[0].shape[0])
        why = doubt = ""
        try:
            if is_whole:
                return self._keras(data), "", ""
            return self._parts(step, arrays, rows, before), "", ""
        except _Doubtful as error:
            doubt = str(error)
        except BaseException as error:
            is_updated = kept is None and step.versions() != versions
            if not guard_sizes.is_of_memory(error) or is_updated:
                if not is_whole and not is_updated:
                    before.restore()
                raise
            why = type(error).__name__
            self._said = " ".join(str(error).split())[:200]
        before.restore()
        weights.restore()
        if kept is not None:
            kept.restore()
        step.zero()
        return None, why, doubt

    def _keep(self, step: TorchStep) -> Kept | None:
        """Weights and the optimizer's variables, while it is not known that an update fits."""
        if self._is_checked and not self._always_keeps:
            return None
        try:
            return Kept(step.updated())
        except Exception as error:
            if not guard_sizes.is_of_memory(error):
                raise
            return None  # the step may fit all the same

    def _parts(self, step: TorchStep, arrays: Arrays, rows: int, before: TorchState) -> Any:
        """The batch in parts of so many samples, and one update: logs."""
        batch = int(arrays[0].shape[0])
        pieces = [[one[at : at + rows] for one in arrays] for at in range(0, batch, rows)]
        sizes = [int(one[0].shape[0]) for one in pieces]
        shares = shares_of(step.traced, sizes, batch, lambda at: step.counts(pieces[at]))
        before.restore()  # what was counted leaves no trace
        step.zero()
        sums: list[Any] = []
        seen: list[Any] = []
        for index, piece in enumerate(pieces):
            small, told = step.part(piece, shares[index], sizes[index] / batch, index)
            sums = step.add(sums, small) if index else small
            seen.append(told)
        if not self._is_checked and not self._inexact:
            changed = before.changed(step.watched())
            if changed:
                raise _Doubtful(f"{changed} changes in each part")
        logs = step.told(sums, batch, arrays, _joined(seen) if step.gathers else [])
        step.update()
        return logs


def _joined(seen: list[Any]) -> list[list[Any]]:
    """Predictions of the batch, each with its mask, from those of parts."""
    import torch

    return [[torch.cat(list(some)) for some in zip(*each)] for each in zip(*seen)]
