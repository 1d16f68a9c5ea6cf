"""The magics of `%load_ext plimsoll`. Loaded by IPython alone."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from IPython.core.error import UsageError

from plimsoll import asked
from plimsoll.programs import finder
from plimsoll.watching import noted


class _Words(argparse.ArgumentParser):
    """Wrong options are an error of the cell, not an end of the kernel."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%plimsoll: {message}. {self.format_usage().strip()}")


def _words() -> _Words:
    words = _Words(prog="%%plimsoll", add_help=False, allow_abbrev=False)
    words.add_argument("--memory", help="limit of the whole process")
    words.add_argument("--reserve", help="how much of it others may take")
    words.add_argument("--threads", type=int, help="of the engine")
    words.add_argument("--engine", default="auto", help="native: on the processor")
    words.add_argument("--strict", action="store_true", help="refuses what would run in Keras")
    return words


def _asked(line: str) -> asked.Asked:
    try:
        given = _words().parse_args(shlex.split(line))
        options = {
            name: getattr(given, name)
            for name in ("reserve", "threads")
            if getattr(given, name) is not None
        }
        return finder.checked(given.memory, given.strict, given.engine, options)
    except (ValueError, TypeError) as error:
        raise UsageError(f"%%plimsoll: {error}") from None


def _run(shell: Any, cell: str) -> None:
    """As IPython runs a cell; what it raises is raised here, to be shown once, by the caller."""
    shown = {name: vars(shell).get(name) for name in ("showtraceback", "showsyntaxerror")}
    try:
        for name in shown:
            setattr(shell, name, lambda *_arguments, **_named: None)
        result = shell.run_cell(cell)
    finally:
        for name, own in shown.items():
            if own is None:
                delattr(shell, name)
            else:
                setattr(shell, name, own)
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        raise error


def run_cell(line: str, cell: str, shell: Any) -> None:
    """`%%plimsoll`: the cell's models are trained as after `plimsoll.install`, and only they."""
    what = _asked(line)
    before = asked.current
    finder.begin(what, says_at_end=False)
    counted = finder.count_arrays(what)
    running = noted.Running(noted.Note.of(cell, what.memory))
    try:
        with running:
            _run(shell, cell)
    finally:
        asked.current = before
        finder.count_arrays(counted)
        if running.fault:
            asked.say(f"no note of this cell was kept for %plimsoll_last: {running.fault}")


def load(shell: Any) -> None:
    shell.register_magic_function(
        lambda line, cell: run_cell(line, cell, shell), "cell", "plimsoll"
    )
    shell.register_magic_function(lambda line: noted.last_cell(), "line", "plimsoll_last")


def unload(shell: Any) -> None:
    magics = shell.magics_manager.magics
    magics["cell"].pop("plimsoll", None)
    magics["line"].pop("plimsoll_last", None)
