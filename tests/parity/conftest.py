"""What the parity tests share."""

from pathlib import Path

import cases
import pytest
import sequence_cases


def draw_from_the_start() -> None:
    """A test's data are its own, whatever was collected and run before."""
    cases.RNG.bit_generator.state = cases.START
    sequence_cases.RNG.bit_generator.state = sequence_cases.START


def pytest_collectstart() -> None:
    draw_from_the_start()


@pytest.fixture(autouse=True)
def drawing_from_the_start() -> None:
    draw_from_the_start()


@pytest.fixture(scope="session")
def tool(build_dir: Path) -> Path:
    """The built program for tests that are about files alone."""
    path = build_dir / "bin" / "plimsoll_model_tool"
    if not path.is_file():
        pytest.fail(f"{path} is missing. Build the target 'plimsoll_model_tool'.")
    return path
