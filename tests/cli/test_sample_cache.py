"""Decoded samples kept in a folder: the same bits, used again, rebuilt, done without."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_disk import small_disk
from test_images import USAGE, Images, png, random_pngs


class Cached(Images):
    def __init__(self, binary: Path, folder: Path) -> None:
        super().__init__(binary, folder)
        self.cache = folder / "cache"
        random_pngs(self, 30)

    def trained(self, name: str, *more: Any) -> tuple[bytes, str]:
        output = self.folder / f"{name}.h5"
        done = self.fit(
            "--output", output, "--validation-split", 0.2, "--metrics", "accuracy", "--json",
            *more, epochs=2,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        run = json.loads(done.stdout)
        assert run["measured_process_bytes"] <= run["predicted_process_bytes"]
        return output.read_bytes(), done.stderr

    def files(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in self.cache.iterdir()}


@pytest.fixture
def images(plimsoll: Path, tmp_path: Path) -> Cached:
    return Cached(plimsoll, tmp_path)


def test_the_same_bits_and_no_second_decoding(images: Cached) -> None:
    expected, _ = images.trained("plain")
    assert images.trained("first", "--cache", images.cache) == (expected, "")
    (made,) = images.files().items()
    # What the files hold is not looked at again: these are no images, with size and time kept.
    for path in images.data.rglob("*.png"):
        before = path.stat()
        path.write_bytes(bytes(before.st_size))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    again, said = images.trained("again", "--cache", images.cache, "--memory", "40MiB")
    assert again == expected and said == ""
    assert dict([made]) == images.files()
    assert np.load(images.cache / made[0]).shape == (30, 12, 10, 3)


def test_images_of_the_models_size_are_kept_as_bytes(images: Cached) -> None:
    for path in images.data.rglob("*.png"):
        pixels = np.random.default_rng(len(path.name)).integers(0, 256, (12, 30))
        path.write_bytes(png(pixels.astype("uint8"), 2))
    for shuffle in ("full", "block"):
        expected, _ = images.trained("plain", "--shuffle", shuffle)
        assert (
            images.trained("cached", "--shuffle", shuffle, "--cache", images.cache)[0] == expected
        )
    (name,) = images.files()
    assert np.load(images.cache / name).dtype == np.uint8


def test_other_files_make_another_cache(images: Cached) -> None:
    images.trained("first", "--cache", images.cache)
    (first,) = images.files()
    changed = sorted(images.data.rglob("*.png"))[7]
    changed.write_bytes(png(np.full((9, 21), 200, "uint8"), 2))
    left = images.cache / f".{first}.123.tmp"  # of a run that was killed while it wrote
    left.write_bytes(b"half")
    os.utime(left, (time.time() - 3600, time.time() - 3600))
    expected, _ = images.trained("plain")
    assert images.trained("changed", "--cache", images.cache)[0] == expected
    (second,) = images.files()
    assert second != first and second[:24] == first[:24]


def test_a_cache_that_is_cut_is_written_anew(images: Cached) -> None:
    expected, _ = images.trained("first", "--cache", images.cache)
    (name,) = images.files()
    size = (images.cache / name).stat().st_size
    os.truncate(images.cache / name, size - 100)
    assert images.trained("again", "--cache", images.cache)[0] == expected
    assert (images.cache / name).stat().st_size == size


def test_without_room_the_run_goes_on(images: Cached) -> None:
    expected, _ = images.trained("plain")
    limit = ["--cache-limit", "20kB"]
    bits, said = images.trained("limited", "--cache", images.cache, *limit)
    assert bits == expected and list(images.cache.iterdir()) == []
    assert "--cache: going on without" in said and "--cache-limit is" in said, said
    done = images.fit(*limit)
    assert done.returncode == USAGE and "--cache FOLDER" in done.stderr


@pytest.mark.parametrize("how", ["size=16k", "ro,size=1m"])
def test_a_full_disk_and_one_that_is_read_only(images: Cached, how: str) -> None:
    expected, _ = images.trained("plain")
    with small_disk(images.cache, how):
        more = [] if how.startswith("ro") else ["--cache-limit", "1MiB"]
        bits, said = images.trained("full", "--cache", images.cache, *more)
        assert bits == expected and list(images.cache.iterdir()) == []
        assert "--cache: going on without" in said, said
        assert ("Read-only" if how.startswith("ro") else "No space left") in said, said


def test_a_damaged_image_is_named_as_without(images: Cached) -> None:
    bad = sorted(images.data.rglob("*.png"))[11]
    bad.write_bytes(bad.read_bytes()[:-20])
    done = images.fit("--cache", images.cache)
    assert done.returncode == 5, done.stderr
    assert f"{bad.name}: expected a whole PNG" in done.stderr
    assert list(images.cache.iterdir()) == []
    expected, _ = images.trained("plain", "--skip-damaged")
    bits, _ = images.trained("skipped", "--cache", images.cache, "--skip-damaged")
    assert bits == expected


@pytest.mark.parametrize("inside", ["", "kept"])
def test_a_cache_among_the_data_is_refused(images: Cached, inside: str) -> None:
    before = sorted(images.data.rglob("*"))
    done = images.fit("--cache", images.data / inside)
    assert done.returncode == USAGE
    assert "--cache: expected a folder of its own" in done.stderr
    assert sorted(images.data.rglob("*")) == before
