"""`from_tensor_slices` refers to large arrays, and trains on what they held when it was called."""

import gc
import re
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


def test_no_copy_is_made() -> None:
    x, labels = large(), np.arange(ROWS)
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
