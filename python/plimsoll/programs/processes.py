"""Python processes that a program starts are run as it is, by children/sitecustomize.py.

They find it by PYTHONPATH, so those that do not read that, or get an environment of their own, run
untouched; they are named where that can be seen.
"""

from __future__ import annotations

import os
import sys

from plimsoll import asked

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(asked.__file__)), "children")


def _flag_against(arguments: Any) -> str:
    """The option by which a command of Python's ignores PYTHONPATH; empty where there is none."""
    words = [os.fsdecode(word) for word in arguments if isinstance(word, (str, bytes, os.PathLike))]
    if not words or not os.path.basename(words[0]).startswith("python"):
        return ""
    for word in words[1:]:
        if not word.startswith("-") or word.startswith("--") or word in ("-", "-c", "-m"):
            return ""
        if set(word[1:]) & set("IES") and not word.startswith(("-W", "-X")):
            return word
    return ""


def _name_untouched(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen" or asked.current is None:
        return
    _executable, words, _folder, environment = arguments
    if isinstance(words, (str, bytes)):
        return
    flag = _flag_against(words)
    text = " ".join(os.fsdecode(word) for word in words if not isinstance(word, int))
    if flag:
        asked.say(f"a child runs untouched, by {flag}: {text}")
    elif environment is not None and asked.CHILDREN not in {os.fsdecode(n) for n in environment}:
        if words and os.path.basename(os.fsdecode(words[0])).startswith("python"):
            asked.say(f"a child runs untouched, with an environment of its own: {text}")


def reach(what: asked.Asked) -> None:
    """All that are started from now on."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = _FOLDER if not before else _FOLDER + os.pathsep + before
    os.environ[asked.CHILDREN] = what.written()
    if what.memory is not None:
        os.environ["PLIMSOLL_MEMORY"] = str(what.memory)
    if sys.flags.ignore_environment or sys.flags.no_site:
        asked.say("children of multiprocessing run untouched, by -I, -E or -S of this Python.")
    sys.addaudithook(_name_untouched)
