"""`--restart`: a program that the kernel has killed goes on where it was, and loses no step."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from plimsoll.programs import again

# It kills itself where a test asks for it, once at each place.
PROGRAM = """\
import os, signal, sys, time
import numpy as np
import keras
from plimsoll.guard import saved

saved._SHARE = 0  # a state is written after each step, however slow the disk is
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(56, 6)).astype("float32")
y = (x.sum(1) > 0).astype("float32")
unseeded = np.random.rand(3)


def dies(name):
    if name in sys.argv and not os.path.exists(name):
        open(name, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)


class Dies(keras.callbacks.Callback):
    def __init__(self, name, epoch, batch):
        super().__init__()
        self.name, self.at, self.epoch = name, (epoch, batch), 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == self.at[0] and self.name in sys.argv and not os.path.exists(self.name):
            time.sleep(0.3)  # long enough for a state to be written
        if (self.epoch, batch) == self.at:
            dies(self.name)


class Counts(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        with open("epochs", "a") as file:
            print(self.model.name, epoch, file=file)


def model(name):
    made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"),
                             keras.layers.Dense(1, activation="sigmoid")], name=name)
    made.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
    return made


def same(one, other):
    found = [np.abs(a - b).max() for a, b in zip(one.get_weights(), other.get_weights())]
    assert max(found) < 2e-5, found
    assert int(one.optimizer.iterations) == int(other.optimizer.iterations)


first, second, third = model("first"), model("second"), model("third")
twins = [keras.models.clone_model(one) for one in (first, second)]
for one, twin in zip((first, second), twins):
    twin.set_weights(one.get_weights())
    twin.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
given = {"batch_size": 16, "shuffle": False, "verbose": 0}
over = first.fit(x, y, epochs=2, callbacks=[Counts()], **given)
dies("between")
stops = keras.callbacks.EarlyStopping("loss", patience=9, restore_best_weights=True)
log = keras.callbacks.CSVLogger("log.csv")
told = second.fit(x, y, epochs=4, callbacks=[Dies("second", 2, 1), Counts(), stops, log],
                  validation_split=0.0, **given)
order = np.random.default_rng().permutation(56)  # another one in each start
third.fit(x[order], y[order], batch_size=16, epochs=3, verbose=0,
          callbacks=[Dies("third", 1, 2), Counts()])
histories = [twin.fit(x, y, epochs=epochs, **given) for twin, epochs in zip(twins, (2, 4))]
same(first, twins[0])
same(second, twins[1])
for one, other in zip((over, told), histories):
    assert one.epoch == other.epoch
    for name in other.history:
        assert np.allclose(one.history[name], other.history[name], atol=2e-5), name
assert int(third.optimizer.iterations) == 12
assert stops.best == min(told.history["loss"]) and stops.best_weights is not None
print("trained", unseeded.tolist())
"""


class Kills:
    """As if each process that dies by SIGKILL had been killed by the kernel for memory."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> dict[str, int]:
        self.count += 1
        return {"memory.events": self.count}


@pytest.fixture(name="program")
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: Path) -> Any:
    """Runs it as the command does; exit code, and what was printed."""
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(again, "_kills", Kills())
    monkeypatch.chdir(tmp_path)

    def run(capfd: pytest.CaptureFixture[str], text: str, times: int, *words: str) -> Any:
        (tmp_path / "p.py").write_text(text)
        options = ["--engine", "keras", "--restart", str(times), "p.py", *words]
        monkeypatch.setattr(sys, "argv", ["plimsoll", *options])
        code = again.run(times)
        assert not list(tmp_path.glob("plimsoll-restart-*"))
        return (code, *capfd.readouterr())

    return run


