"""Files that do not stay in the page cache are read ahead into buffers of what the limit leaves."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import prediction
import pytest

ROWS, COLUMNS = 4096, 1000
MODEL = {
    "class_name": "Sequential",
    "config": {
        "name": "dense",
        "layers": [
            {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, COLUMNS]}},
            {"class_name": "Dense", "config": {"name": "out", "units": 1}},
        ],
    },
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """31 MiB: more than a quarter of a group of 64 MiB."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "model.json").write_text(json.dumps(MODEL))
    source = np.random.default_rng(3)
    np.save(folder / "x.npy", source.random((ROWS, COLUMNS)))
    np.save(folder / "y.npy", source.random((ROWS, 1), "float32"))
    return folder


def forget(path: Path) -> None:
    """Out of the page cache, as after a restart."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fit(plimsoll: Path, data: Path, shuffle: str, log: Path, group: list[object]) -> dict:
    done = subprocess.run(
        [str(word) for word in [
            *group, plimsoll, "fit", data / "model.json", "--data", data / "x.npy", "--labels",
            data / "y.npy", "--batch", 256, "--epochs", 2, "--optimizer", "adam", "--loss", "mse",
            "--shuffle", shuffle, "--json", "--log", log, "--log-steps",
        ]],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode == 125:
        pytest.skip("no memory cgroup here")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def losses(log: Path) -> list[float]:
    return [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "step" in row]


@pytest.mark.parametrize("shuffle", ["none", "block"])
def test_the_same_bits_and_what_was_predicted(
    plimsoll: Path, in_cgroup: Path, data: Path, tmp_path: Path, shuffle: str
) -> None:
    plain = fit(plimsoll, data, shuffle, tmp_path / "plain.jsonl", [])
    forget(data / "x.npy")
    group = [in_cgroup, "64MiB", "--report", tmp_path / "group.json", "--"]
    ahead = fit(plimsoll, data, shuffle, tmp_path / "ahead.jsonl", group)
    assert losses(tmp_path / "ahead.jsonl") == losses(tmp_path / "plain.jsonl")
    more = ahead["predicted_process_bytes"] - plain["predicted_process_bytes"]
    if more == 0:
        pytest.skip("the file system has no direct reads, or the file is in its cache")
    # Much of it is no more than what starting took.
    assert more >= 2**18
    prediction.holds(ahead)
    assert json.loads((tmp_path / "group.json").read_text())["oom_kills"] == 0
