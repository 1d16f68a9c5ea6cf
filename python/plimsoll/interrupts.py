"""Ctrl-C at moments that cannot bear it.

Python raises KeyboardInterrupt between any two of its instructions. TensorFlow, in whose functions
that may be, makes a RuntimeError of it, which no program expects; and a model half of whose
variables were assigned is none.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def put_off() -> Iterator[None]:
    """Ctrl-C comes at the end of the block, once, however it ends."""
    before = signal.getsignal(signal.SIGINT)
    # Only this thread may set handlers, and Python calls them in this thread alone.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[FrameType | None] = []
    own = lambda _, frame: came.append(frame)  # noqa: E731
    signal.signal(signal.SIGINT, own)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is own:  # nobody has set another one
            signal.signal(signal.SIGINT, before)
        if came:
            before(signal.SIGINT, came[0])
