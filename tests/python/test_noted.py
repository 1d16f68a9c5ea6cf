"""The note of a running cell, and what it tells when the process has ended within the cell."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from plimsoll.watching import noted

CELL = "model.fit(x, y)\nprint('never')"


@pytest.fixture(name="notes", autouse=True)
def _notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("JPY_SESSION_NAME", "work.ipynb")
    return tmp_path / "plimsoll" / "cells"


def killed(package: Path, notebook: str = "work.ipynb") -> None:
    """A process that is killed within a cell."""
    program = (
        "import os, time; from plimsoll.watching import noted\n"
        f"with noted.Running(noted.Note.of({CELL!r}, '2GiB')):\n"
        "    held = bytearray(40 << 20); time.sleep(1.5); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | {
        "PYTHONPATH": str(package), "JPY_SESSION_NAME": notebook})  # fmt: skip
    assert done.returncode == -signal.SIGKILL


def test_a_note_is_there_while_the_cell_runs(notes: Path) -> None:
    with noted.Running(noted.Note.of("x" * 9000, None)) as running:
        (path,) = notes.iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(notes.stat().st_mode) == 0o700
        note = noted.Note.read(path)
        assert note.cell == "x" * 2000 and note.taken > 0 and not note.has_ended
        assert noted.last_cell().verdict == "nothing"  # this process lives
    assert not running.fault and list(notes.iterdir()) == []
    assert "nothing is known" in str(noted.last_cell())


def test_of_a_process_that_was_killed_the_cell_is_told(package: Path, notes: Path) -> None:
    killed(package)
    last = noted.last_cell()
    text = str(last)
    assert last.note.most >= 40 << 20 and last.note.seen - last.note.began > 0.9
    assert "    model.fit(x, y)\n" in text and "limit 2GiB" in text
    assert last.verdict == "unknown" and "not known" in text  # a kill by hand is none for memory
    (path,) = notes.iterdir()
    other = asdict(last.note) | {"notebook": "other.ipynb", "seen": last.note.seen + 60}
    (notes / "other.json").write_text(json.dumps(other))
    assert noted.last_cell().note == last.note  # this notebook's, though the other is newer
    path.unlink()
    assert noted.last_cell().note.notebook == "other.ipynb"


def test_kills_in_the_control_group_are_told(package: Path, notes: Path, tmp_path: Path) -> None:
    killed(package)
    (path,) = notes.iterdir()
    events = tmp_path / "memory.events"
    written = json.loads(path.read_text()) | {"counter": str(events), "kills": 2}
    path.write_text(json.dumps(written))
    for count, verdict, says in [
        (3, "likely_memory", "kills for memory in its control group since the cell began: 1;"),
        (2, "unknown", "killed nothing of its control group"),
        (0, "unknown", "counter can be read"),  # made anew
    ]:
        events.write_text(f"oom 9\noom_kill {count}\n")
        last = noted.last_cell()
        assert last.verdict == verdict and says in str(last)
    events.unlink()
    assert noted.last_cell().kills is None
    path.write_text(json.dumps(written | {"boot": "another"}))
    assert "started anew" in str(noted.last_cell())
    path.write_text(json.dumps(written | {"host": "elsewhere", "seen": time.time() - 100}))
    assert "it ran on elsewhere" in str(noted.last_cell())
    path.write_text(json.dumps(written | {"host": "elsewhere", "seen": time.time()}))
    assert noted.last_cell().verdict == "nothing"  # it may run still


def test_the_log_of_the_kernel_is_explained(
    package: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(package)
    (path,) = notes.iterdir()
    note = noted.Note.read(path)
    now = time.clock_gettime(time.CLOCK_MONOTONIC)

    def log(when: float, pid: int) -> str:
        return (f"[{when - 9:12.6f}] usb 1-1: new device\n"
                f"[{when:12.6f}] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, "
                f"oom_score_adj=0\n[{when:12.6f}] Out of memory: Killed process {pid} (python) "
                "total-vm:9000000kB, anon-rss:8000000kB, file-rss:0kB, shmem-rss:0kB, UID:1000 "
                "pgtables:16000kB oom_score_adj:0\n")  # fmt: skip

    assert noted.report_of(note, log(now - 1e4, note.pid)) == ""
    assert noted.report_of(note, log(now, note.pid + 1)) == ""
    report = noted.report_of(note, log(now, note.pid) + log(now, note.pid + 1))
    assert report.count("\n") == 1 and "invoked" in report.splitlines()[0]
    monkeypatch.setattr(noted, "_log_of_kernel", lambda _note: report)
    last = noted.last_cell()
    assert last.verdict == "killed_for_memory"
    assert last.explanation.resource == "host_memory" and str(last.explanation) in str(last)


def test_what_is_no_note_is_passed_over(notes: Path, tmp_path: Path) -> None:
    notes.mkdir(parents=True)
    sound = asdict(noted.Note("cell", "", seen=1.0, boot="another"))
    for name, text in {
        "a": "{", "b": "[]", "c": "[" * 60000, "d": "\0", "g": json.dumps(sound) + " " * (64 << 10),
        "e": json.dumps(sound | {"pid": "1"}), "f": json.dumps(sound | {"more": 1}),
        "h": json.dumps(sound | {"seen": float("inf")}),
    }.items():  # fmt: skip
        (notes / f"{name}.json").write_text(text)
    (tmp_path / "elsewhere").write_text(json.dumps(sound))
    (notes / "link.json").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(notes / "pipe.json")
    found = [path.name for path, _note in noted._notes(notes)]
    assert found == ["g.json"]  # blanks that are not read do no harm
    (notes / "sound.json").write_text(json.dumps(sound))
    assert noted.last_cell().note == noted.Note(**sound)
    for count in range(noted._MOST_NOTES + 5):
        (notes / f"old{count}.json").write_text(json.dumps(sound | {"seen": 2.0 + count}))
    with noted.Running(noted.Note.of("", None)):
        assert len(noted._notes(notes)) == noted._MOST_NOTES


def test_where_no_note_can_be_written_the_cell_runs(notes: Path) -> None:
    notes.parent.write_text("a file")
    with noted.Running(noted.Note.of("", None)) as running:
        assert "plimsoll" in running.fault


def test_the_counter_of_a_control_group(tmp_path: Path) -> None:
    """Both versions; within a container the group is the root of what is seen."""
    v1, v2 = tmp_path / "memory" / "a" / "memory.oom_control", tmp_path / "b" / "memory.events"
    for file, text in [(v1, "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"),
                       (v2, "low 0\noom 7\noom_kill 5\noom_group_kill 1\n")]:  # fmt: skip
        file.parent.mkdir(parents=True)
        file.write_text(text)
    root = str(tmp_path)
    assert noted.counter_of("4:cpu,memory:/a\n0::/\n", root) == str(v1)
    assert noted.counter_of("0::/b\n", root) == str(v2)
    assert noted.counter_of("0::/missing\n", root) == noted.counter_of("5:pids:/a\n", root) == ""
    (tmp_path / "memory.events").write_text("oom_kill 0\n")
    assert noted.counter_of("0::/missing\n", root) == str(tmp_path / "memory.events")
    assert (noted.kills_in(str(v1)), noted.kills_in(str(v2)), noted.kills_in("")) == (4, 5, None)


def test_a_kill_by_the_kernel_is_told(package: Path, in_cgroup: Path, notes: Path) -> None:
    """In a control group that runs full: by the kernel's log, and without it by the counter."""
    program = (
        "import subprocess, sys; from plimsoll.watching import noted\n"
        "fills = '''from plimsoll.watching import noted\n"
        'with noted.Running(noted.Note.of("train()", None)):\n'
        "    held = []\n"
        "    while True:\n"
        "        held.append(b\"x\" * (16 << 20))'''\n"
        "print(subprocess.run([sys.executable, '-c', fills]).returncode)\n"
        "print(noted.last_cell().verdict)\n"
        "noted._log_of_kernel = lambda note: ''\n"
        "print(noted.last_cell())"
    )
    done = subprocess.run(
        [in_cgroup, "200MiB", "--", sys.executable, "-c", program], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(package)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    code, verdict, *text = done.stdout.splitlines()
    assert code == "-9" and verdict in ("killed_for_memory", "likely_memory")
    why = next(line for line in text if line.startswith("why"))
    assert "kills for memory in its control group since the cell began: 1;" in why
    assert any("200.0 MiB could be taken" in line for line in text)
