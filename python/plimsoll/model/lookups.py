"""Layers at a model's inputs that make numbers of text, or look numbers up.

The engine trains on numbers. Where a model begins with TextVectorization, StringLookup or the like,
Keras's own layer is run on each call's data before the engine sees them, and the engine's model
begins with what that gives: an input of the same name. The numbers are data like any others. Such a
layer has no weights that are trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from plimsoll.errors import Refused
from plimsoll.versions import keras_module

_CLASSES = ("Hashing", "IntegerLookup", "StringLookup", "TextVectorization")
_ROWS = 4096  # that are looked up at a time


class Lookups:
    """The layers of one model that are run before the engine, by the names of its inputs."""

    def __init__(self, model: Any) -> None:
        self._layers: dict[str, Any] = {}
        self._shapes: dict[str, tuple[int | None, ...]] = {}  # without the batch
        self._texts: set[str] = set()  # inputs that take text
        self._names: list[str] = []
        graph = getattr(model, "_functional", None) or model
        by_depth = getattr(graph, "_nodes_by_depth", None) or {}
        nodes = [node for some in by_depth.values() for node in some]
        for tensor in getattr(graph, "inputs", None) or []:
            name = tensor._keras_history.operation.name
            self._names.append(name)
            users = [node for node in nodes if any(one is tensor for one in node.input_tensors)]
            layer = users[0].operation if len(users) == 1 else None
            if not _looks_up(layer) or len(users[0].input_tensors) != 1:
                continue
            if sum(node.operation is layer for node in nodes) == 1:
                self._layers[name] = layer
                self._shapes[name] = tuple(tensor.shape)[1:]
                if str(tensor.dtype) == "string":
                    self._texts.add(name)

    def __bool__(self) -> bool:
        return bool(self._layers)

    def parts(self) -> Iterator[int]:
        """Identities of the layers and of all that is in them: Python code that Keras runs."""
        for layer in self._layers.values():
            for one in layer._flatten_layers():
                yield id(one)

    def described(self, written: dict[str, Any]) -> dict[str, Any]:
        """Takes them out of the model's description, as of JSON: its inputs are what they give.

        Raises Refused where what a layer gives has no fixed shape.
        """
        structure = written["config"]
        layers = structure["layers"]
        for name, layer in self._layers.items():
            shape, dtype = self._given(name)
            layers[:] = [one for one in layers if one["config"].get("name") != layer.name]
            for one in layers:
                if one["class_name"] == "InputLayer" and one["config"]["name"] == name:
                    one["config"] |= {"batch_shape": [None, *shape], "dtype": dtype}
            for one in layers:
                _rename(one.get("inbound_nodes"), layer.name, name, [None, *shape], dtype)
            for outputs in (structure.get("output_layers"), structure.get("input_layers")):
                _rename(outputs, layer.name, name, [None, *shape], dtype)
            if "build_input_shape" in structure:  # of a Sequential
                structure["build_input_shape"] = [None, *shape]
        written.pop("build_config", None)
        return written

    def numbers(self, x: Any) -> Any:
        """`x` as the engine takes it: what the layers give in the place of their inputs."""
        if isinstance(x, dict):
            return {name: self._looked_up(name, value) for name, value in x.items()}
        if len(self._names) == 1:
            if isinstance(x, (list, tuple)) and len(x) == 1 and hasattr(x[0], "shape"):
                x = x[0]
            return self._looked_up(self._names[0], x)
        if not isinstance(x, (list, tuple)) or len(x) != len(self._names):
            return x  # which is refused by whoever counts them
        return [self._looked_up(name, value) for name, value in zip(self._names, x)]

    def _looked_up(self, name: str, value: Any) -> Any:
        layer = self._layers.get(name)
        if layer is None:
            return value
        array = np.asarray(value)
        if array.dtype.kind == "U":
            array = array.astype(object)
        shape = self._shapes[name]
        if array.ndim == len(shape) and shape[-1:] == (1,):  # as Keras's own models take them
            array = array[..., None]
        elif array.ndim == len(shape) + 2 and array.shape[-1] == 1:
            array = array[..., 0]
        pieces = [_numbers_of(layer, array[begin : begin + _ROWS])
                  for begin in range(0, len(array), _ROWS)]  # fmt: skip
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else array

    def _given(self, name: str) -> tuple[tuple[int, ...], str]:
        """The shape of a sample of what the layer of that input gives, and its type."""
        layer, shape = self._layers[name], self._shapes[name]
        given = None if None in shape else layer.compute_output_shape((None, *shape))
        if given is None or None in tuple(given)[1:]:
            raise Refused(
                f"layer {layer.name}: expected {type(layer).__name__} with an output of one size, "
                f"received one whose size depends on the data. Give output_sequence_length, or "
                "the input a shape."
            )
        text = name in self._texts
        like: Any = np.full((1, *shape), "", object) if text else np.zeros((1, *shape), "int64")
        found = _numbers_of(layer, like)
        return found.shape[1:], str(found.dtype)


def _looks_up(layer: Any) -> bool:
    if layer is None or type(layer).__name__ not in _CLASSES:
        return False
    return type(layer) is getattr(keras_module().layers, type(layer).__name__, None)


def _numbers_of(layer: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found = layer(array)
    if not hasattr(found, "shape") or not hasattr(found, "__array__"):
        raise Refused(
            f"layer {layer.name}: expected {type(layer).__name__} with an array as its output, "
            f"received {type(found).__name__}. Make it with ragged=False and sparse=False."
        )
    numbers = np.asarray(found)
    # One-hot rows and counts are numbers to compute with; of classes Keras has the integers.
    mode = getattr(layer, "output_mode", getattr(layer, "_output_mode", "int"))
    return numbers if mode == "int" else numbers.astype("float32")


def _rename(value: Any, old: str, new: str, shape: list[Any], dtype: str) -> None:
    """Tensors that are the layer's output are the input itself, of another shape."""
    if isinstance(value, dict):
        history = value.get("keras_history")
        if isinstance(history, list) and history and history[0] == old:
            history[0] = new
            value |= {"shape": shape, "dtype": dtype}
        for item in value.values():
            _rename(item, old, new, shape, dtype)
    elif isinstance(value, list):
        if value and value[0] == old:
            value[0] = new
        for item in value:
            _rename(item, old, new, shape, dtype)
