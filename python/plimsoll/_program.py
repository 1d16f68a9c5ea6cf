"""The command `plimsoll`: becomes the program that the package carries."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def find() -> Path:
    """The program: the installed package's, or that of the build folder in which it lies.

    Raises FileNotFoundError where there is neither.
    """
    here = Path(__file__).resolve().parent
    installed = here / "_program_files" / "bin" / "plimsoll"
    for program in (installed, here.parents[1] / "bin" / "plimsoll"):
        if program.is_file():
            return program
    raise FileNotFoundError(
        f"plimsoll: expected the program at {installed}, received none. Install the package again."
    )


def main() -> None:
    """Does not return where the program is there."""
    try:
        program = find()
    except FileNotFoundError as error:
        sys.exit(str(error))
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
