"""`python -m plimsoll`: runs a Keras program as it is, inside a memory limit."""

from __future__ import annotations

import sys

from plimsoll import asked
from plimsoll.programs import again, finder, processes, script

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any, NoReturn

USAGE = """\
usage: python -m plimsoll [plan] [options] SCRIPT [arguments]
       python -m plimsoll [plan] [options] -m MODULE [arguments]
       python -m plimsoll [plan] [options] -c TEXT [arguments]
       python -m plimsoll migrate [--write] SCRIPT

Runs a Keras program as it is: its models are trained inside a memory limit. `plan` stops at the
first call that trains and says what it takes. `migrate` prints how training loops of one's own are
written with plimsoll.Trainer.

  --memory SIZE    limit of the whole process: 3GiB, 75%, auto (default: $PLIMSOLL_MEMORY, or none)
  --reserve SIZE   how much of it others may take (default: at least 64MiB and 10 %)
  --threads N      threads of the engine
  --parts N        into which its kernels cut their work: equal parts, equal bits
  --lanes N        of the batch, a power of two: sums that may be cut between them
  --engine native  trains on the processor, also where Keras sees a GPU
  --engine keras   Keras trains, in parts where a batch does not fit
  --inexact        cuts also what is not proved to give the same in parts
  --restart N      starts the program again, at most N times, where the kernel kills it for memory
  --strict         refuses what would run in Keras
  --arrays         tells at the end which lines made NumPy's arrays when they took most
"""
_USAGE_ERROR = 2
_UNITS = ("b", "k", "kb", "kib", "m", "mb", "mib", "g", "gb", "gib", "tb", "tib")
_FLAGS = ("--strict", "--inexact", "--arrays")
_WITH_VALUE = ("--memory", "--reserve", "--threads", "--parts", "--lanes", "--engine", "--restart")


def _fail(text: str) -> NoReturn:
    print(f"plimsoll: {text} `python -m plimsoll --help` tells the options.", file=sys.stderr)
    sys.exit(_USAGE_ERROR)


def _near(name: str) -> str:
    import difflib

    known = difflib.get_close_matches(name, [*_WITH_VALUE, *_FLAGS, "--help"], 1, 0.5)
    return f" Did you mean {known[0]}?" if known else ""


def _parse(arguments: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Options, and what is left: the program and its arguments."""
    given: dict[str, Any] = {"plans": arguments[:1] == ["plan"]}
    rest = arguments[1:] if given["plans"] else list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        name, equals, value = rest.pop(0).partition("=")
        if name in ("-h", "--help"):
            print(USAGE, end="")
            sys.exit(0)
        if name in _FLAGS and not equals:
            given[name[2:]] = True
        elif name in _WITH_VALUE:
            if not equals and not rest:
                _fail(f"{name}: expected a value after it, received none.")
            given[name[2:]] = value if equals else rest.pop(0)
        else:
            _fail(f"{name}: expected an option or a script, received another name.{_near(name)}")
    if not rest or (rest[0] in ("-m", "-c") and len(rest) == 1) or rest[0] == "-":
        _fail("expected a script, -m MODULE or -c TEXT, received none.")
    return given, rest


def _asked(given: dict[str, Any]) -> asked.Asked:
    options: dict[str, Any] = {}
    if "reserve" in given:
        options["reserve"] = given["reserve"]
    try:
        for name in ("threads", "parts", "lanes"):
            if name in given:
                if not given[name].isdecimal():
                    raise ValueError(f"--{name}: expected a number, received {given[name]!r}.")
                options[name] = int(given[name])
        what = finder.checked(given.get("memory"), given.get("strict", False),
                              given.get("engine", "auto"), options, given["plans"],
                              given.get("inexact", False))  # fmt: skip
    except (ValueError, TypeError) as error:
        _fail(str(error))
    what.arrays = given.get("arrays", False)
    return what


def _restarts(given: dict[str, Any]) -> int:
    """How often a program may be started again."""
    times: str = given.pop("restart", "0")
    if not times.isdecimal():
        _fail(f"--restart: expected a number, received {times!r}.")
    if int(times) and given["plans"]:
        _fail("--restart: expected a program that trains, received plan.")
    return int(times)


def _program(rest: list[str]) -> script.Program:
    if rest[0] == "-c":
        return script.of_text(rest[1])
    if rest[0] == "-m":
        return script.of_module(rest[1])
    try:
        return script.of_file(rest[0])
    except script.NotFound:
        if rest[0].lower() in _UNITS:
            _fail(f"{rest[0]}: expected a script, received a unit. Write sizes in one word: 3GiB.")
        raise


def main() -> None:
    if sys.argv[1:2] == ["migrate"]:
        from plimsoll.tapes import migrate

        sys.exit(migrate.main(sys.argv[2:]))
    given, rest = _parse(sys.argv[1:])
    times = _restarts(given)
    what = _asked(given)
    what.restart = again.given()
    if times and what.restart is None:
        sys.exit(again.run(times))
    flags, arguments = (rest[:2], rest[2:]) if rest[0] in ("-m", "-c") else (rest[:1], rest[1:])
    asked.by_command = True
    finder.begin(what)
    again.seed(what)
    if not what.plans:
        processes.reach(what)
    finder.count_arrays(what)
    sys.argv[:] = ["-m" if flags[0] == "-m" else flags[0], *arguments]
    try:
        program = _program(flags)
    except script.NotFound as error:
        print(error, file=sys.stderr)
        asked.current = None
        sys.exit(error.code)
    except SyntaxError as error:
        script.end(error)
    script.run(program, arguments)
    if what.plans:
        asked.current = None
        asked.say("plan: the program ended without a call that trains a model.")
        sys.exit(_USAGE_ERROR)


if __name__ == "__main__":
    main()
