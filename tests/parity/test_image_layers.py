"""Keras's layers for images inside of the model: the same pictures, the same distributions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import images, lazy, regress
from harness import Case, assert_one_step, run_plimsoll
from image_layers import save_for_training, tables, trained_outputs
from keras import layers as L

CLAHE = L.ContrastLimitedAdaptiveHistogramEqualization
FIRST: dict[str, Any] = {"data_format": "channels_first"}
SHAPE = (9, 12, 3)


@pytest.fixture(autouse=True)
def equalization_in_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras 3.15's tells its own input as its result, so that a model is built without it."""
    monkeypatch.setattr(
        L.Equalization, "compute_output_spec",
        lambda self, inputs, **_: keras.KerasTensor(inputs.shape, inputs.dtype),
    )  # fmt: skip


def pictures(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(0, 255, (count, *shape)).astype("float32")


def by_keras(layer: L.Layer, x: np.ndarray, **changes: Any) -> np.ndarray:
    """What Keras's layer gives in training, by a draw of its own or by these."""
    if not changes:
        return keras.ops.convert_to_numpy(layer(x, training=True))
    drawn = {name: keras.ops.convert_to_tensor(value) for name, value in changes.items()}
    return keras.ops.convert_to_numpy(layer.transform_images(x, drawn, training=True))


# Layers that leave nothing to chance: their bounds are equal, or they draw nothing.
FIXED: dict[str, Callable[[], L.Layer]] = {
    "resizing": lambda: L.Resizing(7, 5),
    "resizing_up": lambda: L.Resizing(20, 17),
    "resizing_nearest": lambda: L.Resizing(13, 7, interpolation="nearest"),
    "resizing_crop": lambda: L.Resizing(8, 5, crop_to_aspect_ratio=True),
    "resizing_pad": lambda: L.Resizing(8, 5, pad_to_aspect_ratio=True),
    "resizing_pad_fill": lambda: L.Resizing(6, 14, pad_to_aspect_ratio=True, fill_value=70.0),
    "center_crop": lambda: L.CenterCrop(4, 7),
    "center_crop_up": lambda: L.CenterCrop(11, 5),
    "crop_of_small": lambda: L.RandomCrop(9, 7),
    "crop_larger": lambda: L.RandomCrop(11, 7),
    "rotation": lambda: L.RandomRotation((0.137, 0.137)),
    "rotation_wrap": lambda: L.RandomRotation((-0.31, -0.31), fill_mode="wrap"),
    "rotation_fill": lambda: L.RandomRotation(
        (0.07, 0.07), "constant", interpolation="nearest", fill_value=9.0
    ),
    "zoom": lambda: L.RandomZoom((0.23, 0.23)),
    "zoom_nearest": lambda: L.RandomZoom((-0.41, -0.41), (0.53, 0.53), "nearest", "nearest"),
    "translation": lambda: L.RandomTranslation((0.21, 0.21), (-0.37, -0.37)),
    "translation_fill": lambda: L.RandomTranslation(
        (-0.613, -0.613), (0.87, 0.87), "constant", fill_value=31.0
    ),
    "translation_far": lambda: L.RandomTranslation((0.99, 0.99), (-0.93, -0.93), "wrap"),
    "translation_back": lambda: L.RandomTranslation((0.97, 0.97), (0.71, 0.71), "reflect"),
    "brightness": lambda: L.RandomBrightness((0.2, 0.2)),
    "brightness_down": lambda: L.RandomBrightness((-0.3, -0.3), (20, 200)),
    "contrast": lambda: L.RandomContrast((0.0, 0.0)),
    "saturation": lambda: L.RandomSaturation((0.3, 0.3)),
    "saturation_up": lambda: L.RandomSaturation((0.7, 0.7)),
    "degeneration": lambda: L.RandomColorDegeneration((0.4, 0.4)),
    "jitter": lambda: L.RandomColorJitter((0, 255), (0.1, 0.1), (0.0, 0.0), (0.4, 0.4), (0.0, 0.0)),
    "grayscale": lambda: L.RandomGrayscale(1.0),
    "invert": lambda: L.RandomInvert((1.0, 1.0)),
    "posterization": lambda: L.RandomPosterization((3, 3)),
    "posterization_range": lambda: L.RandomPosterization((5, 5), (-50, 300)),
    "sharpness": lambda: L.RandomSharpness((0.8, 0.8)),
    "blur": lambda: L.RandomGaussianBlur((1.0, 1.0), (3, 5), (0.7, 0.7)),
    "blur_3": lambda: L.RandomGaussianBlur((1.0, 1.0), 3, (0.4, 0.4)),
    "solarization": lambda: L.Solarization(0.0, 0.0, (0, 300)),
    "auto_contrast": lambda: L.AutoContrast(),
    "auto_contrast_range": lambda: L.AutoContrast((-10, 290)),
    "equalization": lambda: L.Equalization(),
    "equalization_range": lambda: L.Equalization((-50, 300), bins=64),
    "tiles": lambda: CLAHE(tile_grid_size=(2, 3)),
    "tiles_range": lambda: CLAHE((-50, 300), 1.7, (4, 5)),
    "tiles_free": lambda: CLAHE(clip_limit=0.0, tile_grid_size=(1, 1)),
    "tiles_many": lambda: CLAHE(),
    "perspective_none": lambda: L.RandomPerspective((1.0, 1.0), scale=0.0),
}
# Keras on the CPU has these in channels first too.
FIXED_FIRST: dict[str, Callable[[], L.Layer]] = {
    "resizing": lambda: L.Resizing(7, 5, **FIRST),
    "center_crop": lambda: L.CenterCrop(4, 7, **FIRST),
    "rotation": lambda: L.RandomRotation((0.137, 0.137), **FIRST),
    "zoom": lambda: L.RandomZoom((0.23, 0.23), **FIRST),
    "contrast": lambda: L.RandomContrast((0.0, 0.0), **FIRST),
    "sharpness": lambda: L.RandomSharpness((0.8, 0.8), **FIRST),
    "saturation": lambda: L.RandomSaturation((0.3, 0.3), **FIRST),
    "degeneration": lambda: L.RandomColorDegeneration((0.4, 0.4), **FIRST),
    "blur": lambda: L.RandomGaussianBlur((1.0, 1.0), 3, (0.7, 0.7), **FIRST),
    "equalization": lambda: L.Equalization(**FIRST),
    "tiles": lambda: CLAHE(tile_grid_size=(3, 2), **FIRST),
}


@pytest.mark.parametrize("first", [False, True])
def test_pictures_are_keras(first: bool, tmp_path: Path) -> None:
    made = {name: make() for name, make in (FIXED_FIRST if first else FIXED).items()}
    x = pictures(4, *((3, 9, 12) if first else SHAPE))
    x[1, :, :, 1] = 40  # a channel of one number, and gray
    ours = trained_outputs(tmp_path, made, x)
    wrong = {}
    for name, layer in made.items():
        theirs = by_keras(layer, x)
        assert ours[name].shape == theirs.shape, name
        off = np.abs(ours[name] - theirs).max()
        if not off <= 2e-5 * 255:
            wrong[name] = (off, np.mean(np.abs(ours[name] - theirs) > 1e-2))
    assert not wrong, wrong


def test_bytes_stay_bytes(tmp_path: Path) -> None:
    x = pictures(3, *SHAPE).astype("uint8")
    made = {
        "bilinear": L.Resizing(7, 5),
        "nearest": L.Resizing(13, 7, interpolation="nearest"),
        "flip": L.RandomRotation((0.2, 0.2)),
    }
    ours = trained_outputs(tmp_path, made, x)
    for name, layer in made.items():
        theirs = by_keras(layer, x).astype("float32")
        assert np.abs(ours[name] - theirs).max() <= 1e-3, name


def matched(ours: np.ndarray, choices: list[np.ndarray], tolerance: float = 5e-3) -> np.ndarray:
    """Which of the choices each sample is; it must be one of them."""
    off = np.stack([np.abs(ours - one).reshape(len(ours), -1).max(1) for one in choices])
    assert off.min(0).max() <= tolerance, off.min(0)
    return off.argmin(0)


def test_each_sample_draws(tmp_path: Path) -> None:
    """Flips, signs and the like: every sample is one of the pictures that there may be."""
    x = pictures(64, 5, 4, 3)
    made = {
        "flip": L.RandomFlip(),
        "horizontal": L.RandomFlip("horizontal"),
        "vertical": L.RandomFlip("vertical"),
        "grayscale": L.RandomGrayscale(0.5),
        "invert": L.RandomInvert((0.5, 0.5)),
        "hue": L.RandomHue((0.3, 0.3)),
        "shear": L.RandomShear((0.31, 0.31), (0.17, 0.17)),
        "blur": L.RandomGaussianBlur((0.5, 0.5), 3, (0.5, 0.5)),
        "contrast": L.RandomContrast((0.6, 0.6), (-500, 700)),
        "solarization": L.Solarization(0.0, (0.2, 0.8)),
        "erasing": L.RandomErasing((0.5, 0.5), (0.3, 0.3), 7.0),
    }
    ours = trained_outputs(tmp_path, made, x)
    same = np.zeros(len(x), "float32")
    hue = [by_keras(made["hue"], x, factor=same + f) for f in (-0.15, 0.15)]
    shear = [by_keras(made["shear"], x, shear_factor=np.tile([[0.31, 0.17]], (len(x), 1)) * f)
             for f in (-1.0, 1.0)]  # fmt: skip
    choices = {
        "flip": [x, x[:, ::-1, ::-1]],
        "horizontal": [x, x[:, :, ::-1]],
        "vertical": [x, x[:, ::-1]],
        "grayscale": [x, by_keras(L.RandomGrayscale(1.0), x)],
        "invert": [x, 255 - x],
        "hue": hue,
        "shear": shear,
        "blur": [x, by_keras(L.RandomGaussianBlur((1.0, 1.0), 3, (0.5, 0.5)), x)],
    }
    drawn = {name: matched(ours[name], pair) for name, pair in choices.items()}
    for name, which in drawn.items():
        assert 16 <= which.sum() <= 48, (name, which.sum())
    assert len({tuple(which) for which in drawn.values()}) == len(drawn)  # each layer its own

    middle = x.mean((1, 2), keepdims=True)
    factor = ((ours["contrast"] - middle) * (x - middle)).sum((1, 2, 3)) / np.square(
        x - middle
    ).sum((1, 2, 3))
    assert 0.4 <= factor.min() < 0.6 and 1.4 < factor.max() <= 1.6
    again = by_keras(
        made["contrast"], x, contrast_factor=factor.reshape(-1, 1, 1, 1).astype("float32")
    )
    assert np.abs(again - ours["contrast"]).max() < 5e-3

    inverted = np.abs(ours["solarization"] - (255 - x)) < 5e-3
    assert np.all(inverted | (np.abs(ours["solarization"] - x) < 5e-3))
    for picture, turned in zip(x, inverted):
        assert not turned.any() or picture[~turned].max(initial=0) <= picture[turned].min()
    assert 0.1 < inverted.mean() < 0.9

    erased = np.abs(ours["erasing"] - 7.0) < 1e-3
    assert np.all(erased | (np.abs(ours["erasing"] - x) < 5e-3))
    some = erased.all(-1).any((1, 2))
    assert 16 <= some.sum() <= 48
    for mask in erased.all(-1)[some]:
        rows, columns = mask.any(1), mask.any(0)
        assert (mask == np.outer(rows, columns)).all()
        # √0.3 of 5 rows and of 4 columns.
        assert rows.sum() in (2, 3) and columns.sum() in (2, 3)


def ramp(count: int) -> np.ndarray:
    """Pictures that say where a pixel came from: its column, its row."""
    row, column = np.mgrid[0:5, 0:5].astype("float32")
    return np.tile(np.stack([column, row, 0 * row], -1)[None], (count, 1, 1, 1))


# Layers, and what is measured of each picture that they make of a ramp.
Measure = Callable[[np.ndarray], np.ndarray]
DISTRIBUTIONS: dict[str, tuple[Callable[[], L.Layer], Measure]] = {
    "flip": (lambda: L.RandomFlip("vertical", seed=1), lambda y: y[:, 0, 0, 1]),
    "rotation": (
        lambda: L.RandomRotation((-0.2, 0.3), seed=1),
        lambda y: np.arctan2(y[:, 2, 3, 1] - 2, y[:, 2, 3, 0] - 2),
    ),
    "zoom": (lambda: L.RandomZoom((-0.3, 0.2), seed=1), lambda y: y[:, 3, 2, 1]),
    "zoom_width": (
        lambda: L.RandomZoom(0.1, (-0.5, 0.1), seed=1),
        lambda y: y[:, 2, 3, 0] - 0.5 * y[:, 3, 2, 1],
    ),
    "translation": (
        lambda: L.RandomTranslation((-0.3, 0.1), 0.2, seed=1),
        lambda y: y[:, 2, 2, 1] + 0.5 * y[:, 2, 2, 0],
    ),
    "brightness": (
        lambda: L.RandomBrightness((-0.2, 0.4), (-9, 91), seed=1), lambda y: y[:, 2, 2, 2]
    ),
    "contrast": (lambda: L.RandomContrast((0.3, 0.9), (-99, 99), seed=1), lambda y: y[:, 0, 4, 0]),
    "saturation": (lambda: L.RandomSaturation((0.1, 0.6), seed=1), lambda y: y[:, 1, 4, 2]),
    "hue": (lambda: L.RandomHue((0.1, 0.9), seed=1), lambda y: y[:, 1, 4, 2] + y[:, 1, 4, 0]),
    "degeneration": (
        lambda: L.RandomColorDegeneration((0.1, 0.6), seed=1), lambda y: y[:, 1, 4, 2]
    ),
    "invert": (lambda: L.RandomInvert((0.1, 0.5), (0, 10), seed=1), lambda y: y[:, 2, 2, 2]),
    "posterization": (
        lambda: L.RandomPosterization((1, 6), (0, 4.3), seed=1), lambda y: y[:, 3, 3, 1]
    ),
    "sharpness": (lambda: L.RandomSharpness((0.2, 0.9), seed=1), lambda y: y[:, 1, 4, 0]),
    "solarization": (
        lambda: L.Solarization((0.1, 0.3), (0.1, 0.9), (0, 9), seed=1), lambda y: y[:, 1, 4, 0]
    ),
    "erasing": (
        lambda: L.RandomErasing((0.2, 0.9), (0.1, 0.7), 7.0, seed=1),
        lambda y: (y[..., 2] > 6).sum((1, 2)),
    ),
    "erasing_where": (
        lambda: L.RandomErasing(1.0, (0.2, 0.3), 7.0, seed=1),
        lambda y: (y[..., 2] > 6).any(1).argmax(1),
    ),
    "noise": (
        lambda: L.RandomErasing((1, 1), (1, 1), None, (-9, 3), seed=1), lambda y: y[:, 2, 2, 0]
    ),
}  # fmt: skip


def largest_gap(a: np.ndarray, b: np.ndarray) -> float:
    """Kolmogorov and Smirnov's: between the shares of two samples that are below a number."""
    at = np.sort(np.concatenate([a, b]))
    share = [np.searchsorted(np.sort(one), at, "right") / len(one) for one in (a, b)]
    return float(np.abs(share[0] - share[1]).max())


def test_draws_are_distributed_as_keras(tmp_path: Path) -> None:
    count = 4000
    x = ramp(count)
    made = {name: make() for name, (make, _) in DISTRIBUTIONS.items()}
    ours = trained_outputs(tmp_path, made, x)
    wrong = {}
    for name, (_, measure) in DISTRIBUTIONS.items():
        # What is equal but for rounding is equal.
        one, other = (
            measure(y).astype("float64").round(3) for y in (ours[name], by_keras(made[name], x))
        )
        gap = largest_gap(one, other)
        # Two samples of one distribution are farther apart once in 2,000 times.
        if not gap <= 2.03 * np.sqrt(2 / count) or len(set(one)) < 2:
            wrong[name] = (gap, one[:5], other[:5])
    assert not wrong, wrong


def test_a_batch_is_cropped_at_one_corner(tmp_path: Path) -> None:
    x = ramp(8)
    made = {f"crop_{i}": L.RandomCrop(3, 4, name=f"crop_{i}") for i in range(48)}
    ours = trained_outputs(tmp_path, made, x)
    corners = []
    for y in ours.values():
        top, left = y[0, 0, 0, 1].round(), y[0, 0, 0, 0].round()
        corners.append((int(top), int(left)))
        whole = x[:, corners[-1][0] : corners[-1][0] + 3, corners[-1][1] : corners[-1][1] + 4]
        assert np.abs(y - whole).max() < 1e-4
    assert set(corners) == {(top, left) for top in range(3) for left in range(2)}


def every_layer() -> dict[str, L.Layer]:
    return {
        "flip": L.RandomFlip(), "rotation": L.RandomRotation(0.2), "zoom": L.RandomZoom(0.3, 0.2),
        "translation": L.RandomTranslation(0.2, 0.2),
        "shear": L.RandomShear((0.0, 0.2), (0.1, 0.3)),
        "contrast": L.RandomContrast(0.5), "brightness": L.RandomBrightness(0.2),
        "crop": L.RandomCrop(11, 9), "saturation": L.RandomSaturation((0.2, 0.7)),
        "hue": L.RandomHue(0.4), "grayscale": L.RandomGrayscale(0.4),
        "invert": L.RandomInvert(0.5), "erasing": L.RandomErasing(),
        "posterization": L.RandomPosterization((2, 6)), "sharpness": L.RandomSharpness(0.6),
        "blur": L.RandomGaussianBlur(), "solarization": L.Solarization(0.2, 0.4),
        "auto": L.AutoContrast(), "resizing": L.Resizing(9, 20),
        "degeneration": L.RandomColorDegeneration(0.4), "center": L.CenterCrop(9, 8),
        "perspective": L.RandomPerspective(0.8), "mix": L.MixUp(0.4), "cut": L.CutMix(),
        "equal": L.Equalization(bins=32), "augment": L.RandAugment(), "tiles": CLAHE(),
    }  # fmt: skip


def test_every_limit_and_thread_count_gives_the_same_bits(tmp_path: Path) -> None:
    made = every_layer()
    model, arguments = save_for_training(tmp_path, made, pictures(48, 16, 16, 3))
    planned = json.loads(run_plimsoll("plan", *arguments, "--json").stdout)
    points = planned["frontier"]
    smallest = min(points, key=lambda point: point["process_bytes"])
    assert "loops of" in smallest["strategy"] or "slices" in smallest["strategy"], smallest
    found = []
    for options in (
        ["--threads", 1], ["--threads", 2], ["--memory", smallest["process_bytes"]],
        ["--backend", "reference"],
    ):  # fmt: skip
        run_plimsoll("fit", *arguments, "--epochs", 2, "--no-shuffle",
                     "--output", tmp_path / "out.keras", *options)  # fmt: skip
        found.append(tables(model, tmp_path / "out.keras"))
    for other in found[1:3]:
        assert all((other[name] == found[0][name]).all() for name in found[0])
    for name, table in found[3].items():
        assert np.abs(table - found[0][name]).max() <= 1e-5 * np.abs(table).max(), name
    written = keras.saving.load_model(tmp_path / "out.keras")
    for layer in made.values():
        config = written.get_layer(layer.name).get_config()
        assert json.dumps(config) == json.dumps(layer.get_config())


def test_afterwards_random_layers_do_nothing(tmp_path: Path) -> None:
    inner = [layer for name, layer in every_layer().items() if name not in ("crop", "center")]
    model = keras.Sequential(
        [keras.Input((12, 10, 3)), *inner, L.RandomCrop(9, 20), L.Flatten(), L.Dense(4)]
    )
    model.save(tmp_path / "model.keras")
    x = pictures(5, 12, 10, 3)
    np.save(tmp_path / "x.npy", x)
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.npy",
                 "--output", tmp_path / "y.npy")  # fmt: skip
    theirs = model.predict(x, verbose=0)
    assert np.abs(np.load(tmp_path / "y.npy") - theirs).max() <= 2e-5 * np.abs(theirs).max()


