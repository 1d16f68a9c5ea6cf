"""tools/bench: what it decides from figures, and a run of each kind that takes a second or two."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import charts  # noqa: E402
import tables  # noqa: E402
from goals import GOALS, Goal, goals_of  # noqa: E402
from processes import run  # noqa: E402
from training import compare_losses, ratio, summary, verdict  # noqa: E402

import bench  # noqa: E402


def answer(seconds: float, mib: float = 20.0) -> dict[str, Any]:
    return {"seconds": seconds, "peak_bytes": int(mib * 2**20), "losses": [1.0, 0.5]}


def row(goal: Goal, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    sides = [summary([side]) for side in (ours, theirs)]
    made = {
        "mode": "train", "workload": goal.workload, "precision": goal.precision,
        "limit": goal.limit, "plimsoll": sides[0], "peers": {"tensorflow": sides[1]},
        "ratios": {"tensorflow": ratio(*sides)}, "goal": {"speed": goal.speed, "mib": goal.mib},
    }  # fmt: skip
    made["verdict"] = verdict(goal, made)
    return made


def test_the_least_of_several_runs_counts() -> None:
    found = summary([answer(3.0, 10), answer(1.0, 30), answer(2.0, 20)])
    assert found["least_seconds"] == 1.0
    assert found["median_seconds"] == 2.0
    assert found["peak_bytes"] == 30 * 2**20


def test_a_goal_is_reached_only_by_all_of_its_parts() -> None:
    goal = Goal("S1a", speed=3.0, mib=44)
    assert row(goal, answer(1.0), answer(3.1))["verdict"] == "reached"
    assert row(goal, answer(1.0), answer(2.9))["verdict"] == "2.90 of 3 ×"
    assert row(goal, answer(1.0, 50), answer(3.1))["verdict"] == "50 of 44 MiB"
    refused = row(goal, {"refused": "no bf16"}, answer(1.0))
    assert refused["verdict"] == "refused" and refused["ratios"]["tensorflow"] is None


def test_losses_are_held_against_the_floor() -> None:
    assert compare_losses([1.0, 2.0, 3.0], [1.0, 2.0, 3.00003], 1e-5)["agree"]
    assert not compare_losses([1.0, 2.0, 3.0], [1.0, 2.0, 3.00005], 1e-5)["agree"]
    assert not compare_losses([float("nan")] * 3, [1.0] * 3, 1e-5)["agree"]
    assert compare_losses([1.0, 20.0009], [1.0, 20.0], 1e-7, alike=5e-5)["agree"]
    assert not compare_losses([1.0, 20.0012], [1.0, 20.0], 1e-7, alike=5e-5)["agree"]


def test_losses_that_differ_from_one_peer_are_named() -> None:
    made = row(Goal("S1a"), answer(1.0), answer(2.0))
    made["losses"] = {
        "tensorflow": compare_losses([1.0], [1.0], 1e-5),
        "pytorch": compare_losses([1.0], [1.1], 1e-5),
    }
    assert verdict(Goal("S1a"), made) == "losses differ from pytorch's"
    assert "agree: 0.0e+00; DIFFER: 1.0e-01 (floor 1.0e-05)" in tables.losses(made)


def test_every_precision_has_a_row() -> None:
    assert goals_of("S1b", None, ["f32", "bf16"]) == [
        Goal("S1b", speed=20.0, mib=28),
        Goal("S1b", "bf16"),
    ]
    assert [g.limit for g in goals_of("ResNet50", None, ["f32"])] == [None, "1GiB", "512MiB"]
    assert goals_of("S1b", "32MiB", ["f32"]) == [Goal("S1b", "f32", "32MiB")]
    assert len(set(GOALS)) == len(GOALS)


def test_tables_and_charts_show_what_was_refused() -> None:
    rows = [
        row(Goal("S1a", speed=3.0), answer(1.0), answer(4.0)),
        row(Goal("S1a", "bf16", speed=1.0), {"refused": "expected f32"}, answer(1.0)),
    ]
    table = tables.markdown("train", rows, ["tensorflow"])
    assert "4.00 ×" in table and "refused: expected f32" in table
    chart = charts.of_mode("train", rows, ["tensorflow"])["tensorflow"]
    drawn = "".join(xml.etree.ElementTree.fromstring(chart).itertext())
    assert "4.00 ×" in drawn and "refused" in drawn


def test_a_failed_workload_leaves_the_others_their_chart() -> None:
    whole = row(Goal("S1a"), answer(1.0), answer(4.0))
    failed = {"mode": "train", "workload": "S2", "verdict": "failed"}
    assert "S1a" in charts.of_mode("train", [whole, failed], ["tensorflow"])["tensorflow"]
    assert charts.of_mode("train", [failed], ["tensorflow"]) == {}
    assert "| S2 |" in tables.markdown("train", [whole, failed], ["tensorflow"])


def test_curves_hold_every_point() -> None:
    rows = [{"workload": "S4", "batch": 2**i, "seconds": 1e-3 * 2**i} for i in range(4)]
    chart = charts.of_mode("batch", rows, [])["batch"]
    tree = xml.etree.ElementTree.fromstring(chart)
    assert sum(1 for part in tree.iter() if part.tag.endswith("circle")) == 4


def test_a_process_is_measured_alone() -> None:
    """Its time and peak, not ours; what it says and how it ends."""
    ours = bytearray(200 << 20)
    done = run([sys.executable, "-c", "x = bytearray(50 << 20); print('{\"a\": 1}')"])
    assert done.result() == {"a": 1}
    assert 50 << 20 <= done.peak_bytes < len(ours)
    failed = run([sys.executable, "-c", "import sys; sys.exit('why')"])
    assert failed.exit_code == 1 and failed.errors == "why"


def test_results_that_differ_are_failures_and_missed_goals_are_not() -> None:
    rows = [
        {"mode": "train", "workload": "a", "verdict": "2.90 of 3 ×"},
        {"mode": "train", "workload": "b", "verdict": "losses differ"},
        {"mode": "ladder", "workload": "c", "verdict": "c at 5: exit 70"},
    ]
    assert [line[0] for line in bench.wrong_results(rows)] == ["b", "c"]


@pytest.mark.parametrize("words", [["S9"], ["--peers", "jax"], ["--mode", "fly"]])
def test_words_that_mean_nothing(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        bench.parse(words)


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("materials")


def tool(
    build_dir: pathlib.Path, place: pathlib.Path, materials: pathlib.Path, *words: str
) -> argparse.Namespace:
    dependencies = str(pathlib.Path(sys.prefix).parent)
    environment = {
        **os.environ, "PLIMSOLL_BUILD": str(build_dir), "PLIMSOLL_DEPS": dependencies,
    }  # fmt: skip
    command = [str(ROOT / "tools" / "bench"), *words, "--quick", "--output", str(place / "out")]
    command += ["--folder", str(materials)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    lines = [
        json.loads(line)
        for path in sorted((place / "out").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return argparse.Namespace(
        code=done.returncode, errors=done.stderr, text=done.stdout,
        about=[line["about"] for line in lines if "about" in line],
        rows=[line for line in lines if "about" not in line],
    )  # fmt: skip


def test_training_without_a_peer(
    build_dir: pathlib.Path, tmp_path: pathlib.Path, materials: pathlib.Path
) -> None:
    got = tool(
        build_dir, tmp_path, materials, "S1b", "--peers", "none", "--steps", "20", "--repeat", "2"
    )
    assert got.code == 0, got.errors
    f32, bf16 = got.rows
    assert len(f32["plimsoll"]["seconds"]) == 2
    assert f32["plimsoll"]["least_seconds"] == min(f32["plimsoll"]["seconds"])
    assert f32["plimsoll"]["peak_bytes"] > 2**20
    assert len(f32["plimsoll"]["losses"]) == 8
    assert f32["verdict"] == "not measured"  # a ratio to nobody
    # Bfloat16 is measured where the product has it, or says why not.
    assert "seconds" in bf16["plimsoll"] or "precision" in bf16["plimsoll"]["refused"]
    assert got.about[0]["limits"]["flops_per_second"] > 0
    assert (materials / "S1b" / "model.keras").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["train", "predict"])
def test_beside_tensorflow(
    mode: str, build_dir: pathlib.Path, tmp_path: pathlib.Path, materials: pathlib.Path
) -> None:
    got = tool(build_dir, tmp_path, materials, "S1b", "--mode", mode, "--precision", "f32")
    assert got.code == 0, got.errors
    for row in got.rows:
        assert row["ratios"]["tensorflow"] > 1
        if mode == "train":
            losses = row["losses"]["tensorflow"]
            assert losses["agree"] and losses["floor"] > 0
    assert list((tmp_path / "out").glob("*-tensorflow.svg"))


def test_times_against_batch_and_limit(
    build_dir: pathlib.Path, tmp_path: pathlib.Path, materials: pathlib.Path
) -> None:
    got = tool(
        build_dir,
        tmp_path,
        materials,
        "S1b",
        "--mode",
        "scaling",
        "--steps",
        "5",
        "--peers",
        "none",
    )
    assert got.code == 0, got.errors
    assert [r["batch"] for r in got.rows if r["mode"] == "batch"] == [1, 2, 4, 8, 16, 32]
    limits = [r for r in got.rows if r["mode"] == "limit"]
    assert len(limits) >= 2
    assert all(r["peak_bytes"] <= r["limit_bytes"] for r in limits)
    assert len(list((tmp_path / "out").glob("*.svg"))) == 2


def test_what_watching_costs(
    build_dir: pathlib.Path, tmp_path: pathlib.Path, materials: pathlib.Path
) -> None:
    words = ["S1b", "--mode", "watch", "--steps", "5", "--repeat", "1"]
    got = tool(build_dir, tmp_path, materials, *words)
    assert got.code == 0, got.errors
    (row,) = got.rows
    # One run of five steps says nothing of the cost: what is told of it has to be its quotient.
    assert row["ratio"] == pytest.approx(row["seconds"] / row["alone_seconds"])
    assert 1 << 20 < row["peak_bytes"] < 64 << 20
    assert 0 < row["alone_seconds"] < 10 and 0 < row["seconds"] < 10
    assert "of medians" in (next((tmp_path / "out").glob("*.md"))).read_text()


def test_blocks_are_held_against_other_extents(
    build_dir: pathlib.Path, tmp_path: pathlib.Path, materials: pathlib.Path
) -> None:
    got = tool(build_dir, tmp_path, materials, "S1b", "--mode", "kernels", "--peers", "none")
    assert got.code == 0, got.errors
    (row,) = got.rows
    nodes = row["nodes"]
    assert row["seconds"] == pytest.approx(sum(node["seconds"] for node in nodes))
    assert row["share"] == pytest.approx(row["seconds"] / row["best_seconds"]) and row["share"] >= 1
    dense = next(node for node in nodes if node["name"].startswith("dense "))
    assert {int(extent) for extent in dense["by_extent"]} >= {1, 2, 4, 8, 16, 32}
    assert dense["best_seconds"] <= dense["seconds"]
    lost = row["most_lost"]["seconds"] - row["most_lost"]["best_seconds"]
    assert lost == max(node["seconds"] - node["best_seconds"] for node in nodes)
    assert (row["most_lost"]["name"] if lost > 0 else "none") in got.text


@pytest.mark.slow
def test_live_models_beside_the_command_line(
    build_dir: pathlib.Path, tmp_path: pathlib.Path, materials: pathlib.Path
) -> None:
    words = ["S1b", "--mode", "live_speed", "--steps", "50"]
    got = tool(build_dir, tmp_path, materials, *words)
    assert got.code == 0, got.errors
    assert [row["what"] for row in got.rows] == ["fit, a step", "predict", "train_on_batch"]
    step = got.rows[0]
    assert 0 < step["line_seconds"] < step["keras_seconds"]
    assert all(0 < row["seconds"] < row["keras_seconds"] for row in got.rows)
    assert step["peak_bytes"] > 100 << 20 and step["keras_peak_bytes"] > 100 << 20


def test_ranks_beside_one_process(
    build_dir: pathlib.Path, tmp_path: pathlib.Path, materials: pathlib.Path
) -> None:
    if shutil.which("mpirun.openmpi") is None:
        pytest.skip("Open MPI's mpirun is not here")
    words = ["S1b", "--mode", "ranks", "--steps", "20", "--peers", "none"]
    got = tool(build_dir, tmp_path, materials, *words)
    assert got.code == 0, got.errors
    (row,) = got.rows
    assert row["ranks"] == 2 and row["seconds"] > 0
    assert row["waited_seconds"] > 0  # the mean of all steps, which other programs make longer
    assert row["of_threads"] == row["alone_seconds"] / row["seconds"]
    assert row["of_pytorch"] is None
    assert row["exchanged_bytes"] > 4 * 2110  # gradients of its weights, and what is counted


def test_a_network_free_and_at_limits(
    build_dir: pathlib.Path, tmp_path: pathlib.Path, materials: pathlib.Path
) -> None:
    words = ["LSTM-autoencoder", "--mode", "unseen", "--steps", "2", "--peers", "none"]
    got = tool(build_dir, tmp_path, materials, *words)
    assert got.code == 0, got.errors
    assert len(got.rows) == 3 and got.rows[0]["what"] == "free"
    assert all(row["verdict"] == "reached" for row in got.rows)
    assert all(row["peak_bytes"] <= row["limit_bytes"] for row in got.rows)
    assert got.rows[2]["limit_bytes"] <= got.rows[1]["limit_bytes"] < got.rows[0]["limit_bytes"]
    assert float(got.rows[0]["estimate"]) > 0


@pytest.mark.slow
def test_slow_operators_beside_tensorflow(
    build_dir: pathlib.Path, tmp_path: pathlib.Path, materials: pathlib.Path
) -> None:
    got = tool(
        build_dir, tmp_path, materials, "LSTM-autoencoder", "--mode", "operators", "--steps", "4"
    )
    assert got.code == 0, got.errors
    assert {row["mode"] for row in got.rows} == {"operators"}
    for row in got.rows:
        if "share" not in row:
            continue  # the only one: none is slow
        assert row["operator"] in got.text and 0 < row["share"] < 1
        assert row["seconds"] == pytest.approx(sum(each["seconds"] for each in row["calls"]))
        assert row["ratio"] or row["beside"]  # a time, or why there is none


@pytest.mark.slow
def test_networks_written_down_for_pytorch(tmp_path: pathlib.Path) -> None:
    import keras
    import numpy as np
    import torch_files

    tokens = keras.Input((5,), dtype="int32")
    x = keras.layers.Embedding(7, 4)(tokens) + np.ones((5, 4), "float32")
    y = keras.layers.Dense(4, activation="relu", name="inner")(x)
    model = keras.Model(tokens, keras.layers.Dense(3, name="last")(keras.layers.Add()([x, y])))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.save(tmp_path / "model.keras")
    torch_files.write(str(tmp_path / "model.keras"))
    about = json.loads((tmp_path / "pytorch.json").read_text())
    arrays = np.load(tmp_path / "pytorch.npz")
    assert [call["kind"] for call in about["calls"]] == [
        "Embedding",
        "Add",
        "Dense",
        "Add",
        "Dense",
    ]
    assert about["loss"] == "sparse_categorical_crossentropy_from_logits"
    embedding, shift, inner, joined, last = about["calls"]
    assert shift["inputs"] == [embedding["output"], "constant/0"]
    assert np.array_equal(arrays["constant/0"], np.ones((5, 4)))
    assert joined["inputs"] == [shift["output"], inner["output"]]
    assert inner["read_last"] == [] and sorted(joined["read_last"]) == sorted(joined["inputs"])
    assert about["result"] == last["output"]
    assert arrays["inner/0"].shape == (4, 4) and arrays["last/1"].shape == (3,)


@pytest.mark.parametrize(
    ("prefix", "setting", "stops"),
    [("chrt -f 1", "950000", True), ("chrt -f 1", "-1", False), ("chrt -b 0", "950000", False),
     ("taskset -c 0", "950000", False), ("", "950000", False)],
)  # fmt: skip
def test_real_time_programs_are_stopped_unless_set(
    tmp_path: pathlib.Path, prefix: str, setting: str, stops: bool
) -> None:
    file = tmp_path / "sched_rt_runtime_us"
    assert not bench.stops_real_time(prefix, file)  # a kernel without it
    file.write_text(f"{setting}\n")
    assert bench.stops_real_time(prefix, file) is stops
