"""The page about Python: its examples are run as they stand."""

import re
import subprocess
import sys
from functools import partial
from os import environ
from pathlib import Path

import plimsoll

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"


def test_the_examples(package: Path, tmp_path: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    assert len(examples) == 3
    data = (
        "import numpy as np\n"
        "x = np.random.default_rng(0).normal(size=(40, 96, 96, 3)).astype('float32')\n"
        "y = np.arange(40) % 10\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", data + "".join(examples)], capture_output=True, text=True,
        cwd=tmp_path, env=environ | {"PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "trained.keras").is_file()


def test_the_program_of_the_examples(package: Path, tmp_path: Path) -> None:
    script = PAGE.parents[2] / "examples" / "python" / "fashion_mnist.py"
    words = [sys.executable, str(script), "--rows", "2000", "--epochs", "1", "--memory"]
    environment = environ | {"PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = partial(subprocess.run, capture_output=True, text=True, cwd=tmp_path, env=environment)
    done = run([*words, "2GiB"])
    assert done.returncode == 0, done.stderr
    assert "to spare" in done.stdout and "test loss" in done.stdout
    assert (tmp_path / "fashion_mnist.keras").is_file()
    refused = run([*words, "200MiB"])
    assert refused.returncode == 1
    assert "\nmemory=200.0 MiB does not fit: needs " in refused.stderr
    assert "interpreter, framework and the program's arrays" in refused.stderr


def test_every_name_is_there() -> None:
    for name in plimsoll.__all__:
        assert getattr(plimsoll, name).__module__.startswith("plimsoll"), name


def test_importing_is_cheap(package: Path) -> None:
    """Without Keras: it is imported when a model comes. Seconds are of the processor."""
    script = (
        "import sys, time, numpy; "
        "began = time.process_time(); import plimsoll; took = time.process_time() - began; "
        "print('keras' in sys.modules, took, plimsoll._core.process_memory() / 2**20)"
    )
    best = 1.0
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              env=environ | {"PYTHONPATH": str(package)})  # fmt: skip
        assert done.returncode == 0, done.stderr
        loaded, seconds, mib = done.stdout.split()
        assert loaded == "False"
        assert float(mib) <= 40
        best = min(best, float(seconds))
    assert best <= 0.15
