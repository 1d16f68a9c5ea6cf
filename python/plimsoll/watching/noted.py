"""A note of the notebook cell that runs, and what it tells when the kernel died meanwhile.

The note is JSON in a file of the user's own (mode 0600), in a folder of the user's own. It is
written when a cell under `%%plimsoll` begins and every second after that, and is removed when the
cell ends, whichever way; so one that is left belongs to a kernel that ended within a cell. A note
is data: it is bounded, its types are checked, and nothing of it is executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
import stat
import subprocess
import threading
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plimsoll import _core
from plimsoll.options import MIB

if TYPE_CHECKING:
    from plimsoll.explained import Explanation

EVERY = 1.0  # seconds between two writings
_MOST_CELL = 2000  # characters of a cell that are kept
_MOST_NOTE = 64 << 10  # bytes of a note that is read
_MOST_NOTES = 32  # that are kept
_MOST_LOG = MIB  # bytes of the kernel's log that are read, its last ones
_FIRST_NUMBERS = 0xEFFFFFFC  # the inode of the namespace of processes that the machine has begun
_STALE = 60.0  # seconds after which a note that another machine wrote is taken for left


def folder() -> Path:
    """Where notes are."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "plimsoll" / "cells"


def _text_of(path: str) -> str:
    """A file of the kernel's; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_NOTE)
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """When a process was started, in ticks of this boot; empty: there is none."""
    _before, _name, rest = _text_of(f"/proc/{pid}/stat").rpartition(")")
    found = rest.split()
    return found[19] if len(found) > 19 and found[0] not in "ZX" else ""


def _boot() -> str:
    return _text_of("/proc/sys/kernel/random/boot_id").strip()


def counter_of(cgroups: str, root: str = "/sys/fs/cgroup") -> str:
    """The file that counts kills for memory in the group that /proc/self/cgroup names, or empty."""
    of_v1 = re.search(r"^\d+:[^:\n]*\bmemory\b[^:\n]*:(/.*)$", cgroups, re.M)
    of_v2 = re.search(r"^0::(/.*)$", cgroups, re.M)
    places = [(of_v1, "/memory", "memory.oom_control"), (of_v2, "", "memory.events"),
              (of_v2, "/unified", "memory.events")]  # fmt: skip
    for found, hierarchy, name in places:
        # Inside a container the group's path may be the host's, and the root is the group itself.
        for path in (found[1].rstrip("/"), "") if found else ():
            file = f"{root}{hierarchy}{path}/{name}"
            if kills_in(file) is not None:
                return file
    return ""


def kills_in(file: str) -> int | None:
    """Processes of a group that the kernel has killed for memory; None: it cannot be read."""
    found = re.search(r"^oom_kill (\d+)$", _text_of(file) if file else "", re.M)
    return int(found[1]) if found else None


def _is_a(kind: str, value: object) -> bool:
    if kind == "str":
        return isinstance(value, str)
    if kind == "int":
        return isinstance(value, int) and abs(value) < 1 << 62
    return isinstance(value, (int, float)) and 0 <= value < 1e11


@dataclass
class Note:
    """Sizes in bytes, times in seconds since 1970."""

    cell: str
    memory: str  # the limit that was asked for; empty: none
    began: float = field(default_factory=time.time)
    seen: float = 0.0
    taken: int = 0  # by the process when it was last seen
    most: int = 0  # by the process, of what was seen
    available: int = 0  # what all of the process might have taken when the cell began
    notebook: str = ""
    host: str = field(default_factory=socket.gethostname)
    boot: str = field(default_factory=_boot)
    pid: int = field(default_factory=os.getpid)
    start: str = ""
    counter: str = ""  # a control group's file
    kills: int = -1  # there when the cell began; -1: not known

    @classmethod
    def of(cls, cell: str, memory: int | str | None) -> Note:
        counter = counter_of(_text_of("/proc/self/cgroup"))
        kills = kills_in(counter)
        note = cls(cell[:_MOST_CELL], "" if memory is None else str(memory))
        note.notebook, note.start = notebook_name(), _start_of(note.pid)
        note.counter, note.kills = counter, -1 if kills is None else kills
        note.available = _core.parse_memory("100%") or 0
        return note

    @classmethod
    def read(cls, path: Path) -> Note | None:
        """None where the file is not one of ours."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                about = os.fstat(descriptor)
                if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid():
                    return None
                written = json.loads(file.read(_MOST_NOTE))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(written, dict) or written.keys() != {one.name for one in fields(cls)}:
            return None
        sound = [_is_a(str(one.type), written[one.name]) for one in fields(cls)]
        return cls(**written) if all(sound) else None

    @property
    def has_ended(self) -> bool:
        """Whether the process that wrote it is gone."""
        if self.host != socket.gethostname():
            return time.time() - self.seen > _STALE
        return self.boot != _boot() or _start_of(self.pid) != self.start


def notebook_name() -> str:
    """What tells this notebook from others: its file, where Jupyter says it."""
    return os.environ.get("JPY_SESSION_NAME") or os.getcwd()


