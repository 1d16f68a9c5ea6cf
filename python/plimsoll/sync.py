"""State that the engine has in place of Keras's variables, until somebody looks.

After a step of `train_on_batch` what was trained is in the engine's memory alone: it is *lent*. A
look at a variable, by whatever way, hands it back first, and the engine reads it again before its
next step.

With TensorFlow every look is an operation on the variable's handle, and every operation that Python
asks for goes through one of three functions of the module `pywrap_tfe`: `v.value`, `numpy()`, a
checkpoint, a function that was traced earlier, `tf.raw_ops`. While anything is lent, and only then,
a gate stands before these three (`_Gate`). An operation that is given a handle of a lent variable
has that one handed back; one that is given anything else that may lead to a variable (another
handle, an iterator, a value of an unknown type) has all of them handed back.

Nothing is lent where that does not hold: on other backends, for variables of several devices, in a
call from inside of an operation (`tf.py_function`), and where a trial shows that the gate is not
asked. Variables are then given what was trained at the end of the call.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from plimsoll import _core
from plimsoll.variables import Known, Variables, tensorflow

_DOORS = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")
_PLAIN = {str, bytes, int, float, bool, complex, type(None), np.ndarray}


class _Gate:
    """Whose variables are lent, and what TensorFlow executes meanwhile."""

    def __init__(self) -> None:
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.framework import dtypes, ops
        from tensorflow.python.ops import resource_variable_ops, script_ops

        inside = tensorflow()
        assert inside is not None
        self._module, self._ours = pywrap_tfe, inside.ours
        self._owners: dict[int, tuple[Lent, int]] = {}  # by id() of a handle, which the Lent holds
        self._lock = threading.RLock()  # of the two above together; no other is taken within
        self._before: dict[str, Any] = {}
        self._tensor = ops.EagerTensor
        self._variable = resource_variable_ops.ResourceVariable
        self._plain = _PLAIN | {dtypes.DType}
        self._leads_on = {dtypes.resource.as_datatype_enum, dtypes.variant.as_datatype_enum}
        self._callbacks = script_ops.__file__
        self.works = self._is_asked()
        if self.works:
            os.register_at_fork(before=self.hand_all_back, after_in_child=self._after_fork)

    def add(self, lent: Lent, handles: list[tuple[int, Any]]) -> None:
        with self._lock:
            for index, handle in handles:
                self._owners[id(handle)] = (lent, index)
            if not self.is_shut():
                self._shut()

    def remove(self, handles: list[Any]) -> None:
        with self._lock:
            for handle in handles:
                self._owners.pop(id(handle), None)
            if not self._owners:
                self._open()

    def is_shut(self) -> bool:
        """Whether it stands where it was put, or somebody has put another function there."""
        return bool(self._before) and all(
            getattr(getattr(self._module, door), "is_gate", False) for door in _DOORS
        )

    def _shut(self) -> None:
        for door in _DOORS:
            before = getattr(self._module, door)
            if not getattr(before, "is_gate", False):
                self._before[door] = before
                setattr(self._module, door, self._guarded(before))

    def _open(self) -> None:
        for door, before in list(self._before.items()):
            if getattr(getattr(self._module, door), "is_gate", False):
                setattr(self._module, door, before)
        self._before.clear()

    def _guarded(self, before: Any) -> Any:
        def execute(*arguments: Any) -> Any:
            if self._owners and threading.get_ident() not in self._ours:
                self.look(arguments)
            return before(*arguments)

        execute.is_gate = True  # type: ignore[attr-defined]
        return execute

    def look(self, arguments: tuple[Any, ...]) -> None:
        """Somebody executes something: (context, name or device, …); not ours."""
        found: dict[Lent, list[int]] = {}
        if self._find(arguments[1:], found):
            for lent, indices in found.items():
                lent.hand_back(indices)
        else:
            self.hand_all_back()

    def _find(self, values: Any, found: dict[Lent, list[int]]) -> bool:
        """Adds the lent variables among them; False: there is something that may lead to any."""
        for value in values:
            kind = type(value)
            if kind in self._plain:
                continue
            if kind is self._tensor:
                if value._datatype_enum() not in self._leads_on:
                    continue
                owner = self._owners.get(id(value))
            elif kind is self._variable:
                owner = self._owners.get(id(value._handle))
            elif kind is list or kind is tuple:
                if not self._find(value, found):
                    return False
                continue
            else:
                return False
            if owner is None:
                return False
            found.setdefault(owner[0], []).append(owner[1])
        return True

    def hand_back(self, handles: list[Any]) -> None:
        """What is lent of them."""
        if not self._owners:
            return
        found: dict[Lent, list[int]] = {}
        for handle in handles:
            owner = self._owners.get(id(handle))
            if owner is not None:
                found.setdefault(owner[0], []).append(owner[1])
        for lent, indices in found.items():
            lent.hand_back(indices)

    def hand_all_back(self) -> None:
        for lent in {lent for lent, _ in list(self._owners.values())}:
            lent.hand_back()

    def _after_fork(self) -> None:
        for lent, _ in list(self._owners.values()):
            lent.forget_threads()

    def is_inside(self) -> bool:
        """Whether an operation that is not over has called this thread's Python."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self._callbacks:
                return True
            frame = frame.f_back
        return False

    def _is_asked(self) -> bool:
        """Tries ways of looking: each must come by."""
        import tensorflow as tf

        if not all(callable(getattr(self._module, door, None)) for door in _DOORS):
            return False
        with tf.init_scope():
            variable = tf.Variable(1.0, trainable=False)
            traced = tf.function(lambda: variable + 1.0).get_concrete_function()
            handle = variable.handle
            for look in (
                variable.numpy, variable.read_value, traced,
                lambda: variable.assign(2.0), lambda: variable.assign_add(1.0),
                lambda: tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32),
                lambda: tf.add(variable, 1.0), lambda: tf.identity(handle),
            ):  # fmt: skip
                trial = _Trial(self, handle)
                self.add(trial, [(0, handle)])
                look()
                if handle is not trial.handed_back:
                    self.remove([handle])
                    return False
        return True


