"""Whether a Keras model is still what it was, without reading its whole configuration again.

A stamp holds every attribute of the model, its layers and all of their parts, and the methods of
their classes. It is good while each is the very object that it was; what was replaced by an equal
object, or changed in a way that does not matter, only means that the configuration is read again.
Variables are not looked into: what they hold is compared by whoever uses them.
"""

from __future__ import annotations

import types
from typing import Any

from plimsoll import _core

# What says nothing about the structure and is set by calls of Keras's own.
_PASSING = {"_plimsoll", "history", "stop_training", "stop_predicting", "stop_evaluating"}
_METHODS = (
    "call", "build", "__call__", "compute_mask", "update_state", "result", "reset_state", "apply",
    "apply_gradients", "update_step", "train_step", "test_step", "predict_step", "compute_loss",
    "compute_metrics", "train_function", "make_train_function", "make_test_function", "get_config",
)  # fmt: skip


def _is_looked_into(value: Any) -> bool:
    """Objects of Keras's that have parts: no variables, tensors, nodes of the graph of layers."""
    cls = type(value)
    module = cls.__module__ or ""
    if not module.startswith("keras.") or isinstance(value, type):
        return False
    if cls.__name__ in ("Node", "KerasTensor", "KerasHistory", "Tracker", "Function"):
        return False
    return hasattr(value, "__dict__") and not hasattr(value, "assign")


def _unwrapped(value: Any) -> Any:
    """The list or dict in a wrapper by which TensorFlow tracks it."""
    if isinstance(value, (dict, list)) and type(value).__module__.startswith("tensorflow."):
        own = getattr(value, "_storage", None)
        return getattr(value, "__wrapped__", ()) if own is None else own
    return value


class Stamp:
    def __init__(self, model: Any) -> None:
        self._watched: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = []
        self._methods: list[tuple[type, str, Any]] = []
        self._passing = vars(model)
        self._own: list[tuple[dict[str, Any], str, Any]] = []
        seen: set[int] = set()
        classes: set[type] = set()
        stack: list[Any] = [model]
        while stack:
            value = _unwrapped(stack.pop())
            if id(value) in seen:
                continue
            if isinstance(value, tuple):
                stack.extend(value)
            elif isinstance(value, (dict, list)) or _is_looked_into(value):
                seen.add(id(value))
                stack.extend(self._watch(value, classes))
        for cls in classes:
            for name in _METHODS:
                method = getattr(cls, name, None)
                if isinstance(method, types.FunctionType):
                    self._methods.append((cls, name, method))

    def _watch(self, value: Any, classes: set[type]) -> list[Any]:
        if isinstance(value, list):
            self._watched.append((value, (), tuple(value)))
            return list(value)
        if isinstance(value, dict):
            self._watched.append((value, tuple(value), tuple(value.values())))
            return list(value.values())
        classes.add(type(value))
        attributes = vars(value)
        if attributes is self._passing:
            items = {k: v for k, v in attributes.items() if k not in _PASSING}
            self._own = [(attributes, name, held) for name, held in items.items()]
            return list(items.values())
        self._watched.append((attributes, tuple(attributes), tuple(attributes.values())))
        return list(attributes.values())

    def holds(self) -> bool:
        """Whether the model is what it was."""
        attributes = self._passing
        beside = sum(name in attributes for name in _PASSING)
        if len(attributes) != len(self._own) + beside:
            return False
        if not _core.same_values(self._own):
            return False
        return _core.same_items(self._watched) and _core.same_attributes(self._methods)
