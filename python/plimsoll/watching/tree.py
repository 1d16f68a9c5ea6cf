"""What a process and its descendants hold, read from /proc; sizes in bytes."""

from __future__ import annotations

import re


def kib_lines(path: str, names: str) -> int:
    """The sum of lines in a file of the kernel's, as bytes; 0 where the process has ended."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read()
    except OSError:
        return 0
    return 1024 * sum(map(int, re.findall(rf"^(?:{names}):\s+(\d+) kB$", text, re.M)))


def resident() -> int:
    """Bytes that this process holds."""
    return kib_lines("/proc/self/status", "VmRSS")


def highest_resident() -> int:
    """The most bytes that this process has held, as the kernel counts: no peak is too short."""
    return kib_lines("/proc/self/status", "VmHWM")


def _children_of(pid: int) -> list[int]:
    from pathlib import Path

    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text("ascii").split())
    except OSError:  # it has ended
        pass
    return found


def of_descendants(pid: int) -> int:
    """Bytes of pages that each of the process's descendants has alone."""
    taken, waiting, seen = 0, _children_of(pid), set()
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            taken += kib_lines(f"/proc/{one}/smaps_rollup", "Private_Clean|Private_Dirty")
            waiting += _children_of(one)
    return taken
