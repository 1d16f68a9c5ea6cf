"""What Keras's variables hold: read without copies, written without Keras's own detour.

A variable of TensorFlow is read as the tensor that it holds at this moment, whoever wrote it: an
assignment, a restored checkpoint, a function that was traced earlier. Other backends, and variables
of types that the engine does not have, go through Keras.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from plimsoll.versions import keras_module


class Known:
    """A plain variable of TensorFlow of one of the engine's own types."""

    __slots__ = ("raw", "handle", "dtype", "number")

    def __init__(self, raw: Any) -> None:
        self.raw, self.handle, self.dtype = raw, raw.handle, raw.dtype
        self.number = raw.dtype.as_datatype_enum


class Tensorflow:
    """Operations on handles of TensorFlow's variables, executed here and now whatever is traced."""

    def __init__(self) -> None:
        import tensorflow as tf
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import context, core
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import resource_variable_ops

        self._tf, self._context = tf, context.context
        self._execute = pywrap_tfe.TFE_Py_FastPathExecute
        self._fallback = core._FallbackException
        self._class = resource_variable_ops.ResourceVariable  # on one device, of one copy
        self._types = {"int64": tf.int64, "int32": tf.int32, "float32": tf.float32}
        self._tensor = ops.EagerTensor
        self.ours: set[int] = set()  # threads that execute one of these operations
        context.ensure_initialized()
        self._device = context.context().device_name

    def know(self, variable: Any, dtype: np.dtype[Any]) -> Known | None:
        raw: Any = getattr(variable, "_value", None)
        if type(raw) is not self._class or raw.dtype != self._types[dtype.name]:
            return None
        return Known(raw)

    def read(self, known: Known) -> Any:
        """The tensor that it holds: memory that TensorFlow does not write to while this lives."""
        try:
            return self._execute(
                self._context(), "ReadVariableOp", None, known.handle, "dtype", known.dtype
            )
        except self._fallback:
            return self._slowly(lambda: self._tf.raw_ops.ReadVariableOp(
                resource=known.handle, dtype=known.dtype))  # fmt: skip

    def assign(self, known: Known, array: np.ndarray[Any, Any]) -> None:
        """The variable's memory is the array's from now on, where that is aligned for it."""
        value = self._tensor(array, self._device, known.number)
        try:
            self._execute(self._context(), "AssignVariableOp", None, known.handle, value,
                          "validate_shape", False)  # fmt: skip
        except self._fallback:
            self._slowly(lambda: self._tf.raw_ops.AssignVariableOp(
                resource=known.handle, value=value))  # fmt: skip

    def _slowly(self, operation: Callable[[], Any]) -> Any:
        """Where somebody is told of every operation."""
        mine = threading.get_ident()
        self.ours.add(mine)
        try:
            with self._tf.init_scope():
                return operation()
        finally:
            self.ours.discard(mine)


@functools.cache
def tensorflow() -> Tensorflow | None:
    """None: Keras runs on another backend."""
    return Tensorflow() if keras_module().backend.backend() == "tensorflow" else None


class Variables:
    """A list of Keras's variables as the engine's tensors of the types `dtypes`.

    Reads and writes are of what the variables hold themselves; sync.py knows what is lent of them.
    """

    def __init__(self, variables: list[Any], dtypes: list[np.dtype[Any]]) -> None:
        self.variables, self._dtypes = variables, dtypes
        self._tensorflow = tensorflow()
        self.known: list[Known | None] = [
            self._tensorflow.know(v, d) if self._tensorflow is not None else None
            for v, d in zip(variables, dtypes)
        ]

    def look(self, index: int) -> Known | None:
        """The variable of TensorFlow as of now; None: Keras's own ways are taken."""
        known = self.known[index]
        if known is not None and self.variables[index]._value is not known.raw:
            assert self._tensorflow is not None
            known = self._tensorflow.know(self.variables[index], self._dtypes[index])
            self.known[index] = known
        return known

    def buffer(self, index: int) -> Any:
        """What one of them holds now, as an object with a buffer of the engine's type."""
        known = self.look(index)
        if self._tensorflow is None or known is None:
            return self._converted(index)
        return self._tensorflow.read(known)

    def array(self, index: int) -> np.ndarray[Any, Any]:
        """The same as an array; not to be written to."""
        found = self.buffer(index)
        if isinstance(found, np.ndarray):
            return found
        return np.frombuffer(memoryview(found), self._dtypes[index]).reshape(found.shape)

    def _converted(self, index: int) -> np.ndarray[Any, Any]:
        value = np.asarray(keras_module().ops.convert_to_numpy(self.variables[index]))
        return np.ascontiguousarray(value, self._dtypes[index])

    def assign(self, index: int, array: np.ndarray[Any, Any], known: Known | None) -> None:
        """`array` is from now on that of the variable, which was found to be `known`."""
        if self._tensorflow is None or known is None:
            self.variables[index].assign(array)
        else:
            self._tensorflow.assign(known, array)
