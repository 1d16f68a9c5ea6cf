"""tools/bench --mode operators: what counts as slow, what stands in a line, and TensorFlow's calls
for what nodes compute."""

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import tables  # noqa: E402
from operators import calls_of, is_slow, lines_of, row_of, text_of  # noqa: E402

import bench  # noqa: E402

RUNS = 2


def values(*shapes: list[int], dtype: str = "float32") -> list[dict[str, Any]]:
    return [{"dtype": dtype, "shape": shape} for shape in shapes]


def node(op: str, share: float, of_limit: float, **attributes: Any) -> dict[str, Any]:
    """A row of a profile of a step of one second."""
    return {
        "kind": "kernel", "op": op, "share": share, "seconds": share * RUNS,
        "limit_seconds": share * of_limit * RUNS or None, "inputs": values([8, 4]),
        "outputs": values([8, attributes.get("units", 4)]), "attributes": attributes,
    }  # fmt: skip


def answer(*rows: dict[str, Any]) -> dict[str, Any]:
    data = {"kind": "data", "op": "", "share": 0.1, "seconds": 0.2, "limit_seconds": None}
    others = [{"program": "evaluate", "runs": 1, "rows": []}]
    train = {"program": "train", "runs": RUNS, "rows": [data, *rows]}
    return {"coverage": {"program": "train"}, "profile": {"programs": [*others, train]}}


def test_what_counts_as_slow() -> None:
    assert is_slow(0.005, 0.0019, 0.005)
    assert not is_slow(0.0049, 0.0001, 0.0049)  # little of the step
    assert not is_slow(0.5, 0.2, 0.5)  # at its bar
    assert not is_slow(0.5, 0.0, 0.5)  # without a limit


def test_nodes_that_ask_for_the_same_are_one() -> None:
    rows = [node("dense", 0.01, 0.5, units=2), node("dense", 0.03, 0.1, units=2),
            node("dense", 0.02, 0.3, units=3), node("dropout", 0.1, 0, rate=0.5, site=1),
            node("dropout", 0.1, 0, rate=0.5, site=2)]  # fmt: skip
    fast, slow, three, dropout = calls_of(answer(*rows))
    assert (fast.nodes, slow.nodes, three.nodes, dropout.nodes) == (1, 1, 1, 2)
    assert slow.seconds == pytest.approx(0.03) and slow.limit == pytest.approx(0.003)
    assert slow.slow and three.slow and not fast.slow and not dropout.slow
    assert fast.call == slow.call and dropout.seconds == pytest.approx(0.2)
    assert dropout.call["attributes"] == {"rate": 0.5}


def test_a_slow_operator_has_all_of_its_nodes_in_lines() -> None:
    rows = [node("pack", 0.004, 0.2, bytes=size) for size in range(3)]
    rows += [node("conv2d", 0.3, 0.9), node("add", 0.001, 0.1), node("dense", 0.02, 0.1)]
    rows += [node("pack", 0.01, 0.9, bytes=9)]
    lines = lines_of(calls_of(answer(*rows)), ["pack"])
    assert [(line[0].operator, len(line)) for line in lines] == [
        ("dense", 1), ("pack", 3), ("pack", 1),
    ]  # fmt: skip
    assert text_of(lines[0]) == "dense (8×4 → 8×4)"
    assert text_of(lines[1]) == "pack, 3 nodes of 3 kinds, most: (8×4 → 8×4)"


def test_a_line_is_held_against_what_there_is_a_time_for() -> None:
    rows = [node("dense", 0.02, 0.1, units=units) for units in (1, 2)]
    line = calls_of(answer(*rows))
    line[0].theirs = {"seconds": 0.03, "cold_seconds": 0.04}
    line[1].theirs = {"none": "no such call"}
    row = row_of("net", line)
    assert row["ratio"] == pytest.approx(1.5) and row["verdict"] == "reached"
    assert row["beside"] == "1 of 2 kinds compared: no such call"
    line[0].theirs = {"seconds": 0.01, "cold_seconds": 0.03}
    assert row_of("net", line)["verdict"] == "0.50 to 1.50 ×"
    line[0].theirs["cold_seconds"] = 0.018
    slower = row_of("net", line)
    assert slower["verdict"] == "0.90 of 1 ×"
    line[0].theirs = {"none": "no such call"}
    none = row_of("net", line)
    assert none["ratio"] is None and none["verdict"] == "not compared"
    none_slow = {"mode": "operators", "workload": "fast", "verdict": "reached: none is slow"}
    table = tables.markdown("operators", [row, slower, none, none_slow], ["tensorflow"])
    assert "4.0%" in table and "none" in table and "| fast | –" in table
    assert bench.wrong_results([row, slower, none, none_slow]) == []


def product(operator: str, inputs: list[list[int]], output: list[int], **attributes: Any) -> Any:
    return {"operator": operator, "inputs": values(*inputs), "outputs": values(output),
            "attributes": attributes}  # fmt: skip


WINDOW = {"kernel_size": [3, 3], "strides": [1, 1], "dilation_rate": [1, 1], "groups": 1,
          "padding": [1, 1, 1, 1], "filters": 4}  # fmt: skip
