"""`plimsoll bench`: built-in workloads and models, programs, and the machine's limits."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# As Keras counts them, statistics included.
PARAMETERS = {
    "S0a": 32 * 28 + 64 * 289 + 62 * 62 * 64 + 1,
    "S0c": 20000 * 256 + 4 * 64 * (256 + 64 + 1) + 65,
    "S1b": 11 * 100 + 101 * 10,
    "S4L": 676_865,
    "S4s": 66_177,
    "ResNet50": 25_636_712,
    "MobileNetV2": 3_538_984,
}


def bench(plimsoll: Path, *words: Any) -> list[dict[str, Any]]:
    done = run(plimsoll, *words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def run(plimsoll: Path, *words: Any) -> subprocess.CompletedProcess[str]:
    command = [str(plimsoll), "bench", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_each_workload_is_a_line_of_its_own(plimsoll: Path) -> None:
    small, large = bench(plimsoll, "S1b", "S4s", "--steps", 20)
    assert [small["workload"], large["workload"]] == ["S1b", "S4s"]
    assert [small["batch"], large["batch"]] == [32, 1024]
    for line in (small, large):
        assert 0 < line["least_seconds_per_step"] <= line["seconds_per_step"] < 10
        assert line["steps"] == 18  # two to warm up
        assert line["measured_process_bytes"] <= line["predicted_process_bytes"]
    assert small["measured_process_bytes"] < large["measured_process_bytes"]


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_networks_are_those_of_keras(plimsoll: Path, name: str) -> None:
    (line,) = bench(plimsoll, name, "--program", "predict", "--batch", 1, "--steps", 1)
    assert line["parameters"] == PARAMETERS[name]


@pytest.mark.parametrize("program", ["train", "evaluate", "predict"])
def test_programs_take_a_limit(plimsoll: Path, program: str) -> None:
    (line,) = bench(plimsoll, "S1a", "--program", program, "--memory", "48MiB", "--steps", 4)
    assert line["program"] == program
    assert line["limit_bytes"] == 48 * 2**20
    assert line["measured_process_bytes"] <= line["limit_bytes"]


def test_a_model_of_the_users_on_data_of_the_users(plimsoll: Path, tmp_path: Path) -> None:
    layers = [
        {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 6]}},
        {"class_name": "Dense", "config": {"name": "out", "units": 3, "activation": "softmax"}},
    ]
    model = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    (tmp_path / "net.json").write_text(json.dumps(model))
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", rng.random((40, 6)))
    np.save(tmp_path / "y.npy", rng.integers(0, 3, 40))
    words = [tmp_path / "net.json", "--optimizer", "sgd", "--batch", 16, "--steps", 5]
    words += ["--loss", "sparse_categorical_crossentropy"]
    (random,) = bench(plimsoll, *words)
    files = ["--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy"]
    (named,) = bench(plimsoll, *words, *files)
    assert random["workload"] == named["workload"] == "net.json"
    assert random["parameters"] == named["parameters"] == 21
    np.save(tmp_path / "y.npy", np.full(40, 3))
    refused = run(plimsoll, *words, *files)  # so the file is what was read
    assert refused.returncode == 5 and "y.npy" in refused.stderr


def test_the_roofline_names_what_is_slow(plimsoll: Path) -> None:
    (line,) = bench(plimsoll, "S4s", "--steps", 10, "--roofline")
    machine = line["profile"]["machine"]
    assert 1e8 < machine["flops_per_second"] < 1e15
    assert 1e8 < machine["bytes_per_second"] < 1e13
    train = next(p for p in line["profile"]["programs"] if p["program"] == "train")
    assert train["runs"] == line["steps"] == 8  # without the two that the times leave out
    assert sum(row["share"] for row in train["rows"]) <= 1
    rows = [row for row in train["rows"] if row["op"] == "dense" and row["flops"] > 0]
    assert rows
    for row in rows:
        least = row["flops"] / machine["flops_per_second"]
        memory = row["bytes"] / machine["bytes_per_second"]
        assert row["limit_seconds"] == pytest.approx(max(least, memory))
        assert row["inputs"][0]["shape"][0] == line["batch"]
        assert row["outputs"][0]["shape"][-1] == row["attributes"]["units"]
    assert any(row["limit_seconds"] is None for row in train["rows"] if row["kind"] == "data")
    (line,) = bench(plimsoll, "S4s", "--program", "evaluate", "--steps", 3, "--roofline")
    passes = next(p for p in line["profile"]["programs"] if p["program"] == "evaluate")
    assert passes["runs"] == 5 * 3  # without the first of six passes
    (line,) = bench(plimsoll, "S4s", "--steps", 10, "--roofline", "--precision", "bf16")
    machine = line["profile"]["machine"]
    rate = machine["bf16_flops_per_second"] or machine["flops_per_second"]
    train = next(p for p in line["profile"]["programs"] if p["program"] == "train")
    rows = [row for row in train["rows"] if row["bf16"] and row["op"] == "dense"]
    assert rows
    for row in rows:
        memory = row["bytes"] / machine["bytes_per_second"]
        assert row["limit_seconds"] == pytest.approx(max(row["flops"] / rate, memory))
    text = run(plimsoll, "S4s", "--steps", 10, "--roofline").stdout
    assert "GFLOP/s" in text and "of limit" in text and "\nnext: " in text


def test_coverage_has_every_operator_that_ran(plimsoll: Path) -> None:
    """Also of two networks, each a table of its own."""
    words = ["S1b", "S4s", "--steps", 6, "--coverage"]
    for line in bench(plimsoll, *words, "--roofline"):
        train = next(p for p in line["profile"]["programs"] if p["program"] == "train")
        ran: dict[str, float] = {}
        calls: dict[str, float] = {}
        for row in train["rows"]:
            name = row["op"] or row["kind"]
            ran[name] = ran.get(name, 0.0) + row["seconds"] / train["runs"]
            calls[name] = calls.get(name, 0.0) + row["calls"] / train["runs"]
        table = {row["operator"]: row for row in line["coverage"]["operators"]}
        assert set(table) == set(ran) and {"dense", "adam", "data"} <= set(ran)
        for name, row in table.items():
            assert row["seconds_per_step"] == pytest.approx(ran[name])
            assert row["calls_per_step"] == pytest.approx(calls[name])
        shares = [row["share"] for row in line["coverage"]["operators"]]
        assert shares == sorted(shares, reverse=True) and sum(shares) <= 1
        assert line["coverage"]["machine"] == line["profile"]["machine"]
    text = run(plimsoll, *words).stdout
    assert text.count("bound by") == 2 and text.count("of their limits") >= 2
    for name in table:
        assert f"\n{name} " in text


def test_no_room_for_memory_beside_a_limit(plimsoll: Path) -> None:
    """The bandwidth needs more than a limit of 40 MiB leaves: it is left out, and said."""
    done = run(plimsoll, "S1b", "--steps", 10, "--roofline", "--memory", "40MiB")
    assert done.returncode == 0, done.stderr
    assert "memory not measured" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["S1x"], 'Did you mean "S1a"?'),
        (["S1b", "--program", "predct"], 'Did you mean "predict"?'),
        (["S1b", "--precision", "bf8"], "--precision"),
        (["S1b", "--precision", "f16"], "bf16 is as small"),
        (["S1b", "--memory", "1MiB"], "can need less than"),
    ],
)
def test_refusals(plimsoll: Path, words: list[str], says: str) -> None:
    done = run(plimsoll, *words)
    assert done.returncode in (2, 3)
    assert says in done.stderr


def test_one_that_fails_does_not_stop_the_others(plimsoll: Path) -> None:
    done = run(plimsoll, "S4L", "S1b", "--memory", "28MiB", "--steps", 5, "--json")
    assert done.returncode == 3
    assert [json.loads(line)["workload"] for line in done.stdout.splitlines()] == ["S1b"]


def test_the_list_is_what_can_be_named(plimsoll: Path) -> None:
    names = run(plimsoll, "--list").stdout.split()
    assert set(PARAMETERS) <= set(names) and len(names) == 16
