"""Runs a file of tests in a process whose Keras is on another backend: a process has one."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


def needs(module: str, name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        importlib.util.find_spec(module) is None,
        reason=f"{name} is not there: pip install {module}, beside tools/requirements-test.txt",
    )


needs_jax, needs_torch = needs("jax", "JAX"), needs("torch", "torch")


def run_on(backend: str, file: str, package: Path, *words: str, timeout: int = 900) -> None:
    """Fails with what the process said, unless all tests of the file have passed."""
    folder = Path(__file__).parent
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu",
                   "KERAS_TORCH_DEVICE": "cpu", "PLIMSOLL_BUILD": str(package.parent)}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder / file, *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    last = done.stdout.strip().splitlines()[-1:]
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert last and "passed" in last[0] and "skipped" not in last[0], last
