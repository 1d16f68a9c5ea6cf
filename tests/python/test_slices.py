"""`from_tensor_slices` refers to large arrays, and trains on what they held when it was called."""

import ctypes
import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from plimsoll import _arrays, arrays, asked
from plimsoll.programs import slices

MIB = 1 << 20
ROWS = 40


@pytest.fixture(name="within", autouse=True)
def _within(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    what = asked.Asked(limit=1 << 40)
    own = tf.data.Dataset.from_tensor_slices
    monkeypatch.setattr(asked, "current", what)
    arrays.begin(what)
    slices.watch(tf)
    yield
    arrays.end()
    tf.data.Dataset.from_tensor_slices = staticmethod(own)


def taken(*kinds: str) -> int:
    """Bytes of the process: of its own, and of files in memory."""
    text = Path("/proc/self/status").read_text()
    found = [re.search(rf"{name}:\s+(\d+)", text) for name in kinds]
    return sum(int(one[1]) for one in found if one) * 1024


def large(kind: str = "float32") -> Any:
    """Of 40 MiB or more, each row another number."""
    x = np.empty((ROWS, MIB // 4), kind)
    x[:] = np.arange(ROWS)[:, None] + 1
    return x


def rows(data: Any) -> list[float]:
    """The first number of each row, which all of it are."""
    found = []
    for one in data:
        row = one.numpy()
        assert (row == row[0]).all()
        found.append(float(row[0]))
    return found


@pytest.mark.parametrize("make", [np.empty, np.zeros])
def test_no_copy_is_made(make: Any) -> None:
    x, labels = make((ROWS, MIB // 4), "float32"), np.arange(ROWS)
    x[:] = labels[:, None]
    before, shared = taken("RssAnon", "RssShmem"), taken("RssShmem")
    data = tf.data.Dataset.from_tensor_slices((x, labels))
    assert taken("RssAnon", "RssShmem") - before < 8 * MIB
    assert taken("RssShmem") - shared >= x.nbytes
    assert data.element_spec[0] == tf.TensorSpec((MIB // 4,), tf.float32)
    batches = list(data.batch(16))
    assert [len(one) for one, _ in batches] == [16, 16, 8]
    assert np.array_equal(np.concatenate([one for one, _ in batches]), x)
    del x, data, batches
    gc.collect()
    assert taken("RssShmem") == shared


def test_zeros_are_zeros() -> None:
    perturb, tell = -6, ctypes.CDLL(None).mallopt
    tell(perturb, 0x55)  # the C library writes to what it hands out
    try:
        for size in (32 * MIB, 32 * MIB + 4096 - 16, 32 * MIB + 1):
            x = np.zeros(size, "uint8")
            assert x.ctypes.data % 64 == 0 and not x.any()
    finally:
        tell(perturb, 0)


def changes(x: Any) -> None:
    x[3] = 99
    x[7:9] *= 2


def is_used_again(x: Any) -> None:
    np.multiply(x, -1, out=x)
    x.fill(5)


def is_sorted(x: Any) -> None:
    x[::-1].sort(axis=0)


@pytest.mark.parametrize("then", [changes, is_used_again, is_sorted])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_what_is_written_later_is_the_array_s_alone(then: Callable[[Any], None], kind: str) -> None:
    x = large(kind)
    data = {"x": tf.data.Dataset.from_tensor_slices(x)}
    expected = x.copy()
    then(x)
    then(expected)
    assert rows(data["x"]) == list(range(1, ROWS + 1))
    assert np.array_equal(x, expected)
    # A second dataset has what the array holds by then; the first one keeps its own.
    second = tf.data.Dataset.from_tensor_slices({"a": x})
    x[:] = 0
    assert rows(one["a"] for one in second) == [float(row[0]) for row in expected]
    assert rows(data["x"].shuffle(8, seed=1).repeat(2).take(ROWS).map(lambda one: one * 0 + 1)) == (
        [1.0] * ROWS
    )


def test_deleted_arrays() -> None:
    x = large()
    view = x[4:]
    data = tf.data.Dataset.from_tensor_slices(view)
    del x, view
    gc.collect()
    others = [np.full((ROWS, MIB // 4), -1, "float32") for _ in range(3)]
    assert rows(data) == list(range(5, ROWS + 1))
    assert all(one[0, 0] == -1 for one in others)


def test_a_part_of_an_array_is_shared_alone() -> None:
    x = large()
    data = tf.data.Dataset.from_tensor_slices(x[2:36])
    x[:] = 0
    assert rows(data) == list(range(3, 37))
    x.resize((ROWS // 2, MIB // 4), refcheck=False)
    assert rows(data) == list(range(3, 37))


@pytest.fixture(name="files")
def _files(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Files in memory, in the order in which arrays were shared."""
    found: list[int] = []
    own = _arrays.share

    def share(*given: int) -> Any:
        made = own(*given)
        found.append(os.dup(made[0]))
        return made

    monkeypatch.setattr(_arrays, "share", share)
    yield found
    for file in found:
        os.close(file)


def held(file: int) -> int:
    """Bytes of a file's pages that are there."""
    return os.fstat(file).st_blocks * 512


EDGES = 8192  # what of an array's first and last page is


def test_a_deleted_dataset_leaves_no_pages(files: list[int]) -> None:
    x = large()
    data = {"x": tf.data.Dataset.from_tensor_slices(x)}
    x[3] = 99
    expected = x.copy()
    before = taken("RssAnon", "RssShmem")
    assert held(files[0]) >= x.nbytes
    del data["x"]
    gc.collect()
    assert held(files[0]) <= EDGES
    x += 1
    assert np.array_equal(x, expected + 1)
    assert taken("RssAnon", "RssShmem") - before < 8 * MIB


def test_datasets_of_the_same_array(files: list[int]) -> None:
    x = large()
    data = {"all": tf.data.Dataset.from_tensor_slices(x)}
    data["some"] = tf.data.Dataset.from_tensor_slices(x[4:38])  # the first one's pages no more
    del data["all"]
    gc.collect()
    assert held(files[0]) <= 34 * MIB + EDGES and held(files[1]) >= 34 * MIB
    assert np.array_equal(x[:, 0], np.arange(ROWS) + 1)
    x[:] = 0
    assert rows(data["some"]) == list(range(5, 39))
    last = {"x": tf.data.Dataset.from_tensor_slices(x)}
    del data["some"], x  # the array before the last dataset
    gc.collect()
    others = [np.full((ROWS, MIB // 4), -1, "float32") for _ in range(2)]
    assert rows(last["x"]) == [0] * ROWS
    last.clear()
    gc.collect()
    assert all((one == -1).all() for one in others)


def test_a_fork_keeps_the_pages(files: list[int]) -> None:
    x = large()
    file, name = _arrays.share(x.ctypes.data, x.ctypes.data, x.nbytes) or (-1, 0)
    os.close(file)
    child = os.fork()
    if child == 0:
        _arrays.give_back(name)
        os._exit(int(x[:, 0].sum() != ROWS * (ROWS + 1) / 2))
    assert os.waitpid(child, 0)[1] == 0
    _arrays.give_back(name)
    assert held(files[0]) >= x.nbytes
    assert np.array_equal(x[:, 0], np.arange(ROWS) + 1)


ALLOCATOR = """
#include <stddef.h>
void* __libc_calloc(size_t, size_t);
void* calloc(size_t count, size_t each) { return __libc_calloc(count, each); }
"""
SHARES = """
import ctypes, sys
import numpy as np
from plimsoll import _arrays, arrays, asked

if sys.argv[1] == "handler":
    python = ctypes.pythonapi
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    table = python.PyCapsule_GetPointer(arrays._api(), None)
    functions = (ctypes.c_void_p * 306).from_address(table)
    now = ctypes.PYFUNCTYPE(ctypes.py_object)(functions[305])()
    there = ctypes.string_at(python.PyCapsule_GetPointer(now, b"mem_handler"), 168)
    other = ctypes.create_string_buffer(b"other".ljust(127, b"\\0") + there[127:])
    capsule = python.PyCapsule_New(ctypes.addressof(other), b"mem_handler", None)
    ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(functions[304])(capsule)
arrays.begin(asked.Asked(limit=1 << 40))
for x in np.ones(48 << 20, "uint8"), np.zeros(48 << 20, "uint8"):
    print(_arrays.share(x.ctypes.data, x.ctypes.data, x.nbytes), int(x.sum()))
"""


@pytest.mark.parametrize("what", ["nothing", "library", "handler"])
def test_blocks_of_another_allocator_are_not_shared(what: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if what == "library":
        (tmp_path / "own.c").write_text(ALLOCATOR)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "own.so", tmp_path / "own.c"],
                       check=True)  # fmt: skip
        environment["LD_PRELOAD"] = str(tmp_path / "own.so")
    ran = subprocess.run([sys.executable, "-c", SHARES, what], env=environment, text=True,
                         capture_output=True, check=True)  # fmt: skip
    told = ran.stdout.splitlines()
    assert [line.rpartition(" ")[2] for line in told] == [str(48 << 20), "0"]
    assert [line.startswith("None") for line in told] == [what != "nothing"] * 2


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[:, 1:],  # not in one piece
        lambda x: x.reshape(-1)[1 : 1 + (ROWS - 1) * MIB // 4].reshape(ROWS - 1, -1),  # not aligned
        lambda x: x[:8],  # small
        lambda x: x.astype(bool),
        lambda x: np.frombuffer(bytearray(x.tobytes()), "float32").reshape(x.shape),
        lambda x: list(x[:2]),
    ],
)
def test_others_are_copied(make: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arrays, "share", lambda *_: pytest.fail("it was shared"))
    data = make(large())
    told = tf.data.Dataset.from_tensor_slices(data)
    for one, row in zip(told, data, strict=True):
        assert np.array_equal(one.numpy(), row)


def test_where_nothing_is_asked_or_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError("no file in memory")

    monkeypatch.setattr(_arrays, "share", fails)
    x = large()
    assert rows(tf.data.Dataset.from_tensor_slices(x)) == list(range(1, ROWS + 1))
    monkeypatch.setattr(_arrays, "share", lambda *_: pytest.fail("it was shared"))
    monkeypatch.setattr(asked, "current", asked.Asked())
    assert rows(tf.data.Dataset.from_tensor_slices(x)) == list(range(1, ROWS + 1))
