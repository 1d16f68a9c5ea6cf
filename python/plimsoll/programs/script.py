"""Runs a program as plain `python` does: a file, a folder or archive with a `__main__.py`, a module
(`-m`), a text (`-c`).

The program gets a module `__main__` of its own with everything that Python puts there, `sys.argv`
and `sys.path[0]`. What ends it ends the process with Python's exit code; its traceback begins in
the program. Processes that it starts with `multiprocessing` find it by `__main__`, as ever.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types

from plimsoll import asked
from plimsoll.surroundings import without_our_frames

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any, NoReturn

REFUSED = 4  # the exit codes of `plimsoll fit`
DOES_NOT_FIT = 3
_ARCHIVE = b"PK\x03\x04"


class NotFound(Exception):
    """There is no such program; `code` is what Python exits with."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Program:
    """What is to run: its code, and what Python puts into `__main__` beside it.

    argument: sys.argv[0]. folder: sys.path[0]; None: as it is.
    """

    def __init__(
        self, code: types.CodeType, names: dict[str, Any], argument: str, folder: str | None
    ) -> None:
        self.code, self.names, self.argument, self.folder = code, names, argument, folder


def _names(
    loader: Any, file: str | None = None, spec: Any = None, cached: str | None = None
) -> dict[str, Any]:
    names = {"__loader__": loader, "__spec__": spec, "__annotations__": {}, "__doc__": None,
             "__package__": spec.parent if spec is not None else None}  # fmt: skip
    if file is not None:
        names |= {"__file__": file, "__cached__": cached}
    return names


def of_text(text: str) -> Program:
    """`-c`."""
    loader = importlib.machinery.BuiltinImporter
    return Program(compile(text, "<string>", "exec", dont_inherit=True), _names(loader), "-c", "")


def _main_of(full: str) -> Any:
    """Where a folder or an archive has its `__main__`; None: nowhere."""
    import pkgutil

    importer: Any = pkgutil.get_importer(full)
    found = importer.find_spec("__main__") if importer is not None else None
    if found is None and os.path.isdir(full):
        raise NotFound(f"{sys.executable}: can't find '__main__' module in {full!r}", 1)
    return found


def of_file(path: str) -> Program:
    """A source or compiled file, or what has a `__main__.py`."""
    full = os.path.join(os.getcwd(), path)
    source = b""
    try:
        if not os.path.isdir(full):
            with open(full, "rb") as file:
                source = file.read()
    except OSError as error:
        raise NotFound(f"{sys.executable}: can't open file {full!r}: [Errno {error.errno}] "
                       f"{error.strerror}", 2) from None  # fmt: skip
    if not source or source.startswith(_ARCHIVE):
        found = _main_of(full)
        if found is not None:
            return _of_spec(found, path, full)
    loader: Any
    if path.endswith(".pyc"):
        loader = importlib.machinery.SourcelessFileLoader("__main__", full)
        code = loader.get_code("__main__")
    else:
        loader = importlib.machinery.SourceFileLoader("__main__", full)
        code = compile(source, full, "exec", dont_inherit=True)
    return Program(code, _names(loader, full), path, os.path.dirname(os.path.realpath(full)))


def of_module(name: str) -> Program:
    """`-m`."""
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, TypeError, ValueError):
        spec = None
    if spec is None or spec.loader is None:
        raise NotFound(f"{sys.executable}: No module named {name}", 1)
    return _of_spec(spec, spec.origin or name, None)


def _of_spec(spec: Any, argument: str, folder: str | None) -> Program:
    code = spec.loader.get_code(spec.name)
    return Program(code, _names(spec.loader, spec.origin, spec, spec.cached), argument, folder)


def _prepare(program: Program, arguments: list[str]) -> dict[str, Any]:
    """The program's `__main__`; returns its names."""
    main = types.ModuleType("__main__")
    vars(main).update(program.names, __builtins__=sys.modules["builtins"])
    sys.modules["__main__"] = main
    sys.argv[:] = [program.argument, *arguments]
    if program.folder is not None and not getattr(sys.flags, "safe_path", False):
        sys.path[0] = program.folder
    return vars(main)


def _silent(kind: Any, error: Any, trace: Any) -> None:
    """In place of a hook that has been called."""


def _code_of(error: BaseException) -> int | None:
    """The exit code where it is not Python's."""
    arrays: Any = sys.modules.get("plimsoll.arrays")
    if arrays is not None and arrays.has_refused(error):
        asked.current = None  # that nothing was trained says itself
        return DOES_NOT_FIT
    errors: Any = sys.modules.get("plimsoll.errors")
    if errors is not None and isinstance(error, errors.ResourceExhausted):
        return DOES_NOT_FIT
    if errors is not None and isinstance(error, errors.Refused):
        return REFUSED
    return None


def end(error: BaseException) -> NoReturn:
    """As Python ends by what a program has not caught; raises what has Python do so."""
    without_our_frames(error)
    sys.excepthook(type(error), error, error.__traceback__)
    code = _code_of(error)
    if code is not None:
        raise SystemExit(code)
    sys.excepthook = _silent
    raise error


def run(program: Program, arguments: list[str]) -> None:
    """Runs it to its end. Returns where Python would exit with 0.

    Raises SystemExit, or what the program raised when it has been shown.
    """
    names = _prepare(program, arguments)
    try:
        exec(program.code, names)
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    except BaseException as error:
        end(error)
    if asked.outcome.refused:
        asked.say("a call was refused, and the program went on.")
        raise SystemExit(REFUSED)
