"""Every command in README and docs is run, in a folder of its own, and must succeed."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Run elsewhere: the first by .ci/run, the second by hand on a fresh machine (it takes minutes).
RUN_ELSEWHERE = {"tools/test", "tools/quickstart"}


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(text: str) -> Iterator[str]:
    """The lines after `$ ` of console blocks; a backslash joins the next line."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                yield line[2:]


@pytest.mark.parametrize("document", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_commands(document: Path, plimsoll: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    environment = {**os.environ, "PATH": f"{plimsoll.parent}:{os.environ['PATH']}"}
    environment["PLIMSOLL_BUILD"] = str(plimsoll.parents[1])
    for command in commands(document.read_text()):
        if command.strip() in RUN_ELSEWHERE:
            continue
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True,
            executable="/bin/bash", timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\nexit {done.returncode}\n{done.stderr[-2000:]}"


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_documents_have_commands() -> None:
    """The extraction works: a change of the fence would otherwise run nothing."""
    assert sum(1 for _ in commands((ROOT / "README.md").read_text())) >= 4
