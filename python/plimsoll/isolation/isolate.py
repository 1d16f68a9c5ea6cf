"""A fit in a process of its own, without Keras and its framework (isolated.py is that process).

Keras's events, the order of samples and the rate come from here, epoch by epoch; there the engine
runs an epoch and leaves the state in memory that both have. It is left in one of two places by
turns, so that whatever becomes of the other process the state of the last whole epoch is here.
"""

from __future__ import annotations

import copy
import fcntl
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plimsoll import _core, data
from plimsoll.errors import translate
from plimsoll.isolation import wire
from plimsoll.model import live
from plimsoll.options import MIB, Options, size
from plimsoll.training.loop import Callbacks

_RESERVE = 8 * MIB  # what an interpreter takes that only passes on messages
_RATE = "optimizer/learning_rate"  # its name among the variables
_SECONDS = 10.0  # that the process may take to end


@dataclass
class _Asked:
    """Settings, as far as they are made here."""

    batch: int
    tune: bool


class _OptionsElsewhere(Options):
    """What this process holds is no matter.

    share: bytes of the engine there, beside what that process holds; None: as `memory` says.
    """

    share: int | None = None

    def settings(self, batch: int) -> Any:
        return _Asked(batch, self.tune)

    def explain(
        self, error: _core.EngineError, engine: _core.Engine | None = None, batch: int = 0
    ) -> BaseException:
        return translate(error)

    def told(self) -> dict[str, Any]:
        reserve = size(self.reserve, "reserve")
        return {
            "memory": size(self.memory), "reserve": _RESERVE if reserve is None else reserve,
            "threads": int(self.threads), "parts": int(self.parts),
            "lanes": int(self.lanes), "seed": int(self.seed),
            "precision": self.precision, "backend": self.backend, "plan_time": self.plan_time,
            "max_slowdown": self.max_slowdown, "without": self.without, "times": self.times,
            "spill": self.spill, "spill_dir": self.spill_dir,
        }  # fmt: skip


class _Process:
    """The other process, and what it says."""

    def __init__(self, arrays: int, state: int) -> None:
        self._control, theirs = socket.socketpair()
        # Above those of standard streams, which may be closed: they are made anew in the child.
        passed = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3)
                  for one in (theirs.fileno(), arrays, state)]  # fmt: skip
        theirs.close()
        root = str(Path(__file__).resolve().parents[2])
        try:
            here = os.getcwd()
        except FileNotFoundError:
            here = ""
        paths = [path or here for path in sys.path if isinstance(path, str) and (path or here)]
        if root not in paths:
            paths.insert(0, root)
        program = (f"import sys; sys.path[:] = {paths!r}; from plimsoll.isolation.isolated "
                   f"import main; main{tuple(passed)}")  # fmt: skip
        if not sys.executable:
            raise RuntimeError("isolate: expected an interpreter in sys.executable, received none.")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=passed,
                start_new_session=True,  # Ctrl-C is passed on from here
            )  # fmt: skip
        finally:
            for one in passed:
                os.close(one)
        self.heard = False
        self.said: deque[wire.Message] = deque()
        self.reply: wire.Message | None = None
        self.ended = False
        self.news = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _listen(self) -> None:
        while True:
            message = wire.receive(self._control)
            self.heard = self.heard or message is not None
            if message is None:
                self.ended = True
            elif "tells" in message:
                self.said.append(message)
            else:
                self.reply = message
            self.news.set()
            if message is None:
                return

    def send(self, message: wire.Message) -> None:
        try:
            wire.send(self._control, message)
        except OSError:
            self.ended = True

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def why_it_ended(self) -> str:
        code = self._process.wait()
        if not self.heard and code != -signal.SIGKILL:
            return f"did not start (exit code {code}); sys.executable is {sys.executable!r}"
        if code == -signal.SIGKILL:
            return ("was killed (SIGKILL), which the kernel does where memory runs out. Name a "
                    "lower memory=, or leave it more room")  # fmt: skip
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def close(self, kill: bool = False) -> None:
        if kill:
            self._process.kill()
        try:
            self._control.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._control.close()