def test_a_crop_is_for_training_alone(tmp_path: Path) -> None:
    """What stands after it may take one size, and then trains only, or both."""
    x = pictures(6, 9, 8, 3)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", images(3)[:6])
    data = [tmp_path / "model.keras", "--data", tmp_path / "x.npy"]
    for size_matters in (True, False):
        end = [L.Flatten()] if size_matters else [L.Conv2D(2, 2), L.GlobalAveragePooling2D()]
        model = keras.Sequential(
            [keras.Input((9, 8, 3)), L.RandomCrop(5, 6), *end, L.Dense(3, name="last")]
        )
        model.compile(keras.optimizers.SGD(1e-6), "mse")
        model.save(tmp_path / "model.keras")
        run_plimsoll("fit", *data, "--labels", tmp_path / "y.npy", "--batch", 6, "--steps", 1,
                     "--output", tmp_path / "out.keras")  # fmt: skip
        done = run_plimsoll("predict", *data, "--output", tmp_path / "p.npy", check=False)
        if size_matters:
            assert done.returncode == 4
            assert "last" in done.stderr
        else:
            theirs = model.predict(x, verbose=0)
            assert np.abs(np.load(tmp_path / "p.npy") - theirs).max() <= 1e-5 * np.abs(theirs).max()


def after_a_convolution(*more: Callable[[], L.Layer]) -> Case:
    return regress(
        (9, 8, 4), lazy(L.Conv2D, 3, 2, padding="same"), *more, lazy(L.Activation, "tanh")
    )


