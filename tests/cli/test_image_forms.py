"""Images in BMP, GIF and WebP: the pixels of the same images in PNG, of Keras or of Pillow."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_images import DATA, Images, images, layer, write_model

__all__ = ["images"]

LIMIT = 3

Image = pytest.importorskip("PIL.Image")


def sample(mode: str, size: tuple[int, int] = (23, 17)) -> Any:
    """A picture with edges and runs, in a mode of Pillow's."""
    y, x = np.mgrid[: size[1], : size[0]]
    pixels = np.stack([x * 7 % 256, y * 11 % 256, (x // 5 + y // 3) * 40 % 256], 2).astype("uint8")
    picture = Image.fromarray(pixels)
    return picture.quantize(13) if mode == "P" else picture.convert(mode)


def encoded(picture: Any, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def write(folder: Path, **files: bytes) -> None:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_bytes(content)


@pytest.mark.parametrize("kind", ["BMP", "GIF"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_are_those_of_png(images: Images, kind: str, channels: int) -> None:
    modes = ["P", "L", "1"] if kind == "GIF" else ["P", "L", "1", "RGB"]
    shape = [17, 23, channels]
    for i, mode in enumerate(modes):
        write(images.data / "ant", **{f"{i}_png": encoded(sample(mode), "PNG")})
    expected = images.pixels(shape)
    for i, mode in enumerate(modes):
        (images.data / "ant" / f"{i}.png").unlink()
        write(images.data / "ant", **{f"{i}_{kind.lower()}": encoded(sample(mode), kind)})
    np.testing.assert_array_equal(images.pixels(shape), expected)


@pytest.mark.parametrize("interlace", [0, 1])
def test_gifs_with_and_without_interlacing(images: Images, interlace: int) -> None:
    picture = sample("P", (300, 211))
    write(images.data / "ant", a_gif=encoded(picture, "GIF", interlace=interlace))
    shape = [211, 300, 3]
    expected = np.asarray(picture.convert("RGB"), "float32")
    np.testing.assert_array_equal(images.pixels(shape)[0], expected)
    np.testing.assert_array_equal(images.keras_pixels(shape)[0], expected)


def test_the_first_picture_of_an_animation(images: Images) -> None:
    frames = [sample("P"), sample("P").rotate(180)]
    write(
        images.data / "ant",
        a_gif=encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]),
    )
    expected = np.asarray(frames[0].convert("RGB"), "float32")
    np.testing.assert_array_equal(images.pixels([17, 23, 3])[0], expected)


def test_bmps_from_the_top_down_and_with_masks(images: Images) -> None:
    picture = sample("RGB")
    data = bytearray(encoded(picture, "BMP"))
    rows = [data[54 + i * 72 : 54 + (i + 1) * 72] for i in range(17)]
    data[22:26] = (-17).to_bytes(4, "little", signed=True)
    write(images.data / "ant", down_bmp=bytes(data[:54]) + b"".join(reversed(rows)))
    pixels = np.asarray(picture)
    small = (pixels >> np.array([3, 2, 3], "uint8")).astype("uint16")
    packed = small[..., 0] << 11 | small[..., 1] << 5 | small[..., 2]
    body = b"".join(row.tobytes() + b"\0\0" for row in packed[::-1])
    head = bytearray(data[:54])
    head[10:14] = (66).to_bytes(4, "little")
    head[22:26] = (17).to_bytes(4, "little")
    head[28:34] = b"\x10\0\x03\0\0\0"
    masks = b"".join(mask.to_bytes(4, "little") for mask in [0xF800, 0x7E0, 0x1F])
    write(images.data / "bee", masks_bmp=bytes(head) + masks + body)
    down, masked = images.pixels([17, 23, 3])
    np.testing.assert_array_equal(down, pixels)
    most = np.array([31, 63, 31])
    np.testing.assert_array_equal(masked, small.astype("int64") * 255 // most)


@pytest.mark.parametrize("kind", ["BMP", "GIF"])
def test_damaged_files_are_named(images: Images, kind: str) -> None:
    whole = encoded(sample("P"), kind)
    name = f"a.{kind.lower()}"
    for size in range(6, len(whole), 23):
        (images.data / "ant" / name).write_bytes(whole[:size])
        if kind == "GIF" and size >= len(whole) - 2:
            continue  # all of its picture is there
        result = images.fit("--no-shuffle")
        assert result.returncode == DATA, (size, result.stderr)
        assert f"{name}: expected" in result.stderr, result.stderr
        if size > 200:
            break


@pytest.mark.parametrize("size", [(23, 17), (300, 211), (64, 1)])
@pytest.mark.parametrize("method", [0, 6])
def test_lossy_webps(images: Images, size: tuple[int, int], method: int) -> None:
    pictures = []
    for quality in [5, 80, 100]:
        data = encoded(sample("RGB", size), "WEBP", quality=quality, method=method)
        write(images.data / "ant", **{f"{quality:03}_webp": data})
        pictures.append(Image.open(io.BytesIO(data)).convert("RGB"))
    colours = images.pixels([size[1], size[0], 3])
    np.testing.assert_array_equal(colours, [np.asarray(picture) for picture in pictures])
    grey = images.pixels([size[1], size[0], 1])
    opaque = images.pixels([size[1], size[0], 4])
    for path, picture in zip(sorted(images.data.rglob("*.webp")), pictures, strict=True):
        path.unlink()
        write(images.data / "ant", **{f"{path.stem}_png": encoded(picture, "PNG")})
    np.testing.assert_array_equal(images.pixels([size[1], size[0], 1]), grey)
    np.testing.assert_array_equal(images.pixels([size[1], size[0], 4]), opaque)


def test_transparent_webps(images: Images) -> None:
    picture = sample("RGB")
    picture.putalpha(Image.fromarray(np.arange(17 * 23, dtype="uint8").reshape(17, 23)))
    data = encoded(picture, "WEBP", exact=True)
    assert b"ALPH" in data
    write(images.data / "ant", a_webp=data)
    expected = np.asarray(Image.open(io.BytesIO(data)))[..., :3]
    np.testing.assert_array_equal(images.pixels([17, 23, 3])[0], expected)
    model = write_model(images.folder / "four.json", [17, 23, 4], layer("Flatten", "flat"))
    out = images.folder / "out.npy"
    result = images.run("predict", model, "--data", images.data, "--output", out)
    assert result.returncode == DATA
    assert "a.webp: expected an opaque WebP image" in result.stderr, result.stderr


@pytest.mark.parametrize("threads", [1, 3])
def test_decoding_webps_is_predicted(images: Images, threads: int) -> None:
    noise = np.random.default_rng(2).integers(0, 256, (1500, 2000, 3), "uint8")
    data = encoded(Image.fromarray(noise), "WEBP", quality=95, method=0)
    for i in range(4):
        write(images.data / "ant", **{f"{i}_webp": data})
    small = images.fit("--memory", "24MiB")
    assert small.returncode == LIMIT and "impossible below" in small.stderr, small.stderr
    done = images.fit("--memory", "128MiB", "--threads", threads, "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["measured_process_bytes"] <= run["predicted_process_bytes"] <= 128 * 2**20


def test_webps_that_are_refused_by_name(images: Images) -> None:
    frames = [sample("RGB"), sample("RGB").rotate(180)]
    refused = {
        "a lossy WebP image": encoded(frames[0], "WEBP", lossless=True),
        "a WebP image of one picture": encoded(
            frames[0], "WEBP", save_all=True, append_images=frames[1:]
        ),
        "a whole WebP image": encoded(frames[0], "WEBP")[:-20],
        "a JPEG, PNG, BMP, GIF or WebP image": b"RIFF",
    }
    write(images.data / "bee", a_png=encoded(frames[0], "PNG"))
    for expected, data in refused.items():
        write(images.data / "ant", a_webp=data)
        result = images.fit()
        assert result.returncode == DATA, result.stderr
        assert f"a.webp: expected {expected}, received" in result.stderr, result.stderr
        sound = images.fit("--skip-damaged")
        assert "(1 damaged ones skipped)" in sound.stderr, sound.stderr