def test_no_step_is_lost(program: Any, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Killed in the third of four epochs, and, with batches in another order, in the second of
    three: fits that were over are not trained again, weights are those of one run."""
    code, out, error = program(capfd, PROGRAM, 3, "second", "third")
    print(out, error)
    assert code == 0 and out.count("trained") == 1
    assert error.count("it is started again") == 2
    assert re.search(r"p.py:\d+: fit: goes on after step 1 of epoch 3", error)
    assert "with 16 samples at a time of a batch of 16" in error
    assert "epoch 2 is done again from its beginning" in error
    assert "Dies, Counts: begins anew." in error
    # All three starts wrote these together.
    epochs = (tmp_path / "epochs").read_text().splitlines()
    assert epochs == [f"first {n}" for n in range(2)] + [f"second {n}" for n in range(4)] + [
        f"third {n}" for n in range(3)
    ]
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 5


def test_what_is_not_in_a_fit_is_not_started_again(
    program: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "import os\nos.kill(os.getpid(), 9)\n"
    code, _, error = program(capfd, text, 3)
    assert code == 3
    assert "it is not started again: it was not in a fit that Keras trains" in error


def test_other_ends_are_the_program_s(program: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert program(capfd, "import sys\nsys.exit(75)\n", 1)[0] == 75
    code, out, _ = program(capfd, "import os; print('PLIMSOLL_RESTART' in os.environ)\n1 / 0", 1)
    assert (code, out) == (1, "False\n")


def test_another_start_is_asked_for_once(
    program: Any, capfd: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    text = """\
import os
from plimsoll import asked
open(os.path.join(asked.current.restart.folder, "again"), "w").close()
print("started", flush=True)
os._exit(75)
"""
    code, out, error = program(capfd, text, 3)
    assert (code, out) == (3, "started\nstarted\n")
    assert "come in another order each time, and it is not started again." in error


def test_output_without_a_buffer(tmp_path: Path, package: Path) -> None:
    """`python -u` is so for the program too."""
    text = "import sys; print(sys.stdout.write_through)"
    environment = {**os.environ, "PYTHONPATH": str(package), "TMPDIR": str(tmp_path)}
    environment.pop("PYTHONUNBUFFERED", None)
    for flags in ([], ["-u"]):
        done = subprocess.run(
            [sys.executable, *flags, "-m", "plimsoll", "--restart", "1", "-c", text],
            env=environment, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout == f"{bool(flags)}\n", done.stderr


def test_a_kill_that_is_not_the_kernel_s(tmp_path: Path, package: Path) -> None:
    """Its signal is passed on, as are those that reach the process that waits."""
    environment = {**os.environ, "PYTHONPATH": str(package), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "plimsoll", "--restart", "2", "-c"]
    text = "import os; os.kill(os.getpid(), 15)"
    done = subprocess.run([*command, text], env=environment, cwd=tmp_path)
    assert done.returncode == -signal.SIGTERM
    text = "import time; open('there', 'w').close(); time.sleep(60)"
    for number in (signal.SIGTERM, signal.SIGINT):
        child = subprocess.Popen([*command, text], env=environment, cwd=tmp_path,
                                 start_new_session=True)  # fmt: skip
        while not (tmp_path / "there").exists():
            assert child.poll() is None
            time.sleep(0.01)
        (tmp_path / "there").unlink()
        child.send_signal(number)
        assert child.wait(30) == -number
    assert not list(tmp_path.glob("plimsoll-restart-*"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--restart", "many", "p.py"], "--restart: expected a number, received 'many'."),
        (["plan", "--restart", "1", "p.py"], "--restart: expected a program that trains"),
    ],
)
def test_wrong_options(words: list[str], expected: str, package: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "plimsoll", *words], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
    )  # fmt: skip
    assert done.returncode == 2 and expected in done.stderr


# The first seed workload, whose arrays are on a disk: Keras takes 4.6 GiB for it.
LARGE = """\
import numpy as np
import keras
from keras import layers

x = np.lib.format.open_memmap("x.npy", "w+", "float32", (1000, 256, 256, 3))
rng = np.random.default_rng(0)
for at in range(0, 1000, 100):
    x[at : at + 100] = rng.random((100, 256, 256, 3), dtype="float32")
x.flush()
del x
y = rng.integers(0, 2, 1000)


class Batches(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.x = np.load("x.npy", mmap_mode="r")

    def __len__(self):
        return 8

    def __getitem__(self, index):
        rows = slice(128 * index, min(1000, 128 * (index + 1)))
        return np.asarray(self.x[rows]), y[rows]


model = keras.Sequential([
    keras.Input((256, 256, 3)),
    layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(2),
    layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(2),
    layers.Flatten(), layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
history = model.fit(Batches(), epochs=1, shuffle=False, verbose=2)
print("trained", int(model.optimizer.iterations), history.epoch)
"""


@pytest.mark.nightly
def test_a_real_kill(tmp_path: Path, package: Path, in_cgroup: Path) -> None:
    """S0a by Keras in 2 GiB: killed, started again, trained."""
    (tmp_path / "p.py").write_text(LARGE)
    done = subprocess.run(
        [in_cgroup, "2GiB", "--report", "report", "--", sys.executable, "-m", "plimsoll",
         "--engine", "keras", "--restart", "3", "p.py"],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(package), "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    print(done.stdout, done.stderr, (tmp_path / "report").read_text())
    assert done.returncode == 0, done.stderr
    assert "128 samples at a time of a batch of 128; it is started again (1 of 3)" in done.stderr
    assert "trained 8 [0]" in done.stdout
