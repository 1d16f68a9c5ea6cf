"""Keras's training step on TensorFlow in two functions: gradients of a part, and one update.

Of a batch of B samples in parts with b samples each, the gradient of the whole batch's loss is a
sum over parts, where each part's terms have a share of their own:

    a loss that is a mean over samples                        b / B
    one over the places that a mask leaves, v of V            v / V
    one divided by the sum of its weights, w of W             w / W
    a sum over samples                                        1
    L1 and L2 of activities, which Keras divides by b         b / B
    what does not depend on samples (weights' regularizers)   b / B, so that the shares add up to 1

Keras's own code computes each part's loss; only the share is put in front. What else Keras's step
does once for a batch (update, loss tracker, outputs' trackers) is done once here. Metrics are told
of parts where their state is a sum over samples, and else of the predictions of the whole batch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from plimsoll.guard import graph as guard_graph
from plimsoll.guard import proof as guard_proof
from plimsoll.guard.weighed import Traced, losses_of, moving_statistics, seeds_of, total_of

_LOSSES = 1024  # of a model, at most


def _compiled(model: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """As Keras compiles its own step."""
    if model.run_eagerly:
        return function
    import tensorflow as tf

    plain = tf.autograph.experimental.do_not_convert(function)
    compiled: Callable[..., Any] = tf.function(
        plain, reduce_retracing=True, jit_compile=model.jit_compile
    )
    return compiled


class Packing:
    """How the tensors of a batch lie in what Keras calls its data."""

    def __init__(self, data: Any, element: Any = None) -> None:
        """element: what the iterator tells of its batches, where it does."""
        from keras import tree

        self._structure = tree.map_structure(lambda one: one is not None, data)
        self._tree = tree
        leaves = tree.flatten(data)
        told = leaves if element is None else tree.flatten(element)
        self.shapes: list[tuple[Any, Any]] = []
        for leaf, spec in zip(leaves, told):
            if leaf is not None:
                shape = getattr(spec, "shape", leaf.shape)
                self.shapes.append((leaf.shape if shape.rank is None else shape, leaf.dtype))
        # Keras counts a batch of which it does not know the size as one in its outputs' trackers.
        self.is_static = self.shapes[0][0][0] is not None

    @property
    def key(self) -> str:
        return repr((self._structure, [(str(s), str(d)) for s, d in self.shapes]))

    def is_alike(self, other: Packing) -> bool:
        """Whether batches differ in the number of samples alone."""
        mine, others = ([(list(s[1:]), d) for s, d in one.shapes] for one in (self, other))
        return bool(self._structure == other._structure and mine == others)

    def specs(self) -> list[Any]:
        """The tensors of a part, of as many samples as there may be."""
        import tensorflow as tf

        return [tf.TensorSpec([None, *shape[1:]], dtype) for shape, dtype in self.shapes]

    def packed(self, tensors: Iterable[Any]) -> Any:
        own = iter(tensors)
        return self._tree.map_structure(lambda is_there: next(own) if is_there else None,
                                        self._structure)  # fmt: skip


class State:
    """What parts of a step change before its update: seeds, moving statistics, metrics."""

    def __init__(self, variables: Iterable[Any]) -> None:
        self._held = [(one, one._value.read_value()) for one in variables]

    def restore(self) -> None:
        for variable, value in self._held:
            variable._value.assign(value)

    def changed(self, among: set[int]) -> str:
        """The first of the variables (by id) that is not as it was."""
        import numpy as np

        for variable, value in self._held:
            if id(variable) in among:
                now, then = (np.asarray(one.numpy()) for one in (variable._value, value))
                is_same = now.ctypes.data == then.ctypes.data  # nothing was assigned
                if not is_same and not np.array_equal(now, then):
                    return str(variable.path)
        return ""


class _Captured:
    """A variable that is none of Keras's, by the handle that a traced function captured."""

    def __init__(self, handle: Any, dtype: Any, path: str) -> None:
        self.handle, self._dtype, self.path = handle, dtype, path

    @property
    def _value(self) -> _Captured:
        return self

    def read_value(self) -> Any:
        import tensorflow as tf

        return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self._dtype)

    def assign(self, value: Any) -> None:
        import tensorflow as tf

        tf.raw_ops.AssignVariableOp(resource=self.handle, value=value)

    def numpy(self) -> Any:
        return self.read_value().numpy()


def _captured(concrete: Any) -> list[_Captured]:
    """All variables of a traced function, also those of generators of random numbers."""
    import tensorflow as tf

    names = {id(one.handle): one.name for one in concrete.graph.variables}
    found = []
    for handle, _ in concrete.graph.captures:
        told = getattr(handle, "_handle_data", None)
        if handle.dtype == tf.resource and told is not None and told.is_set:
            kind = tf.as_dtype(told.shape_and_type[0].dtype)
            found.append(_Captured(handle, kind, names.get(id(handle), "a variable")))
    return found


