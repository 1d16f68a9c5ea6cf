"""How many samples fit, from peaks that are given; which errors say that memory has run out.

Then: measuring leaves no trace. What nothing is cut of is Keras's own result to the bit, whatever
the program keeps beside it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from guarded import CUTS, TRAINER, installed, own_fit, parts_of
from live_models import normal, numbers

from plimsoll.guard import decide as guard
from plimsoll.guard import graph as guard_graph
from plimsoll.guard import sizes as guard_sizes
from plimsoll.guard.step import CutStep, Packing

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
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes."), True),
    (RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)."), True),
    (ValueError("out of memory"), False), (KeyboardInterrupt(), False),
])  # fmt: skip
def test_errors_of_memory(error: BaseException, is_one: bool) -> None:
    assert guard_sizes.is_of_memory(error) is is_one


def test_pages_of_mapped_files_are_the_kernel_s(tmp_path: Path) -> None:
    """What was read from a file before a step is not what the step takes; arrays are."""
    size = 96 * guard_sizes.MIB
    (tmp_path / "x").write_bytes(bytes(size))
    assert guard_sizes.reset_peak()
    base = guard_sizes.peak()
    mapped = np.memmap(tmp_path / "x", "int8", "r")
    assert mapped.max() == 0
    assert guard_sizes.peak() > base + size * 3 // 4  # the peak may have come with it
    assert guard_sizes.peak(read_meanwhile=False) < base + size // 4
    guard_sizes.reset_peak()
    assert guard_sizes.peak() < base + size // 4
    held = np.ones(size, "int8")
    for meanwhile in (False, True):
        assert guard_sizes.peak(read_meanwhile=meanwhile) > base + size * 3 // 4
    del held, mapped
    guard_sizes.reset_peak()
    assert guard_sizes.peak() < base + size // 4


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


L = keras.layers
X, Y = normal(64, 6), normal(64, 3, seed=2)


class Counting(L.Layer):
    """Counts by a variable that is none of Keras's, and in Python."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.count = tf.Variable(0, trainable=False)

    def call(self, inputs: Any) -> Any:
        self.count.assign_add(1)
        Counting.calls += 1
        return inputs


class Drawing(L.Layer):
    def __init__(self, draw: Callable[[Any], Any]) -> None:
        super().__init__()
        self.draw = draw

    def call(self, inputs: Any) -> Any:
        return inputs + self.draw(tf.shape(inputs))


class Centered(L.Layer):
    def call(self, inputs: Any) -> Any:
        return inputs - keras.ops.mean(inputs, axis=0, keepdims=True)


def network(layer: Any, optimizer: Any = "adam", **more: Any) -> Any:
    model = keras.Sequential([keras.Input((6,)), L.Dense(4), layer, L.Dense(3)])
    model.compile(optimizer, "mse", **more)
    return model


def generated() -> Any:
    source = tf.random.Generator.from_seed(5)
    return network(Drawing(source.normal))


KINDS: dict[str, Callable[[], Any]] = {
    "a variable": lambda: network(Counting()),
    "a generator": generated,
    "a seed": lambda: network(Drawing(lambda shape: tf.random.normal(shape, seed=3))),
    "the program's seed": lambda: network(Drawing(tf.random.uniform)),
    "eagerly": lambda: network(Counting(), run_eagerly=True),
    "eagerly drawn": lambda: network(Drawing(tf.random.normal), run_eagerly=True),
    "slots that start at weights": lambda: network(
        Centered(), keras.optimizers.ScheduleFreeAdamW(0.01)
    ),
}


