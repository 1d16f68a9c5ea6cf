#!/usr/bin/env python3
"""Checks that one thing has one word: the terms of docs/concepts/words.md.

    check_words.py            findings only
    check_words.py --uses     each term, and how often code, messages and pages use it

Fails where a word comes back that is not used for what it once meant here (NOT_USED), where a
message speaks in a technical term that the page does not define, and where the page defines one
that nobody uses, or out of order. Prints one line per finding and exits with 1 if there is any.
"""

import fnmatch
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

PAGE = "docs/concepts/words.md"

EVERYWHERE = ("src/*", "python/*", "docs/*", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
PLANS = ("src/plimsoll/plan/*", "src/plimsoll/exec/*", "docs/reference/plan-file.md")
KERNELS = ("src/plimsoll/backend/*",)


class Word(NamedTuple):
    """A word that is not used in these files, what is said instead, and where it is right."""

    pattern: str
    instead: str
    files: tuple[str, ...] = EVERYWHERE
    # Phrases around the word, and files, in which it means something else.
    right: tuple[str, ...] = ()
    not_in: tuple[str, ...] = ()


NOT_USED = [
    Word(
        "behind",
        "after",
        right=(
            r"(left|leaves?|leave) behind|code pages behind that nobody",
            r"behind (tf\.data|one small wrapper|the planner's interface|a network file system)",
        ),
    ),
    Word(
        "turns?",
        "iteration",
        (*PLANS, *KERNELS),
        right=(
            r"\bin (its |their )?turn\b|\bin turns\b|\bby turns\b|\bis its turn\b",
            r"\btak(e|es|ing)[ _]turns\b",
            r"\bturns? [^.;]*\binto\b",
        ),
    ),
    Word(
        "turned", "transposed, or rotated", (*KERNELS, "src/plimsoll/layers/*"), right=(r":turned",)
    ),
    Word("homes?", "scope", PLANS, right=(r'key == "home"', r"`home=`")),
    Word("drain(s|ed)?", "output item", PLANS, right=(r'word == "drain"', r"`drain`")),
    Word("sightings?", "finding"),
    Word("needles?", "pattern"),
    Word("headway", "further progress"),
    Word("takeovers?", "in-place reuse"),
    Word("ways? out", "remedy", right=(r"(its|their) way out",)),
    Word("ways_out", "remedies", right=(r'"ways_out|`ways_out`',)),  # a key of --json
    Word("residenc(y|ies)", "spill placement"),
    Word("recipes?", "schedule", ("src/plimsoll/plan/*",)),
    Word("late[ _]updates?", "deferred updates"),
    Word(
        "narrow",
        "bf16, or few units",
        KERNELS,
        not_in=("*/reference/logic.cpp", "*/reference/initializer.cpp"),
    ),
]

# Technical terms in which messages may speak where the page defines them.
TECHNICAL = (
    "anchor|arena|axis|backend|band|batch|bf16|block|block set|box|candidate|catalog|checkpoint|"
    "chunk|class|clone|control group|cut|deferred updates|epoch|extent|feed|fingerprint|"
    "frontier|grain|group|guard page|halo|instance|item|iteration|kernel|kernel set|label|"
    "ladder|lane|layout|limit|loop|loop nest|lower bound|mask|memory part|node|operand|operator|"
    "output item|panel|phase|placement|plan|profile|program|record|rectangle|region|remedy|"
    "resident|rung|sample|saved form|schedule|scope|scratch|segment|shard|share|slice|slot|source|"
    "spill file|state region|state variable|step|tap|tile|transfer|transposed|universe|update|"
    "validator|vocabulary|window"
).split("|")
# The programs whose logs are read have words of their own.
OTHERS_WORDS = ("src/plimsoll/explain/*", "src/plimsoll/watch/*")
# A word of a message that is no technical term there, and what it is.
PLAIN: dict[tuple[str, str], str] = {}

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
COMMENT = re.compile(r"(?<!:)//[^\n]*")
TERM = re.compile(r"^- \*\*([^*]+)\*\*", re.MULTILINE)


def word_pattern(pattern: str) -> re.Pattern:
    """The word in prose, as a part of a_name and of aName, in any case."""
    camel = "".join(part.capitalize() for part in re.split(r"\[ _\]|_", pattern))
    return re.compile(
        rf"(?<![A-Za-z])(?i:{pattern})(?![A-Za-z])|(?<=[a-z]){camel}(?![a-z])",
    )


def text_files(root: pathlib.Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.startswith((".", "build/", "tests/data/")) or not path.is_file():
            continue
        if path.suffix not in (".h", ".cpp", ".py", ".md", ".txt", ".cmake", ".pyi"):
            continue
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            yield name, path.read_text(errors="replace")


def terms_of(page: str) -> list[str]:
    return TERM.findall(page)


def one_line(text: str) -> str:
    """A phrase may go on in the next line of a comment."""
    return re.sub(r"\s*\n\s*(//|#)?\s*", " ", text)


def is_right(word: Word, name: str, text: str, begin: int, end: int) -> bool:
    before = one_line(text[max(0, begin - 120) : begin])
    around = before + text[begin:end] + one_line(text[end : end + 120])
    return any(
        match.start() <= len(before) < match.end()
        for phrase in word.right
        for match in re.finditer(phrase, around)
    ) or any(fnmatch.fnmatchcase(name, p) for p in word.not_in)


def returned_words(files: list[tuple[str, str]]) -> list[str]:
    found = []
    for word in NOT_USED:
        pattern = word_pattern(word.pattern)
        for name, text in files:
            if name == PAGE or not any(fnmatch.fnmatchcase(name, p) for p in word.files):
                continue
            for match in pattern.finditer(text):
                if is_right(word, name, text, *match.span()):
                    continue
                line = text.count("\n", 0, match.start()) + 1
                found.append(f'{name}:{line}: "{match.group()}": say {word.instead}')
    return found


def messages_of(text: str) -> Iterator[tuple[int, str]]:
    """String literals that are read by people: those of several words."""
    code = COMMENT.sub(lambda m: " " * len(m.group()) if '"' not in m.group() else "", text)
    for match in LITERAL.finditer(code):
        if re.search(r"[a-z] [a-z]", match.group(1)):
            yield match.start(), match.group(1)


def undefined_terms(files: list[tuple[str, str]], terms: list[str]) -> list[str]:
    missing = [t for t in TECHNICAL if t not in terms]
    if not missing:
        return []
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, missing)) + r")(?:s|es)?\b")
    found = []
    for name, text in files:
        if not name.startswith("src/") or not name.endswith((".cpp", ".h")):
            continue
        if any(fnmatch.fnmatchcase(name, p) for p in OTHERS_WORDS):
            continue
        for at, message in messages_of(text):
            for match in pattern.finditer(message):
                if (name, match.group(1)) not in PLAIN:
                    line = text.count("\n", 0, at) + 1
                    found.append(f'{name}:{line}: "{match.group(1)}" is not defined in {PAGE}')
    return found


