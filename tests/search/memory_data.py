"""Writes a recipe's data in its form; the same recipe, the same bytes.

Numbers are whole ones below the recipe's `values`, so that every layer takes them, Embedding too.
"""

from __future__ import annotations

import gzip
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from memory_recipe import Recipe, input_names, output_names, output_shapes
from memory_records import write_examples

Words = list[str]


class Place:
    """A folder of a run's files."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.folder, self.recipe = folder, recipe
        self.data: dict[str, Any] = recipe["data"]
        self.rows: int = self.data["rows"]
        self.sparse = recipe["loss"].startswith("sparse")
        self.random = np.random.default_rng(abs(recipe["seed"]))

    def numbers(self, shape: list[int], dtype: str = "float32", below: int = 0) -> np.ndarray:
        """A block of random ones, again and again."""
        count = math.prod(shape)
        most = below or self.recipe["values"]
        block = self.random.integers(0, most, min(count, 100_003))
        return np.resize(block, count).astype(dtype).reshape(shape)

    def inputs(self, rows: int) -> list[np.ndarray]:
        dtype = self.data.get("dtype", "float32")
        return [self.numbers([rows, *shape], dtype) for shape in self.recipe["inputs"]]

    def labels(self, rows: int, dtype: str = "float32") -> list[np.ndarray]:
        made = []
        for shape in output_shapes(self.recipe):
            if self.sparse:
                made.append(self.numbers([rows, *shape[:-1]], "int32", below=shape[-1]))
            else:
                made.append(self.numbers([rows, *shape], dtype, below=2))
        return made

    def path(self, name: str) -> str:
        return str(self.folder / name)


def write_data(place: Place, name: str = "data") -> Words:
    """The files and the words of the command line that name them."""
    form = place.data["form"]
    return _WRITERS[form](place, name)


def gz(path: str) -> str:
    with open(path, "rb") as source, gzip.open(path + ".gz", "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target)
    Path(path).unlink()
    return path + ".gz"


def _pair(place: Place, name: str, save: Any, ending: str) -> Words:
    words: Words = []
    for option, arrays in (
        ("--data", place.inputs(place.rows)),
        ("--labels", place.labels(place.rows)),
    ):
        for i, array in enumerate(arrays):
            path = place.path(f"{name}{option[1:]}-{i}{ending}")
            words += [option, save(path, array)]
    return words


def _save_npy(path: str, array: np.ndarray) -> str:
    np.save(path, array)
    return path


def _npy(place: Place, name: str) -> Words:
    return _pair(place, name, _save_npy, ".npy")


def _npy_fortran(place: Place, name: str) -> Words:
    return _pair(place, name, lambda path, a: _save_npy(path, np.asfortranarray(a)), ".npy")


def _npy_gz(place: Place, name: str) -> Words:
    return _pair(place, name, lambda path, a: gz(_save_npy(path, a)), ".npy")


def _npy_folder(place: Place, name: str) -> Words:
    def save(path: str, array: np.ndarray) -> str:
        Path(path).mkdir()
        for i, part in enumerate(np.array_split(array, place.data["parts"])):
            np.save(f"{path}/part-{i:04}.npy", part)
        return path

    return _pair(place, name, save, "")


def _named_arrays(place: Place, rows: int) -> dict[str, np.ndarray]:
    """Under x and y, or with several of them under the names of the model."""
    x, y = place.inputs(rows), place.labels(rows)
    if len(x) == 1 and len(y) == 1:
        return {"x": x[0], "y": y[0]}
    arrays = dict(zip(input_names(place.recipe), x))
    return {**arrays, **(dict(zip(output_names(place.recipe), y)) if len(y) > 1 else {"y": y[0]})}


def _npz(place: Place, name: str) -> Words:
    path = place.path(f"{name}.npz")
    np.savez(path, **_named_arrays(place, place.rows))
    return ["--data", path]


def _npz_compressed(place: Place, name: str) -> Words:
    path = place.path(f"{name}.npz")
    np.savez_compressed(path, **_named_arrays(place, place.rows))
    return ["--data", path]


def _npz_folder(place: Place, name: str) -> Words:
    path = place.path(name)
    Path(path).mkdir()
    arrays = _named_arrays(place, place.rows)
    parts = place.data["parts"]
    split = {key: np.array_split(array, parts) for key, array in arrays.items()}
    for i in range(parts):
        np.savez(f"{path}/part-{i:04}.npz", **{key: rows[i] for key, rows in split.items()})
    return ["--data", path]


def _save_idx(path: str, array: np.ndarray) -> str:
    code, dtype = {"u": (8, ">u1"), "i": (12, ">i4"), "f": (13, ">f4")}[array.dtype.kind]
    with open(path, "wb") as file:
        file.write(bytes([0, 0, code, array.ndim]))
        file.write(np.array(array.shape, ">u4").tobytes())
        file.write(np.ascontiguousarray(array, dtype).tobytes())
    return path


def _idx(place: Place, name: str) -> Words:
    return _pair(place, name, _save_idx, "-ubyte")


def _idx_gz(place: Place, name: str) -> Words:
    return _pair(place, name, lambda path, a: gz(_save_idx(path, a)), "-ubyte")


def _table(place: Place, columns: np.ndarray, path: str, between: str = ",") -> str:
    label = place.labels(place.rows)[0].reshape(place.rows, -1)[:, :1].astype(int).astype(str)
    names = [f"c{i}" for i in range(columns.shape[1])] + ["label"]
    with open(path, "w") as file:
        file.write(between.join(names) + "\n")
        for row, last in zip(columns, label):
            file.write(between.join([*row.tolist(), last[0]]) + "\n")
    return path


def _csv(place: Place, name: str) -> Words:
    cells = place.numbers([place.rows, place.data["columns"]], "int64").astype(str)
    form = place.data["form"]
    tab = form == "tsv"
    path = _table(
        place, cells, place.path(f"{name}.{'tsv' if tab else 'csv'}"), "\t" if tab else ","
    )
    words = ["--data", gz(path) if form == "csv_gz" else path]
    return words + (["--standardize"] if place.data.get("standardize") else [])


def _csv_categories(place: Place, name: str) -> Words:
    data = place.data
    known = np.array([f"w{i}".ljust(data["word_length"], "x") for i in range(data["words"])])
    rows, columns = place.rows, data["columns"]
    cells = known[(np.arange(rows)[:, None] + np.arange(columns)) % data["words"]]
    path = _table(place, cells, place.path(f"{name}.csv"))
    return ["--data", path, "--categories", data["categories"], "--header", "yes",
            "--label-column", "label"]  # fmt: skip


def _series(place: Place, name: str) -> Words:
    cells = place.numbers([place.rows, place.data["row"]], "int64").astype(str)
    path = _table(place, cells, place.path(f"{name}.csv"))
    return ["--data", path, "--label-column", "label", "--window", str(place.data["window"])]


def _windows(place: Place, name: str) -> Words:
    path = _save_npy(place.path(f"{name}.npy"), place.numbers([place.rows, place.data["row"]]))
    return ["--data", path, "--window", str(place.data["window"])]


def _text(place: Place, name: str) -> Words:
    data, path = place.data, place.path(f"{name}.txt")
    order = np.arange(data["tokens"]) * 7919 % data["words"] if data["words"] % 7919 else None
    order = np.arange(data["tokens"]) % data["words"] if order is None else order
    if data["form"] == "text_characters":
        text = "".join(chr(0x100 + i) for i in order.tolist())
        words: Words = []
    else:
        text = " ".join(f"w{i}".ljust(data["word_length"], "x") for i in order.tolist())
        words = ["--text", "words", "--vocabulary", str(data["vocabulary"])]
    Path(path).write_text(text)
    return ["--data", path, *words]


def _image(place: Place, path: str, mode: str, below: int = 256) -> None:
    from PIL import Image

    data = place.data
    shape = [data["height"], data["width"], *([3] if mode == "RGB" else [])]
    pixels = place.numbers(shape, "uint8", below)
    options = {"compress_level": 1} if path.endswith(".png") else {"quality": 80}
    Image.fromarray(pixels, mode=None).save(path, **options)


def _images(place: Place, name: str) -> Words:
    ending = place.data["form"].split("_")[1].replace("jpeg", "jpg")
    for i in range(place.rows):
        folder = Path(place.path(name)) / f"class{i % place.data['classes']:05}"
        folder.mkdir(parents=True, exist_ok=True)
        _one_of_few(place, folder, i, ending)
    return ["--data", place.path(name)]


def _one_of_few(place: Place, folder: Path, i: int, ending: str) -> None:
    """The first eight images are made, all others are copies of them."""
    path = folder / f"{i:05}.{ending}"
    first = Path(place.path(f"image-{i % 8}.{ending}"))
    if not first.exists():
        _image(place, str(first), place.data["mode"])
    shutil.copy(first, path)


def _images_flat(place: Place, name: str) -> Words:
    folder = Path(place.path(name))
    folder.mkdir()
    for i in range(place.rows):
        _one_of_few(place, folder, i, "png")
    words = ["--data", str(folder)]
    for i, array in enumerate(place.labels(place.rows)):
        words += ["--labels", _save_npy(place.path(f"{name}-labels-{i}.npy"), array)]
    return words


def _masks(place: Place, name: str) -> Words:
    images, masks = Path(place.path(name)), Path(place.path(name + "-masks"))
    images.mkdir()
    masks.mkdir()
    for i in range(place.rows):
        _one_of_few(place, images, i, "png")
        _image(place, str(masks / f"{i:05}.png"), "L", place.data["classes"])
    return ["--data", str(images), "--labels", str(masks)]


def _hdf5(place: Place, name: str) -> Words:
    import h5py

    data, path = place.data, place.path(f"{name}.h5")
    with h5py.File(path, "w") as file:
        for key, array in _named_arrays(place, place.rows).items():
            options: dict[str, Any] = {}
            if data["form"] != "hdf5":
                rest = list(array.shape[1:])
                if rest:
                    rest[0] = -(-rest[0] // data["chunk_part"])
                options["chunks"] = (min(data["chunk_rows"], place.rows), *rest)
            if data["form"] == "hdf5_gzip":
                options |= {"compression": "gzip", "compression_opts": 1,
                            "shuffle": data["shuffled_bytes"]}  # fmt: skip
            file.create_dataset(key, data=array, **options)
    return ["--data", path]


def _tfrecord(place: Place, name: str) -> Words:
    kind = place.data["kind"]
    arrays = _named_arrays(place, place.rows)
    dtype = {"floats": "float32", "integers": "int64", "bytes": "uint8"}[kind]
    features = {}
    for key, array in arrays.items():
        flat = array.reshape(place.rows, -1)
        is_input = key == "x" or key in input_names(place.recipe)
        features[key] = flat.astype(dtype if is_input else "int64" if place.sparse else "float32")
    path = place.path(f"{name}.tfrecord")
    write_examples(path, features)
    return ["--data", gz(path) if place.data["form"] == "tfrecord_gz" else path]


def _stdin(place: Place, name: str) -> Words:
    path = place.path(f"{name}.stream")
    x, y = place.inputs(place.rows), place.labels(place.rows)
    with open(path, "wb") as file:
        for begin in range(0, place.rows, 7):
            np.save(file, x[0][begin : begin + 7])
            np.save(file, y[0][begin : begin + 7])
    return ["--data", "-"]


def _named(place: Place, name: str) -> Words:
    words: Words = []
    for key, array in zip(input_names(place.recipe), place.inputs(place.rows)):
        words += ["--data", f"{key}={_save_npy(place.path(f'{name}-{key}.npy'), array)}"]
    for i, (key, array) in enumerate(zip(output_names(place.recipe), place.labels(place.rows))):
        words += ["--labels", f"{key}={_save_npy(place.path(f'{name}-labels-{i}.npy'), array)}"]
    return words


_WRITERS = {
    "npy": _npy, "npy_fortran": _npy_fortran, "npy_gz": _npy_gz, "npy_folder": _npy_folder,
    "npz": _npz, "npz_compressed": _npz_compressed, "npz_folder": _npz_folder, "idx": _idx,
    "idx_gz": _idx_gz, "csv": _csv, "csv_gz": _csv, "tsv": _csv, "csv_categories": _csv_categories,
    "series": _series, "windows": _windows, "text_characters": _text, "text_words": _text,
    "images_jpeg": _images, "images_png": _images, "images_flat": _images_flat, "masks": _masks,
    "hdf5": _hdf5, "hdf5_chunked": _hdf5, "hdf5_gzip": _hdf5, "tfrecord": _tfrecord,
    "tfrecord_gz": _tfrecord, "stdin": _stdin, "named": _named,
}  # fmt: skip
