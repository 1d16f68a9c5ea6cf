"""Forms of data: what samples and labels they can hold, and how large they are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from memory_layers import Draw


@dataclass(frozen=True)
class Form:
    name: str
    # Labels that it can hold: "any" shape; a "flat" row; a "number" or class; a "class"; the next
    # "token"; the next "row"; a "mask".
    labels: str = "any"
    validation: bool = True  # --validation-split takes from it
    weights: bool = True  # --sample-weights stand beside it


FORMS = {
    form.name: form
    for form in (
        Form("npy"),
        Form("npy_fortran"),
        Form("npy_gz"),
        Form("npy_folder"),
        Form("npz"),
        Form("npz_compressed"),
        Form("npz_folder"),
        Form("idx"),
        Form("idx_gz"),
        Form("csv", "number"),
        Form("csv_gz", "number"),
        Form("tsv", "number"),
        Form("csv_categories", "number"),
        Form("series", "number"),
        Form("windows", "row"),
        Form("text_characters", "token"),
        Form("text_words", "token"),
        Form("images_jpeg", "class"),
        Form("images_png", "class"),
        Form("images_flat"),
        Form("masks", "mask"),
        Form("hdf5"),
        Form("hdf5_chunked"),
        Form("hdf5_gzip"),
        Form("tfrecord", "flat"),
        Form("tfrecord_gz", "flat"),
        Form("stdin"),
        Form("named"),
    )
}
# Those that hold several inputs and outputs by their names.
WITH_PORTS = ("named", "npz", "npz_compressed", "npz_folder", "hdf5", "hdf5_chunked", "hdf5_gzip",
              "tfrecord", "tfrecord_gz")  # fmt: skip
DTYPES = ("uint8", "int16", "int32", "int64", "float16", "float32", "float64", ">f4", ">i2", ">f8")


def draw_data(draw: Draw, form: Form, profile: str, quick: bool) -> dict[str, Any]:
    """What is stored: shapes of a sample's inputs, rows, numbers below `values`."""
    data: dict[str, Any] = {"form": form.name, "rows": draw.log(2, 64)}
    data["values"] = draw.log(2, 200)
    most = 16_000_000 // (10 if quick else 1)  # numbers in all
    shape = [draw.log(1, 24) for _ in range(draw.random.randint(1, 3))]
    if profile in ("long axis", "large blocks", "large records"):
        long = 1_000_000 if profile == "long axis" else 10_000_000
        shape = [draw.log(1, 2) for _ in range(draw.random.randint(1, 3))]
        place = 0 if draw.often(0.6) else draw.random.randrange(len(shape))
        shape[place] = draw.log(10_000, long // (10 if quick else 1))
        data["rows"] = draw.log(1, 4)
    if profile == "many rows":
        shape = [draw.log(1, 4)]
        data["rows"] = draw.log(5_000, 20_000 if quick else 300_000)
    shapes = [shape]
    if profile == "ports" and form.name in WITH_PORTS or form.name == "named":
        count = draw.log(2, 64 if profile == "ports" else 3)
        shapes = [[draw.log(1, 8)] for _ in range(count)]
    if form.name.startswith(("csv", "tsv", "series", "windows")):
        shapes = [_draw_table(draw, form.name, profile, quick, data)]
    elif form.name.startswith("text"):
        shapes = [_draw_text(draw, form.name, profile, quick, data)]
    elif form.name.startswith(("images", "masks")):
        shapes = [_draw_images(draw, form.name, profile, quick, data)]
    elif form.name.startswith("tfrecord"):
        shapes = [[math.prod(shape)] for shape in shapes]
        data["kind"] = draw.one_of("floats", "integers", "bytes")
    else:
        data["dtype"] = "uint8" if form.name.startswith("idx") else draw.one_of(*DTYPES)
    if data.get("dtype") in ("uint8",) or data.get("kind") == "bytes":
        data["values"] = min(data["values"], 255)
    if form.name in ("hdf5_chunked", "hdf5_gzip"):
        _draw_chunks(draw, profile, data)
    if form.name.endswith("folder"):
        data["parts"] = draw.log(1, min(40, data["rows"]))
    if profile == "large images":
        most *= 4
    data["rows"] = max(1, min(data["rows"], most // sum(math.prod(shape) for shape in shapes)))
    if "parts" in data:
        data["parts"] = min(data["parts"], data["rows"])
    data["shapes"] = shapes
    return data


def _draw_chunks(draw: Draw, profile: str, data: dict[str, Any]) -> None:
    # Rows of a chunk, and the part of a row that it holds.
    data["chunk_rows"] = draw.log(1, 64)
    data["chunk_part"] = 1 if profile == "large blocks" else draw.one_of(1, 2, 5)
    data["shuffled_bytes"] = draw.often(0.5)


def _draw_table(
    draw: Draw, form: str, profile: str, quick: bool, data: dict[str, Any]
) -> list[int]:
    wide = profile in ("columns", "long axis")
    columns = draw.log(1, (2_000 if quick else 30_000) if wide else 30)
    data["standardize"] = draw.often(0.3)
    if form == "csv_categories":
        columns = draw.log(1, 300 if wide else 4)
        data["categories"] = draw.one_of("onehot", "index")
        data["words"] = draw.log(1, 9_000 if wide else 50)  # different ones in a column
        data["word_length"] = draw.log(1, 2_000 if wide else 10)
        data["words"] = min(data["words"], max(1, 2_000_000 // (columns * data["word_length"])))
        data["rows"] = max(data["rows"], data["words"])
        data["columns"] = columns
        data["values"] = data["words"] + 1
        return [columns * (data["words"] if data["categories"] == "onehot" else 1)]
    if form in ("series", "windows"):
        columns = min(columns, 1_000)
        data["window"] = draw.log(1, 1_000 if profile == "columns" else 20)
        data["window"] = max(1, min(data["window"], 2_000_000 // columns))
        data["rows"] += data["window"] + 2
        data["row"] = columns
        return [data["window"], columns]
    data["columns"] = columns
    if profile in ("columns", "long axis"):
        data["rows"] = draw.log(1, 8)
    return [columns]


def _draw_text(draw: Draw, form: str, profile: str, quick: bool, data: dict[str, Any]) -> list[int]:
    large = profile in ("vocabulary", "classes", "columns", "long axis")
    most = 60 if form == "text_characters" else 40
    if large:
        most = 2_000 if form == "text_characters" else (5_000 if quick else 200_000)
    data["words"] = draw.log(2, most)  # different tokens
    data["word_length"] = draw.log(5, 40) if large else 5
    data["tokens"] = max(data["words"] + 40, draw.log(100, 2_000))
    window = draw.log(1, 1_000 if profile == "long axis" else 30)
    data["tokens"] += 2 * window
    data["rows"] = data["tokens"] - window
    if form == "text_words":
        data["vocabulary"] = draw.one_of(data["words"] + 1, max(2, data["words"] // 3))
        data["classes"] = min(data["vocabulary"], data["words"] + 1)
    else:
        data["classes"] = data["words"]
    data["classes"] = max(2, data["classes"])
    data["values"] = data["classes"]
    return [window]


def _draw_images(
    draw: Draw, form: str, profile: str, quick: bool, data: dict[str, Any]
) -> list[int]:
    large = profile == "large images"
    data["rows"] = draw.log(2, 12)
    most = (1_000 if quick else 6_000) if large else 60
    data["height"], data["width"] = draw.log(1, most), draw.log(1, most)
    data["mode"] = draw.one_of("RGB", "L")
    data["classes"] = draw.log(2, 300 if profile == "classes" else 4)
    data["rows"] = max(data["rows"], data["classes"])
    data["classes"] = max(2, data["classes"])
    data["values"] = 257
    channels = 3 if draw.often(0.7) else 1
    # The size that the model takes: that of the images, or another.
    if draw.often(0.3) and data["height"] * data["width"] * 3 <= draw.elements:
        return [data["height"], data["width"], channels]
    sizes = [draw.log(1, 64), draw.log(1, 64)]
    return [*sizes, channels]
