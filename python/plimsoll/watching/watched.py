"""plimsoll.watch: what this process and its descendants take while a part of a program runs."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from statistics import median
from typing import Any

from plimsoll import asked
from plimsoll.errors import ResourceExhausted
from plimsoll.explained import Explanation, explain
from plimsoll.options import MIB, size
from plimsoll.watching import tree

EVERY = 0.05  # seconds between samples
HIGH_MARK = 0.9  # of the memory, at which a line is printed
_FEWEST = 8  # epochs by which growth is judged
_OURS = (ResourceExhausted,)  # whose text is the explanation
_NAMES = ("ResourceExhaustedError", "OutOfMemoryError")


def _is_of_memory(error: BaseException) -> bool:
    """Whether a framework or Python was refused memory."""
    names = {one.__name__ for one in type(error).__mro__}
    return (
        isinstance(error, MemoryError)
        or not names.isdisjoint(_NAMES)
        or "RESOURCE_EXHAUSTED" in str(error)
    )


class Watch:
    """A context manager and a callback of Keras's; sizes are in bytes.

    began, now: what is held at the begin, and at the last look. peak: the most so far, of it
    of_children by descendants. epochs: what was held when each epoch ended. explanation: of an
    error of memory that ended the block.
    """

    def __init__(self, memory: int | str | None, quiet: bool) -> None:
        super().__init__()
        self.memory = size(memory if memory is not None else "100%") or 0
        self.quiet = quiet
        self.began = self.now = self.peak = self.of_children = 0
        self.epochs: list[int] = []
        self.explanation: Explanation | None = None
        self._has_warned = False
        self._of: set[str] = set()  # what is watched: a block, a fit, or both
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def per_epoch(self) -> float | None:
        """Bytes by which an epoch raises what is held: the median over all pairs of epochs.

        The first epoch is left out, since it makes what later ones use. None: fewer than 8.
        """
        held = self.epochs[1:]
        if len(self.epochs) < _FEWEST:
            return None
        return median(
            (later - held[i]) / (j - i)
            for i in range(len(held))
            for j, later in enumerate(held[i + 1 :], i + 1)
        )

    def look(self) -> int:
        """What is held now."""
        theirs = tree.of_descendants(os.getpid())
        self.now = tree.resident() + theirs
        self._see(self.now, theirs)
        return self.now

    def _see(self, held: int, theirs: int) -> None:
        if held > self.peak:
            self.peak, self.of_children = held, theirs
        if held > HIGH_MARK * self.memory and not self._has_warned and not self.quiet:
            self._has_warned = True
            asked.say(f"memory: {held / MIB:.1f} of {self.memory / MIB:.1f} MiB are held.")

    def _begin(self, what: str) -> None:
        if self._of == {what} == {"fit"}:  # an error ended the one before
            self._stop()
        is_first = not self._of
        self._of.add(what)
        if not is_first:
            return
        self.peak, self.epochs, self._has_warned = 0, [], False
        self._before = tree.highest_resident()
        self.began = self.look()
        self._ends = threading.Event()
        self._thread = threading.Thread(
            target=_sample, args=(weakref.ref(self), self._ends), name="plimsoll watch", daemon=True
        )
        self._thread.start()

    def _stop(self) -> None:
        self._of.clear()
        self._ends.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _end(self) -> None:
        self._stop()
        self.look()
        highest = tree.highest_resident()
        if highest > self._before:  # it was reached meanwhile
            self._see(highest, 0)
        if not self.quiet:
            asked.say(str(self))

    def __enter__(self) -> Watch:
        self._begin("block")
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._end()
        if error is None or isinstance(error, _OURS) or not _is_of_memory(error):
            return
        try:
            self.explanation = explain(error)
        except (OSError, ValueError, RuntimeError) as of_program:
            self.explanation = None
            asked.say(f"the error is not explained: {of_program}")
        else:
            if not self.quiet:
                print(self.explanation, file=sys.stderr)

    def on_train_begin(self, logs: Any = None) -> None:
        self._begin("fit")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs.append(self.look())

    def on_train_end(self, logs: Any = None) -> None:
        if self._of == {"fit"}:
            self._end()
        self._of.discard("fit")

    def __str__(self) -> str:
        text = (f"memory: {self.began / MIB:.1f} MiB when it began, {self.peak / MIB:.1f} MiB at "
                f"most, {self.now / MIB:.1f} MiB when it ended")  # fmt: skip
        if self.of_children:
            text += f"; of the most {self.of_children / MIB:.1f} MiB by descendants"
        rise = self.per_epoch
        return text if rise is None else f"{text}; {rise / MIB:+.2f} MiB an epoch"


def _sample(watch: weakref.ref[Watch], ends: threading.Event) -> None:
    """Until the end, or until nobody has the watch any more."""
    while not ends.wait(EVERY):
        one = watch()
        if one is None:
            return
        one.look()
        del one


def watch(memory: int | str | None = None, quiet: bool = False) -> Watch:
    """Follows what this process and its descendants hold, around a block or as a callback.

        with plimsoll.watch() as seen:
            model.fit(x, y, callbacks=[seen])

    memory: at 90 % of it a line is printed; none: all that the process may take. Nothing is held to
    it. quiet: nothing is printed. As a callback, made after Keras was imported, it also knows what
    is held when each epoch ends. An error of memory that leaves the block is explained.
    """
    keras = sys.modules.get("keras")
    if keras is None:
        return Watch(memory, quiet)
    bases = (Watch, keras.callbacks.Callback)
    made: Watch = type("Watch", bases, {"__module__": "plimsoll", "__doc__": Watch.__doc__})(
        memory, quiet
    )
    return made
