#!/usr/bin/env python3
"""Feeds damaged files to every reader: builds the preset "fuzz" and runs its programs one by one.

    .deps/venv/bin/python tools/fuzz.py [--seconds 600] [--output FOLDER]
        [--no-build] [reader …]

Seeds are small files of PLIMSOLL_TEST_DATA where it is set, and what this script makes itself. No
single allocation may pass 64 MiB, the process 1 GiB (address sanitizer included), one input 10
seconds. Prints a table; ends with 1 where a reader crashed, hung or passed a bound, and leaves the
input in OUTPUT/<reader>/.
"""

import argparse
import gzip
import io
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
DATA = Path(os.environ.get("PLIMSOLL_TEST_DATA", "/nonexistent"))
MOST_MIB_AT_ONCE, MOST_MIB, MOST_SECONDS = 64, 1024, 10
MOST_SEEDS = 150


def wild(pattern: str, most_bytes: int) -> Iterator[bytes]:
    """The smallest files of a pattern."""
    paths = sorted(DATA.glob(pattern), key=lambda path: (path.stat().st_size, path.name))
    small = [path for path in paths if 0 < path.stat().st_size <= most_bytes]
    for path in small[:MOST_SEEDS]:
        yield path.read_bytes()


def h5_bytes(fill: Callable[[h5py.File], None], **options: object) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", **options) as file:
        fill(file)
    return buffer.getvalue()


# The weights of the model that keras_weights_fuzz knows: layer, name, shape.
WEIGHTS = [
    ("conv2d", "kernel", (3, 3, 2, 3)), ("conv2d", "bias", (3,)),
    *[("batch_normalization", n, (3,)) for n in ("gamma", "beta", "moving_mean",
                                                 "moving_variance")],
    ("head", "kernel", (48, 2)), ("head", "bias", (2,)),
]  # fmt: skip


def keras_3_weights(file: h5py.File) -> None:
    groups = {"conv2d": "conv2d", "batch_normalization": "batch_normalization", "head": "dense"}
    for layer, _, shape in WEIGHTS:
        group = file.require_group(f"layers/{groups[layer]}/vars")
        group.create_dataset(str(len(group)), shape, "f4")
    file.create_dataset("optimizer/vars/0", (), "i8")
    file.create_dataset("optimizer/vars/1", (), "f4")
    trained = [shape for _, name, shape in WEIGHTS if not name.startswith("moving")]
    for index, shape in enumerate(shape for shape in trained for _ in range(2)):
        file.create_dataset(f"optimizer/vars/{index + 2}", shape, "f4")


def keras_2_weights(file: h5py.File) -> None:
    layers = list(dict.fromkeys(layer for layer, _, _ in WEIGHTS))
    file.attrs["layer_names"] = [layer.encode() for layer in layers]
    for layer in layers:
        group = file.create_group(layer)
        own = [(f"{layer}/{name}:0", shape) for at, name, shape in WEIGHTS if at == layer]
        group.attrs["weight_names"] = [name.encode() for name, _ in own]
        for name, shape in own:
            group.create_dataset(name, shape, "f4")


def chunked(file: h5py.File) -> None:
    values = np.arange(600, dtype="f4").reshape(20, 30)
    file.create_dataset("x", data=values, chunks=(7, 8), compression="gzip", shuffle=True)
    file.create_dataset("y", data=np.arange(20, dtype="i8"), fletcher32=True, chunks=(20,))
    file.attrs["names"] = np.array([b"one", b"three"])


def weight_seeds() -> Iterator[bytes]:
    for fill in (keras_3_weights, keras_2_weights):
        for libver in ("earliest", "latest"):
            yield h5_bytes(fill, libver=libver)


def table(file: h5py.File, names: list[str], key: str = "df") -> None:
    """Pandas' table format as PyTables lays it out: records, and in plain text what they are."""
    records = np.zeros(12, [("index", "i8"), *((name, *FIELDS[name]) for name in names)])
    for place, name in enumerate(names):
        values = np.arange(records[name].size).reshape(records[name].shape) + place
        records[name] = values.astype(records[name].dtype)
    data = file.create_dataset(f"{key}/table", data=records, chunks=(8,), compression="gzip")
    file[key].attrs["pandas_type"] = np.bytes_("frame_table")
    for name in names:
        data.attrs[f"{name}_dtype"] = np.bytes_(KINDS.get(name, "float64"))


