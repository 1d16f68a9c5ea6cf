"""Files that are no logs are refused with the way to read them."""

import bz2
import gzip
import lzma
import random
import subprocess
from pathlib import Path

import pytest

LOG = b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


@pytest.mark.parametrize(
    ("pack", "reader"),
    [(gzip.compress, "zcat"), (bz2.compress, "bzcat"), (lzma.compress, "xzcat")],
)
def test_a_compressed_log_is_refused_with_the_command_that_unpacks_it(
    plimsoll: Path, tmp_path: Path, pack, reader: str
) -> None:
    path = tmp_path / "train.log.packed"
    path.write_bytes(pack(LOG))
    done = subprocess.run([plimsoll, "explain", path], capture_output=True, text=True)
    assert done.returncode == 5
    assert f"{reader} {path} | plimsoll explain -" in done.stderr
    done = subprocess.run([plimsoll, "explain", "-"], input=pack(LOG), capture_output=True)
    assert done.returncode == 5
    assert f"{reader} FILE".encode() in done.stderr


def test_what_holds_no_text_is_refused_rather_than_called_sound(
    plimsoll: Path, tmp_path: Path
) -> None:
    path = tmp_path / "train.log"
    noise = random.Random(1).randbytes(200_000)
    for content, said in [
        (b"", "received an empty one"),
        (noise, "bytes that are not text"),
        (bytes(5000), "bytes that are not text"),
    ]:
        path.write_bytes(content)
        for name, given in [(path, None), ("-", content)]:
            done = subprocess.run([plimsoll, "explain", name], input=given, capture_output=True)
            assert done.returncode == 5
            assert said.encode() in done.stderr
            assert done.stdout == b""


@pytest.mark.parametrize(
    "content",
    [
        b"\n",
        b"Epoch 1/2\r\n\x1b[32m10/10\x1b[0m loss 0.5\n",
        bytes(4096) + b"Epoch 1/2 done\n",  # rotated away while it was written
        "Эпоха 1: потери 0.5\n".encode("cp1251"),
        "第1轮 损失 0.5\n".encode("gb18030"),
        "Epoch 1/2 done\r\n".encode("utf-16"),
    ],
)
def test_text_of_any_encoding_without_a_failure_is_sound(
    plimsoll: Path, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(content)
    done = subprocess.run([plimsoll, "explain", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no failure found" in done.stdout
