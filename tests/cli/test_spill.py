"""State in the spill file: limits far below its size hold, bits stay, faults are named."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from normalized_network import layer

USAGE, DOES_NOT_FIT, IO = 2, 3, 6
KILLS = int(os.environ.get("PLIMSOLL_KILLS", "3"))
# Fails or delays what goes to and from files without a name, as the spill file is.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is_spill(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return strstr(path, "(deleted)") != 0;
}
static int strikes(int fd, const char *what) {
  static int calls = 0;
  const char *fault = getenv("FAULT");
  if (fault == 0 || strncmp(fault, what, strlen(what)) != 0 || !is_spill(fd)) return 0;
  return ++calls > atoi(fault + strlen(what));
}
#define HOOK(name, type, what, offset)                                       \
  ssize_t name(int fd, type buffer, size_t bytes, offset at) {               \
    static ssize_t (*real)(int, type, size_t, offset);                       \
    if (!real) real = (ssize_t(*)(int, type, size_t, offset))dlsym(RTLD_NEXT, #name); \
    if (strikes(fd, what)) { errno = EIO; return -1; }                       \
    if (strikes(fd, "slow")) usleep(2000);                                   \
    return real(fd, buffer, bytes, at);                                      \
  }
HOOK(pread, void *, "read", off_t)
HOOK(pread64, void *, "read", off64_t)
HOOK(pwrite, const void *, "write", off_t)
HOOK(pwrite64, const void *, "write", off64_t)
"""


def wide_model(path: Path) -> Path:
    layers = [layer("InputLayer", "in", batch_shape=[None, 64], dtype="float32")]
    layers += [layer("Dense", f"d{i}", units=640, activation="relu") for i in range(5)]
    layers += [layer("Dense", "out", units=1, activation="sigmoid")]
    model = {"class_name": "Sequential", "config": {"name": "wide", "layers": layers}}
    path.write_text(json.dumps(model))
    return path


