"""Plans that are saved and run, a second budget of time, and techniques switched off."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def layer(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


@pytest.fixture
def job(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(3)
    np.save(tmp_path / "x.npy", rng.normal(size=(72, 48, 48, 3)).astype("float32"))
    np.save(tmp_path / "y.npy", rng.integers(0, 4, 72))
    layers = [layer("InputLayer", "image", batch_shape=[None, 48, 48, 3])]
    for i in range(3):
        filters = {"filters": 32, "kernel_size": [3, 3], "padding": "same", "use_bias": False}
        layers.append(layer("Conv2D", f"filters{i}", **filters))
        layers.append(layer("BatchNormalization", f"norm{i}"))
        layers.append(layer("ReLU", f"relu{i}"))
    layers.append(layer("GlobalAveragePooling2D", "mean"))
    layers.append(layer("Dense", "classes", units=4, activation="softmax"))
    model = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    (tmp_path / "model.json").write_text(json.dumps(model))
    return [
        str(tmp_path / "model.json"),
        "--data", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy"),
        "--optimizer", "adam", "--loss", "sparse_categorical_crossentropy", "--json",
    ]  # fmt: skip


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def answer(plimsoll: Path, *arguments: str) -> dict[str, Any]:
    return json.loads(run(str(plimsoll), "plan", *arguments).stdout)


def test_a_saved_plan_is_run_as_it_is(plimsoll: Path, job: list[str], tmp_path: Path) -> None:
    free = answer(plimsoll, *job)
    saved = str(tmp_path / "plan.txt")
    limit = str(free["smallest_same_bits_bytes"])
    small = answer(plimsoll, *job, "--memory", limit, "--output", saved)
    assert small["planned_arena_bytes"] < free["planned_arena_bytes"]
    fit = [str(plimsoll), "fit", *job, "--epochs", "1", "--no-shuffle"]
    own = run(*fit)
    done = run(*fit, "--plan", saved)
    assert done.returncode == 0, done.stderr
    result, expected = json.loads(done.stdout), json.loads(own.stdout)
    assert result["planned_arena_bytes"] == small["planned_arena_bytes"]
    assert result["loss"] == expected["loss"]
    assert expected["planned_arena_bytes"] == free["planned_arena_bytes"]


def test_a_plan_of_another_run_is_refused(plimsoll: Path, job: list[str], tmp_path: Path) -> None:
    saved = str(tmp_path / "plan.txt")
    answer(plimsoll, *job, "--output", saved)
    fit = [str(plimsoll), "fit", *job, "--epochs", "1", "--plan", saved]
    plain = ["sgd" if word == "adam" else word for word in fit]
    for other in ([*fit, "--batch", "16"], plain):
        refused = run(*other)
        assert refused.returncode == 2, refused.stderr
        assert "plan" in refused.stderr
    text = Path(saved).read_text()
    Path(saved).write_text(text.replace('kernel_set="', 'kernel_set="another-', 1))
    assert "for kernels" in run(*fit).stderr
    Path(saved).write_text(text)
    refused = run(*fit, "--memory", "16MiB")
    assert refused.returncode == 3
    assert "the saved plan needs" in refused.stderr


def test_a_slowdown_buys_memory(plimsoll: Path, job: list[str]) -> None:
    free = answer(plimsoll, *job)
    points = free["frontier"]
    assert len(points) > 1
    fastest = points[-1]["seconds_per_step"]
    for point in points:
        slowdown = point["seconds_per_step"] / fastest + 1e-6
        found = answer(plimsoll, *job, "--max-slowdown", f"{slowdown}x")
        assert found["answer"] == "fits"
        assert found["predicted_process_bytes"] <= point["process_bytes"]
        assert found["seconds_per_step"] <= slowdown * fastest
    smallest = str(points[0]["process_bytes"])
    assert answer(plimsoll, *job, "--memory", smallest)["answer"] == "fits"
    refused = answer(plimsoll, *job, "--memory", smallest, "--max-slowdown", "1.0x")
    # Smaller blocks may do, with other bits.
    assert refused["answer"] == "not_found" or refused["block_set"] > 0
    assert refused["answer"] == "fits" or "allowed time" in refused["reason"]
    wrong = run(str(plimsoll), "plan", *job, "--max-slowdown", "half")
    assert wrong.returncode == 2
    assert "--max-slowdown" in wrong.stderr


def test_techniques_can_be_done_without(plimsoll: Path, job: list[str]) -> None:
    free = answer(plimsoll, *job)
    plain = answer(plimsoll, *job, "--without", "slices,recompute,saved-forms")
    assert plain["smallest_same_bits_bytes"] > free["smallest_same_bits_bytes"]
    wrong = run(str(plimsoll), "plan", *job, "--without", "slicing")
    assert wrong.returncode == 2
    assert "slices" in wrong.stderr


def test_plain_plans_are_named_and_never_better(plimsoll: Path, job: list[str]) -> None:
    free = answer(plimsoll, *job)
    plain = {point["strategy"]: point for point in free["plain_plans"]}
    assert {"whole batch, all kept", "slices alone", "checkpoints"} <= set(plain)
    for point in plain.values():
        assert free["smallest_same_bits_bytes"] <= 1.02 * point["process_bytes"]


def test_why_tells_what_became_of_a_layers_values(plimsoll: Path, job: list[str]) -> None:
    free = answer(plimsoll, *job)
    assert "why" not in free
    limit = str(free["smallest_same_bits_bytes"])
    stories = [
        story
        for i in range(3)
        for story in answer(plimsoll, *job, "--memory", limit, "--why", f"filters{i}")["why"]
    ]
    assert any(s["saved_bytes"] > 0 and s["treatment"] != ["kept"] for s in stories)
    for story in stories:
        assert story["saved_bytes"] in (0, story["whole_bytes"] - story["peak_bytes"])
        assert story["treatment"]
        assert story["seconds"] >= 0
    words = [word for word in job if word != "--json"]
    text = run(str(plimsoll), "plan", *words, "--why", "filters1").stdout
    assert "value of filters1" in text
    wrong = run(str(plimsoll), "plan", *job, "--why", "filter1")
    assert wrong.returncode == 2
    assert 'Did you mean "filters1"?' in wrong.stderr
