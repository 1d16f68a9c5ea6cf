"""What `--restart` keeps of a `fit`, and what comes back: all starts are made in one process."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from guarded import installed

from plimsoll import asked
from plimsoll.guard import decide, saved
from plimsoll.programs import again

X = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
Y = np.eye(2, dtype="float32")[(X.sum(1) > 0).astype(int)]
GIVEN: dict[str, Any] = {"batch_size": 16, "shuffle": False, "verbose": 0}  # four batches


class Killed(BaseException):
    pass


class Dies(keras.callbacks.Callback):  # type: ignore[misc]
    """At the end of a batch of an epoch; and tells of which it was told."""

    def __init__(self, epoch: int = -1, batch: int = -1) -> None:
        super().__init__()
        self.at, self.epoch, self.seen = (epoch, batch), -1, []  # type: ignore[var-annotated]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.seen.append((self.epoch, batch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch) == self.at:
            raise Killed


@pytest.fixture(name="start")
def _start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[int], Path]]:  # fmt: skip
    """Begins what is a new process for the states; the folder that they are in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(saved, "_SHARE", 0)  # a state after each step
    with installed(monkeypatch, memory=None):

        def start(attempt: int) -> Path:
            (tmp_path / "states").mkdir(exist_ok=True)
            saved._count = 0
            decide._guards.clear()
            assert asked.current is not None
            asked.current.restart = asked.Restart(str(tmp_path / "states"), attempt, 1)
            keras.utils.set_random_seed(1)
            return tmp_path / "states"

        yield start


def layers() -> list[Any]:
    return [keras.layers.Dense(5, activation="relu"), keras.layers.Dense(2, activation="softmax")]


class Sub(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.own = layers()

    def call(self, x: Any) -> Any:
        for one in self.own:
            x = one(x)
        return x


def made(kind: str = "built", *metrics: Any) -> Any:
    if kind == "subclassed":
        model = Sub()
    else:
        model = keras.Sequential([keras.Input((6,))] * (kind == "built") + layers())
    model.compile(keras.optimizers.Adam(0.05), "categorical_crossentropy",
                  metrics=["accuracy", *metrics])  # fmt: skip
    return model


def same(one: Any, other: Any) -> None:
    for mine, theirs in zip(one.model.get_weights(), other.model.get_weights()):
        assert np.allclose(mine, theirs, atol=2e-5)
    assert one.epoch == other.epoch and sorted(one.history) == sorted(other.history)
    for name, values in other.history.items():
        assert [type(value) for value in one.history[name]] == [type(value) for value in values]
        assert np.allclose(one.history[name], values, atol=2e-5), name


def test_batches_are_told_apart() -> None:
    """Also where the last byte of each number is the same."""
    pictures = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 64, 3)) / np.float32(256)
    found = [saved._digest((one.astype("float32"),)) for one in pictures]
    assert found[0] != found[1] == saved._digest((pictures[1].astype("float32"),))


@pytest.mark.parametrize("kind", ["open", "subclassed"])
def test_a_fit_that_was_over(start: Any, kind: str, capsys: Any) -> None:
    """It is not trained again, also where the model gets its shapes from the first batch."""
    folder = start(0)
    stops = [keras.callbacks.EarlyStopping("loss", patience=np.int64(0), mode="max")]
    vector = keras.metrics.F1Score(average=None)
    given = {"epochs": 9, "validation_split": 0.25, **GIVEN}
    before = made(kind, vector).fit(X, Y, callbacks=[Dies(), *stops], **given)
    assert before.epoch == [0, 1]
    files = sorted(os.listdir(folder))
    assert files[1:] == ["fit1.step.json"] and files[0].endswith(".values") and len(files) == 2
    start(1)
    model, seen = made(kind, keras.metrics.F1Score(average=None)), Dies()
    stops = [keras.callbacks.EarlyStopping("loss", patience=np.int64(0), mode="max")]
    after = model.fit(X, Y, callbacks=[seen, *stops], **given)
    assert model.history is after and not seen.seen
    same(after, before)
    assert stops[0].stopped_epoch == 1
    assert "goes on" not in capsys.readouterr().err


def _watched(where: str, *more: Any) -> list[Any]:
    return [
        *more,
        keras.callbacks.ModelCheckpoint(
            where + "/{epoch}-{batch}.weights.h5", save_freq=3, save_weights_only=True
        ),
        keras.callbacks.BackupAndRestore(where + "/backup", save_freq=2),
        keras.callbacks.TensorBoard(where + "/board", write_graph=False),
        keras.callbacks.EarlyStopping(
            "loss", patience=np.int64(3), baseline=np.float32(9), restore_best_weights=True
        ),
    ]


