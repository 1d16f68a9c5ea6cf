"""check_layers.py accepts trees that follow the arrows and names every way to break them."""

import pathlib
import re
import subprocess
import sys
from collections import Counter

import pytest
import scripts

SCRIPT = scripts.TOOLS / "check_layers.py"


check_layers = scripts.load(SCRIPT)


def write_tree(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


GOOD = {
    "base/error.h": "#pragma once\n#include <string>\n",
    "base/error.cpp": '#include "base/error.h"\n\n#include <sys/stat.h>\n',
    "graph/ir.h": '#pragma once\n#include "base/error.h"\n',
    "ops/relu.h": '#pragma once\n#include "graph/ir.h"\n',
    "plan/core/plan.h": '#pragma once\n#include "base/error.h"\n#include "graph/ir.h"\n',
    "plan/tree/text.cpp": '#include "plan/core/plan.h"\n#include <nlohmann/json.hpp>\n',
    "plan/summary.h": '#pragma once\n#include "plan/core/plan.h"\n',
    "plan/search/find.cpp": '#include "plan/summary.h"\n#include "plan/core/plan.h"\n',
    "backend/kernel.h": '#pragma once\n#include "ops/relu.h"\n',
    "backend/cpu/simd/isa.h": "#pragma once\n",
    "backend/onednn/conv.cpp": '#include "backend/kernel.h"\n#include <oneapi/dnnl/dnnl.hpp>\n'
    '#include "backend/cpu/simd/isa.h"\n',
    "exec/run.h": '#pragma once\n#include "plan/core/plan.h"\n',
    "codec/gzip.cpp": "#include <zlib.h>\n",
    "plan/CMakeLists.txt": "plimsoll_library(plan SOURCES text.cpp DEPENDS graph LIBS x::y)\n",
    "graph/CMakeLists.txt": "plimsoll_library(graph DEPENDS base)\n",
}


def findings(tmp_path: pathlib.Path, changes: dict[str, str]) -> list[str]:
    return check_layers.check_tree(write_tree(tmp_path, GOOD | changes))


def test_a_tree_that_follows_the_arrows_has_no_findings(tmp_path):
    assert findings(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("base/log.h", '#include "graph/ir.h"\n', "base may not include graph"),
        ("plan/cost.h", '#include "ops/relu.h"\n', "plan may not include ops"),
        ("plan/cost.h", '#include "backend/kernel.h"\n', "plan may not include backend"),
        ("report/text.h", '#include "exec/run.h"\n', "report may not include exec"),
        ("explain/rules.h", '#include "backend/kernel.h"\n', "explain may not include backend"),
        ("watch/child.cpp", '#include "exec/run.h"\n', "watch may not include exec"),
        ("ops/dense.cpp", "#include <dnnl.hpp>\n", "backend/onednn/ only"),
        ("backend/kernel.cpp", "#include <oneapi/dnnl/dnnl.h>\n", "backend/onednn/ only"),
        ("formats/h5.cpp", "#include <hdf5.h>\n", "codec/ only"),
        ("api/run.cpp", "#include <CLI/CLI.hpp>\n", "cli/ only"),
        ("graph/text.h", "#include <nlohmann/json.hpp>\n", "into sources"),
        ("base/text.h", "#include <boost/format.hpp>\n", "is not known"),
        ("graph/text.cpp", "#include <fmt/format.h>\n", "base/ only"),
        ("graph/text.h", '#include "base/format.h"\n', "into sources"),
        ("graph/text.h", '#include "graph/missing.h"\n', "does not exist"),
        ("graph/text.h", '  #  include "graph/missing.h"\n', "does not exist"),
        ("utils/text.h", "#pragma once\n", "not one of the folders"),
        (
            "plan/core/walk.h",
            '#include "plan/search/all.h"\n',
            "plan/core may not include plan/search",
        ),
        ("plan/validate/v.h", '#include "plan/search/all.h"\n', "plan/validate may not include"),
        (
            "backend/reference/r.h",
            '#include "backend/cpu/simd/isa.h"\n',
            "may not include backend/cpu",
        ),
        ("backend/cpu/simd/v.h", '#include "backend/cpu/conv/c.h"\n', "cpu/simd may not include"),
        ("plan/extra/text.h", "#pragma once\n", "not one of the rooms"),
        (
            "plan/CMakeLists.txt",
            "plimsoll_library(plan DEPENDS graph ops)",
            "may not depend on ops",
        ),
        ("graph/CMakeLists.txt", "plimsoll_library(graph)", "DEPENDS does not reach"),
        ("watch/CMakeLists.txt", "plimsoll_program(w DEPENDS exec)", "may not depend on exec"),
    ],
)
def test_a_wrong_line_is_found(tmp_path, name, text, expected):
    there = {
        "base/format.h": "#pragma once\n#include <fmt/core.h>\n",
        "plan/search/all.h": "#pragma once\n",
        "backend/cpu/conv/c.h": "#pragma once\n",
    }
    found = findings(tmp_path, there | {name: text})
    assert found
    assert all(expected in finding for finding in found)


