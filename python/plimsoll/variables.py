"""What Keras's variables hold: read without copies, written without Keras's own detour.

A variable of TensorFlow is read as the tensor that it holds at this moment, whoever wrote it: an
assignment, a restored checkpoint, a function that was traced earlier. Other backends, and variables
of types that the engine does not have, go through Keras.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def _keras() -> Any:
    import keras

    return keras


class _Known:
    """A plain variable of TensorFlow of one of the engine's own types."""

    __slots__ = ("raw", "handle", "dtype", "number")

    def __init__(self, raw: Any) -> None:
        self.raw, self.handle, self.dtype = raw, raw.handle, raw.dtype
        self.number = raw.dtype.as_datatype_enum


class _Tensorflow:
    """Operations on handles of TensorFlow's variables."""

    def __init__(self) -> None:
        import tensorflow as tf
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import resource_variable_ops

        self.read, self._assign = tf.raw_ops.ReadVariableOp, tf.raw_ops.AssignVariableOp
        self._class = resource_variable_ops.ResourceVariable  # on one device, of one copy
        self._types = {"int64": tf.int64, "int32": tf.int32, "float32": tf.float32}
        self._tensor = ops.EagerTensor
        context.ensure_initialized()
        self._device = context.context().device_name

    def know(self, variable: Any, dtype: np.dtype[Any]) -> _Known | None:
        raw = getattr(variable, "_value", None)
        if type(raw) is not self._class or raw.dtype != self._types[dtype.name]:
            return None
        return _Known(raw)

    def assign(self, known: _Known, array: np.ndarray[Any, Any]) -> None:
        """The variable's memory is the array's from now on, where that is aligned for it."""
        self._assign(resource=known.handle, value=self._tensor(array, self._device, known.number))


@functools.cache
def _tensorflow() -> _Tensorflow | None:
    """None: Keras runs on another backend."""
    return _Tensorflow() if _keras().backend.backend() == "tensorflow" else None


class Variables:
    """A list of Keras's variables as the engine's tensors of the types `dtypes`."""

    def __init__(self, variables: list[Any], dtypes: list[np.dtype[Any]]) -> None:
        self.variables, self._dtypes = variables, dtypes
        self._tensorflow = _tensorflow()
        self._known: list[_Known | None] = [
            self._tensorflow.know(v, d) if self._tensorflow is not None else None
            for v, d in zip(variables, dtypes)
        ]

    def buffers(self) -> list[Any]:
        """What each one holds now, as objects with a buffer of the engine's type."""
        if self._tensorflow is None:
            return [self._converted(index) for index in range(len(self.variables))]
        read = self._tensorflow.read
        found: list[Any] = []
        for index, known in enumerate(self._known):
            if known is None:
                found.append(self._converted(index))
            elif self.variables[index]._value is known.raw:
                found.append(read(resource=known.handle, dtype=known.dtype))
            else:
                found.append(self.array(index))
        return found

    def _look(self, index: int) -> _Known | None:
        known = self._known[index]
        if known is not None and self.variables[index]._value is not known.raw:
            assert self._tensorflow is not None
            known = self._tensorflow.know(self.variables[index], self._dtypes[index])
            self._known[index] = known
        return known

    def array(self, index: int) -> np.ndarray[Any, Any]:
        """What one of them holds now; not to be written to."""
        known = self._look(index)
        if self._tensorflow is None or known is None:
            return self._converted(index)
        tensor = self._tensorflow.read(resource=known.handle, dtype=known.dtype)
        return np.frombuffer(memoryview(tensor), self._dtypes[index]).reshape(known.raw.shape)

    def _converted(self, index: int) -> np.ndarray[Any, Any]:
        value = np.asarray(_keras().ops.convert_to_numpy(self.variables[index]))
        return np.ascontiguousarray(value, self._dtypes[index])

    def assign_all(self, values: list[tuple[int, np.ndarray[Any, Any]]]) -> None:
        for index, array in values:
            self.assign(index, array)

    def assign(self, index: int, array: np.ndarray[Any, Any]) -> None:
        """`array` is the variable's from now on: nobody writes to it."""
        known = self._look(index)
        if self._tensorflow is None or known is None:
            self.variables[index].assign(array)
        else:
            self._tensorflow.assign(known, array)
