#!/usr/bin/env python3
"""Checks that operators and layers are known by name in one place each.

What an operator is, its file in ops/ says by traits (src/plimsoll/graph/op_traits.h); a backend
lists its kernels in tables of one line an operator. What a layer is, its file in layers/kinds and
its line of the registry say. Anywhere else a string that is the name of an operator or of a layer
is a second place to know it. Prints one line per finding and exits with 1 if there is any.
"""

import argparse
import pathlib
import re
import sys
from collections.abc import Iterator

# Folders that name operators and layers because that is what they are for.
OWNERS = ("ops/", "layers/")

# Files, or folders, where a word is not the name that it looks like, and why.
VOCABULARIES: dict[str, str] = {
    "explain/": "words of other programs' logs and code",
    "graph/core_ops.cpp": "the operators that the graph itself needs",
    "api/layers.cpp": "the public classes of layers, each one line",
    "api/layers.h": "the public names of activations",
    "bench/networks.cpp": "networks written out, as a model's file does",
    "bench/workloads.cpp": "networks written out, as a model's file does",
    "planning/probes.cpp": "networks written out, as a model's file does",
    # These three translate files name by name, before there is a layer that could be asked. Traits
    # would put the words of files into the layers that those became, and many classes in them,
    # such as Merge and TimeDistributedDense, have no layer that could say it.
    "formats/keras/keras_legacy.cpp": "what older files say, and what that is called today",
    "formats/keras/legacy_weights.cpp": "how older files keep weights",
    "formats/keras/tensorflow_functions.cpp": "TensorFlow's functions under Keras's names",
}

# A file's word that is a name of something else.
WORDS: dict[tuple[str, str], str] = {
    ("plan/tree/text_parse.cpp", "slice"): "a word of a plan's text",
    ("planning/model_variants.cpp", "sgd"): "an optimizer as --optimizer spells it",
    ("report/plan_summary.cpp", "batch_norm"): "a key of --json",
    ("train/checkpoint.cpp", "batch_norm"): "a key of a checkpoint",
    ("train/profile.cpp", "dense"): "a family of operators",
    ("train/profile.cpp", "attention"): "a family of operators",
}

COMMENT = re.compile(r"//[^\n]*")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.MULTILINE)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')

# Uses that know nothing of what they name: a line of a backend's table, a node that a pass adds to
# a graph, the key (and word) of an attribute or option.
TABLE_LINE = re.compile(r'"\w+",\s*make_\w+')
ADDED_NODE = re.compile(r'\b(?:call|add)\(\s*"\w+"')
ATTRIBUTE = re.compile(
    r'\b(?:get_\w+|set|find|take|has|rename)\(\s*"\w+"(?:,\s*"\w*")?(?:\)\s*[!=]=\s*"\w+")?'
)
# An operator is asked what it is called: ask its traits.
ASKED = re.compile(
    r"\bop(?:\(\))?(?:->name\(\))?(?:\(\))?(?:\.(?:starts_with|ends_with|find)\(|\s*[!=]=\s*)\"[^\"]*\""
)

REFERENCE_TABLE = re.compile(r'[{(]"(\w+)",\s*make_\w+')
CORE_NAME = re.compile(r'(?:name\(\) const override \{ return |make_unique<\w+>\()"(\w+)"')
REGISTRY_LINE = re.compile(r'Entry\{"(\w+)",')


def operator_names(source: pathlib.Path) -> set[str]:
    """Every operator has a reference kernel (tests/ops/completeness_test.cpp holds that)."""
    names: set[str] = set()
    for path in sorted((source / "backend" / "reference").rglob("*.cpp")):
        names.update(REFERENCE_TABLE.findall(path.read_text()))
    core = source / "graph" / "core_ops.cpp"
    return names | set(CORE_NAME.findall(core.read_text()) if core.is_file() else ())


def layer_names(source: pathlib.Path) -> set[str]:
    registry = source / "layers" / "kinds" / "layer_registry.cpp"
    return set(REGISTRY_LINE.findall(registry.read_text())) if registry.is_file() else set()


def blank(pattern: re.Pattern[str], text: str) -> str:
    """The text with what the pattern matches taken out, line by line as long as before."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def code_of(relative: str, text: str) -> str:
    """What of a file may not name operators and layers."""
    for pattern in (INCLUDE, COMMENT, ATTRIBUTE):
        text = blank(pattern, text)
    if relative.startswith("backend/"):
        text = blank(TABLE_LINE, text)
    if relative.startswith("graph/"):
        text = blank(ADDED_NODE, text)
    return text


def check_file(
    relative: str, text: str, operators: set[str], layers: set[str]
) -> Iterator[tuple[int, str]]:
    code = code_of(relative, text)
    for match in LITERAL.finditer(code):
        word = match.group(1)
        if (relative, word) in WORDS:
            continue
        line = code.count("\n", 0, match.start()) + 1
        if word in operators:
            yield line, f'"{word}" is an operator: ask for a trait of it (graph/op_traits.h)'
        elif word in layers:
            yield line, f'"{word}" is a layer: ask for a trait of it (layers/model/layer_traits.h)'
    for match in ASKED.finditer(code):
        if match.group().split('"')[1] in operators | layers:
            continue  # said above
        yield (
            code.count("\n", 0, match.start()) + 1,
            "an operator's name is looked at: ask for a trait of it (graph/op_traits.h)",
        )


def check_tree(source: pathlib.Path) -> list[str]:
    operators, layers = operator_names(source), layer_names(source)
    findings = []
    for path in sorted(p for p in source.rglob("*") if p.suffix in (".h", ".cpp", ".cu")):
        relative = path.relative_to(source).as_posix()
        if relative.startswith((*OWNERS, *VOCABULARIES)):
            continue
        found = sorted(check_file(relative, path.read_text(), operators, layers))
        findings += [f"{path}:{line}: {what}" for line, what in found]
    for place in (*VOCABULARIES, *(file for file, _ in WORDS)):
        if not (source / place).exists():
            findings.append(f"tools/check_names.py: {place} is not there any more")
    return findings


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=pathlib.Path, default=root / "src" / "plimsoll")
    source = parser.parse_args().source
    if not source.is_dir():
        print(f"{source}: no such folder", file=sys.stderr)
        return 2
    findings = check_tree(source)
    for finding in findings:
        print(finding)
    names = len(operator_names(source)), len(layer_names(source))
    print(f"check_names: {names[0]} operators, {names[1]} layers, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
