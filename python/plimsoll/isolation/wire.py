"""What two processes say to each other: JSON over a socket, arrays in memory that both have.

Nothing is pickled. A message is its length (eight bytes, little-endian) and a JSON text; arrays lie
in memory that has file descriptors, and messages name where.
"""

from __future__ import annotations

import json
import math
import os
import socket
import struct
from typing import Any

import numpy as np

_ALIGNMENT = 64
_PIECE = 1 << 24
_Place = tuple[int, str, list[int]]  # offset, type, shape
Message = dict[str, Any]


def send(control: socket.socket, message: Message) -> None:
    text = json.dumps(message, default=np.ndarray.tolist).encode()
    control.sendall(struct.pack("<Q", len(text)) + text)


def receive(control: socket.socket) -> Message | None:
    """The next message; None: the other side has ended."""
    head = _exactly(control, 8)
    text = None if head is None else _exactly(control, struct.unpack("<Q", head)[0])
    return None if text is None else dict(json.loads(text))


def logs_of(told: dict[str, Any]) -> dict[str, Any]:
    """Logs of a message; what has several numbers as an array."""
    return {name: np.array(value, "float32") if isinstance(value, list) else value
            for name, value in told.items()}  # fmt: skip


def _exactly(control: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = control.recv(min(count - len(parts), _PIECE))
        except OSError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)


class Places:
    """Where arrays lie in memory that is written by one process and mapped by another."""

    def __init__(self) -> None:
        self.end = 0

    def add(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> _Place:
        offset = self.end
        size = dtype.itemsize * math.prod(shape)
        self.end += -(-size // _ALIGNMENT) * _ALIGNMENT
        return offset, dtype.str, list(shape)


def write(descriptor: int, offset: int, array: np.ndarray[Any, Any]) -> None:
    """A C-contiguous array's bytes. Raises OSError where there is no memory for them."""
    if array.nbytes == 0:
        return
    view = array.reshape(-1).view("uint8").data
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done : done + _PIECE], offset + done)


def array_at(memory: Any, place: Any) -> np.ndarray[Any, Any]:
    """The array that lies in `memory` at a place, without a copy."""
    offset, dtype, shape = place
    return np.ndarray(tuple(shape), np.dtype(dtype), buffer=memory, offset=offset)
