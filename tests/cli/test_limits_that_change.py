"""A limit that changes under a run: it plans anew between two steps, with the same bits."""

import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_disk import small_disk

MIB = 2**20


class Workplace:
    """Convolutions whose free plan takes tens of MiB more than the smallest one."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder, self.log = binary, folder, folder / "log.jsonl"
        layers = [
            ("InputLayer", {"name": "in", "batch_shape": [None, 48, 48, 3], "dtype": "float32"}),
            ("Conv2D", {"name": "c1", "filters": 16, "kernel_size": [3, 3]}),
            ("BatchNormalization", {"name": "n1"}),
            ("Activation", {"name": "a1", "activation": "relu"}),
            ("MaxPooling2D", {"name": "p1"}),
            ("Flatten", {"name": "f"}),
            ("Dropout", {"name": "d", "rate": 0.25}),
            ("Dense", {"name": "out", "units": 5, "activation": "softmax"}),
        ]
        model = {
            "class_name": "Sequential",
            "config": {
                "name": "m",
                "layers": [{"class_name": kind, "config": config} for kind, config in layers],
            },
        }
        (folder / "model.json").write_text(json.dumps(model))
        rng = np.random.default_rng(4)
        np.save(folder / "x.npy", rng.normal(0, 1, (600, 48, 48, 3)).astype("float32"))
        np.save(folder / "y.npy", rng.integers(0, 5, 600).astype("int32"))

    def command(self, verb: str, *more: object) -> list[str]:
        words = [
            self.binary, verb, self.folder / "model.json", "--batch", 64, "--optimizer", "adam",
            "--loss", "sparse_categorical_crossentropy", "--metrics", "accuracy", "--json",
            "--data", self.folder / "x.npy", "--labels", self.folder / "y.npy", *more,
        ]  # fmt: skip
        return [str(word) for word in words]

    def fit(self, name: str, *more: object, epochs: int = 8) -> list[str]:
        words = ["--epochs", epochs, "--seed", 3, "--log", self.log, "--log-steps"]
        return self.command("fit", *words, "--output", self.folder / f"{name}.h5", *more)

    def wait_for_steps(self, process: subprocess.Popen[str], count: int) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            if self.log.exists() and self.log.read_text().count('"step"') >= count:
                return
            time.sleep(0.01)
        raise AssertionError(f"no {count} steps: {process.communicate()}")


@pytest.fixture(scope="module")
def made(plimsoll: Path, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(plimsoll, tmp_path_factory.mktemp("limits"))
    done = subprocess.run(place.fit("plain"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.copy(place.log, place.folder / "plain.jsonl")
    return place


@pytest.fixture
def place(made: Workplace) -> Workplace:
    made.log.unlink(missing_ok=True)
    return made


def planned(place: Workplace, key: str) -> int:
    answer = subprocess.run(place.command("plan"), capture_output=True, text=True)
    return json.loads(answer.stdout)[key]


def losses(path: Path) -> list[tuple[int, float]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [(line["step"], line["loss"]) for line in lines if "step" in line]


def expect_the_same(place: Workplace, name: str) -> None:
    same = (place.folder / f"{name}.h5").read_bytes() == (place.folder / "plain.h5").read_bytes()
    assert same, "other bits"
    assert losses(place.log) == losses(place.folder / "plain.jsonl")


def send_limit(pid: int, mib: int) -> None:
    """SIGUSR1 with a value, as `kill -USR1 -q MIB PID` sends it."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.sigqueue(pid, signal.SIGUSR1, ctypes.c_void_p(mib)) == 0, ctypes.get_errno()


def test_a_signal_brings_a_new_limit(place: Workplace) -> None:
    low = planned(place, "smallest_same_bits_bytes") // MIB + 2
    process = subprocess.Popen(
        place.fit("signalled"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    place.wait_for_steps(process, 5)
    send_limit(process.pid, low)
    output, messages = process.communicate(timeout=120)
    assert process.returncode == 0, messages
    assert f"the limit is now {low}.0 MiB: planned anew at step" in messages.replace(
        f"{low} MiB", f"{low}.0 MiB"
    )
    expect_the_same(place, "signalled")
    summary = json.loads(output)
    assert summary["limit_bytes"] == low * MIB
    assert summary["predicted_process_bytes"] <= low * MIB


def test_a_limit_that_is_too_low_is_said_and_nothing_is_lost(place: Workplace) -> None:
    process = subprocess.Popen(
        place.fit("low"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    place.wait_for_steps(process, 5)
    send_limit(process.pid, 3)
    _, messages = process.communicate(timeout=120)
    assert process.returncode == 0, messages
    assert "not enough, the run goes on as planned before" in messages
    expect_the_same(place, "low")


def test_a_group_whose_limit_falls(place: Workplace, in_cgroup: Path) -> None:
    """To below what was planned and above what is used: below that the kernel kills."""
    report = place.folder / "group.json"
    process = subprocess.Popen(
        [in_cgroup, "1024MiB", "--report", report, "--", *place.fit("grouped", epochs=30)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    place.wait_for_steps(process, 5)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGSTOP)  # on a busy machine it would be done before the answer
    low = planned(place, "predicted_process_bytes") - 64 * 1024
    limit_file = group_limit_of(int(child))
    limit_file.write_text(str(low))
    os.kill(int(child), signal.SIGCONT)
    output, messages = process.communicate(timeout=120)
    assert process.returncode == 0, messages
    assert re.search(r"the limit is now .* MiB: planned anew at step \d+", messages), messages
    assert json.loads(output)["predicted_process_bytes"] <= low
    assert losses(place.log)[:80] == losses(place.folder / "plain.jsonl")
    assert json.loads(report.read_text())["oom_kills"] == 0


def test_auto_takes_what_others_leave(place: Workplace, in_cgroup: Path) -> None:
    free = planned(place, "predicted_process_bytes")
    hold = f"import time; a = b'x' * (90 * {MIB}); print('held', flush=True); time.sleep(60)"
    words = " ".join(map(shlex.quote, place.fit("auto", "--memory", "auto", epochs=1)))
    script = f"""
python3 -c {shlex.quote(hold)} > {place.folder}/held & other=$!
until grep -q held {place.folder}/held; do sleep 0.05; done
{words}; code=$?
kill $other; wait $other; exit $code"""
    size = f"{free // MIB + 88}MiB"
    command = [in_cgroup, size, "--", "bash", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    left = (free // MIB + 88 - 90) * MIB
    assert left - 24 * MIB < summary["limit_bytes"] < left
    assert summary["predicted_process_bytes"] <= summary["limit_bytes"] < free
    assert losses(place.log) == losses(place.folder / "plain.jsonl")[:10]


def group_limit_of(pid: int) -> Path:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path(f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")
        if controllers == "":
            unified = Path(f"/sys/fs/cgroup{path}/memory.max")
            if unified.exists():
                return unified
    raise AssertionError(f"process {pid} is in no memory group")


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "read_only", "ro,size=1m") as folder:
        yield folder


@pytest.mark.parametrize("option", ["--output", "--checkpoint", "--log", "--tensorboard"])
def test_a_read_only_folder_is_named(place: Workplace, read_only: Path, option: str) -> None:
    target = {"--output": read_only / "m.h5", "--log": read_only / "log.jsonl"}
    words = place.command("fit", "--steps", 2, option, target.get(option, read_only / "folder"))
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 6, done.stderr
    assert str(read_only) in done.stderr and "Read-only file system" in done.stderr
