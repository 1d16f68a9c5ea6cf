"""What the parity tests share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tool(build_dir: Path) -> Path:
    """The built program for tests that are about files alone."""
    path = build_dir / "bin" / "plimsoll_model_tool"
    if not path.is_file():
        pytest.fail(f"{path} is missing. Build the target 'plimsoll_model_tool'.")
    return path
