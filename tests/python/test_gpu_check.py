"""`tools/gpu_check` where there is no GPU: it says so, and its own code works."""

import os
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "gpu_check"


def check(package: Path, *words: str) -> tuple[int, str]:
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "-1",
        "PLIMSOLL_BUILD": str(package.parent),
    }
    done = subprocess.run([TOOL, *words], env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_without_a_gpu_nothing_is_checked(package: Path) -> None:
    code, told = check(package)
    assert (code, "sees no GPU here: nothing was checked." in told) == (77, True), told


def test_names_of_checks(package: Path) -> None:
    code, told = check(package, "convolutions")
    assert code == 2 and "expected resource_exhausted, convolution, copy, xla" in told


@pytest.mark.nightly
def test_on_a_processor(package: Path) -> None:
    code, told = check(package, "--on-cpu")
    assert (code, told.count("passed")) == (0, 2), told
