#!/usr/bin/env python3
"""Writes docs/reference/cpp-api.md from the headers of src/plimsoll/api, as Doxygen reads them.

    python3 tools/cpp_api.py            writes the page
    python3 tools/cpp_api.py --check    exit code 1 where the page is not what the headers say

The headers have plain comments: before a declaration, or after it on its line. A filter marks them
for Doxygen, whose XML becomes a section for each header, in the order of plimsoll.h.
"""

import re
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "src" / "plimsoll" / "api"
PAGE = ROOT / "docs" / "reference" / "cpp-api.md"
ORDER = ["plimsoll", "layers", "model", "training", "options", "dataset", "results", "trainer",
         "tensor"]  # fmt: skip
SETTINGS = """
INPUT = {headers}
FILE_PATTERNS = *.h
EXCLUDE_PATTERNS = *_impl.h
OUTPUT_DIRECTORY = {output}
FILTER_PATTERNS = "*.h={python} {script} --filter"
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
QUIET = YES
WARNINGS = NO
"""
HEAD = """# The C++ library

Made from the headers of `src/plimsoll/api` by `tools/cpp_api.py`. A program that uses them is
[examples/functional.cpp](../../examples/functional.cpp); CMake finds the installed library as
`Plimsoll`.
"""
WIDTH = 100  # of code
INTERNAL = {"plimsoll::api"}  # declared for friends


def marked(text: str) -> Iterator[str]:
    """The header's lines with its comments in Doxygen's form; the file's own is left out."""
    head, seen = True, False
    for line in text.splitlines():
        stripped = line.lstrip()
        if stripped.startswith("// NOLINT"):
            yield ""
        elif stripped.startswith("//"):
            yield "" if head else line.replace("//", "///", 1).replace("\\", "\\\\")
        else:
            seen = seen or stripped.startswith("#include") or stripped.startswith("namespace")
            head = not seen
            yield re.sub(r"  // (?!NOLINT)", "  ///< ", line)


def purpose(header: Path) -> str:
    """The comment at the header's top, code in it as a block."""
    lines = []
    for line in header.read_text().splitlines()[1:]:
        if line.startswith("//"):
            lines.append(line[3:])
        elif lines:
            break
    text, block = [], False
    for line in lines:
        if line.startswith("  ") != block:
            block = not block
            text.append("```cpp" if block else "```")
        text.append(line.removeprefix("  ") if block else line)
    text += ["```"] * block
    return "\n".join(text).replace("```cpp\n\n", "```cpp\n").replace("\n\n```\n", "\n```\n")


def text_of(element: ElementTree.Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def comment(element: ElementTree.Element) -> str:
    parts = (text_of(element.find(name)) for name in ("briefdescription", "detaileddescription"))
    return " ".join(part for part in parts if part)


def signature(member: ElementTree.Element) -> str:
    kind, name = member.get("kind"), text_of(member.find("name"))
    if kind == "enum":
        values = ", ".join(text_of(value.find("name")) for value in member.iter("enumvalue"))
        return f"enum class {name} {{ {values} }}"
    whole = f"{text_of(member.find('type'))} {name}{text_of(member.find('argsstring'))}".strip()
    start = text_of(member.find("initializer"))
    if kind == "variable" and start:
        whole += f" {start}" if start.startswith("=") else start
    whole = re.sub(r"\s+([<>&*,)])", r"\1", whole).replace("< ", "<").removesuffix("=default")
    whole = re.sub(r"([&*])(\w)", r"\1 \2", whole)
    return re.sub(r"(\w)=(\S)", r"\1 = \2", whole).strip()


def block(members: Iterable[ElementTree.Element]) -> str:
    """Declarations with their comments, as code; nothing where there is none."""
    lines: list[str] = []
    for member in members:
        if member.get("kind") in ("friend", "typedef") or member.get("prot") != "public":
            continue
        told, line = comment(member), signature(member) + ";"
        if told and len(line) + len(told) + 4 <= WIDTH:
            line += f"  // {told}"
        elif told:
            lines += textwrap.wrap(told, WIDTH, initial_indent="// ", subsequent_indent="// ")
        lines += (
            textwrap.wrap(line, WIDTH, subsequent_indent="    ") if "//" not in line else [line]
        )
    return "\n".join(["```cpp", *lines, "```", ""]) if lines else ""


def declared(xml: Path, reference: str) -> ElementTree.Element:
    found = ElementTree.parse(xml / f"{reference}.xml").getroot().find("compounddef")
    assert found is not None, reference
    return found


def section(xml: Path, stem: str, file: ElementTree.Element) -> str:
    text = [f"\n## {stem}.h\n", purpose(HEADERS / f"{stem}.h"), ""]
    for inner in file.findall("innerclass"):
        compound = declared(xml, str(inner.get("refid")))
        name = text_of(compound.find("compoundname"))
        if any(name.startswith(f"{space}::") for space in INTERNAL) or "::" in name[10:]:
            continue
        base = text_of(compound.find("basecompoundref"))
        heading = f"### {compound.get('kind')} {name.removeprefix('plimsoll::')}"
        text.append(heading + (f" : {base.removeprefix('plimsoll::')}" if base else "") + "\n")
        told = comment(compound)
        text += [told, ""] if told else []
        text.append(block(compound.iter("memberdef")))
    space = xml / "namespaceplimsoll.xml"
    own = [
        member
        for member in ElementTree.parse(space).getroot().iter("memberdef")
        if str(member.find("location").get("file")).endswith(f"/{stem}.h")  # type: ignore[union-attr]
    ]
    functions = block(own)
    if functions:
        text += ["### Functions, constants, enumerations\n", functions]
    return "\n".join(text)


def page() -> str:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "Doxyfile"
        settings.write_text(
            SETTINGS.format(
                headers=HEADERS, output=folder, python=sys.executable, script=Path(__file__)
            )
        )
        subprocess.run(["doxygen", str(settings)], check=True, cwd=ROOT)
        xml = Path(folder) / "xml"
        index = ElementTree.parse(xml / "index.xml").getroot()
        files = {text_of(c.find("name")): str(c.get("refid")) for c in index
                 if c.get("kind") == "file"}  # fmt: skip
        sections = [section(xml, stem, declared(xml, files[f"{stem}.h"])) for stem in ORDER]
    return re.sub(r"\n{3,}", "\n\n", HEAD + "\n".join(sections)).rstrip() + "\n"


def main() -> int:
    if sys.argv[1:2] == ["--filter"]:
        print("\n".join(marked(Path(sys.argv[2]).read_text())))
        return 0
    made = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text() == made:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is not what the headers say: run tools/cpp_api.py")
        return 1
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