class Elsewhere:
    """Stands in for the engine of a fit of arrays; the engine is in another process."""

    def __init__(self, known: live.Live, options: _OptionsElsewhere) -> None:
        self._known, self._options = known, options
        self.input_names, self.output_names = known.engine.input_names, known.engine.output_names
        self._offsets = known.engine.offsets()
        self._process: _Process | None = None
        self._memory: mmap.mmap | None = None  # of the state
        self._descriptors: list[int] = []
        self._adopts: tuple[Callable[[int], np.ndarray[Any, Any]], int] | None = None
        self._place = 0  # of the state that holds, of two
        self._given: list[int] = []  # variables that the other process has left there
        self._logs: dict[str, float] = {}
        self._epochs = 0
        self.grown = 0  # bytes by which model, engine and epochs raised the peak of that process
        self.runs = False

    def start(self, samples: data.Samples, validation: data.Samples | None) -> Elsewhere:
        """Begins the other process, on copies of the arrays in memory that both have."""
        places = wire.Places()
        found: list[tuple[Any, np.ndarray[Any, Any]]] = []

        def place(arrays: list[np.ndarray[Any, Any]]) -> list[Any]:
            placed = [places.add(array.dtype, array.shape) for array in arrays]
            found.extend(zip(placed, arrays))
            return placed

        train, held = ([place(of.x), place(of.y), place(of.weights)]
                       for of in (samples, validation or data.Samples([])))  # fmt: skip
        self._order = places.add(np.dtype("int64"), (samples.rows,))
        try:
            for name, count in (("arrays", places.end), ("state", 2 * self._offsets[-1])):
                descriptor = os.memfd_create(f"plimsoll-{name}", os.MFD_CLOEXEC)
                self._descriptors.append(descriptor)
                os.ftruncate(descriptor, max(count, 1))
            self._arrays, self._state = self._descriptors
            for (offset, _dtype, _shape), array in found:
                wire.write(self._arrays, offset, array)
            self._memory = mmap.mmap(self._state, max(2 * self._offsets[-1], 1), mmap.MAP_SHARED,
                                     mmap.PROT_READ)  # fmt: skip
            self._process = _Process(self._arrays, self._state)
        except BaseException:
            self.close()
            raise
        self._process.send({
            "config": self._known.config, "name": self._known.model.name,
            "options": self._options.told(), "share": self._options.share,
            "bytes": max(places.end, 1), "train": train, "validation": held, "order": self._order,
        })  # fmt: skip
        return self

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    @property
    def trains(self) -> bool:
        """Whether anything was trained that Keras's variables may not have."""
        return bool(self._given)

    @property
    def pid(self) -> int:
        """The other process's number; 0: there is none."""
        return 0 if self._process is None else self._process.pid

    def adopt(self, read: Callable[[int], np.ndarray[Any, Any]], count: int) -> None:
        """Variables are read when the next epoch begins; until then they are the state."""
        self._adopts = read, count

    def give(self, take: Callable[[int, np.ndarray[Any, Any]], None], weights_only: bool) -> None:
        if self._adopts is not None:
            return
        begin = self._place * self._offsets[-1]
        for index in self._given:
            if weights_only and index >= self._known.weight_count:
                continue
            _path, _name, dtype, shape = self._known.variables[index]
            place = begin + self._offsets[index], live.number_type(dtype).str, shape
            take(index, wire.array_at(self._memory, place).copy())

    def metrics(self) -> dict[str, float]:
        return self._logs

    def set_learning_rate(self, rate: float) -> None:
        if self._process is None:
            return
        self._process.send({"do": "rate", "rate": rate})
        for index in self._given:  # what was left here has it too
            if self._known.variables[index][1] == _RATE:
                place = self._place * self._offsets[-1] + self._offsets[index]
                wire.write(self._state, place, np.array(rate, "float32"))

    def fit(
        self, settings: Any, arrays: Any, validation: Any, order: np.ndarray[Any, Any] | None,
        skip_validation: bool, every_step: bool, every_test: bool, ends_on_nan: bool,
        seen_steps: int, listener: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """One epoch there."""
        assert self._process is not None and not every_step and not every_test
        self._known.lent = True  # no other call on the model meanwhile
        try:
            self._pass_state()
            if order is not None:
                wire.write(self._arrays, self._order[0], order)
            self._process.reply = None
            self._process.send({
                "do": "fit", "batch": settings.batch, "seen_steps": seen_steps,
                "tune": settings.tune, "ordered": order is not None,
                "skip_validation": skip_validation, "ends_on_nan": ends_on_nan,
                "begin": (1 - self._place) * self._offsets[-1],
            })  # fmt: skip
            try:
                reply = self._wait(listener)
            except BaseException:
                self._stop()
                raise
        finally:
            self._known.lent = False
        self._take(reply)
        if "error" in reply:
            raise _core.EngineError(*reply["error"])
        self._epochs += 1
        self.grown = int(reply["grown"])
        ended = dict(reply["ended"])
        return ended | {"logs": wire.logs_of(ended["logs"])} if "logs" in ended else ended

    def _pass_state(self) -> None:
        assert self._process is not None
        if self._adopts is None:
            return
        read, count = self._adopts
        begin = self._place * self._offsets[-1]
        for index in range(count):
            wire.write(self._state, begin + self._offsets[index], np.ascontiguousarray(read(index)))
        self._process.send({"do": "adopt", "begin": begin, "count": count})
        self._adopts = None

    def _wait(self, listener: Any) -> wire.Message:
        """The reply. Raises ChildProcessError where the other process has ended."""
        process = self._process
        assert process is not None
        while True:
            reply = process.reply  # all that was said before it is there
            while process.said and listener is not None:
                message = process.said.popleft()
                if message["logs"] is not None:
                    self._logs = wire.logs_of(message["logs"])
                getattr(listener, message["tells"])(*message["with"])
            if reply is not None:
                return reply
            if process.ended and process.reply is None:
                raise ChildProcessError(
                    f"[{self._known.model.name}] fit: expected the process that trains to finish "
                    f"the epoch, received its end: it {process.why_it_ended()}. The model holds "
                    f"what it held after {self._epochs} whole epochs of this call."
                )
            process.news.wait()
            process.news.clear()

    def _stop(self) -> None:
        """After Ctrl-C: what was trained so far is left here, as of the last step."""
        process = self._process
        assert process is not None
        if process.ended:
            return
        try:
            process.interrupt()
            self._take(self._wait(None))
        except ChildProcessError:
            pass
        except BaseException:  # another Ctrl-C: as of the last epoch
            process.close(kill=True)
            raise

    def _take(self, reply: wire.Message) -> None:
        if "logs" in reply:
            self._logs = reply["logs"] = wire.logs_of(reply["logs"])
        if "given" in reply:
            self._given, self._place = reply["given"], 1 - self._place

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process, self._given = None, []
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


def elsewhere(
    known: live.Live, options: dict[str, Any], share: int | None = None
) -> tuple[live.Live, Options, Elsewhere]:
    """The model with an engine that another process will run, and its options."""
    known.refuse_in_a_call("fit")
    how = _OptionsElsewhere.of(options)
    how.share = share
    engine = Elsewhere(known, how)
    there = copy.copy(known)
    there.engine = engine  # type: ignore[assignment]
    return there, how, engine


def check(events: Callbacks, iterated: bool, steps_per_epoch: int | None) -> None:
    """Raises ValueError for what needs the live model, or data, within an epoch."""
    if iterated or steps_per_epoch is not None:
        raise ValueError(
            "isolate: expected arrays and no steps_per_epoch, received "
            f"{'batches' if iterated else f'steps_per_epoch={steps_per_epoch}'}."
        )
    inside = events.acting_within_epochs()
    if inside:
        raise ValueError(
            f"isolate: expected callbacks that act at the ends of epochs, received "
            f"{', '.join(inside)} with methods for batches or tests: the model is in another "
            "process within an epoch."
        )
