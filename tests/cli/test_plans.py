"""Plans that are saved and run, a second budget of time, and techniques switched off."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from normalized_network import write_normalized_network


@pytest.fixture
def job(tmp_path: Path) -> list[str]:
    return write_normalized_network(tmp_path, 48, 32)


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


def test_a_plan_replaces_nothing_but_a_plan(plimsoll: Path, job: list[str], tmp_path: Path) -> None:
    plan = [str(plimsoll), "plan", *job]
    for name in ("o.keras", "o.h5", "o.weights.h5", "o.json", "z.npy", "z.npz", "z.csv", "z.CSV"):
        for option in ("--output", "--html"):
            refused = run(*plan, option, str(tmp_path / name))
            assert refused.returncode == 2, (name, refused.stderr)
            assert option in refused.stderr and name in refused.stderr
            assert not (tmp_path / name).exists()
    other = tmp_path / "notes.txt"
    other.write_text("not to be lost")
    refused = run(*plan, "--output", str(other))
    assert refused.returncode == 2 and "is no plan" in refused.stderr
    assert other.read_text() == "not to be lost"
    (tmp_path / "small.plan").write_text("")
    for _ in range(2):
        done = run(*plan, "--output", str(tmp_path / "small.plan"))
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "small.plan").read_text().startswith("plan kernel_set=")


def test_what_trains_a_plan_has_no_output_of_plans(
    plimsoll: Path, job: list[str], tmp_path: Path
) -> None:
    words = [word for word in job if word != "--json"]
    told = run(str(plimsoll), "plan", *words, "--output", str(tmp_path / "a.plan"))
    assert told.returncode == 0, told.stderr
    assert "to train it" in told.stdout and "--output" not in told.stdout


def test_tables_and_pages_replace_no_model(plimsoll: Path, job: list[str], tmp_path: Path) -> None:
    model = tmp_path / "mine.keras"
    model.write_text("a model")
    for option in ("--log", "--csv-log", "--profile-output"):
        refused = run(str(plimsoll), "fit", *job, "--epochs", "1", option, str(model))
        assert refused.returncode == 2 and option in refused.stderr, refused.stderr
    log = tmp_path / "killed.log"
    log.write_text("Killed")
    for option in ("--html", "--json"):
        words = ["watch", option, str(model), "--", "true"]
        refused = run(str(plimsoll), *words)
        assert refused.returncode == 2 and option in refused.stderr, refused.stderr
    refused = run(str(plimsoll), "explain", str(log), "--html", str(model))
    assert refused.returncode == 2, refused.stderr
    assert model.read_text() == "a model"


def test_a_slowdown_buys_memory(plimsoll: Path, job: list[str]) -> None:
    free = answer(plimsoll, *job)
    points = free["frontier"]
    assert len(points) > 1
    fastest = points[-1]["seconds_per_step"]
    for point in points[::4]:  # each is searched for at full effort
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
    asked = "at most 1x the time of the plan without a limit"
    assert refused["answer"] == "fits" or asked in refused["reason"]
    wrong = run(str(plimsoll), "plan", *job, "--max-slowdown", "half")
    assert wrong.returncode == 2
    assert "--max-slowdown" in wrong.stderr


def test_a_refusal_names_limits_within_the_time_allowed(plimsoll: Path, job: list[str]) -> None:
    """Smaller blocks fit less here, but they take longer."""
    fit = [str(plimsoll), "fit", *job, "--epochs", "1", "--max-slowdown", "1.0x"]
    fit = [word for word in fit if word != "--json"]
    refused = run(*fit, "--memory", "1MiB").stderr
    lines = [line for line in refused.splitlines() if "--memory" in line and "fit" in line]
    limits = [line.split("--memory ")[1].split()[0] for line in lines]
    assert limits, refused
    for limit in limits:
        done = run(*fit, "--memory", limit)
        assert done.returncode == 0, done.stderr


def test_a_slowdown_is_against_a_plan_without_a_limit(plimsoll: Path, job: list[str]) -> None:
    words = [word for word in job if word != "--json"]
    told = run(str(plimsoll), "plan", *words, "--max-slowdown", "1.5x").stdout
    assert "within 1.5x the time of the plan without a limit" in told
    assert "free plan" not in told
    assert " without a limit" in run(str(plimsoll), "plan", *words).stdout.splitlines()[0]


def test_the_smallest_is_proved_or_found(plimsoll: Path, job: list[str]) -> None:
    free = answer(plimsoll, *job)
    proved = free["smallest_same_bits_bytes"] <= free["lower_bound_bytes"]
    assert proved or not free["smallest_is_proved"]
    words = [word for word in job if word != "--json"]
    told = run(str(plimsoll), "plan", *words).stdout
    (smallest,) = [line for line in told.splitlines() if "smallest, same result" in line]
    assert smallest.endswith("proved") == free["smallest_is_proved"]
    assert ("  found" in smallest) != free["smallest_is_proved"]


def test_bounds_are_of_one_kind(plimsoll: Path, job: list[str]) -> None:
    free = answer(plimsoll, *job)
    refused = answer(plimsoll, *job, "--memory", "1MiB")
    without = answer(plimsoll, *job, "--memory", "1MiB", "--no-spill")
    assert refused["answer"] == without["answer"] == "impossible"
    assert refused["lower_bound_bytes"] == without["lower_bound_bytes"] == free["lower_bound_bytes"]
    assert without["lower_bound_spill_bytes"] is None
    assert refused["lower_bound_spill_bytes"] <= free["lower_bound_bytes"]
    assert f"({refused['lower_bound_spill_bytes']} B)" in refused["reason"]
    assert "spill file" in refused["reason"]
    assert f"({without['lower_bound_bytes']} B)" in without["reason"]
    assert "spill file" not in without["reason"]


def test_a_wrong_size_names_its_option(plimsoll: Path, job: list[str]) -> None:
    for command, option in (("plan", "--memory"), ("plan", "--spill-limit"), ("fit", "--memory")):
        wrong = run(str(plimsoll), command, *job, option, "lots")
        assert wrong.returncode == 2, wrong.stderr
        assert f"{option}: expected" in wrong.stderr
        assert "size:" not in wrong.stderr


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


def test_why_tells_what_became_of_a_layers_values(plimsoll: Path, tmp_path: Path) -> None:
    job = write_normalized_network(tmp_path, 64, 64)
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


def test_every_remedy_holds_when_it_is_taken(plimsoll: Path, job: list[str]) -> None:
    job = [*job, "--plan-time", "0.1", "--backend", "reference"]
    free = answer(plimsoll, *job)
    assert free["ways_out"] == []
    limit = str(free["smallest_same_bits_bytes"] - 2**20)
    words = [*job, "--memory", limit, "--no-spill"]
    refused = run(str(plimsoll), "plan", *words)
    found = json.loads(refused.stdout)
    if found["answer"] == "fits":  # with smaller blocks
        assert found["block_set"] > 0
        words[words.index(limit)] = limit = str(found["smallest_feasible_bytes"] - 2**17)
        refused = run(str(plimsoll), "plan", *words)
        found = json.loads(refused.stdout)
    assert refused.returncode == 3
    ways = {way["change"]: way for way in found["ways_out"]}
    same = f"--memory {free['smallest_same_bits_bytes']}"
    assert ways[same]["effect"] == "the same bits"
    taken = 0
    for change in ways:
        if change.startswith(("--batch", "--optimizer")):
            option, value = change.split(" ", 1)
            taken += answer(plimsoll, *words, option, value.strip("'"))["answer"] == "fits"
        elif change.startswith("--memory"):
            larger = [*words[: words.index(limit)], change.split()[1], "--no-spill"]
            taken += answer(plimsoll, *larger)["answer"] == "fits"
        else:
            taken += 1
    assert taken == len(ways)
    for way in ways.values():
        assert way["seconds_per_step"] > 0
        if not way["change"].startswith("--memory"):
            assert way["smallest_bytes"] <= int(limit)
    text = run(str(plimsoll), "plan", *[w for w in words if w != "--json"]).stdout
    assert "remedies, the cheapest first" in text
    assert "raise the limit: the same result" in text


# The table and its gradient, or the table and two slots that are updated from what was read.
@pytest.mark.parametrize(
    ("optimizer", "tables"),
    [("sgd(clipnorm=1)", 2), ("sgd(global_clipnorm=1)", 2), ("adam(clipnorm=1)", 3)],
)
def test_a_norm_of_gradients_takes_no_table_of_its_own(
    plimsoll: Path, tmp_path: Path, optimizer: str, tables: int
) -> None:
    rows, columns = 100_000, 32
    layers = [
        {"class_name": "InputLayer", "config": {"batch_shape": [None, 8], "dtype": "int32"}},
        {"class_name": "Embedding", "config": {"input_dim": rows, "output_dim": columns}},
        {"class_name": "Flatten", "config": {}},
        {"class_name": "Dense", "config": {"units": 1}},
    ]
    for index, layer in enumerate(layers):
        layer["config"]["name"] = f"layer_{index}"
    model = {"class_name": "Sequential", "config": {"name": "tokens", "layers": layers}}
    (tmp_path / "model.json").write_text(json.dumps(model))
    words = [str(tmp_path / "model.json"), "--loss", "mse", "--batch", "16", "--json"]
    plan = answer(plimsoll, *words, "--optimizer", optimizer)
    assert plan["planned_arena_bytes"] < (tables + 0.2) * rows * columns * 4
