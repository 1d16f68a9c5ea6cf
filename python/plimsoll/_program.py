"""The command `plimsoll`: becomes the program that the package carries."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Does not return where the program is there."""
    program = Path(__file__).parent / "_program_files" / "bin" / "plimsoll"
    if not program.is_file():
        sys.exit(f"plimsoll: expected the program at {program}, received none. "
                 "Install the package again.")  # fmt: skip
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
