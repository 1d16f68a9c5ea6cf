"""Runs `plimsoll watch` and reads what it writes down."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Watched:
    """A watched run: exit code, what was passed on, what was said, and the record."""

    code: int
    stdout: bytes
    stderr: str
    record: dict

    @property
    def kind(self) -> str:
        return self.record["verdict"]["kind"]


@pytest.fixture
def watch(plimsoll: Path, tmp_path: Path) -> Callable[..., Watched]:
    """watch(command…, options=(…), before=(…)): `before` is put in front of plimsoll itself."""

    def run(
        *command: object,
        options: tuple[str, ...] = (),
        before: tuple[str, ...] = (),
        timeout: float = 300,
        environment: dict[str, str] | None = None,
    ) -> Watched:
        record = tmp_path / "record.json"
        words = [*before, plimsoll, "watch", *options, "--json", record, "--", *command]
        done = subprocess.run(
            [str(word) for word in words], capture_output=True, timeout=timeout, cwd=tmp_path,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
        stderr = done.stderr.decode(errors="replace")
        assert record.is_file(), stderr
        return Watched(done.returncode, done.stdout, stderr, json.loads(record.read_text()))

    return run


def need(condition: bool, reason: str) -> None:
    if not condition:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def own_group(plimsoll: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the kernel gives the command no control group of its own."""
    record = tmp_path_factory.mktemp("guard") / "record.json"
    subprocess.run([plimsoll, "watch", "--quiet", "--json", record, "--", "true"], check=True)
    need(
        json.loads(record.read_text())["guard"] != "sampling",
        "no control group may be made here (it takes root or a delegated scope)",
    )


@pytest.fixture(scope="session")
def private_mounts() -> tuple[str, ...]:
    """Words that give a command mounts of its own; skips where that is not allowed."""
    words = ("unshare", "--mount", "--propagation", "private")
    try:
        done = subprocess.run([*words, "true"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    need(done.returncode == 0, "mounts of one's own are not allowed here (it takes root)")
    return words
