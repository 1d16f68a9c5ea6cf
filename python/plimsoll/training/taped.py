"""In what a tape differs from Keras's own training, and how it is given to the engine all the same.

A tape adds no penalties of layers to a loss unless the loop does, knows of no masks where a loss is
a plain function, and runs layers in the mode that the model is called in. Metrics are objects of
the loop's, whose state is its own to read and to reset.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from plimsoll.errors import Refused
from plimsoll.model import live
from plimsoll.model.variables import tensorflow
from plimsoll.versions import keras_module

_WHOLE = {"Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "SparseCategoricalAccuracy",
          "TopKCategoricalAccuracy", "SparseTopKCategoricalAccuracy"}  # fmt: skip
# Layers that take `training` and do nothing with it by themselves, or only where they drop out.
_PASSES_ON = {"Dense", "EinsumDense", "TimeDistributed", "Bidirectional", "StackedRNNCells", "RNN"}
_RECURRENT = {"LSTM", "GRU", "SimpleRNN", "LSTMCell", "GRUCell", "SimpleRNNCell"}


def layers_of(model: Any) -> list[Any]:
    return list(model._flatten_layers(include_self=False, recursive=True))


def check_same_in_training(model: Any, why: str) -> None:
    """Raises Refused, naming a layer that does something else in training than otherwise."""
    keras = keras_module()
    for layer in layers_of(model):
        if not getattr(layer, "_call_has_training_arg", True) or isinstance(layer, keras.Model):
            continue
        kind = type(layer).__name__
        if kind in _PASSES_ON or (kind == "BatchNormalization" and not layer.trainable):
            continue
        if kind in _RECURRENT and not layer.dropout and not layer.recurrent_dropout:
            continue
        raise Refused(f"{model.name}: {why}: expected layers that do the same in training as "
                      f"otherwise, received {layer.name} ({kind}).")  # fmt: skip


def check_no_masks(model: Any, why: str) -> None:
    """Raises Refused, naming a layer that makes a mask."""
    for layer in layers_of(model):
        if type(layer).__name__ == "Masking" or getattr(layer, "mask_zero", False):
            raise Refused(f"{model.name}: {why}: expected a model without masks, received "
                          f"{layer.name}.")  # fmt: skip


def _parts(config: Any) -> list[dict[str, Any]]:
    """Every dict within."""
    found, stack = [], [config]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            found.append(one)
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)
    return found


def has_penalties(model: Any) -> bool:
    """Whether layers add losses of their own."""
    written = keras_module().saving.serialize_keras_object(model)
    return any(
        part.get("class_name") == "ActivityRegularization"
        or any(key.endswith("_regularizer") and value for key, value in part.items())
        for part in _parts(written)
    )


def without_penalties(model: Any, config: str) -> str:
    """A model's description without what its layers add to the loss."""
    written = json.loads(config)
    for part in _parts(written):
        if part.get("class_name") == "ActivityRegularization":
            raise Refused(
                f"{model.name}: expected layers without losses of their own, since model.losses "
                "are not added, received ActivityRegularization."
            )
        for key in part:
            if key.endswith("_regularizer"):
                part[key] = None
    return json.dumps(written)


def check_metrics(metrics: Sequence[Any], model: Any) -> None:
    """Raises Refused where one is not a mean over samples, which the engine computes."""
    if not metrics:
        return
    check_no_masks(model, "metrics")
    keras = keras_module()
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names) or "loss" in names:
        raise Refused(f"metrics: expected each to have a name of its own, received "
                      f"{', '.join(names)}.")  # fmt: skip
    for metric in metrics:
        if not isinstance(metric, keras.metrics.MeanMetricWrapper) or metric.dtype != "float32":
            raise Refused(f"metric {metric.name}: expected a mean over samples, received "
                          f"{live._where(metric)}.")  # fmt: skip


def add(metric: Any, mean: float, rows: int) -> None:
    """To a metric's own sums, the mean over a batch."""
    total = mean * rows
    if type(metric).__name__ in _WHOLE and abs(total - round(total)) < 1e-2:
        total = float(round(total))
    add_to(metric.total, total)
    add_to(metric.count, rows)


def add_to(variable: Any, value: float) -> None:
    """To a number that a variable holds, which is no weight; what is lent stays so."""
    inside = tensorflow()
    known = inside.know(variable, np.dtype("float32")) if inside is not None else None
    if inside is None or known is None:
        variable.assign_add(np.float32(value))
        return
    held = np.frombuffer(memoryview(inside.read(known)), "float32")
    inside.assign(known, (held + np.float32(value)).reshape(variable.shape))
