"""TFRecord files as TensorFlow's own programs write them: scalars, images, shards."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_place import DATA, Workplace, dense, layer, place, refused

__all__ = ["place"]

tf = pytest.importorskip("tensorflow")


def feature(value: Any) -> Any:
    if isinstance(value, bytes):
        value = [value]
    if isinstance(value, list):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=np.ravel(value)))


def write(path: Path, *records: dict[str, Any]) -> Path:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            features = tf.train.Features(feature={k: feature(v) for k, v in record.items()})
            writer.write(tf.train.Example(features=features).SerializeToString())
    return path


def weights(place: Workplace, model: Path, data: Path, *more: Any) -> tuple[bytes, str]:
    output = place.folder / "out.keras"
    done = place.fit(
        model, *more, data=data, output=output, batch=2, optimizer="sgd",
        loss="sparse_categorical_crossentropy",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return output.read_bytes(), done.stderr


def arrays(place: Workplace, x: np.ndarray, y: np.ndarray) -> list[Any]:
    np.save(place.folder / "x.npy", x)
    np.save(place.folder / "y.npy", y)
    return [place.folder / "x.npy", "--labels", place.folder / "y.npy"]


def test_scalars(place: Workplace) -> None:
    model = place.model([3], dense(2, "softmax"))
    x = np.random.default_rng(2).normal(0, 1, (6, 3)).astype("float32")
    x[:, 1] = range(6)
    y = np.arange(6) % 2
    expected, _ = weights(place, model, *arrays(place, x, y))
    rows = [{"c": a, "b": int(b), "a": c, "label": int(d)} for (c, b, a), d in zip(x, y)]
    path = write(place.folder / "s.tfrecord", *rows)
    found, said = weights(place, model, path)
    assert found == expected
    assert "samples are made of a, b, c" in said
    found, _ = weights(place, model, path, "--columns", "a,b,c", "--label-column", "label")
    assert found == expected
    model = place.model([2], dense(2, "softmax"))
    expected, _ = weights(place, model, *arrays(place, x[:, [2, 0]], y))
    assert weights(place, model, path, "--columns", "c,a")[0] == expected


def image_files(sizes: list[tuple[int, int]]) -> list[bytes]:
    from PIL import Image

    rng = np.random.default_rng(5)
    files = []
    for i, (height, width) in enumerate(sizes):
        file = io.BytesIO()
        pixels = rng.integers(0, 256, (height, width, 3), dtype="uint8")
        Image.fromarray(pixels).save(file, ["JPEG", "PNG", "WEBP"][i % 3])
        files.append(file.getvalue())
    return files


def test_encoded_images(place: Workplace) -> None:
    pytest.importorskip("PIL")
    model = place.model([8, 8, 3], layer("Flatten", "flat"), dense(2, "softmax"))
    files = image_files([(8, 8), (8, 8), (12, 20), (5, 30), (8, 8), (64, 9)])
    folder = place.folder / "classes"
    for i, file in enumerate(files):
        (folder / "ab"[i // 3]).mkdir(parents=True, exist_ok=True)
        (folder / "ab"[i // 3] / f"{i}.{['jpg', 'png', 'webp'][i % 3]}").write_bytes(file)
    expected, _ = weights(place, model, folder, "--no-shuffle")
    rows = [{"image/encoded": f, "image/class/label": i // 3} for i, f in enumerate(files)]
    path = write(place.folder / "i.tfrecord", *rows)
    named = ["--columns", "image/encoded", "--label-column", "image/class/label"]
    assert weights(place, model, path, "--no-shuffle", *named)[0] == expected
    assert weights(place, model, path, "--no-shuffle")[0] == expected
    rows[4]["image/encoded"] = files[4][:200]
    done = place.fit(model, data=write(path, *rows), loss="sparse_categorical_crossentropy")
    assert done.returncode == DATA and "record 4" in done.stderr, done.stderr


def six_samples() -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
    """Features, labels, and both as records."""
    x = np.random.default_rng(2).normal(0, 1, (6, 3)).astype("float32")
    y = np.arange(6) % 2
    return x, y, [{"x": a, "y": int(b)} for a, b in zip(x, y)]


def test_shards(place: Workplace) -> None:
    model = place.model([3], dense(2, "softmax"))
    x, y, rows = six_samples()
    expected, _ = weights(place, model, *arrays(place, x, y))
    part, _ = weights(place, model, *arrays(place, x[:3], y[:3]))
    folder = place.folder / "shards"
    folder.mkdir()
    for i in range(2):
        write(folder / f"train-0000{i}-of-00002", *rows[3 * i : 3 * i + 3])
    assert weights(place, model, folder)[0] == expected
    found, said = weights(place, model, folder / "train-00000-of-00002")
    assert found == part
    assert "one shard of 2" in said
    (folder / "train-00000-of-00002").rename(place.folder / "anything")
    assert weights(place, model, place.folder / "anything")[0] == part
    done = place.fit(model, data=folder, loss="sparse_categorical_crossentropy")
    assert done.returncode == DATA and "none of number 0" in done.stderr, done.stderr


@pytest.mark.parametrize("value", [b"a text", [b"two", b"texts"], [b"a", b"b", b"c"]])
def test_texts_are_no_numbers(place: Workplace, value: Any) -> None:
    """Features that hold strings are refused by their names, before shapes are compared."""
    numbers = {"x": np.arange(3), "y": 1}
    path = place.folder / "t.tfrecord"
    said = refused(place, write(path, {**numbers, "x": value}), width=3)
    assert 'feature "x"' in said and "FloatList" in said and "string" in said, said
    said = refused(place, write(path, {**numbers, "y": value}), width=3)
    assert 'feature "y"' in said and "Int64List" in said and "string" in said, said
    said = refused(place, write(path, {"a": 1.0, "b": 2.0, "c": value, "y": 1}), width=3)
    assert '"c"' in said and "--columns a,b" in said and "Strings" in said, said
    columns = ["--columns", "a,b,c", "--label-column", "y"]
    said = refused(place, write(path, {"a": 1.0, "b": 2.0, "c": value, "y": 1}), *columns, width=4)
    assert 'feature "c"' in said, said


def test_arrays_of_bytes(place: Workplace) -> None:
    """One string of as many bytes as a sample has elements is an array."""
    x = np.random.default_rng(4).integers(0, 256, (6, 12), dtype="uint8")
    y = np.arange(6) % 2
    model = place.model([12], dense(2, "softmax"))
    expected, _ = weights(place, model, *arrays(place, x, y))
    rows = [{"x": row.tobytes(), "y": bytes([label])} for row, label in zip(x, y)]
    path = write(place.folder / "b.tfrecord", *rows)
    assert weights(place, model, path)[0] == expected
    rows = [{"x": row.astype("float32").tobytes(), "y": 1} for row in x]
    assert "48 bytes" in refused(place, write(path, *rows), width=12)


def test_several_sets_of_shards(place: Workplace) -> None:
    """One of them has to be chosen: nothing tells which is the training data."""
    model = place.model([3], dense(2, "softmax"))
    x, y, rows = six_samples()
    expected, _ = weights(place, model, *arrays(place, x, y))
    folder = place.folder / "shards"
    folder.mkdir()
    for i in range(2):
        write(folder / f"train-0000{i}-of-00002", *rows[3 * i : 3 * i + 3])
        write(folder / f"test-0000{i}-of-00002", *rows[2 * i : 2 * i + 2])
    said = refused(place, folder, width=3)
    assert "train-*-of-00002" in said and "test-*-of-00002" in said and "--data" in said, said
    assert weights(place, model, folder / "train-*")[0] == expected
    assert weights(place, model, folder / "train-*-of-00002")[0] == expected
    assert weights(place, model, folder / "train-*", "--validation", folder / "test-*")
    said = refused(place, folder / "t*", width=3)
    assert "train-*-of-00002" in said and "test-*-of-00002" in said, said
    assert "validation-*" in refused(place, folder / "validation-*", width=3)
    (folder / "train-00001-of-00002").unlink()
    assert "none of number 1" in refused(place, folder / "train-*", width=3)
    (folder / "test-00000-of-00002").rename(folder / "test-00000-of-00001.tfrecord")
    (folder / "test-00001-of-00002").unlink()
    (folder / "train-00000-of-00002").rename(folder / "more.tfrecord")
    said = refused(place, folder, width=3)
    assert "test-*-of-00001.tfrecord" in said and "more.tfrecord" in said, said
