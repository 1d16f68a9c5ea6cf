"""Ranks: processes that `mpirun` has started with one program, which train its model together.

Each runs the whole program and has the model, its optimizer and the data. In `fit` each computes
its part of every batch (docs/machines.md). The callbacks are the first rank's: what they decide
(the rate, the end of the training) and write into the model comes to all, and so do the logs.
Other calls are done by each rank by itself.
"""

from __future__ import annotations

import atexit
import json
import numbers
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from plimsoll import _core
from plimsoll.errors import Refused, guarded
from plimsoll.model import sync
from plimsoll.surroundings import raised_here
from plimsoll.versions import keras_module

TIMEOUT = 600.0  # seconds: the first rank's callbacks may evaluate and write
_SENDS = "OMPI_MCA_btl_tcp_flags"
_SAMPLED = 1 << 16  # bytes at both ends of an array
_DEEPEST = 8  # lists in lists, of what is told

_T = TypeVar("_T")
_lock = threading.Lock()
_group: _core.Group | None = None
_thread: int | None = None  # that joined


@contextmanager
def _sent_over_tcp() -> Iterator[None]:
    """Long messages of Open MPI's, rather than put one direction after the other, while it starts.

    What a person has set stays.
    """
    if _SENDS in os.environ:
        yield
        return
    os.environ[_SENDS] = "1"
    try:
        yield
    finally:
        del os.environ[_SENDS]


def rank() -> int:
    """Which of the processes that `mpirun` has started this one is, from 0; 0 if it is alone."""
    return int(_core.launched_rank())


def joined() -> _core.Group | None:
    """The other ranks, joined by the first call; None where the process is alone."""
    global _group, _thread
    with _lock:
        if _thread is None:
            with _sent_over_tcp():
                _group = guarded(lambda: _core.join_ranks(TIMEOUT))
            _thread = threading.get_ident()
            if _group is not None:
                atexit.register(_leave)
        if _group is not None and _thread != threading.get_ident():
            raise ValueError(
                "fit: expected the thread that has joined the other ranks, received another one. "
                "Where ranks train together, call fit in one thread."
            )
        return _group


def trains_together() -> bool:
    """Whether this process has joined others."""
    return _group is not None


def accepted(
    group: _core.Group | None, arguments: Callable[[], dict[str, Any]], prepare: Callable[[], _T]
) -> _T:
    """What `prepare` gives, where no rank raises in it and all call fit with equal `arguments`.

    Where some ranks alone raise, the others raise Refused, which says why.
    """
    if group is None:
        return prepare()
    error: Exception | None = None
    given: dict[str, str] = {}
    try:
        given = {name: str(value) for name, value in arguments().items()}
        answer = prepare()
    except Exception as own:
        error = own
    told = _told_by_all(group, {"error": error and (str(error) or repr(error)), "given": given})
    refused = [rank for rank, one in enumerate(told) if one["error"] is not None]
    if error is not None and (len(refused) == len(told) or not _is_refusal(error)):
        raise error
    if refused:
        raise Refused(
            f"fit: expected all ranks to accept it, received a refusal by rank {refused[0]}: "
            f"{told[refused[0]]['error']}"
        ) from error
    for rank, one in enumerate(told):
        for name, first in told[0]["given"].items():
            if one["given"][name] != first:
                raise ValueError(
                    f"{name} of fit: expected the same on all ranks, received {first} on rank 0 "
                    f"and {one['given'][name]} on rank {rank}. Call fit alike on all of them."
                )
    return answer


def _is_refusal(error: Exception) -> bool:
    """Rather than an error of the program's own code."""
    return isinstance(error, (TypeError, ValueError)) and raised_here(error)


def _told_by_all(group: _core.Group, own: Any) -> list[Any]:
    text = json.dumps(own).encode()

    def of(rank: int) -> Any:
        return json.loads(guarded(lambda: group.share(text if rank == group.rank else b"", rank)))

    return [of(rank) for rank in range(group.count)]


def _leave() -> None:
    """When the program ends; where an error ended it, the launcher ends the others."""
    assert _group is not None
    _group.leave(getattr(sys, "last_type", None) is not None)


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view("uint8").data


