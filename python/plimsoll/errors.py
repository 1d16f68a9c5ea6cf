"""What calls raise: classes that existing `except` blocks catch."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plimsoll import _core  # these classes are there where the engine is not


class ResourceExhausted(MemoryError):
    """A memory limit that cannot be met; the text says why, and what would do.

    The class that is raised is also a subclass of the loaded framework's own error
    (`tf.errors.ResourceExhaustedError`, `torch.OutOfMemoryError`, `jax.errors.JaxRuntimeError`).
    """


class Refused(ValueError):
    """A model or a part of one that the engine does not take over; the text names it."""


def _exhausted(message: str) -> BaseException:
    bases: list[type] = [ResourceExhausted]
    tensorflow = sys.modules.get("tensorflow")
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if tensorflow is not None and hasattr(tensorflow, "errors"):
        bases.append(tensorflow.errors.ResourceExhaustedError)
    if torch is not None and hasattr(torch, "OutOfMemoryError"):
        bases.append(torch.OutOfMemoryError)
    if jax is not None and hasattr(jax, "errors"):
        bases.append(jax.errors.JaxRuntimeError)
    if len(bases) == 1:
        return ResourceExhausted(message)

    def init(self: Any, text: str) -> None:
        Exception.__init__(self, text)
        # What properties of TensorFlow's errors read.
        self._message, self._op, self._node_def, self._error_code = text, None, None, 8

    raised = type("ResourceExhausted", tuple(bases), {
        "__init__": init,
        "__str__": lambda self: str(self.args[0]),
        "__reduce__": lambda self: (_exhausted, (str(self.args[0]),)),
        "__module__": "plimsoll",
        "__doc__": ResourceExhausted.__doc__,
    })  # fmt: skip
    error: BaseException = raised(message)
    return error


def exhausted(message: str) -> BaseException:
    """The error for a limit that cannot be met."""
    return _exhausted(message)


# What to do, where the engine names options of the command line.
_SPELLED = {
    "Name the data with --data.": "Give them as x.",
    "Name the labels with --labels, or save them as y in the .npz.": "Give them as y.",
    "Name the weights with --sample-weights, or save them as sample_weight in the .npz.":
        "Give them as sample_weight.",
    "Name one, such as --loss sparse_categorical_crossentropy.":
        'Name one in compile, such as loss="sparse_categorical_crossentropy".',
    "Name one, such as --optimizer adam.": 'Name one in compile, such as optimizer="adam".',
    "Where one plans or writes for long, name a longer --rank-timeout.":
        "What takes a rank longer than that belongs before or after fit.",
    "with --lanes.": "with lanes=.",
}  # fmt: skip


# An option with its value, where it has one; not what looks like one within a path or a name.
_OPTION = re.compile(r"(?<![\w/.\"'-])--(batch|memory|threads|parts|lanes|seed|precision|backend|"
                     r"plan-time|max-slowdown|without|times|tune|spill-dir|no-spill|spill)"
                     r"(?![\w/-])( (?=\d|/|[A-Z]{2})|(?=:))?")  # fmt: skip


def _argument(option: re.Match[str]) -> str:
    name = option[1].replace("-", "_")
    if name in ("spill", "no_spill"):
        return f"spill={name == 'spill'}"
    name = "batch_size" if name == "batch" else name
    return name if option[2] == "" else f"{name}="


def translate(error: _core.EngineError) -> BaseException:
    """The engine's error as what Keras would raise, or Python."""
    kind, message = error.args[:2]
    for of_command_line, in_python in _SPELLED.items():
        message = message.replace(of_command_line, in_python)
    message = _OPTION.sub(_argument, message)
    if kind == "budget":
        return _exhausted(message)
    if kind == "io":
        return OSError(message)
    if kind == "model":
        return Refused(message)
    if kind in ("config", "data"):
        return ValueError(message)
    return RuntimeError(message)


def guarded(call: Callable[[], Any]) -> Any:
    """Runs a call of the engine, with its errors as Python's."""
    from plimsoll import _core

    try:
        return call()
    except _core.EngineError as error:
        raise translate(error) from None
