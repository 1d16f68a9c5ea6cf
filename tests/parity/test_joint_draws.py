"""What Keras's Random* layers draw within a batch: jointly distributed as Keras's own.

10,000 times the same picture go through each layer in one batch. A few numbers tell what became of
each; two samples' numbers are one point, and the clouds of such points are compared from many
directions. So the shares of a layer's draws are seen, what its draws have to do with each other,
and what a sample's have to do with another's.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from image_layers import trained_outputs
from keras import layers as L
from test_image_layers import by_keras, pictures
from test_public_names import LACKING, words

DRAWS = 10_000
DIRECTIONS = 24
# Numbers of a picture that are nearer to each other than this are equal but for rounding.
ROUNDING = 0.02

LAYERS: dict[str, Callable[[], L.Layer]] = {
    "RandomBrightness": lambda: L.RandomBrightness((-0.3, 0.5), seed=1),
    "RandomColorDegeneration": lambda: L.RandomColorDegeneration((0.2, 0.9), seed=1),
    "RandomColorJitter": lambda: L.RandomColorJitter(
        (0, 255), 0.3, (0.2, 0.4), (0.3, 0.8), (0.1, 0.3), seed=1
    ),
    "RandomContrast": lambda: L.RandomContrast((0.4, 0.7), seed=1),
    "RandomErasing": lambda: L.RandomErasing(0.7, (0.1, 0.5), 9.0, seed=1),
    "RandomFlip": lambda: L.RandomFlip("vertical", seed=1),
    "RandomGaussianBlur": lambda: L.RandomGaussianBlur(0.8, 3, (0.6, 0.6), seed=1),
    "RandomGrayscale": lambda: L.RandomGrayscale(0.3, seed=1),
    "RandomHue": lambda: L.RandomHue((0.1, 0.7), seed=1),
    "RandomInvert": lambda: L.RandomInvert((0.2, 0.6), seed=1),
    "RandomPerspective": lambda: L.RandomPerspective(0.7, scale=0.5, seed=1),
    "RandomPosterization": lambda: L.RandomPosterization((1, 5), seed=1),
    "RandomRotation": lambda: L.RandomRotation((-0.2, 0.3), seed=1),
    "RandomSaturation": lambda: L.RandomSaturation((0.1, 0.8), seed=1),
    "RandomSharpness": lambda: L.RandomSharpness((0.1, 0.9), seed=1),
    "RandomShear": lambda: L.RandomShear((0.1, 0.5), (0.0, 0.3), seed=1),
    "RandomTranslation": lambda: L.RandomTranslation((-0.3, 0.1), (0.0, 0.4), seed=1),
    "RandomZoom": lambda: L.RandomZoom((-0.3, 0.2), (-0.1, 0.4), seed=1),
}


def points(y: np.ndarray) -> np.ndarray:
    """Pairs of samples, each by four numbers that its picture is projected onto."""
    rng = np.random.default_rng(7)
    flat = y.reshape(len(y), -1).astype("float64")
    onto = rng.normal(size=(flat.shape[1], 4)) / np.sqrt(flat.shape[1])
    numbers = flat @ onto
    half = len(numbers) // 2
    return np.concatenate([numbers[:half], numbers[half:]], 1)


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """Kolmogorov and Smirnov's, where numbers that are nearly equal count as equal."""
    a, b = np.sort(a), np.sort(b)

    def above(one: np.ndarray, other: np.ndarray) -> float:
        share = np.searchsorted(one, one, "right") / len(one)
        return float((share - np.searchsorted(other, one + ROUNDING, "right") / len(other)).max())

    return max(above(a, b), above(b, a))