def trained(make: Callable[[], Any], fit: Any) -> list[Any]:
    """Losses, weights, slots, and what was counted."""
    keras.utils.set_random_seed(7)
    model = make()
    Counting.calls = 0
    losses = fit(model, X, Y, batch_size=16, epochs=2, verbose=0, shuffle=False).history["loss"]
    values = [numbers(one) for one in [*model.variables, *model.optimizer.variables]]
    layer = model.layers[1]
    if isinstance(layer, Counting):
        values.append(layer.count.numpy())
        assert layer.count.numpy() == 8
        assert not model.run_eagerly or Counting.calls == 8
    return [losses, *values]


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_measuring_changes_nothing(
    name: str, raises: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """raises: memory that runs out is an exception, and steps are done in two functions."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: raises)
    with installed(monkeypatch):
        whole = trained(KINDS[name], own_fit())
        received = trained(KINDS[name], TRAINER.fit)
    for one, other in zip(whole, received, strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("raises", [False, True])
def test_a_larger_batch_later_is_not_cut_without_proof(
    raises: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: raises)
    found = []
    with installed(monkeypatch):
        for method in (TRAINER.train_on_batch.__wrapped__, TRAINER.train_on_batch):
            keras.utils.set_random_seed(7)
            model = network(Centered(), "sgd")
            losses = [method(model, X[:size], Y[:size]) for size in (8, 64, 64)]
            found.append([np.array(losses), *model.get_weights()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(other, one)


@CUTS
def test_a_size_that_is_known_needs_proof_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts_of(monkeypatch, 64)
    with installed(monkeypatch):
        model = network(Centered(), "sgd")
        model.train_on_batch(X[:4], Y[:4])
        own = guard._guards[model]
        own.rows, own.passes = 4, False
        model.train_on_batch(X[:16], Y[:16])
        assert own.rows == guard.ALL
    said = capsys.readouterr().err
    assert "changes with another sample" in said and "trained in" not in said


@CUTS
def test_what_counts_parts_is_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by its variable, though that is none of Keras's, and put back."""
    with installed(monkeypatch):
        whole = trained(KINDS["a variable"], own_fit())
        parts_of(monkeypatch, 4)
        received = trained(KINDS["a variable"], TRAINER.fit)
    assert "changes in each part" in capsys.readouterr().err
    for one, other in zip(whole, received, strict=True):
        np.testing.assert_array_equal(other, one)


@CUTS
def test_layers_of_keras_are_measured() -> None:
    """What Keras's own layers do is put back by variables."""
    model = keras.Sequential([
        keras.Input((5,), dtype="int32"), L.Embedding(9, 4, mask_zero=True), L.LSTM(4),
        L.Dropout(0.5), L.BatchNormalization(), L.GaussianNoise(0.1), L.Dense(3),
    ])  # fmt: skip
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy", "auc"])
    words, labels = tf.ones((2, 5), tf.int32), tf.ones((2, 1), tf.int32)
    step = CutStep(model, Packing((words, labels)), [words[:1], labels[:1]])
    assert step.acts == "" and not step._foreign


@CUTS
@pytest.mark.parametrize("eagerly", [False, True])
def test_what_is_not_measured_is_cut_when_it_passes_the_limit(
    eagerly: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    taken = [100 * guard_sizes.MIB]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard_sizes, "peak", lambda read_meanwhile=True: taken[0])
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: False)
    monkeypatch.setattr(guard, "_LOOKS_EVERY_S", 0)

    class Grows(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            taken[0] = (200 << 30) if batch == 1 else 100 * guard_sizes.MIB

    layer = Drawing(lambda shape: 0 * tf.random.normal(shape))
    with installed(monkeypatch):
        model = network(layer, "sgd", run_eagerly=eagerly)
        model.fit(X, Y, batch_size=16, verbose=0, callbacks=[Grows()])
    said = capsys.readouterr().err
    assert "a step with 16 samples at a time took 204800.0 MiB, above the limit" in said
    assert "a batch of 16 samples is trained in 2 parts of 8" in said


@CUTS
def test_an_eager_step_that_fails_is_undone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Keras's own function has done its update when memory runs out; the parts start afresh."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard_sizes, "may_raise", lambda sees_gpu: True)
    own = TRAINER.compute_metrics

    def fails(self: Any, x: Any, *given: Any, **more: Any) -> Any:
        answer = own(self, x, *given, **more)
        if int(tf.shape(x)[0]) == 16:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")
        return answer

    found = []
    for raises in (False, True):
        with installed(monkeypatch), monkeypatch.context() as patch:
            keras.utils.set_random_seed(7)
            model = network(L.Dense(4, "tanh"), run_eagerly=True)
            if raises:
                patch.setattr(TRAINER, "compute_metrics", fails)
                patch.setattr("plimsoll.guard.proof.unknown_keras", lambda: "")
            fit = TRAINER.fit if raises else own_fit()
            history = fit(model, X, Y, batch_size=16, verbose=0, shuffle=False).history
            found.append([np.array(history["loss"]), *model.get_weights()])
    said = capsys.readouterr().err
    assert "with 16 samples at a time does not fit (ResourceExhaustedError): it was undone" in said
    assert "a batch of 16 samples is trained in 2 parts of 8" in said
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)
