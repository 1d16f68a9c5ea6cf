"""A plan in a notebook, run as Jupyter runs it (tools/matrix installs what this takes)."""

import html
import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="no nbclient here: tools/matrix has one")
nbformat = pytest.importorskip("nbformat")

MODEL = """\
import keras, plimsoll

model = keras.Sequential([
    keras.Input((64, 64, 3)), keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.Conv2D(16, 3, activation="relu"), keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(4),
])
model.compile("adam", "mse")
"""
PLAN = 'answer = plimsoll.plan(model, 64, memory="4GiB"); answer'


def test_a_notebook_shows_plan_and_chart(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell's value is the page with table and chart; printed it is text."""
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in (MODEL, PLAN, "print(answer)")]
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    shown = [out for out in notebook.cells[1].outputs if out.output_type == "execute_result"]
    assert len(shown) == 1
    frame = shown[0].data["text/html"]
    page = html.unescape(re.fullmatch(r'<iframe srcdoc="([^"]*)".*></iframe>', frame, re.S)[1])
    assert "<table" in page
    assert "<svg" in page
    assert "interpreter, framework and arrays" in shown[0].data["text/plain"]
    printed = "".join(out.text for out in notebook.cells[2].outputs if out.name == "stdout")
    assert printed.strip() == shown[0].data["text/plain"].strip()
