"""How many samples at a time fit into the limit: measured, predicted, remembered.

The peak of a few small parts is measured, and a line through the last two says what twice as many
would take. Nothing is predicted further ahead than that before it has been measured too.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import resource
import tempfile
from collections.abc import Iterable
from typing import Any

MIB = 1 << 20
_FIXED = 24 * MIB  # by how much equal steps differ, from one to the next
_VARIES = 0.2  # of what a part takes, without a pool
_SHARE = 0.15  # of what is predicted beyond the last measurement
_FIRST = (1, 2, 4)
_FIRST_POOLED = (1, 2, 4, 8)
_AHEAD = 4  # times a measured size: a pool does not count tensors that are small there
_AFTER_KILL = 0.9
_KEPT = 256  # files in the cache
_MAPPED_MORE = 4 * MIB  # pages of files, by which they are looked at again

Points = list[tuple[int, int]]  # samples, bytes of the process


def reset_peak() -> bool:
    """Peaks are counted from now on. False: this system does not let us."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    _mapped.begin = _mapped.now()
    return True


class _Mapped:
    """Pages of mapped data files, such as those of `np.load(…, mmap_mode="r")`.

    They are resident, and the kernel takes them back when it needs them. Those of programs and
    libraries, and of files that lie in memory, are not among them.
    """

    def __init__(self) -> None:
        self.begin = 0  # bytes when peaks began to be counted
        self._of_files = -_MAPPED_MORE  # bytes of all files' pages when these were looked for
        self._found = 0

    def now(self) -> int:
        """Looked for anew where pages of files have become more or fewer."""
        try:
            with open("/proc/self/status", encoding="ascii", errors="replace") as file:
                lines = [line.split() for line in file if line.startswith("RssFile:")]
            of_files = int(lines[0][1]) * 1024 if lines else 0
            if abs(of_files - self._of_files) >= _MAPPED_MORE:
                with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:
                    self._of_files, self._found = of_files, min(_of_data_files(file), of_files)
        except OSError:
            return 0
        return self._found


def _of_data_files(smaps: Iterable[str]) -> int:
    """Bytes of pages of files none of whose mappings may be executed, without written copies."""
    resident: dict[tuple[str, str], int] = {}
    programs = set()
    now = None
    for line in smaps:
        words = line.split()
        if not words[0].endswith(":"):  # a mapping: range, rights, offset, device, inode, path
            now = (words[3], words[4])
            if words[4] == "0" or words[5].startswith(("/dev/", "/memfd:", "/SYSV")):
                now = None
            elif "x" in words[1]:
                programs.add(now)
        elif now is not None and words[0] in ("Rss:", "Anonymous:"):
            sign = 1024 if words[0] == "Rss:" else -1024
            resident[now] = resident.get(now, 0) + sign * int(words[1])
    return sum(count for file, count in resident.items() if file not in programs)


_mapped = _Mapped()


@functools.cache
def _trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def release() -> None:
    """Gives the kernel back what the allocator keeps of freed memory, since a limit was asked for.

    Without it a measurement counts what larger or earlier ones have left behind.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


def peak(read_meanwhile: bool = True) -> int:
    """Bytes of the process at their highest since the last reset, without pages of data files.

    read_meanwhile: pages that were read since the reset count, as the peak may have come with them.
    """
    from plimsoll import _core

    pages = _mapped.now()
    return _core.process_memory_peak() - (min(_mapped.begin, pages) if read_meanwhile else pages)


def predicted(points: Points, rows: int) -> int:
    """Bytes of the process with parts of so many samples; at least what was measured last."""
    (first, low), (last, high) = points[-2:] if len(points) > 1 else (points[0], points[0])
    if rows <= last:
        return high + _FIXED
    slope = max(0.0, (high - low) / (last - first)) if last > first else 0.0
    beyond = slope * (rows - last)
    return int(high + beyond * (1 + _SHARE)) + _FIXED


def _next_small(points: Points, batch: int, sizes: tuple[int, ...]) -> int:
    """The next of the sizes that are measured first; 0: that was the last."""
    small = sizes[len(points)] if len(points) < len(sizes) else 0
    return small if small <= batch else 0


def choose(points: Points, batch: int, limit: int, cut_takes: int) -> tuple[bool, int]:
    """What is to be done next: (True, samples to measure) or (False, samples of a part).

    points: what was measured, rising. cut_takes: bytes that a step in parts takes beside its parts.
    0 samples: not even one fits.
    """
    small = _next_small(points, batch, _FIRST)
    if small and (not points or predicted(points, small) <= limit):
        return True, small
    last, high = points[-1]
    room = limit - cut_takes
    if high > (limit if last == batch else room):
        return False, max([rows for rows, size in points if size + _FIXED <= room], default=0)
    if last >= batch:
        return False, batch
    twice = min(2 * last, batch)
    if predicted(points, twice) <= (limit if twice == batch else room):
        return (False, batch) if twice == batch else (True, twice)
    fitting = [rows for rows in range(last, twice) if predicted(points, rows) <= room]
    return False, max(fitting, default=last)


def choose_pooled(
    points: Points, live: Points, batch: int, limit: int, cut_takes: int
) -> tuple[bool, int]:
    """As `choose`, where the framework's allocator keeps all that it once had.

    live: bytes that were in use at once. A larger part may find no place among what was freed, so
    all that it uses is taken to come on top, in proportion to its samples: what does not depend on
    them is counted too often, never too seldom. A size that was measured finds its place again.
    """
    last, held = points[-1]
    each = live[-1][1] / last

    def takes(rows: int) -> float:
        return held + (each * rows + _FIXED if rows > last else 0)

    small = _next_small(points, batch, _FIRST_POOLED)
    if small and takes(small) <= limit:
        return True, small
    if takes(batch) <= limit and batch <= _AHEAD * last:
        return False, batch
    most = min(batch - 1, _AHEAD * last)
    rows = next((one for one in range(most, last, -1) if takes(one) + cut_takes <= limit), 0)
    if rows >= 2 * last:
        return True, rows
    return False, rows or max((one for one, size in points if size + cut_takes <= limit), default=0)


class Found:
    """What one part took. Sizes in bytes.

    taken: of the process, at its highest. grown: what of that came with the part. live: of the
    allocator, at once; None: it keeps nothing, or does not tell. sums: gradients. kept: predictions
    of a sample, where they are gathered.
    """

    def __init__(self, taken: int, grown: int, live: int | None, sums: int, kept: int) -> None:
        self.taken, self.grown, self.live, self.sums, self.kept = taken, grown, live, sums, kept

    def beside_parts(self, batch: int) -> int:
        """What a step in parts takes beside its parts: sums, which are copied once, and what is
        gathered."""
        return 2 * self.sums + self.kept * batch

    def has_room(self, batch: int, limit: int) -> bool:
        varies = _FIXED // 2 if self.live is not None else max(_FIXED, int(self.grown * _VARIES))
        return self.taken + self.beside_parts(batch) + varies <= limit


def live(resets: bool) -> int | None:
    """Bytes of TensorFlow's tensors at their highest; None: its allocator keeps no pool."""
    import tensorflow as tf

    try:
        if resets:
            tf.config.experimental.reset_memory_stats("CPU:0")
        return int(tf.config.experimental.get_memory_info("CPU:0")["peak"])
    except (ValueError, KeyError):
        return None


