#!/usr/bin/env python3
"""Reports how long files and functions are, and fails where they are longer than agreed.

Counted are the lines of .h, .cpp, .cu and .py files under src, tools, bench, examples, python and
tests. C++ functions are found by their braces: no preprocessing, no parsing of declarations.
Exceptions are named with their reason in tools/size_exceptions.txt.
"""

import argparse
import ast
import dataclasses
import pathlib
import re
import statistics
import sys

FILE_CAP, FILE_MEDIAN, FILE_P95 = 700, 120, 450
FUNCTION_CAP, FUNCTION_P95 = 80, 40
HEADER_CAP = 250
TEST_CAP = 600
MAX_EXCEPTIONS = 10
FOLDERS = ("src", "tools", "bench", "examples", "python", "tests")
SUFFIXES = (".h", ".cpp", ".cu", ".py")

# Comments, literals and preprocessor lines: nothing in them is structure.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<raw>\w*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(r"\b(namespace|extern)\b[^()]*$")
TYPE = re.compile(r"(^|[>\s])(class|struct|union|enum)\b[^()=]*$")
# What may stand between a parameter list and the body.
BODY_FOLLOWS = re.compile(
    r"\)\s*(const|noexcept(\s*\([^()]*\))?|override|final|mutable|try|&&?|requires[^{};]*|"
    r"->[^{};=]*|\s)*$"
)
ALIGNAS = re.compile(r"\balignas\s*\([^()]*\)")
MEMBER_INIT = re.compile(r"\)\s*(const|noexcept|\s)*:(?!:)[^;]*$")


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    path: str
    line: int
    lines: int


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


def opens_body(head: str) -> bool:
    """Whether the brace after `head`, at namespace or class level, opens a function."""
    if BODY_FOLLOWS.search(head):
        return True
    # A constructor: members are initialised by (…) or {…}; the body's brace follows one of them.
    return bool(MEMBER_INIT.search(head)) and head.rstrip()[-1:] in (")", "}")


def function_name(head: str) -> str:
    found = re.search(r"((?:[\w~]+::)*(?:operator\s*[^\s\w]+|[\w~]+))\s*\(([^()]*)", head)
    if not found:
        return "?"
    if found.group(1) in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST"):
        return ".".join(part.strip() for part in found.group(2).split(","))
    return found.group(1)


def cpp_functions(text: str, path: str) -> list[Function]:
    """The outermost functions of a file; lambdas and local classes belong to theirs."""
    code = NOISE.sub(blank, text)
    functions = []
    stack: list[tuple[str, int, str]] = []  # kind of block, start of its head, head
    begin = 0
    for match in re.finditer(r"[{};]", code):
        at, token = match.start(), match.group(0)
        inside = any(kind == "function" for kind, _, _ in stack)
        if token == "{":
            head = ALIGNAS.sub(blank, code[begin:at])
            if inside:
                kind = "block"
            elif SCOPE.search(head) or TYPE.search(head):
                kind = "scope"
            elif opens_body(head):
                kind = "function"
            else:
                kind = "initializer"
            stack.append((kind, begin, head))
            if kind != "initializer":
                begin = at + 1
        elif token == "}" and stack:
            kind, start, head = stack.pop()
            if kind == "function":
                first = start + len(head) - len(head.lstrip())
                line = code.count("\n", 0, first) + 1
                lines = code.count("\n", first, at) + 1
                functions.append(Function(function_name(head), path, line, lines))
            if kind != "initializer":
                begin = at + 1
        elif token == ";" and not any(kind == "initializer" for kind, _, _ in stack):
            begin = at + 1
    return functions


