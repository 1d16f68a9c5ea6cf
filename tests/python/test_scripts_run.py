"""Programs run by `python -m plimsoll` against the same programs run by plain `python`."""

import os
import pickle
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
AT_END = "plimsoll: nothing was trained by Plimsoll in this process: "
Ran = subprocess.CompletedProcess[str]


@pytest.fixture(name="python")
def _python(package: Path, tmp_path: Path) -> Any:
    def run(*words: Any, **more: str) -> Ran:
        environment = {
            **os.environ,
            "PYTHONPATH": str(package),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **more,
        }
        return subprocess.run([sys.executable, *map(str, words)], cwd=tmp_path, text=True,
                              env=environment, capture_output=True, timeout=300)  # fmt: skip

    return run


def told(ran: Ran) -> list[str]:
    """The lines of ours on standard error."""
    return [line for line in ran.stderr.splitlines() if line.startswith("plimsoll: ")]


def beside(ran: Ran) -> str:
    """What else is there, without the frames by which Python itself runs a module."""
    text = re.sub(r'  File "<frozen runpy>", line \d+, in \w+\n', "", ran.stderr)
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith("plimsoll: "))


SEES = """\
import atexit, sys, __main__
print(sys.argv, sys.path[0], __name__, globals().get("__file__"), __package__, __doc__)
print(type(__loader__), __spec__ and (__spec__.name, __spec__.origin), sorted(globals()))
print(vars(__main__) is globals(), sys.modules["__main__"] is __main__, "numpy" in sys.modules)
atexit.register(print, "at exit")
"""
PROGRAMS = {
    "nothing": "",
    "a number": "sys.exit(7)",
    "a text": "sys.exit('no data')",
    "an error": "def f():\n    1 / 0\ntry:\n    f()\nexcept ZeroDivisionError as e:\n"
                "    raise ValueError('of mine') from e",
    "its own hook": "sys.excepthook = lambda *a: print('hook', a[0], a[2].tb_lineno)\nint('x')",
    "Ctrl-C": "raise KeyboardInterrupt",
    "a syntax error": "1 +",
    "a thread": "import threading, time\n"
                "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()",
}  # fmt: skip


@pytest.mark.parametrize("ends", PROGRAMS)
def test_a_program_sees_and_ends_what_it_does_by_python(
    python: Any, tmp_path: Path, ends: str
) -> None:
    """Without Keras; whichever way it is named, with arguments."""
    text = SEES + PROGRAMS[ends] + "\n"
    (tmp_path / "p.py").write_text(text)
    ways = [["./p.py"]]
    if ends in ("an error", "nothing"):
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "__main__.py").write_text(text)
        (folder / "part.py").write_text(text)
        with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
            archive.writestr("__main__.py", text)
        ways += [["-m", "p"], ["-m", "folder"], ["-m", "folder.part"], ["folder"], ["archive"],
                 ["-c", text]]  # fmt: skip
    for way in ways:
        plain = python(*way, "--memory", "a b")
        ours = python("-m", "plimsoll", *way, "--memory", "a b")
        assert ours.stdout == plain.stdout, way
        assert ours.returncode == plain.returncode, way
        assert beside(ours) == beside(plain), way
        if "Syntax" not in plain.stderr:
            assert "at exit" in plain.stdout
            assert told(ours) == [AT_END + "the program has not imported Keras."]
    if ends == "Ctrl-C":
        assert ours.returncode == -signal.SIGINT


def test_what_is_no_program(python: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for way in (["none.py"], ["-m", "none"], ["empty"]):
        plain, ours = python(*way), python("-m", "plimsoll", *way)
        assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr)
    for words, expected in [
        ([], "received none"), (["--memory"], "a value after it"),
        (["--memory", "3GG", "p.py"], "3GG"),
        (["--mem", "1GiB", "p.py"], "--mem: expected an option"),
        (["--engine", "gpu", "p.py"], "received 'gpu'"), (["--threads", "x", "p.py"], "'x'"),
    ]:  # fmt: skip
        ours = python("-m", "plimsoll", *words)
        assert ours.returncode == 2 and expected in ours.stderr, ours.stderr
    assert python("-m", "plimsoll", "p.py", PLIMSOLL_MEMORY="x").returncode == 2
    assert "--strict" in python("-m", "plimsoll", "--help").stdout


