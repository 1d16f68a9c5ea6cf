"""What every Python test may ask for."""

import os
import pathlib
import signal
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

# What TensorFlow computes with would depend on the processor; and without its vendor's kernels,
# convolutions on channels_first do not run on one.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


# A shell has Ctrl-C ignored in what it starts in the background, and its children take that over.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Times that are measured on this machine decide no test: there is no folder that they could
    lie in, as a file is in its place."""
    place = tmp_path_factory.mktemp("cache") / "no-folder"
    place.write_text("")
    os.environ["XDG_CACHE_HOME"] = str(place)


@pytest.fixture(scope="session")
def source_dir() -> pathlib.Path:
    return ROOT


@pytest.fixture(scope="session")
def build_dir() -> pathlib.Path:
    """The build under test: PLIMSOLL_BUILD, or build/dev."""
    path = pathlib.Path(os.environ.get("PLIMSOLL_BUILD", ROOT / "build" / "dev"))
    if not (path / "CMakeCache.txt").is_file():
        pytest.fail(f"{path} is not a build folder. Run tools/test, or set PLIMSOLL_BUILD.")
    return path


@pytest.fixture(scope="session")
def plimsoll(build_dir: pathlib.Path) -> pathlib.Path:
    """The built command-line program."""
    path = build_dir / "bin" / "plimsoll"
    if not path.is_file():
        pytest.fail(f"{path} is missing. Build the target 'plimsoll'.")
    return path


@pytest.fixture(scope="session")
def in_cgroup() -> pathlib.Path:
    """The tool that runs a command in a memory control group; skips where none can be made."""
    tool = ROOT / "tools" / "in_cgroup"
    done = subprocess.run([tool, "64MiB", "--", "true"], capture_output=True, text=True)
    if done.returncode == 125:
        pytest.skip(f"no memory control group can be made here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return tool
