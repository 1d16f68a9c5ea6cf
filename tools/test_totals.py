#!/usr/bin/env python3
"""Adds up the JUnit reports in folders and prints one line: 'N passed, M failed'.

Exits with 1 if a test failed or if there is no test at all. What was skipped is printed before,
with its reason, and how many tests wait for the data of PLIMSOLL_TEST_DATA.
"""

import pathlib
import sys
import xml.etree.ElementTree


def count(report: pathlib.Path) -> tuple[int, int, list[str]]:
    """(passed, failed, skipped with reasons) of one report; an unreadable one is a failure."""
    try:
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    except xml.etree.ElementTree.ParseError as error:
        print(f"{report}: unreadable ({error})")
        return 0, 1, []
    passed, failed, skipped = 0, 0, []
    for case in cases:
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif skip is not None or case.get("status") == "notrun":
            reason = skip.get("message", "") if skip is not None else "disabled"
            skipped.append(f"{case.get('classname')}.{case.get('name')}: {reason}")
        else:
            passed += 1
    return passed, failed, skipped


def main(folders: list[str]) -> int:
    passed, failed, skipped = 0, 0, []
    for folder in folders:
        for report in sorted(pathlib.Path(folder).glob("*.xml")):
            more_passed, more_failed, more_skipped = count(report)
            passed, failed = passed + more_passed, failed + more_failed
            skipped += more_skipped
    for line in skipped:
        print(f"skipped: {line}")
    waiting = sum("PLIMSOLL_TEST_DATA" in line for line in skipped)
    if waiting:
        print(f"{waiting} tests need the data of PLIMSOLL_TEST_DATA")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed > 0 and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