GRADIENTS = {
    "bilinear": after_a_convolution(lazy(L.Resizing, 5, 13)),
    "nearest": after_a_convolution(lazy(L.Resizing, 13, 5, interpolation="nearest")),
    "crop": after_a_convolution(lazy(L.Resizing, 6, 4, crop_to_aspect_ratio=True)),
    "pad": after_a_convolution(lazy(L.Resizing, 6, 4, pad_to_aspect_ratio=True, fill_value=0.5)),
    "center crop": after_a_convolution(lazy(L.CenterCrop, 4, 5)),
    "brightness": after_a_convolution(lazy(L.RandomBrightness, (0.1, 0.1), (-0.5, 0.6))),
    "contrast": after_a_convolution(lazy(L.RandomContrast, (0.0, 0.0), (-0.5, 0.6))),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, GRADIENTS[name])


def test_a_gradient_that_there_is_not_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential(
        [keras.Input((6, 6, 3)), L.Conv2D(3, 2), L.RandomRotation(0.1, name="turn"), L.Flatten(),
         L.Dense(3)]
    )  # fmt: skip
    model.compile("sgd", "mse")
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", images(6, 6, 3))
    np.save(tmp_path / "y.npy", images(3))
    arguments = [tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--labels",
                 tmp_path / "y.npy", "--batch", 8]  # fmt: skip
    result = run_plimsoll("plan", *arguments, check=False)
    assert result.returncode != 0
    assert "turn" in result.stderr
    assert "in front of all layers that are trained" in result.stderr


