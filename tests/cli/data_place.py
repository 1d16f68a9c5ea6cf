"""A folder with data and a model, and a way to run the program on them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

USAGE, DATA, IO = 2, 5, 6


def layer(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


class Workplace:
    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.log = folder / "log.jsonl"

    def model(self, shape: list[int], *layers: dict[str, Any], dtype: str = "float32") -> Path:
        first = layer("InputLayer", "in", batch_shape=[None, *shape], dtype=dtype)
        config = {"name": "net", "layers": [first, *layers]}
        path = self.folder / "model.json"
        path.write_text(json.dumps({"class_name": "Sequential", "config": config}))
        return path

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name

    def run(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        command = [str(self.binary), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def fit(self, model: Path, *more: Any, **values: Any) -> subprocess.CompletedProcess[str]:
        values = {"optimizer": "adam", "log": self.log, **values}
        options = [word for k, v in values.items() for word in ("--" + k.replace("_", "-"), v)]
        return self.run("fit", model, *options, *more)

    def epochs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def place(plimsoll: Path, tmp_path: Path) -> Workplace:
    return Workplace(plimsoll, tmp_path)


@pytest.fixture(scope="session")
def corpus() -> Path:
    folder = os.environ.get("PLIMSOLL_TEST_DATA")
    if not folder:
        pytest.skip("PLIMSOLL_TEST_DATA names no folder of test data")
    return Path(folder) / "data"


def refused(place: Workplace, data: Any, *more: Any, width: int) -> str:
    """What is said of data that two classes cannot be trained from."""
    done = place.fit(
        place.model([width], dense(2, "softmax")), *more, data=data,
        loss="sparse_categorical_crossentropy",
    )  # fmt: skip
    assert done.returncode == DATA, (done.returncode, done.stderr)
    return done.stderr


def dense(units: int, activation: str, name: str = "out") -> dict[str, Any]:
    return layer("Dense", name, units=units, activation=activation)
