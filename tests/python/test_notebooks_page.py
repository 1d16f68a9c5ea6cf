"""The page about failures, notebooks and tests: its examples are run as they stand."""

import re
import subprocess
import sys
from os import environ
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "notebooks.md"


def test_the_examples(package: Path, tmp_path: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    assert len(examples) == 5
    *examples, tests = examples
    done = subprocess.run(
        [sys.executable, "-c", "".join(examples)], capture_output=True, text=True, cwd=tmp_path,
        env=environ | {"PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "224 GiB asked for (numpy)" in done.stdout
    assert re.search(r"^model\.fit\(x, y, batch_size=64\) \d{9,10}$", done.stdout, re.M)
    (tmp_path / "test_page.py").write_text(tests)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "plimsoll.pytest_plugin", "test_page.py"],
        capture_output=True, text=True, cwd=tmp_path, env=environ | {"PYTHONPATH": str(package)},
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout
