"""NumPy's arrays are counted by lines and held to the limit, and are otherwise as ever."""

import ctypes
import gc
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plimsoll import _arrays, arrays, asked

MIB = 1 << 20
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "scripts.md"


def limited(room: int | None) -> None:
    """To what the process takes now, without free pages of its heap, and `room` more."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    what = asked.Asked(limit=None if room is None else _arrays.sums()[2] + room)
    asked.current = what
    arrays.begin(what)


@pytest.fixture(name="counted", autouse=True)
def _counted() -> Iterator[None]:
    before = asked.current
    limited(None)
    yield
    arrays.end()
    asked.current = before


def here(skip: int = 0) -> tuple[str, int]:
    frame = sys._getframe(1)
    return __file__, frame.f_lineno + skip


def of(place: tuple[str, int]) -> tuple[int, int, int]:
    """Bytes, arrays, the largest one of a line."""
    found = [one[2:] for one in _arrays.held() if one[:2] == place]
    return found[0] if found else (0, 0, 0)


def test_lines_hold_what_is_alive() -> None:
    place = here(1)
    kept = [np.ones(MIB), np.zeros(2 * MIB, "int8")]
    assert of(place) == (10 * MIB, 2, 8 * MIB)
    view = kept.pop(0)[5:]
    assert of(place) == (10 * MIB, 2, 8 * MIB)
    del view
    assert of(place) == (2 * MIB, 1, 8 * MIB)
    kept.clear()
    assert of(place) == (0, 0, 0)


def test_a_library_s_arrays_are_its_caller_s() -> None:
    place = here(1)
    kept = np.stack([np.arange(MIB)] * 2)
    assert of(place)[0] == kept.nbytes
    assert np.array_equal(kept[0], kept[1])


def test_small_ones_are_a_sum() -> None:
    before = _arrays.sums()[0]
    kept = [np.empty(1000, "int8") for _ in range(100)]
    assert 100_000 <= _arrays.sums()[0] - before <= 102_000
    del kept
    assert abs(_arrays.sums()[0] - before) < 2000


def test_arrays_that_change_their_size() -> None:
    place = here(1)
    kept = np.arange(100_000)
    for count in (200_000, 1_000_000, 100_000):
        kept.resize(count, refcheck=False)
        assert sum(one[2] for one in _arrays.held() if one[1] in (place[1], place[1] + 2)) == (
            8 * count
        )
        assert kept[99_999] == 99_999
    kept.resize(10, refcheck=False)
    assert of(place) == (0, 0, 0) and kept.tolist() == list(range(10))
    grown = np.fromiter((i for i in range(50_000)), "int64")
    assert grown[-1] == 49_999 and grown.nbytes in [one[2] for one in _arrays.held()]


def test_results_and_alignment_are_numpy_s_own() -> None:
    def work() -> tuple[bytes, list[int]]:
        rng = np.random.default_rng(3)
        made = [rng.normal(size=n) for n in (3, 1000, 9000, MIB)]
        made += [np.sort(made[-1]), made[2][:, None] @ made[2][None, :50], np.zeros((7, 1 << 16))]
        return b"".join(one.tobytes() for one in made), [one.ctypes.data % 16 for one in made]

    ours = work()
    arrays.end()
    theirs = work()
    arrays.begin(asked.Asked())
    assert ours == theirs


def test_arrays_outlive_the_count_and_are_older_than_it() -> None:
    place = here(1)
    kept = np.ones(MIB)
    arrays.end()
    older = np.ones(MIB)
    assert of(place) == (8 * MIB, 1, 8 * MIB)
    kept += older
    del kept
    assert of(place) == (0, 0, 0)
    arrays.begin(asked.Asked())
    del older
    assert of(place) == (0, 0, 0)


def test_threads() -> None:
    """What another thread makes is not counted; it may free what was."""
    place = here(1)
    kept = [np.ones(MIB)]
    made: list[Any] = []

    def work() -> None:
        made.append(np.ones(3 * MIB))
        kept.clear()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert of(place) == (0, 0, 0)
    assert made[0].nbytes not in [one[4] for one in _arrays.held()]


@pytest.mark.parametrize("make", [np.ones, np.zeros, np.empty], ids=lambda one: one.__name__)
def test_beyond_the_limit_numpy_s_own_error_is_raised(make: Any) -> None:
    held = np.ones(2 * MIB)
    limited(64 * MIB)
    line = here(2)[1]
    with pytest.raises(MemoryError, match=r"Unable to allocate 256\. MiB") as raised:
        make((32, MIB))
    told = getattr(raised.value, arrays._DISPLAYED)
    if hasattr(raised.value, "add_note"):
        assert told in raised.value.__notes__
    assert f"test_arrays.py:{line}: 256.0 MiB for an array of (32, 1048576) float64" in told
    assert f"held {held.shape} float64" in told and "16.0 MiB" in told
    for wanted in ("uncounted", "float32 takes half, 128.0 MiB", "open_memmap", "--memory "):
        assert wanted in told
    assert make(MIB).nbytes == 8 * MIB  # there is room for that


def test_what_is_not_filled_yet_counts() -> None:
    limited(64 * MIB)
    kept = np.zeros(6 * MIB)
    with pytest.raises(MemoryError):
        np.zeros(6 * MIB)
    kept[:] = 1
    with pytest.raises(MemoryError) as raised:
        kept.resize(20 * MIB, refcheck=False)
    assert arrays.has_refused(raised.value)
    assert kept[-1] == 1 and kept.size == 6 * MIB


def test_memory_is_used_again() -> None:
    limited(96 * MIB)
    for size in (64, 48, 16, 30, 64) * 5:
        np.ones(size * MIB, "int8")[-1] = 2


def test_a_memory_map_leaves_room(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((16, MIB)))
    limited(64 * MIB)
    with pytest.raises(MemoryError):
        np.load(tmp_path / "x.npy")
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert sum(float(part.sum()) for part in mapped) == 16 * MIB
    assert np.ones(4 * MIB).nbytes == 32 * MIB


def test_an_error_that_is_not_ours_is_left_alone() -> None:
    limited(64 * MIB)
    with pytest.raises(MemoryError):
        np.ones(1 << 50, "int8")
    arrays.end()
    with pytest.raises(MemoryError) as raised:
        np.ones(1 << 50, "int8")
    assert not hasattr(raised.value, arrays._DISPLAYED) and not arrays.has_refused(raised.value)
    arrays.begin(asked.Asked())


PROGRAM = """\
import sys
import numpy as np

