"""The same fit by command line and by C++: one run (src/plimsoll/run) gives equal bits to both."""

import ctypes
import json
import re
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

ROWS = 640


def layer(kind: str, **config: object) -> dict[str, object]:
    return {"class_name": kind, "config": config}


class Workplace:
    """A compiled model with data, and both faces to fit it with."""

    def __init__(self, plimsoll: Path, folder: Path) -> None:
        self.binary, self.tool = plimsoll, plimsoll.parent / "plimsoll_fit_tool"
        self.folder, self.model = folder, folder / "start.keras"
        layers = [
            layer("InputLayer", name="in", batch_shape=[None, 48, 48, 3], dtype="float32"),
            layer("Conv2D", name="c1", filters=16, kernel_size=[3, 3], activation="relu"),
            layer("BatchNormalization", name="n1"),
            layer("MaxPooling2D", name="p1"),
            layer("Flatten", name="f"),
            layer("Dropout", name="d", rate=0.25),
            layer("Dense", name="h", units=64, activation="relu"),
            layer("Dense", name="out", units=5, activation="softmax"),
        ]
        structure = {"class_name": "Sequential", "config": {"name": "m", "layers": layers}}
        (folder / "model.json").write_text(json.dumps(structure))
        rng = np.random.default_rng(4)
        np.save(folder / "x.npy", rng.normal(0, 1, (ROWS, 48, 48, 3)).astype("float32"))
        np.save(folder / "y.npy", rng.integers(0, 5, ROWS).astype("int32"))
        self.by_command("model.json", "start.keras", "--optimizer", "adam(learning_rate=0.01)",
                        "--loss", "sparse_categorical_crossentropy", "--metrics", "accuracy",
                        "--steps", 1)  # fmt: skip

    def by_command(self, model: str, output: str, *options: object, code: int = 0) -> str:
        words = [self.binary, "fit", self.folder / model, "--data", self.folder / "x.npy",
                 "--labels", self.folder / "y.npy", "--output", self.folder / output,
                 "--batch", 64, "--seed", 5, *options]  # fmt: skip
        return self.run(words, code)

    def by_library(self, output: str, *options: str, code: int = 0) -> str:
        words = [self.tool, self.model, f"data={self.folder / 'x.npy'}",
                 f"labels={self.folder / 'y.npy'}", f"output={self.folder / output}",
                 "batch=64", "seed=5", *options]  # fmt: skip
        return self.run(words, code)

    @staticmethod
    def run(words: list[object], code: int) -> str:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def weights(self, name: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}

        def take(path: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                found[path] = item[()].tobytes()

        with h5py.File(self.folder / name) as file:
            file.visititems(take)
        assert len(found) > 10  # the optimizer's too
        return found

    def smallest(self) -> int:
        done = self.run([self.binary, "plan", self.model, "--batch", 64, "--json"], 0)
        return int(json.loads(done)["smallest_same_bits_bytes"])


@pytest.fixture(scope="module")
def place(plimsoll: Path, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(plimsoll, tmp_path_factory.mktemp("faces"))


def options_of(name: str, place: Workplace) -> dict[str, str]:
    """Options that both faces take, by the names of the C++ one."""
    limit = str(place.smallest() + (4 << 20))
    return {
        "plain": {"epochs": "3"},
        "bf16": {"epochs": "2", "precision": "bf16"},
        "limit": {"epochs": "2", "memory": limit},
        "spill": {"epochs": "2", "memory": limit, "spill": "always"},
        "class weights": {"epochs": "2", "class_weights": "balanced", "shuffle": "block"},
        "threads": {"epochs": "2", "threads": "1", "plan_time": "0.5", "times": "none"},
        "callbacks": {
            "epochs": "12",
            "validation_split": "0.25",
            "monitor": "val_loss",
            "early_stopping": "patience=4",
            "reduce_on_plateau": "factor=0.5,patience=1",
        },
    }[name]


def as_command(options: dict[str, str]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        if name == "spill":
            words.append("--spill")
        elif value == "yes":
            words.append("--" + name.replace("_", "-"))
        else:
            words += ["--" + name.replace("_", "-"), value + ("B" if name == "memory" else "")]
    return words


@pytest.mark.parametrize(
    "name", ["plain", "bf16", "limit", "spill", "class weights", "threads", "callbacks"]
)
def test_both_faces_give_the_same_bits(name: str, place: Workplace) -> None:
    options = options_of(name, place)
    told = place.by_command("start.keras", "command.weights.h5", *as_command(options))
    place.by_library("library.weights.h5", *(f"{key}={value}" for key, value in options.items()))
    assert place.weights("command.weights.h5") == place.weights("library.weights.h5")
    if name == "callbacks":  # the case shows something: a rate was lowered, and it ended early
        assert "learning rate" in told and "epoch 12/12" not in told


def test_logs_are_the_same(place: Workplace) -> None:
    files = {"log": "steps.jsonl", "csv_log": "epochs.csv"}
    for face in ("command", "library"):
        options = {key: str(place.folder / f"{face}-{name}") for key, name in files.items()}
        options |= {"epochs": "2", "log_steps": "yes"}
        if face == "command":
            place.by_command("start.keras", "logged.weights.h5", *as_command(options))
        else:
            place.by_library("logged.weights.h5", *(f"{k}={v}" for k, v in options.items()))
    rows = []
    for face in ("command", "library"):
        lines = (place.folder / f"{face}-steps.jsonl").read_text().splitlines()
        rows.append([json.loads(line) for line in lines])
        for row in rows[-1]:
            row.pop("seconds", None)
    assert rows[0] == rows[1] and sum("step" in row for row in rows[0]) == 20
    heads = {(place.folder / f"{face}-epochs.csv").read_text().splitlines()[0]
             for face in ("command", "library")}  # fmt: skip
    assert len(heads) == 1


def test_what_one_face_began_the_other_goes_on_with(place: Workplace) -> None:
    """Killed in the middle of an epoch, resumed by either face: the bits of a run in one piece."""
    place.by_command("start.keras", "whole.weights.h5", "--epochs", 3)
    for face in ("command", "library"):
        folder = place.folder / f"checkpoints-{face}"
        options = {"epochs": "3", "checkpoint": str(folder), "checkpoint_every": "2steps"}
        words = [f"{key}={value}" for key, value in options.items()]
        place.by_library("killed.weights.h5", *words, "kill_at=15", code=-signal.SIGKILL)
        assert not (place.folder / "killed.weights.h5").exists()
        options["resume"] = "yes"
        if face == "command":
            place.by_command("start.keras", "resumed.weights.h5", *as_command(options))
        else:
            place.by_library("resumed.weights.h5", *words, "resume=yes")
        assert place.weights("resumed.weights.h5") == place.weights("whole.weights.h5")


def test_a_stopped_run_is_resumed(place: Workplace) -> None:
    place.by_command("start.keras", "whole.weights.h5", "--epochs", 3)
    words = ["epochs=3", f"checkpoint={place.folder / 'stopped'}"]
    told = place.by_library("stopped.weights.h5", *words, "stop_at=13")
    assert "13 steps, interrupted" in told
    place.by_library("resumed.weights.h5", *words, "resume=yes")
    assert place.weights("resumed.weights.h5") == place.weights("whole.weights.h5")


def test_a_limit_lowered_under_the_run(place: Workplace) -> None:
    """By a call in C++, by a signal on the command line."""
    limit = place.smallest() + (6 << 20)
    place.by_command("start.keras", "whole.weights.h5", "--epochs", 3)
    told = place.by_library("lowered.weights.h5", "epochs=3", "lower_at=5", f"lower_to={limit}")
    assert re.search(r"the limit is now [\d.]+ MiB: planned anew at step 5", told), told
    assert place.weights("lowered.weights.h5") == place.weights("whole.weights.h5")

    log = place.folder / "lowered.jsonl"
    process = subprocess.Popen(
        [str(word) for word in [
            place.binary, "fit", place.model, "--data", place.folder / "x.npy", "--labels",
            place.folder / "y.npy", "--output", place.folder / "signal.weights.h5", "--batch", 64,
            "--seed", 5, "--epochs", 40, "--log", log, "--log-steps"]],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and '"step"' in log.read_text()):
        time.sleep(0.01)
    libc = ctypes.CDLL(None)
    assert libc.sigqueue(process.pid, signal.SIGUSR1, ctypes.c_void_p(limit >> 20)) == 0
    told = process.communicate(timeout=120)[1]
    assert process.returncode == 0 and "planned anew at step" in told, told
    place.by_library("forty.weights.h5", "epochs=40")
    assert place.weights("signal.weights.h5") == place.weights("forty.weights.h5")
