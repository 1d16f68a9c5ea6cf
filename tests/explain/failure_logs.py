"""Failures in the words of the programs that print them, made up from the grammar of their
messages, each with what is true of it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
UNITS = {"KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB, "MB": MIB, "GB": GIB, "KB": KIB, "kB": KIB}
FIELDS = ("device", "allocator", "tensor_shape", "dtype", "bytes", "op")


@dataclass
class Failure:
    """Lines as printed, and the truth about them. A field that is not named is not in the lines;
    `cause` empty: not asked for; `resource` "none": the message does not say."""

    lines: list[str]
    resource: str
    cause: tuple[str, ...] = ()
    verdict: str = "failure"
    truth: dict[str, Any] = field(default_factory=dict)
    whole: bool = False  # only as it stands: a wrap or a prefix would change what it says


Maker = Callable[[random.Random], Failure]
FAMILIES: dict[str, Maker] = {}


def family(maker: Maker) -> Maker:
    FAMILIES[maker.__name__] = maker
    return maker


def amount(
    rng: random.Random, low: float, high: float, unit: str, digits: int = 2
) -> tuple[str, int]:
    """A size as text and in bytes: between `low` and `high` of the unit."""
    text = f"{rng.uniform(low, high):.{digits}f}"
    return text + unit, int(float(text) * UNITS[unit.strip()] + 0.5)


def printed(count: float, unit: str, digits: int = 2) -> str:
    return f"{count:.{digits}f} {unit}"


def size_of(text: str) -> int:
    number, unit = text.split()
    return int(float(number) * UNITS[unit] + 0.5)


def tf_size(count: int) -> str:
    """As TensorFlow prints a number of bytes."""
    if count < KIB:
        return f"{count}B"
    for name, unit, digits in (("KiB", KIB, 1), ("MiB", MIB, 2), ("GiB", GIB, 2)):
        if count < unit * 1024 or name == "GiB":
            return f"{count / unit:.{digits}f}{name}"
    raise AssertionError
