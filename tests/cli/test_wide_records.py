"""TFRecord files whose records are rows of a wide table: a feature for each of many columns."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from data_place import Workplace, dense, place

__all__ = ["place"]

tf = pytest.importorskip("tensorflow")


def write(path: Path, rows: np.ndarray, order: list[int]) -> Path:
    """Each row's numbers as features of their own, in the order that is given."""

    def part(number: int, content: bytes) -> bytes:
        length, size = b"", len(content)
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            entries = []
            for i in order:
                value = part(2, part(1, struct.pack("<f", row[i])))
                entries.append(part(1, part(1, b"f%05d" % i) + part(2, value)))
            writer.write(part(1, b"".join(entries)))
    return path


def test_many_features(place: Workplace) -> None:
    columns = 40_000
    rng = np.random.default_rng(8)
    rows = rng.normal(0, 1, (3, columns)).astype("float32")
    np.save(place.folder / "x.npy", rows)
    np.save(place.folder / "y.npy", rows[:, 0])
    model = place.model([columns], dense(1, "linear"))
    results = []
    path = write(place.folder / "w.tfrecord", rows, list(rng.permutation(columns)))
    for data in [place.folder / "x.npy", path]:
        output = place.folder / "out.keras"
        begin = os.times()
        done = place.fit(
            model, "--labels", place.folder / "y.npy", data=data, output=output, optimizer="sgd",
            loss="mse",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        end = os.times()
        busy = sum(end[2:4]) - sum(begin[2:4])  # seconds that the program computed
        assert busy < 3, (data, busy)
        results.append(output.read_bytes())
    assert results[0] == results[1]
