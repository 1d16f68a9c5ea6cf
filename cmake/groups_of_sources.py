#!/usr/bin/env python3
"""Which sources of a target may be compiled as one file: python3 groups_of_sources.py FILE…

Prints a line for each source, `file;group`, or `file;` for one that stays alone. Two sources come
into one group only where no name that one of them keeps for itself (in a namespace without a name,
or as a macro) is read in the other or declared by its headers, and no macro of a header that
one includes is a word of the other: more is kept apart than need be.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

MOST_FILES, MOST_LINES = 8, 2500
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.S)
MACRO = re.compile(r"^\s*#\s*define (\w+)", re.M)
INCLUDED = re.compile(r'^#include "([^"]+)"', re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
# Macros of its own, and what would be inlined where it must not be seen.
ALONE = re.compile(r"^\s*#\s*(define|undef)|^void.* operator (new|delete)", re.M)
TYPE = re.compile(r"^(?:struct|class|union|enum class|enum|using|namespace) (\w+)(?=[\s;])")
DECLARED = re.compile(r"([\w:~]+)\s*(?=[({\[=;])")


@dataclass
class Source:
    path: str
    lines: int
    words: set[str]
    own: set[str]
    alone: bool
    macros: set[str]
    all_words: set[str]


@dataclass
class Group:
    lines: int = 0
    words: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    macros: set[str] = field(default_factory=set)
    all_words: set[str] = field(default_factory=set)
    count: int = 0

    def takes(self, source: Source) -> bool:
        return (
            self.count < MOST_FILES
            and self.lines + source.lines <= MOST_LINES
            and not self.own & source.words
            and not source.own & self.words
            and (
                source.macros == self.macros
                or not (source.macros & self.all_words or self.macros & source.all_words)
            )
        )

    def add(self, source: Source) -> None:
        self.count += 1
        self.lines += source.lines
        self.words |= source.words
        self.own |= source.own
        self.macros |= source.macros
        self.all_words |= source.all_words


def declared(text: str, everywhere: bool) -> set[str]:
    """Names of declarations at the left margin: inside of namespaces without a name, or all."""
    names: set[str] = set()
    inside = everywhere
    for line in text.splitlines():
        if line.startswith("namespace {"):
            inside = True
        elif re.fullmatch(r"}\s*// namespace", line):
            inside = everywhere
        elif line[:1].isalpha() and (inside or line.startswith("static ")):
            found = TYPE.match(line) or DECLARED.search(line)
            if found and ":" not in found[1]:
                names.add(found[1])
    return names


def included(path: Path) -> tuple[set[str], set[str], set[str]]:
    """Of the house's own headers that a file includes, and those that they include: what they
    declare, the macros that they make, and all of their words."""
    names: set[str] = set()
    macros: set[str] = set()
    words: set[str] = set()
    pending, seen = [path], {path}
    while pending:
        file = pending.pop()
        text = file.read_text(encoding="utf-8")
        if file != path:
            names |= declared(text, everywhere=True)
            macros |= set(MACRO.findall(text))
            words |= set(WORD.findall(COMMENT_OR_TEXT.sub(" ", text)))
        for name in INCLUDED.findall(text):
            found = next((p / name for p in path.parents if (p / name).is_file()), None)
            if found and found not in seen:
                seen.add(found)
                pending.append(found)
    return names, macros, words


def read(path: str) -> Source:
    raw = Path(path).read_text(encoding="utf-8")
    text = COMMENT_OR_TEXT.sub(" ", raw)
    names, macros, words_of_headers = included(Path(path).resolve())
    words = set(WORD.findall(text))
    alone = ALONE.search(text) is not None
    return Source(
        path,
        raw.count("\n"),
        words | names,
        declared(raw, everywhere=False),
        alone,
        macros,
        words | words_of_headers,
    )


def main() -> None:
    groups: list[Group] = []
    for source in map(read, sys.argv[1:]):
        if source.alone:
            print(f"{source.path};")
            continue
        index = next((i for i, group in enumerate(groups) if group.takes(source)), len(groups))
        if index == len(groups):
            groups.append(Group())
        groups[index].add(source)
        print(f"{source.path};{index}")


main()
