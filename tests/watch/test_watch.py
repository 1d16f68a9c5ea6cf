"""plimsoll watch from outside: what is passed on, exit codes, signals, guards, restarts."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MIB = 1 << 20
# Takes argv[1] MiB, 4 at a time, and prints a step for each.
GROW = """
import sys, time
kept = []
for i in range(int(sys.argv[1]) // 4):
    kept.append(bytearray(b"x" * (4 << 20)))
    print("step", i, flush=True)
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0.01)
"""


def test_output_is_passed_on_byte_for_byte(watch):
    program = (
        "import os\n"
        "for i in range(200):\n"
        "    os.write(1, bytes(range(256)) * 97)\n"
        "    os.write(2, b'e' * 1000)\n"
    )
    done = watch(sys.executable, "-c", program, options=("--quiet",))
    assert done.code == 0
    assert done.stdout == bytes(range(256)) * 97 * 200
    assert done.stderr == "e" * 200_000
    assert done.record["totals"]["output_bytes"] == len(done.stdout) + 200_000


@pytest.mark.parametrize("code", [0, 1, 3, 77])
def test_the_exit_code_is_the_commands(watch, code):
    done = watch("sh", "-c", f"exit {code}")
    assert done.code == code == done.record["exit_code"]
    assert done.kind == ("done" if code == 0 else "failed")


def test_a_signal_ends_with_128_and_its_number(watch):
    done = watch("sh", "-c", "kill -SEGV $$")
    assert done.code == 128 + signal.SIGSEGV
    assert (done.kind, done.record["signal"]) == ("signal", "SIGSEGV")


def test_a_command_that_is_not_there(watch):
    done = watch("no-such-command-anywhere")
    assert done.code == 127
    assert done.kind == "not_started"
    assert "no-such-command-anywhere" in done.stderr


def test_options_after_the_marks_are_the_commands(watch):
    done = watch("echo", "--json", "--", "--memory")
    assert done.stdout == b"--json -- --memory\n"


def test_without_a_command_it_says_how(plimsoll):
    done = subprocess.run([plimsoll, "watch"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "after --" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--memory", "2", "--", "true"), "expected at least 1 MiB, received 2"),
        (("--halve", "--batch-size", "--", "true"), "expected --restart N with --halve"),
        (("--memory", "auto", "--", "true"), "--memory: expected a limit such as 2GiB"),
        (("--memory", "auto", "--", "true"), "auto is for plimsoll fit and plan"),
        (("--memory", "much", "--", "true"), "--memory: expected a limit such as 2GiB, 512MiB"),
        (("python3", "-c", "print(1)"), "after --: plimsoll watch -- COMMAND"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_way_out(plimsoll, words, said):
    done = subprocess.run([plimsoll, "watch", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "USR1"])
def test_signals_reach_the_command(plimsoll, tmp_path, name):
    record = tmp_path / "record.json"
    script = f"trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.05; done"
    child = subprocess.Popen(
        [plimsoll, "watch", "--quiet", "--json", record, "--", "bash", "-c", script],
        stdout=subprocess.PIPE, text=True,
        # bash can trap no signal that it finds ignored, as in a job that nohup began.
        preexec_fn=lambda: signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_DFL),
    )  # fmt: skip
    assert child.stdout.readline() == "ready\n"
    child.send_signal(getattr(signal, f"SIG{name}"))
    assert child.communicate(timeout=60)[0] == f"got {name}\n"
    assert child.returncode == 9
    assert any(event["kind"] == "signal" for event in json.loads(record.read_text())["events"])


def test_an_interruption_is_no_failure_of_the_program(plimsoll, tmp_path):
    record = tmp_path / "record.json"
    child = subprocess.Popen(
        [plimsoll, "watch", "--quiet", "--json", record, "--", "sh", "-c", "echo a; exec sleep 60"],
        stdout=subprocess.PIPE,
    )
    child.stdout.readline()
    child.terminate()
    assert child.wait(60) == 128 + signal.SIGTERM
    assert json.loads(record.read_text())["verdict"]["kind"] == "interrupted"


def test_a_closed_reader_ends_the_command_as_it_would_without(plimsoll):
    line = f"{plimsoll} watch --quiet -- sh -c 'while echo y; do :; done' | head -n 2"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "y\ny\n"


def test_on_a_terminal_the_command_has_a_terminal(plimsoll):
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal can be made here: {error}")
    child = subprocess.Popen(
        [plimsoll, "watch", "--quiet", "--", "sh", "-c", "test -t 1 && test -t 2 && echo yes"],
        stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    assert child.wait(60) == 0
    assert os.read(ours, 100) == b"yes\r\n"
    os.close(ours)


def test_children_count_and_survivors_are_left_alone(watch, tmp_path):
    done = watch("sh", "-c", "sleep 5 >/dev/null 2>&1 & echo $!; sleep 0.5")
    assert done.code == 0
    pid = int(done.stdout)
    assert Path(f"/proc/{pid}").exists()
    os.kill(pid, signal.SIGKILL)
    assert max(done.record["curve"]["processes"]) >= 2


def test_the_peak_is_what_was_held(watch):
    done = watch(sys.executable, "-c", GROW + "time.sleep(0.3)", "200", "0.005")
    held = done.record["peak"]["held_bytes"]
    assert 200 * MIB <= held < 240 * MIB
    assert done.record["peak"]["process_bytes"] >= 200 * MIB
    assert re.fullmatch(r"step \d+", done.record["peak"]["printed"])


def test_steps_are_counted_and_growth_is_told_per_step(watch):
    done = watch(sys.executable, "-c", GROW, "320", "0.1")
    growth = done.record["growth"]
    assert growth["form"] == "growth", growth
    assert growth["grows"]
    assert growth["bytes_per_step"] == pytest.approx(4 * MIB, rel=0.2)
    assert "GROWS" in done.stderr


def test_a_program_that_stays_does_not_grow(watch):
    program = "x = b'x' * (100 << 20)\nimport time\ntime.sleep(6)"
    growth = watch(sys.executable, "-c", program).record["growth"]
    assert not growth["grows"]
    # A slow start of the interpreter on a busy machine is a warm-up.
    assert growth["form"] in ("plateau", "no_growth", "warm_up")


def test_its_own_memory_is_small(watch):
    done = watch(sys.executable, "-c", GROW, "64", "0.1", options=("--no-gpu",))
    assert done.record["own"]["peak_resident_bytes"] <= 16 * MIB


def test_the_kernel_holds_the_limit(watch, own_group):
    done = watch(sys.executable, "-c", GROW, "400", "0.02", options=("--memory", "128MiB"))
    assert done.code == 137
    assert done.kind == "killed_by_limit"
    assert done.record["verdict"]["resource"] == "host_memory"
    assert done.record["limit_passed"]
    assert done.record["peak"]["group_bytes"] <= 128 * MIB
    capture = done.record["captures"][0]
    assert capture["why"] == "high_mark"
    assert 0.9 * 128 * MIB < capture["held_bytes"] <= 128 * MIB
    assert capture["map_bytes"]["heap"] + capture["map_bytes"]["anonymous"] > 100 * MIB
    assert capture["last_lines"][-1].startswith("step ")
    group = Path(done.record["guard_text"].split()[-1])
    assert group.name.startswith("plimsoll-watch-")
    assert not group.exists()


def test_sampling_holds_the_limit_where_there_is_no_group(watch):
    done = watch(
        sys.executable, "-c", GROW, "2000", "0.04",
        options=("--memory", "128MiB", "--guard", "sampling"),
    )  # fmt: skip
    assert done.kind == "stopped_at_limit"
    assert done.code == 128 + signal.SIGTERM
    assert done.record["guard"] == "sampling"
    assert done.record["limit_passed"]
    assert done.record["peak"]["held_bytes"] < 200 * MIB


def test_what_ignores_sigterm_is_killed_after_the_grace(watch):
    program = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + GROW
    begin = time.monotonic()
    done = watch(
        sys.executable, "-c", program + "time.sleep(60)", "200", "0.01",
        options=("--memory", "64MiB", "--guard", "sampling", "--grace", "1"),
    )  # fmt: skip
    assert done.code == 137
    assert done.kind == "stopped_at_limit"
    assert time.monotonic() - begin < 50


def test_fail_over_is_exit_code_three(watch):
    options = ("--memory", "64MiB", "--guard", "sampling", "--fail-over")
    assert watch(sys.executable, "-c", GROW, "200", "0.02", options=options).code == 3
    assert watch("true", options=options).code == 0


def test_a_warning_comes_before_the_limit(watch, own_group):
    done = watch(sys.executable, "-c", GROW, "116", "0.05", options=("--memory", "128MiB"))
    assert done.kind == "done"
    assert re.search(r"plimsoll watch: 1\d\d MiB of 128 MiB are held", done.stderr)


def test_restarts_halve_the_batch_until_it_fits(watch, own_group, tmp_path):
    program = "import sys\nx = b'x' * (int(sys.argv[2]) << 20)\nprint(sys.argv[1:])"
    done = watch(
        sys.executable, "-c", program, "--batch-size", "400", "--accumulate", "1",
        options=("--memory", "128MiB", "--restart", "5", "--halve", "--batch-size",
                 "--accumulate", "--accumulate", "--resume-args", "--resume"),
    )  # fmt: skip
    assert done.code == 0
    assert done.stdout == b"['--batch-size', '100', '--accumulate', '4', '--resume']\n"
    assert [attempt["verdict"] for attempt in done.record["attempts"]] == [
        "killed_by_limit", "killed_by_limit", "done",
    ]  # fmt: skip
    history = (tmp_path / "plimsoll-watch-history.jsonl").read_text().splitlines()
    assert [json.loads(line)["attempt"] for line in history] == [1, 2, 3]


def test_restarts_are_bounded_and_for_memory_only(watch, own_group):
    options = ("--memory", "64MiB", "--restart", "2", "--halve-env", "BATCH")
    hungry = "import os\nprint(os.environ['BATCH'], flush=True)\nx = b'x' * (400 << 20)"
    done = watch(sys.executable, "-c", hungry, options=options, environment={"BATCH": "64"})
    assert done.stdout == b"64\n32\n16\n"
    assert done.code == 137
    done = watch("sh", "-c", "echo again; exit 1", options=options, environment={"BATCH": "64"})
    assert done.stdout == b"again\n"


def test_the_peak_of_a_slow_rise_is_told_by_its_end(watch):
    program = """
