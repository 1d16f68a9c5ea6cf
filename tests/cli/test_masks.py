"""Images whose labels are images: the same bits as their arrays, partners by name, refusals."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_images import DATA, USAGE, layer, palette, png, write_model

SIDE = 12


class Pairs:
    """Folders of images and masks, and a way to train on them."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.images, self.masks = folder / "images", folder / "masks"
        self.images.mkdir()
        self.masks.mkdir()
        self.rng = np.random.default_rng(5)

    def add(self, name: str, mask: bytes, mask_name: str | None = None) -> np.ndarray:
        pixels = self.rng.integers(0, 256, (SIDE, SIDE * 3)).astype("uint8")
        for path, content in [
            (self.images / f"{name}.png", png(pixels, 2)),
            (self.masks / f"{mask_name or name}.png", mask),
        ]:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return pixels.reshape(SIDE, SIDE, 3)

    def model(self, channels: int, activation: str, side: int = SIDE) -> Path:
        strides = {"strides": [SIDE // side, SIDE // side]} if side != SIDE else {}
        return write_model(
            self.folder / "model.json", [SIDE, SIDE, 3],
            layer("Rescaling", "scale", scale=1 / 255),
            layer("Conv2D", "c1", filters=4, kernel_size=[3, 3], padding="same", activation="relu"),
            layer("Conv2D", "out", filters=channels, kernel_size=[1, 1], activation=activation,
                  **strides),
        )  # fmt: skip

    def fit(self, model: Path, loss: str, *more: Any) -> subprocess.CompletedProcess[str]:
        words = [self.binary, "fit", model, "--optimizer", "adam(learning_rate=0.01)", "--loss",
                 loss, "--batch", 4, *more]  # fmt: skip
        if "--data" not in more:
            words += ["--data", self.images, "--labels", self.masks]
        return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=120)

    def trained(self, name: str, model: Path, loss: str, *more: Any) -> bytes:
        output = self.folder / f"{name}.h5"
        done = self.fit(model, loss, "--seed", 3, "--epochs", 2, "--output", output, *more)
        assert done.returncode == 0, done.stderr
        return output.read_bytes()


@pytest.fixture
def pairs(plimsoll: Path, tmp_path: Path) -> Pairs:
    return Pairs(plimsoll, tmp_path)


def grey(numbers: np.ndarray, depth: int = 8) -> bytes:
    rows = np.packbits(numbers.astype(bool), 1) if depth == 1 else numbers.astype("uint8")
    return png(rows, 0, depth=depth)


def nearest(mask: np.ndarray, side: int) -> np.ndarray:
    tf = pytest.importorskip("tensorflow")
    return tf.image.resize(mask[..., None], (side, side), method="nearest").numpy()


@pytest.mark.parametrize(
    ("channels", "loss", "side"),
    [
        (1, "binary_crossentropy", 12), (1, "binary_crossentropy", 6),
        (4, "sparse_categorical_crossentropy", 12), (4, "categorical_crossentropy", 6),
        (2, "sparse_categorical_crossentropy", 12),
    ],
)  # fmt: skip
def test_the_bits_of_the_arrays(pairs: Pairs, channels: int, loss: str, side: int) -> None:
    """Masks of other sizes than the model's, in every form that a mask is kept in."""
    classes = max(channels, 2)
    colours = palette(pairs.rng.integers(0, 256, (256, 3)))
    x, y = [], []
    for i in range(10):
        shape = [pairs.rng.integers(5, 40), 8 * pairs.rng.integers(1, 5)]
        numbers = pairs.rng.integers(0, classes, shape)
        forms = [
            grey(numbers), png(numbers.astype("uint8"), 3, extra=colours),
            png(np.repeat(numbers.astype("uint8"), 3, 1), 2),
            grey(numbers * 255 if classes == 2 else numbers),
            grey(numbers, depth=1) if classes == 2 else grey(numbers),
        ]  # fmt: skip
        name = f"{'ab'[i % 2]}/{i}"  # in folders, alike on both sides
        x.append((name, pairs.add(name, forms[i % 5], f"{name}_mask" if i % 3 else None)))
        y.append((name, nearest(numbers, side)))
    images = np.stack([pixels for _, pixels in sorted(x, key=lambda pair: pair[0])])
    masks = np.stack([mask for _, mask in sorted(y, key=lambda pair: pair[0])])
    if loss == "categorical_crossentropy":
        masks = np.eye(classes)[masks[..., 0]]
    np.save(pairs.folder / "x.npy", images)
    np.save(pairs.folder / "y.npy", masks.astype("float32"))
    model = pairs.model(channels, "sigmoid" if channels == 1 else "softmax", side)
    arrays = ["--data", pairs.folder / "x.npy", "--labels", pairs.folder / "y.npy"]
    expected = pairs.trained("arrays", model, loss, *arrays)
    assert pairs.trained("pairs", model, loss) == expected
    assert pairs.trained("limited", model, loss, "--memory", "40MiB") == expected


def bright(pairs: Pairs, count: int) -> None:
    """Masks that say which pixels are bright in their red."""
    for i in range(count):
        pixels = pairs.rng.integers(0, 256, (SIDE, SIDE, 3)).astype("uint8")
        mask = np.where(pixels[..., 0] > 127, 255, 0)
        (pairs.images / f"{i:02}.png").write_bytes(png(pixels.reshape(SIDE, -1), 2))
        (pairs.masks / f"{i:02}.png").write_bytes(grey(mask))


def test_images_and_masks_stay_together(pairs: Pairs) -> None:
    bright(pairs, 40)
    log = pairs.folder / "log.jsonl"
    done = pairs.fit(
        pairs.model(1, "sigmoid"), "binary_crossentropy", "--metrics", "accuracy", "--epochs", 60,
        "--validation-split", 0.2, "--log", log, "--memory", "40MiB", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["accuracy"] > 0.97 and last["val_accuracy"] > 0.97, last
    summary = json.loads(done.stdout)
    assert summary["measured_process_bytes"] <= summary["predicted_process_bytes"]


def test_what_the_plan_says_and_prediction_without_masks(pairs: Pairs) -> None:
    bright(pairs, 6)
    model = pairs.model(1, "sigmoid")
    done = pairs.fit(model, "binary_crossentropy")
    assert "data: 6 samples of (12, 12, 3) float32" in done.stderr, done.stderr
    assert "of images with masks" in done.stderr and "shuffle full" in done.stderr
    out = pairs.folder / "p.npy"
    words = [pairs.binary, "predict", model, "--data", pairs.images, "--output", out]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.load(out).shape == (6, SIDE, SIDE, 1)
    done = pairs.fit(model, "binary_crossentropy", "--data", pairs.images)
    assert done.returncode == USAGE and "Name the labels with --labels" in done.stderr


def refused(pairs: Pairs, code: int, *words: str, **changes: Any) -> None:
    loss = changes.get("loss", "binary_crossentropy")
    activation = "sigmoid" if loss.startswith("binary") else "softmax"
    done = pairs.fit(pairs.model(changes.get("channels", 1), activation), loss, "--no-shuffle")
    assert done.returncode == code, (done.returncode, done.stderr)
    for word in words:
        assert word in done.stderr, done.stderr


def test_partners_that_are_missing(pairs: Pairs) -> None:
    bright(pairs, 4)
    (pairs.masks / "02.png").rename(pairs.folder / "away.png")
    refused(
        pairs, DATA, "images/02.png: expected its mask", "masks/02.png or", "02_mask.png",
        "1 of 4 files have none",
    )  # fmt: skip
    (pairs.folder / "away.png").rename(pairs.masks / "02.png")
    (pairs.masks / "07_mask.png").write_bytes((pairs.masks / "01.png").read_bytes())
    refused(pairs, DATA, "masks/07_mask.png: expected an image", "images/07.jpg or .png")


@pytest.mark.parametrize("cached", [False, True])
def test_damaged_partners_leave_together(pairs: Pairs, cached: bool) -> None:
    """A damaged image takes its mask along and a damaged mask its image, into a cache too."""
    bright(pairs, 9)
    model = pairs.model(1, "sigmoid")
    both = [(pairs.images, "03"), (pairs.masks, "05"), (pairs.images, "07"), (pairs.masks, "07")]
    for folder, name in both:
        path = folder / f"{name}.png"
        path.write_bytes(path.read_bytes()[:-30])
    more = ["--skip-damaged", *(["--cache", pairs.folder / "cache"] if cached else [])]
    done = pairs.fit(model, "binary_crossentropy", *more)
    assert done.returncode == 0, done.stderr
    assert "data: 6 samples of" in done.stderr, done.stderr
    assert "(3 damaged ones skipped)" in done.stderr
    first = pairs.trained("first", model, "binary_crossentropy", *more)
    again = pairs.trained("again", model, "binary_crossentropy", *more)
    for name in ["03", "05", "07"]:
        (pairs.images / f"{name}.png").unlink()
        (pairs.masks / f"{name}.png").unlink()
    assert first == again == pairs.trained("sound", model, "binary_crossentropy")


def test_a_cache_follows_what_is_left(pairs: Pairs) -> None:
    """A mask that is damaged later, and one that is mended: no run reads another's cache."""
    bright(pairs, 5)
    model = pairs.model(1, "sigmoid")
    more = ["--skip-damaged", "--cache", pairs.folder / "cache"]
    path = pairs.masks / "02.png"
    good = path.read_bytes()
    for content, left in [(good, 5), (good[:-30], 4), (good, 5)]:
        path.write_bytes(content)
        done = pairs.fit(model, "binary_crossentropy", *more)
        assert done.returncode == 0, done.stderr
        assert f"data: {left} samples of" in done.stderr, done.stderr
        shapes = sorted(np.load(file).shape for file in (pairs.folder / "cache").iterdir())
        assert shapes == [(left, SIDE, SIDE, 1), (left, SIDE, SIDE, 3)]


def test_masks_that_are_none(pairs: Pairs) -> None:
    bright(pairs, 4)
    numbers = np.zeros((9, 8), "uint8")
    numbers[5, 2] = 37
    good = (pairs.masks / "03.png").read_bytes()
    (pairs.masks / "03.png").write_bytes(grey(numbers.repeat(3, 0).repeat(3, 1)))
    refused(pairs, DATA, "masks/03.png: expected classes from 0 to 1, or 0 and 255", "received 37")
    skipped = pairs.fit(pairs.model(1, "sigmoid"), "binary_crossentropy", "--skip-damaged")
    assert skipped.returncode == 0, skipped.stderr
    assert "data: 3 samples of" in skipped.stderr and "(1 damaged" in skipped.stderr
    sparse = {"loss": "sparse_categorical_crossentropy", "channels": 3}
    refused(pairs, DATA, "00.png: expected classes from 0 to 2", "received 255", **sparse)
    (pairs.masks / "03.png").write_bytes(png(numbers[:, :6], 2))
    refused(pairs, DATA, "03.png: expected a mask of one number a pixel", "the colour (")
    (pairs.masks / "03.png").write_bytes(png(np.zeros((4, 8), "uint8"), 0, depth=16))
    refused(pairs, DATA, "03.png: expected a mask of 8 bits a pixel at most, received one of 16")
    (pairs.masks / "03.png").write_bytes(good[:-30])
    refused(pairs, DATA, "03.png: expected a whole PNG image")
    (pairs.masks / "03.png").write_bytes(good)
    flat = write_model(
        pairs.folder / "model.json", [SIDE, SIDE, 3], layer("Flatten", "f"),
        layer("Dense", "out", units=1, activation="sigmoid"),
    )  # fmt: skip
    done = pairs.fit(flat, "binary_crossentropy")
    assert done.returncode == USAGE, done.stderr
    assert "a folder of masks needs a model that gives (height, width, classes)" in done.stderr
    np.save(pairs.folder / "x.npy", np.zeros((4, SIDE, SIDE, 3), "float32"))
    done = pairs.fit(
        pairs.model(1, "sigmoid"), "binary_crossentropy", "--data", pairs.folder / "x.npy",
        "--labels", pairs.masks,
    )  # fmt: skip
    assert done.returncode == USAGE, done.stderr
    assert "expected a folder of images as --data beside a folder of masks" in done.stderr
