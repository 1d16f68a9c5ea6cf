"""The package as the build lays it out, in front of any that is installed."""

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
BUILD = Path(os.environ.get("PLIMSOLL_BUILD", Path(__file__).parents[2] / "build/dev"))
sys.path.insert(0, str(BUILD / "python"))


@pytest.fixture(scope="session")
def package() -> Path:
    """Where the package is; for programs that tests start."""
    folder = BUILD / "python"
    assert (folder / "plimsoll" / "__init__.py").is_file(), "Build the target plimsoll_python."
    return folder


@pytest.fixture(scope="session")
def plimsoll_program() -> Path:
    """The command line of the same build."""
    return BUILD / "bin" / "plimsoll"