def load():
    return np.random.rand(64, 256, 256, 3)

x = load()
x = x.astype("float32")
print("done")
"""


def of_page(begin: str, count: int) -> list[str]:
    """Lines of the page about programs."""
    lines = PAGE.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(begin))
    return [line[4:] for line in lines[at : at + count]]


def run(package: Path, folder: Path, *words: str, text: str = PROGRAM) -> Any:
    (folder / "p.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "plimsoll", *words], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(package)},
    )  # fmt: skip


def test_a_program_within_its_limit_tells_its_lines(package: Path, tmp_path: Path) -> None:
    done = run(package, tmp_path, "--memory", "1GiB", "--arrays", "p.py")
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr
    shown = of_page("    plimsoll: arrays took", 5)
    assert len(shown) == 5 and "\n".join(shown) in done.stderr


def test_a_program_beyond_its_limit(package: Path, tmp_path: Path) -> None:
    done = run(package, tmp_path, "--memory", "170MiB", "p.py")
    assert done.returncode == 3 and done.stdout == "", done.stderr
    lines = done.stderr.splitlines()
    shown = of_page("    MemoryError: Unable", 10)
    for line, ours in zip(shown[1:], lines[-len(shown) + 1 :], strict=True):
        if any(
            word in line for word in ("received", "uncounted", "--memory ")
        ):  # another process's
            line, ours = (re.sub(r"[0-9.]+ ?MiB", "…", one) for one in (line, ours))
        assert ours == line
    enough = lines[-1].split()[-1]
    assert run(package, tmp_path, "--memory", enough, "p.py").returncode == 0
    assert "plimsoll/" not in done.stderr  # no frames of ours


def test_advice_tells_what_a_line_holds(package: Path, tmp_path: Path) -> None:
    """Drawn and converted in one line: what was drawn is the large one."""
    text = "import numpy as np\nx = np.random.rand(64, 256, 256, 3).astype(np.float32)\n"
    done = run(package, tmp_path, "--memory", "150MiB", "p.py", text=text)
    assert done.returncode == 3 and "48.0 MiB for an array" in done.stderr
    assert "p.py:2: draw float32, half of 96.0 MiB: rng.random" in done.stderr, done.stderr


CAUGHT = """\
import multiprocessing
import numpy as np

def work(queue):
    try:
        np.ones((64, 1 << 20))
    except MemoryError as error:
        queue.put(str(error))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=work, args=(queue,))
    child.start()
    print(queue.get())
    child.join()
    work(queue)
    print(queue.get())
"""


def test_programs_may_catch_it_and_children_have_the_limit(package: Path, tmp_path: Path) -> None:
    done = run(package, tmp_path, "--memory", "300MiB", "p.py", text=CAUGHT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Unable to allocate 512. MiB for an array") == 2


def test_cells_of_notebooks() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    arrays.end()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "plimsoll")
    limit = _arrays.sums()[2] + 64 * MIB
    cell = "import numpy\nbig = numpy.ones((32, 1 << 20))"
    with pytest.raises(MemoryError) as raised:
        shell.run_cell_magic("plimsoll", f"--memory {limit}", cell)
    assert "cell:2: 256.0 MiB for an array" in getattr(raised.value, arrays._DISPLAYED)
    assert np.ones((32, MIB)).nbytes == 256 * MIB
    InteractiveShell.clear_instance()
    arrays.begin(asked.Asked())
