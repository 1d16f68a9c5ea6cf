"""plimsoll.explain: the command's answer on an exception or a text, as an object."""

import json
import subprocess
from pathlib import Path

import keras
import numpy as np
import pytest

import plimsoll
from plimsoll import _core, explained

LOG = (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor "
    "with shape[128,64,222,222] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by "
    "allocator cpu [Op:Conv2D]\n"
)


def small() -> keras.Model:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)], name="small")
    model.compile("sgd", "mse")
    return model


def test_a_text_is_explained_as_the_command_explains_it(plimsoll_program: Path) -> None:
    answer = plimsoll.explain(LOG)
    command = [str(plimsoll_program), "explain", "-"]
    text = subprocess.run(command, input=LOG, capture_output=True, text=True)
    details = subprocess.run([*command, "--json"], input=LOG, capture_output=True, text=True)
    assert text.returncode == details.returncode == 11
    assert str(answer) == text.stdout.rstrip()
    assert answer.details == json.loads(details.stdout)
    assert (answer.verdict, answer.resource) == ("failure", "host_memory")
    assert answer.framework == "tensorflow" and "1.5 GiB" in answer.cause
    assert answer.remedies[0].code == "model.fit(x, y, batch_size=64)"
    assert answer.remedies[0].saves == 64 * 64 * 222 * 222 * 4
    assert answer.plan is None and not answer.left_out


def test_a_notebook_shows_the_page(plimsoll_program: Path) -> None:
    answer = plimsoll.explain(LOG)
    page = answer._repr_html_()
    assert page.startswith("<iframe srcdoc=") and "host memory" in page
    shown = answer._repr_markdown_()
    assert shown.startswith("**standard input: host memory (RAM): a tensor of 1.5 GiB")
    assert (
        "\n1. If the step works on more than one sample: half" in shown
        and "\n    model.fit(x, y, batch\\_" not in shown
    )
    assert "    model.fit(x, y, batch_size=64)" in shown


def test_an_exception_is_explained_with_its_traceback() -> None:
    with pytest.raises(MemoryError) as raised:
        np.ones((1 << 20, 1 << 20), "float64")
    answer = plimsoll.explain(raised.value)
    assert (answer.verdict, answer.resource) == ("failure", "host_memory")
    assert answer.framework == "numpy" and answer.details["tensor_shape"] == [1 << 20, 1 << 20]
    bare = plimsoll.explain(MemoryError())  # never raised: there is no traceback
    assert (bare.verdict, bare.resource) == ("failure", "host_memory")


@pytest.mark.parametrize("beside", [0, 84])
def test_our_own_error_is_explained(beside: int) -> None:
    """A limit that is passed already, and one that no plan meets."""
    model = keras.Sequential([keras.Input((1 << 16,)), keras.layers.Dense(256)], name="wide")
    model.compile("adam", "mse")
    memory = (_core.held_by_process() >> 20) + beside
    with pytest.raises(plimsoll.ResourceExhausted) as raised:
        plimsoll.fit(model, np.zeros((2, 1 << 16)), np.zeros((2, 256)), memory=f"{memory}MiB")
    answer = plimsoll.explain(raised.value)
    assert (answer.verdict, answer.resource) == ("failure", "host_memory")
    assert answer.cause_label == "memory_limit_too_small"
    assert answer.details["amounts"]["program"] > answer.details["amounts"]["limit"]
    # It is its own explanation, in the words of a call.
    assert str(answer) == str(raised.value) == str(plimsoll.explain(raised.value, model))
    assert answer.remedies and answer.remedies[0].code.startswith('memory="')
    assert answer.cause in str(raised.value) and "--memory" not in str(answer)
    assert "does not fit" in answer._repr_html_() and "does not fit" in answer._repr_markdown_()
    planned = plimsoll.explain(raised.value, model, batch_size=2, memory="4GiB").plan
    assert planned is not None and planned.details["batch"] == 2


def test_a_model_is_planned_beside_it() -> None:
    answer = plimsoll.explain(LOG, small(), memory="4GiB")
    assert answer.plan is not None and answer.plan.fits
    assert answer.plan.details["batch"] == 128  # as the text has it
    assert "plan of small, batches of 128" in str(answer) and "predicted peak" in str(answer)
    assert answer._repr_html_().count("<iframe") == 2
    assert "predicted peak" in answer._repr_markdown_()
    other = plimsoll.explain(LOG, keras.Sequential([keras.layers.Dense(1)]), batch_size=4)
    assert other.plan is None and "compile" in other.plan_refused
    assert other.plan_refused in str(other)


def test_of_a_long_text_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explained, "MOST_TEXT", 1000)
    answer = plimsoll.explain("Killed\n" * 1000 + "x" * 10 + "\n" + LOG)
    assert answer.left_out == 7000 + 11 + len(LOG) - 1000
    assert answer.details["bytes_read"] == 1000
    assert f"the first {answer.left_out} bytes" in str(answer)
    assert answer.framework == "tensorflow"


def test_what_is_no_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, error in [(b"OOM", TypeError), ("  \n", ValueError), ("\0" * 4000, ValueError)]:
        with pytest.raises(error, match="explain: .*expected"):
            plimsoll.explain(given)
    assert plimsoll.explain("Epoch 3 done").verdict == "no_failure"

    def missing() -> Path:
        raise FileNotFoundError("plimsoll: expected the program")

    monkeypatch.setattr(explained._program, "find", missing)
    with pytest.raises(FileNotFoundError):
        plimsoll.explain(LOG)
