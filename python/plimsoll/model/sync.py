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
import weakref
from types import FrameType
from typing import Any

import numpy as np

from plimsoll import _core
from plimsoll.model.variables import Known, Variables, tensorflow

_DOORS = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")
_DATA_SETS = "tensorflow.python.data.ops."
_PLAIN = {str, bytes, int, float, bool, complex, type(None), np.ndarray}


class _Iterators:
    """Iterators over data sets none of whose functions has hold of anything.

    `for x, y in data: train_on_batch(…)` asks for its next element between any two steps.
    """

    def __init__(self) -> None:
        from tensorflow.python.data.ops import dataset_ops, iterator_ops, structured_function
        from tensorflow.python.framework import dtypes

        self._iterator = iterator_ops.OwnedIterator
        self._next = getattr(self._iterator, "_next_internal", None)
        self._data_set = dataset_ops.DatasetV2
        self._function = structured_function.StructuredFunctionWrapper
        self._handles = {dtypes.resource, dtypes.variant}
        self._known: dict[int, weakref.ref[Any]] = {}  # by id() of their handles

    def leads_nowhere(self, handle: Any) -> bool:
        """Asked while the iterator is being asked for its next element, in the same thread."""
        known = self._known.get(id(handle))
        if known is not None and known() is handle:
            return True
        frame: FrameType | None = sys._getframe(1)
        for _ in range(8):
            if frame is None or self._next is None:
                return False
            if frame.f_code is self._next.__code__:
                iterator = frame.f_locals.get("self")
                break
            frame = frame.f_back
        else:
            return False
        if getattr(iterator, "_iterator_resource", None) is not handle:
            return False
        if not self._is_by_itself(getattr(iterator, "_dataset", None)):
            return False
        self._known = {key: ref for key, ref in self._known.items() if ref() is not None}
        self._known[id(handle)] = weakref.ref(handle)
        return True

    def _is_by_itself(self, data: Any) -> bool:
        module = type(data).__module__
        if not isinstance(data, self._data_set) or not module.startswith(_DATA_SETS):
            return False
        if module.endswith(("load_op", "snapshot_op", "save_op")):
            return False  # functions of theirs are not told of
        own = [value for value in vars(data).values() if isinstance(value, self._function)]
        for wrapper in [*own, *data._functions()]:
            if any(one.dtype in self._handles for one in wrapper.function.captured_inputs):
                return False
        return all(self._is_by_itself(one) for one in data._inputs())


