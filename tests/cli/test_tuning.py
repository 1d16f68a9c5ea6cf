"""Rates of this machine and `--tune`'s times of its kernels: kept for later plans, they choose
among those that fit and never change a result."""

import json
import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from normalized_network import write_normalized_network


class Job:
    """A network that takes more time within less memory, and a cache folder of its own."""

    def __init__(self, plimsoll: Path, folder: Path) -> None:
        self.plimsoll = plimsoll
        self.cache = folder / "cache"
        self.arguments = [*write_normalized_network(folder, 32, 16), "--plan-time", "0.5"]

    def run(self, verb: str, *more: object) -> subprocess.CompletedProcess[str]:
        command = [str(self.plimsoll), verb, *self.arguments, *map(str, more)]
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        return done

    def plan(self, *more: object) -> dict[str, Any]:
        return json.loads(self.run("plan", *more).stdout)

    def fit(self, *more: object) -> dict[str, Any]:
        return json.loads(self.run("fit", "--epochs", 2, "--no-shuffle", *more).stdout)

    def file(self) -> Path:
        (path,) = (self.cache / "plimsoll").glob("times-*.txt")
        return path


@pytest.fixture
def untried(plimsoll: Path, tmp_path: Path) -> Job:
    """On a machine where nothing was measured."""
    return Job(plimsoll, tmp_path)


