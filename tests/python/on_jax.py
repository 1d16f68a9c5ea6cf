"""Runs a file of tests in a process whose Keras is on JAX: a process has one backend."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None,
    reason="JAX is not there: pip install jax, beside tools/requirements-test.txt",
)


def run_on_jax(file: str, package: Path, *words: str, timeout: int = 900) -> None:
    """Fails with what the process said, unless all tests of the file have passed."""
    folder = Path(__file__).parent
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu",
                   "PLIMSOLL_BUILD": str(package.parent)}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder / file, *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    last = done.stdout.strip().splitlines()[-1:]
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert last and "passed" in last[0] and "skipped" not in last[0], last
