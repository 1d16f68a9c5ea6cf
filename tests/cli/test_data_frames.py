"""HDF5 files as pandas writes data frames into them (df.to_hdf), made here as it lays them out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_place import DATA, USAGE, Workplace, dense, place

__all__ = ["place"]

h5py = pytest.importorskip("h5py")


def write_frame(path: Path, columns: dict[str, np.ndarray], group: str = "df") -> Path:
    """The fixed format: a block for each type, of the columns of it."""
    kinds: dict[str, list[str]] = {}
    for name, values in columns.items():
        kinds.setdefault(str(values.dtype), []).append(name)
    with h5py.File(path, "w") as file:
        frame = file.create_group(group)
        frame.attrs["pandas_type"] = np.bytes_("frame")
        frame["axis0"] = np.array(list(columns), "S")
        frame["axis1"] = np.arange(len(next(iter(columns.values()))))
        for i, names in enumerate(kinds.values()):
            frame[f"block{i}_items"] = np.array(names, "S")
            frame[f"block{i}_values"] = np.stack([columns[name] for name in names], 1)
    return path


def weights(place: Workplace, data: Path, *more: Any) -> tuple[bytes, str]:
    output = place.folder / "out.keras"
    done = place.fit(
        place.model([3], dense(2, "softmax")), *more, data=data, output=output, batch=4,
        optimizer="sgd", loss="sparse_categorical_crossentropy",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return output.read_bytes(), done.stderr


@pytest.fixture
def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    return {
        "a": rng.normal(0, 1, 20),
        "n": rng.integers(0, 9, 20),
        "label": rng.integers(0, 2, 20),
        "b": rng.normal(0, 1, 20),
    }


def expected(place: Workplace, columns: dict[str, np.ndarray], names: str) -> bytes:
    x = np.stack([columns[name] for name in names], 1).astype("float32")
    np.save(place.folder / "x.npy", x)
    np.save(place.folder / "y.npy", columns["label"])
    return weights(place, place.folder / "x.npy", "--labels", place.folder / "y.npy")[0]


@pytest.mark.parametrize("group", ["df", "deep/er"])
def test_columns_of_several_types(
    place: Workplace, columns: dict[str, np.ndarray], group: str
) -> None:
    path = write_frame(place.folder / "f.h5", columns, group)
    assert weights(place, path)[0] == expected(place, columns, "anb")
    named = ["--columns", "b,a,n", "--label-column", "label"]
    assert weights(place, path, *named)[0] == expected(place, columns, "ban")


def test_columns_that_are_no_numbers(place: Workplace, columns: dict[str, np.ndarray]) -> None:
    path = write_frame(place.folder / "f.h5", columns)
    with h5py.File(path, "a") as file:
        del file["df/axis0"]
        file["df/axis0"] = np.array(["a", "text", "n", "label", "b"], "S")
        file["df/block2_items"] = np.array(["text"], "S")
        pickled = file.create_dataset("df/block2_values", (1,), h5py.vlen_dtype("uint8"))
        pickled[0] = np.arange(9, dtype="uint8")
    found, said = weights(place, path)
    assert found == expected(place, columns, "anb")
    assert "left out 1 columns that are no numbers" in said


def test_what_is_not_read_is_named(place: Workplace, columns: dict[str, np.ndarray]) -> None:
    model = place.model([3], dense(2, "softmax"))
    path = write_frame(place.folder / "f.h5", columns)
    done = place.fit(model, data=path, columns="a,c", loss="sparse_categorical_crossentropy")
    assert done.returncode == USAGE and 'received "c"' in done.stderr, done.stderr
    with h5py.File(place.folder / "t.h5", "w") as file:
        file["df/table"] = np.zeros(4, [("index", "i8"), ("values_block_0", "V8")])
    done = place.fit(model, data=place.folder / "t.h5", loss="sparse_categorical_crossentropy")
    assert done.returncode == DATA and 'format="fixed"' in done.stderr, done.stderr


def test_columns_of_unequal_length(place: Workplace, columns: dict[str, np.ndarray]) -> None:
    path = write_frame(place.folder / "f.h5", columns)
    with h5py.File(path, "a") as file:
        values = file["df/block1_values"][:18]
        del file["df/block1_values"]
        file["df/block1_values"] = values
    done = place.fit(
        place.model([3], dense(2, "softmax")), data=path, loss="sparse_categorical_crossentropy"
    )
    assert done.returncode == DATA, done.stderr
    for word in ['"a"', '"n"', "20 rows", "received 18"]:
        assert word in done.stderr, done.stderr


def test_datasets_as_columns(place: Workplace, columns: dict[str, np.ndarray]) -> None:
    """Each of one number a row, side by side."""
    path = place.folder / "c.h5"
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            file[f"deep/{name}"] = values
    named = ["--columns", "deep/a,deep/n,deep/b", "--label-column", "deep/label"]
    assert weights(place, path, *named)[0] == expected(place, columns, "anb")
    with h5py.File(path, "a") as file:
        del file["deep/b"]
        file["deep/b"] = columns["b"][:3]
    model = place.model([3], dense(2, "softmax"))
    done = place.fit(model, *named, data=path, loss="sparse_categorical_crossentropy")
    assert done.returncode == DATA, done.stderr
    assert '"deep/b"' in done.stderr and "received 3" in done.stderr, done.stderr


def write_table(path: Path, fields: dict[str, np.ndarray], kinds: dict[str, str]) -> Path:
    """The table format, as PyTables writes it: records, and what pandas says of them."""
    rows = len(next(iter(fields.values())))
    types = [(name, values.dtype, values.shape[1:]) for name, values in fields.items()]
    records = np.zeros(rows, [("index", "i8"), *types])
    for name, values in fields.items():
        records[name] = values
    with h5py.File(path, "w") as file:
        table = file.create_dataset("df/table", data=records, chunks=(8,), compression="gzip")
        file["df"].attrs["pandas_type"] = np.bytes_("frame_table")
        for name, kind in kinds.items():
            table.attrs[f"{name}_dtype"] = np.bytes_(kind)
            table.attrs[f"{name}_kind"] = np.bytes_(b"(lp0\nVa\np1\na.")
    return path


def test_table_format(place: Workplace, columns: dict[str, np.ndarray]) -> None:
    """Fields of a name are columns; those of a block are called by their positions."""
    texts = np.array(["u", "v"] * 10, "S1")
    days = np.arange(20) * 10**15
    fields = {**columns, "s": texts, "day": days}
    kinds = {"a": "float64", "n": "int64", "s": "bytes8", "day": "datetime64[ns]"}
    path = write_table(place.folder / "t.h5", fields, kinds)
    found, said = weights(place, path)
    assert found == expected(place, columns, "anb")
    assert "left out 2 columns that are no numbers" in said
    floats = np.stack([columns["a"], columns["b"]], 1)
    whole = np.stack([columns["n"], columns["label"]], 1)
    fields = {"values_block_0": floats, "values_block_1": whole, "values_block_2": texts[:, None]}
    path = write_table(place.folder / "b.h5", fields, {"values_block_2": "bytes8"})
    found, said = weights(place, path, "--label-column", "values_block_1[1]")
    assert found == expected(place, columns, "abn")
    assert "pickled" in said and "left out 1 columns" in said
    done = place.fit(
        place.model([3], dense(2, "softmax")), data=path, loss="sparse_categorical_crossentropy"
    )
    assert done.returncode == USAGE and "--label-column" in done.stderr, done.stderr
    assert "values_block_1[1]" in done.stderr and "data_columns" in done.stderr
