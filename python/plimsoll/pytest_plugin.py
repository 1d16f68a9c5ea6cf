"""pytest: `@pytest.mark.limit_memory("512MiB")` fails a test that takes more.

What a test takes is the highest growth of its process tree while the test's function ran (not its
fixtures): the resident memory of the process that runs it, and the pages that its descendants have
alone, above what both were when it began. The process's own peak is the kernel's (VmHWM, begun
anew by /proc/self/clear_refs); together with descendants it is sampled every 10 ms, and so is the
own peak where the kernel does not let it begin anew. Nothing is stopped at the limit.

A child's `ru_maxrss` is no help: it begins with what the process had that started the child. Pages
that processes share (a forked child's with its parent, shared memory) count once at most.
"""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from plimsoll.watching import tree

MARK = "limit_memory"
EVERY = 0.01  # seconds between samples


class Growth:
    """What the tree takes beyond what it had; sizes in bytes."""

    def __init__(self) -> None:
        import os

        self._pid, self._ends = os.getpid(), threading.Event()
        self._thread = threading.Thread(target=self._sample, name="plimsoll memory", daemon=True)
        self.peak = 0
        self.of_children = 0  # what they had of it
        self.is_exact = True  # of the process's own part

    def __enter__(self) -> Growth:
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
        except OSError:
            self.is_exact = False
        self._own, self._theirs = tree.resident(), tree.of_descendants(self._pid)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()
        if self.is_exact:
            self._see(tree.highest_resident() - self._own, 0)

    def _see(self, own: int, theirs: int) -> None:
        if own + theirs > self.peak:
            self.peak, self.of_children = own + theirs, theirs

    def _sample(self) -> None:
        ends = False
        while not ends:  # once more at the end
            ends = self._ends.wait(EVERY)
            self._see(tree.resident() - self._own, tree.of_descendants(self._pid) - self._theirs)


def _limit_of(item: pytest.Item) -> int | None:
    """The limit, bytes, of the mark nearest to the test; None: it has none."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return None
    from plimsoll.options import size

    try:
        if len(mark.args) != 1 or mark.kwargs or mark.args[0] is None:
            count = len(mark.args) + len(mark.kwargs) if mark.args != (None,) else 0
            raise ValueError(f"expected one size, received {count or 'none'}.")
        return size(mark.args[0], MARK)
    except (ValueError, TypeError) as error:
        use = f'Write @pytest.mark.{MARK}("512MiB").'
        pytest.fail(f"{item.nodeid}: {MARK}: {error} {use}", pytrace=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(size): fails a test whose process tree grows by more than that while it runs",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    limit = _limit_of(item)
    if limit is None:
        return (yield)
    with Growth() as growth:
        answer = yield  # a test that fails by itself fails as it does
    item.user_properties.append(("plimsoll_memory_bytes", growth.peak))
    if growth.peak > limit:
        pytest.fail(_told(growth, limit), pytrace=False)
    return answer


def _told(growth: Growth, limit: int) -> str:
    mib = 1 << 20
    how = "" if growth.is_exact else "; sampled: the kernel's own peak is not to be had here"
    return (
        f"{MARK}: expected at most {limit / mib:.1f} MiB, received {growth.peak / mib:.1f} MiB: "
        f"{(growth.peak - growth.of_children) / mib:.1f} MiB of the test's process, "
        f"{growth.of_children / mib:.1f} MiB of its descendants{how}."
    )
