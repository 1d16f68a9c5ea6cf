"""Checkpoints: a run that was killed or stopped goes on, bit for bit, as if it had not been."""

import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_disk import small_disk

USAGE, DATA, IO, INTERRUPTED = 2, 5, 6, 7
KILLS = int(os.environ.get("PLIMSOLL_KILLS", "30"))


def layer(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


class Training:
    """A small network with everything that a run carries: slots, moving statistics, dropout,
    shuffled data, a short last batch, metrics."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.checkpoints = folder / "checkpoints"
        layers = [
            layer("InputLayer", "in", batch_shape=[None, 20], dtype="float32"),
            layer("Dense", "hidden", units=64, activation="relu"),
            layer("BatchNormalization", "norm"),
            layer("Dropout", "drop", rate=0.3),
            layer("Dense", "out", units=5, activation="softmax"),
        ]
        config = {"name": "small", "layers": layers}
        (folder / "model.json").write_text(
            json.dumps({"class_name": "Sequential", "config": config})
        )
        rng = np.random.default_rng(4)
        np.save(folder / "x.npy", rng.normal(0, 1, (1000, 20)).astype("float32"))
        np.save(folder / "y.npy", rng.integers(0, 5, 1000).astype("int32"))

    def command(self, output: str, *more: Any, **changes: Any) -> list[str]:
        values: dict[str, Any] = {
            "data": self.folder / "x.npy", "labels": self.folder / "y.npy",
            "validation": self.folder / "x.npy", "validation-labels": self.folder / "y.npy",
            "batch": 48, "epochs": 12, "optimizer": "adam", "metrics": "accuracy",
            "loss": "sparse_categorical_crossentropy", "output": self.folder / output, **changes,
        }  # fmt: skip
        options = [word for key, value in values.items() for word in (f"--{key}", value)]
        words = [self.binary, "fit", self.folder / "model.json", *options, *more]
        return [str(word) for word in words]

    def run(self, *arguments: Any, **changes: Any) -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments, **changes)
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def bytes_of(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


@pytest.fixture
def training(plimsoll: Path, tmp_path: Path) -> Training:
    return Training(plimsoll, tmp_path)


def without_times(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


def test_killed_at_random_instants(training: Training) -> None:
    plain = training.run("plain.keras", log=training.folder / "plain.jsonl", seed=3)
    assert plain.returncode == 0, plain.stderr
    choose = random.Random(17)
    command = training.command(
        "killed.keras", "--resume", "--log-steps", checkpoint=training.checkpoints, seed=3,
        log=training.folder / "killed.jsonl", **{"checkpoint-every": "7steps"},
    )  # fmt: skip
    started = time.monotonic()
    assert training.run("timed.keras", seed=3).returncode == 0
    whole = time.monotonic() - started
    kills = 0
    while True:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        if kills == KILLS:
            _, messages = process.communicate(timeout=120)
            assert process.returncode == 0, messages
            break
        try:
            process.wait(choose.uniform(0, 1.2) * whole)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        _, messages = process.communicate()
        if process.returncode == 0:  # it came to its end: from the start again
            assert training.bytes_of("killed.keras") == training.bytes_of("plain.keras")
            for path in training.checkpoints.iterdir():
                path.unlink()
            (training.folder / "killed.keras").unlink()
        else:
            assert process.returncode == -signal.SIGKILL, messages
    assert training.bytes_of("killed.keras") == training.bytes_of("plain.keras")
    epochs = [line for line in without_times(training.folder / "killed.jsonl") if "epoch" in line]
    assert epochs == without_times(training.folder / "plain.jsonl")


def test_metrics_of_an_epoch_that_two_runs_share(training: Training) -> None:
    """The first run ends within an epoch and validates; the second one ends that epoch."""
    plain = training.run("plain.keras", log=training.folder / "plain.jsonl", epochs=3)
    assert plain.returncode == 0, plain.stderr
    log, folder = training.folder / "log.jsonl", training.checkpoints
    first = training.run("first.keras", log=log, checkpoint=folder, steps=30, epochs=3)
    assert first.returncode == 0, first.stderr
    second = training.run("second.keras", "--resume", log=log, checkpoint=folder, epochs=3)
    assert second.returncode == 0, second.stderr
    assert without_times(log) == without_times(training.folder / "plain.jsonl")


def test_log_of_a_resumed_run_has_every_step_once(training: Training) -> None:
    log = training.folder / "log.jsonl"
    first = training.run(
        "a.keras", "--log-steps", log=log, steps=40, checkpoint=training.checkpoints
    )
    assert first.returncode == 0, first.stderr
    newest = sorted(training.checkpoints.iterdir())[-1]
    newest.unlink()  # the run goes on from an epoch's end before that
    second = training.run(
        "b.keras", "--log-steps", "--resume", log=log, steps=60, checkpoint=training.checkpoints
    )
    assert second.returncode == 0, second.stderr
    assert "continues bit for bit" in second.stderr
    steps = [line["step"] for line in without_times(log) if "step" in line]
    assert steps == list(range(1, 61))


def test_resumes_at_another_limit_with_the_same_bits(training: Training) -> None:
    assert training.run("plain.keras", steps=60).returncode == 0
    stopped = training.run("half.keras", steps=31, checkpoint=training.checkpoints)
    assert stopped.returncode == 0, stopped.stderr
    plan = subprocess.run(
        [training.binary, "plan", training.folder / "model.json", "--batch", "48", "--optimizer",
         "adam", "--loss", "sparse_categorical_crossentropy", "--metrics", "accuracy", "--json",
         "--data", training.folder / "x.npy", "--labels", training.folder / "y.npy"],
        capture_output=True, text=True,
    )  # fmt: skip
    smallest = json.loads(plan.stdout)["smallest_same_bits_bytes"] + 2**20
    resumed = training.run(
        "resumed.keras", "--resume", steps=60, checkpoint=training.checkpoints, memory=smallest
    )
    assert resumed.returncode == 0, resumed.stderr
    assert training.bytes_of("resumed.keras") == training.bytes_of("plain.keras")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_checkpoint(training: Training, number: signal.Signals) -> None:
    command = training.command(
        "stopped.keras", "--log-steps", epochs=100000, checkpoint=training.checkpoints,
        log=training.folder / "log.jsonl",
    )  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    log = training.folder / "log.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not log.exists() or log.stat().st_size < 1000):
        time.sleep(0.01)
    process.send_signal(number)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED, messages
    last = [line["step"] for line in without_times(log) if "step" in line][-1]
    resumed = training.run("r.keras", "--resume", steps=last + 5, checkpoint=training.checkpoints,
                           epochs=100000)  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    assert f"step {last}:" in resumed.stderr
    plain = training.run("p.keras", steps=last + 5, epochs=100000)
    assert plain.returncode == 0
    assert training.bytes_of("r.keras") == training.bytes_of("p.keras")


def test_a_damaged_checkpoint_is_passed_over(training: Training) -> None:
    made = training.run("a.keras", steps=50, checkpoint=training.checkpoints)
    assert made.returncode == 0, made.stderr
    files = sorted(training.checkpoints.iterdir())
    assert len(files) == 3
    content = bytearray(files[-1].read_bytes())
    content[len(content) // 2] ^= 1
    files[-1].write_bytes(content)
    files[-2].write_bytes(files[-2].read_bytes()[:-100])
    resumed = training.run("b.keras", "--resume", steps=60, checkpoint=training.checkpoints)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stderr.count("passed over") == 2 and files[0].name in resumed.stderr
    assert training.run("plain.keras", steps=60).returncode == 0
    assert training.bytes_of("b.keras") == training.bytes_of("plain.keras")


def test_what_makes_it_another_run_is_refused(training: Training) -> None:
    assert training.run("a.keras", steps=5, checkpoint=training.checkpoints).returncode == 0
    again = training.run("b.keras", steps=5, checkpoint=training.checkpoints)
    assert again.returncode == USAGE and "--resume" in again.stderr
    other = training.run("b.keras", "--resume", steps=9, checkpoint=training.checkpoints, batch=50)
    assert other.returncode == USAGE and "batch of 48, received 50" in other.stderr
    other = training.run(
        "b.keras", "--resume", steps=9, checkpoint=training.checkpoints, optimizer="sgd"
    )
    assert other.returncode == USAGE and "another run" in other.stderr
    other = training.run(
        "b.keras", "--resume", steps=9, checkpoint=training.checkpoints, precision="bf16"
    )
    assert other.returncode == USAGE and "--precision f32, received bf16" in other.stderr
    assert training.run("c.keras", "--resume", steps=5).returncode == USAGE
    wrong = training.run(
        "c.keras", checkpoint=training.folder / "c", **{"checkpoint-every": "5cows"}
    )
    assert wrong.returncode == USAGE and "5cows" in wrong.stderr


def test_another_backend_goes_on_and_says_so(training: Training) -> None:
    """Named are the backend and revision that wrote the checkpoint, and those that go on."""

    def notice(backend: str, epochs: int) -> str:
        resumed = training.run(
            "out.keras", "--resume", checkpoint=training.checkpoints, backend=backend, epochs=epochs
        )
        assert resumed.returncode == 0, resumed.stderr
        return next(line for line in resumed.stderr.splitlines() if "resumed from" in line)

    first = training.run("a.keras", checkpoint=training.checkpoints, backend="cpu", epochs=1)
    assert first.returncode == 0, first.stderr
    assert "bit for bit" in notice("cpu", 2) and "wrote it" not in notice("cpu", 2)
    assert re.search(
        r"backend cpu/r\d+ wrote it, reference goes on", crossed := notice("reference", 3)
    )
    assert "not bit for bit what an uninterrupted run gives" in crossed
    assert re.search(r"backend reference wrote it, cpu/r\d+ goes on", notice("cpu", 4))


def test_nothing_to_resume_starts_at_the_beginning(training: Training) -> None:
    fresh = training.run("a.keras", "--resume", steps=5, checkpoint=training.checkpoints)
    assert fresh.returncode == 0 and "starts from its beginning" in fresh.stderr


def test_a_full_disk_keeps_the_old_one_and_goes_on(training: Training) -> None:
    with small_disk(training.folder / "disk", "size=128k") as disk:
        run = training.run("a.keras", epochs=3, steps=70, checkpoint=disk / "c",
                           **{"checkpoint-every": "10steps"})  # fmt: skip
        assert run.returncode == 0 and (training.folder / "a.keras").exists()
        assert "the run goes on" in run.stderr
        assert "no checkpoint at step" in run.stderr
        names = [path.name for path in sorted((disk / "c").iterdir())]
        assert names and all(name.endswith(".ckpt") for name in names), names
        resumed = training.run("b.keras", "--resume", steps=70, checkpoint=disk / "c")
        assert "continues bit for bit" in resumed.stderr