POOL = {"pool_size": [3, 3], "strides": [2, 2], "padding": [0, 1, 0, 1]}
CALLS = [
    product("pack", [[9, 9]], [900], layout="x", bytes=900),
    product("dense", [[64, 256], [256, 512], [512]], [64, 512], units=512, use_bias=True),
    product("dense_grad_input", [[64, 512], [256, 512]], [64, 256], input_dim=256),
    product("dense_grad_kernel", [[64, 256], [64, 512]], [256, 512]),
    product("conv2d", [[4, 16, 16, 3], [3, 3, 3, 4]], [4, 16, 16, 4], **WINDOW),
    product("conv2d_grad_input", [[4, 16, 16, 4], [3, 3, 3, 4]], [4, 16, 16, 3], **WINDOW,
            input_shape=[16, 16, 3]),
    product("conv2d_grad_kernel", [[4, 16, 16, 3], [4, 16, 16, 4]], [3, 3, 3, 4], **WINDOW),
    product("conv2d", [[4, 16, 16, 4], [3, 3, 4, 1]], [4, 16, 16, 4], **{**WINDOW, "groups": 4}),
    product("conv2d_pool_grad_input", [[4, 8, 8, 4], [4, 8, 8, 4], [3, 3, 3, 4]], [4, 16, 16, 3],
            **WINDOW, pool_size=[2, 2], input_shape=[16, 16, 3], activation="relu"),
    product("conv2d_pool_grad_kernel", [[4, 16, 16, 3], [4, 8, 8, 4], [4, 8, 8, 4]], [3, 3, 3, 4],
            **WINDOW, pool_size=[2, 2], activation="relu"),
    product("max_pool2d_grad", [[4, 32, 32, 64], [4, 32, 32, 64]], [4, 64, 64, 64], **POOL,
            input_shape=[64, 64, 64]),
    product("avg_pool2d_grad", [[4, 32, 32, 64]], [4, 64, 64, 64], **POOL,
            input_shape=[64, 64, 64]),
    product("lstm", [[8, 10, 128], [32, 128]], [8, 10, 32], units=32),
    product("lstm_grad", [[8, 10, 32]], [8, 10, 128], units=32, gradients="y"),
    product("attention", [[2, 64, 4, 32]] * 3, [2, 64, 4, 32], scale=0.1),
    product("attention_grad_keys", [[2, 64, 4, 32]] * 3, [2, 64, 4, 32], scale=0.1),
    product("layer_norm_grad", [[32, 128, 64]] * 2, [32, 128, 64], dims=1, epsilon=1e-3),
    *(product(f"batch_norm{part}", [[8, 32, 32, 64]], [8, 32, 32, 64], epsilon=1e-3)
      for part in ("", "_sums", "_grad")),
    product("channel_moments", [[8, 32, 32, 64]], [2, 64]),
    product("adam", [[512, 512]] * 4, [512, 512]),
    product("activation", [[64, 4096]], [64, 4096], kind="gelu"),
    product("activation_grad", [[64, 4096]] * 2, [64, 4096], kind="relu", reference="y"),
    product("softmax_grad", [[64, 4096]] * 2, [64, 4096]),
    product("sum_to", [[8, 32, 32, 64]], [8, 1, 1, 64], shape=[1, 1, 64], batched=True),
    product("log_sum_exp", [[64, 4096]], [64, 2]),
    product("softmax_crossentropy_grad", [[64, 4096], [64, 2], [64], [64]], [64, 4096]),
    product("eigenvectors", [[4, 4]], [4, 4]),
]  # fmt: skip


# Not called, or with results of another shape: moments and sums apart, one feature, no second row.
UNLIKE = ("pack", "eigenvectors", "adam", "channel_moments", "batch_norm_sums", "lstm", "lstm_grad",
          "log_sum_exp")  # fmt: skip


@pytest.mark.slow
def test_tensorflow_has_a_time_for_each_call(tmp_path: pathlib.Path) -> None:
    asked = tmp_path / "calls.json"
    asked.write_text(json.dumps({"threads": 2, "calls": CALLS}))
    command = [sys.executable, str(ROOT / "bench" / "operators_side.py"), str(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answers = dict(zip((call["operator"] for call in CALLS), json.loads(done.stdout)))
    assert "inside of theirs" in answers.pop("pack")["none"]
    assert "written down" in answers.pop("eigenvectors")["none"]
    # A call of microseconds may not be told from what goes with any call.
    timed = [each for each in answers.values() if "seconds" in each]
    assert all(0 < each["seconds"] <= each["cold_seconds"] < 1 for each in timed)
    refused = {name: each["none"] for name, each in answers.items() if "seconds" not in each}
    assert all("cannot be told" in why for why in refused.values()), refused
    assert {"dense", "lstm", "lstm_grad", "max_pool2d_grad"} <= set(answers) - set(refused)


def sizes(call: dict[str, Any]) -> int:
    total = 1
    for extent in call["outputs"][0]["shape"]:
        total *= extent
    return total


@pytest.mark.slow
def test_what_calls_give_has_the_shapes_of_the_nodes() -> None:
    import operator_map_calls  # noqa: F401  makes its calls known
    from operator_calls import Node, ways_of
    from operator_image_calls import border_words

    assert border_words([224, 224], [3, 3], [2, 2], [1, 1], [0, 1, 0, 1]) == (
        "SAME", [224, 224],
    )  # fmt: skip
    # Added on both sides, as ResNet does it, it is none of TensorFlow's words.
    assert border_words([224, 224], [3, 3], [2, 2], [1, 1], [1, 1, 1, 1]) == (
        "VALID", [226, 226],
    )  # fmt: skip
    for call in CALLS:
        if call["operator"] in UNLIKE:
            continue
        for way in ways_of(Node(**call)):
            given = way.function(*way.operands)
            if way.less:
                given = given[1]  # the forward operator's result comes first
            given = given if isinstance(given, list | tuple) else [given]
            assert sizes(call) in [each.shape.num_elements() for each in given], call["operator"]
