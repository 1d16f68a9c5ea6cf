"""Keras's layers that mix the images of a batch, and RandomPerspective, whose draws are many."""

from pathlib import Path

import keras
import numpy as np
from image_layers import trained_outputs
from keras import layers as L
from test_image_layers import by_keras, largest_gap, pictures


def pasted(y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whose image was pasted into each sample (its own: none was seen), and which pixels."""
    count = len(x)
    own = (np.abs(y - x) < 1e-2).all(-1)
    other = np.array(
        [[(np.abs(y[n] - x[m]) < 1e-2).all(-1)[~own[n]].all() for m in range(count)]
         for n in range(count)]
    )  # fmt: skip
    assert other.any(1).all(), "a pixel that is in no image of the batch"
    seen = ~own.all((1, 2))
    return np.where(seen, other.argmax(1), np.arange(count)), ~own


def test_mixed_images_are_of_two_samples(tmp_path: Path) -> None:
    """One permutation of the batch for all, and a share for each; as Keras mixes by the same."""
    count = 24
    x = pictures(count, 7, 6, 3)
    made = {"blend": L.MixUp(0.7), "paste": L.CutMix((0.8, 0.8))}
    ours = trained_outputs(tmp_path, made, x)

    # Of a blend w own + (1 − w) other both are found by least squares over all candidates.
    order, shares = np.zeros(count, int), np.zeros(count)
    for n in range(count):
        flat = x.reshape(count, -1).astype("float64")
        away = ours["blend"][n].ravel() - flat[n]
        best = np.inf
        for m in range(count):
            apart = flat[m] - flat[n]
            share = 0.0 if m == n else away @ apart / (apart @ apart)
            off = np.abs(away - share * apart).max()
            if off < best:
                best, order[n], shares[n] = off, m, 1 - share
        assert best < 1e-2
    assert ((shares > -1e-4) & (shares < 1 + 1e-4)).all()
    told = shares < 1 - 1e-4  # where nothing was mixed in, nobody knows of whom
    assert len(set(order[told])) == told.sum(), "no permutation"
    order[~told] = np.setdiff1d(np.arange(count), order[told])
    again = keras.ops.convert_to_numpy(made["blend"].transform_images(
        x, {"mix_weight": shares.astype("float32"), "permutation_order": order}, training=True
    ))  # fmt: skip
    assert np.abs(again - ours["blend"]).max() < 5e-3

    whose, where = pasted(ours["paste"], x)
    some = where.any((1, 2))
    assert some.sum() > count / 2
    assert len(set(whose[some])) == some.sum(), "no permutation"
    for mask in where[some]:
        rows, columns = mask.any(1), mask.any(0)
        assert (mask == np.outer(rows, columns)).all()


def test_shares_are_distributed_as_keras(tmp_path: Path) -> None:
    """The share of a blend and the area of what is pasted, over a large batch."""
    count = 4000
    x = np.arange(count, dtype="float32").reshape(-1, 1, 1, 1) * np.ones((1, 6, 6, 3), "float32")
    x[..., 1] = x[..., 0] ** 2 / count  # two numbers tell the share and the other sample
    made = {"blend": L.MixUp(0.3, seed=1), "paste": L.CutMix((1.0, 1.0), seed=1)}
    ours = trained_outputs(tmp_path, made, x)
    for name in made:
        measured = []
        for y in (ours[name], by_keras(made[name], x)):
            if name == "paste":
                measured.append((np.abs(y - x).max(-1) > 0.5).sum((1, 2)).astype("float64"))
                continue
            # y0 = x + s (o − x), y1 = (x² + s (o² − x²)) / count: s from both.
            own = x[:, 0, 0, 0].astype("float64")
            first = y[:, 0, 0, 0] - own
            second = y[:, 0, 0, 1] * count - own**2
            with np.errstate(divide="ignore", invalid="ignore"):
                other = second / first - own
                measured.append(np.where(np.abs(first) < 1e-2, 0, first / (other - own)).round(2))
        gap = largest_gap(*measured)
        # Where sums of alike shares are rounded one way or the other the steps are a hundredth.
        assert gap <= 2.03 * np.sqrt(2 / count) + 0.02, (name, gap)


def test_perspective_is_keras(tmp_path: Path) -> None:
    """Each image is the one that Keras makes of the corners that ours says it took."""
    count, height, width = 16, 9, 12
    row, column = np.mgrid[0:height, 0:width].astype("float32")
    x = np.tile(np.stack([column, row, 0 * row + 1], -1)[None], (count, 1, 1, 1))
    layer = L.RandomPerspective((1.0, 1.0), scale=0.6, fill_value=-99.0)
    ours = trained_outputs(tmp_path, {"turn": layer}, x)["turn"]
    corners = np.array(
        [[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1]], "float64"
    )
    ends = []
    for picture in ours:
        # Inside, an output pixel (j, i) shows where it came from: fit the eight numbers.
        rows, targets = [], []
        for i in range(height):
            for j in range(width):
                u, v, inside = picture[i, j]
                if abs(inside - 1) > 1e-3:
                    continue
                rows += [[j, i, 1, 0, 0, 0, -u * j, -u * i], [0, 0, 0, j, i, 1, -v * j, -v * i]]
                targets += [u, v]
        fit = np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)[0]
        back = np.linalg.inv(np.append(fit, 1).reshape(3, 3))
        at = np.c_[corners, np.ones(4)] @ back.T
        ends.append(at[:, :2] / at[:, 2:])
    ends = np.array(ends)
    assert np.abs(ends[:, 0]).max() < 1e-2, "the first corner stays"
    with np.errstate(invalid="ignore"):
        shares = (ends - corners) / np.where(corners == 0, np.nan, corners)
    assert np.nanmax(np.abs(shares)) <= 0.3 + 1e-2
    assert len(np.unique(shares[~np.isnan(shares)].round(4))) > 3 * count
    theirs = by_keras(
        layer, x, apply_perspective=np.ones(count, bool),
        start_points=np.tile(corners[None], (count, 1, 1)).astype("float32"),
        end_points=ends.astype("float32"),
    )  # fmt: skip
    close = np.abs(theirs - ours).max(-1) < 0.05
    assert close.mean() > 0.99  # a pixel on the edge is inside for one and outside for the other


def test_perspective_changes_a_share_of_images(tmp_path: Path) -> None:
    x = pictures(400, 5, 4, 3)
    made = {"some": L.RandomPerspective((0.3, 0.3)), "up_to": L.RandomPerspective(0.9)}
    ours = trained_outputs(tmp_path, made, x)
    for name, share in (("some", 0.3), ("up_to", 0.45)):
        changed = (np.abs(ours[name] - x).max((1, 2, 3)) > 1e-2).mean()
        assert abs(changed - share) < 4 * np.sqrt(share * (1 - share) / len(x)), (name, changed)


def test_changes_of_rand_augment_are_keras(tmp_path: Path) -> None:
    """With factors of 0 every layer leaves nothing to chance: pairs of them are all there is."""
    x = pictures(4, 6, 5, 3)
    count, names = 40, L.RandAugment()._AUGMENT_LAYERS
    made = {f"augment_{i}": L.RandAugment(factor=0.0, name=f"augment_{i}") for i in range(count)}
    ours = trained_outputs(tmp_path, made, x)
    layer = next(iter(made.values()))
    drawn = layer.get_random_transformation(x, training=True)
    pairs = {
        (a, b): keras.ops.convert_to_numpy(
            layer.transform_images(x, {**drawn, "layer_idxes": [a, b]}, training=True)
        )
        for a in range(len(names))
        for b in range(len(names))
    }
    kinds = set()
    for name, y in ours.items():
        off = {pair: np.abs(y - want).max() for pair, want in pairs.items()}
        best = min(off, key=lambda pair: off[pair])
        assert off[best] < 5e-2, (name, best, off[best])
        # Pairs that make the same of it are one kind.
        kinds.add(min(pair for pair in off if np.abs(pairs[pair] - pairs[best]).max() < 1e-3))
    assert len(kinds) > 8, kinds