def build_optimizer(model: Any) -> None:
    """In a trace, as Keras does: what its `build` assigns there is never run."""
    if model.optimizer.built:
        return
    import tensorflow as tf
    from keras.src import backend

    def build() -> None:
        with backend.name_scope(model.optimizer.name, caller=model.optimizer):
            model.optimizer.build(model.trainable_variables)
        model.optimizer.built = True

    if model.run_eagerly:
        build()
    else:
        tf.function(build, autograph=False).get_concrete_function()


def changing(model: Any) -> list[Any]:
    """Keras's variables whose values parts change."""
    from keras.src.backend.common import global_state

    found = [*model.non_trainable_variables, *model.metrics_variables]
    seed = global_state.get_global_attribute("global_seed_generator")
    return found + ([seed.state] if seed is not None else [])


class CutStep:
    """The step of one model for batches of one kind."""

    def __init__(self, model: Any, packing: Packing, first: list[Any]) -> None:
        """first: the tensors of one sample, by which a model that is not built yet is built."""
        self._model = weakref.ref(model)
        self.packing, self.traced = packing, Traced()
        if not all(layer.built for layer in guard_proof.layers_of(model)):
            self._build(model, first)
        self._moving = moving_statistics(model)
        self.weights = list(model.trainable_weights)  # Keras's function keeps to these too
        self.sums: list[Any] = []  # accumulators, once a batch has been cut
        self.gathers = False
        self.acts = ""  # an operation of a part that does what cannot be put back
        self._foreign: list[_Captured] = []  # variables that are not Keras's
        self._of_part = _compiled(model, self._gradient)
        self._of_counts = _compiled(model, self._counts)
        self._update = _compiled(model, self._apply)
        self._measure = _compiled(model, self._told)
        self._add = self._adding(model)
        if not model.run_eagerly:
            self._of_part = self._of_part.get_concrete_function(  # type: ignore[attr-defined]
                *packing.specs(), *self._share_specs(model)
            )
            self._keep(self._of_part)
            self.acts = guard_graph.acts(self._of_part)
        else:
            self._look(model, first)
        build_optimizer(model)

    @property
    def model(self) -> Any:
        return self._model()

    @property
    def count_of_small(self) -> int:
        """How many summands there are beside gradients: loss, losses, moving statistics."""
        return 1 + len(self.traced.shares) + len(self._moving)

    @property
    def has_statistics(self) -> bool:
        return bool(self._moving)

    def _build(self, model: Any, first: list[Any]) -> None:
        def forward(*tensors: Any) -> Any:
            x = self.inputs(tensors)
            return model(x, training=False) if model._call_has_training_arg else model(x)

        if model.run_eagerly:
            forward(*first)
        else:
            _compiled(model, forward).get_concrete_function(*self.packing.specs())  # type: ignore[attr-defined]

    def _look(self, model: Any, first: list[Any]) -> None:
        """In place of a trace where the model runs eagerly: one sample, its changes put back."""
        import tensorflow as tf

        before = State(self.variables())
        known = {id(one) for one in self.variables()}
        self._of_part(*first, tf.ones(_LOSSES, tf.float64), tf.ones((), tf.float64))
        before.restore()
        for metric in model.metrics:
            if any(id(one) not in known for one in metric.variables):
                metric.reset_state()

    def _share_specs(self, model: Any) -> list[Any]:
        import tensorflow as tf

        return [tf.TensorSpec([None], tf.float64), tf.TensorSpec([], tf.float64)]

    def variables(self) -> list[Any]:
        """Those whose values parts change."""
        return [*changing(self.model), *self._foreign]

    def _keep(self, concrete: Any) -> None:
        """Variables of a traced function that are not Keras's are put back with the others."""
        model = self.model
        own = [*model.variables, *model.metrics_variables, *model.optimizer.variables,
               *changing(model), *self._foreign]  # fmt: skip
        known = {id(one._value.handle) for one in own}
        self._foreign += [one for one in _captured(concrete) if id(one.handle) not in known]

    def watched(self) -> set[int]:
        """Variables, by id, that should be as they were when a part is done."""
        model = self.model
        excused = {id(one) for one in self._moving} | {id(one) for one in seeds_of(model)}
        found = [*model.non_trainable_variables, *self._foreign]
        return {id(one) for one in found} - excused

    def inputs(self, tensors: Iterable[Any]) -> Any:
        from keras.src.trainers.data_adapters import data_adapter_utils

        return data_adapter_utils.unpack_x_y_sample_weight(self.packing.packed(tensors))[0]

    def looking(self, training: bool) -> Callable[[Any], Any]:
        """Predictions, in a graph as a step has them: nothing is held that nobody reads."""
        given = {"training": training} if self.model._call_has_training_arg else {}

        def forward(*tensors: Any) -> Any:
            return self.model(self.inputs(tensors), **given)

        compiled = _compiled(self.model, forward)
        if not self.model.run_eagerly:
            compiled = compiled.get_concrete_function(*self.packing.specs())  # type: ignore[attr-defined]
            self._keep(compiled)
        return lambda tensors: compiled(*tensors)

    def draws(self) -> bool:
        return bool(seeds_of(self.model))

    def _forward(self, tensors: Iterable[Any], training: bool) -> tuple[Any, ...]:
        from keras.src.trainers.data_adapters import data_adapter_utils

        x, y, weight = data_adapter_utils.unpack_x_y_sample_weight(self.packing.packed(tensors))
        given = {"training": training} if self.model._call_has_training_arg else {}
        return x, y, self.model(x, **given), weight

    def _losses(
        self, x: Any, y: Any, y_pred: Any, weight: Any, shares: Any, share: Any, rows: Any
    ) -> tuple[Any, list[Any], list[Any]]:
        """The part's summand of the loss; of each of the model's losses its value and count."""
        import tensorflow as tf

        total, mine = total_of(
            self.model, self.traced, (x, y, y_pred, weight), share,
            lambda: self._weighed(y, y_pred, weight, shares, rows),
        )  # fmt: skip
        return total, [one.value for one in mine], [tf.reshape(one.count, ()) for one in mine]

    def _weighed(self, y: Any, y_pred: Any, weight: Any, shares: Any, rows: Any) -> Any:
        compiled = self.model._compile_loss
        if not compiled.built:  # in a graph that is thrown away: it tells trackers of the loss
            self._build_losses(compiled, y, y_pred, weight)
        return losses_of(self.model, self.traced, y, y_pred, weight, shares, rows)

    def _build_losses(self, compiled: Any, y: Any, y_pred: Any, weight: Any) -> None:
        import tensorflow as tf
        from keras import tree

        def spec(one: Any) -> Any:
            return None if one is None else tf.TensorSpec([None, *one.shape[1:]], one.dtype)

        given = [one for one in tree.flatten((y, y_pred, weight)) if one is not None]
        shape = tree.map_structure(lambda one: one is not None, (y, y_pred, weight))

        def call(*tensors: Any) -> Any:
            own = iter(tensors)
            return compiled(*tree.map_structure(lambda there: next(own) if there else None, shape))

        tf.function(call, autograph=False).get_concrete_function(*[spec(one) for one in given])

    def _gradient(self, *given: Any) -> tuple[Any, ...]:
        """given: the tensors of a part, the shares of the losses, the part's share of the batch.

        Returns summands: gradients, the loss, the losses, statistics; and the predictions where
        they are gathered.
        """
        import tensorflow as tf
        from keras import tree

        model, (*tensors, shares, share) = self.model, given
        rows = tf.cast(tf.shape(tensors[0])[0], tf.float32)
        old = [tf.identity(one._value) for one in self._moving]
        with tf.GradientTape() as tape:
            x, y, y_pred, weight = self._forward(tensors, True)
            total, values, _ = self._losses(x, y, y_pred, weight, shares, share, rows)
            scaled = model.optimizer.scale_loss(total)
        gradients = tape.gradient(scaled, self.weights)
        self.traced.kinds = [_kind(one) for one in gradients]
        statistics = []
        for variable, before in zip(self._moving, old):
            statistics.append(tf.identity(variable._value) * tf.cast(share, before.dtype))
            variable._value.assign(before)
        self._tell(model, x, y, y_pred, weight)
        flat = [part for one in gradients for part in _flat(one)]
        self.traced.structure = tree.map_structure(lambda _: 0, y_pred)
        values = [one * tf.cast(shares[index], one.dtype) for index, one in enumerate(values)]
        predictions = [_with_mask(one) for one in tree.flatten(y_pred)] if self.gathers else []
        return flat, [total, *values, *statistics], predictions

    def _tell(self, model: Any, x: Any, y: Any, y_pred: Any, weight: Any) -> None:
        """Metrics, of a part; where they are not sums they are told of the batch."""
        from keras import tree

        compiled = model._compile_metrics
        if compiled is not None and not compiled.built:
            self._build_losses(_Builder(compiled), y, y_pred, None)
        self.gathers = not guard_proof.are_added(model, tree.flatten(y_pred))
        if not self.gathers and compiled is not None:
            compiled.update_state(y, y_pred, weight)

    def _counts(self, *tensors: Any) -> Any:
        import tensorflow as tf

        rows = tf.cast(tf.shape(tensors[0])[0], tf.float32)
        x, y, y_pred, weight = self._forward(tensors, False)
        ones, one = tf.ones(_LOSSES, tf.float64), tf.ones((), tf.float64)
        return tf.stack(self._losses(x, y, y_pred, weight, ones, one, rows)[2])

    def counts(self, tensors: list[Any]) -> Any:
        """What each of the losses of a part is divided by."""
        return self._of_counts(*tensors).numpy()

    def part(self, tensors: list[Any], shares: Any, share: float) -> tuple[Any, ...]:
        """What `_gradient` returns."""
        import tensorflow as tf

        answer: tuple[Any, ...] = self._of_part(
            *tensors, tf.constant(shares, tf.float64), tf.constant(share, tf.float64)
        )
        return answer

    def _adding(self, model: Any) -> Callable[..., Any]:
        def add(dense: list[Any], small: list[Any]) -> None:
            for total, one in zip(self.sums, [*dense, *small]):
                total.assign_add(one)

        return _compiled(model, add)

    def _dense(self, flat: list[Any]) -> list[Any]:
        own = iter(flat)
        found = []
        for kind in self.traced.kinds:
            if kind == "rows":
                next(own), next(own)
            elif kind == "dense":
                found.append(next(own))
        return found

    def store(self, flat: list[Any], small: list[Any]) -> None:
        """The first part's summands."""
        import tensorflow as tf

        summands = [*self._dense(flat), *small]
        if not self.sums:
            self.sums = [tf.Variable(one, trainable=False) for one in summands]
        else:
            for total, one in zip(self.sums, summands):
                total.assign(one)

    def add(self, flat: list[Any], small: list[Any]) -> None:
        self._add(self._dense(flat), small)

    def update(self, gradients: list[Any], small: list[Any], rows: int) -> Any:
        """The one update of the batch; gradients as Keras's optimizer takes them."""
        import tensorflow as tf

        return self._update(gradients, small, tf.constant(rows, tf.int32))

    def _apply(self, gradients: list[Any], small: list[Any], rows: Any) -> Any:
        model = self.model
        compiled, count = model._compile_loss, len(small) - 1 - len(self._moving)
        model.optimizer.apply_gradients(zip(gradients, self.weights))
        model._loss_tracker.update_state(small[0], sample_weight=rows)
        if self.traced.tells_outputs and compiled is not None:
            weight = rows if self.packing.is_static else None
            for metric, value in zip(compiled.metrics, small[1 : 1 + count]):
                metric.update_state(value, sample_weight=weight)
        for variable, value in zip(self._moving, small[1 + count :]):
            variable._value.assign(value)
        return {} if self.gathers else model.get_metrics_result()

    def _told(self, tensors: list[Any], predictions: list[Any]) -> Any:
        from keras import tree
        from keras.src import backend
        from keras.src.trainers.data_adapters import data_adapter_utils

        x, y, weight = data_adapter_utils.unpack_x_y_sample_weight(self.packing.packed(tensors))
        y_pred = tree.pack_sequence_as(self.traced.structure, [one[0] for one in predictions])
        for tensor, (_, *mask) in zip(tree.flatten(y_pred), predictions):
            if mask:
                backend.set_keras_mask(tensor, mask[0])
        return self.model.compute_metrics(x, y, y_pred, sample_weight=weight)

    def told(self, tensors: list[Any], predictions: list[Any]) -> Any:
        """Logs, once metrics have been told of the whole batch."""
        return self._measure(tensors, predictions)


class _Builder:
    """A model's metrics as something that is called as its losses are, and only built."""

    def __init__(self, metrics: Any) -> None:
        self._metrics = metrics

    def __call__(self, y_true: Any, y_pred: Any, _: Any) -> Any:
        if not self._metrics.built:
            self._metrics.build(y_true, y_pred)
        return 0.0


def _kind(gradient: Any) -> str:
    if gradient is None:
        return "none"
    return "rows" if hasattr(gradient, "indices") else "dense"


def _flat(gradient: Any) -> list[Any]:
    if gradient is None:
        return []
    return [gradient.values, gradient.indices] if hasattr(gradient, "indices") else [gradient]


def _with_mask(tensor: Any) -> list[Any]:
    from keras.src import backend

    mask = backend.get_keras_mask(tensor)
    return [tensor] if mask is None else [tensor, mask]