class Running:
    """While a cell runs its note is kept up. Where it cannot be written, `fault` says why."""

    def __init__(self, note: Note) -> None:
        self._note, self._ends = note, threading.Event()
        self._path = folder() / f"{note.pid}-{secrets.token_hex(4)}.json"
        self._thread = threading.Thread(target=self._keep, name="plimsoll note", daemon=True)
        self.fault = ""

    def __enter__(self) -> Running:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _clear(self._path.parent)
            self._write()
        except OSError as error:
            self.fault = str(error)
        else:
            self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._ends.set()
        if self._thread.ident is not None:
            self._thread.join()
        if os.getpid() == self._note.pid:  # a child that the cell has forked leaves it
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _keep(self) -> None:
        while not self._ends.wait(EVERY):
            try:
                self._write()
            except OSError as error:
                self.fault = str(error)
                return

    def _write(self) -> None:
        note = self._note
        note.seen, note.taken = time.time(), _core.process_memory()
        note.most = max(note.most, note.taken)
        part = self._path.with_suffix(".part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(note), file)
        os.replace(part, self._path)


def _notes(where: Path) -> list[tuple[Path, Note]]:
    """The notes of processes that have ended, the newest first."""
    found = []
    try:
        paths = sorted(where.glob("*.json"))[: 10 * _MOST_NOTES]
    except OSError:
        return []
    for path in paths:
        note = Note.read(path)
        if note is not None and note.has_ended:
            found.append((path, note))
    return sorted(found, key=lambda one: -one[1].seen)


def _clear(where: Path) -> None:
    """Removes notes that are left, but for the newest ones."""
    for path, _note in _notes(where)[_MOST_NOTES:]:
        path.unlink(missing_ok=True)
    for path in where.glob("*.part"):  # of a process that was killed while it wrote
        if time.time() - path.stat().st_mtime > _STALE:
            path.unlink(missing_ok=True)


def _log_of_kernel(note: Note) -> str:
    """What the kernel's log says of a kill of the process for memory, where it can be read.

    The log has the numbers that processes have outside of containers, so within one it is not read.
    """
    try:
        if os.stat("/proc/self/ns/pid").st_ino != _FIRST_NUMBERS:
            return ""
        done = subprocess.run(["dmesg"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return report_of(note, done.stdout[-_MOST_LOG:].decode(errors="replace"))


def report_of(note: Note, log: str) -> str:
    """The part of a kernel's log that reports the kill; empty where there is none.

    Numbers of processes come again: a report from before the cell began is another process's.
    """
    lines = log.splitlines()
    began = note.began - time.time() + time.clock_gettime(time.CLOCK_MONOTONIC)
    for end in range(len(lines) - 1, -1, -1):
        said = re.match(r"\[ *([0-9.]+)\] .*Killed process (\d+) \(", lines[end])
        if said is None or int(said[2]) != note.pid or float(said[1]) < began - 1:
            continue
        begin = end
        while begin > 0 and "invoked oom-killer" not in lines[begin]:
            begin -= 1
        return "\n".join(lines[begin : end + 1])
    return ""


@dataclass(frozen=True)
class LastCell:
    """Why the kernel ended within a cell, as far as that is known.

    verdict: "killed_for_memory" (the kernel's log names the process), "likely_memory" (a process of
    its control group was killed for memory meanwhile), "unknown", or "nothing": no cell was left.
    explanation: what `plimsoll.explain` says of the kernel's log.
    """

    verdict: str
    note: Note | None = None
    kills: int | None = None  # for memory, in the control group since the cell began
    explanation: Explanation | None = None

    def __str__(self) -> str:
        note = self.note
        if note is None:
            return ("No kernel of yours ended within a cell under %%plimsoll, as far as notes in "
                    f"{folder()} tell; of other cells nothing is known.")  # fmt: skip
        limit = f", limit {note.memory}" if note.memory else ", no limit"
        lines = [
            f"A kernel (process {note.pid}, {note.notebook}) ended within this cell{limit}:", "",
            *(f"    {line}" for line in note.cell.splitlines()[:12]), "",
            f"began       {_time(note.began)}; last seen {note.seen - note.began:.0f} s later",
            f"memory      {note.taken / MIB:.1f} MiB when last seen, {note.most / MIB:.1f} MiB at "
            f"most; {note.available / MIB:.1f} MiB could be taken",
            f"why         {self._why()}",
        ]  # fmt: skip
        if self.explanation is not None:
            lines += ["", str(self.explanation)]
        elif self.verdict == "likely_memory":
            lines.append("what to do  A lower --memory, which Plimsoll keeps to; `plimsoll.plan` "
                         "tells what a step takes.")  # fmt: skip
        return "\n".join(lines)

    __repr__ = __str__

    def _why(self) -> str:
        if self.verdict == "killed_for_memory":
            return "the kernel's log names this process as killed for memory."
        if self.verdict == "likely_memory":
            return (f"kills for memory in its control group since the cell began: {self.kills}; "
                    "most likely this process was among them.")  # fmt: skip
        if self.note is not None and self.note.host != socket.gethostname():
            return f"not known: it ran on {self.note.host}, whose kernel cannot be asked from here."
        if self.note is not None and self.note.boot != _boot():
            return "the machine was started anew meanwhile; nothing says more."
        if self.kills == 0:
            return ("not known. The kernel killed nothing of its control group for memory: it was "
                    "restarted by hand, or crashed.")  # fmt: skip
        return ("not known: neither the kernel's log nor the control group's counter can be read. "
                "A kill for memory, a crash and a restart by hand look alike.")  # fmt: skip


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def last_cell() -> LastCell:
    """What the newest note that is left says: this notebook's, or else any."""
    left = [note for _path, note in _notes(folder())]
    here = [note for note in left if note.notebook == notebook_name()]
    if not left:
        return LastCell("nothing")
    note = (here or left)[0]
    if note.host != socket.gethostname() or note.boot != _boot():
        return LastCell("unknown", note)
    now = kills_in(note.counter) if note.kills >= 0 else None
    # A group that was made anew under the same name counts from 0.
    kills = None if now is None or now < note.kills else now - note.kills
    log = _log_of_kernel(note)
    if log:
        from plimsoll.explained import explain

        return LastCell("killed_for_memory", note, kills, explain(log))
    return LastCell("likely_memory" if kills else "unknown", note, kills)
