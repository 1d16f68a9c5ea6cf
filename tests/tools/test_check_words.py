"""check_words.py accepts trees that keep to their words, and finds every way to lose one."""

import pathlib
import subprocess
import sys

import pytest
import scripts

SCRIPT = scripts.TOOLS / "check_words.py"
ROOT = scripts.TOOLS.parent

check_words = scripts.load(SCRIPT)

PAGE = """# Words

## Plans

- **arena**: One range.
- **slice**: Rows.

## Runs

- **finding**: A statement.
- **guest**: A library.
"""
GOOD = {
    "docs/concepts/words.md": PAGE,
    "src/plimsoll/plan/core/plan.h": "// A slice after the arena, each in turn.\nint arena_b;\n",
    "src/plimsoll/explain/find.cpp": '// What a run left behind.\nthrow E("no finding here");\n',
    "python/plimsoll/model/live.py": '"""A guest."""\n',
    "README.md": "The arena.\n",
}


@pytest.fixture
def found(tmp_path: pathlib.Path):
    """Writes a tree of these files, and returns what is found in it."""

    def write(changes: dict[str, str]) -> list[str]:
        for name, text in (GOOD | changes).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_words.check_tree(tmp_path)

    return write


def test_a_tree_that_keeps_to_its_words_has_no_findings(found):
    assert found({}) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("src/plimsoll/plan/place/pack.h", "// Bytes behind it.\n", '1: "behind": say after'),
        ("docs/page.md", "# Page\n\nZeros stand\nbehind.\n", '4: "behind": say after'),
        ("src/plimsoll/plan/a.cpp", "int insert_behind();\n", '1: "behind": say after'),
        ("src/plimsoll/plan/a.cpp", "// In a turn of the loop.\n", '1: "turn": say iteration'),
        ("src/plimsoll/exec/a.cpp", "int startTurn();\n", '1: "Turn": say iteration'),
        ("src/plimsoll/plan/a.cpp", "LoopId find_home();\n", '1: "home": say scope'),
        ("src/plimsoll/plan/a.cpp", "struct Drain {};\n", '1: "Drain": say output item'),
        ("src/plimsoll/explain/a.h", "Sighting sighting;\n", '1: "Sighting": say finding'),
        ("src/plimsoll/explain/a.h", "bool find_needle();\n", '1: "needle": say pattern'),
        ("src/plimsoll/cli/a.cpp", 'say("two ways out");\n', '1: "ways out": say remedy'),
        ("src/plimsoll/backend/cpu/a.h", "bool narrow;\n", '1: "narrow": say bf16'),
        ("src/plimsoll/plan/a.cpp", "Takeover takeover;\n", '1: "Takeover": say in-place reuse'),
    ],
)
def test_words_that_are_not_used_are_named_with_their_place(found, name, text, said):
    assert f"{name}:{said}" in "\n".join(found({name: text}))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/plimsoll/plan/a.h", "// Orders take turns; each in its turn turns a NaN into 0.\n"),
        ("src/plimsoll/data/a.cpp", "const int turn = home;\n"),  # of data, no plan
        ("src/plimsoll/watch/a.h", "// Nothing is\n// left\n// behind.\n"),
        ("src/plimsoll/plan/a.cpp", "return result;  // returned\n"),
        ("src/plimsoll/exec/a.cpp", "// Values on their way out.\n"),
    ],
)
def test_the_same_letters_may_mean_something_else(found, name, text):
    assert found({name: text}) == []


def test_messages_speak_in_terms_that_the_page_defines(found):
    name = "src/plimsoll/data/a.cpp"
    assert found({name: 'refuse("no shard of that name");  // shard\n'}) == [
        f'{name}:1: "shard" is not defined in docs/concepts/words.md'
    ]
    # One word is a key, and a comment is no message.
    assert found({name: 'find("shard");  // another shard\n'}) == []


def test_the_page_is_in_order_and_defines_what_is_used(found):
    swapped = PAGE.replace("**arena**", "**x**").replace("**slice**", "**arena**")
    said = "\n".join(found({"docs/concepts/words.md": swapped}))
    assert '"arena" stands after "x"' in said
    assert '"x" is used nowhere' in said
    twice = PAGE.replace("- **guest**", "- **arena**: Again.\n- **guest**")
    assert '"arena" is defined twice' in "\n".join(found({"docs/concepts/words.md": twice}))


def test_the_repository_keeps_to_its_words():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_uses_are_listed_by_term():
    done = subprocess.run([sys.executable, SCRIPT, "--uses"], capture_output=True, text=True)
    assert done.returncode == 0
    arena = next(line for line in done.stdout.splitlines() if line.startswith("arena "))
    assert all(int(count) > 10 for count in arena.split()[1:])