BYTES, NUMBERS = "uint8", "float32"
REFUSED: list[tuple[Callable[[], L.Layer], str, str]] = [
    (lambda: L.Resizing(4, 4, interpolation="bicubic"), NUMBERS, "Use bilinear."),
    (lambda: L.Resizing(4, 4, antialias=True), NUMBERS, "Resize the data before training."),
    (lambda: L.RandomBrightness(0.1), BYTES, "Put a Rescaling layer before it."),
    (lambda: L.AutoContrast(**FIRST), NUMBERS, "Put a Permute layer before it"),
    (lambda: L.RandomColorJitter(**FIRST), NUMBERS, "Put a Permute layer before it"),
    (lambda: L.RandomElasticTransform(0.1), NUMBERS, "in a model Keras puts the first image"),
]


def test_keras_distorts_the_first_image_alone() -> None:
    """Why RandomElasticTransform is refused: a model is called on batches of any size."""
    layer = L.RandomElasticTransform(1.0, scale=(0.2, 0.2), value_range=(0, 1), seed=1)
    layer.factor = (1.0, 1.0)
    model = keras.Sequential([keras.Input((8, 8, 1)), layer])
    x = np.stack([np.full((8, 8, 1), shade, "float32") for shade in (0.2, 0.5, 0.9)])
    traced = tf.function(
        lambda x: model(x, training=True), [tf.TensorSpec((None, 8, 8, 1), "float32")]
    )
    np.testing.assert_allclose(traced(x), np.full_like(x, 0.2), rtol=1e-6)


def test_what_is_not_computed_is_refused(tmp_path: Path) -> None:
    for make, dtype, words in REFUSED:
        model = keras.Sequential([keras.Input((6, 3, 3), dtype=dtype), make()])
        model.save(tmp_path / "model.keras")
        answer = run_plimsoll("check", tmp_path / "model.keras", check=False)
        assert answer.returncode == 4, words
        assert words in answer.stdout + answer.stderr, (words, answer.stdout, answer.stderr)
