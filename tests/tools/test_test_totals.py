"""test_totals.py adds up reports and fails where a test failed or none ran."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "test_totals.py"

PASSED = '<testcase name="a" classname="A" status="run"/>'
FAILED = '<testcase name="b" classname="A" status="run"><failure message="no"/></testcase>'
ERROR = '<testcase name="c" classname="A"><error message="no"/></testcase>'
SKIPPED = '<testcase name="d" classname="A"><skipped message="no GPU"/></testcase>'


def totals(folder: pathlib.Path, **reports: str) -> tuple[int, list[str]]:
    for name, cases in reports.items():
        text = f"<testsuites><testsuite>{cases}</testsuite></testsuites>"
        (folder / f"{name}.xml").write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def test_reports_are_added_up(tmp_path):
    assert totals(tmp_path, one=PASSED * 2, two=PASSED) == (0, ["3 passed, 0 failed"])


def test_failures_and_errors_fail(tmp_path):
    expected = (1, ["failed: A.b", "failed: A.c", "1 passed, 2 failed"])
    assert totals(tmp_path, one=PASSED + FAILED + ERROR) == expected


def test_skipped_tests_are_named_with_their_reason(tmp_path):
    expected = (0, ["skipped: A.d: no GPU", "1 passed, 0 failed"])
    assert totals(tmp_path, one=PASSED + SKIPPED) == expected


def test_nothing_at_all_fails(tmp_path):
    assert totals(tmp_path) == (1, ["0 passed, 0 failed"])


def test_an_unreadable_report_fails(tmp_path):
    (tmp_path / "broken.xml").write_text("<testsuites>")
    code, lines = totals(tmp_path, one=PASSED)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed")


def test_what_passes_when_run_again_is_named(tmp_path):
    named = "passed only when it ran again, alone: A.b"
    reports = {"one": PASSED + FAILED, "one.again": PASSED.replace('"a"', '"b"')}
    assert totals(tmp_path, **reports) == (0, [named, "2 passed, 0 failed"])


def test_what_fails_again_fails_once(tmp_path):
    reports = {"one": PASSED + FAILED, "one.again": FAILED}
    assert totals(tmp_path, **reports) == (1, ["failed: A.b", "1 passed, 1 failed"])


def test_many_that_fail_at_first_fail(tmp_path):
    names = [f'"b{i}"' for i in range(4)]
    first = "".join(FAILED.replace('"b"', name) for name in names)
    again = "".join(PASSED.replace('"a"', name) for name in names)
    code, lines = totals(tmp_path, **{"one": PASSED + first, "one.again": again})
    assert (code, lines[-1]) == (1, "1 passed, 4 failed")