@pytest.fixture(scope="module")
def rated(plimsoll: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the machine's rates, measured once for all that begin with them."""
    job = Job(plimsoll, tmp_path_factory.mktemp("rated"))
    job.plan()
    return job.cache


@pytest.fixture
def job(untried: Job, rated: Path) -> Job:
    shutil.copytree(rated, untried.cache)
    return untried


SMALL = 48 << 20  # enough for the network, not for measuring beside it


def limits(planned: dict[str, Any]) -> list[Any]:
    return [value for key, value in planned.items()
            if key.startswith(("smallest_", "lower_bound"))]  # fmt: skip


def middle_of(free: dict[str, Any]) -> int:
    return (free["free_plan_bytes"] + free["smallest_same_bits_bytes"]) // 2


def scramble(path: Path) -> None:
    """Other times for every call, so that other plans are the fastest."""
    lines = path.read_text().splitlines()
    for i, line in enumerate(lines):
        words = line.split()
        if words[0] in ("call", "factor"):
            factor = (1, 30, 0.05, 4)[int(words[1], 16) % 4]
            lines[i] = f"{words[0]} {words[1]} {float(words[2]) * factor:.9g}"
    path.write_text("\n".join(lines) + "\n")


def test_later_plans_go_by_the_times_that_were_measured(job: Job, tmp_path: Path) -> None:
    before = job.plan("--times", "none")
    assert before["times"] == "of the model"
    tuned = job.plan("--tune")
    assert tuned["times"].startswith("measured here on 20")
    assert limits(tuned) == limits(before)
    assert tuned["seconds_per_step"] != before["seconds_per_step"]
    texts = []
    for name in ("second.txt", "third.txt"):
        again = job.run("plan", "--output", tmp_path / name)
        texts.append((again.stdout, (tmp_path / name).read_bytes()))
        assert json.loads(again.stdout)["times"] == tuned["times"]
        assert json.loads(again.stdout)["seconds_per_step"] == tuned["seconds_per_step"]
    assert texts[0] == texts[1]
    assert job.plan("--times", "none") == before
    kept = job.file().read_bytes()
    # Another machine, as far as times go.
    assert job.plan("--threads", 1, "--memory", SMALL)["times"].startswith("of the model")
    assert job.file().read_bytes() == kept


def test_the_first_plan_measures_the_machines_rates(untried: Job) -> None:
    job = untried
    model = job.plan("--times", "none")
    first = job.run("plan")
    planned = json.loads(first.stdout)
    assert planned["times"].startswith("rates measured here on 20")
    assert limits(planned) == limits(model)
    kept = job.file().read_text()
    rates = [float(line.split()[2]) for line in kept.splitlines() if line.startswith("rate ")]
    assert len(rates) > 30
    assert all(4 * math.log2(rate) == pytest.approx(round(4 * math.log2(rate))) for rate in rates)
    assert job.run("plan").stdout == first.stdout
    assert job.file().read_text() == kept
    tuned = job.plan("--tune")
    assert tuned["times"].startswith("measured here on 20")
    assert [line for line in kept.splitlines() if line.startswith("rate")] == [
        line for line in job.file().read_text().splitlines() if line.startswith("rate")
    ]


def test_rates_change_neither_the_prediction_nor_the_peak(
    plimsoll: Path, rated: Path, tmp_path: Path
) -> None:
    """They are read when the data are open, where a backend is made anyway: one made before would
    move the peak of opening, which the prediction has."""
    words = ["".join("abcdefghij"[i // 10**d % 10] for d in range(4)) * 15 for i in range(2000)]
    rows = [",".join([words[(r * 13 + c * 7) % 2000] for c in range(12)]) for r in range(2000)]
    (tmp_path / "d.csv").write_text("\n".join(rows) + "\n")
    np.save(tmp_path / "y.npy", np.zeros((2000, 1), "float32"))
    layers = [{"class_name": "InputLayer", "config": {"batch_shape": [None, 12], "name": "x"}},
              {"class_name": "Dense", "config": {"units": 1, "name": "y"}}]  # fmt: skip
    model = {"class_name": "Sequential", "config": {"name": "m", "layers": layers}}
    (tmp_path / "m.json").write_text(json.dumps(model))
    command = [plimsoll, "fit", tmp_path / "m.json", "--data", tmp_path / "d.csv", "--labels",
               tmp_path / "y.npy", "--categories", "index", "--batch", "64", "--steps", "3",
               "--optimizer", "sgd", "--loss", "mse", "--json"]  # fmt: skip
    runs = []
    for times in (rated / "plimsoll", "none"):
        done = subprocess.run([*command, "--times", times], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        runs.append(json.loads(done.stdout))
    assert runs[0]["predicted_process_bytes"] == runs[1]["predicted_process_bytes"]
    assert abs(runs[0]["measured_process_bytes"] - runs[1]["measured_process_bytes"]) < 2 << 20


def test_where_rates_cannot_be_measured_the_plan_says_why(untried: Job) -> None:
    job = untried
    model = job.plan("--memory", SMALL, "--times", "none")
    little = job.plan("--memory", SMALL)
    assert little.pop("times") == "of the model: the limit has no room to measure rates"
    assert little == {key: value for key, value in model.items() if key != "times"}
    assert not list(job.cache.glob("plimsoll/*"))
    shutil.rmtree(job.cache, ignore_errors=True)
    job.cache.write_text("a file in the place of the folder")
    where = "of the model: the folder for measured rates cannot be written"
    assert job.plan()["times"] == where


def test_times_never_change_a_result(job: Job, tmp_path: Path) -> None:
    limit = middle_of(job.plan("--times", "none"))
    job.plan("--tune")
    results = []
    plans = []
    for name in ("model", "measured", "scrambled"):
        if name == "scrambled":
            scramble(job.file())
        times = ["--times", "none"] if name == "model" else []
        text = tmp_path / f"{name}.txt"
        job.run("plan", "--memory", limit, "--output", text, *times)
        plans.append(text.read_text())
        weights = tmp_path / name / "weights.h5"
        weights.parent.mkdir()
        done = job.fit("--memory", limit, "--output", weights, *times)
        results.append((done["loss"], weights.read_bytes()))
    assert results[0] == results[1] == results[2]
    assert plans[0] != plans[2]


def test_the_limit_holds_while_kernels_are_timed(job: Job) -> None:
    limit = job.plan("--times", "none")["smallest_same_bits_bytes"]
    done = job.fit("--memory", limit, "--tune", "--no-spill")
    assert done["measured_process_bytes"] <= done["predicted_process_bytes"] <= limit
    assert "call " in job.file().read_text()


def test_a_run_goes_on_by_other_times(job: Job, tmp_path: Path) -> None:
    limit = middle_of(job.plan("--times", "none"))
    job.plan("--tune")
    whole = job.fit("--memory", limit)
    kept = ["--memory", limit, "--checkpoint", tmp_path / "kept"]
    job.fit(*kept, "--steps", 3, "--checkpoint-every", "1steps", "--times", "none")
    scramble(job.file())
    assert job.fit(*kept, "--resume")["loss"] == whole["loss"]


@pytest.mark.parametrize("content", ["", "plimsoll-times 1\n", "\0" * 100, "x" * (3 << 20)])
def test_a_damaged_file_is_told_of_and_not_used(job: Job, content: str) -> None:
    before = job.plan("--times", "none")
    job.plan("--tune")
    job.file().write_text(content)
    done = job.run("plan")
    assert json.loads(done.stdout) == before
    assert "warning: measured times: " in done.stderr
    assert "--tune" in done.stderr


def test_where_nothing_can_be_kept_the_plan_goes_by_what_was_measured(untried: Job) -> None:
    job = untried
    job.cache.write_text("a file in the place of the folder")
    done = job.run("plan", "--tune")
    assert json.loads(done.stdout)["times"].startswith("measured here")
    assert "warning: measured times: they are not kept" in done.stderr


def test_a_profile_says_what_was_estimated(job: Job, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    job.arguments += ["--batch", "72"]
    # Which plan is the fastest depends on the times, so the run is given one that has phases.
    smallest = job.plan("--times", "none")["smallest_feasible_bytes"]
    plan = ["--plan", tmp_path / "plan.txt"]
    job.run("plan", "--memory", smallest, "--times", "none", "--output", plan[1])
    limit = smallest + (5 << 19)  # what a profile holds besides
    job.plan("--tune")
    done = job.fit("--memory", limit, *plan, "--profile-output", path)
    assert done["estimated_seconds_per_step"] > 0
    programs = {each["program"]: each for each in json.loads(path.read_text())["programs"]}
    train = programs["train"]
    runs = train["runs"]
    estimated = sum(row["estimated_seconds"] for row in train["rows"])
    assert estimated == pytest.approx(train["estimated_seconds"])
    assert estimated / runs <= done["estimated_seconds_per_step"] * 1.001
    phases = train["phases"]
    assert sum(phase["estimated_seconds"] for phase in phases) == pytest.approx(estimated)
    assert sum(phase["seconds"] for phase in phases) <= train["seconds"]
    assert {None, 0} <= {each["phase"] for each in phases}
