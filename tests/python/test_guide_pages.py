"""The guides: their programs are run as they stand, and the figures of their tables are measured.

Always in a small size, all of them in one process; by night each row of each table as it is
printed, in a process of its own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PAGES = sorted(GUIDES.glob("*.md"))
SMALL = {"SAMPLES": 40, "SIDE": 24, "BATCH": 16, "MODELS": 2, "ROWS": 3000, "ARRAYS": 2}
FIRST_LINES = 10  # in which a reader finds the answer
# Peaks differ from machine to machine: with the processor's kernels, and the pools of allocators.
TOLERANCE, ALWAYS = 0.15, 60


def programs(page: Path) -> dict[str, str]:
    """By the names in their first lines, in their order."""
    found = re.findall(r"^```python\n(# (\w+\.py)\n.*?)^```", page.read_text(), re.S | re.M)
    return {name: text for text, name in found}


class Row(NamedTuple):
    """Of a table of runs."""

    command: str
    other: str  # a constant that differs
    peak: int  # MiB
    growth: float | None  # MiB an epoch, which the program prints
    code: int


def rows(page: Path) -> list[Row]:
    row = (
        r"^\| `(python [^`]+)`(?: with ([A-Z]+ = \d+))? \| (\d+) MiB \|"
        r"(?: ([\d.]+) MiB \|)? (\d+) \|$"
    )
    return [
        Row(command, other, int(peak), float(growth) if growth else None, int(code))
        for command, other, peak, growth, code in re.findall(row, page.read_text(), re.M)
    ]


def changed(text: str, numbers: dict[str, int]) -> str:
    """The same program with other numbers in the line of its constants."""

    def line(match: re.Match[str]) -> str:
        names = match[1].split(", ")
        values = [part.strip() for part in match[2].split(", ")]
        values = [str(numbers.get(name, value)) for name, value in zip(names, values, strict=True)]
        return f"{match[1]} = {', '.join(values)}"

    return re.sub(r"^([A-Z]+(?:, [A-Z]+)*) = (.*)$", line, text, flags=re.M)


def environment(package: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}


def write(page: Path, folder: Path, numbers: dict[str, int]) -> list[str]:
    for name, text in programs(page).items():
        (folder / name).write_text(changed(text, numbers))
    return list(programs(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_answer_comes_first_and_tables_name_programs(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert any("plimsoll" in line for line in lines[:FIRST_LINES])
    assert "tested on a GPU" in " ".join(lines), "what was not tested is said"
    assert rows(page), "a table of runs"
    told = re.findall(r"^\| `python [^\n]*", page.read_text(), re.M)
    assert len(told) == len(rows(page)), "each row is read"
    shown = re.findall(r"^```text\n\$ (.*)", page.read_text(), re.M)
    assert set(shown) <= {row.command for row in rows(page)}, "what is shown is run"
    for row in rows(page):
        program = programs(page)[row.command.split()[-1]]
        assert not row.other or changed(program, {row.other.split()[0]: 7}) != program, row


def test_all_programs_in_a_small_size(package: Path, tmp_path: Path) -> None:
    names = []
    for page in PAGES:
        names += write(page, tmp_path, SMALL)
    assert len(names) == len(set(names)) >= 10
    driver = (
        "import runpy, sys\n"
        "for name in sys.argv[1:]:\n"
        "    print('began', name, flush=True)\n"
        "    runpy.run_path(name, run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", driver, *names], capture_output=True, text=True, cwd=tmp_path,
        env=environment(package),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]


def test_the_message_of_the_page_about_kills(package: Path, tmp_path: Path) -> None:
    page = GUIDES / "exit-137-and-colab.md"
    write(page, tmp_path, {})
    done = subprocess.run(
        [sys.executable, "-m", "plimsoll", "--memory", "1GiB", "grow.py"], capture_output=True,
        text=True, cwd=tmp_path, env=environment(package),
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    shown = re.findall(r"^```text\n\$ python -m plimsoll.*?\n(.*?)^```", page.read_text(),
                       re.S | re.M)  # fmt: skip
    assert len(shown) == 1
    for line in shown[0].splitlines():
        assert line in done.stderr, done.stderr


ROWS = [pytest.param(page, row, id=f"{page.stem}: {row.command} {row.other}") for page in PAGES
        for row in rows(page)]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("page, row", ROWS)
def test_figures(page: Path, row: Row, package: Path, tmp_path: Path) -> None:
    name, _, number = row.other.partition(" = ")
    names = write(page, tmp_path, {name: int(number)} if name else {})
    if "prepare.py" in names:
        subprocess.run([sys.executable, "prepare.py"], cwd=tmp_path, check=True)
    with open(tmp_path / "told", "w+") as told:
        child = subprocess.Popen(
            [sys.executable, *row.command.split()[1:]], cwd=tmp_path, env=environment(package),
            stdout=told, stderr=subprocess.STDOUT,
        )  # fmt: skip
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        text = told.read()
    peak = usage.ru_maxrss / 1024
    print(
        f"{row.command} {row.other}: {peak:.0f} MiB, exit code {child.returncode}\n{text[-3000:]}"
    )
    assert child.returncode == row.code
    assert abs(peak - row.peak) <= max(TOLERANCE * row.peak, ALWAYS)
    shown = re.findall(rf"^```text\n\$ {re.escape(row.command)}\n(.*?)^```", page.read_text(),
                       re.S | re.M)  # fmt: skip
    for line in "".join(shown).splitlines():
        assert line in text
    if row.growth is not None:
        growth = float(re.findall(r"^an epoch adds ([\d.-]+) MiB", text, re.M)[0])
        assert abs(growth - row.growth) <= max(TOLERANCE * row.growth, 2)


# Runs a program statement by statement, and tells how much the process took at most in each.
STATEMENTS = """\
import ast, re, sys

