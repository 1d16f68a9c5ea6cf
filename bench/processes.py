"""One process at a time: what it printed, how long it took, and its largest resident memory."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Starts the command from a small process, whose own memory does not count as the command's, and
# writes what is known of it after its end to a file.
MEASURE = """
import json, resource, subprocess, sys, time
began = time.monotonic()
code = subprocess.run(sys.argv[2:]).returncode
seconds = time.monotonic() - began
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
with open(sys.argv[1], "w") as file:
    json.dump({"exit_code": code, "seconds": seconds, "max_resident_bytes": peak}, file)
"""


@dataclass(frozen=True)
class Run:
    """`group` is the report of tools/in_cgroup, empty where there was no limit or no
    group can be made."""

    exit_code: int
    seconds: float
    peak_bytes: int  # VmHWM
    output: str
    errors: str
    group: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def result(self) -> dict[str, Any]:
        """The JSON object that was printed; in several lines, or in the last one."""
        text = self.output.strip()
        return json.loads(text if text.startswith("{\n") else text.splitlines()[-1])


@cache
def makes_groups() -> bool:
    """Whether memory control groups can be made here; where they cannot, it is said once."""
    probe = [str(ROOT / "tools" / "in_cgroup"), "64MiB", "--", "true"]
    done = subprocess.run(probe, capture_output=True, text=True)
    if done.returncode != 0:
        print(
            f"{done.stderr.strip()}: limits are held against the process's own figures alone",
            file=sys.stderr,
        )
    return done.returncode == 0


def run(command: list[str], group: str | None = None, prefix: str = "") -> Run:
    """Inside a memory control group of size `group`, without swap, where that is given and groups
    can be made."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryDirectory() as folder:
        report, group_report = Path(folder) / "run.json", Path(folder) / "group.json"
        if group is not None and makes_groups():
            tool = [str(ROOT / "tools" / "in_cgroup"), group, "--report", str(group_report)]
            command = [*tool, "--", *command]
        outer = [sys.executable, "-I", "-S", "-c", MEASURE, str(report), *prefix.split(), *command]
        done = subprocess.run(outer, env=environment, capture_output=True, text=True)
        measured = json.loads(report.read_text())
        held = json.loads(group_report.read_text()) if group_report.exists() else {}
    peak = held.get("max_resident_bytes", measured["max_resident_bytes"])
    return Run(
        measured["exit_code"], measured["seconds"], peak, done.stdout, done.stderr.strip(), held
    )