def even(batch: int, rows: int) -> int:
    """The smallest size with which a batch has as few parts as with `rows`."""
    parts = -(-batch // max(rows, 1))
    return -(-batch // parts)


_MEMORY = (
    "ResourceExhausted", "RESOURCE_EXHAUSTED", "OOM when allocating",
    "Dst tensor is not initialized",
    "CUDA_ERROR_OUT_OF_MEMORY", "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED",
    "failed to allocate memory", "Failed to allocate", "out of memory", "std::bad_alloc",
    "can't allocate memory",  # torch's on a processor
    # XLA's search for the fastest kernel, when every candidate was refused its scratch memory.
    "No reference output found", "No valid config found",
)  # fmt: skip
_CLASSES = ("MemoryError", "OutOfMemoryError", "ResourceExhaustedError", "XlaRuntimeError",
            "InternalError", "RuntimeError", "UnknownError", "JaxRuntimeError")  # fmt: skip
_SURE = _CLASSES[:3]


def is_of_memory(error: BaseException) -> bool:
    """Whether a framework says that an allocation failed."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if not names.isdisjoint(_SURE) or str(error).startswith("RESOURCE_EXHAUSTED: "):
        return True
    return not names.isdisjoint(_CLASSES) and any(one in str(error) for one in _MEMORY)


def may_raise(sees_gpu: bool) -> bool:
    """Whether memory that runs out is an exception here, after which the program can go on."""
    unlimited = (-1, resource.RLIM_INFINITY)
    return sees_gpu or any(
        resource.getrlimit(which)[0] not in unlimited
        for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    )


def lower(limit: int | None, kills: int) -> int | None:
    """What a program keeps to after the kernel has killed it so often: less than it was given, by
    what a step takes more than was measured, and no more than the process may use."""
    from plimsoll import _core

    available = _core.parse_memory("100%") or limit
    if available is None:
        return None
    return int(min(limit or available, available) * _AFTER_KILL**kills)


def _folder() -> str:
    """Where caches of this package are kept; empty: nowhere."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        home = os.environ.get("HOME", "")
        cache = os.path.join(home, ".cache") if os.path.isabs(home) else ""
    return os.path.join(cache, "plimsoll", "parts") if cache else ""


def digest(*facts: Any) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def remembered(key: str) -> int | None:
    """Samples of a part that fitted in an earlier run."""
    folder = _folder()
    if not folder:
        return None
    try:
        with open(os.path.join(folder, key + ".json"), encoding="utf-8") as file:
            rows = json.load(file)["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return rows if type(rows) is int and rows > 0 else None


def remember(key: str, rows: int, peak_bytes: int) -> None:
    """For the next run; where it cannot be written, that one measures again."""
    folder = _folder()
    if not folder:
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        number, path = tempfile.mkstemp(dir=folder, suffix=".part")  # 0600
        with os.fdopen(number, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "peak_bytes": peak_bytes}, file)
        os.replace(path, os.path.join(folder, key + ".json"))
        _forget(folder)
    except OSError:
        return


def _forget(folder: str) -> None:
    """The oldest of many."""
    entries = sorted(os.scandir(folder), key=lambda one: one.stat().st_mtime)
    for entry in entries[: max(0, len(entries) - _KEPT)]:
        os.unlink(entry.path)