@functools.cache
def gate() -> _Gate | None:
    """None: Keras runs on another backend than TensorFlow."""
    return _Gate() if tensorflow() is not None else None


class Lent:
    """The variables that one session trains, and which of them it has at the moment."""

    def __init__(self, engine: _core.Engine, variables: Variables) -> None:
        self._engine, self.variables = engine, variables
        # What each held when it was lent; None: it is not. With the lock, which is held while the
        # engine works too.
        self._held: list[tuple[Known | None, Any] | None] = [None] * len(variables.variables)
        self._lock = threading.RLock()

    def step(self, kept: _core.Kept, arrays: _core.Arrays, listener: Any) -> dict[str, float]:
        """One step on what the variables hold, which are lent when it returns.

        Whatever ends it early, a step is whole or not there.
        """
        while True:
            state = self._state()
            with self._lock:
                if all(mine is not None or held is not None
                       for mine, held in zip(state, self._held)):  # fmt: skip
                    return self._step(kept, arrays, state, listener)
            # Another thread has looked meanwhile.

    def _state(self) -> list[Any]:
        """Buffers of what variables hold; None: it is lent."""
        door, variables = gate(), self.variables
        lent = [i for i, held in enumerate(self._held) if held is not None]
        if lent and door is not None and not door.is_shut():
            self.hand_back()  # somebody has put a function of theirs in the gate's place
        replaced = [i for i in lent if variables.look(i) is not (self._held[i] or (None,))[0]]
        if replaced:
            self.hand_back(replaced)
        return self._read([i for i, held in enumerate(self._held) if held is None])

    def _step(
        self, kept: _core.Kept, arrays: _core.Arrays, state: list[Any], listener: Any
    ) -> dict[str, float]:
        fresh = [i for i, mine in enumerate(state) if mine is not None]
        kept.taken = False
        try:
            stays = self._lend(fresh, state)
            logs = self._engine.train_kept(kept, arrays, state, listener)
            looked_at = [i for i, held in enumerate(self._held) if held is None]
            if looked_at:  # by a handler of signals, while the engine worked
                stays = self._lend(looked_at, self._read(looked_at)) and stays
        except BaseException:
            if kept.taken and self._engine.trains:
                self._hand_back(list(range(len(state))))
                self._engine.close()
            else:  # nothing was taken, or the session ended with all that it had taken
                self._forget(fresh)
            raise
        if not stays:
            self.hand_back()
        return logs

    def _read(self, indices: list[int]) -> list[Any]:
        state: list[Any] = [None] * len(self._held)
        for index, buffer in zip(indices, buffers(self.variables, indices)):
            state[index] = buffer
        return state

    def _lend(self, fresh: list[int], state: list[Any]) -> bool:
        """Before the step, so that there is nothing to do after it. False: for this step alone."""
        if not fresh:
            return True
        door, known = gate(), self.variables.known
        for i in fresh:
            self._held[i] = (known[i], state[i])
        plain = [(i, one.handle) for i in fresh if (one := known[i]) is not None]
        if door is None or not door.works or len(plain) < len(fresh) or door.is_inside():
            return False
        door.add(self, plain)
        return True

    def hand_back(self, indices: list[int] | None = None) -> None:
        """The variables hold what was trained; waits for a step that another thread runs."""
        with self._lock:
            self._hand_back(list(range(len(self._held))) if indices is None else indices)

    def _hand_back(self, indices: list[int]) -> None:
        lent = [(i, held) for i in indices if (held := self._held[i]) is not None]
        if lent and self._engine.trains:
            known = {i: one for i, (one, _) in lent}
            changed = self._engine.changed_since([i for i, _ in lent], [was for _, (_, was) in lent])
            for index, array in changed:
                self.variables.assign(index, array, known[index])
        self._forget([i for i, _ in lent])

    def forget_threads(self) -> None:
        """In a child of a fork: there are none but its own."""
        self._lock = threading.RLock()

    def _forget(self, indices: list[int]) -> None:
        door = gate()
        if door is not None:
            door.remove([held[0].handle for i in indices
                         if (held := self._held[i]) is not None and held[0] is not None])  # fmt: skip
        for i in indices:
            self._held[i] = None


class _Trial(Lent):
    """Stands for a session that has lent one variable."""

    def __init__(self, door: _Gate, handle: Any) -> None:
        self._door, self._handle = door, handle
        self.handed_back: Any = None

    def hand_back(self, indices: list[int] | None = None) -> None:
        self.handed_back = self._handle
        self._door.remove([self._handle])


def buffers(variables: Variables, indices: list[int] | None = None) -> list[Any]:
    """What variables hold now, as objects with a buffer of the engine's type."""
    which = range(len(variables.variables)) if indices is None else indices
    known = [variables.look(i) for i in which]
    door = gate()
    if door is not None:
        door.hand_back([one.handle for one in known if one is not None])
    return [variables.buffer(i) for i in which]


def assign(variables: Variables, index: int, array: np.ndarray[Any, Any]) -> None:
    """`array` is the variable's from now on: nobody writes to it."""
    known, door = variables.look(index), gate()
    if door is not None and known is not None:
        door.hand_back([known.handle])
    variables.assign(index, array, known)


def array(variables: Variables, index: int) -> np.ndarray[Any, Any]:
    """What one of them holds now; not to be written to."""
    known, door = variables.look(index), gate()
    if door is not None and known is not None:
        door.hand_back([known.handle])
    return variables.array(index)