def plain(value: Any, depth: int = _DEEPEST, around: tuple[int, ...] = ()) -> Any:
    """Numbers, texts, lists and dictionaries of them; of everything else its text.

    Arrays of numbers are lists. `around`: by id(), what holds the value.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (dict, list, tuple)):
        if depth == 0 or id(value) in around:
            return str(value)
        inside = (*around, id(value))
        if isinstance(value, dict):
            return {str(key): plain(item, depth - 1, inside) for key, item in value.items()}
        return [plain(item, depth - 1, inside) for item in value]
    if hasattr(value, "__array__"):
        return _plain_array(value)
    return str(value)


def _plain_array(value: Any) -> Any:
    """An array of NumPy's, or a framework's, as lists."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return str(value)
    if array.dtype.kind in "fiub":
        return array.tolist()
    if array.dtype.name == "bfloat16":
        return array.astype("float32").tolist()
    return str(value)


def _sampled(arrays: list[np.ndarray[Any, Any]], check: int) -> int:
    for array in arrays:
        flat = _bytes_of(array)
        check = zlib.crc32(f"{array.shape} {array.dtype}".encode(), check)
        check = zlib.crc32(flat[:_SAMPLED], check)
        check = zlib.crc32(flat[max(len(flat) - _SAMPLED, 0) :], check)
    return check


class Shared:
    """One call of fit on all ranks."""

    def __init__(self, group: _core.Group, known: Any) -> None:
        self.group, self.known = group, known
        self.leads = group.rank == 0
        self._marks: list[int] | None = None  # of all variables, before callbacks are called

    def first(self, own: Any) -> Any:
        """What the first rank says, on all, as plain() has it."""
        text = json.dumps(plain(own)).encode() if self.leads else b""
        return json.loads(self._shared(text))

    def _shared(self, own: bytes) -> bytes:
        held: bytes = guarded(lambda: self.group.share(own))
        return held

    def any(self, flag: bool) -> bool:
        """Whether it is so on any rank."""
        return bool(guarded(lambda: self.group.any(flag)))

    def expect_equal(self, what: str, own: str) -> None:
        guarded(lambda: self.group.expect_equal(what, own))

    def expect_samples(self, what: str, samples: Any) -> None:
        """The same on all ranks, by size and some of their bytes; None: there are no more."""
        if samples is None:
            return self.expect_equal(what, "none")
        held = _sampled([*samples.x, *samples.y, *samples.weights], 0)
        return self.expect_equal(what, f"{samples.rows} of checksum {held:08x}")

    def order(self, order: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any] | None:
        """The first rank's order of samples."""
        if not self.first(order is not None):
            return None
        own = order.tobytes() if self.leads and order is not None else b""
        return np.frombuffer(self._shared(own), "int64")

    def begin(self) -> None:
        """All take the first rank's weights, and its optimizer's state."""
        self._write(list(range(len(self._variables().variables))))

    def mark(self) -> None:
        """Callbacks of the first rank are about to be called, which may write variables."""
        if self.leads:
            self._marks = self._sums()

    def agree(self, told: dict[str, Any]) -> dict[str, Any]:
        """After them: what the first rank tells, and what they have written."""
        known, changed = self.known, []
        if self.leads and self._marks is not None:
            changed = [i for i, (a, b) in enumerate(zip(self._marks, self._sums())) if a != b]
        self._marks = None
        told = self.first({**told, "changed": changed, "trains": bool(known.engine.trains)})
        if known.engine.trains and not told["trains"]:  # a callback had it ended
            known.give()
            known.engine.close()
            known.take()
        self._write(told["changed"])
        return told

    def _variables(self) -> Any:
        return self.known.read_by_engine(True)

    def _sums(self) -> list[int]:
        variables = self._variables()
        return [zlib.crc32(_bytes_of(sync.array(variables, index)))
                for index in range(len(variables.variables))]  # fmt: skip

    def _write(self, indices: list[int]) -> None:
        if not indices:
            return
        variables = self._variables()
        for index in indices:
            own = sync.array(variables, index)
            held = self._shared(own.tobytes() if self.leads else b"")
            if not self.leads:
                sync.assign(variables, index, np.frombuffer(held, own.dtype).reshape(own.shape))


def rate_of(model: Any) -> Any:
    """The variable of a rate that callbacks may set; None where it follows a schedule."""
    optimizer = model.optimizer
    rate = getattr(getattr(optimizer, "inner_optimizer", optimizer), "_learning_rate", None)
    return rate if hasattr(rate, "assign") else None


def rate_in(rate: Any) -> float:
    return float(np.asarray(keras_module().ops.convert_to_numpy(rate)))