def test_the_line_number_is_that_of_the_include(tmp_path):
    (finding,) = findings(tmp_path, {"plan/cost.h": '#pragma once\n\n#include "ops/relu.h"\n'})
    assert "plan/cost.h:3: " in finding


def test_files_that_include_each_other_are_found(tmp_path):
    (finding,) = findings(
        tmp_path,
        {
            "graph/a.h": '#include "graph/b.h"\n',
            "graph/b.h": '#include "graph/c.h"\n',
            "graph/c.h": '#include "graph/a.h"\n',
        },
    )
    assert "graph/a.h -> graph/b.h -> graph/c.h -> graph/a.h" in finding


def test_arrows_that_break_an_invariant_are_found():
    assert check_layers.check_arrows(check_layers.ARROWS) == []
    cyclic = check_layers.ARROWS | {"base": ("cli",)}
    assert "base: the arrows form a cycle" in check_layers.check_arrows(cyclic)
    reaching = check_layers.ARROWS | {"report": ("planning",)}
    assert any("report: must never reach" in f for f in check_layers.check_arrows(reaching))


def test_the_command_fails_on_findings_only(tmp_path):
    write_tree(tmp_path, GOOD)
    command = [sys.executable, str(SCRIPT), str(tmp_path)]
    assert subprocess.run(command, capture_output=True).returncode == 0
    write_tree(tmp_path, {"base/log.h": '#include "plan/core/plan.h"\n'})
    failed = subprocess.run(command, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "base may not include plan" in failed.stdout


def table_rows(head: str) -> dict[str, list[str]]:
    """A table of ARCHITECTURE.md: the name in the first column, the names in the last one."""
    rows = {}
    text = (SCRIPT.parents[1] / "ARCHITECTURE.md").read_text()
    for line in text[text.index(f"| {head} |") :].splitlines()[2:]:
        if not line.startswith("| `"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0].strip("`")] = re.findall(r"[a-z]+", cells[-1])
    return rows


def test_the_tables_of_the_architecture_page_are_the_arrows():
    folders = table_rows("folder")
    assert folders == {name: list(below) for name, below in check_layers.ARROWS.items()}
    rooms = {
        f"{folder}/{room}": list(below)
        for folder, those in check_layers.ROOMS.items()
        for room, below in those.items()
    }
    assert table_rows("room") == rooms


def test_the_tables_of_the_architecture_page_are_the_tree():
    source = SCRIPT.parents[1] / "src" / "plimsoll"
    there = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_dir() and any(path.iterdir())
    }
    assert there == set(table_rows("folder")) | set(table_rows("room"))


def test_the_table_of_the_python_package_is_the_tree():
    package = SCRIPT.parents[1] / "python" / "plimsoll"
    there = {one.name for one in package.iterdir() if (one / "__init__.py").is_file()}
    stated = {name: list(below) for name, below in check_layers.PACKAGE.items()}
    table = table_rows("package")
    assert there == set(table)
    assert {name: stated[name] for name in table} == table


def test_imports_of_the_python_package_go_downwards(tmp_path: pathlib.Path) -> None:
    files = {
        "__init__.py": "from plimsoll.calls import fit\n",
        "options.py": "from plimsoll import _core, asked\n",
        "model/live.py": "import plimsoll.options\nfrom plimsoll.model import kept\n",
    }
    write_tree(tmp_path, files)
    assert check_layers.check_package(tmp_path) == []
    wrong = {
        "model/kept.py": "def late():\n    from plimsoll.training import loop\n",
        "sizes.py": "from plimsoll import data, model\n",
        "other/more.py": "",
    }
    found = check_layers.check_package(write_tree(tmp_path, wrong))
    assert len(found) == 3
    assert "kept.py:2: model may not import training" in found[0]
    assert "other is not one of the folders" in found[1]
    assert "sizes.py:1: sizes may not import model" in found[2]


MOST_FILES = 45


def test_no_folder_is_a_pile():
    root = SCRIPT.parents[1]
    files = Counter(p.parent for p in root.glob("src/**/*") if p.suffix in (".h", ".cpp"))
    files += Counter(p.parent for p in root.glob("python/**/*.py"))
    assert {str(folder): n for folder, n in files.items() if n > MOST_FILES} == {}


def test_the_python_module_stands_on_run(tmp_path: pathlib.Path) -> None:
    source, module = tmp_path / "src", tmp_path / "python"
    for name in ("run/run.h", "cli/options.h", "base/bytes.h"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    module.mkdir()
    (module / "own.h").write_text('#include "run/run.h"\n#include "base/bytes.h"\n')
    (module / "own.cpp").write_text('#include "own.h"\n')
    assert check_layers.check_python(source, module) == []
    (module / "own.cpp").write_text('#include "cli/options.h"\n')
    assert "python may not include cli" in check_layers.check_python(source, module)[0]