def words_of(files: list[tuple[str, str]]) -> dict[str, str]:
    """Code and pages as words between blanks: aName and a_name are two each."""
    parts: dict[str, list[str]] = {"code": [], "pages": []}
    for name, text in files:
        if name != PAGE:
            text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
            parts["pages" if name.endswith(".md") else "code"].append(
                re.sub(r"[^a-z0-9]+", " ", text.lower())
            )
    return {kind: " " + " ".join(texts) + " " for kind, texts in parts.items()}


def count_uses(words: dict[str, str], term: str) -> dict[str, int]:
    term = term.lower().replace("-", " ")
    forms = {term, term + "s", term + "es", term + "ed", term + "ing"}
    if term.endswith("y"):
        forms.add(term[:-1] + "ies")
    return {kind: sum(text.count(f" {form} ") for form in forms) for kind, text in words.items()}


def page_findings(page: str, files: list[tuple[str, str]]) -> list[str]:
    found = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        terms = terms_of(section)
        found += [
            f'{PAGE}: "{b}" stands after "{a}": words are in alphabetical order'
            for a, b in zip(terms, terms[1:])
            if a.lower() > b.lower()
        ]
    every = terms_of(page)
    words = words_of(files)
    found += [f'{PAGE}: "{t}" is defined twice' for t in sorted(set(every)) if every.count(t) > 1]
    for term in every:
        if sum(count_uses(words, term).values()) == 0:
            found.append(f'{PAGE}: "{term}" is used nowhere')
    return found


def check_tree(root: pathlib.Path) -> list[str]:
    files = list(text_files(root, EVERYWHERE))
    page = (root / PAGE).read_text()
    return (
        returned_words(files) + undefined_terms(files, terms_of(page)) + page_findings(page, files)
    )


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    if "--uses" in sys.argv[1:]:
        words = words_of(list(text_files(root, EVERYWHERE)))
        print(f"{'term':24} {'code':>7} {'pages':>7}")
        for term in terms_of((root / PAGE).read_text()):
            uses = count_uses(words, term)
            print(f"{term:24} {uses['code']:7} {uses['pages']:7}")
        return 0
    found = check_tree(root)
    for line in found:
        print(line)
    count = len(terms_of((root / PAGE).read_text()))
    print(f"check_words: {count} terms, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
