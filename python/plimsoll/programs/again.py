"""Starts a program again where the kernel has killed it for memory.

The program runs in a child process; this one is small and only waits. What the child has trained is
on disk (guard/saved.py), and the next start goes on from there with fewer samples at a time. A
process that ends in any other way ends this one in the same way.
"""

from __future__ import annotations

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
_AGAIN = 75  # guard.saved.AGAIN
_DOES_NOT_FIT = 3
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


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


def _kills() -> dict[str, int]:
    """How often the kernel has killed for memory, by file that tells."""
    files = ["/proc/vmstat"]
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = file.read().split()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            files += [f"/sys/fs/cgroup/memory{path}/memory.oom_control",
                      "/sys/fs/cgroup/memory/memory.oom_control"]  # fmt: skip
        elif not controllers:
            files += [f"/sys/fs/cgroup{path}/memory.events", "/sys/fs/cgroup/memory.events"]
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


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Signals reach the child; those of a terminal reach it by themselves."""

    def pass_on(number: int, _frame: Any) -> None:
        child.send_signal(number)

    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        before[number] = signal.signal(number, pass_on)
    try:
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last(folder: str) -> dict[str, Any]:
    """What the program was doing when it was killed; empty: it was in no fit that is saved."""
    files = [one for one in os.listdir(folder) if one.endswith(".doing")]
    if not files:
        return {}
    newest = max(files, key=lambda one: os.stat(os.path.join(folder, one)).st_mtime_ns)
    with open(os.path.join(folder, newest), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def _why_not(last: dict[str, Any], times: int, started: int) -> str:
    """Why the program is not started again."""
    if not last:
        return "it was not in a fit that Keras trains, of which the state is kept"
    if last.get("never"):
        return f"{last['where']}: a batch is not cut into parts: {last['never']}"
    if last["rows"] <= 1:
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
    command = [sys.executable, *flags, "-m", "plimsoll", *sys.argv[1:]]
    while True:
        before = _kills()
        told = json.dumps([folder, started, number])
        child = subprocess.Popen(command, env={**os.environ, _VARIABLE: told},
                                 preexec_fn=_dies_with_us)  # fmt: skip
        status = _wait(child)
        asks = os.path.join(folder, "again")
        if status == _AGAIN and os.path.exists(asks):
            os.unlink(asks)
            continue
        if not _was_killed(status, before):
            return status
        last = _last(folder)
        why = _why_not(last, times, started)
        if why:
            asked.say("the kernel killed the program for memory, and it is not started again: "
                      f"{why}.")  # fmt: skip
            return _DOES_NOT_FIT
        started += 1
        asked.say(f"{last['where']}: the kernel killed the program for memory, with "
                  f"{last['rows']} samples at a time of a batch of {last['batch']}; it is "
                  f"started again ({started} of {times}).")  # fmt: skip


def run(times: int) -> int:
    """Runs this command's program in a child, up to `times` more; the exit code."""
    import shutil

    folder = _folder()
    try:
        status = _attempts(times, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _end_as(status)