FIELDS: dict[str, tuple[object, ...]] = {
    "a": ("f8",), "n": ("i4",), "label": ("u1",), "half": ("f2",), "truth": ("?",),
    "text": ("S3",), "values_block_0": ("f8", (2,)), "values_block_1": (">i2", (2, 1)),
    "values_block_2": ("S2", (2,)),
    "class": (h5py.enum_dtype({"no": 0, "yes": 1, "perhaps": 300}, "i2"),),
}  # fmt: skip
KINDS = {"n": "int32", "text": "bytes24", "truth": "bool", "values_block_2": "bytes16"}


def named_table(file: h5py.File) -> None:
    table(file, ["a", "n", "half", "truth", "text", "class", "label"])


def block_table(file: h5py.File) -> None:
    table(file, ["values_block_0", "values_block_1", "values_block_2"])


def lists_in_records(file: h5py.File) -> None:
    """Compound types beyond a table's: one inside another, of references, of texts."""
    inner = np.dtype([("re", "f4"), ("im", "f4")])
    file["nested"] = np.zeros(3, [("z", inner), ("w", "f8")])
    file["opaque"] = np.zeros(3, [("v", "V5"), ("w", ">u8")])
    file.create_dataset("texts", (3,), [("s", h5py.string_dtype()), ("w", "i1")])
    file["complex"] = np.ones(4, "c8")
    file.attrs["record"] = np.zeros((), [("a", "f8"), ("b", "i2", (3,))])


def lzf(file: h5py.File) -> None:
    """Chunks that LZF makes smaller, that it leaves as they are, and shuffled ones."""
    runs = np.repeat(np.arange(12), 50).astype("i4")
    noise = np.random.default_rng(1).integers(0, 256, 600, dtype="u1")
    file.create_dataset("x", data=runs.reshape(60, 10), chunks=(32, 10), compression="lzf")
    file.create_dataset("noise", data=noise, chunks=(200,), compression="lzf")
    file.create_dataset("y", data=runs[::10], chunks=(50,), compression="lzf", shuffle=True,
                        fletcher32=True)  # fmt: skip


def strings(file: h5py.File) -> None:
    """They have variable length, as a model of two words or one text looks them up."""
    words = ["a", "to be", "é", "", "x" * 300, "x"]
    file.create_dataset("x", data=np.reshape(words, (3, 2)).tolist(), dtype=h5py.string_dtype())
    file.create_dataset("y", data=words * 9, dtype=h5py.string_dtype(), chunks=(7,),
                        compression="gzip")  # fmt: skip
    file["left"] = np.array([b"a", b"to be", b"x\0y"])


def fixed_strings(file: h5py.File) -> None:
    file["x"] = np.array([[b"a", b"to be"], [b"", b"x"]])
    file["y"] = np.arange(2)


HDF5_FILLS = (chunked, lzf, named_table, block_table, lists_in_records, strings, fixed_strings)


def hdf5_seeds() -> Iterator[bytes]:
    for libver in ("earliest", "latest"):
        for fill in HDF5_FILLS:
            yield h5_bytes(fill, libver=libver)
    yield from weight_seeds()
    yield from wild("wild/keras_h5/*.h5", 32_768)


def json_seeds() -> Iterator[bytes]:
    for path in sorted((ROOT / "examples").glob("*.json")):
        yield path.read_bytes()
    yield from wild("wild/keras_json/*.json", 65_536)
    for content in wild("wild/keras_v3/*.keras", 1 << 20):
        yield zipfile.ZipFile(io.BytesIO(content)).read("config.json")
    for path in sorted(DATA.glob("wild/keras_h5/*.h5"))[:MOST_SEEDS]:
        try:
            with h5py.File(path) as file:
                yield str(file.attrs["model_config"]).encode()
        except (KeyError, OSError):
            continue


