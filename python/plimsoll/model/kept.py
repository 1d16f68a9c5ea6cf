"""Sessions that stay between calls: a plan, its kernels, and an arena with a copy of the weights.

What a session computes with is what Keras's variables hold when the call begins, compared byte by
byte. One that trains is lent them (sync.py) and hands them back when it ends; so a session can be
ended at any time between calls.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from plimsoll import _core, asked
from plimsoll.errors import translate
from plimsoll.model.sync import Lent
from plimsoll.model.variables import Variables
from plimsoll.options import Listener, Options

MOST = 256 << 20  # bytes: a session that holds more ends with its call
_Answer = TypeVar("_Answer")
_all: weakref.WeakSet[Session] = weakref.WeakSet()
_QUIET = Listener()


class _Crowded(Exception):
    """What other sessions hold would have this one do with less than it could use."""


class _Beside(Listener):
    """Sees that a session which is planned beside others has the plan that it has alone."""

    def begin(self, plan: str) -> None:
        """Raises _Crowded before anything runs."""
        told = json.loads(plan)
        if (
            told["block_set"]
            or told["spill_bytes"]
            or told["free_plan_bytes"] > told["limit_bytes"]
        ):
            raise _Crowded
        super().begin(plan)


class Session:
    """What is kept for calls of one kind on one model."""

    def __init__(self, name: str, config: str, parks: bool = False) -> None:
        """`parks`: what it counted outlives a plan that is not found."""
        self._parks = parks
        try:
            self.engine = _core.Engine(config, name)
        except _core.EngineError as error:
            raise translate(error) from None
        self._kept = _core.Kept()
        self._asked: tuple[Any, ...] = ()
        self._batch = self._short = 0
        self._weights: tuple[Any, ...] = ()
        self._held = 0
        self._lock = threading.Lock()  # held while the engine works
        self._counts = False  # between the batches of one evaluation
        self._lent: Lent | None = None
        self._goes: weakref.finalize[..., Any] | None = None  # with the lender
        _all.add(self)

    @property
    def held(self) -> int:
        """Bytes, when the last call ended."""
        return self._held

    def release(self) -> None:
        """Without effect while it runs, or between the batches of an evaluation."""
        if self._counts or self._lock.locked():
            return
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._lent is not None:
            self._lent.hand_back()
        self.engine.close()
        self._held = 0

    def lent(self, variables: Variables, owner: Any) -> Lent:
        """What lends these to the session; handed back when `owner` goes."""
        if self._lent is None or self._lent.variables is not variables:
            if self._lent is not None and self._goes is not None:
                self._lent.hand_back()
                self._goes.detach()
            self._lent = Lent(self.engine, variables)
            self._goes = weakref.finalize(owner, self._lent.hand_back)
        return self._lent

    @contextmanager
    def batch_by_batch(self) -> Iterator[None]:
        """Calls within belong together: nothing else may use the session, or end it."""
        self.refuse_in_a_call()
        self._counts = True
        try:
            yield
        finally:
            self._counts = False

    def refuse_in_a_call(self) -> None:
        if self._counts or self._lock.locked():
            raise ValueError(
                "expected a model that is not being run, received one in the middle of another "
                "call. Call it afterwards."
            )

    def run(
        self, how: Options, sizes: tuple[int, int], rows: int,
        call: Callable[[_core.Kept, Listener], _Answer], go_on: bool = False,
        weights: tuple[Any, ...] = (),
    ) -> _Answer:  # fmt: skip
        """Calls with a session for batches of `sizes`, the larger first; 0: no other.

        `rows`: of the whole call; more than the larger size are cut into batches of it. `go_on`:
        metrics count on from the last call. `weights`: shapes of sample weights. Raises ValueError
        while another call runs.
        """
        if self._lock.locked():
            self.refuse_in_a_call()
        with self._lock:  # a call of acquire() may end in Ctrl-C before anybody knows that it did
            try:
                listener = _QUIET
                if not self._serves(how, sizes, rows) or self._weights != weights:
                    listener = self._plan(how, sizes, rows, go_on)
                self._weights = weights
                self._kept.go_on_counting = go_on
                answer = self._attempt(how, sizes, rows, call, go_on, listener)
                asked.outcome.ran += 1
                return answer
            except _core.EngineError as error:
                raise how.explain(error) from None
            finally:
                self._held = int(self.engine.held)

    def end_call(self) -> None:
        """What holds much is not kept."""
        if self.held > MOST:
            self.release()

    def _attempt(
        self, how: Options, sizes: tuple[int, int], rows: int,
        call: Callable[[_core.Kept, Listener], _Answer], go_on: bool, listener: Listener,
    ) -> _Answer:  # fmt: skip
        others = [one for one in list(_all) if one is not self and one.held]
        try:
            return call(self._kept, listener)
        except _Crowded:
            self.engine.close()
        except _core.EngineError as error:
            joined = {self._batch, self._short} != set(sizes)
            lost = go_on and not self._parks
            if lost or error.args[0] != "budget" or not (joined or others):
                raise  # what was counted is gone with the session
        for one in others:
            one.release()
        if self._lent is not None:
            self._lent.hand_back()
        how.measure(beside=held_by_all(), again=True)
        self._size(how, sizes, rows)
        return call(self._kept, _QUIET)

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
        go_on: bool,
    ) -> Listener:
        """A session for these sizes, and for the largest other one that there was.

        Within a limit, sessions of other models stay where this one has the plan that it has
        without them; so programs that alternate between models do not plan in every step.
        """
        batch, short = sizes
        if self._asked == how.asked and short == 0:
            for other in (self._batch, self._short):
                if other not in (0, batch) and (other < batch or rows <= batch):
                    batch, short = max(batch, other), min(batch, other)
                    break
        if not go_on:
            self._end()
        listener = _QUIET
        if how.memory is not None and any(one.held for one in list(_all) if one is not self):
            if go_on:
                release_all(but=self)
            else:
                listener = _Beside()
        how.measure(beside=held_by_all())  # the engine itself counts what sessions hold
        self._asked = how.asked
        self._size(how, (batch, short), rows)
        return listener

    def _size(self, how: Options, sizes: tuple[int, int], rows: int) -> None:
        self._batch, self._short = sizes
        self._kept.settings = how.settings(self._batch)
        self._kept.short_batch = self._short
        self._kept.rows = rows


def release_all(but: Session | None = None) -> None:
    for session in list(_all):
        if session is not but:
            session.release()


def held_by_all() -> int:
    """Bytes that sessions of all models hold."""
    return sum(session.held for session in list(_all))