def farthest(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest gap from any direction, each coordinate and random ones."""
    a, b = points(ours), points(theirs)
    rng = np.random.default_rng(8)
    random = rng.normal(size=(a.shape[1], DIRECTIONS - a.shape[1]))
    onto = np.concatenate([np.eye(a.shape[1]), random / np.linalg.norm(random, axis=0)], 1)
    return max(gap(a @ one, b @ one) for one in onto.T)


# Two clouds of 5,000 points of one distribution, from one of 24 directions for 19 layers each,
# the gap is wider once in 10,000 times: √(ln(2 · 24 · 19 · 10,000) / 5,000).
BOUND = float(np.sqrt(np.log(2 * DIRECTIONS * 19 * 10_000) / (DRAWS / 2)))


def test_every_layer_is_here() -> None:
    """But for those that are not read; where a crop lies is drawn once a batch."""
    lacking = words(LACKING["Layers"])
    known = {n for n in dir(L) if n.startswith("Random") and n not in lacking}
    assert known == {*LAYERS, "RandomCrop"}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_draws_within_a_batch(name: str, tmp_path: Path) -> None:
    x = np.repeat(pictures(1, 5, 5, 3), DRAWS, 0)
    ours = trained_outputs(tmp_path, {name: LAYERS[name]()}, x)[name]
    theirs = by_keras(LAYERS[name](), x)
    found = farthest(ours, theirs)
    print(f"{name}: {found:.4f} of {BOUND:.4f}")
    assert found <= BOUND
    # Where each sample went with its neighbour it would be seen: draws belong to one sample.
    together = np.concatenate([theirs[: DRAWS // 2], theirs[: DRAWS // 2]])
    assert farthest(together, theirs) > BOUND


def of_batches(
    tmp_path: Path, make: Callable[[str], L.Layer], x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What 10,000 batches of two give, by 100 layers in 100 steps, and by Keras.

    The two samples are the same, and stay so where one draw is for both.
    """
    steps = 100
    made = {f"layer_{i}": make(f"layer_{i}") for i in range(DRAWS // steps)}
    found = trained_outputs(tmp_path, made, np.concatenate([x] * steps), batch=2)
    ours = np.concatenate([y.reshape(steps, 2, *y.shape[1:]) for y in found.values()])
    layer = make("layer")
    theirs = np.stack([by_keras(layer, x) for _ in range(DRAWS)])
    for y in (ours, theirs):
        assert np.abs(y[:, 0] - y[:, 1]).max() < 1e-3
    return ours[:, 0], theirs[:, 0]


@pytest.mark.nightly
@pytest.mark.slow
def test_crops_of_batches(tmp_path: Path) -> None:
    x = np.repeat(pictures(1, 4, 5, 1), 2, 0)
    made = of_batches(tmp_path, lambda name: L.RandomCrop(2, 4, seed=1, name=name), x)
    pieces = np.stack([x[0, i : i + 2, j : j + 4] for i in range(3) for j in range(2)])
    counts = np.zeros((2, len(pieces)))
    for who, y in enumerate(made):
        off = np.abs(y[:, None] - pieces[None]).max((2, 3, 4))
        assert off.min(1).max() < 1e-2
        counts[who] = np.bincount(off.argmin(1), minlength=len(pieces))
    print(f"RandomCrop: {counts.tolist()}")
    squares = (np.square(counts - counts.mean(0)) / counts.mean(0)).sum()
    assert squares < 25.7, counts  # chi-squared of 5 degrees is above it once in 10,000 times


@pytest.mark.nightly
@pytest.mark.slow
def test_blurs_of_batches(tmp_path: Path) -> None:
    """The two deviations are drawn once a batch: they are the ratios around one bright point."""
    x = np.zeros((2, 5, 5, 1), "float32")
    x[:, 2, 2] = 255
    ours, theirs = of_batches(
        tmp_path, lambda name: L.RandomGaussianBlur((1, 1), 3, (0.4, 1.0), seed=1, name=name), x
    )
    a, b = (100 * np.stack([y[:, 1, 2, 0], y[:, 2, 1, 0]], 1) / y[:, 2, 2] for y in (ours, theirs))
    angles = np.linspace(0, np.pi, DIRECTIONS, endpoint=False)
    found = max(gap(a @ one, b @ one) for one in np.stack([np.cos(angles), np.sin(angles)], 1))
    print(f"RandomGaussianBlur of batches: {found:.4f} of {BOUND:.4f}")
    assert found <= BOUND
