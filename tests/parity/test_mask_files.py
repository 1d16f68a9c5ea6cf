"""Files of Keras with masks, steps and operators, and the losses of two steps there.

The files are those of tests/data/masks; each has its inputs and targets beside it. Models of the
same kinds that are built here are in test_masks_table.py and test_layer_options.py.
"""

from pathlib import Path

import pytest
from harness import read_log, run_plimsoll

FOLDER = Path(__file__).parents[1] / "data" / "masks"

LOSSES = {
    "td_bn": (1.793436, 4.346334),
    "masked_multiply": (0.906856, 0.859643),
    "masked_attention_pool": (0.269751, 0.735120),
    "functional_masking": (2.056086, 1.199298),
    "masked_concat": (1.558792, 0.785975),
    "masked_attention_layer": (0.846654, 0.547342),
    "bool_mask_input": (0.849064, 0.389432),
    "mask_bn": (1.019201, 0.473689),
    "softmax_axis1": (1.798250, 0.020013),
    "td_model": (1.814848, 1.839638),
    "ops_sqrt_matmul": (11.649649, 5.299928),
}


@pytest.mark.parametrize("name", LOSSES)
def test_two_steps(name: str, tmp_path: Path) -> None:
    data = [part for x in sorted(FOLDER.glob(f"{name}-x*.npy")) for part in ("--data", x)]
    labels = [part for y in sorted(FOLDER.glob(f"{name}-y*.npy")) for part in ("--labels", y)]
    run_plimsoll(
        "fit", FOLDER / f"{name}.keras", *data, *labels, "--batch", 4, "--steps", 2, "--no-shuffle",
        "--log-steps", "--log", tmp_path / "l.jsonl",
    )  # fmt: skip
    losses = [row["loss"] for row in read_log(tmp_path / "l.jsonl") if "step" in row]
    assert losses == pytest.approx(LOSSES[name], rel=2e-5, abs=2e-6)


def test_a_metric_counts_what_the_mask_shows(tmp_path: Path) -> None:
    file = FOLDER / "masked_metric"
    result = run_plimsoll(
        "evaluate", f"{file}.keras", "--data", f"{file}-x.npy", "--labels", f"{file}-y.npy",
        "--batch", 4,
    )  # fmt: skip
    assert "0.416667" in result.stdout
