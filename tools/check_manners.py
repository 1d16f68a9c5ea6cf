#!/usr/bin/env python3
"""Checks that the library leaves alone what belongs to the process that it is a guest in.

Library code (src/plimsoll but for cli and watch, which are programs) ends nothing, changes no
setting of the process and writes to no stream of its own accord. What it does where its caller asks
for it is listed below with the file that may.
Prints one line per finding and exits with 1 if there is any.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "src" / "plimsoll"
PROGRAMS = ("cli", "watch")

CALLS = (
    # ends the process
    "exit _exit _Exit quick_exit abort terminate kill "
    # starts another or becomes it
    "fork vfork execv execve execvp execvpe posix_spawn system popen "
    # settings of the whole process
    "malloc_trim mallopt setrlimit prlimit prctl signal sigaction sigprocmask setlocale setenv "
    "putenv unsetenv umask chdir nice setpriority sched_setaffinity set_terminate set_new_handler "
    "feenableexcept omp_set_dynamic atexit "
    # streams
    "printf vprintf puts putchar perror"
).split()
FORBIDDEN = re.compile(
    r"(?<![\w.>])(?:::|std::)?(?:" + "|".join(CALLS) + r")\s*\("
    r"|\bstd(?:out|err)\b|\bstd::(?:cout|cerr|clog)\b|\bSTD(?:OUT|ERR)_FILENO\b"
)

# file -> what it may, because somebody asks for it by a call or an option.
ALLOWED = {
    "base/process_memory.cpp": "malloc_trim(",  # own_heap() came before
    "base/log.cpp": "stderr",  # log_to_standard_error, a sink for programs
    "train/limit_watch.cpp": "::sigaction(",  # FitRequest::take_signal
    "api/model_run.cpp": "stderr",  # FitOptions::progress
}
# Files of library folders that only programs use.
OF_PROGRAMS = ("report/waiting.cpp",)


def code_of(text: str) -> str:
    """The text with comments and string literals blanked, line by line."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL)


def findings(path: pathlib.Path) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    found = []
    for number, line in enumerate(code_of(path.read_text()).splitlines(), 1):
        for match in FORBIDDEN.finditer(line):
            if match.group() != ALLOWED.get(name):
                found.append(f"src/plimsoll/{name}:{number}: {match.group().rstrip('(')}")
    return found


def main() -> int:
    found = []
    for path in sorted(ROOT.rglob("*")):
        if path.suffix not in (".h", ".cpp") or path.relative_to(ROOT).parts[0] in PROGRAMS:
            continue
        if path.relative_to(ROOT).as_posix() not in OF_PROGRAMS:
            found += findings(path)
    for line in found:
        print(f"{line}: a library leaves that to the program (tools/check_manners.py)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