class _Gate:
    """Whose variables are lent, and what TensorFlow executes meanwhile."""

    def __init__(self) -> None:
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.framework import dtypes, ops, tensor_shape
        from tensorflow.python.ops import resource_variable_ops, script_ops

        inside = tensorflow()
        assert inside is not None
        self._module, self._ours = pywrap_tfe, inside.ours
        self._owners: dict[int, tuple[Lent, int]] = {}  # by id() of a handle, which the Lent holds
        self._lock = threading.RLock()  # of the two above together; no other is taken within
        self._before: dict[str, Any] = {}  # what stood there
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()  # what stands there now
        self._tensor = ops.EagerTensor
        self._variable = resource_variable_ops.ResourceVariable
        self._plain = _PLAIN | {dtypes.DType, tensor_shape.TensorShape}
        self._leads_on = {dtypes.resource.as_datatype_enum, dtypes.variant.as_datatype_enum}
        self._callbacks = script_ops.__file__
        self._iterators = _Iterators()
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
        """Whether it stands, and nobody has put another function in its place."""
        return bool(self._before) and all(
            getattr(self._module, door) in self._made for door in _DOORS
        )

    def watched(self) -> list[tuple[dict[str, Any], str, Any]]:
        """What is where while it stands, for _core.same_values."""
        return [(vars(self._module), door, getattr(self._module, door)) for door in _DOORS]

    def _shut(self) -> None:
        for door in _DOORS:
            before = getattr(self._module, door)
            if before not in self._made:
                self._before[door] = before
                setattr(self._module, door, self._guarded(before))

    def _open(self) -> None:
        for door, before in list(self._before.items()):
            if getattr(self._module, door) in self._made:
                setattr(self._module, door, before)
        self._before.clear()

    def _guarded(self, before: Any) -> Any:
        def execute(*arguments: Any) -> Any:
            if self._owners and threading.get_ident() not in self._ours:
                self.look(arguments)
            return before(*arguments)

        self._made.add(execute)
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
                if self._iterators.leads_nowhere(value):
                    continue
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
        """Tries ways of looking: each must come by. What cannot be tried is not relied on."""
        try:
            return self._all_come_by()
        except Exception:
            self._owners.clear()
            self._open()
            return False

    def _all_come_by(self) -> bool:
        import tensorflow as tf

        if not all(callable(getattr(self._module, door, None)) for door in _DOORS):
            return False
        with tf.init_scope():
            variable = self._variable(1.0, trainable=False)  # in a strategy's scope too
            traced = tf.function(variable.read_value, autograph=False).get_concrete_function()
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
        self._count = 0  # of those that are lent, or less
        self._none: list[Any] = [None] * len(self._held)
        self._watched: list[tuple[dict[str, Any], str, Any]] = []  # while all are lent

    def step(self, kept: _core.Kept, arrays: _core.Arrays, listener: Any) -> dict[str, float]:
        """One step on what the variables hold, which are lent when it returns.

        Whatever ends it early, a step is whole or not there.
        """
        while True:
            state = self._none if self._is_all_lent() else self._state()
            with self._lock:
                fresh: list[int] = []
                if state is not self._none:
                    fresh = [i for i, mine in enumerate(state) if mine is not None]
                    self._recount()
                if len(fresh) + self._count == len(state):
                    return self._step(kept, arrays, state, fresh, listener)
            # Another thread has looked meanwhile.

    def _is_all_lent(self) -> bool:
        """… and nothing else has taken the place of a variable, or of the gate."""
        return self._count == len(self._held) and _core.same_values(self._watched)

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
        self, kept: _core.Kept, arrays: _core.Arrays, state: list[Any], fresh: list[int],
        listener: Any,
    ) -> dict[str, float]:  # fmt: skip
        kept.taken = False
        try:
            stays = self._lend(fresh, state)
            logs = self._engine.train_kept(kept, arrays, state, listener)
            if self._count < len(state):  # a handler of signals has looked meanwhile
                looked_at = [i for i, held in enumerate(self._held) if held is None]
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
        self._recount()
        plain = [(i, one.handle) for i in fresh if (one := known[i]) is not None]
        if door is None or not door.works or len(plain) < len(fresh) or door.is_inside():
            return False
        door.add(self, plain)
        self._watched = door.watched() + [
            (vars(variable), "_value", one.raw)
            for variable, one in zip(self.variables.variables, known) if one is not None
        ]  # fmt: skip
        return True

    def hand_back(self, indices: list[int] | None = None) -> None:
        """The variables hold what was trained; waits for a step that another thread runs."""
        with self._lock:
            self._hand_back(list(range(len(self._held))) if indices is None else indices)

    def _hand_back(self, indices: list[int]) -> None:
        lent = [(i, held) for i in indices if (held := self._held[i]) is not None]
        if lent and self._engine.trains:
            known = {i: one for i, (one, _) in lent}
            indices, before = [i for i, _ in lent], [buffer for _, (_, buffer) in lent]
            for index, array in self._engine.changed_since(indices, before):
                self.variables.assign(index, array, known[index])
        self._forget([i for i, _ in lent])

    def _recount(self) -> None:
        self._count = sum(held is not None for held in self._held)

    def forget_threads(self) -> None:
        """In a child of a fork: there are none but its own."""
        self._lock = threading.RLock()

    def _forget(self, indices: list[int]) -> None:
        door = gate()
        lent = [(i, held[0]) for i in indices if (held := self._held[i]) is not None]
        self._count = 0  # until it is counted, whatever comes between
        for i, _ in lent:
            self._held[i] = None
        if door is not None:  # afterwards: what the gate does not stand before is not lent
            door.remove([known.handle for _, known in lent if known is not None])
        self._recount()


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