import time
kept = []
for i in range(80):
    kept.append(bytearray(b"x" * (256 << 10)))
    print("step", i, flush=True)
    time.sleep(0.02)
"""
    done = watch(sys.executable, "-c", "big = b'x' * (60 << 20)" + program)
    step = int(done.record["peak"]["printed"].split()[1])
    assert step > 60


def test_the_page_has_the_figures_of_the_record(watch, tmp_path):
    page = tmp_path / "page.html"
    done = watch(sys.executable, "-c", GROW, "100", "0.05", options=("--html", str(page)))
    text = page.read_text()
    figures = re.findall(r'<data data-key="([^"]+)" value="([^"]+)">', text)
    assert len(figures) >= 3
    for key, value in figures:
        found = done.record
        for part in key.split("."):
            found = found[int(part)] if part.isdigit() else found[part]
        assert json.dumps(found) == value, key
    assert not re.search(r"https?:|src=|href=|url\(", text)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return True
    return state in "ZX"


# Prints its own number, those of a child and of a child's orphan, and stays.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "300"])
orphan = int(subprocess.check_output(["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"]))
print(os.getpid(), child.pid, orphan, flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("guard", ["auto", "sampling"])
def test_killed_itself_it_leaves_neither_processes_nor_group(plimsoll, guard):
    options = [] if guard == "auto" else ["--guard", guard]
    watcher = subprocess.Popen(
        [plimsoll, "watch", "--memory", "256MiB", *options, "--", sys.executable, "-c", FAMILY],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    pids = [int(word) for word in watcher.stdout.readline().split()]
    assert len(pids) == 3
    time.sleep(1.5)  # until it has seen them all
    group = [Path(word) for word in watcher.stderr.readline().split() if word.startswith("/sys/")]
    watcher.kill()
    # Nothing that stays behind holds its streams.
    watcher.communicate(timeout=30)
    for _ in range(100):
        if all(is_gone(pid) for pid in pids) and not any(folder.exists() for folder in group):
            break
        time.sleep(0.1)
    left = [pid for pid in pids if not is_gone(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    assert not any(folder.exists() for folder in group)


# Ends the process above after a second.
KILL_THE_WATCHER = """
import os, signal, sys, threading, time
threading.Timer(1, lambda: os.kill(os.getppid(), signal.SIGKILL)).start()
"""
# Starts a process, and one that starts an orphan later, and becomes the watcher: both are its
# children then, and the command's neither.
NEIGHBOURS = """
sleep 300 >/dev/null 2>&1 & echo $! > early
(sleep 0.3; sleep 300 & echo $! > late) >/dev/null 2>&1 &
exec "$@"
"""


@pytest.mark.parametrize("ending", ["limit", "killed"])
def test_what_the_command_did_not_start_is_left_alone(watch, tmp_path, ending):
    grow = GROW if ending == "limit" else GROW.replace("import sys, time", KILL_THE_WATCHER)
    words = [sys.executable, "-c", grow, "400", "0.04"]
    options = ("--memory", "128MiB" if ending == "limit" else "1GiB", "--guard", "sampling")
    before = ("sh", "-c", NEIGHBOURS, "sh")
    if ending == "limit":
        done = watch(*words, options=options, before=before)
        assert done.kind == "stopped_at_limit"
        assert max(done.record["curve"]["processes"]) == 1
    else:
        with pytest.raises(AssertionError):
            watch(*words, options=options, before=before)  # killed, it leaves no record
        time.sleep(1)
    neighbours = [int((tmp_path / name).read_text()) for name in ("early", "late")]
    gone = [pid for pid in neighbours if is_gone(pid)]
    for pid in neighbours:
        if pid not in gone:
            os.kill(pid, signal.SIGKILL)
    assert gone == []


def test_a_leak_of_a_run_that_ended_well_is_advised_on(watch):
    done = watch(sys.executable, "-c", GROW, "320", "0.1")
    assert done.kind == "done"
    assert any("every step keeps" in advice for advice in done.record["verdict"]["advice"])


def test_a_refusal_under_a_limit_of_address_space_tells_what_was_held(watch):
    code = "kept = []\nwhile True: kept.append(bytearray(b'x' * (8 << 20)))"
    limited = ("sh", "-c", 'ulimit -v 600000; exec "$@"', "sh")
    done = watch(sys.executable, "-c", code, before=limited)
    assert done.kind == "out_of_memory"
    assert "ulimit -v" in done.record["verdict"]["sentence"]
    assert "held" in done.record["verdict"]["sentence"]


def test_the_record_can_go_to_standard_output(plimsoll):
    done = subprocess.run(
        [plimsoll, "watch", "--quiet", "--json", "--", "true"], capture_output=True, text=True
    )
    assert json.loads(done.stdout)["verdict"]["kind"] == "done"


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize("place", ["nowhere/record", "."])
def test_a_place_that_cannot_be_written_is_refused_before_the_command(
    plimsoll, tmp_path, option, place
):
    words = [plimsoll, "watch", option, tmp_path / place, "--", "touch", tmp_path / "ran"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 6
    assert str(tmp_path / place) in done.stderr
    assert ".tmp" not in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_rise_to_the_limit_is_not_called_calm(watch):
    code = """
import time
held = bytearray(30 << 20)
time.sleep(3)
for _ in range(40):
    held += b"x" * (10 << 20)
    time.sleep(0.01)
time.sleep(60)
"""
    run = watch(sys.executable, "-c", code, options=("--memory", "150MiB"))
    assert run.kind in ("killed_by_limit", "stopped_at_limit")
    assert run.record["growth"]["form"] == "too_short"
    assert "no growth" not in run.stderr
    assert "not judged: memory rose by" in run.stderr
