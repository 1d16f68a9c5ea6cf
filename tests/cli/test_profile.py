"""`fit --profile`: where the time of a step goes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

STEPS = 6


def layer(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


@pytest.fixture
def job(plimsoll: Path, tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(3)
    np.save(tmp_path / "x.npy", rng.normal(size=(64, 12, 12, 1)).astype("float32"))
    np.save(tmp_path / "y.npy", rng.integers(0, 4, 64))
    layers = [
        layer("InputLayer", "image", batch_shape=[None, 12, 12, 1]),
        layer("Conv2D", "filters", filters=8, kernel_size=[3, 3], activation="relu"),
        layer("Flatten", "flat"),
        layer("Dense", "classes", units=4, activation="softmax"),
    ]
    model = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    (tmp_path / "model.json").write_text(json.dumps(model))
    return [
        str(plimsoll), "fit", str(tmp_path / "model.json"),
        "--data", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy"),
        "--optimizer", "adam", "--loss", "sparse_categorical_crossentropy",
        "--batch", "16", "--epochs", "9", "--steps", str(STEPS),
    ]  # fmt: skip


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_table_names_layers_and_what_was_waited_for(job: list[str]) -> None:
    done = run([*job, "--profile"])
    assert done.returncode == 0, done.stderr
    assert "waiting for data" in done.stderr
    rows = [line.split() for line in done.stderr.splitlines() if " % " in line]
    assert {"filters", "classes"} <= {row[0] for row in rows}
    assert any(row[-2:] == ["read", "image"] for row in rows)


def test_the_parts_are_no_more_than_the_whole(job: list[str], tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    done = run([*job, "--profile-output", str(path), "--json"])
    assert done.returncode == 0, done.stderr
    programs = {each["program"]: each for each in json.loads(path.read_text())["programs"]}
    train = programs["train"]
    assert train["runs"] == STEPS
    rows = train["rows"]
    parts = sum(row["seconds"] for row in rows)
    assert 0.2 * train["seconds"] < parts <= train["seconds"]
    assert {row["kind"] for row in rows} >= {"kernel", "data"}
    dense = next(row for row in rows if row["op"] == "dense")
    assert dense["layer"] == "classes"
    assert dense["flops"] >= STEPS * 2 * 16 * 10 * 10 * 8 * 4  # rows × width × units, twice
    assert all(row["calls"] >= STEPS for row in rows)


def test_the_trace_is_one_step_in_order(job: list[str], tmp_path: Path) -> None:
    path = tmp_path / "step.trace.json"
    done = run([*job, "--profile-output", str(path)])
    assert done.returncode == 0, done.stderr
    events = json.loads(path.read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"X"}
    for before, after in zip(events, events[1:], strict=False):
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-3
    assert {"filters", "classes"} <= {event["args"]["layer"] for event in events}


def test_measuring_changes_no_bit(job: list[str], tmp_path: Path) -> None:
    outputs = []
    for name, more in [("a.keras", ["--profile"]), ("b.keras", [])]:
        done = run([*job, *more, "--output", str(tmp_path / name)])
        assert done.returncode == 0, done.stderr
        outputs.append((tmp_path / name).read_bytes())
    assert outputs[0] == outputs[1]
