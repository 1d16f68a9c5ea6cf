"""Sessions that stay between calls: a plan, its kernels, and an arena with a copy of the weights.

What a session computes with is what Keras's variables hold when the call begins, compared byte by
byte; so nothing of a session is ever the only copy of anything, and it can be ended at any time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from plimsoll import _core
from plimsoll.errors import translate
from plimsoll.options import Options

MOST = 256 << 20  # bytes: a session that holds more ends with its call
_Answer = TypeVar("_Answer")
_all: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """What is kept for calls of one kind on one model."""

    def __init__(self, name: str, config: str) -> None:
        try:
            self.engine = _core.Engine(config, name)
        except _core.EngineError as error:
            raise translate(error) from None
        self._kept = _core.Kept()
        self._asked: tuple[Any, ...] = ()
        self._batch = self._short = 0
        _all.add(self)

    @property
    def held(self) -> int:
        return int(self.engine.held)

    def release(self) -> None:
        """Without effect while it runs."""
        self.engine.close()

    def run(
        self, how: Options, sizes: tuple[int, int], rows: int,
        call: Callable[[_core.Kept], _Answer], go_on: bool = False,
        iterations: Callable[[], int] = lambda: 0,
    ) -> _Answer:  # fmt: skip
        """Calls with a session for batches of `sizes`, the larger first; 0: no other.

        `rows`: of the whole call; more than the larger size are cut into batches of it. `go_on`:
        metrics count on from the last call.
        """
        if not self._serves(how, sizes, rows):
            self._plan(how, sizes, rows, iterations, go_on)
        self._kept.go_on_counting = go_on
        try:
            return self._attempt(how, sizes, rows, iterations, call)
        except _core.EngineError as error:
            raise how.explain(error) from None

    def end_call(self) -> None:
        """What holds much is not kept."""
        if self.held > MOST:
            self.engine.close()

    def _attempt(
        self, how: Options, sizes: tuple[int, int], rows: int, iterations: Callable[[], int],
        call: Callable[[_core.Kept], _Answer],
    ) -> _Answer:  # fmt: skip
        try:
            return call(self._kept)
        except _core.EngineError as error:
            joined = {self._batch, self._short} != set(sizes)
            others = [one for one in _all if one is not self and one.held]
            if error.args[0] != "budget" or not (joined or others):
                raise
        for one in others:
            one.release()
        self._size(how, sizes, rows, iterations)
        return call(self._kept)

    def _serves(self, how: Options, sizes: tuple[int, int], rows: int) -> bool:
        if not self.engine.trains or self._asked != how.asked:
            return False
        ours = (self._batch, self._short, 0)
        if sizes[0] not in ours or sizes[1] not in ours:
            return False
        if rows > sizes[0] and sizes[0] != self._batch:
            return False
        return how.memory is None or (rows <= self._kept.rows and self._is_within())

    def _is_within(self) -> bool:
        """Whether the process, all sessions included, is within the limit still."""
        limit = self._kept.settings.memory
        if limit is None or _core.takes_at_most(limit):
            return True
        release_all(but=self)
        return _core.takes_at_most(limit)

    def _plan(
        self,
        how: Options,
        sizes: tuple[int, int],
        rows: int,
        iterations: Callable[[], int],
        go_on: bool,
    ) -> None:
        """A session for these sizes, and for the largest other one that there was."""
        batch, short = sizes
        if self._asked == how.asked and short == 0:
            for other in (self._batch, self._short):
                if other not in (0, batch) and (other < batch or rows <= batch):
                    batch, short = max(batch, other), min(batch, other)
                    break
        if not go_on:
            self.engine.close()
        if how.memory is not None:
            release_all(but=self)
        how.measure(beside=self.held)
        self._asked = how.asked
        self._size(how, (batch, short), rows, iterations)

    def _size(
        self, how: Options, sizes: tuple[int, int], rows: int, iterations: Callable[[], int]
    ) -> None:
        self._batch, self._short = sizes
        self._kept.settings = how.settings(self._batch, iterations())
        self._kept.short_batch = self._short
        self._kept.rows = rows


def release_all(but: Session | None = None) -> None:
    for session in list(_all):
        if session is not but:
            session.release()


def held_by_all() -> int:
    """Bytes that sessions of all models hold."""
    return sum(session.held for session in list(_all))
