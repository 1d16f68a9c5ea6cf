"""The losses of a part of a batch, with the share that each has in the loss of the whole batch.

Keras's own code computes them, on whichever backend; only the share is put in front. The shares are
those that step.py lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plimsoll.guard import proof as guard_proof


class Traced:
    """What is learnt when a part is traced."""

    def __init__(self) -> None:
        self.doubts: dict[str, None] = {}  # why parts may differ from the whole
        self.shares: dict[int, str] = {}  # of each loss: "rows", "sum" or "counted"
        self.proofs: dict[int, str] = {}  # of each loss: why there is none
        self.kinds: list[str] = []  # of the gradients: "dense", "rows" or "none"
        self.tells_outputs = False  # whether Keras tells trackers of the outputs' losses
        self.structure: Any = None  # of the predictions

    def doubt(self, why: str) -> None:
        if why:
            self.doubts[why] = None


class Weighed:
    """In place of one of a model's losses: its value times the share of the part."""

    def __init__(self, index: int, own: Any, share: Any, rows: Any, traced: Traced) -> None:
        self._index, self._own, self._share = index, own, share
        self._rows, self._traced = rows, traced
        self.value: Any = None  # Keras's, without the share
        self.count: Any = None  # what it is divided by, up to a factor that all parts have

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        from keras import ops

        traced, index = self._traced, self._index
        if index not in traced.proofs:
            traced.proofs[index] = guard_proof.why_not_loss(
                self._own, y_true, y_pred, sample_weight
            )
        traced.doubt(traced.proofs[index])
        traced.shares[index] = "rows"
        if guard_proof.is_called_by_keras(self._own):
            value, count = self._by_keras(y_true, y_pred, sample_weight)
        else:
            value, count = self._own(y_true, y_pred, sample_weight), self._rows
        self.value = value
        self.count = ops.cast(count, "float32")
        return value * ops.cast(self._share, value.dtype)

    def _by_keras(self, y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[Any, Any]:
        """As Keras's Loss.__call__; and what of the part its value was divided by."""
        from keras.src import backend, ops, tree
        from keras.src.losses import loss as keras_loss

        own = self._own
        masks = [backend.get_keras_mask(y_pred)]
        with ops.name_scope(own.name):
            y_pred, y_true = (
                tree.map_structure(lambda one: ops.convert_to_tensor(one, dtype=own.dtype), values)
                for values in (y_pred, y_true)
            )
            values = own.call(y_true, y_pred)
            masks.append(backend.get_keras_mask(values))
            known = [one for one in masks if one is not None]
            mask = known[0] & known[1] if len(known) == 2 else (known or [None])[0]
            value = keras_loss.reduce_weighted_values(
                values, sample_weight=sample_weight, mask=mask, reduction=own.reduction,
                dtype=own.dtype,
            )  # fmt: skip
        self._traced.doubt(self._odd(values, sample_weight, mask))
        return value, self._count(values, sample_weight, mask)

    def _count(self, values: Any, sample_weight: Any, mask: Any) -> Any:
        from keras import ops
        from keras.src.losses import loss as keras_loss

        own, shares = self._own, self._traced.shares
        if own.reduction == "sum":
            shares[self._index] = "sum"
            return ops.ones(())
        if mask is None and (own.reduction != "mean_with_sample_weight" or sample_weight is None):
            return self._rows
        shares[self._index] = "counted"
        if own.reduction != "mean_with_sample_weight":
            return ops.sum(ops.cast(mask, "float32"))
        weight, kept = (
            None if one is None else ops.convert_to_tensor(one, dtype=own.dtype)
            for one in (sample_weight, mask)
        )
        weight = None if weight is None else ops.copy(weight)  # on torch it is written into
        weight = keras_loss.apply_mask(weight, kept, dtype=values.dtype, reduction=own.reduction)
        return ops.sum(ops.cast(weight, "float32"))

    def _odd(self, values: Any, sample_weight: Any, mask: Any) -> str:
        """Shapes with which a weight is spread over samples, or a value is not a sample's."""
        from keras import ops
        from keras.src.losses.loss import squeeze_or_expand_to_same_rank

        name = self._own.name
        if not guard_proof.rank_of(values):
            return f"loss {name} returns one value for all samples"
        weights = [ops.convert_to_tensor(one) for one in (sample_weight, mask) if one is not None]
        pairs = [(values, one) for one in weights] + [tuple(weights)] * (len(weights) == 2)
        for one, other in pairs:
            left, right = squeeze_or_expand_to_same_rank(one, other)
            if guard_proof.rank_of(left) != guard_proof.rank_of(right):
                return f"loss {name} is given weights {other.shape} for values {values.shape}"
        return ""


def losses_of(
    model: Any, traced: Traced, y: Any, y_pred: Any, weight: Any, shares: Any, rows: Any
) -> tuple[Any, list[Weighed]]:
    """The summand of the model's losses, which are built; and each of them.

    shares: of the losses, in Keras's order. rows: samples of the part.
    """
    from keras import tree

    compiled = model._compile_loss
    traced.tells_outputs = tree.is_nested(y) or tree.is_nested(y_pred)
    losses, metrics = compiled._flat_losses, compiled._metrics
    mine = [Weighed(index, one.loss, shares[index], rows, traced)
            for index, one in enumerate(losses)]  # fmt: skip
    compiled._flat_losses = [one._replace(loss=own) for one, own in zip(losses, mine)]
    compiled._metrics = [None] * len(metrics)
    try:
        return compiled(y, y_pred, weight), mine
    finally:
        compiled._flat_losses, compiled._metrics = losses, metrics


def total_of(
    model: Any, traced: Traced, batch: tuple[Any, Any, Any, Any], share: Any,
    weigh: Callable[[], tuple[Any, list[Weighed]]],
) -> tuple[Any, list[Weighed]]:  # fmt: skip
    """The summand of all that is added up to a model's loss, where Keras keeps in its layers what
    they have added; and each of the model's losses.

    batch: x, y, the predictions, weights of samples. share: of the part in the batch. weigh: what
    `losses_of` gives.
    """
    from keras import ops

    x, y, y_pred, weight = batch
    traced.doubt(guard_proof.why_not_model(model))
    if guard_proof._is_own(model, "compute_loss") or model._compile_loss is None:
        loss = model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=True)
        return loss * ops.cast(share, loss.dtype), []
    weighed, mine = weigh()
    summands = [weighed]
    for layer in guard_proof.layers_of(model):
        for loss in layer._get_own_losses():
            if not guard_proof.adds_a_mean(layer):
                traced.doubt(f"layer {layer.name} adds to the loss by add_loss")
            one = model._aggregate_additional_loss(loss)
            summands.append(one * ops.cast(share, one.dtype))
    for loss in model._get_regularization_losses():
        one = model._aggregate_additional_loss(loss)
        summands.append(one * ops.cast(share, one.dtype))
    return (ops.sum(summands) if len(summands) > 1 else weighed), mine


def moving_statistics(model: Any) -> list[Any]:
    """The variables of layers that take statistics of the batch which they are given."""
    import keras

    return [
        variable
        for layer in guard_proof.layers_of(model)
        if isinstance(layer, keras.layers.BatchNormalization) and layer.built
        for variable in layer.non_trainable_variables
        if variable is getattr(layer, "moving_mean", None)
        or variable is getattr(layer, "moving_variance", None)
    ]


def seeds_of(model: Any) -> list[Any]:
    found = []
    for layer in guard_proof.layers_of(model):
        for generator in getattr(layer, "_seed_generators", None) or []:
            found.append(generator.state)
    return found
