"""A hundred random models in Keras and in the built program, after those that once differed."""

import json
import os
from pathlib import Path

import keras
import numpy as np
import pytest
from comparison import Part, amplification, compare, judged
from coverage_of_pairs import report
from differential import is_finding, print_summary, search
from keras_side import NotKeras, add_along_its_axis
from model_draw import draw_recipe, takes_step_weights
from shrinking import fewer_nodes, fewer_options, without_node

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))
SEED, MODELS = 20_000, 100


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept(path: Path, tmp_path: Path) -> None:
    """Each file is a recipe that was computed wrongly, refused or ended badly once."""
    verdict = compare(json.loads(path.read_text())["recipe"], tmp_path / "run")
    assert verdict.outcome == "equal", verdict


@pytest.mark.slow
def test_random_models(capsys: pytest.CaptureFixture[str]) -> None:
    rows = search(SEED, MODELS, jobs=os.cpu_count() or 1)
    with capsys.disabled():
        print(f"\nseeds from {SEED}")
        print_summary(rows)
        print(report([row["recipe"] for row in rows if row["recipe"] is not None]))
    assert len(rows) == MODELS
    found = [(row["seed"], row["outcome"], row["text"]) for row in rows if is_finding(row)]
    assert not found, found


def test_a_seed_gives_one_recipe() -> None:
    first = json.dumps(draw_recipe(17))
    draw_recipe(18)
    assert json.dumps(draw_recipe(17)) == first


SMALL = {
    "seed": 1,
    "form": "keras",
    "batch": 2,
    "samples": 3,
    "inputs": [{"name": "x0", "shape": [3], "values": "floats"}],
    "nodes": [
        {"name": "n1", "layer": "Dense", "in": ["x0"], "config": {"units": 2, "use_bias": False}},
        {"name": "n2", "layer": "Dense", "in": ["n1"], "again": "n1"},
    ],
    "outputs": ["n2"],
    "targets": ["floats"],
    "compile": {
        "optimizer": {"class_name": "SGD", "config": {"learning_rate": 0.01}},
        "loss": [{"class_name": "MeanSquaredError", "config": {}}],
        "metrics": [[]],
    },
}


@pytest.mark.parametrize(
    ("first", "second"), [((1, 5, 5), (1, 5, 1)), ((2, 3, 4, 4), (1, 4, 1, 1)), ((5, 5), (5, 1))]
)
def test_sums_that_keras_takes_along_another_axis(
    first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    with pytest.raises(NotKeras, match="a bias along another axis"):
        add_along_its_axis(np.ones(first, "float32"), np.ones(second, "float32"))


@pytest.mark.parametrize(
    ("first", "second"), [((2, 5, 5), (2, 5, 1)), ((2, 4, 3, 5), (1, 4, 1, 1)), ((2, 5), (5,))]
)
def test_sums_that_keras_takes_by_broadcasting(
    first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    a = np.arange(np.prod(first), dtype="float32").reshape(first)
    b = np.arange(np.prod(second), dtype="float32").reshape(second)
    assert np.array_equal(np.asarray(add_along_its_axis(a, b)), a + b)


@pytest.mark.parametrize(
    ("shape", "paired"),
    [((5, 3), True), ((5, 1, 3), True), ((5, 2, 3), False), ((1, 2, 4), False),
     ((2, 1, 1, 1), False)],
)  # fmt: skip
def test_step_weights_are_drawn_where_keras_pairs_them_with_losses(
    shape: tuple[int, ...], paired: bool
) -> None:
    """Judged by Keras: weights of other samples change nothing in a sample without any."""
    loss = keras.losses.CategoricalCrossentropy(reduction="sum")
    rng = np.random.default_rng(3)
    y = rng.random((2, *shape)).astype("float32")
    weights = np.ones((2, shape[0]), "float32")
    weights[0] = 0
    alone = float(loss(y[1:], y[1:]))
    try:
        right = float(loss(y, y, weights)) == pytest.approx(alone, rel=1e-5)
    except Exception:
        right = False
    assert right == paired == takes_step_weights(shape)


def test_a_dropped_node_leaves_its_layer_to_the_next_call() -> None:
    small = without_node(SMALL, 0, "x0")
    assert small["nodes"] == [
        {"name": "n2", "layer": "Dense", "in": ["x0"], "config": {"units": 2, "use_bias": False}}
    ]
    assert all(len(each["nodes"]) == 1 for each in fewer_nodes(SMALL))
    dropped = [each["nodes"][0].get("config") for each in fewer_options(SMALL)]
    assert {"units": 2} in dropped


def test_a_wrong_number_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judgement can fail: a model with weights that the program does not have."""
    import comparison

    right = comparison.run_ours
    assert (
        compare(SMALL | {"nodes": SMALL["nodes"][:1], "outputs": ["n1"]}, tmp_path / "run").outcome
        == "equal"
    )

    def wrong(recipe, folder, model):  # type: ignore[no-untyped-def]
        run = right(recipe, folder, model)
        run.gradients[0] = run.gradients[0] * (1 + 1e-4)
        return run

    monkeypatch.setattr(comparison, "run_ours", wrong)
    verdict = compare(SMALL | {"nodes": SMALL["nodes"][:1], "outputs": ["n1"]}, tmp_path / "run")
    assert (verdict.outcome, verdict.kind) == ("different", "gradient")


@pytest.mark.parametrize("steps, outcome", [(3, "keras"), (4, "equal")])
def test_a_bias_along_the_wrong_axis_is_no_finding(
    steps: int, outcome: str, tmp_path: Path
) -> None:
    """With as many positions as heads of one channel, Keras adds the heads' bias by position."""
    layer = {
        "name": "n1",
        "layer": "MultiHeadAttention",
        "in": ["x0"],
        "config": {"num_heads": 3, "key_dim": 1},
        "call": {"value": {"tensor": "x0"}},
    }
    inputs = [{"name": "x0", "shape": [steps, 2], "values": "floats"}]
    recipe = SMALL | {"inputs": inputs, "nodes": [layer], "outputs": ["n1"]}
    verdict = compare(recipe, tmp_path / "run")
    assert verdict.outcome == outcome, verdict
    assert outcome == "equal" or verdict.kind == "a bias along another axis", verdict


@pytest.mark.parametrize("name", ["gradient 1 (2, 2)", "slot 3 (2, 2)"])
def test_a_zero_may_be_what_rounding_leaves(name: str) -> None:
    """Of gradients that are 1 all together; Keras may meet the 0 itself by chance."""
    zero = np.zeros((2, 2), "float32")
    for size, right in ((1e-7, True), (1e-6, False)):
        part = Part(name, zero + size / 2, zero, 1e-4, 1e-9, zero=2.0**-22)
        assert judged(part, zero, [zero]) is right


@pytest.mark.parametrize("epsilon, size, right", [
    (1e-3, 6e-6, True), (1e-3, 2e-5, False), (1.0, 6e-6, False),
])  # fmt: skip
def test_normalization_enlarges_what_rounding_leaves(
    epsilon: float, size: float, right: bool
) -> None:
    node = {"name": "n1", "layer": "BatchNormalization", "config": {"epsilon": epsilon}}
    zero = np.zeros((2, 2), "float32")
    part = Part("gradient 1 (2, 2)", zero + size / 2, zero, 1e-4, 1e-9, zero=2.0**-22)
    assert judged(part, zero, [zero], amplification({"nodes": [node]})) is right
