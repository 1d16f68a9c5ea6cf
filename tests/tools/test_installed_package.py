"""The installed package serves a project outside: configure, build and run its programs."""

import contextlib
import pathlib
import random
import re
import subprocess
import time

import pytest


def run(*command: object, **options) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(build_dir: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the build is installed."""
    prefix = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", build_dir, "--prefix", prefix)
    return prefix


def test_the_installed_program_needs_nothing_of_the_build(
    prefix: pathlib.Path, source_dir: pathlib.Path
):
    """It starts, plans and finds its libraries outside of the folder that it was built in."""
    model = source_dir / "examples" / "fashion_mnist.json"
    answer = run(prefix / "bin" / "plimsoll", "plan", model, "--batch", "8", "--optimizer", "sgd",
                 "--loss", "sparse_categorical_crossentropy")  # fmt: skip
    assert "predicted peak" in answer
    libraries = run("ldd", prefix / "libexec" / "plimsoll" / "plimsoll-engine")
    assert "not found" not in libraries
    assert str(source_dir) not in libraries


@pytest.fixture(scope="module")
def programs(
    source_dir: pathlib.Path, prefix: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """The folder of the programs, built against the package as it is installed."""
    consumer = tmp_path_factory.mktemp("consumer")
    source = source_dir / "examples" / "installed_consumer"
    run("cmake", "-S", source, "-B", consumer, "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")  # fmt: skip
    run("cmake", "--build", consumer)
    return consumer


def test_the_example_builds_and_runs_against_the_installed_package(
    programs: pathlib.Path, tmp_path: pathlib.Path
):
    assert "loss" in run(programs / "installed_consumer", cwd=tmp_path)


def test_gradients_over_calls_are_those_of_a_large_batch(programs: pathlib.Path):
    output = run(programs / "accumulation")
    for batch in (32, 128, 512):
        assert f"batch {batch} within 48 MiB: trains" in output
    assert "mean of 4 × 16: 16 updates" in output  # 15 whole groups, and one of 40 samples
    assert "sum of 4 × 16: 15 updates" in output  # what the loop forgets
    mean = float(re.search(r"^mean against batch 64: (\S+)", output, re.M)[1])
    plain = float(re.search(r"^sum without the remainder against batch 64: (\S+)", output, re.M)[1])
    assert mean < 1e-4
    assert plain > 0.1, "gradients four times as long, and samples left out"


def last_line(program: pathlib.Path, folder: pathlib.Path) -> str:
    return run(program, folder, UPDATES).splitlines()[-1].split("weights ")[1]


UPDATES = 120  # a checkpoint every ten


def newest(folder: pathlib.Path) -> int:
    """When the newest checkpoint was written, in nanoseconds; 0 before the first."""
    times = [0]
    for file in folder.glob("checkpoints/*"):
        with contextlib.suppress(FileNotFoundError):  # it got its name, or gave way to newer ones
            times.append(file.stat().st_mtime_ns)
    return max(times)


def test_a_run_over_chunks_survives_kills(programs: pathlib.Path, tmp_path: pathlib.Path):
    expected = last_line(programs / "chunks", tmp_path / "straight")
    folder = tmp_path / "killed"
    source = random.Random(5)
    for _ in range(4):
        before = newest(folder)
        child = subprocess.Popen(
            [programs / "chunks", folder, str(UPDATES)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while newest(folder) == before and child.poll() is None:
            time.sleep(0.005)
        time.sleep(source.uniform(0, 0.1))
        assert child.poll() is None, "a run ended before it was killed"
        child.kill()
        child.wait()
    assert last_line(programs / "chunks", folder) == expected
