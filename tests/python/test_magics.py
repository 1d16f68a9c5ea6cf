"""%load_ext plimsoll in a notebook, run as Jupyter runs it (tools/matrix has what this takes)."""

import os
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient", reason="no nbclient here: tools/matrix has one")
nbformat = pytest.importorskip("nbformat")

MODEL = """\
import keras, numpy as np
x, y = np.ones((64, 8), "float32"), np.ones((64, 1), "float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)], name="small")
model.compile("sgd", "mse")
class Own(keras.Sequential):
    def train_step(self, data):
        return {"loss": 0.0}
own = Own([keras.Input((8,)), keras.layers.Dense(1)], name="own")
own.compile("sgd", "mse")
"""
NATIVE = """\
%%plimsoll --memory 4GiB --threads 1
history = model.fit(x, y, verbose=0)
from plimsoll import asked
asked.current.of_calls, asked.outcome.taken
"""
AFTER = """\
asked.current, model.fit(x, y, verbose=0) is not None, asked.outcome.taken
"""
LEFT = """\
%%plimsoll
own.fit(x, y, verbose=0).history
"""
STRICT = """\
%%plimsoll --strict
own.fit(x, y, verbose=0)
"""
INSTALLED = """\
import plimsoll
plimsoll.install(memory="3GiB")
get_ipython().run_cell_magic("plimsoll", "--memory 4GiB", "inside = asked.current.memory")
inside, asked.current.memory
"""
KILLED = """\
%%plimsoll --memory 2GiB
import os, signal, time
held = np.ones(8 << 20)
time.sleep(1.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(name="jupyter", autouse=True)
def _jupyter(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


def notebook_of(cells: list[str], path: Path) -> tuple[Any, Any]:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in cells]
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", allow_errors=True,
        resources={"metadata": {"path": path}},
    )  # fmt: skip
    return notebook, client


def shown(cell: Any) -> str:
    """A cell's value, and what it printed."""
    texts = [out.get("text", "") for out in cell.outputs]
    texts += [out.data["text/plain"] for out in cell.outputs if "data" in out]
    return "".join(texts)


def test_the_magics(tmp_path: Path) -> None:
    cells = ["%load_ext plimsoll", MODEL, NATIVE, AFTER, LEFT, STRICT, AFTER, INSTALLED,
             "%%plimsoll --memory 3GG\nran = True", "%%plimsoll --memroy 1GiB\nran = True",
             "'ran' in globals()", "%%plimsoll\n1 +", "%plimsoll_last", KILLED]  # fmt: skip
    notebook, client = notebook_of(cells, tmp_path)
    with pytest.raises(nbclient.exceptions.DeadKernelError):
        client.execute()
    (loaded, made, native, after, left, strict, again, installed, size, name, ran, syntax, nothing,
     _killed) = notebook.cells  # fmt: skip
    assert loaded.outputs == made.outputs == []
    assert shown(native) == "({'memory': '4GiB', 'threads': 1}, 1)"
    assert shown(after) == shown(again) == "(None, True, 1)"
    assert "fit of own runs in Keras, untouched" in shown(left)
    assert "{'loss': [0.0]}" in shown(left)
    for cell, text in [(size, "3GG"), (name, "--memroy")]:
        assert shown(cell).startswith("UsageError: %%plimsoll: ") and text in shown(cell)
    for cell, error, text in [
        (strict, "Refused", "would run in Keras, since the engine does not do it"),
        (syntax, "SyntaxError", "invalid syntax"),
    ]:
        (told,) = [out for out in cell.outputs if out.output_type == "error"]
        assert told.ename == error and text in told.evalue
    assert "own.fit" in "".join(strict.outputs[-1].traceback)
    assert shown(ran) == "False"
    assert shown(installed) == "('4GiB', '3GiB')"
    assert "nothing is known" in shown(nothing)

    notebook, client = notebook_of(["%load_ext plimsoll", "%plimsoll_last", "%unload_ext plimsoll",
                                    "%plimsoll_last"], tmp_path)  # fmt: skip
    client.execute()
    last = shown(notebook.cells[1])
    assert "    held = np.ones(8 << 20)" in last and "limit 2GiB" in last
    assert "why         not known" in last  # nobody has killed it for memory
    assert "not found" in notebook.cells[3].outputs[0].get("text", "")
