"""Folders of images: pixels as Keras gives them, any order of threads, damage, memory."""

import json
import multiprocessing
import os
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

USAGE, DATA = 2, 5


def layer(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


def write_model(path: Path, shape: list[int], *layers: dict[str, Any]) -> Path:
    first = layer("InputLayer", "in", batch_shape=[None, *shape], dtype="float32")
    config = {"name": "net", "layers": [first, *layers]}
    path.write_text(json.dumps({"class_name": "Sequential", "config": config}))
    return path


def png(pixels: np.ndarray, colour_type: int, depth: int = 8, extra: bytes = b"") -> bytes:
    """A PNG of rows of bytes (height, row bytes), each after filter 0."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        sum_ = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", sum_)

    height, row_bytes = pixels.shape
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour_type]
    width = row_bytes * 8 // (channels * depth)
    head = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    rows = np.concatenate([np.zeros((height, 1), "uint8"), pixels], axis=1)
    data = chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(rows.tobytes()))
    return b"\x89PNG\r\n\x1a\n" + data + chunk(b"IEND", b"")


def palette(colours: np.ndarray) -> bytes:
    content = colours.astype("uint8").tobytes()
    return (
        struct.pack(">I", len(content)) + b"PLTE" + content
        + struct.pack(">I", zlib.crc32(b"PLTE" + content))
    )  # fmt: skip


class Images:
    """Two classes of images in a folder, and a way to run the program on them."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.data = folder / "images"
        for name in ["ant", "bee"]:
            (self.data / name).mkdir(parents=True)

    def run(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        command = [str(self.binary), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def pixels(self, shape: list[int], *more: Any) -> np.ndarray:
        """What the program reads, through a network that hands it on."""
        model = write_model(self.folder / "identity.json", shape, layer("Flatten", "flat"))
        out = self.folder / "pixels.npy"
        result = self.run("predict", model, "--data", self.data, "--output", out, *more)
        assert result.returncode == 0, result.stderr
        return np.load(out).reshape(-1, *shape)

    def keras_pixels(self, shape: list[int]) -> np.ndarray:
        keras = pytest.importorskip("keras")
        try:
            multiprocessing.Lock()
        except OSError as error:
            pytest.skip(f"Keras lists a folder by a pool, which needs /dev/shm: {error}")
        mode = {1: "grayscale", 3: "rgb", 4: "rgba"}[shape[2]]
        dataset = keras.utils.image_dataset_from_directory(
            self.data, shuffle=False, image_size=tuple(shape[:2]), color_mode=mode, verbose=False
        )
        return np.concatenate([x.numpy() for x, _ in dataset])

    def fit(self, *more: Any, epochs: int = 1) -> subprocess.CompletedProcess[str]:
        model = write_model(
            self.folder / "model.json", [12, 10, 3],
            layer("Rescaling", "scale", scale=1 / 255), layer("Flatten", "flat"),
            layer("Dense", "out", units=1, activation="sigmoid"),
        )  # fmt: skip
        return self.run(
            "fit", model, "--data", self.data, "--optimizer", "adam(learning_rate=0.01)", "--loss",
            "binary_crossentropy", "--batch", 8, "--epochs", epochs, *more,
        )  # fmt: skip


@pytest.fixture
def images(plimsoll: Path, tmp_path: Path) -> Images:
    return Images(plimsoll, tmp_path)


@pytest.fixture(scope="session")
def cats_dogs() -> Path:
    folder = os.environ.get("PLIMSOLL_TEST_DATA")
    if not folder:
        pytest.skip("PLIMSOLL_TEST_DATA names no folder of test data")
    return Path(folder) / "data" / "cats_dogs"


def random_pngs(images: Images, count: int = 24) -> None:
    rng = np.random.default_rng(3)
    for i in range(count):
        size = rng.integers(1, 40, 2)
        pixels = rng.integers(0, 256, (size[0], size[1] * 3)).astype("uint8")
        (images.data / ["ant", "bee"][i % 2] / f"{i:03}.png").write_bytes(png(pixels, 2))


@pytest.mark.parametrize("shape", [[12, 10, 3], [37, 51, 3], [20, 20, 1], [9, 30, 4]])
def test_pngs_are_read_as_keras_reads_them(images: Images, shape: list[int]) -> None:
    rng = np.random.default_rng(1)
    byte = lambda *size: rng.integers(0, 256, size).astype("uint8")  # noqa: E731
    (images.data / "ant/rgb.png").write_bytes(png(byte(17, 3 * 23), 2))
    (images.data / "ant/one.png").write_bytes(png(byte(1, 3), 2))
    (images.data / "ant/deep.png").write_bytes(png(byte(8, 6 * 11), 2, depth=16))
    (images.data / "bee/gray.PNG").write_bytes(png(byte(31, 12), 0))
    if shape[2] != 4:  # TensorFlow makes the alpha of one bit 1, not 255
        (images.data / "bee/bits.png").write_bytes(png(byte(9, 2), 0, depth=1))
    (images.data / "bee/alpha.png").write_bytes(png(byte(12, 4 * 10), 6))
    colours = palette(byte(256, 3))
    (images.data / "bee/palette.png").write_bytes(png(byte(15, 14), 3, extra=colours))
    (images.data / "bee/notes.txt").write_text("no image")
    ours, theirs = images.pixels(shape), images.keras_pixels(shape)
    assert ours.shape == theirs.shape == (6 + (shape[2] != 4), *shape)
    if shape[2] == 1:  # grey from colours is rounded before it is resized
        assert np.abs(ours - theirs).max() <= 1.01
    else:
        np.testing.assert_allclose(ours, theirs, atol=2e-4)


def test_jpegs_are_read_as_keras_reads_them(images: Images, cats_dogs: Path) -> None:
    files = sorted(cats_dogs.rglob("*.jpg"))[::70]
    for i, file in enumerate(files):
        (images.data / ["ant", "bee"][i % 2] / file.name).symlink_to(file)
    shape = [64, 48, 3]
    difference = np.abs(images.pixels(shape) - images.keras_pixels(shape))
    assert difference.max() < 2e-3, difference.max()


def test_every_image_of_the_corpus_is_read(images: Images, cats_dogs: Path) -> None:
    images.data = cats_dogs
    pixels = images.pixels([8, 8, 3], "--batch", 64)
    assert len(pixels) == sum(1 for _ in cats_dogs.rglob("*.jpg"))


def test_threads_and_limits_change_nothing(images: Images) -> None:
    random_pngs(images)
    results = set()
    for name, options in {
        "a": ["--threads", 1], "b": ["--threads", 4], "c": ["--memory", "40MiB"],
    }.items():  # fmt: skip
        output = images.folder / f"{name}.keras"
        more = ["--threads", 2] if name == "c" else options
        result = images.fit("--output", output, *more, *(options if name == "c" else []), epochs=3)
        assert result.returncode == 0, result.stderr
        results.add(output.read_bytes())
    # The same network on other numbers of threads may round otherwise; this one has too little
    # work for more than one.
    assert len(results) == 1


def test_labels_are_the_folders(images: Images) -> None:
    """Dark and light: what is learned shows that images and labels stayed together."""
    rng = np.random.default_rng(2)
    for i in range(60):
        low = 0 if i % 2 == 0 else 140
        pixels = rng.integers(low, low + 110, (11, 3 * 13)).astype("uint8")
        (images.data / ["ant", "bee"][i % 2] / f"{i}.png").write_bytes(png(pixels, 2))
    log = images.folder / "log.jsonl"
    result = images.fit(
        "--metrics", "accuracy", "--log", log, "--validation-split", 0.25, "--seed", 4, epochs=40
    )
    assert result.returncode == 0, result.stderr
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["accuracy"] > 0.95 and last["val_accuracy"] > 0.9, last


@pytest.mark.parametrize("how", ["cut", "flipped", "empty", "text"])
def test_damaged_images(images: Images, cats_dogs: Path, how: str) -> None:
    good = sorted((cats_dogs / "cat").glob("*.jpg"))[:4]
    for i, file in enumerate(good):
        (images.data / ["ant", "bee"][i % 2] / file.name).symlink_to(file)
    content = good[0].read_bytes()
    half = len(content) // 2
    damaged = {
        "cut": content[:half], "flipped": content[:half] + bytes(200) + content[half + 200 :],
        "empty": b"", "text": b"hello world, this is no image at all",
    }[how]  # fmt: skip
    (images.data / "bee" / "damaged.jpg").write_bytes(damaged)
    result = images.fit("--no-shuffle")
    assert result.returncode == DATA, result.stderr
    assert "bee/damaged.jpg: expected" in result.stderr
    result = images.fit("--skip-damaged")
    assert result.returncode == 0, result.stderr
    assert "\ndata: 4 samples of (12, 10, 3) float32" in result.stderr
    assert "(1 damaged ones skipped)" in result.stderr


@pytest.mark.parametrize("name", ["preview.png", "preview.gif"])
def test_an_image_beside_class_folders_is_no_sample(images: Images, name: str) -> None:
    random_pngs(images, 8)
    plain = images.fit("--output", images.folder / "plain.h5")
    assert plain.returncode == 0 and "left out" not in plain.stderr, plain.stderr
    expected = images.pixels([6, 5, 3])
    (images.data / ".hidden.png").write_bytes(b"")
    (images.data / name).write_bytes(next(images.data.rglob("bee/*.png")).read_bytes())
    note = f"images: left out 1 image that lies beside the class folders ({name})."
    done = images.fit("--output", images.folder / "beside.h5")
    assert done.returncode == 0, done.stderr
    assert note in done.stderr and "data: 8 samples of" in done.stderr, done.stderr
    assert (images.folder / "beside.h5").read_bytes() == (images.folder / "plain.h5").read_bytes()
    assert np.array_equal(images.pixels([6, 5, 3]), expected) and len(expected) == 8
    (images.data / f"z{name}").write_bytes(b"")
    done = images.fit()
    assert f"left out 2 images that lie beside the class folders ({name} and others)" in done.stderr


def test_labels_of_all_images_count_those_beside_folders(images: Images) -> None:
    random_pngs(images, 8)
    (images.data / "0.png").write_bytes(next(images.data.rglob("bee/*.png")).read_bytes())
    np.save(images.folder / "y.npy", np.zeros(9, "float32"))
    done = images.fit("--labels", images.folder / "y.npy")
    assert done.returncode == 0, done.stderr
    assert "data: 9 samples of" in done.stderr and "left out" not in done.stderr, done.stderr


def test_wrong_folders(images: Images) -> None:
    result = images.fit()
    assert result.returncode == DATA, result.stderr
    assert "class folders with JPEG, PNG, BMP, GIF or WebP" in result.stderr
    (images.data / "ant/a.webp").write_bytes(b"RIFF")
    result = images.fit()
    assert result.returncode == DATA, result.stderr
    assert "a.webp: expected a JPEG, PNG, BMP, GIF or WebP image" in result.stderr
    (images.data / "ant/a.webp").unlink()
    random_pngs(images, 8)
    other = images.folder / "other"
    (other / "be").mkdir(parents=True)
    (other / "be/a.png").write_bytes(png(np.zeros((3, 9), "uint8"), 2))
    result = images.fit("--validation", other)
    assert result.returncode == DATA, result.stderr
    assert 'Did you mean "bee"?' in result.stderr
    model = write_model(images.folder / "flat.json", [9], layer("Dense", "out", units=1))
    result = images.run("fit", model, "--data", images.data, "--optimizer", "sgd", "--loss", "mse")
    assert result.returncode == USAGE, result.stderr
    assert "takes (height, width, 1, 3 or 4), received one that takes (9)" in result.stderr


def test_cats_and_dogs_in_a_group_of_the_limit(
    images: Images, cats_dogs: Path, in_cgroup: Path
) -> None:
    """34 MB of files, 378 MB of pixels, in a kernel group of 72 MiB."""
    images.data = cats_dogs
    conv = lambda name, n: layer("Conv2D", name, filters=n, kernel_size=3, activation="relu")  # noqa: E731
    pool = lambda name: layer("MaxPooling2D", name, pool_size=2)  # noqa: E731
    model = write_model(
        images.folder / "model.json", [150, 150, 3], layer("Rescaling", "scale", scale=1 / 255),
        conv("c1", 16), pool("p1"), conv("c2", 32), pool("p2"), layer("Flatten", "flat"),
        layer("Dense", "out", units=1, activation="sigmoid"),
    )  # fmt: skip
    report = images.folder / "report.json"
    command = [
        in_cgroup, "72MiB", "--report", report, "--", images.binary, "fit",
        model, "--data", cats_dogs, "--optimizer", "adam", "--loss", "binary_crossentropy",
        "--batch", 32, "--steps", 12, "--memory", "64MiB", "--json",
    ]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["measured_process_bytes"] <= run["predicted_process_bytes"] <= 64 * 2**20
    assert json.loads(report.read_text())["oom_kills"] == 0
