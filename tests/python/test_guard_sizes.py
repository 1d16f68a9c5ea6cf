"""How many samples fit, from peaks that are given; which errors say that memory has run out."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from plimsoll import guard_graph, guard_sizes

MIB = guard_sizes.MIB


def found(batch: int, limit: int, peak: Any, cut_takes: int = 0) -> tuple[int, list[int]]:
    """The size, and the sizes that were measured on the way."""
    points: guard_sizes.Points = []
    while True:
        measures, rows = guard_sizes.choose(points, batch, limit, cut_takes)
        if not measures:
            return rows, [one for one, _ in points]
        assert not points or rows > points[-1][0]
        points.append((rows, peak(rows)))


def test_the_largest_part_within_the_limit() -> None:
    def line(rows: int) -> int:
        return (500 + 10 * rows) * MIB

    assert found(64, 4000 * MIB, line) == (64, [1, 2, 4, 8, 16, 32])
    rows, asked = found(64, 900 * MIB, line)
    assert asked == [1, 2, 4, 8, 16, 32] and line(rows) <= 900 * MIB < line(rows + 8)
    assert found(64, 1220 * MIB, line)[0] == 64
    rows, _ = found(64, 900 * MIB, line, cut_takes=100 * MIB)
    assert line(rows) <= 800 * MIB < line(rows + 8)
    assert found(3, 4000 * MIB, line) == (3, [1, 2])
    assert found(1, 4000 * MIB, line) == (1, [1])
    assert found(8, 505 * MIB, line) == (0, [1])


def test_nothing_is_predicted_far_ahead() -> None:
    """Where growth begins late, or in steps, no size is used before its half was measured."""

    def late(rows: int) -> int:
        return (500 + (0 if rows < 8 else 40 * (rows - 7))) * MIB

    rows, asked = found(64, 700 * MIB, late)
    assert rows <= 2 * asked[-1] and late(asked[-2]) <= 700 * MIB
    rows, asked = found(64, 900 * MIB, lambda rows: (500 + 100 * (rows // 4)) * MIB)
    assert asked == [1, 2, 4, 8] and 8 <= rows < 16
    assert found(64, 600 * MIB, lambda rows: (500 + 60 * (rows > 2) * rows) * MIB)[0] == 2


def pooled(batch: int, limit: int, uses: Any, cut_takes: int = 0) -> tuple[int, int]:
    """Of an allocator that keeps what every part took; and what it has in the end."""
    points: guard_sizes.Points = []
    live: guard_sizes.Points = []
    held = 500 * MIB
    while True:
        ways = guard_sizes.choose_pooled(points, live, batch, limit, cut_takes) if live else None
        measures, rows = ways or guard_sizes.choose(points, batch, limit, cut_takes)
        if not measures:
            return rows, held + (uses(rows) if rows > max(one for one, _ in points) else 0)
        held += uses(rows)
        live.append((rows, uses(rows)))
        points.append((rows, held))


FOUR = [(1, MIB), (2, MIB), (4, MIB), (8, MIB)]


@pytest.mark.parametrize("fixed, each", [(0, 10), (100, 1), (30, 5), (0, 0)])
def test_a_pool_gives_nothing_back(fixed: int, each: int) -> None:
    """Whatever a part uses for itself and for each sample: measuring stays within the limit."""
    assert guard_sizes.choose_pooled(FOUR, FOUR, 64, 9000 * MIB, 0) == (True, 32)

    def uses(rows: int) -> int:
        return (fixed + each * rows) * MIB

    for limit in (700, 900, 1300, 2100):
        rows, held = pooled(64, limit * MIB, uses)
        assert 0 < rows <= 64 and held <= limit * MIB, (limit, rows)
    assert pooled(64, 4000 * MIB, uses)[0] == 64
    assert pooled(64, 490 * MIB, uses)[0] == 0
    assert pooled(3, 4000 * MIB, uses)[0] == 3


def test_parts_are_even() -> None:
    assert [guard_sizes.even(64, rows) for rows in (64, 63, 40, 20, 1)] == [64, 32, 32, 16, 1]
    assert guard_sizes.even(10, 4) == 4 and guard_sizes.even(3, 100) == 3


class XlaRuntimeError(RuntimeError):
    pass


class OutOfMemoryError(RuntimeError):  # torch's
    pass


@pytest.mark.parametrize("error, is_one", [
    (tf.errors.ResourceExhaustedError(None, None, "failed"), True), (MemoryError(), True),
    (tf.errors.InternalError(None, None, "Dst tensor is not initialized."), True),
    (tf.errors.InternalError(None, None, "CUDNN_STATUS_ALLOC_FAILED"), True),
    (tf.errors.InternalError(None, None, "CUDNN_STATUS_BAD_PARAM"), False),
    (XlaRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes."), True),
    (XlaRuntimeError("INVALID_ARGUMENT: shapes"), False), (OutOfMemoryError("CUDA"), True),
    (ValueError("out of memory"), False), (KeyboardInterrupt(), False),
])  # fmt: skip
def test_errors_of_memory(error: BaseException, is_one: bool) -> None:
    assert guard_sizes.is_of_memory(error) is is_one


def test_what_fitted_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    key = guard_sizes.digest("a", 1)
    assert key != guard_sizes.digest("a", 2)
    assert guard_sizes.remembered(key) is None
    guard_sizes.remember(key, 7, 10)
    assert guard_sizes.remembered(key) == 7
    (file,) = (tmp_path / "plimsoll" / "parts").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    for text in ("", "[]", '{"rows": -1}', '{"rows": "7"}', "{"):
        file.write_text(text)
        assert guard_sizes.remembered(key) is None
    monkeypatch.setattr(guard_sizes, "_KEPT", 2)
    for number in range(4):
        guard_sizes.remember(guard_sizes.digest(number), 1, 1)
    assert len(list(file.parent.iterdir())) == 2


def true_rows(true: Any, predicted: Any) -> Any:
    kept = tf.where(tf.abs(true - predicted) > 0.1, predicted[:, :1], 2.0 * tf.exp(true))
    return tf.reduce_mean(tf.math.softplus(kept) * tf.constant([1.0, 2.0, 3.0]), -1)


PROVED = [
    true_rows,
    lambda t, p: tf.reduce_sum(tf.nn.log_softmax(p) * t, axis=[1]),
    lambda t, p: (t[..., 0] - p[:, 0]) ** 2,
    lambda t, p: tf.squeeze(t[:, :1] * p[:, 1:2], -1),
    lambda t, p: tf.reduce_sum(t * p, 1) / tf.cast(tf.shape(p)[1], tf.float32),
    lambda t, p: tf.matmul(t - p, tf.ones((3, 2))),
]
NOT_PROVED = [
    lambda t, p: t - tf.reduce_mean(p),
    lambda t, p: tf.reduce_mean(t - p, 0),
    lambda t, p: t[:, 0] - p[:, :1],  # (n,) and (n, 1): n values for each of n samples
    lambda t, p: tf.matmul(t, p, transpose_b=True),
    lambda t, p: t / tf.cast(tf.shape(p)[0], tf.float32),
    lambda t, p: tf.sort(t - p, 0),
    lambda t, p: tf.cumsum(t - p),
    lambda t, p: (t - p)[::-1],
    lambda t, p: t[1:],
    lambda t, p: tf.transpose(t),
    lambda t, p: tf.reshape(t, [-1]),
    lambda t, p: t * tf.random.uniform([3]),
    lambda t, p: tf.cond(tf.reduce_all(t > 0), lambda: t, lambda: p),
    lambda t, p: tf.nn.softmax(t, axis=0),
    lambda t, p: tf.constant(1.0),
]


@pytest.mark.parametrize("number", range(len(PROVED) + len(NOT_PROVED)))
def test_what_a_graph_proves(number: int) -> None:
    function = [*PROVED, *NOT_PROVED][number]
    specs = [tf.TensorSpec([None, 3], tf.float32)] * 2
    why = guard_graph.why_not(tf.function(function, autograph=False).get_concrete_function(*specs))
    assert bool(why) == (number >= len(PROVED)), why
