"""The wheel: built from this build's objects, installed in an environment of its own, used."""

import fcntl
import json
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = r"plimsoll/_core\.\S+\.so"
OWN = f"cp{sys.version_info.major}{sys.version_info.minor}"
TAG = ["cp312", "abi3"] if sys.version_info >= (3, 12) else [OWN, OWN]


def run(*words: object, **options: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What differs from a build for users is the folder of objects alone: it is this one."""
    folder = tmp_path_factory.mktemp("wheel")
    cache = (build_dir / "CMakeCache.txt").read_text()
    settings = [f"build-dir={build_dir}", "cmake.define.PLIMSOLL_DEVELOPER=ON"]
    for option in ("PLIMSOLL_TOGETHER", "PLIMSOLL_PRECOMPILE"):
        value = "ON" if f"{option}:BOOL=ON" in cache else "OFF"
        settings.append(f"cmake.define.{option}={value}")
    words = [word for setting in settings for word in ("--config-settings", setting)]
    with (build_dir / "wheel.lock").open(
        "w"
    ) as lock:  # another process of these tests builds there
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation",
            "--wheel-dir", folder, *words, ROOT / "python")  # fmt: skip
    return next(folder.glob("plimsoll_train-*.whl"))


def test_what_is_in_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for module in (MODULE, MODULE.replace("_core", "_arrays")):
        assert any(re.fullmatch(module, name) for name in names), names
    # From Python 3.12 on one wheel serves all later versions.
    assert wheel.stem.split("-")[2:4] == TAG
    for module in ("_core", "_arrays"):
        assert (f"plimsoll/{module}.abi3.so" in names) == (TAG[1] == "abi3")
    for wanted in ("plimsoll/__init__.py", "plimsoll/_core.pyi", "plimsoll/py.typed",
                   "plimsoll/children/sitecustomize.py",
                   "plimsoll/_program_files/bin/plimsoll",
                   "plimsoll/_program_files/libexec/plimsoll/plimsoll-engine"):  # fmt: skip
        assert wanted in names
    package = ROOT / "python"
    modules = {p.relative_to(package).as_posix() for p in package.glob("plimsoll/**/*.py")}
    assert modules == {name for name in names if name.endswith(".py")}
    assert not [name for name in names if name.startswith(("lib/", "include/", "bin/"))]
    # The program and the module share one copy of the vendor's library.
    assert [name for name in names if "dnnl" in name] == ["plimsoll/libplimsoll_dnnl.so.3"]


def test_it_shares_no_library_of_text_with_its_process(wheel: Path, tmp_path: Path) -> None:
    """TensorFlow puts its fmt into the global scope: ours is neither seen nor bound there."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if re.fullmatch(MODULE, one))
        module = archive.extract(name, tmp_path)
    symbols = run("nm", "--dynamic", module)
    assert "PyInit__core" in symbols
    assert [line for line in symbols.splitlines() if "3fmt" in line] == []
    assert "libfmt" not in run("readelf", "--dynamic", module)


def test_it_trains_where_nothing_else_is(wheel: Path, tmp_path: Path) -> None:
    """NumPy comes from this environment; Keras too, since it is the user's own."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", site, wheel)
    ours = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")
    (Path(site) / "others.pth").write_text(ours)
    script = (
        "import numpy as np, keras, plimsoll; "
        "m = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]); "
        "m.compile('sgd', 'mse'); "
        "h = plimsoll.fit(m, np.ones((8, 4)), np.ones((8, 1)), verbose=0, epochs=30); "
        f"m.save({str(tmp_path / 'm.keras')!r}); "
        f"np.savez({str(tmp_path / 'd.npz')!r}, x=np.ones((8, 4)), y=np.ones((8, 1))); "
        "print(plimsoll.__file__, h.history['loss'][-1] < h.history['loss'][0])"
    )
    told = run(python, "-c", script, env={"TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"})
    assert told.split()[-1] == "True" and str(tmp_path) in told
    version = run(python, "-m", "plimsoll._program", "--version")
    assert version.startswith("plimsoll ")
    # The command's engine finds the same copy, by whatever name it is called.
    told = run(python, "-m", "plimsoll._program", "fit", tmp_path / "m.keras", "--loss", "mse",
               "--data", tmp_path / "d.npz", "--json")  # fmt: skip
    assert json.loads(told)["steps"] == 1
