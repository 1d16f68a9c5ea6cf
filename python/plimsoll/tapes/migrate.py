"""`python -m plimsoll migrate SCRIPT`: training loops of one's own with `plimsoll.Trainer`."""

from __future__ import annotations

import ast
import difflib
import sys
import tokenize
from pathlib import Path

USAGE = """\
usage: python -m plimsoll migrate [--write] SCRIPT

Prints, as a unified diff, how loops with a tf.GradientTape are written with plimsoll.Trainer. The
script is read, and not run.

  --write    changes the script, where every loop in it is proved standard; it is kept as
             SCRIPT.orig, which must not be there yet
"""
_USAGE_ERROR, _REFUSED, _FILE_ERROR = 2, 4, 6


def _say(text: str) -> None:
    print(f"plimsoll: {text}", file=sys.stderr)


def _parse(arguments: list[str]) -> tuple[Path, bool] | int:
    """The script and whether to write; a number: the exit code."""
    flags = [one for one in arguments if one.startswith("-")]
    paths = [one for one in arguments if not one.startswith("-")]
    if {"-h", "--help"} & set(flags):
        print(USAGE, end="")
        return 0
    unknown = [one for one in flags if one != "--write"]
    if unknown:
        near = " Did you mean --write?" if unknown[0].startswith("--w") else ""
        _say(f"migrate: {unknown[0]}: expected --write, received another option.{near} "
             "`python -m plimsoll migrate --help` tells more.")  # fmt: skip
        return _USAGE_ERROR
    if len(paths) != 1:
        _say(f"migrate: expected one script, received {len(paths)}. "
             "`python -m plimsoll migrate --help` tells more.")  # fmt: skip
        return _USAGE_ERROR
    return Path(paths[0]), bool(flags)


def _read(path: Path) -> tuple[str, str]:
    """A script's text, with its own ends of lines, and its encoding."""
    with open(path, "rb") as file:
        encoding, _ = tokenize.detect_encoding(file.readline)
    with open(path, encoding=encoding, newline="") as text:
        return text.read(), encoding


def _write(path: Path, text: str, encoding: str) -> int:
    kept = path.with_name(path.name + ".orig")
    try:
        with open(kept, "xb") as file:
            file.write(path.read_bytes())
    except FileExistsError:
        _say(f"migrate: {kept}: expected no such file, since the script is kept there, received "
             "one. Move it away.")  # fmt: skip
        return _FILE_ERROR
    with open(path, "w", encoding=encoding, newline="") as changed:
        changed.write(text)
    print(f"{path}: written; as it was: {kept}")
    return 0


def main(arguments: list[str]) -> int:
    """The exit code."""
    from plimsoll.tapes.rewritten import Script

    parsed = _parse(arguments)
    if isinstance(parsed, int):
        return parsed
    path, writes = parsed
    try:
        source, encoding = _read(path)
        script = Script(source, str(path))
    except OSError as error:
        _say(f"migrate: {path}: expected a script, received {error.strerror}.")
        return _USAGE_ERROR
    except (SyntaxError, UnicodeDecodeError) as error:
        _say(f"migrate: {path}: expected a script of Python, received another: {error}.")
        return _USAGE_ERROR
    for refused in script.refused:
        text = ast.unparse(refused.node).split("\n")[0] if refused.node is not None else ""
        line = getattr(refused.node, "lineno", 1)
        _say(f"{path}:{line}: {text}: {refused.reason}. The loop stays as it is.")
    if not script.loops and not script.refused:
        print(f"{path}: no training loop with a tf.GradientTape was found.")
        return 0
    text = script.written()
    if writes and script.refused:
        _say(f"migrate: {path}: nothing is written, since not every loop is proved standard.")
        return _REFUSED
    if writes:
        return _write(path, text, encoding)
    sys.stdout.writelines(difflib.unified_diff(
        source.splitlines(keepends=True), text.splitlines(keepends=True), str(path),
        f"{path} (migrated)"))  # fmt: skip
    return _REFUSED if script.refused else 0