def test_waiting_for_keras_costs_little(python: Any, tmp_path: Path) -> None:
    """At most 10 ms of the processor, the best of five, also where Python compiles the files; half
    of that where they are compiled, as in an installed package. Neither NumPy nor the engine is
    loaded."""
    text = (
        "import sys, time; begin = time.process_time(); import plimsoll.programs.finder as f\n"
        "f.install(); print(time.process_time() - begin)\n"
        "print(sorted({'numpy', 'keras', 'typing', 'plimsoll._core'} & set(sys.modules)))"
    )
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
    python("-c", text, **kept)  # writes the compiled files
    for most, environment in [(0.010, {}), (0.005, kept)]:
        ran = [python("-c", text, **environment).stdout.split("\n") for _ in range(5)]
        assert ran[0][1] == "[]"
        found = [float(lines[0]) for lines in ran]
        assert min(found) < most, (environment, found)


CHILDREN = """\
import multiprocessing, pickle, subprocess, sys

class Thing:
    def __init__(self, value): self.value = value

def work(thing, queue):
    import keras, numpy
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(numpy.ones((8, 4)), numpy.ones(8), verbose=0)
    taken = sys.modules.get("plimsoll.training.loop") is not None
    queue.put((Thing(thing.value + 1), sys.argv, __name__, taken))

print("top of", __name__)
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=work, args=(Thing(1), queue))
    child.start()
    thing, *rest = queue.get()
    child.join()
    print(type(thing) is Thing, thing.value, *rest, child.exitcode)
    for words in (["-c"], ["-I", "-c"]):
        text = "import sys; print(sys.modules['sitecustomize'].__file__, sys.path[-1])"
        subprocess.run([sys.executable, *words, text])
"""


def test_children_are_run_as_the_program_is(python: Any, tmp_path: Path) -> None:
    """Spawned ones find __main__; a sitecustomize of the user's is run; -I is named."""
    (tmp_path / "p.py").write_text(CHILDREN)
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys; sys.path.append('by sitecustomize')")
    path = str(own) + os.pathsep + os.environ.get("PYTHONPATH", "")
    ours = python("-m", "plimsoll", "--memory", "3GiB", "p.py", "a",
                  PYTHONPATH=f"{path}{os.pathsep}{python_path()}")  # fmt: skip
    assert ours.returncode == 0, ours.stderr
    lines = ours.stdout.splitlines()
    assert sorted(lines[:2]) == ["top of __main__", "top of __mp_main__"]
    assert lines[2] == "True 2 ['p.py', 'a'] __mp_main__ True 0"
    assert lines[3] == f"{own / 'sitecustomize.py'} by sitecustomize"
    assert "by sitecustomize" not in lines[-1]
    said = [line for line in told(ours) if "child" in line]
    assert len(said) == 1 and "by -I" in said[0], said


def python_path() -> str:
    return next(folder for folder in sys.path if (Path(folder) / "plimsoll").is_dir())


def test_training_programs_give_what_keras_gives(python: Any, tmp_path: Path) -> None:
    """Kinds of training in one program; what the engine does not take is said once each."""
    results = []
    for prefix in ([], ["-m", "plimsoll", "--memory", "3GiB"]):
        target = tmp_path / f"results{len(prefix)}"
        ran = python(*prefix, HERE / "kinds_of_training.py", target)
        assert ran.returncode == 0, ran.stderr
        results.append(pickle.loads(target.read_bytes()))
    plain, ours = results
    assert list(plain) == list(ours)
    for name in plain:
        for expected, received in zip(plain[name], ours[name], strict=True):
            if expected.dtype.kind in "US":
                assert expected == received
            elif name != "frames":
                np.testing.assert_allclose(received, expected, rtol=2e-3, atol=2e-4, err_msg=name)
    assert ours["frames"][0] <= plain["frames"][0]
    said = told(ran)
    place = r"plimsoll: \S*kinds_of_training.py:\d+: fit of ([a-z]+)[_\d]* runs in Keras"
    where = [re.match(place, line) for line in said]
    assert all(where), said
    assert [one[1] for one in where if one] == ["own", "sequential", "sequential", "sequential"]
    assert "received __main__.Own" in said[0] and "loss __main__.own_loss" in said[1]
    assert "as many samples" in said[2] and AT_END not in ran.stderr


LIMITED = """\
import sys
import keras, numpy as np, tensorflow as tf
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", LOSS)
before = model.get_weights()
x, y = np.ones((40, 8), "float32"), np.ones((40, 1), "float32")
try:
    model.fit(x, y, batch_size=16, verbose=0)
except ERROR as error:
    print("caught", type(error).__mro__[1].__name__, error.args)
finally:
    print("finally", all((a == b).all() for a, b in zip(before, model.get_weights())))
print("goes on")
"""