class Workplace:
    """A network whose Adam state takes 20 MiB, and a way to train it."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.spill = Path(folder / "spill")
        self.spill.mkdir()
        rng = np.random.default_rng(1)
        np.save(folder / "x.npy", rng.normal(0, 1, (64, 64)).astype("float32"))
        np.save(folder / "y.npy", rng.integers(0, 2, 64).astype("int32"))
        self.options = [
            wide_model(folder / "model.json"), "--batch", "32", "--optimizer", "adam",
            "--loss", "binary_crossentropy",
        ]  # fmt: skip
        data = ["--data", folder / "x.npy", "--labels", folder / "y.npy"]
        answer = json.loads(self.run("plan", "--json", *data).stdout)
        self.state = next(p["bytes"] for p in answer["parts"] if "state" in p["name"])
        self.smallest = answer["smallest_spill_bytes"]
        self.without = answer["smallest_same_bits_bytes"]
        self.limit = str(self.smallest + 2**20)

    def command(self, verb: str, *more: object) -> list[str]:
        return [str(word) for word in (self.binary, verb, *self.options, *more)]

    def run(self, verb: str, *more: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(verb, *more), capture_output=True, text=True,
                              timeout=120, env={**os.environ, **environment})  # fmt: skip

    def fit_words(self, *more: object) -> list[object]:
        return ["--data", self.folder / "x.npy", "--labels", self.folder / "y.npy", "--json",
                "--seed", "3", *more]  # fmt: skip

    def fit(self, *more: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("fit", *self.fit_words("--steps", 3, "--epochs", 2, *more), **environment)

    def weights(self, name: str, *more: object, **environment: str) -> bytes:
        path = self.folder / f"{name}.h5"
        done = self.fit("--output", path, *more, **environment)
        assert done.returncode == 0, done.stderr
        return path.read_bytes()


@pytest.fixture(scope="module")
def place(plimsoll: Path, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(plimsoll, tmp_path_factory.mktemp("spill"))


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", folder / "shim.so", folder / "shim.c",
                    "-ldl"], check=True)  # fmt: skip
    return folder / "shim.so"


def test_limits_below_the_state_give_the_same_bits(place: Workplace) -> None:
    expected = place.weights("free")
    assert place.smallest + 0.6 * place.state < place.without
    for name, limit in (
        ("smallest", place.smallest),
        ("middle", (place.smallest + place.without) // 2),
    ):
        assert place.weights(name, "--memory", limit) == expected
    run = json.loads(place.fit("--memory", place.smallest).stdout)
    assert run["block_set"] == 0
    assert run["measured_process_bytes"] <= run["predicted_process_bytes"] <= place.smallest
    assert run["arena_values_bytes"] <= run["measured_arena_bytes"] <= run["planned_arena_bytes"]
    assert run["planned_arena_bytes"] < 0.4 * place.state


def test_slots_go_to_the_file_before_weights(place: Workplace) -> None:
    """A step reads and writes them once; their updates go by rows, beside a weight in memory."""
    limit = place.without - 2**20
    plan = place.folder / "slots.plan"
    data = ["--data", place.folder / "x.npy", "--labels", place.folder / "y.npy"]
    done = place.run("plan", *data, "--memory", limit, "--output", plan)
    assert done.returncode == 0, done.stderr
    lines = plan.read_text().splitlines()
    states = [line.split() for line in lines if line.startswith("state ")]
    moved = {words[1] for words in states if "space=spill" in words}
    assert moved and all(name.startswith("optimizer/") for name in moved), moved
    # In the loop the weight's new rows overwrite the old ones: there is no second copy of it.
    loop = next(i for i, line in enumerate(lines) if " state_rows " in line)
    update = next(line for line in lines[loop:] if "/kernel/update " in line)
    weight = update.split("-> (")[1].split()[0]
    first_program = lines[: loop + 1]
    written = next(line for line in first_program if line.startswith(f"instance {weight} "))
    assert " space=state " in written and " in_place=" in written, written
    assert place.weights("slots", "--memory", limit) == place.weights("all")


def test_what_is_averaged_is_written_after_its_readers(plimsoll: Path, tmp_path: Path) -> None:
    """Gradients of a layer's input are computed from weights whose update could go before."""
    layers = [layer("InputLayer", "in", batch_shape=[None, 8, 8, 8])]
    layers += [
        layer("Conv2D", f"c{i}", filters=filters, kernel_size=[3, 3], padding="same",
              activation="relu") for i, filters in enumerate((256, 384, 384))
    ]  # fmt: skip
    layers += [layer("GlobalAveragePooling2D", "mean"), layer("Dense", "out", units=1)]
    model = {"class_name": "Sequential", "config": {"name": "images", "layers": layers}}
    (tmp_path / "model.json").write_text(json.dumps(model))
    rng = np.random.default_rng(2)
    np.save(tmp_path / "x.npy", rng.normal(0, 1, (32, 8, 8, 8)).astype("float32"))
    np.save(tmp_path / "y.npy", rng.normal(0, 1, (32, 1)).astype("float32"))
    options = ["model.json", "--data", "x.npy", "--labels", "y.npy", "--batch", "32", "--loss",
               "mse", "--optimizer", "adam(use_ema=true)", "--seed", "3"]  # fmt: skip

    def run(verb: str, *more: object) -> dict[str, Any]:
        words = [str(word) for word in (plimsoll, verb, *options, "--json", *more)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    answer = run("plan")
    smallest, without = answer["smallest_spill_bytes"], answer["smallest_same_bits_bytes"]
    run("fit", "--steps", 2, "--output", "free.h5")
    for share in (0, 0.2, 0.4, 0.6):
        limit = int(smallest + share * (without - smallest))
        run("fit", "--steps", 2, "--output", "limited.h5", "--memory", limit)
        assert (tmp_path / "limited.h5").read_bytes() == (tmp_path / "free.h5").read_bytes()


def test_a_cgroup_of_that_limit_holds(place: Workplace, in_cgroup: Path) -> None:
    words = place.command(
        "fit", *place.fit_words("--steps", 3, "--epochs", 2), "--memory", place.limit
    )
    done = subprocess.run([in_cgroup, place.limit, "--", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_checkpoints_hold_what_is_in_the_file(place: Workplace) -> None:
    expected = place.weights("whole")
    folder = place.folder / "checkpoints"
    words = ["--checkpoint", folder, "--checkpoint-every", "1steps", "--memory", place.limit]
    done = place.run("fit", *place.fit_words("--steps", 1, "--epochs", 2, *words))
    assert done.returncode == 0, done.stderr
    assert place.weights("resumed", *words, "--resume") == expected


def test_no_spill_and_too_small_a_file_do_not_fit(place: Workplace) -> None:
    for words in (["--no-spill"], ["--spill-limit", "1MiB"]):
        done = place.fit("--memory", place.smallest - 2**20, *words)
        assert done.returncode == DOES_NOT_FIT, done.stderr


def test_memory_file_systems_are_refused(place: Workplace) -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm here")
    done = place.fit("--memory", place.limit, "--spill-dir", "/dev/shm")
    assert done.returncode == USAGE
    assert "memory file system" in done.stderr


@pytest.mark.parametrize("fault", ["read40", "write40"])
def test_a_disk_that_fails_is_named(place: Workplace, shim: Path, fault: str) -> None:
    done = place.fit("--memory", place.limit, "--spill-dir", place.spill,
                     LD_PRELOAD=str(shim), FAULT=fault)  # fmt: skip
    assert done.returncode == IO, done.stderr
    assert "spill file" in done.stderr and "Input/output error" in done.stderr
    assert list(place.spill.iterdir()) == []


def test_a_slow_disk_changes_nothing(place: Workplace, shim: Path) -> None:
    expected = place.weights("quick")
    slow = place.weights("slow", "--memory", place.limit, LD_PRELOAD=str(shim), FAULT="slow0")
    assert slow == expected


def test_a_kill_within_a_step_leaves_no_file(place: Workplace) -> None:
    words = place.fit_words("--epochs", 1000, "--memory", place.limit, "--spill-dir", place.spill,
                            "--log", place.folder / "log", "--log-steps")  # fmt: skip
    run = subprocess.Popen(place.command("fit", *words), stdout=subprocess.DEVNULL)
    end = time.monotonic() + 30
    log = place.folder / "log"
    while time.monotonic() < end and not (log.is_file() and log.stat().st_size > 0):
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    assert log.stat().st_size > 0
    assert list(place.spill.iterdir()) == []


def test_killed_at_random_instants(place: Workplace) -> None:
    """Within steps, transfers and checkpoints of what is in the file: it continues bit for bit."""
    words = ["--memory", place.limit, "--epochs", 6]
    expected = place.folder / "straight.h5"
    started = time.monotonic()
    done = place.run("fit", *place.fit_words(*words, "--output", expected))
    assert done.returncode == 0, done.stderr
    whole = time.monotonic() - started
    output, folder = place.folder / "killed.h5", place.folder / "killed"
    command = place.command(
        "fit", *place.fit_words(*words, "--output", output, "--checkpoint", folder, "--resume"),
        "--checkpoint-every", "1steps", "--checkpoint-keep", 2,
    )  # fmt: skip
    choose, kills = random.Random(23), 0
    while True:
        run = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if kills < KILLS:
            try:
                run.wait(choose.uniform(0, 1.2) * whole)
            except subprocess.TimeoutExpired:
                run.kill()
                kills += 1
        _, messages = run.communicate(timeout=120)
        if run.returncode == -signal.SIGKILL:
            continue
        assert run.returncode == 0, messages
        assert output.read_bytes() == expected.read_bytes()
        if kills == KILLS:
            break
        for path in folder.iterdir():  # it came to its end: from the start again
            path.unlink()
        output.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(16 * 2**20)
    make = ["bash", "-c", 'PATH=$PATH:/sbin:/usr/sbin mkfs.ext4 -q "$1"', "-", image]
    made = subprocess.run(make, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True)
    if made.returncode or mounted.returncode:
        pytest.skip("cannot mount a small disk here: it needs root and loop devices")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_named(place: Workplace, small_disk: Path) -> None:
    words = ["--memory", place.limit, "--spill-dir", small_disk]
    assert place.fit(*words).returncode == DOES_NOT_FIT  # half of what is free is not enough
    done = place.fit(*words, "--spill-limit", "1GiB")
    assert done.returncode == IO, done.stderr
    assert "No space left" in done.stderr and "--spill-dir" in done.stderr
