"""Keras's training step on JAX in two functions: gradients of a part, and one update.

As step.py, which says what share each term has. Keras's step on JAX is a function of its state to
another one: trainable variables, non-trainable ones, the optimizer's, and metrics', each a list of
arrays. Keras's compiled step may overwrite the state that it is given (JAX calls it donated), so
that nothing is left of it where memory runs out. Here a part overwrites nothing. The update
overwrites weights and the optimizer's variables, as Keras's does, lest they are there twice; who
calls it for the first time keeps a copy of them.

A part draws from seeds of its own: the first word of each seed is changed by the number of the
part, and the second one counts draws as in one step. So seeds are after a batch in parts what they
are after a whole one.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from plimsoll.guard import jax_graph
from plimsoll.guard import proof as guard_proof
from plimsoll.guard.batches import ArrayPacking, Arrays
from plimsoll.guard.weighed import Traced, losses_of, moving_statistics, seeds_of

_SPREADS = 0x9E3779B9  # odd: another number for each part

State = tuple[Arrays, Arrays, Arrays, Arrays]


@functools.cache
def _slicer() -> Callable[..., Any]:
    import jax

    compiled: Callable[..., Any] = jax.jit(
        lambda one, at, rows: jax.lax.dynamic_slice_in_dim(one, at, rows), static_argnums=2
    )
    return compiled


def rows_of(array: Any, at: int, rows: int) -> Any:
    """Rows of an array, `at` and the following, as many as there are."""
    rows = min(rows, int(array.shape[0]) - at)
    if at == 0 and rows == int(array.shape[0]):
        return array
    if not hasattr(array, "is_deleted"):  # NumPy's
        return array[at : at + rows]
    return _slicer()(array, at, rows)


class JaxStep:
    """The step of one model for batches of one kind."""

    def __init__(self, model: Any, packing: ArrayPacking, state: State, arrays: Arrays) -> None:
        """state, arrays: what the first step is given; nothing of it is changed."""
        self._model = weakref.ref(model)
        self.packing, self.traced = packing, Traced()
        self.gathers = False
        self._compiles = model.jit_compile and not model.run_eagerly
        fixed = model.non_trainable_variables
        moving = {id(one) for one in moving_statistics(model)}
        seeds = {id(one) for one in seeds_of(model)}
        self._moving = [at for at, one in enumerate(fixed) if id(one) in moving]
        self._seeds = [at for at, one in enumerate(fixed) if id(one) in seeds]
        compiled = model._compile_loss
        self._losses = max(1, len(compiled._flat_losses or [])) if compiled is not None else 1
        self._of_part = self._jit(self._gradient)
        self._of_counts = self._jit(self._counts)
        self._add = self._jit(self._sum, donate_argnums=0)
        self._update = self._jit(self._apply, donate_argnums=(0, 1))
        self._measure = self._jit(self._told)
        self.acts = self._look(state, arrays)

    @property
    def model(self) -> Any:
        return self._model()

    @property
    def has_statistics(self) -> bool:
        return bool(self._moving)

    def draws(self) -> bool:
        return bool(self._seeds)

    def _jit(self, function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
        """As Keras compiles its own step."""
        if not self._compiles:
            return function
        import jax

        compiled: Callable[..., Any] = jax.jit(function, **how)
        return compiled

    def _look(self, state: State, arrays: Arrays) -> str:
        """What is learnt in a trace; where the model runs eagerly, from one sample. Returns a
        primitive that does what cannot be put back."""
        numbers = self._numbers([1.0] * self._losses, 1.0, 0)
        if not self._compiles:
            self._of_part(*state, [rows_of(one, 0, 1) for one in arrays], *numbers)
            return ""
        traced = self._of_part.trace(*state, arrays, *numbers)  # type: ignore[attr-defined]
        return jax_graph.acts(traced.jaxpr)

    @staticmethod
    def _numbers(shares: list[float], share: float, part: int) -> tuple[Any, Any, Any]:
        """As arrays, so that other numbers are no other function."""
        import numpy as np

        salt = np.uint32(part * _SPREADS & 0xFFFFFFFF)
        return np.asarray(shares, "float64"), np.asarray(share, "float64"), salt

    def _salted(self, fixed: Arrays, salt: Any) -> Arrays:
        """With the first word of each seed changed; done twice, it is what it was."""
        import jax.numpy as jnp

        found = list(fixed)
        for at in self._seeds:
            if fixed[at] is not None and tuple(fixed[at].shape) == (2,):
                word = jnp.stack([jnp.asarray(salt), jnp.zeros((), "uint32")])
                found[at] = jnp.bitwise_xor(fixed[at], word.astype(fixed[at].dtype))
        return found

    def _forward(
        self, trainable: Arrays, fixed: Arrays, x: Any, training: bool
    ) -> tuple[Any, Arrays, Arrays]:
        """Predictions, non-trainable variables, and losses that layers have added."""
        given = {"training": training} if self.model._call_has_training_arg else {}
        found: tuple[Any, Arrays, Arrays] = self.model.stateless_call(
            trainable, fixed, x, return_losses=True, **given
        )
        return found

    def _summed(
        self, trainable: Arrays, fixed: Arrays, metrics: Arrays, arrays: Arrays, shares: Any,
        share: Any, training: bool = True,
    ) -> tuple[Any, Any, list[Any], Any, Arrays, Arrays]:  # fmt: skip
        """The part's summand of the loss, each loss and what it is divided by, predictions, and
        the variables afterwards."""
        from keras.src import backend

        model = self.model
        x, y, weight = self.packing.unpacked(arrays)
        y_pred, fixed, added = self._forward(trainable, fixed, x, training)
        mapping = [*zip(model.trainable_variables, trainable),
                   *zip(model.non_trainable_variables, fixed),
                   *zip(model.metrics_variables, metrics)]  # fmt: skip
        with backend.StatelessScope(state_mapping=mapping) as scope:
            total, mine = self._total(x, y, y_pred, weight, added, shares, share)
        values, counts = [one.value for one in mine], [one.count for one in mine]
        fixed = [scope.get_current_value(one) for one in model.non_trainable_variables]
        metrics = [scope.get_current_value(one) for one in model.metrics_variables]
        return total, values, counts, y_pred, fixed, metrics

    def _total(
        self, x: Any, y: Any, y_pred: Any, weight: Any, added: Arrays, shares: Any, share: Any
    ) -> tuple[Any, list[Any]]:
        from keras import ops, tree

        model, traced = self.model, self.traced
        traced.doubt(guard_proof.why_not_model(model))
        if guard_proof._is_own(model, "compute_loss") or model._compile_loss is None:
            model._losses_override = added
            try:
                loss = model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight,
                                           training=True)  # fmt: skip
            finally:
                model._losses_override = []
            return loss * ops.cast(share, loss.dtype), []
        rows = float(next(one for one in tree.flatten(x) if one is not None).shape[0])
        total, mine = losses_of(model, traced, y, y_pred, weight, shares, rows)
        for layer in guard_proof.layers_of(model) if added else []:
            if layer._loss_ids and not guard_proof.adds_a_mean(layer):
                traced.doubt(f"layer {layer.name} adds to the loss by add_loss")
        summands = [total]
        for loss in added:
            one = model._aggregate_additional_loss(loss)
            summands.append(one * ops.cast(share, one.dtype))
        return (ops.sum(summands) if len(summands) > 1 else total), mine

    def _gradient(
        self, trainable: Arrays, fixed: Arrays, slots: Arrays, metrics: Arrays, arrays: Arrays,
        shares: Any, share: Any, salt: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Summands (gradients; the loss, the losses, statistics), non-trainable variables that
        have changed, by number, metrics, and the predictions where they are gathered."""
        import jax
        from keras import tree
        from keras.src import backend

        model = self.model
        given = self._salted(fixed, salt) if self._seeds else list(fixed)

        def scaled(trainable: Arrays) -> tuple[Any, Any]:
            total, values, _, y_pred, now, told = self._summed(
                trainable, given, metrics, arrays, shares, share
            )
            changed = {at: one for at, one in enumerate(now) if one is not given[at]}
            mapping = list(zip(model.optimizer.variables, slots))
            with backend.StatelessScope(state_mapping=mapping):
                loss = model.optimizer.scale_loss(total)
            return loss, (total, values, y_pred, changed, told)

        (_, (total, values, y_pred, changed, metrics)), gradients = jax.value_and_grad(
            scaled, has_aux=True
        )(trainable)
        metrics = self._tell(metrics, arrays, y_pred)
        self.traced.structure = tree.map_structure(lambda _: 0, y_pred)
        values = [one * backend.cast(shares[at], one.dtype) for at, one in enumerate(values)]
        self._moving = [at for at in self._moving if at in changed]  # a frozen layer changes none
        statistics = [changed.pop(at) for at in self._moving]
        statistics = [one * backend.cast(share, one.dtype) for one in statistics]
        self._doubt_changes(changed)
        if self._seeds:
            back = self._salted([changed.get(at) for at in range(len(fixed))], salt)
            changed = {at: back[at] for at in changed}
        seen = tree.flatten(y_pred) if self.gathers else []
        return gradients, [total, *values, *statistics], changed, metrics, seen

    def _doubt_changes(self, changed: dict[int, Any]) -> None:
        """Seeds may change with each part, and nothing else that is not averaged."""
        fixed = self.model.non_trainable_variables
        for at in changed:
            if at not in self._seeds:
                self.traced.doubt(f"{fixed[at].path} changes in each part")

    def _metrics_scope(self, metrics: Arrays) -> Any:
        from keras.src import backend

        return backend.StatelessScope(
            state_mapping=list(zip(self.model.metrics_variables, metrics))
        )

    def _tell(self, metrics: Arrays, arrays: Arrays, y_pred: Any) -> Arrays:
        """Metrics, of a part; where they are not sums they are told of the batch."""
        from keras import tree

        model = self.model
        self.gathers = not guard_proof.are_added(model, tree.flatten(y_pred))
        if self.gathers or model._compile_metrics is None:
            return metrics
        _, y, weight = self.packing.unpacked(arrays)
        with self._metrics_scope(metrics) as scope:
            model._compile_metrics.update_state(y, y_pred, weight)
        return [scope.get_current_value(one) for one in model.metrics_variables]

    def _counts(self, trainable: Arrays, fixed: Arrays, metrics: Arrays, arrays: Arrays) -> Any:
        import jax.numpy as jnp

        found = self._summed(trainable, fixed, metrics, arrays, [1.0] * self._losses, 1.0, False)
        return jnp.stack([jnp.reshape(one, ()) for one in found[2]])

    def counts(self, state: State, arrays: Arrays) -> Any:
        """What each of the losses of a part is divided by."""
        import numpy as np

        trainable, fixed, _, metrics = state
        return np.asarray(self._of_counts(trainable, fixed, metrics, arrays))

    def part(
        self, state: State, arrays: Arrays, shares: list[float], share: float, part: int
    ) -> tuple[Any, ...]:
        """What `_gradient` returns, once it is there: memory may run out while it is computed."""
        import jax

        found: tuple[Any, ...] = jax.block_until_ready(
            self._of_part(*state, arrays, *self._numbers(shares, share, part))
        )
        return found

    @staticmethod
    def _sum(sums: Any, more: Any) -> Any:
        import jax

        return jax.tree.map(lambda one, other: one + other, sums, more)

    def add(self, sums: Any, more: Any) -> Any:
        """Summands of two parts, in place of the first."""
        import jax

        return jax.block_until_ready(self._add(sums, more))

    def _trackers(self, small: Arrays, rows: Any) -> None:
        """What Keras tells of the loss and of the outputs' losses."""
        model = self.model
        compiled, count = model._compile_loss, len(small) - 1 - len(self._moving)
        model._loss_tracker.update_state(small[0], sample_weight=rows)
        if self.traced.tells_outputs and compiled is not None:
            for metric, value in zip(compiled.metrics, small[1 : 1 + count]):
                metric.update_state(value, sample_weight=rows)

    def _told(
        self, metrics: Arrays, small: Arrays, rows: Any, arrays: Arrays, seen: Arrays
    ) -> tuple[Any, Arrays]:
        from keras import tree

        x, y, weight = self.packing.unpacked(arrays)
        y_pred = tree.pack_sequence_as(self.traced.structure, seen)
        with self._metrics_scope(metrics) as scope:
            self._trackers(small, rows)
            logs = self.model.compute_metrics(x, y, y_pred, weight)
        return logs, [scope.get_current_value(one) for one in self.model.metrics_variables]

    def told(
        self, metrics: Arrays, small: Arrays, rows: int, arrays: Arrays, seen: Arrays
    ) -> tuple[Any, Arrays]:
        """Logs, once metrics have been told of the whole batch; and metrics."""
        import jax
        import numpy as np

        found: tuple[Any, Arrays] = jax.block_until_ready(
            self._measure(metrics, small, np.int32(rows), arrays, seen)
        )
        return found

    def _apply(
        self, trainable: Arrays, slots: Arrays, metrics: Arrays, gradients: Arrays, small: Arrays,
        rows: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        model = self.model
        trainable, slots = model.optimizer.stateless_apply(slots, gradients, trainable)
        if self.gathers:  # they have been told
            return {}, trainable, slots, metrics
        with self._metrics_scope(metrics) as scope:
            self._trackers(small, rows)
            logs = model.get_metrics_result()
        metrics = [scope.get_current_value(one) for one in model.metrics_variables]
        return logs, trainable, slots, metrics

    def update(
        self, state: State, metrics: Arrays, gradients: Arrays, small: Arrays, rows: int
    ) -> tuple[Any, ...]:
        """The one update of the batch: logs, trainable variables, the optimizer's, metrics.

        Weights and the optimizer's variables that are given are gone afterwards, also where it
        fails.
        """
        import numpy as np

        found: tuple[Any, ...] = self._update(
            state[0], state[2], metrics, gradients, small, np.int32(rows)
        )
        return found

    def between(self, fixed: Arrays, changed: dict[int, Any]) -> Arrays:
        """Non-trainable variables that the next part begins with: seeds as the first one did, each
        part having its own."""
        return [changed.get(at, one) if at not in self._seeds else one
                for at, one in enumerate(fixed)]  # fmt: skip

    def afterwards(self, fixed: Arrays, first: dict[int, Any], small: Arrays) -> Arrays:
        """Non-trainable variables after the batch: seeds as after the first part, statistics as
        the average of parts."""
        found = [first.get(at, one) if at in self._seeds else one for at, one in enumerate(fixed)]
        for at, one in zip(self._moving, small[len(small) - len(self._moving) :]):
            found[at] = one
        return found

    def looking(self, state: State, training: bool) -> Callable[[Arrays], Any]:
        """Predictions, always from the same state."""
        trainable, fixed = state[0], state[1]

        def forward(trainable: Arrays, fixed: Arrays, arrays: Arrays) -> Any:
            return self._forward(trainable, fixed, self.packing.unpacked(arrays)[0], training)[0]

        compiled = self._jit(forward)
        return lambda arrays: compiled(trainable, fixed, arrays)
