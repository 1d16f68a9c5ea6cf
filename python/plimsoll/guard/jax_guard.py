"""Keras's own steps on JAX: one for which memory runs out is undone and done again in parts.

XLA says that an allocation failed when a step is started or when its result is waited for; so each
part is waited for before anything that cannot be undone begins. A step changes no array that it is
given until its update (jax_step.py), and what the update overwrites is kept beside the device until
one has been through. So a step that failed leaves nothing: not weights, nor the optimizer's
variables, seeds, statistics or metrics.

Nothing is measured here: a limit for the process on a processor is not kept, which a line says.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from plimsoll import asked
from plimsoll.guard import proof as guard_proof
from plimsoll.guard import sizes as guard_sizes
from plimsoll.guard.batches import ArrayPacking, Arrays, arrays_of
from plimsoll.guard.jax_step import JaxStep, State, rows_of
from plimsoll.guard.parts import shares_of
from plimsoll.guard.unmeasured import Unmeasured


class _Kept:
    """Weights and the optimizer's variables, beside the device."""

    def __init__(self, state: State) -> None:
        import numpy as np

        self._lists = [[np.array(one) for one in state[at]] for at in (0, 2)]

    def restored(self, state: State) -> State:
        """The state as it was, where what it had is gone."""
        trainable, slots = (
            [_again(one, value) if one.is_deleted() else one for one, value in zip(own, values)]
            for own, values in zip((state[0], state[2]), self._lists)
        )
        return trainable, state[1], slots, state[3]


def _again(gone: Any, value: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.device_put(value, gone.sharding) if gone.committed else jnp.asarray(value)


def _is_gone(state: State) -> bool:
    return any(one.is_deleted() for some in state for one in some if hasattr(one, "is_deleted"))


class JaxGuard(Unmeasured):
    """On JAX; `train` stands in place of Keras's train function."""

    named = ("jax", "XLA")

    def __init__(self, model: Any, what: asked.Asked) -> None:
        super().__init__(model, what)
        self._steps: dict[str, JaxStep] = {}
        self._state: State | None = None  # of the batch that is trained

    def train(self, state: State, iterator: Iterator[Any]) -> tuple[Any, State]:
        """Keras's train function: steps on batches of an iterator; logs and the state after."""
        logs, has_begun = None, False
        for _ in range(self._model().steps_per_execution):
            try:
                data = next(iterator)
            except StopIteration:
                if not has_begun:
                    raise
                break
            logs, state = self._batch(state, data)
            has_begun = True
        return logs, state

    def _batch(self, state: State, data: Any) -> tuple[Any, State]:
        arrays, why = arrays_of(data)
        step = None if why else self._step(data, arrays, state)
        if step is None:
            if why and not self._reason:
                self._leave_whole(why)
            logs, after = self._keras(state, iter([data]))
            return logs, after
        batch = int(arrays[0].shape[0])
        self._state = state
        try:
            if self.rows == 0:
                self._choose(step, arrays, batch)
            return self._train(step, arrays, batch)
        except BaseException:
            self._give_back(self._state)
            raise
        finally:
            self._state = None

    def _give_back(self, state: State) -> None:
        """Before an error reaches the program: Keras's `fit` has taken its arrays from the model,
        which has the state before the step again."""
        if _is_gone(state):
            return
        model = self._model()
        names = ("trainable_variables", "non_trainable_variables", "optimizer_variables",
                 "metrics_variables")  # fmt: skip
        model._jax_state, model._jax_state_synced = dict(zip(names, state)), False
        model.jax_state_sync()

    def _step(self, data: Any, arrays: Arrays, state: State) -> JaxStep | None:
        """None: it cannot be done in two functions, which has been said."""
        packing = ArrayPacking(data)
        if packing.key not in self._steps:
            if self._reason and not self._steps:
                return None
            try:
                self._steps[packing.key] = JaxStep(self._model(), packing, state, arrays)
            except Exception as error:
                self._cannot(error)
                return None
        return self._steps[packing.key]

    def _coupled(self, step: JaxStep, tensors: Arrays) -> str:
        modes = [False] if step.has_statistics or step.draws() else [False, True]
        state = self._state
        assert state is not None

        def coupled(few: Arrays) -> str:
            looks = (step.looking(state, mode) for mode in modes)
            found = (guard_proof.coupled(look, few, step.draws()) for look in looks)
            return next((one for one in found if one), "")

        return self._looked(coupled, tensors)

    def _no_memory(self, text: str) -> BaseException:
        # As XLA's own begin.
        return super()._no_memory(f"RESOURCE_EXHAUSTED: {text} The last error: {self._said}")

    def _train(self, step: JaxStep, arrays: Arrays, batch: int) -> tuple[Any, State]:
        """One batch, in the parts that are known to fit, or in smaller ones where they do not."""
        while True:
            rows = guard_sizes.even(batch, min(self.rows, batch))
            if rows < batch and not self._is_approved(step, arrays, rows):
                rows = batch
            kept = None if self._is_checked else self._keep()
            try:
                logs, after = self._parts(step, arrays, batch, rows)
            except Exception as error:
                assert self._state is not None
                is_lost = kept is None and _is_gone(self._state)  # another update has fitted
                if not guard_sizes.is_of_memory(error) or is_lost:
                    raise
                why = type(error).__name__
                self._said = " ".join(str(error).split())[:200]
            else:
                self._done(step, batch, rows)
                return logs, after
            gc.collect()
            if kept is not None:
                self._state = kept.restored(self._state)
            self._shrink(step, arrays, rows, why)

    def _keep(self) -> _Kept:
        assert self._state is not None
        return _Kept(self._state)

    def _parts(self, step: JaxStep, arrays: Arrays, batch: int, rows: int) -> tuple[Any, State]:
        """The batch in parts of so many samples, and one update: logs, and the state after."""
        import jax

        state = self._state
        assert state is not None
        starts = range(0, batch, rows)
        sizes = [min(rows, batch - at) for at in starts]

        def piece(index: int) -> Arrays:
            return [rows_of(one, starts[index], rows) for one in arrays]

        shares = shares_of(step.traced, sizes, batch, lambda at: step.counts(state, piece(at)))
        fixed, metrics = state[1], state[3]
        sums: Any = None
        first: dict[int, Any] = {}
        changed: dict[int, Any] = {}
        seen: list[Arrays] = []
        for index, size in enumerate(sizes):
            given = (state[0], fixed, state[2], metrics)
            gradients, small, changed, metrics, told = step.part(
                given, piece(index), shares[index], size / batch, index
            )
            first = first or changed
            fixed = step.between(fixed, changed)
            sums = (gradients, small) if sums is None else step.add(sums, (gradients, small))
            seen.append(told)
            del gradients, small, told
        gradients, small = sums
        fixed = step.afterwards(fixed, first, small)
        logs = None
        if step.gathers:
            joined = [_joined(list(some)) for some in zip(*seen)]
            logs, metrics = step.told(metrics, small, batch, arrays, joined)
        own, trainable, slots, metrics = step.update(state, metrics, gradients, small, batch)
        if not self._is_checked:
            jax.block_until_ready((trainable, slots))
        return own if logs is None else logs, (trainable, fixed, slots, metrics)


def _joined(some: Arrays) -> Any:
    import jax.numpy as jnp

    return some[0] if len(some) == 1 else jnp.concatenate(some)