def zipped(method: int, members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


SMALL_MODEL = """{"class_name": "Sequential", "config": {"name": "s", "layers": [
{"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [null, 6, 6, 2]}},
{"class_name": "Conv2D", "config": {"name": "conv2d", "filters": 3, "kernel_size": 3}},
{"class_name": "BatchNormalization", "config": {"name": "b"}},
{"class_name": "Flatten", "config": {"name": "f"}},
{"class_name": "Dense", "config": {"name": "head", "units": 2}}]},
"compile_config": {"loss": "mse", "optimizer": {"class_name": "Adam", "config": {}}}}"""


def archive_seeds() -> Iterator[bytes]:
    members = {"metadata.json": b'{"keras_version": "3.15.0"}', "config.json": SMALL_MODEL.encode()}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        yield zipped(method, members | {"model.weights.h5": h5_bytes(keras_3_weights)})
    yield from wild("wild/keras_v3/*.keras", 1 << 18)


def whole_h5_seeds() -> Iterator[bytes]:
    def fill(file: h5py.File) -> None:
        file.attrs["model_config"] = SMALL_MODEL
        keras_2_weights(file.create_group("model_weights"))

    yield h5_bytes(fill)
    yield from wild("wild/keras_h5/*.h5", 49_152)


def array_bytes(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def npy_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def field(number: int, content: bytes) -> bytes:
    """A length and bytes as protocol buffers write them."""
    length, size = b"", len(content)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def record(**features: list[float] | int | bytes | list[bytes]) -> bytes:
    """A tf.train.Example."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, int):
            kind = field(3, field(1, bytes([value])))
        elif isinstance(value, bytes) or isinstance(value[0], bytes):
            texts = [value] if isinstance(value, bytes) else value
            kind = field(1, b"".join(field(1, text) for text in texts))
        else:
            kind = field(2, field(1, np.array(value, "<f4").tobytes()))
        entries += field(1, field(1, name.replace("__", "/").encode()) + field(2, kind))
    return field(1, entries)


def record_seeds() -> Iterator[bytes]:
    """Records that data_fuzz frames: one, or two of the same length."""
    plain = record(x=[1.0, 2.0], y=3)
    yield options(TFRECORD | FRAMED) + plain
    yield options(TFRECORD | FRAMED, TWO_RECORDS) + plain + plain
    yield options(TFRECORD | FRAMED, TWO_RECORDS) + 2 * record(a=[0.5], n=7, label=1)
    yield options(TFRECORD | FRAMED) + record(x=bytes(range(48)), label=1)
    yield options(TFRECORD | FRAMED) + record(x=[b"one", b"three"], y=1)
    for bits, words in ((0, [b"a", b"to be"]), (WORDS, [b"To be, or not"])):
        yield options(TFRECORD | FRAMED | bits, LOOKED_UP) + record(x=words, y=1)
        yield options(TFRECORD | FRAMED | bits, LOOKED_UP | TWO_RECORDS) + 2 * record(t=words, y=1)
    yield options(TFRECORD | FRAMED, LOOKED_UP | COLUMNS) + record(a=b"to be", n=b"x", label=1)
    for kind in ("JPEG", "PNG", "BMP", "GIF", "WEBP"):
        for size in ((4, 4), (7, 3)):
            image = record(image__encoded=image_bytes("RGB", size, kind), image__class__label=1)
            yield options(TFRECORD | FRAMED) + image
            yield options(TFRECORD | FRAMED, TWO_RECORDS) + image + image


TABLES = (
    "sep=;\r\na;b;label\r\n1.234,5;12 %;0\r\n-2,5;3 %;1\r\n-;;0\r\n",
    "# a,b,label\n1,2,0\n3,--,1\n",
    ',a,label\n0,"1,234",0\n1,"12,345,678",\n2,999,1\n',
    " 0.5  12 x\n 1.5\t3 y\n",
)


def frame(file: h5py.File) -> None:
    file["df/axis0"] = np.array([b"a", b"n", b"label"])
    file["df/block0_items"] = np.array([b"a"])
    file["df/block0_values"] = np.ones((4, 1))
    file["df/block1_items"] = np.array([b"n", b"label"])
    file["df/block1_values"] = np.arange(8).reshape(4, 2)


def wide_frame(file: h5py.File) -> None:
    """Columns in more datasets than are read where they lie."""
    names = [b"%d" % i for i in range(10)]
    file["df/axis0"] = np.array(names)
    for i, name in enumerate(names):
        file[f"df/block{i}_items"] = np.array([name])
        file[f"df/block{i}_values"] = np.full((3, 1), i, f"{'if'[i % 2]}{(4, 8)[i % 3 == 0]}")


def side_by_side(file: h5py.File) -> None:
    file["a"] = np.arange(5.0)
    file["n"] = np.arange(5, dtype="i2").reshape(5, 1)
    file["label"] = np.arange(5, dtype="u1") % 2


def packed(file: h5py.File) -> None:
    """In LZF, and a chunk that is too large to be held."""
    x = np.zeros((600, 512), "f4")
    file.create_dataset("x", data=x, chunks=(600, 512), compression="gzip", shuffle=True)
    file.create_dataset("y", data=np.arange(600) % 3, chunks=(50,), compression="lzf")


# The two bytes that data_fuzz takes its options from: the ending and how values are read, then
# which columns.
NPY, NPZ, CSV, TXT, IDX, TFRECORD, HDF5, GZ = range(8)
BY_NAME, STANDARDIZED, FILLED, WORDS, WINDOWS = 8, 16, 32, 64, 128
FRAMED = 16
COLUMNS, LABEL, BLOCK_LABEL, UNLABELLED, INDICES, TWO_RECORDS = 1, 2, 4, 8, 16, 32
HEADER, NO_HEADER = 64, 128
LOOKED_UP = HEADER | NO_HEADER


def options(first: int, second: int = 0) -> bytes:
    return bytes([first, second])


def table_seeds() -> Iterator[bytes]:
    rows = b'a,"b ""c""",label\r\n1,x,0\n2.5,"y\nz",1\n,x,1\n-3e2,y,0\n'
    for bits in range(0, 256, 16):
        yield options(bits | CSV) + rows
        yield options(bits | TXT) + "To be, or not to be: déjà vu.\n".encode()
    for more in (LABEL, INDICES, UNLABELLED, COLUMNS | LABEL, HEADER, NO_HEADER):
        yield options(CSV | FILLED, more) + rows.replace(b'"b ""c"""', b"n")
    for text in TABLES:
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-be"):
            mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
            yield options(CSV) + mark + text.encode(encoding)
        yield options(CSV | FILLED | STANDARDIZED, INDICES) + text.encode()
    for bits in (0, WORDS):
        yield options(CSV | bits, LOOKED_UP) + rows
        yield options(CSV | bits, LOOKED_UP | COLUMNS) + b"a,n,label\nto be,x,1\nx,,0\n"
        for array in (np.array([["to be", "x"], ["é", ""]]), np.array([b"a x", b"To be"])):
            yield options(NPY | bits, LOOKED_UP) + npy_bytes(array)
            yield options(NPZ | bits, LOOKED_UP) + array_bytes(x=array, y=np.arange(2))
    for delimiter in ";\t| ":
        yield options(CSV) + "a,n,label\n1.5,x,0\n-2,y,1\n".replace(",", delimiter).encode()
    yield options(TXT | WORDS) + "words in utf-16 \U0001d11e".encode("utf-16")


def data_seeds() -> Iterator[bytes]:
    x = np.arange(24, dtype="f8").reshape(6, 4)
    kinds = [x, x.astype(">i2"), np.asfortranarray(x), np.zeros((3, 0)), np.arange(5, dtype="u1")]
    for array in kinds:
        yield options(NPY) + npy_bytes(array)
    yield options(NPZ) + array_bytes(x=x, y=np.arange(6))
    yield options(NPZ | BY_NAME) + array_bytes(
        x=x, left=x[:, 0], y=np.arange(6), right=np.ones((6, 2))
    )
    yield options(NPZ) + array_bytes(x_train=x, y_train=np.arange(6), sample_weight=np.ones(6))
    idx = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(range(8))
    yield options(IDX) + idx
    yield options(GZ) + gzip.compress(idx)
    yield from record_seeds()
    yield from table_seeds()
    for fill in (chunked, frame, packed, lzf, named_table, wide_frame):
        for more in (0, LABEL):
            yield options(HDF5, more) + h5_bytes(fill)
    for fill in (frame, named_table, side_by_side):
        yield options(HDF5, COLUMNS | LABEL) + h5_bytes(fill)
    for more in (0, BLOCK_LABEL, UNLABELLED):
        yield options(HDF5, more) + h5_bytes(block_table)
    for bits in (0, WORDS):
        for fill in (strings, fixed_strings):
            yield options(HDF5 | bits, LOOKED_UP) + h5_bytes(fill)
    for content in wild("wild/npz/*.npy", 4096):
        yield options(NPY) + content
    for content in wild("wild/npz/*.npz", 16_000):
        yield options(NPZ) + content


def image_bytes(mode: str, size: tuple[int, int], kind: str, **saved: object) -> bytes:
    """A picture with edges and runs, in a mode of Pillow's."""
    y, x = np.mgrid[: size[1], : size[0]]
    pixels = np.stack([x * 7 % 256, y * 11 % 256, (x // 5 + y // 3) * 40 % 256], 2).astype("u1")
    picture = Image.fromarray(pixels)
    picture = picture.quantize(13) if mode == "P" else picture.convert(mode)
    buffer = io.BytesIO()
    picture.save(buffer, kind, **saved)
    return buffer.getvalue()


def bmp_seeds() -> Iterator[bytes]:
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        yield image_bytes(mode, (11, 6), "BMP")
    plain = image_bytes("RGB", (12, 6), "BMP")
    yield plain[:22] + struct.pack("<i", -6) + plain[26:]  # from the top down
    core = struct.pack("<IHHHH", 12, 12, 6, 1, 24)
    yield plain[:10] + struct.pack("<I", 26) + core + plain[54:]
    masks = struct.pack("<3I", 0xF800, 0x7E0, 0x1F)
    head = plain[:10] + struct.pack("<I", 66) + plain[14:28] + b"\x10\0\x03\0\0\0" + plain[34:54]
    yield head + masks + plain[54 : 54 + 24 * 6]
    for bits in (1, 4):  # of a palette
        rows = bytes(range((11 * bits + 31) // 32 * 4)) * 6
        start = 54 + 4 * 2**bits
        info = struct.pack("<IiiHHIIiiII", 40, 11, 6, 1, bits, 0, 0, 0, 0, 0, 0)
        palette = bytes(range(4 * 2**bits))
        yield b"BM" + struct.pack("<III", start + len(rows), 0, start) + info + palette + rows


def gif_seeds() -> Iterator[bytes]:
    for mode in ("1", "L", "P"):
        for interlace in (0, 1):
            yield image_bytes(mode, (23, 17), "GIF", interlace=interlace)
    yield image_bytes("P", (9, 9), "GIF", transparency=3, comment=b"of nothing")
    turned = Image.fromarray(np.eye(9, dtype="u1") * 200)
    yield image_bytes("P", (9, 9), "GIF", save_all=True, append_images=[turned], loop=0)
    yield image_bytes("P", (150, 90), "GIF")  # codes of all lengths


def webp_seeds() -> Iterator[bytes]:
    for size in ((1, 1), (5, 3), (23, 17), (40, 33)):
        for quality in (5, 80, 100):
            for method in (0, 6):
                yield image_bytes("RGB", size, "WEBP", quality=quality, method=method)
    yield image_bytes("RGBA", (23, 17), "WEBP", exif=b"Exif\0\0II", quality=60)
    yield image_bytes("RGB", (23, 17), "WEBP", xmp=b"<x/>", icc_profile=bytes(9), quality=60)
    yield image_bytes("RGB", (5, 3), "WEBP", lossless=True)
    turned = Image.fromarray(np.zeros((3, 5, 3), "u1"))
    yield image_bytes("RGB", (5, 3), "WEBP", save_all=True, append_images=[turned])


def image_seeds() -> Iterator[bytes]:
    for content in wild("data/cats_dogs/*/*", 32_768):
        yield b"\1" + content
    for kind in ("JPEG", "PNG"):
        for mode in ("L", "RGB"):
            yield b"\0" + image_bytes(mode, (11, 6), kind)
    yield b"\1" + image_bytes("RGB", (23, 17), "JPEG", progressive=True)
    for mode in ("1", "P", "RGBA", "I;16"):
        yield b"\2" + image_bytes(mode, (11, 6), "PNG")
    for index, content in enumerate((*bmp_seeds(), *gif_seeds(), *webp_seeds())):
        yield bytes([index % 3]) + content  # one, three or four channels
    yield b"\1" + bytes.fromhex(  # a WebP with transparency that is not compressed, of 5 x 3
        "524946466200000057454250565038580a00000010000000040000020000414c50480e000000010f700fa388"
        "08f18e8f88fe4701565038202e0000007001009d012a0500030002c04c25a8027401400000feecbfd97b1881"
        "6270e92e9721bffce25ffeb6ffe3ff190000"
    )


def plan_seeds() -> Iterator[bytes]:
    source = (ROOT / "tests" / "toys" / "toy_plans.cpp").read_text()
    for text in re.findall(r'R"\((.*?)\)"', source, re.DOTALL):
        yield b"\0" + text.encode()
        yield b"\1" + text.encode()
    for path in sorted((ROOT / "tests" / "golden").glob("*/*.txt")):
        if path.stat().st_size < 16_384:
            yield b"\0" + path.read_bytes()
            yield b"\1" + path.read_bytes()


def log_seeds() -> Iterator[bytes]:
    for path in sorted((ROOT / "tests" / "golden" / "explain").rglob("*")):
        if path.is_file() and path.stat().st_size < 16_384:
            yield path.read_bytes()


def snapshot_seeds() -> Iterator[bytes]:
    """Memory snapshots as PyTorch writes them."""
    block = {"size": 512, "requested_size": 500, "state": "active_allocated", "frames": []}
    frame = {"filename": "model.py", "line": 7, "name": "forward"}
    idle = {"size": 2**20, "requested_size": 0, "state": "inactive"}
    segment = {"device": 0, "total_size": 2**21, "allocated_size": 512, "blocks": [block, idle]}
    oom = {"action": "oom", "size": 2**30, "device_free": 2**20, "frames": [frame]}
    held = {**segment, "blocks": [{**block, "frames": [frame]}] * 3}
    whole = {"segments": [segment, held], "device_traces": [[oom], []]}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for content in (whole, {"segments": []}, [segment], {"segments": [segment] * 9}):
            yield pickle.dumps(content, protocol)


PROGRESS = """Epoch 1/3
\x1b[1m 12/938\x1b[0m \x1b[32m━\x1b[0m \x1b[1m9s\x1b[0m 10ms/step - loss: 2.1\b\b\b\r
938/938 ━━━━━ 9s 10ms/step - accuracy: 0.71 - loss: 0.81 - val_loss: 0.5
 37%|███▋      | 37/100 [00:03<00:06, 9.9it/s, loss=0.4]
{"step": 12, "loss": 0.25}
Traceback (most recent call last):
MemoryError: Unable to allocate 3.00 GiB for an array with shape (1024, 1024, 384)
python train.py --batch-size=64 --lr 0.1 'a b' "c"
"""


def output_seeds() -> Iterator[bytes]:
    yield PROGRESS.encode()
    yield PROGRESS.replace("\n", "\r").encode()
    yield from (line.encode() for line in PROGRESS.splitlines())
    yield from log_seeds()


KERNEL_LINES = """12345,python3 invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0
4,123,456,-;Memory cgroup out of memory: Killed process 7 (python3) total-vm:9kB, anon-rss:8kB
oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,task_memcg=/a/b,task=python3,pid=7,uid=0
oom_kill 3
0::/user.slice/a
4:memory:/docker/0123
"""


def readings_seeds() -> Iterator[bytes]:
    """What the kernel says of this process, and of what it killed."""
    names = ("stat", "status", "io", "smaps_rollup", "limits", "cgroup", "maps", "smaps")
    yield KERNEL_LINES.encode()
    for name in names:
        path = Path("/proc/self") / name
        if path.exists():
            yield path.read_bytes()[:16_384]


READERS: dict[str, tuple[Callable[[], Iterator[bytes]], int]] = {  # seeds, longest input
    "hdf5": (hdf5_seeds, 65_536),
    "zip": (archive_seeds, 65_536),
    "keras_json": (json_seeds, 65_536),
    "keras_archive": (archive_seeds, 65_536),
    "keras_h5": (whole_h5_seeds, 65_536),
    "keras_weights": (weight_seeds, 65_536),
    "data": (data_seeds, 16_384),
    "plan_text": (plan_seeds, 16_384),
    "image": (image_seeds, 32_768),
    "explain": (log_seeds, 16_384),
    "snapshot": (snapshot_seeds, 16_384),
    "watch_output": (output_seeds, 16_384),
    "watch_readings": (readings_seeds, 16_384),
}


@dataclass
class Runs:
    """What the rounds of one reader came to."""

    busy: float = 0.0  # seconds that its processes computed
    inputs: int = 0
    slowest: int = 0  # seconds
    peak_mib: int = 0
    edges: str = "?"
    stood: bool = True


def computed(pid: int) -> float:
    """Seconds of the CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_round(words: list[str | Path], log: Path, seconds: float, runs: Runs) -> None:
    """Runs a fuzzer until it has computed for so long, and adds what it did."""
    with log.open("w") as stream:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=stream)
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            time.sleep(0.5)
            if computed(process.pid) >= seconds:
                os.kill(process.pid, signal.SIGUSR1)  # it ends after this input
        _, status, used = ended
        process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    stats = dict(re.findall(r"stat::(\w+):\s*(\d+)", text))
    runs.busy += used.ru_utime + used.ru_stime
    runs.inputs += int(stats.get("number_of_executed_units", 0))
    runs.slowest = max(runs.slowest, int(stats.get("slowest_unit_time_sec", 0)))
    runs.peak_mib = max(runs.peak_mib, used.ru_maxrss // 1024)
    runs.edges = (re.findall(r"cov: (\d+)", text) or [runs.edges])[-1]
    runs.stood &= process.returncode == 0


def run(reader: str, seconds: int, output: Path) -> tuple[bool, str]:
    """Runs one reader until it has computed for so long; whether it stood, and its line."""
    seeds, longest = READERS[reader]
    folder = output / reader
    (folder / "seeds").mkdir(parents=True, exist_ok=True)
    (folder / "corpus").mkdir(exist_ok=True)
    for index, content in enumerate(seeds()):
        (folder / "seeds" / f"{index:04}").write_bytes(content)
    runs = Runs()
    while runs.stood and runs.busy < seconds:
        words: list[str | Path] = [
            BUILD / "tests" / "fuzz" / f"{reader}_fuzz", folder / "corpus", folder / "seeds",
            f"-max_len={longest}",
            f"-rss_limit_mb={MOST_MIB}", f"-malloc_limit_mb={MOST_MIB_AT_ONCE}",
            f"-timeout={MOST_SECONDS}", f"-artifact_prefix={folder}/", "-verbosity=1",
            "-print_final_stats=1",
        ]  # fmt: skip
        run_round(words, folder / "log.txt", seconds - runs.busy, runs)
    kinds = re.compile(r"(crash|oom|timeout|leak)-")
    found = sorted(path.name for path in folder.iterdir() if kinds.match(path.name))
    corpus = len(list((folder / "corpus").iterdir()))
    line = (
        f"{reader:<14} {runs.busy:>11.0f} {runs.inputs:>10} {runs.slowest:>7} "
        f"{runs.peak_mib:>8} {corpus:>7} {runs.edges:>6} {' '.join(found) or 'none'}"
    )
    return runs.stood and not found, line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", metavar="reader", help=" ".join(READERS))
    parser.add_argument("--seconds", type=int, default=600, help="of CPU, for each reader")
    parser.add_argument("--output", type=Path, default=BUILD / "runs")
    parser.add_argument("--no-build", action="store_true")
    options = parser.parse_args()
    readers = options.readers or list(READERS)
    unknown = [name for name in readers if name not in READERS]
    if unknown:
        parser.error(f"expected some of {' '.join(READERS)}, received {' '.join(unknown)}")
    if not options.no_build:
        configure = ["cmake", "--preset", "fuzz", "-Wno-dev", "--log-level=WARNING"]
        targets = [f"{name}_fuzz" for name in readers]
        subprocess.run(configure, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(
            ["cmake", "--build", "--preset", "fuzz", "--target", *targets], cwd=ROOT, check=True
        )
    names = f"{'reader':<14} {'CPU seconds':>11} {'inputs':>10} {'slowest':>7} {'peak MiB':>8} "
    print(names + f"{'corpus':>7} {'edges':>6} found", flush=True)
    stood = True
    for reader in readers:
        ok, line = run(reader, options.seconds, options.output)
        stood &= ok
        print(line, flush=True)
    return 0 if stood else 1


if __name__ == "__main__":
    sys.exit(main())
