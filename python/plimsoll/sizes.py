"""Sizes that a model's inputs leave open, `Input((None, None, 3))`, taken from the data.

An engine is planned for fixed sizes, so a model with open ones has an engine for each that comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from plimsoll.data import is_iterated, unpacked
from plimsoll.errors import Refused

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]

_NONE = ("{}: expected the sizes that its inputs leave open, received none. Say them: "
         "input_shape=(…), without the batch.")  # fmt: skip
MOST = 8  # engines that are kept for a model, the last used


def open_inputs(model: Any) -> list[tuple[str, tuple[int | None, ...]]]:
    """Names and shapes, without the batch, of a model's inputs; empty where none is open."""
    inputs = getattr(model, "inputs", None) or []  # of what is no model, or not built: none
    found = [(_name(tensor), tuple(tensor.shape)[1:]) for tensor in inputs]
    return found if any(None in shape for _name, shape in found) else []


def _name(tensor: Any) -> str:
    history = getattr(tensor, "_keras_history", None)
    return str(history.operation.name if history is not None else tensor.name)


def given_shapes(model: Any, shapes: Any) -> Shapes:
    """What a caller says: one shape without the batch, or a list or dict of them by input."""
    inputs = open_inputs(model)
    if not inputs:
        raise ValueError(f"input_shape: expected it for a model that leaves sizes open, and "
                         f"{model.name} leaves none.")  # fmt: skip
    if shapes is None:
        raise ValueError(_NONE.format(model.name))
    return _checked(model, inputs, _by_input(inputs, shapes, _is_shape))


def _is_shape(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(size, int) for size in value)


def shapes_of(model: Any, x: Any) -> Shapes:
    """The shapes of a sample of each input, where the model leaves sizes open; else none.

    Raises ValueError where x does not fit what the model says of its inputs.
    """
    inputs = open_inputs(model)
    if not inputs:
        return ()
    if x is None:
        raise ValueError(_NONE.format(model.name))
    found = []
    for item in _by_input(inputs, x, lambda value: hasattr(value, "shape")):
        shape = getattr(item, "shape", None)
        if shape is None:
            raise ValueError(f"x: expected arrays, since {model.name} leaves sizes of its input "
                             f"open, received {type(item).__name__}.")  # fmt: skip
        found.append(tuple(int(size) for size in tuple(shape)[1:]))
    return _checked(model, inputs, found)


def _by_input(inputs: list[Any], value: Any, is_one: Any) -> list[Any]:
    if isinstance(value, dict):
        missing = [name for name, _shape in inputs if name not in value]
        if missing:
            raise ValueError(f"x: expected arrays for {', '.join(name for name, _ in inputs)}, "
                             f"received {', '.join(map(str, value))}.")  # fmt: skip
        return [value[name] for name, _shape in inputs]
    if is_one(value):
        value = [value]
    if not isinstance(value, (list, tuple)) or len(value) != len(inputs):
        received = len(value) if isinstance(value, (list, tuple)) else type(value).__name__
        raise ValueError(f"x: expected {len(inputs)} inputs, received {received}.")
    return list(value)


def _checked(model: Any, inputs: list[Any], found: list[Any]) -> Shapes:
    for (name, wanted), shape in zip(inputs, found):
        fixed = [expected in (None, size) for size, expected in zip(shape, wanted)]
        if len(shape) != len(wanted) or not all(fixed) or min(shape, default=1) < 1:
            raise ValueError(f"x: {model.name}'s input {name}: expected samples of shape "
                             f"{wanted}, received {tuple(shape)}.")  # fmt: skip
    return tuple(tuple(shape) for shape in found)


def _again(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    """An iterator whose first batch was looked at."""
    yield first
    yield from rest


def of_data(model: Any, x: Any) -> tuple[Shapes, Any]:
    """The shapes of the samples in `x`, and what is to be used in place of `x` from here on.

    Where `x` yields batches, those of its first batch.
    """
    if not open_inputs(model):
        return (), x
    if not is_iterated(x):
        return shapes_of(model, x), x
    first, x = _first(x)
    return shapes_of(model, first), x


def _first(x: Any) -> tuple[Any, Any]:
    """The inputs of the first batch, or their description, and what stands for `x` from here on."""
    if are_told(x):
        return unpacked(x.element_spec)[0], x
    if hasattr(x, "num_batches"):  # keras.utils.PyDataset
        return unpacked(x[0])[0], x
    batches = iter(x)
    first = next(batches, None)
    if first is None:
        raise ValueError("x: expected batches, received none.")
    return unpacked(first)[0], _again(first, batches) if batches is x else x


def are_told(x: Any) -> bool:
    """Whether a tf.data.Dataset says the sizes of all samples in its batches."""
    if not hasattr(x, "element_spec"):
        return False
    inputs = unpacked(x.element_spec)[0]
    if isinstance(inputs, dict):
        inputs = list(inputs.values())
    for one in inputs if isinstance(inputs, (list, tuple)) else [inputs]:
        shape = getattr(one, "shape", None)
        if shape is None or shape.rank is None or None in tuple(shape)[1:]:
            return False
    return True


def built(model: Any, x: Any) -> Any:
    """Builds a Sequential model without an Input for the samples in `x`, as Keras's fit does.

    Returns what stands for `x` from here on; a model that is built, or no Sequential, stays.
    """
    if model.built or type(model).__name__ != "Sequential" or x is None:
        return x
    first, x = _first(x) if is_iterated(x) else (x, x)
    if isinstance(first, (list, tuple)) and len(first) == 1 and hasattr(first[0], "shape"):
        first = first[0]
    shape = np.shape(first) if isinstance(first, list) else getattr(first, "shape", None)
    if shape is not None:
        model.build((None, *tuple(shape)[1:]))
    return x


def check_alike(model: Any, shapes: Shapes, arrays: list[Any]) -> None:
    """Raises Refused where a batch has other sizes than the call began with."""
    if not shapes:
        return
    found = tuple(tuple(array.shape[1:]) for array in arrays)
    if found != shapes:
        raise Refused(
            f"x: expected batches of one size within a call, since {model.name} leaves sizes open "
            f"and is planned for those of the first batch, {_text(shapes)}, received "
            f"{_text(found)}. Give batches of each size to a call of their own, or resize them."
        )


def _text(shapes: Shapes) -> str:
    return ", ".join(str(shape) for shape in shapes)


def fill(model: Any, written: dict[str, Any], shapes: Shapes) -> None:
    """Puts the sizes into the inputs of a model's description."""
    if not shapes:
        return
    by_name = {name: shape for (name, _wanted), shape in zip(open_inputs(model), shapes)}
    structure = written["config"]
    if "build_input_shape" in structure and len(shapes) == 1:
        structure["build_input_shape"] = [None, *shapes[0]]
    for layer in structure["layers"]:
        config = layer["config"]
        if layer["class_name"] != "InputLayer":
            continue
        shape = by_name.get(config["name"])
        if shape is None and len(shapes) == 1:
            shape = shapes[0]
        if shape is not None:
            config["batch_shape"] = [None, *shape]