def limited(folder: Path, loss: str = "'mse'", error: str = "KeyError") -> Path:
    program = folder / "limited.py"
    program.write_text(LIMITED.replace("LOSS", loss).replace("ERROR", error))
    return program


OWN_LOSS = "lambda true, predicted: predicted - true"


def test_a_limit_that_is_too_small(python: Any, tmp_path: Path) -> None:
    """The program's own `except` catches it; where it does not, the exit code is 3."""
    program = limited(tmp_path, error="tf.errors.ResourceExhaustedError")
    ours = python("-m", "plimsoll", "--memory", "80MiB", program)
    assert ours.returncode == 0, ours.stderr
    assert "caught ResourceExhausted" in ours.stdout and "goes on" in ours.stdout
    ours = python("-m", "plimsoll", limited(tmp_path), PLIMSOLL_MEMORY="80MiB")
    assert ours.returncode == 3
    assert ours.stdout == "finally True\n"
    error = beside(ours).partition("Traceback (most recent call last):")[2].splitlines()
    assert [line for line in error if "File" in line] == [
        f'  File "{program}", line 8, in <module>'
    ]
    assert "plimsoll.ResourceExhausted: memory=80.0 MiB does not fit: needs " in ours.stderr


def test_strict_refuses_what_would_run_in_keras(python: Any, tmp_path: Path) -> None:
    ours = python("-m", "plimsoll", "--strict", limited(tmp_path, OWN_LOSS))
    assert ours.returncode == 4
    assert ours.stdout == "finally True\n"
    assert (
        "limited.py:8: fit of sequential would run in Keras, since the engine does not"
        in ours.stderr
    )
    assert "loss __main__.<lambda> is the program's own" in ours.stderr and not told(ours)
    ours = python("-m", "plimsoll", "--strict", limited(tmp_path, OWN_LOSS, "ValueError"))
    assert "goes on" in ours.stdout
    assert ours.returncode == 4
    assert told(ours) == ["plimsoll: a call was refused, and the program went on."]


def test_plan_stops_at_the_first_fit(python: Any, tmp_path: Path) -> None:
    """What it takes, the frontier and remedies; nothing is trained, nor what follows run."""
    ours = python("-m", "plimsoll", "plan", limited(tmp_path))
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout.startswith("limited.py:8: sequential, batches of 16\n")
    assert "limit, " in ours.stdout and "predicted peak" in ours.stdout
    assert "finally" not in ours.stdout
    ours = python("-m", "plimsoll", "plan", "--memory", "80MiB", limited(tmp_path))
    assert ours.returncode == 3
    assert "remedies" in ours.stdout and "finally" not in ours.stdout
    ours = python("-m", "plimsoll", "plan", limited(tmp_path, OWN_LOSS))
    assert ours.returncode == 4
    assert "loss __main__.<lambda> is the program's own" in ours.stderr
    ours = python("-m", "plimsoll", "plan", "-c", "print(1); exit()")
    assert (ours.returncode, ours.stdout) == (2, "1\n")
    assert told(ours) == ["plimsoll: plan: the program ended without a call that trains a model."]


def test_the_page_of_programs(python: Any, tmp_path: Path) -> None:
    """Its program is run by its commands, and by its call in front of it."""
    page = (HERE.parents[1] / "docs/reference/scripts.md").read_text()
    program, install, *_ = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    commands = re.findall(r"^    python (-m plimsoll .* train.py --epochs 2)", page, re.M)
    assert len(commands) == 3
    (tmp_path / "train.py").write_text(program)
    trained, planned, guarded = (python(*command.split()) for command in commands)
    assert guarded.returncode == 0, guarded.stderr
    assert "runs in Keras, in parts where a batch does not fit: engine=" in told(guarded)[0]
    assert "accuracy 0." in guarded.stdout and "memory: at most" not in guarded.stdout
    assert trained.returncode == 0 and not told(trained), trained.stderr
    assert "memory: at most" in trained.stdout and "accuracy 0." in trained.stdout
    assert (tmp_path / "trained.keras").is_file()
    assert planned.returncode == 0, planned.stderr
    assert planned.stdout.startswith("train.py:12: sequential, batches of 32")
    (tmp_path / "train.py").write_text(install + program)
    installed = python("train.py", "--epochs", "1")
    assert installed.returncode == 0, installed.stderr
    assert "memory: at most" in installed.stdout
