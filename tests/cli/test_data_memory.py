"""What opening and reading data holds is in the prediction, whatever the file's own pieces are."""

import json
from pathlib import Path

import numpy as np
import pytest
from data_place import Workplace, dense, place

__all__ = ["place"]


def held(place: Workplace, width: int, data: Path, *more: str) -> dict[str, int]:
    """A run's report, held against what was predicted."""
    done = place.fit(
        place.model([width], dense(1, "linear")), "--json", *more, data=data, optimizer="sgd",
        loss="mse", batch=1, steps=2, threads=1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    predicted, measured = run["predicted_process_bytes"], run["measured_process_bytes"]
    assert measured <= predicted <= measured * 1.02 + 4 * 2**20, (predicted, measured)
    return run


@pytest.mark.parametrize("filters", ["gzip", "lzf", "all"])
def test_a_chunk_larger_than_any_buffer(place: Workplace, filters: str) -> None:
    h5py = pytest.importorskip("h5py")
    rows, width = 600, 10_000
    x = np.zeros((rows, width), "float32")
    x[:, ::97] = np.arange(rows)[:, None]
    options = {"compression": filters}
    if filters == "all":
        options = {"compression": "gzip", "shuffle": True, "fletcher32": True}
    path = place.folder / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=x, chunks=(rows, width), **options)
        file["y"] = np.arange(rows, dtype="float32")
    run = held(place, width, path)
    assert run["measured_process_bytes"] < 40 * 2**20
    np.save(place.folder / "x.npy", x)
    np.save(place.folder / "y.npy", np.arange(rows, dtype="float32"))
    losses = [line["loss"] for line in place.epochs() if "loss" in line]
    held(place, width, place.folder / "x.npy", "--labels", str(place.folder / "y.npy"))
    assert losses == [line["loss"] for line in place.epochs() if "loss" in line]


def test_a_chunk_of_a_few_hundred_kilobytes(place: Workplace) -> None:
    """Chunks that are small enough are held, and counted."""
    h5py = pytest.importorskip("h5py")
    x = np.random.default_rng(3).normal(0, 1, (4096, 100)).astype("float32")
    path = place.folder / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=x, chunks=(1024, 100), compression="gzip", shuffle=True)
        file["y"] = x[:, 0]
    held(place, 100, path)


def test_a_record_larger_than_any_buffer(place: Workplace) -> None:
    tf = pytest.importorskip("tensorflow")
    width = 5_000_000
    path = place.folder / "x.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for label in [1.0, 2.0]:
            floats = tf.train.FloatList(value=np.full(width, label / width, "float32"))
            feature = {
                "x": tf.train.Feature(float_list=floats),
                "y": tf.train.Feature(float_list=tf.train.FloatList(value=[label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    assert path.stat().st_size > 40_000_000
    held(place, width, path)


def test_rows_in_fortran_order_wider_than_any_buffer(place: Workplace) -> None:
    width = 6_000_000
    np.save(place.folder / "x.npy", np.asfortranarray(np.full((3, width), 1e-6, "float32")))
    np.save(place.folder / "y.npy", np.ones(3, "float32"))
    held(place, width, place.folder / "x.npy", "--labels", str(place.folder / "y.npy"))


def test_words_beyond_any_table(place: Workplace) -> None:
    """Texts of any number of different words are counted, within a few MiB."""
    words = place.write("w.txt", " ".join(f"word{i:08d}" for i in range(600_000)) + " end")
    model = place.model([8], dense(8, "linear"))
    done = place.fit(
        model, "--json", data=words, text="words", optimizer="sgd", loss="mse", batch=1, steps=2,
        threads=1, vocabulary=1000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    predicted, measured = run["predicted_process_bytes"], run["measured_process_bytes"]
    assert measured <= predicted <= measured * 1.02 + 4 * 2**20, (predicted, measured)
