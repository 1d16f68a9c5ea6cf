"""The mark limit_memory, by tests that pytest runs in a process of its own."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import plimsoll

pytest_plugins = "pytester"
ROOT = Path(__file__).parents[2]

TESTS = """\
import subprocess, sys, threading, time
import pytest

MIB = 1 << 20
CHILD = "import time; held = b'x' * (64 << 20); time.sleep(0.5)"

@pytest.fixture
def large():
    return b"x" * (100 * MIB)

@pytest.mark.limit_memory("32MiB")
def test_within(large):
    assert len(b"x" * (16 * MIB)) == 16 * MIB

@pytest.mark.limit_memory("32MiB")
def test_short_peak():
    b"x" * (48 * MIB)

@pytest.mark.limit_memory("32MiB")
def test_child():
    subprocess.run([sys.executable, "-c", CHILD], check=True)

@pytest.mark.limit_memory("80MiB")
def test_one_after_the_other():
    held = b"x" * (48 * MIB)
    del held
    subprocess.run([sys.executable, "-c", CHILD], check=True)

@pytest.mark.limit_memory("32MiB")
def test_own_failure():
    held = b"x" * (48 * MIB)
    assert False, "its own"

@pytest.mark.limit_memory("32MiB")
def test_forked_child_shares(large):
    import multiprocessing
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0.3,))
    process.start()
    process.join()

def test_without():
    b"x" * (48 * MIB)

@pytest.mark.limit_memory("many")
def test_wrong_size():
    pass

@pytest.mark.limit_memory()
def test_no_size():
    pass
"""
TAKEN = re.compile(r"received ([\d.]+) MiB: ([\d.]+) MiB of the test's process, ([\d.]+) MiB")


@pytest.fixture(name="inside")
def _inside(pytester: pytest.Pytester, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(package))
    pytester.makepyfile(test_inside=TESTS)


def run(pytester: pytest.Pytester, *words: str) -> tuple[pytest.RunResult, dict[str, str]]:
    """What the run printed, and the text of each failure by its test."""
    command = [sys.executable, "-m", "pytest", "-p", "plimsoll.pytest_plugin", "--strict-markers",
               "-p", "no:cacheprovider", "-rfE", *words]  # fmt: skip
    result = pytester.run(*command)
    told = str(result.stdout).partition("short test summary info")[0]
    parts = re.split(r"^_{3,} (?:ERROR .*)?(test_\w+) _{3,}$", told, flags=re.M)
    return result, dict(zip(parts[1::2], parts[2::2]))


def test_what_is_within_passes_and_what_is_above_fails(
    pytester: pytest.Pytester, inside: None
) -> None:
    result, failures = run(pytester, "--junitxml=report.xml", "-k", "not size")
    result.assert_outcomes(passed=4, failed=3)
    assert failures.keys() == {"test_short_peak", "test_child", "test_own_failure"}
    whole, own, theirs = map(float, TAKEN.search(failures["test_short_peak"]).groups())
    assert 47 <= whole < 60 and theirs == 0  # the kernel counts its pages in batches
    whole, own, theirs = map(float, TAKEN.search(failures["test_child"]).groups())
    assert 64 <= theirs < 80 and own < 8 and whole == pytest.approx(own + theirs, abs=0.2)
    assert "its own" in failures["test_own_failure"]
    assert TAKEN.search(failures["test_own_failure"]) is None
    report = Path("report.xml").read_text()
    assert report.count('name="plimsoll_memory_bytes"') == 5


def test_a_wrong_size_is_an_error_of_the_test(pytester: pytest.Pytester, inside: None) -> None:
    _result, failures = run(pytester, "-k", "size")
    assert failures.keys() == {"test_wrong_size", "test_no_size"}
    assert 'received "many"' in failures["test_wrong_size"]
    assert (
        "test_no_size: limit_memory: expected one size, received none" in failures["test_no_size"]
    )


def test_where_the_peak_cannot_begin_anew_it_is_sampled(
    pytester: pytest.Pytester, inside: None
) -> None:
    pytester.makeconftest(
        "import builtins, plimsoll.pytest_plugin as plugin\n"
        "def opened(path, *more, **named):\n"
        "    if str(path) == '/proc/self/clear_refs':\n"
        "        raise PermissionError(path)\n"
        "    return open(path, *more, **named)\n"
        "plugin.open = opened\n"
    )
    pytester.makepyfile(
        test_sampled="import pytest, time\n@pytest.mark.limit_memory('32MiB')\ndef test_held():\n"
        "    held = b'x' * (48 << 20); time.sleep(0.1)\n"
    )
    result, failures = run(pytester, "test_sampled.py")
    result.assert_outcomes(failed=1)
    assert "sampled" in failures["test_held"]
    assert 47 <= float(TAKEN.search(failures["test_held"])[1]) < 60


def test_an_installed_package_brings_the_plugin(package: Path) -> None:
    """By its metadata; loading it brings neither the engine nor NumPy."""
    project = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]
    name = project["entry-points"]["pytest11"]["plimsoll"]
    assert hasattr(plimsoll, name.partition(".")[2])
    program = (
        f"import sys, pytest; before = {{*sys.modules}}; import {name}\n"
        "loaded = {one.partition('.')[0] for one in {*sys.modules} - before}\n"
        "print(sorted(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={"PYTHONPATH": str(package)})  # fmt: skip
    assert done.stdout.strip() == "['plimsoll']", done.stdout + done.stderr
