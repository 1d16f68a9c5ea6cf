"""The process that trains for another one: the engine, and neither Keras nor its framework.

It is started by isolate.py, is told what to do over a socket, and ends when the other side does.
Its memory is the whole of what `memory` bounds; the arrays that it maps are among it.
"""

from __future__ import annotations

import mmap
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from typing import Any

from plimsoll import _core
from plimsoll.errors import ResourceExhausted
from plimsoll.isolation import wire
from plimsoll.options import Listener, Options, size


class _Teller(Listener):
    """Passes on what the engine tells while it works."""

    def __init__(self, control: socket.socket, engine: _core.Engine) -> None:
        self._control, self._engine = control, engine

    def _tell(self, method: str, *arguments: Any, counted: bool = False) -> None:
        logs = self._engine.metrics() if counted else None
        wire.send(self._control, {"tells": method, "with": arguments, "logs": logs})

    def notice(self, text: str) -> None:
        self._tell("notice", text)

    def begin(self, plan: str) -> None:
        self._tell("begin", plan)

    def step(self, step: int, loss: float) -> None:
        self._tell("step", step, loss, counted=True)

    def validation(self, begins: bool) -> None:
        self._tell("validation", begins, counted=True)

    def passed_limit(self, measured: int, limit: int) -> None:
        self._tell("passed_limit", measured, limit)


class _Interrupts:
    """Ctrl-C, which the other process passes on once: raised within, or when that begins."""

    def __init__(self) -> None:
        self._asked = self._within = False

    def take(self, number: int, frame: Any) -> None:
        self._asked = True
        if self._within:
            raise KeyboardInterrupt

    def __enter__(self) -> None:
        self._within = True
        if self._asked:
            raise KeyboardInterrupt

    def __exit__(self, *error: Any) -> None:
        self._within = False


_interrupts = _Interrupts()


class Worker:
    def __init__(self, control: socket.socket, arrays: int, state: int, told: wire.Message) -> None:
        self._control = control
        self._state = f"/proc/self/fd/{state}"
        self._options = Options(**told["options"])
        # Every page is in memory from the start, so that it is among what the process holds when
        # the engine asks.
        self._memory = mmap.mmap(arrays, told["bytes"], mmap.MAP_SHARED | mmap.MAP_POPULATE,
                                 mmap.PROT_READ)  # fmt: skip
        self._train, self._validation = (
            _core.Arrays(*([wire.array_at(self._memory, place) for place in places]
                           for places in told[name])) for name in ("train", "validation")
        )  # fmt: skip
        self._order = wire.array_at(self._memory, told["order"])
        self._held = _core.process_memory_peak()  # without model and engine
        self._engine = _core.Engine(told["config"], told["name"])
        self._settings: _core.Settings | None = None
        self._share = told["share"]

    def serve(self, messages: queue.SimpleQueue[wire.Message]) -> None:
        while True:
            message = messages.get()
            if message["do"] == "adopt":
                self._engine.adopt_file(self._state, message["begin"], message["count"])
            elif message["do"] == "rate":
                self._engine.set_learning_rate(message["rate"])
            else:
                wire.send(self._control, self._fit(message))

    def _fit(self, asked: wire.Message) -> wire.Message:
        reply: wire.Message = {}
        try:
            with _interrupts:
                reply["ended"] = self._epoch(asked)
            reply["grown"] = _core.process_memory_peak() - self._held
        except KeyboardInterrupt:
            reply["interrupted"] = True
        except _core.EngineError as error:
            kind, message = error.args[:2]
            reply["error"] = (
                kind,
                str(self._options.explain(error)) if kind == "budget" else message,
            )
        except ResourceExhausted as error:
            reply["error"] = "budget", str(error)
        except ValueError as error:
            reply["error"] = "config", str(error)
        except Exception as error:
            traceback.print_exc()
            reply["error"] = "internal", f"{type(error).__name__}: {error}"
        if self._engine.trains:
            reply["logs"] = self._engine.metrics()
            reply["given"] = self._engine.give_file(self._state, asked["begin"])
        return reply

    def _epoch(self, asked: wire.Message) -> dict[str, Any]:
        if self._settings is None:
            if self._share is not None:
                reserve = size(self._options.reserve, "reserve") or 0
                self._options.memory = _core.held_by_process() + self._share + reserve
            self._settings = self._options.settings(asked["batch"])
        self._settings.tune = asked["tune"]
        return self._engine.fit(
            self._settings, self._train, self._validation,
            self._order if asked["ordered"] else None, asked["skip_validation"], False, False,
            asked["ends_on_nan"], asked["seen_steps"], _Teller(self._control, self._engine),
        )  # fmt: skip


def _prefer_to_end() -> None:
    """Where the machine runs out of memory this process ends, not the one that it works for."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            file.write(str(max(int(file.read()), 500)))
    except (OSError, ValueError):
        pass


def main(control: int, arrays: int, state: int) -> None:
    signal.signal(signal.SIGINT, _interrupts.take)
    _prefer_to_end()
    line = socket.socket(fileno=control)
    told = wire.receive(line)
    if told is None:
        sys.exit(0)
    messages: queue.SimpleQueue[wire.Message] = queue.SimpleQueue()

    def listen() -> None:
        while True:
            message = wire.receive(line)
            if message is None:
                os._exit(0)  # nobody is there to hear of an end
            messages.put(message)

    worker = Worker(line, arrays, state, told)
    threading.Thread(target=listen, daemon=True).start()
    worker.serve(messages)
