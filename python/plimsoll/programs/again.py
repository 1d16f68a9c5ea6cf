"""Starts a program again where the kernel has killed it for memory.

The program runs in a child process; this one is small and only waits. What the child has trained is
on disk (guard/saved.py), and the next start goes on from there with fewer samples at a time. A
process that ends in any other way ends this one in the same way.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

from plimsoll import asked

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    import subprocess
    from typing import Any

_VARIABLE = "PLIMSOLL_RESTART"  # tells a child that it may be started again
_DOES_NOT_FIT = 3
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")
_OF_PROCESS = "/proc/self/cgroup"
_GROUPS = "/sys/fs/cgroup"


def given() -> asked.Restart | None:
    """What the process that waits has told this one; children of the program are told nothing."""
    text = os.environ.pop(_VARIABLE, "")
    if not text:
        return None
    folder, attempt, number = json.loads(text)
    return asked.Restart(folder, attempt, number)


def seed(what: asked.Asked) -> None:
    """Random numbers for which the program names no seed are the same in each start."""
    if what.restart is not None:
        import random

        random.seed(what.restart.seed)


def _groups() -> list[tuple[list[str], str]]:
    """The control groups of this process: controllers (none: version 2) and path of each."""
    try:
        with open(_OF_PROCESS, encoding="utf-8") as file:
            lines = [line.split(":", 2) for line in file.read().splitlines()]
    except OSError:
        return []
    return [(names.split(",") if names else [], path) for _, names, path in lines]


def _ends_as_a_whole() -> str:
    """The file that says that the kernel kills all of a control group of this process, this one
    with it; empty: none does."""
    for names, path in _groups():
        if names:
            continue
        while True:
            name = os.path.join(_GROUPS + path, "memory.oom.group")
            try:
                with open(name, encoding="utf-8") as file:
                    if file.read().strip() == "1":
                        return name
            except OSError:
                pass
            if path in ("", "/"):
                break
            path = os.path.dirname(path)
    return ""


def _kills() -> dict[str, int]:
    """How often the kernel has killed for memory, by file that tells."""
    files = ["/proc/vmstat"]
    for names, path in _groups():
        if "memory" in names:
            files += [f"{_GROUPS}/memory{path}/memory.oom_control",
                      f"{_GROUPS}/memory/memory.oom_control"]  # fmt: skip
        elif not names:
            files += [f"{_GROUPS}{path}/memory.events", f"{_GROUPS}/memory.events"]
    found: dict[str, int] = {}
    for name in files:
        try:
            with open(name, encoding="utf-8") as file:
                words = [line.split() for line in file]
        except OSError:
            continue
        for pair in words:
            if len(pair) == 2 and pair[0] == "oom_kill":
                found[name] = int(pair[1])
    return found


def _is_in_memory(folder: str) -> bool:
    """Whether a folder's files take memory."""
    kind, longest = "", -1
    try:
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return False
    for place, name in mounts:
        if os.path.join(folder, "").startswith(os.path.join(place, "")) and len(place) >= longest:
            kind, longest = name, len(place)
    return kind in _IN_MEMORY


def _folder() -> str:
    """A new one, on a disk where there is one."""
    import tempfile

    own = os.path.realpath(tempfile.gettempdir())
    places = [own, "/var/tmp", os.path.realpath(os.path.expanduser("~/.cache")), os.getcwd()]
    there = [one for one in places if os.path.isdir(one) and os.access(one, os.W_OK)]
    fitting = [one for one in there if not _is_in_memory(one)]
    return tempfile.mkdtemp(prefix="plimsoll-restart-", dir=(fitting or [own])[0])


