"""Every option of the command line is there in C++ by the same name, and the other way round."""

import re
import subprocess
from pathlib import Path

import pytest

API = Path(__file__).parents[2] / "src/plimsoll/api"

# Options of the command line that are something else than a field of the same name in C++.
SPELLED_OTHERWISE = {
    "--help": "a command line's own",
    "--json": "PlanAnswer::json, History, MetricValues: values of their own",
    "--frontier": "PlanAnswer::frontier",
    "--no-shuffle": 'shuffle = "none"',
    "--no-spill": "spill = Spill::kNever",
    "--validation-labels": "validation is a Dataset",
    "--optimizer": "Model::compile",
    "--loss": "Model::compile",
    "--metrics": "Model::compile",
    "--batch-norm": "Model::set_batch_norm",
    "--profile-output": "History::profile_json",
}
# In commands whose result is a value in C++.
OF_COMMAND = {
    ("plan", "--output"): "PlanAnswer::plan",
    ("plan", "--html"): "PlanAnswer::html",
    ("plan", "--validation"): "Model::plan takes a Dataset",
    ("plan", "--validation-split"): "PlanAnswer of a Dataset's part",
    ("plan", "--class-weights"): "weights do not change a plan's question",
    ("predict", "--output"): "Model::predict_to",
    ("fit", "--rank-timeout"): "a launcher's processes are joined by the command alone",
    ("fit", "--shard"): "a launcher's processes are joined by the command alone",
    # They join nobody: C++ and Python could ask as well, but have no runs that ranks share.
    ("plan", "--ranks"): "runs that ranks share are the command's alone",
    ("plan", "--network"): "runs that ranks share are the command's alone",
    ("plan", "--shard"): "runs that ranks share are the command's alone",
    ("evaluate", "--rank-timeout"): "a launcher's processes are joined by the command alone",
    ("predict", "--rank-timeout"): "a launcher's processes are joined by the command alone",
}
# Fields that no command line has: calls of the host's own.
OF_CPLUSPLUS = {"given", "on_notice", "on_step", "on_epoch", "on_plan", "progress", "follow_limits"}


def fields(header: str, structure: str) -> set[str]:
    """The members of a structure that is written as this house writes them."""
    text = (API / header).read_text()
    found = re.search(rf"^struct {structure} {{\n(.*?)^}};", text, re.S | re.M)
    assert found, structure
    body = re.sub(r"//[^\n]*", "", found[1])
    return set(re.findall(r"(\w+)\s*(?:\{[^{}]*\}|=[^;{}]+)?;", body))


def options_of(plimsoll: Path, command: str) -> set[str]:
    text = subprocess.run([str(plimsoll), command, "--help"], capture_output=True, text=True)
    found = set(re.findall(r"^\s+(?:-\w,)?(--[a-z-]+)", text.stdout, re.M))
    assert len(found) > 20, text.stdout
    return found


EVERYWHERE = [("dataset.h", "DataOptions"), ("options.h", "LoadOptions")]
IN_CPLUSPLUS = {
    "fit": [("options.h", "FitOptions"), *EVERYWHERE],
    "plan": [("options.h", "RunOptions"), *EVERYWHERE],
    "evaluate": [("options.h", "RunOptions"), *EVERYWHERE],
    "predict": [("options.h", "RunOptions"), *EVERYWHERE],
}


@pytest.mark.parametrize("command", IN_CPLUSPLUS)
def test_every_option_is_there_in_cplusplus(command: str, plimsoll: Path) -> None:
    known = set().union(*(fields(*where) for where in IN_CPLUSPLUS[command]))
    names = {name: name.removeprefix("--").replace("-", "_") for name in
             options_of(plimsoll, command)}  # fmt: skip
    names["--input-shape"] = "input_shapes"
    missing = {option for option, name in names.items()
               if name not in known and option not in SPELLED_OTHERWISE
               and (command, option) not in OF_COMMAND}  # fmt: skip
    assert not missing


def test_every_field_is_there_on_the_command_line(plimsoll: Path) -> None:
    spelled = {option.removeprefix("--").replace("-", "_")
               for command in IN_CPLUSPLUS for option in options_of(plimsoll, command)}  # fmt: skip
    spelled.add("input_shapes")
    for places in IN_CPLUSPLUS.values():
        for where in places:
            assert fields(*where) - spelled - OF_CPLUSPLUS == set(), where


def test_the_table_of_other_spellings_names_options_that_exist(plimsoll: Path) -> None:
    every = set().union(*(options_of(plimsoll, command) for command in IN_CPLUSPLUS))
    assert set(SPELLED_OTHERWISE) <= every
    for command, option in OF_COMMAND:
        assert option in options_of(plimsoll, command)
