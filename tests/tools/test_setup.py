"""tools/setup, on machines that it finds installed already."""

import os
import subprocess
from pathlib import Path

import pytest


def run_setup(source_dir: Path, folder: Path, machine: str) -> subprocess.CompletedProcess[str]:
    """Of another machine: what it is asked with stands in front of the system's own."""
    answers = {"uname": f"echo {machine}", "dpkg-query": "printf installed", "apt-get": "exit 1"}
    (folder / "bin").mkdir()
    for name, answer in answers.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{answer}\n")
        (folder / "bin" / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PLIMSOLL_DEPS": str(folder / "deps"),
    }
    return subprocess.run(
        [source_dir / "tools" / "setup", "--build"],
        capture_output=True, text=True, env=environment, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("machine", ["aarch64", "riscv64"])
def test_other_machines_do_without_onednn(source_dir: Path, tmp_path: Path, machine: str) -> None:
    done = run_setup(source_dir, tmp_path, machine)
    assert done.returncode == 0, done.stderr
    assert f"left out on {machine}" in done.stdout and "done" in done.stdout
    assert not (tmp_path / "deps" / "onednn").exists()