def _dies_with_us() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _is_of_terminal() -> bool:
    """Whether a terminal sends its signals to this process and to its child alike."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Signals reach the child; those of a terminal reach it by themselves."""

    def pass_on(number: int, _frame: Any) -> None:
        if number != signal.SIGINT or not _is_of_terminal():
            child.send_signal(number)

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        before[number] = signal.signal(number, pass_on)
    try:
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last(folder: str) -> dict[str, Any]:
    """What the program was doing when it was killed; empty: it was in no fit that is saved. What
    was noted is gone then, but for the step that it died in, which the next start reads."""
    found: list[tuple[bool, int, str, dict[str, Any]]] = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(".doing"):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with contextlib.suppress(ValueError):  # killed while it was written first
                told = json.loads(text[1:])
                found.append((text[0] == "1", os.stat(path).st_mtime_ns, path, told))
    last: dict[str, Any] = {}
    for in_step, _, path, told in sorted(found, key=lambda one: one[:2]):
        last = {**told, "in step": in_step, "path": path}
    for _, _, path, _ in found:
        if last["in step"] and path == last["path"]:
            os.replace(path, path.removesuffix(".doing") + ".killed")
        else:
            os.unlink(path)
    return last


def _why_not(last: dict[str, Any], times: int, started: int) -> str:
    """Why the program is not started again."""
    if not last:
        return "it was not in a fit that Keras trains, of which the state is kept"
    if last["never"]:
        return f"{last['where']}: a batch is not cut into parts: {last['never']}"
    if last["rows"] == 0:
        return (f"{last['where']}: it was before the first step, where fewer samples at a time do "
                "not help")  # fmt: skip
    if last["in step"] and last["rows"] == 1:
        return f"{last['where']}: not even one sample at a time fits"
    return "" if started < times else f"it has been started {started + 1} times (--restart {times})"


def _end_as(status: int) -> int:
    """An exit code; a signal ends this process as it ended the other."""
    if status >= 0:
        return status
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
    return 128 - status


def _was_killed(status: int, before: dict[str, int]) -> bool:
    """Whether the kernel has killed a process of this one for memory, as far as it tells."""
    after = _kills()
    more = not after or any(after[one] > before.get(one, 0) for one in after)
    return status == -signal.SIGKILL and more


def _attempts(times: int, folder: str) -> int:
    """The status of the last one."""
    import subprocess

    number, started = int.from_bytes(os.urandom(4), "little"), 0
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    if getattr(sys.stdout, "write_through", False):  # of which Python does not tell
        flags.append("-u")
    command = [sys.executable, *flags, "-m", "plimsoll", *sys.argv[1:]]
    has_asked = False  # since the last kill
    while True:
        before = _kills()
        told = json.dumps([folder, started, number])
        child = subprocess.Popen(command, env={**os.environ, _VARIABLE: told},
                                 preexec_fn=_dies_with_us)  # fmt: skip
        status = _wait(child)
        asks = os.path.join(folder, "again")
        if status == asked.START_AGAIN and os.path.exists(asks):
            os.unlink(asks)
            if not has_asked:
                has_asked = True
                continue
            asked.say("the program's data come in another order each time, and it is not started "
                      "again.")  # fmt: skip
            return _DOES_NOT_FIT
        if not _was_killed(status, before):
            return status
        last = _last(folder)
        why = _why_not(last, times, started)
        if why:
            asked.say("the kernel killed the program for memory, and it is not started again: "
                      f"{why}.")  # fmt: skip
            return _DOES_NOT_FIT
        started, has_asked = started + 1, False
        when = "" if last["in step"] else ("between two steps (data, validation or callbacks), "
                                           "which were done ")  # fmt: skip
        asked.say(f"{last['where']}: the kernel killed the program for memory, {when}with "
                  f"{last['rows']} samples at a time of a batch of {last['batch']}; it is "
                  f"started again ({started} of {times}).")  # fmt: skip


def run(times: int) -> int:
    """Runs this command's program in a child, up to `times` more; the exit code."""
    import shutil

    whole = _ends_as_a_whole()
    if whole:
        asked.say(f"--restart: {whole} is 1, so the kernel kills this command together with the "
                  "program: it cannot be started again here.")  # fmt: skip
    folder = _folder()
    try:
        status = _attempts(times, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _end_as(status)
