"""TFRecord files of tf.train.Example, written without TensorFlow, at the speed of NumPy."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, reversed
_LANES = 4096


@cache
def _table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


@cache
def _shift(length: int) -> np.ndarray:
    """What so many bytes of zero make of each bit of a checksum: 32 columns."""
    if length == 0:
        return np.uint32(1) << np.arange(32, dtype=np.uint32)
    if length == 1:
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        return (bits >> np.uint32(8)) ^ _table()[bits & np.uint32(255)]
    half = _shift(length // 2)
    twice = _apply(half, half)
    return _apply(_shift(1), twice) if length % 2 else twice


def _apply(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    result = np.zeros_like(values)
    for bit in range(32):
        result ^= np.where((values >> np.uint32(bit)) & np.uint32(1), columns[bit], np.uint32(0))
    return result


def crc32c(data: bytes) -> int:
    """Lanes of equal length side by side, then the lanes one after another."""
    table = _table()
    whole = np.frombuffer(data, np.uint8)
    length = len(whole) // _LANES
    start = np.array([0xFFFFFFFF], np.uint32)
    if length > 0:
        lanes = whole[: length * _LANES].reshape(_LANES, length).T.copy()
        sums = np.zeros(_LANES, np.uint32)
        for column in lanes:
            sums = (sums >> np.uint32(8)) ^ table[(sums ^ column) & np.uint32(255)]
        size = length
        while len(sums) > 1:
            sums = _apply(_shift(size), sums[0::2]) ^ sums[1::2]
            size *= 2
        start = _apply(_shift(length * _LANES), start) ^ sums
    value = int(start[0])
    listed = table.tolist()
    for byte in whole[length * _LANES :].tolist():
        value = (value >> 8) ^ listed[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    value = crc32c(data)
    return struct.pack("<I", (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varints(values: np.ndarray) -> bytes:
    if len(values) and values.max() < 128:
        return values.astype(np.uint8).tobytes()
    return b"".join(map(_varint, values.tolist()))


def _feature(row: np.ndarray) -> bytes:
    if row.dtype == np.uint8:
        return _field(1, _field(1, row.tobytes()))
    if row.dtype == np.float32:
        return _field(2, _field(1, row.astype("<f4").tobytes()))
    return _field(3, _field(1, _varints(row)))


def write_examples(path: str, features: dict[str, np.ndarray]) -> None:
    """One record a row: uint8 becomes a string of bytes, float32 floats, int64 integers."""
    with open(path, "wb") as file:
        for i in range(len(next(iter(features.values())))):
            entries = b"".join(
                _field(1, _field(1, name.encode()) + _field(2, _feature(rows[i])))
                for name, rows in features.items()
            )
            record = _field(1, entries)
            head = struct.pack("<Q", len(record))
            file.write(head + _masked(head) + record + _masked(record))
