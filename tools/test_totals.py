#!/usr/bin/env python3
"""Adds up the JUnit reports in folders and prints one line: 'N passed, M failed'.

Exits with 1 if a test failed or if there is no test at all. What was skipped is printed before,
with its reason, and how many tests wait for the data of PLIMSOLL_TEST_DATA. NAME.again.xml holds
what failed in NAME.xml and was run again, alone: what passed there is printed by name, and if it is
more than a few tests, they count as failed.
"""

import pathlib
import sys
import xml.etree.ElementTree

AGAIN = ".again.xml"
# As many tests may fail by a busy moment of the machine.
MOMENTS = 3


def count(report: pathlib.Path) -> tuple[list[str], list[str], list[str]]:
    """(passed, failed, skipped with reasons) of one report; an unreadable one is a failure."""
    try:
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    except xml.etree.ElementTree.ParseError as error:
        return [], [f"{report}: unreadable ({error})"], []
    passed, failed, skipped = [], [], []
    for case in cases:
        name = f"{case.get('classname')}.{case.get('name')}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif skip is not None or case.get("status") == "notrun":
            reason = skip.get("message", "") if skip is not None else "disabled"
            skipped.append(f"{name}: {reason}")
        else:
            passed.append(name)
    return passed, failed, skipped


def main(folders: list[str]) -> int:
    passed, failed, skipped, moments = 0, [], [], []
    for folder in folders:
        for report in sorted(pathlib.Path(folder).glob("*.xml")):
            if report.name.endswith(AGAIN):
                continue
            more_passed, more_failed, more_skipped = count(report)
            passed += len(more_passed)
            skipped += more_skipped
            again = report.with_suffix(AGAIN)
            passed_again = count(again)[0] if again.is_file() else []
            moments += [name for name in more_failed if name in passed_again]
            failed += [name for name in more_failed if name not in passed_again]
    for line in skipped:
        print(f"skipped: {line}")
    waiting = sum("PLIMSOLL_TEST_DATA" in line for line in skipped)
    if waiting:
        print(f"{waiting} tests need the data of PLIMSOLL_TEST_DATA")
    for name in moments:
        print(f"passed only when it ran again, alone: {name}")
    if len(moments) > MOMENTS:
        failed += moments
    else:
        passed += len(moments)
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed")
    return 0 if passed > 0 and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
