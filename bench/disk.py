"""Training from a file that is in page cache, and from disk inside a memory group of 64 MiB.

The disk's own rate is measured in the same run: the same file read past the page cache, in large
pieces, right before and after each cold run.
"""

import argparse
import json
import mmap
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from materials import BINARY, option, prepare, warm
from processes import run
from sides import checked
from training import Row

LIMIT = "64MiB"
LEAST_SHARE = 0.9
PIECE = 4 << 20


def forget(path: str) -> None:
    """Takes a file's pages out of the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_share(path: str) -> float:
    """How much of a file is in page cache, by a sample of its pages."""
    import ctypes

    size = os.path.getsize(path)
    pages = -(-size // mmap.PAGESIZE)
    states = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    with open(path, "rb") as file:
        address = libc.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED,
                            file.fileno(), ctypes.c_long(0))  # fmt: skip
        libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), states)
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return sum(state & 1 for state in states) / pages


def disk_rate(path: str) -> float:
    """Bytes a second of reading the file in order past the page cache."""
    buffer = mmap.mmap(-1, PIECE)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        begin, total = time.perf_counter(), 0
        while count := os.readv(handle, [buffer]):
            total += count
        return total / (time.perf_counter() - begin)
    finally:
        os.close(handle)


def epoch_rate(arguments: list[str], group: str | None, prefix: str) -> dict[str, Any]:
    """Bytes of samples a second over one whole epoch."""
    data = option(arguments, "--data")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        command = [
            str(BINARY), "fit", *arguments, "--epochs", "1", "--no-shuffle", "--json",
            "--memory", LIMIT, "--log", str(log),
        ]  # fmt: skip
        done = checked(run(command, group, prefix), command)
        epoch = json.loads(log.read_text().splitlines()[-1])
    return {
        "rate": os.path.getsize(data) / epoch["seconds"],
        "seconds_per_step": done.result()["seconds_per_step"],
        "peak_bytes": done.peak_bytes,
        "oom_kills": done.group.get("oom_kills"),
    }


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    arguments = prepare(name, options.folder)
    data = option(arguments, "--data")
    cached, cold, disk, left = [], [], [], []
    for _ in range(options.repeat):
        warm(data)
        cached.append(epoch_rate(arguments, None, options.prefix))
        forget(data)
        left.append(cached_share(data))
        disk.append(disk_rate(data))
        cold.append(epoch_rate(arguments, LIMIT, options.prefix))
        forget(data)
        disk.append(disk_rate(data))
    warm(data)
    best = max(r["rate"] for r in cold)
    limit = min(max(disk), max(r["rate"] for r in cached))
    bound = "disk" if max(disk) <= max(r["rate"] for r in cached) else "computing"
    share = best / limit
    return [{
        "mode": "disk", "workload": name, "limit": LIMIT, "file_bytes": os.path.getsize(data),
        "cached": cached, "cold": cold, "disk_rates": disk, "cached_share_before_cold": left,
        "bound": bound, "share": share,
        "verdict": "reached" if share >= LEAST_SHARE else f"{share:.2f} of {LEAST_SHARE} ×",
    }]  # fmt: skip
