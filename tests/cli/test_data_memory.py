"""What opening and reading data holds is in the prediction, whatever the file's own pieces are."""

import json
from pathlib import Path

import numpy as np
import prediction
import pytest
from data_place import Workplace, dense, place

__all__ = ["place"]


def held(place: Workplace, width: int, data: Path, *more: str) -> dict[str, int]:
    """A run's report, held against what was predicted. Weights of 10 million numbers or more take
    its peak well beyond that of starting up."""
    hidden = dense(max(10_000_000 // width, 2), "relu", "hidden")
    done = place.fit(
        place.model([width], hidden, dense(1, "linear")), "--json", *more, data=data,
        optimizer="sgd", loss="mse", batch=1, steps=2, threads=1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    prediction.holds(run)
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
    with_chunk = held(place, width, path)
    np.save(place.folder / "x.npy", x)
    np.save(place.folder / "y.npy", np.arange(rows, dtype="float32"))
    losses = [line["loss"] for line in place.epochs() if "loss" in line]
    plain = held(place, width, place.folder / "x.npy", "--labels", str(place.folder / "y.npy"))
    assert with_chunk["predicted_process_bytes"] < plain["predicted_process_bytes"] + 2 * 2**20
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
    held(place, 8, words, "--text", "words", "--vocabulary", "1000")


def test_categories_near_their_bound(place: Workplace) -> None:
    lines = (",".join(f"c{column}v{row}" for column in range(30)) + ",0" for row in range(2600))
    table = place.write("t.csv", "\n".join(lines) + "\n")
    held(place, 30, table, "--categories", "index")


def test_a_folder_of_many_chunks(place: Workplace) -> None:
    """Their names are held, and counted."""
    (place.folder / "x").mkdir()
    for i in range(3000):
        np.save(place.folder / "x" / f"{'part' * 30}-{i}.npy", np.ones((1, 4), "float32"))
    np.save(place.folder / "y.npy", np.ones(3000, "float32"))
    held(place, 4, place.folder / "x", "--labels", str(place.folder / "y.npy"))


@pytest.mark.parametrize("form", ["categories", "columns", "words"])
def test_what_opening_holds_for_a_while(place: Workplace, form: str) -> None:
    """Of a small run, whose peak that is."""
    rng = np.random.default_rng(1)
    width, options = 30, ["--categories", "index"]
    if form == "categories":
        lines = (",".join(f"c{column}v{row}" for column in range(30)) + ",0" for row in range(2600))
        text = "\n".join(lines)
    elif form == "columns":
        width = 20_000
        text = "\n".join(",".join(map(str, row)) for row in rng.integers(0, 999, (12, width + 1)))
    else:
        width, options = 8, ["--text", "words", "--vocabulary", "1000"]
        text = " ".join(f"word{i:08d}" for i in range(600_000))
    path = place.write("t.txt" if form == "words" else "t.csv", text + "\n")
    done = place.fit(
        place.model([width], dense(1, "linear")), "--json", *options, data=path, optimizer="sgd",
        loss="mse", batch=1, steps=2, threads=1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    prediction.holds(json.loads(done.stdout))
