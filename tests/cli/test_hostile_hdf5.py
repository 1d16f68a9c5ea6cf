"""Small HDF5 files that ask for far more than their size: refused, or read soon all the same."""

import os
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_place import DATA, Workplace, dense, place

__all__ = ["place"]

h5py = pytest.importorskip("h5py")


def refusal(place: Workplace, path: Path) -> str:
    done = place.fit(place.model([3], dense(1, "linear")), data=path, loss="mse")
    assert done.returncode == DATA, (done.returncode, done.stderr[:500])
    assert len(done.stderr) < 1000, done.stderr[:1000]
    return str(done.stderr)


def records(path: Path, *fields: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("df/table", (3,), [("index", "i8"), *fields], chunks=(1,))
    return path


@pytest.mark.parametrize("fields", [1, 300])
def test_records_of_too_many_columns(place: Workplace, fields: int) -> None:
    """As many as a row may have, and one more, in one field or in several."""
    each = 65_536 // fields + 1
    path = records(place.folder / "t.h5", *((f"v{i}", "u1", (each,)) for i in range(fields)))
    assert "expected at most 65536 columns" in refusal(place, path)


def test_blocks_of_too_many_columns(place: Workplace) -> None:
    """One array under many names."""
    path = place.folder / "b.h5"
    with h5py.File(path, "w") as file:
        values = file.create_dataset("df/block0_values", (1, 20_000), "f8", chunks=(1, 20_000))
        items = file.create_dataset("df/block0_items", (20_000,), "i8", chunks=(20_000,))
        file["df/axis0"] = items
        for i in range(1, 200):
            file[f"df/block{i}_values"] = values
            file[f"df/block{i}_items"] = items
    assert "expected at most 65536 columns" in refusal(place, path)


def test_fields_in_the_same_place(place: Workplace) -> None:
    """Fields that take more than their record, since they lie in each other."""
    path = records(place.folder / "t.h5", ("a", "u1", (3000,)), ("b", "u1", (3001,)))
    content = path.read_bytes()
    field = b"b" + bytes(7)
    assert field + struct.pack("<I", 3008) in content
    content = content.replace(field + struct.pack("<I", 3008), field + bytes(4))
    path.write_bytes(content.replace(struct.pack("<I", 3001), struct.pack("<I", 6001)))
    assert "fields that take more bytes than their record has" in refusal(place, path)


def test_an_array_larger_than_any_file(place: Workplace) -> None:
    """Nothing of it was ever written; its bytes are more than a number of 64 bits counts."""
    path = place.folder / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**58, 4), "f8", chunks=(8, 4))
    assert "an array of impossible size" in refusal(place, path)


def test_paths_too_long_to_be_listed(place: Workplace) -> None:
    """Groups of two names each make twice as many paths at each level."""
    path = place.folder / "g.h5"
    with h5py.File(path, "w", libver="latest") as file:
        group = file.create_group("g")
        for _ in range(14):
            below = group.create_group("a" * 1000)
            group["b" * 1000] = below
            group = below
        group["x"] = [1.0]
    assert "paths of more than 16777216 bytes" in refusal(place, path)


def test_attributes_that_share_a_long_text(place: Workplace) -> None:
    """Each of them holds the text some hundred times, less than one attribute may."""
    path = records(place.folder / "t.h5", ("a", "f8"))
    marked = 37  # bytes of the texts that are made the long one
    with h5py.File(path, "a") as file:
        attributes = file["df/table"].attrs
        attributes.create("long", "x" * 100_001, dtype=h5py.string_dtype())
        for i in range(6):
            texts = np.array([f"{j:0{marked}}" for j in range(500)], object)
            attributes.create(f"t{i}", texts, dtype=h5py.string_dtype())
    content = path.read_bytes()
    place_of = re.compile(re.escape(struct.pack("<I", 100_001)) + rb"(.{12})", re.DOTALL)
    places = place_of.findall(content)
    assert places
    long = struct.pack("<I", 100_001) + places[0]
    short = re.compile(re.escape(struct.pack("<I", marked)) + rb".{8}..\0\0", re.DOTALL)
    path.write_bytes(short.sub(lambda _: long, content))
    assert "texts of more than 67108864 bytes" in refusal(place, path)


@pytest.mark.parametrize("count, text", [(60, 1_048_000), (3000, 4096), (5000, 988), (7, 400_003)])
def test_wide_records_that_are_shuffled(place: Workplace, count: int, text: int) -> None:
    """A byte of each record stands in a place of its own: records are not read byte by byte."""
    data = np.zeros(count, [("index", "i8"), ("s", f"S{text}"), ("a", "f8"), ("label", "i4")])
    data["a"] = np.random.default_rng(3).normal(0, 1, count)
    data["label"] = np.arange(count)
    data["s"] = [b"%d" % (i * 7919) * 300 for i in range(count)]
    found = []
    for options in [{"shuffle": True, "compression": "gzip"}, {}]:
        path = place.folder / "t.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("df/table", data=data, chunks=(count,), **options)
        output = place.folder / "out.keras"
        begin = os.times()
        done = place.fit(
            place.model([1], dense(1, "linear")), data=path, loss="mse", output=output,
            optimizer="sgd",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        end = os.times()
        busy = sum(end[2:4]) - sum(begin[2:4])  # seconds that the program computed
        assert busy < 4, (options, busy)
        found.append(output.read_bytes())
    assert found[0] == found[1]


def test_one_table_under_many_names(place: Workplace) -> None:
    """Its chunks are not looked at for every name."""
    path = place.folder / "t.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("g")
        for _ in range(16):
            below = group.create_group("a")
            group["b"] = below
            group = below
        data = np.zeros(1000, [("index", "i8"), ("a", "f8")])
        group.create_dataset("table", data=data, chunks=(1,))
    begin = os.times()
    assert "expected one data frame" in refusal(place, path)
    end = os.times()
    assert sum(end[2:4]) - sum(begin[2:4]) < 4
