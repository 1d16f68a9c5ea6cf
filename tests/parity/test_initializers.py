"""Initial weights are drawn from Keras's distributions: same moments, quantiles and structure.

The random streams differ, so that single numbers cannot be compared. A step of SGD with learning
rate 0 leaves the initial weights in the output file.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import read_keras, run_plimsoll

I = keras.initializers  # noqa: E741
SHAPES = {"dense": (400, 300), "conv": (5, 5, 24, 80)}

RANDOM: dict[str, Any] = {
    "random_normal": lambda: I.RandomNormal(0.3, 0.7),
    "random_uniform": lambda: I.RandomUniform(-0.2, 0.5),
    "truncated_normal": lambda: I.TruncatedNormal(0.1, 0.4),
    "glorot_uniform": I.GlorotUniform,
    "glorot_normal": I.GlorotNormal,
    "he_uniform": I.HeUniform,
    "he_normal": I.HeNormal,
    "lecun_uniform": I.LecunUniform,
    "lecun_normal": I.LecunNormal,
    "scaling_fan_out": lambda: I.VarianceScaling(2.0, "fan_out", "untruncated_normal"),
    "scaling_uniform": lambda: I.VarianceScaling(0.5, "fan_avg", "uniform"),
}
EXACT: dict[str, Any] = {
    "zeros": I.Zeros,
    "ones": I.Ones,
    "constant": lambda: I.Constant(0.25),
    "identity": I.Identity,
}


def build(kind: str, initializer: Any) -> keras.Model:
    rows, columns = SHAPES["dense"]
    if kind == "dense":
        layers = [
            keras.layers.Input((rows,)),
            keras.layers.Dense(columns, "linear", False, name="dense"),
        ]
    else:
        height, width, channels, filters = SHAPES["conv"]
        layers = [
            keras.layers.Input((height, width, channels)),
            keras.layers.Conv2D(filters, (height, width), use_bias=False),
            keras.layers.Flatten(),
        ]
    layers[1].kernel_initializer = initializer
    return keras.Sequential(layers)


def initial_weights(folder: Path, kind: str, initializer: Any, seed: int = 5) -> np.ndarray:
    """The kernel that Plimsoll starts from."""
    model = build(kind, initializer)
    (folder / "model.json").write_text(model.to_json())
    np.save(folder / "x.npy", np.zeros((2, *model.input_shape[1:]), "float32"))
    np.save(folder / "y.npy", np.zeros((2, model.output_shape[-1]), "float32"))
    run_plimsoll(
        "fit", folder / "model.json", "--data", folder / "x.npy", "--labels", folder / "y.npy",
        "--batch", 2, "--steps", 1, "--optimizer", "sgd(learning_rate=0)", "--loss", "mse",
        "--seed", seed, "--output", folder / "out.keras",
    )  # fmt: skip
    weights, _ = read_keras(folder / "out.keras")
    return next(w for w in weights.values() if w.shape == SHAPES[kind])


def kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> float:
    """The largest distance between two empirical distribution functions."""
    points = np.sort(np.concatenate([a, b]))
    below = lambda v: np.searchsorted(np.sort(v), points, side="right") / len(v)  # noqa: E731
    return float(np.max(np.abs(below(a) - below(b))))


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", RANDOM)
def test_random_initializers_have_keras_distribution(kind: str, name: str, tmp_path: Path) -> None:
    ours = initial_weights(tmp_path, kind, RANDOM[name]()).ravel()
    keras.utils.set_random_seed(11)
    theirs = np.asarray(RANDOM[name]()(SHAPES[kind])).ravel()
    n = len(ours)
    # Two samples of one distribution pass 2.2 √(2/n) once in 10⁴ times; these draws are fixed.
    assert kolmogorov_smirnov(ours, theirs) < 2.2 * np.sqrt(2 / n)
    spread = np.std(theirs)
    assert abs(ours.mean() - theirs.mean()) < 5 * spread * np.sqrt(2 / n)
    assert abs(ours.std() / spread - 1) < 5 / np.sqrt(n)
    # The ends of bounded distributions.
    if "uniform" in name or "truncated" in name:
        width = theirs.max() - theirs.min()
        assert abs(ours.max() - theirs.max()) < 0.01 * width
        assert abs(ours.min() - theirs.min()) < 0.01 * width


def test_another_seed_draws_other_weights(tmp_path: Path) -> None:
    draws = [initial_weights(tmp_path, "dense", I.HeNormal(), seed) for seed in (5, 5, 6)]
    assert np.array_equal(draws[0], draws[1])
    assert abs(np.corrcoef(draws[0].ravel(), draws[2].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("name", EXACT)
def test_exact_initializers(name: str, tmp_path: Path) -> None:
    ours = initial_weights(tmp_path, "dense", EXACT[name]())
    assert np.array_equal(ours, np.asarray(EXACT[name]()(SHAPES["dense"])))


def test_orthogonal_columns(tmp_path: Path) -> None:
    ours = initial_weights(tmp_path, "dense", I.Orthogonal(gain=1.5))
    theirs = np.asarray(I.Orthogonal(gain=1.5, seed=3)(SHAPES["dense"]))
    product = ours.T @ ours
    assert np.allclose(product, theirs.T @ theirs, atol=2e-5)
    assert np.allclose(product, 2.25 * np.eye(SHAPES["dense"][1]), atol=2e-5)
    # Uniform over orthogonal matrices: no sign or size is preferred.
    assert abs(np.mean(ours > 0) - 0.5) < 0.01
    assert abs(ours.std() / theirs.std() - 1) < 1e-3
