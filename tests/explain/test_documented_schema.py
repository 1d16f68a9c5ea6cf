"""The keys that docs/reference name are those that are printed, both ways."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

LOG = (
    "Epoch 1/3\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 10.00 GiB "
    "total capacity; 7.90 GiB already allocated; 1.10 GiB free; 8.10 GiB reserved in total by "
    "PyTorch)\n"
)
# Words in back-ticks in the descriptions that are values or other keys.
VALUES = {"null"}


def rows(document: Path) -> dict[str, tuple[str, str]]:
    """Type and meaning by key, of the table under "## JSON"."""
    section = document.read_text().split("\n## JSON\n")[1].split("\n## ")[0]
    table = re.search(r"\| key \| type \| meaning \|\n\|[-| ]+\n((?:\|.*\n)+)", section)
    assert table is not None
    found = {}
    for line in table.group(1).splitlines():
        keys, kind, meaning = (part.strip() for part in line.strip("|").split("|", 2))
        for key in re.findall(r"`(\w+)`", keys):
            found[key] = (kind, meaning)
    return found


def fits(value: Any, kind: str) -> bool:
    """Whether a value is of a documented type; null is always allowed."""
    names = {
        "string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict,
        "array": list,
    }  # fmt: skip
    words = [word for word in names if re.search(rf"\b{word}", kind)]
    return value is None or any(isinstance(value, names[word]) for word in words)


def check(documented: dict[str, tuple[str, str]], printed: dict[str, Any]) -> None:
    assert set(documented) == set(printed)
    for key, value in printed.items():
        assert fits(value, documented[key][0]), (key, value)


def keys_of(meaning: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", meaning)) - VALUES


def test_explain(plimsoll: Path, source_dir: Path) -> None:
    document = source_dir / "docs" / "reference" / "explain.md"
    done = subprocess.run(
        [plimsoll, "explain", "--json", "-"], input=LOG, capture_output=True, text=True
    )
    answer = json.loads(done.stdout)
    documented = rows(document)
    check(documented, answer)
    assert keys_of(documented["evidence"][1]) >= set(answer["evidence"][0])
    assert keys_of(documented["advice"][1]) == set(answer["advice"][0])
    assert keys_of(documented["not_worth"][1]) == set(answer["not_worth"][0])
    amounts = re.search(r"`amounts` holds (.*?)\n\n", document.read_text(), re.DOTALL)
    assert amounts is not None
    names = re.findall(r"`([a-z_]+)`\s+\(", amounts.group(1))
    names += re.findall(r"`([a-z_]+)` and `", amounts.group(1))
    assert set(names) == set(answer["amounts"])
    labels = re.search(r"`cause_label` is one of: (.*?)\n\n", document.read_text(), re.DOTALL)
    assert labels is not None
    assert answer["cause_label"] in re.findall(r"`(\w+)`", labels.group(1))


def test_watch(plimsoll: Path, source_dir: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    program = """
import time
kept = []
for i in range(88):
    kept.append(b"x" * (1 << 20) + bytes(i))
    print("step", i, flush=True)
    time.sleep(0.01)
time.sleep(0.5)
"""
    subprocess.run(
        [plimsoll, "watch", "--quiet", "--memory", "100MiB", "--json", record, "--",
         sys.executable, "-c", program],
        capture_output=True,
    )  # fmt: skip
    run = json.loads(record.read_text())
    documented = rows(source_dir / "docs" / "reference" / "watch.md")
    check(documented, run)
    for key in ("verdict", "peak", "growth", "bound", "totals", "own", "curve"):
        assert keys_of(documented[key][1]) == set(run[key]), key
    for key in ("events", "attempts", "captures"):
        for entry in run[key]:
            assert keys_of(documented[key][1]) >= set(entry), key
    assert run["captures"], "no evidence was taken at the high mark"
    assert keys_of(documented["captures"][1]) == set(run["captures"][0])
