"""Files that are no logs are refused with the way to read them."""

import bz2
import gzip
import lzma
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


def test_an_empty_log_has_no_failure(plimsoll: Path, tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.write_bytes(b"")
    done = subprocess.run([plimsoll, "explain", path], capture_output=True, text=True)
    assert done.returncode == 0
    assert "no failure found" in done.stdout
