"""Thirty ordinary programs inside a limit of the whole process, by `python -m plimsoll`.

What each does is in README.md. Where nothing is drawn while it trains but the order of samples, its
results are those of plain Python (expected.json); the others draw other numbers, and their results
are of the same kind.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DATA = os.environ.get("PLIMSOLL_TEST_DATA")
EXPECTED = json.loads((HERE / "expected.json").read_text())
LIMIT = "1GiB"
MIB = 1 << 20
PAGE = "docs/reference/thirty-programs.md"
FAR = 0.15  # of the page's figures of memory, which differ from machine to machine

NEEDS_DATA = {"02", "03", "06", "07", "08", "10", "12", "24", "27", "29"}
# Dropout, augmentation or draws of the program's own.
DRAWS = {"01", "03", "07", "08", "10", "11", "12", "13", "14", "21", "22", "25", "26", "27", "28"}
# What runs in Keras, all of it or the call that is named, and the word of the line that says so.
IN_KERAS = {
    "05": "call is Python code", "15": "call is Python code",
    "16": "binary_focal_loss", "17": "bce_dice", "18": "MacroF1", "19": "<lambda>",
    "20": "call is Python code", "29": "contrastive_loss",
    "30": "TokenAndPositionEmbedding",
}  # fmt: skip
# Those that differ most from each other run always, the rest by tools/test --nightly.
ALWAYS = {"04", "16", "21", "26"}
PROGRAMS = [
    pytest.param(name, marks=() if name[:2] in ALWAYS else pytest.mark.nightly, id=name[:-3])
    for name in sorted(EXPECTED)
]


def result_of(output: str) -> dict[str, float]:
    """The pairs of the last line RESULT."""
    line = [line for line in output.splitlines() if line.startswith("RESULT ")][-1]
    return {name: float(value) for name, _, value in (p.partition("=") for p in line.split()[1:])}


@pytest.fixture(scope="module")
def environment(build_dir: Path) -> dict[str, str]:
    found = {**os.environ, "PYTHONPATH": str(build_dir / "python"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    if DATA is not None:
        found["SCRIPTS_DATA"] = str(Path(DATA) / "data")
    return found


def command(program: str, source_dir: Path) -> list[str]:
    """In a control group of the limit where one can be made, as a container is."""
    tool = source_dir / "tools" / "in_cgroup"
    made = subprocess.run([tool, "64MiB", "--", "true"], capture_output=True).returncode == 0
    group = [str(tool), LIMIT, "--report", "report", "--"] if made else []
    return [*group, sys.executable, "-m", "plimsoll", "--memory", LIMIT, str(HERE / program)]


def rows_of(page: str) -> dict[str, list[str]]:
    """The cells of the page's table, by the program's name."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()
            if line[:3].startswith("| ") and line[2:4].isdigit()]  # fmt: skip
    return {f"{row[0]}.py": row[1:] for row in rows}


@pytest.mark.parametrize("name", PROGRAMS)
def test_runs_as_it_is(
    name: str, environment: dict[str, str], source_dir: Path, tmp_path: Path
) -> None:
    number = name[:2]
    if number in NEEDS_DATA and DATA is None:
        pytest.skip("PLIMSOLL_TEST_DATA is not set")
    done = subprocess.run(command(name, source_dir), cwd=tmp_path, env=environment,
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = "\n".join(line for line in done.stderr.splitlines() if line.startswith("plimsoll: "))
    if number in IN_KERAS:
        assert IN_KERAS[number] in told
    else:
        assert told == "", told
    received, expected = result_of(done.stdout), EXPECTED[name]["result"]
    assert received.keys() == expected.keys()
    for key, value in received.items():
        assert math.isfinite(value), key
        if number not in DRAWS:
            assert value == pytest.approx(expected[key], rel=5e-3, abs=2e-4), key
    if (tmp_path / "report").exists():
        report = json.loads((tmp_path / "report").read_text())
        assert report["oom_kills"] == 0 and report["max_resident_bytes"] <= 1024 * MIB
        told_peak = int(rows_of((source_dir / PAGE).read_text())[name][2])
        assert report["max_resident_bytes"] / MIB == pytest.approx(told_peak, rel=FAR)


def test_the_page_tells_what_runs_where(source_dir: Path) -> None:
    page = (source_dir / PAGE).read_text()
    rows = rows_of(page)
    assert list(rows) == sorted(EXPECTED)
    for name, (_, where, _, plain) in rows.items():
        assert ("in Keras" in where) == (name[:2] in IN_KERAS), name
        assert int(plain) == EXPECTED[name]["peak_rss_mib"], name
    natively = sum(where.startswith("natively") for _, where, *_ in rows.values())
    assert f"{natively} are trained natively" in page
