"""Pages of plan, fit and explain: figures are the JSON's, and nothing comes from elsewhere."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LOG = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total "
    "capacity of 21.96 GiB of which 2.19 GiB is free. Process 7 has 19.77 GiB memory in use. Of "
    "the allocated memory 9.10 GiB is allocated by PyTorch, and 9.93 GiB is reserved by PyTorch "
    "but unallocated.\n<script>alert(1)</script>\n"
)


def run(*command: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def record_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="record">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def check(page: str, record: Any, at_least: int) -> None:
    """Every figure of the page is the record's, and the page stands alone."""
    figures = re.findall(r'<data data-key="([^"]+)" value="([^"]+)">', page)
    assert len(figures) >= at_least
    for key, value in figures:
        found = record
        for part in key.split("."):
            found = found[int(part)] if part.isdigit() else found[part]
        assert found == json.loads(value), key
    assert record_of(page) == record
    assert not re.search(r"https?:|src=|href=|url\(", page)
    assert "prefers-color-scheme:dark" in page and "width=device-width" in page


@pytest.fixture
def model(tmp_path: Path) -> Path:
    layers: list[dict[str, Any]] = [
        {"class_name": "InputLayer", "config": {"name": "image", "batch_shape": [None, 12, 12, 1]}},
        {
            "class_name": "Conv2D",
            "config": {"name": "filters", "filters": 8, "kernel_size": [3, 3]},
        },
        {"class_name": "Flatten", "config": {"name": "flat"}},
        {"class_name": "Dense", "config": {"name": "classes", "units": 4, "activation": "softmax"}},
    ]
    path = tmp_path / "model.json"
    path.write_text(
        json.dumps({"class_name": "Sequential", "config": {"name": "net", "layers": layers}})
    )
    return path


TRAINING = ("--optimizer", "adam", "--loss", "sparse_categorical_crossentropy", "--batch", "16")


@pytest.mark.parametrize("limit", [(), ("--memory", "64MiB"), ("--memory", "1MiB")])
def test_the_page_of_a_plan(
    plimsoll: Path, tmp_path: Path, model: Path, limit: tuple[str, ...]
) -> None:
    page = tmp_path / "plan.html"
    done = run(plimsoll, "plan", model, *TRAINING, *limit, "--json", "--html", page)
    record = json.loads(done.stdout)
    assert done.returncode == (0 if record["answer"] == "fits" else 3)
    check(page.read_text(), record, 8)


def test_the_page_of_a_profile(plimsoll: Path, tmp_path: Path, model: Path) -> None:
    rng = np.random.default_rng(3)
    np.save(tmp_path / "x.npy", rng.normal(size=(64, 12, 12, 1)).astype("float32"))
    np.save(tmp_path / "y.npy", rng.integers(0, 4, 64))
    page = tmp_path / "profile.html"
    done = run(
        plimsoll, "fit", model, "--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy",
        *TRAINING, "--epochs", "1", "--profile-output", page,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    check(text, record_of(text), 8)
    assert "filters, " in text


def test_the_page_of_an_explanation(plimsoll: Path, tmp_path: Path) -> None:
    log = tmp_path / "a <i>.log"
    log.write_text(LOG)
    page = tmp_path / "explain.html"
    done = run(plimsoll, "explain", log, "--json", "--html", page)
    assert done.returncode == 10
    text = page.read_text()
    check(text, json.loads(done.stdout), 4)
    assert "<i>" not in text and "<script>alert" not in text


def test_one_page_holds_one_log(plimsoll: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(LOG)
    done = run(plimsoll, "explain", tmp_path / "a", tmp_path / "b", "--html", tmp_path / "page")
    assert done.returncode == 2
    assert "one log for one page" in done.stderr