def test_hooks_of_batches(start: Any, tmp_path: Path, capsys: Any) -> None:
    """Those that are left out were told of before; what callbacks count and write is as in one
    run. What the program's own keep is not read."""
    start(0)
    plain = _watched("plain")
    for name in ("plain", "killed"):
        (tmp_path / name).mkdir()
    alone = made().fit(X, Y, epochs=3, callbacks=plain, **GIVEN)
    folder = start(0)
    for file in folder.iterdir():
        file.unlink()
    seen: list[Any] = []
    for attempt, at in enumerate([(1, 1), (2, 0), (-1, -1)]):
        start(attempt)
        dies = Dies(*at)
        dies.best_weights = "none yet"
        ours = _watched("killed", dies)
        with pytest.raises(Killed) if at[0] > 0 else contextlib.nullcontext():
            told = made().fit(X, Y, epochs=3, callbacks=ours, **GIVEN)
        assert not list(folder.glob("*.doing"))
        seen += dies.seen
    same(told, alone)
    # Those that it died in came after the last states.
    everything = [(epoch, batch) for epoch in range(3) for batch in range(4)]
    assert seen == sorted([*everything, (1, 1), (2, 0)])
    assert capsys.readouterr().err.count("Dies: begins anew") == 2
    counted = [saved._plain_of(one) for one in ours[1:]], [saved._plain_of(one) for one in plain]
    for mine, theirs in zip(*counted):
        for name, value in mine.items():
            if "time" not in name and isinstance(value, (int, float)):
                assert value == pytest.approx(theirs[name], abs=2e-5), name
    written = sorted(one.name for one in Path("plain").glob("*.h5"))
    assert written == sorted(one.name for one in Path("killed").glob("*.h5")) and written
    models = made(), made()
    for name in written:
        for model, where in zip(models, ("plain", "killed")):
            model.load_weights(f"{where}/{name}")
        for mine, theirs in zip(models[1].get_weights(), models[0].get_weights()):
            assert np.allclose(mine, theirs, atol=2e-5), name


def test_data_in_another_order(
    start: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:  # fmt: skip
    """Known after the first batch: another start is asked for, and it is said."""
    folder = start(0)
    with pytest.raises(Killed):
        made().fit(X, Y, epochs=2, callbacks=[Dies(1, 3)], **GIVEN)
    start(1)
    order = np.r_[:16, 32:64, 16:32]

    def ends(code: int) -> None:
        raise Killed(code)

    monkeypatch.setattr(os, "_exit", ends)
    with pytest.raises(Killed, match="75"):
        made().fit(X[order], Y[order], epochs=2, **GIVEN)
    assert "another order than before, after 1 batches of epoch 2: the program is started once" in (
        capsys.readouterr().err
    )
    assert (folder / "again").exists()
    start(1)
    seen = Dies()
    made().fit(X[order], Y[order], epochs=2, callbacks=[seen], **GIVEN)
    assert seen.seen == [(1, batch) for batch in range(4)]


def test_a_full_disk(start: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Training goes on, and what was saved before is used."""
    folder = start(0)
    own, count = saved._write, []

    def write(path: str, facts: Any) -> None:
        count.append(path)
        if len(count) > 3:
            raise OSError(28, "No space left on device")
        own(path, facts)

    monkeypatch.setattr(saved, "_write", write)
    told = made().fit(X, Y, epochs=3, **GIVEN)
    error = capsys.readouterr().err
    assert error.count("is not saved from here on: No space left on device") == 1
    assert told.epoch == [0, 1, 2] and len(list(folder.glob("*.values"))) == 2
    monkeypatch.setattr(saved, "_write", own)
    start(1)
    same(made().fit(X, Y, epochs=3, **GIVEN), told)
    assert "goes on after step 2 of epoch 1" in capsys.readouterr().err


class Looks(keras.callbacks.Callback):  # type: ignore[misc]
    """What would be blamed, at each hook."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.found = file, set()  # type: ignore[var-annotated]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.found.add(self.file.read_text()[:1])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.on_epoch_begin(0)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.on_epoch_begin(0)


def test_what_a_kill_is_blamed_on(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is while it runs, and no longer."""
    folder = start(0)
    file = folder / "fit1.doing"
    own, steps = saved.Saved.stepped, []

    def stepped(self: Any) -> None:
        steps.append(file.read_text())
        own(self)

    monkeypatch.setattr(saved.Saved, "stepped", stepped)
    looks = Looks(file)
    made().fit(X, Y, epochs=1, callbacks=[looks], validation_split=0.25, **GIVEN)
    assert looks.found == {"0"} and {one[:1] for one in steps} == {"1"}
    assert json.loads(steps[0][1:])["rows"] == 16
    assert not file.exists()
    (folder / "fit2.doing").write_text(steps[0])
    (folder / "fit3.doing").write_text("0" + steps[0][1:])
    (folder / "fit4.doing").write_text("1{")
    last = again._last(str(folder))
    assert last["in step"] and last["batch"] == 16 and again._why_not(last, 1, 0) == ""
    assert again._last(str(folder)) == {}  # each is read once
    assert (folder / "fit2.killed").read_text() == steps[0]
    (folder / "fit3.doing").write_text("0" + steps[0][1:].replace("16", "0"))
    assert "before the first step" in again._why_not(again._last(str(folder)), 1, 0)


def test_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose names have spaces; and one that is killed as a whole."""
    (tmp_path / "own").write_text("4:memory,cpu:/old one\n0::/a b/c:d\n")
    inner, outer = tmp_path / "a b" / "c:d", tmp_path / "a b"
    inner.mkdir(parents=True)
    (tmp_path / "memory" / "old one").mkdir(parents=True)
    (inner / "memory.events").write_text("oom 4\noom_kill 3\n")
    (tmp_path / "memory" / "old one" / "memory.oom_control").write_text("oom_kill 2\n")
    monkeypatch.setattr(again, "_OF_PROCESS", str(tmp_path / "own"))
    monkeypatch.setattr(again, "_GROUPS", str(tmp_path))
    found = again._kills()
    assert found[str(inner / "memory.events")] == 3
    assert found[str(tmp_path / "memory" / "old one" / "memory.oom_control")] == 2
    (inner / "memory.oom.group").write_text("0\n")
    assert again._ends_as_a_whole() == ""
    (outer / "memory.oom.group").write_text("1\n")
    assert again._ends_as_a_whole() == str(outer / "memory.oom.group")
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "own").unlink()
    assert again._ends_as_a_whole() == "" and list(again._kills()) == ["/proc/vmstat"]