def python_functions(text: str, path: str) -> list[Function]:
    return [
        Function(node.name, path, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def percentile(values: list[int], share: float) -> int:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(share * 100) // 100) - 1)] if ordered else 0


def read_exceptions(path: pathlib.Path) -> tuple[set[str], list[str]]:
    """Names (path, or path:function) that may be longer, and what is wrong with the list."""
    names, findings = set(), []
    if not path.is_file():
        return names, findings
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.partition(" ")
        if not reason.strip():
            findings.append(f"{path.name}: {name} has no reason")
        names.add(name)
    if len(names) > MAX_EXCEPTIONS:
        findings.append(f"{path.name}: {len(names)} exceptions, at most {MAX_EXCEPTIONS}")
    return names, findings


def file_cap(path: str) -> int:
    if path.startswith("tests/"):
        return TEST_CAP
    return HEADER_CAP if path.endswith(".h") else FILE_CAP


def measure(root: pathlib.Path) -> tuple[dict[str, int], list[Function]]:
    lengths: dict[str, int] = {}
    functions: list[Function] = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            name, text = path.relative_to(root).as_posix(), path.read_text()
            lengths[name] = len(text.splitlines())
            find = python_functions if path.suffix == ".py" else cpp_functions
            functions += find(text, name)
    return lengths, functions


def judge(
    lengths: dict[str, int], functions: list[Function], exceptions: set[str]
) -> tuple[list[str], set[str]]:
    """Findings, and the exceptions that were needed."""
    findings, used = [], set()
    for path, lines in lengths.items():
        if lines > file_cap(path):
            used.add(path)
            if path not in exceptions:
                findings.append(f"{path}: {lines} lines, at most {file_cap(path)}")
    for function in functions:
        name = f"{function.path}:{function.name}"
        if function.lines > FUNCTION_CAP:
            used.add(name)
            if name not in exceptions:
                findings.append(
                    f"{function.path}:{function.line}: {function.name} has {function.lines} lines, "
                    f"at most {FUNCTION_CAP}"
                )
    return findings, used & exceptions


def summarize(
    title: str, lengths: list[int], most: list[int], limits: tuple[int, int, int]
) -> list[str]:
    """Prints one row of the table; `limits` are median (0: none), 95th percentile and cap."""
    if not lengths:
        return []
    median, p95 = int(statistics.median(lengths)), percentile(lengths, 0.95)
    print(f"{title:18} {len(lengths):6} {median:7} {p95:6} {max(lengths):6} {sum(most):8}")
    findings = []
    if limits[0] and median > limits[0]:
        findings.append(f"{title}: median {median} lines, at most {limits[0]}")
    if limits[1] and p95 > limits[1]:
        findings.append(f"{title}: 95th percentile {p95} lines, at most {limits[1]}")
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=here)
    parser.add_argument("--longest", type=int, default=0, help="also print the N longest functions")
    options = parser.parse_args()
    exceptions, findings = read_exceptions(options.root / "tools" / "size_exceptions.txt")
    lengths, functions = measure(options.root)
    more, used = judge(lengths, functions, exceptions)
    findings += more
    findings += [f"size_exceptions.txt: {name} is not needed" for name in sorted(exceptions - used)]

    product = [n for path, n in lengths.items() if not path.startswith("tests/")]
    headers = [n for path, n in lengths.items() if path.startswith("src/") and path.endswith(".h")]
    tests = [n for path, n in lengths.items() if path.startswith("tests/")]
    bodies = [f.lines for f in functions if not f.path.startswith("tests/")]
    print(f"{'lines':18} {'count':>6} {'median':>7} {'p95':>6} {'max':>6} {'sum':>8}")
    findings += summarize("files", product, product, (FILE_MEDIAN, FILE_P95, FILE_CAP))
    findings += summarize("of them headers", headers, headers, (0, 0, HEADER_CAP))
    findings += summarize("test files", tests, tests, (0, 0, TEST_CAP))
    findings += summarize("functions", bodies, bodies, (0, FUNCTION_P95, FUNCTION_CAP))
    for function in sorted(functions, key=lambda f: -f.lines)[: options.longest]:
        print(f"{function.lines:5} {function.path}:{function.line} {function.name}")
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
