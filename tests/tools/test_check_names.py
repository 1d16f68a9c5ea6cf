"""check_names.py accepts trees that ask for traits, and finds other places that know names."""

import pathlib
import subprocess
import sys

import pytest
import scripts

SCRIPT = scripts.TOOLS / "check_names.py"


check_names = scripts.load(SCRIPT)

GOOD = {
    "ops/dense.cpp": 'Dense() : NamedOp("dense") {}\n',
    "layers/kinds/layer_registry.cpp": 'Entry{"Dense", make_dense},\nEntry{"ReLU", make_re_lu}\n',
    "layers/kinds/dense.cpp": 'context.emit("dense", {x, w});\n',
    "graph/core_ops.cpp": 'std::string_view name() const override { return "pack"; }\n',
    "graph/autodiff.cpp": 'sum = builder_.call("pack", name, {sum});\n',
    "backend/reference/dense.cpp": '    {"dense", make_dense, scratch},\n    {"relu", make_relu},\n'
    'mover("slice", make_slice), mover("batch_norm", make_x), mover("sgd", make_y),\n',
    "backend/cpu/dense.cpp": '#include "dense"\n// Not "dense".\n    {"dense", make_dense<T>},\n'
    'const bool relu = facts.attributes.get_string("activation", "linear") == "relu";\n',
    "exec/run.cpp": 'if (node.op->traits().pack) keep("a dense layer");\n',
    "formats/keras/keras_legacy.cpp": 'if (class_name == "Dense") config.take("input_dim");\n',
    "plan/tree/text_parse.cpp": 'if (key != "slice") fail(key);\n',
}


@pytest.fixture
def tree(tmp_path: pathlib.Path):
    """Writes a tree of these files, and returns what is found in it."""

    def findings(changes: dict[str, str]) -> list[str]:
        for place in (*check_names.VOCABULARIES, *(file for file, _ in check_names.WORDS)):
            path = tmp_path / place
            if place.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        for name, text in (GOOD | changes).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [line.removeprefix(f"{tmp_path}/") for line in check_names.check_tree(tmp_path)]

    return findings


def test_a_tree_that_asks_for_traits_has_no_findings(tree):
    assert tree({}) == []


@pytest.mark.parametrize(
    ("file", "text", "line", "what"),
    [
        ("exec/run.cpp", '\nif (node.op->name() == "pack") keep();\n', 2, '"pack" is an operator'),
        ("backend/cpu/x.cpp", 'if (op == "dense") return 1;\n', 1, '"dense" is an operator'),
        ("backend/cpu/x.cpp", 'if (op == "relu" || y)\n', 1, '"relu" is an operator'),
        ("plan/x.cpp", 'constexpr auto kRows = {"dense",\n "relu"};\n', 2, '"relu" is an operator'),
        ("backend/x.cpp", 'if (op.starts_with("den")) {}\n', 1, "name is looked at"),
        ("backend/x.cpp", 'node.op->name().ends_with("_grad")\n', 1, "name is looked at"),
        ("backend/x.cpp", 'facts.op().starts_with("den")\n', 1, "name is looked at"),
        ("plan/x.cpp", 'node.op->name() != "anything"\n', 1, "name is looked at"),
        ("formats/x.cpp", 'node.class_name == "Dense"\n', 1, '"Dense" is a layer'),
        ("planning/x.cpp", 'has("ReLU");  // "Dense"\nlayer == "ReLU"', 2, '"ReLU" is a layer'),
        ("graph/x.cpp", 'if (op == "pack") {}\n', 1, '"pack" is an operator'),
        ("plan/tree/text_parse.cpp", '"slice"; "dense"\n', 1, '"dense" is an operator'),
        ("report/x.cpp", '"slice"\n', 1, '"slice" is an operator'),
    ],
)
def test_another_place_that_knows_a_name_is_found(tree, file, text, line, what):
    found = tree({file: text})
    assert any(f.startswith(f"{file}:{line}: ") and what in f for f in found), found


def test_an_exception_that_is_gone_is_found(tree, tmp_path):
    tree({})
    (tmp_path / "api" / "layers.h").unlink()
    assert check_names.check_tree(tmp_path) == [
        "tools/check_names.py: api/layers.h is not there any more"
    ]


def test_this_tree_has_no_findings():
    result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert "0 findings" in result.stdout


def test_a_folder_that_is_not_there_is_told(tmp_path):
    result = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "nowhere"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "no such folder" in result.stderr
