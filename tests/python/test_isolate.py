"""fit(isolate=True): the engine in a process of its own, against fit in this one."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from live_models import CASES, classes, normal, numbers

import plimsoll

L = keras.layers
X, Y = normal(60, 4), normal(60, 1, seed=3)


def children() -> list[int]:
    """Processes of isolated fits; other tests of this process may have others."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += [int(pid) for pid in (task / "children").read_text().split()]
    return [
        pid
        for pid in found
        if b"plimsoll.isolation.isolated" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def state(model: keras.Model) -> list[bytes]:
    return [numbers(v).tobytes() for v in [*model.variables, *model.optimizer.variables]]


def small(optimizer: Any = "adam", dropout: float = 0.2) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((4,)), L.Dense(6, "tanh"), L.Dropout(dropout),
                              L.Dense(1)])  # fmt: skip
    model.compile(optimizer, "mse")
    return model


def wide() -> keras.Model:
    """Whose steps take a while."""
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((64,)), L.Dense(1024, "relu"), L.Dense(1)])
    model.compile("sgd", "mse")
    return model


class Acts(keras.callbacks.Callback):
    """Does something when epochs begin and end."""

    def __init__(self, begin: Any = None, end: Any = None) -> None:
        super().__init__()
        self.begin, self.end = begin, end

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.begin is not None:
            self.begin(epoch, self.model)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.end is not None:
            self.end(epoch, self.model)


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name: str) -> None:
    """Twice in a row, the last batch short, with validation."""
    case, outcomes = CASES[name], []
    for options in ({}, {"isolate": True}, {"isolate": True, "memory": "400MiB"}):
        model = case.compiled()
        told = [
            plimsoll.fit(model, case.x, case.y, batch_size=16, epochs=2, verbose=0,
                         validation_split=0.2, **options).history
            for _ in range(2)
        ]  # fmt: skip
        outcomes.append((told, state(model)))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert not children()


def test_arguments(capfd: pytest.CaptureFixture[str]) -> None:
    case, outcomes = CASES["image"], []
    for isolate in (False, True):
        model = case.compiled()
        told = plimsoll.fit(
            model, case.x[:60], case.y[:60], batch_size=16, epochs=5, initial_epoch=2, verbose=2,
            validation_data=(case.x[60:], case.y[60:]), validation_freq=2, shuffle=False,
            class_weight={0: 2.0, 1: 0.5}, seed=3, isolate=isolate,
        )  # fmt: skip
        outcomes.append((told.history, state(model)))
        assert capfd.readouterr().out.count("Epoch") == 3
    assert outcomes[0] == outcomes[1]


def _callbacks(folder: Path) -> list[Any]:
    return [
        keras.callbacks.EarlyStopping(
            "val_loss", patience=2, min_delta=0.1, restore_best_weights=True
        ),
        keras.callbacks.ReduceLROnPlateau("val_loss", patience=1, factor=0.5),
        keras.callbacks.CSVLogger(folder / "log.csv"),
        keras.callbacks.ModelCheckpoint(folder / "best.keras", save_best_only=True),
        keras.callbacks.BackupAndRestore(folder / "backup"),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None),
    ]


def test_callbacks(tmp_path: Path) -> None:
    outcomes = []
    for isolate in (False, True):
        folder = tmp_path / str(isolate)
        folder.mkdir()
        model = small(keras.optimizers.SGD(0.5))
        told = plimsoll.fit(model, X, Y, batch_size=16, epochs=12, verbose=0, isolate=isolate,
                            validation_split=0.3, callbacks=_callbacks(folder))  # fmt: skip
        best = keras.models.load_model(folder / "best.keras")
        outcomes.append((told.history, state(model), state(best),
                         (folder / "log.csv").read_text()))  # fmt: skip
    assert outcomes[0] == outcomes[1]
    assert 1 < len(outcomes[0][0]["loss"]) < 12


def test_a_rate_that_is_lowered_at_the_end() -> None:
    """Nobody looks at the model beside."""
    outcomes = []
    for isolate in (False, True):
        model = small(keras.optimizers.SGD(0.5))
        lowers = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        plateau = keras.callbacks.ReduceLROnPlateau("loss", patience=1, factor=0.1, min_delta=9)
        plimsoll.fit(model, X, Y, epochs=3, verbose=0, isolate=isolate,
                     callbacks=[lowers, plateau])  # fmt: skip
        outcomes.append(state(model))
    assert outcomes[0] == outcomes[1]