text = open(sys.argv[1]).read()
names = {"__name__": "__main__"}
for node in ast.parse(text).body:
    open("/proc/self/clear_refs", "w").write("5")
    exec(compile(ast.Module([node], []), sys.argv[1], "exec"), names)
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
    print("\\ntook", peak, ast.get_source_segment(text, node).splitlines()[0])
"""


def charts(page: Path) -> list[tuple[str, list[tuple[int, str, str]]]]:
    """Programs, with rows of a chart: MiB, statement, bar."""
    found = []
    for name, text in re.findall(r"^```text\n# (\w+\.py), .*?\n(.*?)^```", page.read_text(),
                                 re.S | re.M):  # fmt: skip
        rows = re.findall(r"^ *(\d+) (.*?) +(█+)$", text, re.M)
        assert len(rows) == len(text.splitlines())
        found.append((name, [(int(peak), what, bar) for peak, what, bar in rows]))
    return found


def test_bars_of_charts_are_as_long_as_their_figures() -> None:
    found = [rows for page in PAGES for _, rows in charts(page)]
    assert len(found) >= 2
    for rows in found:
        most = max(peak for peak, _, _ in rows)
        assert [len(bar) for _, _, bar in rows] == [round(40 * peak / most) for peak, _, _ in rows]


CHARTS = [pytest.param(page, *chart, id=page.stem) for page in PAGES for chart in charts(page)]


@pytest.mark.nightly
@pytest.mark.parametrize("page, name, rows", CHARTS)
def test_charts(
    page: Path, name: str, rows: list[tuple[int, str, str]], package: Path, tmp_path: Path
) -> None:
    write(page, tmp_path, {})
    done = subprocess.run(
        [sys.executable, "-c", STATEMENTS, name], cwd=tmp_path, capture_output=True, text=True,
        env=environment(package),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = {what: int(peak) for peak, what in re.findall(r"^took (\d+) (.*)$", done.stdout, re.M)}
    print(told)
    for peak, what, _ in rows:
        assert abs(told[what] - peak) <= max(TOLERANCE * peak, ALWAYS), what
