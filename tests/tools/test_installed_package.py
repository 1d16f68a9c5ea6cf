"""The installed package serves a project outside: configure, build and run the example."""

import pathlib
import subprocess


def run(*command: object, **options) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_builds_and_runs_against_the_installed_package(
    source_dir: pathlib.Path, build_dir: pathlib.Path, tmp_path: pathlib.Path
):
    prefix, consumer = tmp_path / "prefix", tmp_path / "build"
    run("cmake", "--install", build_dir, "--prefix", prefix)
    source = source_dir / "examples" / "installed_consumer"
    run("cmake", "-S", source, "-B", consumer, "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")  # fmt: skip
    run("cmake", "--build", consumer)
    output = run(consumer / "installed_consumer", cwd=tmp_path)
    assert "loss" in output