def test_the_model_in_callbacks() -> None:
    """Looks and writes at the ends of epochs; a rate that is set."""
    outcomes = []
    for isolate in (False, True):
        seen: list[Any] = []

        def end(epoch: int, model: Any, seen: list[Any] = seen) -> None:
            seen.append(plimsoll.predict(model, X[:3]).tobytes())
            seen.append(int(model.optimizer.iterations))
            if epoch == 1:
                model.layers[0].kernel.assign(np.full((4, 6), 0.1, "float32"))
                model.optimizer.learning_rate = 0.05

        model = small()
        plimsoll.fit(model, X, Y, batch_size=16, epochs=4, verbose=0, isolate=isolate,
                     callbacks=[Acts(end=end)])  # fmt: skip
        outcomes.append((seen, state(model)))
    assert outcomes[0] == outcomes[1]


def test_between_other_calls() -> None:
    """What steps on batches have left, and what they find."""
    outcomes = []
    for isolate in (False, True):
        model = small()
        for _ in range(2):
            plimsoll.train_on_batch(model, X, Y)
            plimsoll.fit(model, X, Y, epochs=2, verbose=0, isolate=isolate)
        outcomes.append(state(model))
    assert outcomes[0] == outcomes[1]


def test_losses_that_are_not_finite(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = []
    for isolate in (False, True):
        model = small("sgd")
        told = plimsoll.fit(
            model, X, Y * np.float32(1e30), batch_size=16, epochs=9, verbose=0, isolate=isolate,
            callbacks=[keras.callbacks.TerminateOnNaN()],
        )  # fmt: skip
        outcomes.append((len(told.history["loss"]), state(model)))
        assert "terminating training" in capsys.readouterr().out
    assert outcomes[0] == outcomes[1]


def test_what_the_process_is_and_takes() -> None:
    """Without TensorFlow, within the limit, which this process has passed long since."""
    limit = 200 << 20
    seen: list[tuple[str, str]] = []

    def look(epoch: int, model: Any) -> None:
        [pid] = children()
        folder = Path(f"/proc/{pid}")
        seen.append(((folder / "maps").read_text(), (folder / "status").read_text()))

    x, y = normal(4000, 784), classes(4000, 10)
    model = keras.Sequential([keras.Input((784,)), L.Dense(256, "relu"), L.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = sorted(os.listdir("/proc/self/fd"))
    plimsoll.fit(model, x, y, batch_size=1000, epochs=2, verbose=0, isolate=True, memory=limit,
                 callbacks=[Acts(end=look)])  # fmt: skip
    maps, status = seen[-1]
    assert "tensorflow" not in maps and "plimsoll/_core" in maps
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    assert x.nbytes < peak < limit < plimsoll._core.process_memory()
    assert sorted(os.listdir("/proc/self/fd")) == before and not children()


def test_a_limit_that_is_not_met() -> None:
    model = small()
    before = state(model)
    for memory in ("20MiB", "36MiB"):
        with pytest.raises(plimsoll.ResourceExhausted, match="MiB"):
            plimsoll.fit(model, X, Y, verbose=0, isolate=True, memory=memory)
    assert state(model) == before and not children()
    plimsoll.fit(model, X, Y, verbose=0, isolate=True, memory="200MiB")


@pytest.mark.parametrize("when", ["between epochs", "within an epoch"])
def test_killed(when: str) -> None:
    """The model holds the last whole epoch."""
    held: list[Any] = []

    def kill() -> None:
        os.kill(children()[0], signal.SIGKILL)

    def begin(epoch: int, model: Any) -> None:
        if epoch == 2 and when == "within an epoch":
            threading.Timer(0.05, kill).start()

    def end(epoch: int, model: Any) -> None:
        held.append(state(model))
        if epoch == 1 and when == "between epochs":
            kill()

    model = wide()
    x, y = normal(20000, 64), normal(20000, 1)
    with pytest.raises(ChildProcessError, match="SIGKILL.* after 2 whole epochs"):
        plimsoll.fit(model, x, y, batch_size=2, epochs=9, verbose=0, isolate=True,
                     callbacks=[Acts(begin, end)])  # fmt: skip
    assert len(held) == 2 and state(model) == held[1]
    assert len(model.history.history["loss"]) == 2 and not children()
    plimsoll.fit(model, X.repeat(16, 1), Y, verbose=0, isolate=True)


def test_killed_in_the_first_epoch() -> None:
    model = wide()
    before = [numbers(v).tobytes() for v in model.variables]
    x, y = normal(200000, 64), normal(200000, 1)

    def kill() -> None:
        while not children():
            time.sleep(0.01)
        time.sleep(0.7)
        os.kill(children()[0], signal.SIGKILL)

    threading.Thread(target=kill).start()
    with pytest.raises(ChildProcessError, match="SIGKILL.* after 0 whole epochs"):
        plimsoll.fit(model, x, y, batch_size=2, verbose=0, isolate=True)
    assert [numbers(v).tobytes() for v in model.variables] == before


def test_interrupted() -> None:
    """Ctrl-C in the second epoch: what was trained so far, as of the last step."""
    model = wide()

    def begin(epoch: int, model: Any) -> None:
        if epoch == 1:
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        plimsoll.fit(model, normal(60000, 64), normal(60000, 1), batch_size=1, epochs=99,
                     verbose=0, isolate=True, callbacks=[Acts(begin)])  # fmt: skip
    assert time.monotonic() - start < 60
    assert 60000 <= int(model.optimizer.iterations) < 120000 and not children()
    assert all(np.isfinite(numbers(v)).all() for v in model.variables)
    plimsoll.fit(model, normal(8, 64), normal(8, 1), verbose=0, isolate=True)


def test_a_script_without_a_main(package: Path, tmp_path: Path) -> None:
    """Nothing of the script is run again; it may even shadow modules of the package."""
    (tmp_path / "script.py").write_text(
        "print('once')\n"
        "import keras, numpy as np, plimsoll\n"
        "m = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "m.compile('sgd', 'mse')\n"
        "h = plimsoll.fit(m, np.ones((8, 4)), np.ones((8, 1)), verbose=0, epochs=30, "
        "isolate=True)\n"
        "print(h.history['loss'][-1] < h.history['loss'][0])\n"
    )
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(package)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["once", "True"]


def test_its_end_where_this_one_is_killed(package: Path, tmp_path: Path) -> None:
    script = (
        "import keras, numpy as np, os, plimsoll, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from test_isolate import Acts, children, wide\n"
        "plimsoll.fit(wide(), np.ones((200000, 64)), np.ones((200000, 1)), batch_size=2, "
        "verbose=0, isolate=True, memory='1GiB', "
        "callbacks=[Acts(lambda *_: print(*children(), flush=True))])\n"
    )
    ours = subprocess.Popen([sys.executable, "-c", script, Path(__file__).parent], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            env=os.environ | {"PYTHONPATH": str(package)})  # fmt: skip
    assert ours.stdout is not None
    pid = int(ours.stdout.readline())
    time.sleep(0.5)
    assert Path(f"/proc/{pid}/status").exists()
    ours.kill()
    ours.wait()
    for _ in range(100):
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return
        time.sleep(0.1)
    raise AssertionError("the process that trains outlives the one that it works for")


def test_folds_side_by_side() -> None:
    """In threads; as one after the other in this process."""
    folds = [(X[i::3], Y[i::3]) for i in range(3)]
    models = [small(dropout=0.0) for _ in folds]
    with ThreadPoolExecutor(3) as pool:
        told = list(pool.map(
            lambda model, fold: plimsoll.fit(model, *fold, batch_size=8, epochs=3, verbose=0,
                                             shuffle=False, isolate=True).history,
            models, folds,
        ))  # fmt: skip
    for model, fold, history in zip(models, folds, told, strict=True):
        other = small(dropout=0.0)
        again = plimsoll.fit(other, *fold, batch_size=8, epochs=3, verbose=0, shuffle=False)
        assert again.history == history
        assert [v[:9] for v in state(other)] == [v[:9] for v in state(model)]


def test_refused_by_name() -> None:
    class Counts(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            pass

    model = small()
    before = state(model)
    for arguments, what in (
        ({"callbacks": [Counts()]}, "Counts"),
        ({"callbacks": [keras.callbacks.ModelCheckpoint("x.keras", save_freq=3)]},
         "ModelCheckpoint"),
        ({"steps_per_epoch": 2}, "steps_per_epoch=2"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=what):
            plimsoll.fit(model, X, Y, verbose=0, isolate=True, **arguments)
    with pytest.raises(ValueError, match="expected arrays"):
        plimsoll.fit(model, iter([(X, Y)]), verbose=0, isolate=True)
    with pytest.raises(ValueError, match="expected"):
        plimsoll.fit(model, X[:, :2], Y, verbose=0, isolate=True)
    assert state(model)[: len(before)] == before and not children()
