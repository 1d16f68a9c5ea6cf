"""Answers as people read them: the words are kept in golden/answers, figures aside.

PLIMSOLL_UPDATE_GOLDEN=1 writes them anew; review the difference.
"""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from answer_cases import DATA, TRAINING, Teller, Told, cases

GOLDEN = Path(__file__).parents[1] / "golden" / "answers"
FIGURE = re.compile(r"<?\d+(?:[.,]\d+)*")
COMMAND = re.compile(r"^(\$ |[a-z ]*: | *)plimsoll [a-z]+ ")
# A line of a table has two blanks, a name, and figures a column apart.
ROW = re.compile(r"^  \S.*?  +(?:<?[\d.,]+|-)(?:  .*)?$")
# Where the machine has the word: what watch measured beside its verdict, and the guard.
OF_THE_MACHINE = ("  because", "  peak", "  printed", "  growth", "  bound by", "  time", "step ")

# Busy machines search long enough for a line that says so.
WAITING = re.compile(r"^(?:searched for|.*search|.*planning what else).*[ ,]\d+ s\n", re.M)

# What the reader is to do next, in one line.
NEXT = {
    "fits": "plimsoll fit plain.json ",
    "spill": "plimsoll fit wide.json ",
    "no_spill": "plimsoll plan wide.json .*--memory [0-9.]+MiB ",
    "not_found": "--batch 6 ",
    "impossible": "--memory [0-9.]+MiB ",
    "smaller_blocks": "plimsoll fit large.json ",
    "remedies": "--batch 2 ",
    "no_data": "--data x.npy --labels y.npy",
    "wrong_shape": r"x = keras\.ops\.image\.resize\(np\.repeat\(",
    "killed_log": "plimsoll watch -- python train.py",
    "leak": "Find what every step keeps",
    "resume": "--epochs 4 .*--resume$",
    "interrupted": "plimsoll fit .* --resume$",
}


def without_waiting(told: Told) -> str:
    return WAITING.sub("", told.output)


def normalized(told: Told) -> str:
    lines = [f"$ {shlex.join(told.words)}"]
    for line in without_waiting(told).splitlines():
        if line.startswith((*OF_THE_MACHINE, "guard: ", "note: a step took ")):
            continue
        if ROW.match(line):
            line = "  …"
        # Columns are as wide as their figures.
        line = re.sub(r"(?<=\S)   +", "   ", line)
        if not COMMAND.match(line):
            line = FIGURE.sub("#", line)
            line = re.sub(r"# min # s|# (ns|µs|ms|s)\b", "# s", line)
            line = re.sub(r"(epoch #/#  #/#  ).*", r"\1…", line)
        else:
            line = re.sub(r"--memory [\d.]+MiB", "--memory SIZE", line)
        # Rows, and epochs, of which fast machines train more before they are interrupted.
        if line not in ("  …", "epoch #/#  #/#  …") or lines[-1] != line:
            lines.append(line)
    text = "\n".join([*lines, f"[exit code {told.code}]"]) + "\n"
    return text.replace(sys.executable, "python3")


@pytest.fixture(scope="module")
def teller(plimsoll: Path, tmp_path_factory: pytest.TempPathFactory) -> Teller:
    return Teller(plimsoll, tmp_path_factory.mktemp("answers"))


@pytest.mark.parametrize("name", NEXT)
def test_an_answer(name: str, teller: Teller) -> None:
    told = cases(teller)[name]()
    lines = [line for one in told for line in one.output.splitlines()]
    assert any(re.search(NEXT[name], line) for line in lines), lines
    text = "\n".join(normalized(one) for one in told)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("PLIMSOLL_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert golden.read_text() == text


def test_every_answer_is_kept() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(NEXT)


def test_remedies_can_be_pasted(teller: Teller) -> None:
    (refused,) = teller.plan("normalized", "51MiB", "--no-spill", "--plan-time", "0.1")
    *commands, longer = re.findall(r"^ {5}(plimsoll .*)$", refused.output, re.M)
    assert len(commands) == 3
    assert longer.endswith("--plan-time 60") or " --plan-time 60 " in longer
    for command in commands:
        told = teller.tell(*shlex.split(command)[1:])
        assert told.code == 0, told.output
        assert without_waiting(told).startswith("fits: "), told.output


def test_a_remedy_needs_what_its_command_allows(teller: Teller) -> None:
    (refused,) = teller.plan("large", "25MiB", "--no-spill", "--plan-time", "0.1")
    sizes = re.findall(r" \(([\d.]+) MiB.*\n {5}plimsoll .* --memory ([\d.]+)MiB", refused.output)
    assert any("smaller blocks" in line for line in refused.output.splitlines()), refused.output
    assert len(sizes) >= 2
    for needed, allowed in sizes:
        assert float(needed) == float(allowed), refused.output


def test_what_fit_says_can_be_pasted(teller: Teller) -> None:
    words = ["fit", "plain.json", "--data=x.npy", "--labels", "y.npy", "--epochs", "1",
             "--optimizer", "adam", "--loss", "sparse_categorical_crossentropy",
             "--no-shuffle", "--memory=10MiB", "--output", "it's trained.keras"]  # fmt: skip
    told = teller.tell(*words)
    assert told.code == 3
    assert without_waiting(told).startswith("plimsoll: does not fit: needs ")
    (remedy,) = re.findall(r"^ {5}(plimsoll .*)$", told.output, re.M)
    larger = shlex.split(remedy)[1:]
    at = larger.index("--memory")
    assert larger[:at] + larger[at + 2 :] == [w for w in words if w != "--memory=10MiB"]
    assert teller.tell(*larger).code == 0
    (plan,) = re.findall(r"^what else would do: (plimsoll .*)$", told.output, re.M)
    assert "--output" not in plan, "what is a model for one is a plan for the other"
    planned = teller.tell(*shlex.split(plan)[1:], "--json")
    assert json.loads(planned.output)["answer"] == "impossible"


def test_plan_refuses_the_shapes_that_fit_refuses(teller: Teller) -> None:
    x = np.load(teller.folder / "x.npy")
    np.save(teller.folder / "first.npy", np.moveaxis(x, -1, 1))
    np.save(teller.folder / "two.npy", np.zeros((600, 2), "int64"))
    for data, labels in (("first", "y"), ("gray", "y"), ("x", "two")):
        words = ["plain.json", *TRAINING, "--data", f"{data}.npy", "--labels", f"{labels}.npy"]
        planned, fitted = teller.tell("plan", *words), teller.tell("fit", *words)
        assert planned.code == fitted.code == 5, planned.output
        assert planned.output == fitted.output
    words[words.index("x.npy")] = "first.npy"
    words[words.index("two.npy")] = "y.npy"
    refused = teller.tell("evaluate", *(word for word in words if word not in TRAINING[:2]))
    assert refused.output.endswith("the model's inputs: plimsoll show plain.json\n")
    (change,) = re.findall(r"^  x = (.*)$", refused.output, re.M)
    changed = eval(change, {"np": np, "x": np.load(teller.folder / "first.npy")})
    assert np.array_equal(changed, x)


def test_a_run_that_ended_early_goes_on_by_the_command_that_is_told(teller: Teller) -> None:
    fit = ["fit", "plain.json", *DATA, *TRAINING, "--epochs", "3", "--checkpoint", "early"]
    assert teller.tell(*fit, "--early-stopping", "patience=1,min_delta=100").code == 0
    stopped = teller.tell(*fit, "--early-stopping", "patience=1,min_delta=100", "--resume")
    exists = teller.tell(*fit, "--early-stopping", "patience=1,min_delta=100")
    assert exists.code == 2
    (told,) = re.findall(r"^  (plimsoll fit .*)$", exists.output, re.M)
    for output in (stopped.output, exists.output):
        assert "epoch 2 of 3 is done (step 38), where early stopping ended it" in output
        assert f"\n  {told}\n" in output
    went_on = teller.tell(*shlex.split(told)[1:])
    assert went_on.code == 0 and "epoch 3/3" in went_on.output, went_on.output


def test_the_first_line_and_the_exact_bytes_agree(teller: Teller) -> None:
    (told,) = teller.plan("plain", "64MiB")
    (exact,) = teller.plan("plain", "64MiB", "--json")
    summary = json.loads(exact.output)
    peak = summary["predicted_process_bytes"] / 2**20
    assert without_waiting(told).startswith(
        f"fits: {peak:.1f} of 64.0 MiB ({64 - peak:.1f} MiB to spare)\n"
    )


def test_an_option_that_is_given_twice_is_told(teller: Teller) -> None:
    told = teller.tell("plan", "plain.json", "--batch", "64", "--batch=32")
    assert told.code == 2
    twice = "--batch: expected once, received 2 times, 64 first and 32 last. Leave one."
    assert twice in told.output


def test_an_option_that_is_wrong_is_told_with_what_it_takes(teller: Teller) -> None:
    for word in ("abc", "0"):
        told = teller.tell("plan", "plain.json", "--batch", word)
        assert told.code == 2
        assert "--batch: expected samples per step, a number from 1 to " in told.output
        assert f"received {word}." in told.output
    told = teller.tell()
    assert told.code == 2
    assert "expected a command, received none: plan, fit, " in told.output
    told = teller.tell("plan")
    assert "plimsoll plan model.keras\n" in told.output


@pytest.mark.parametrize(
    "command",
    [
        "",
        "plan",
        "fit",
        "evaluate",
        "predict",
        "show",
        "convert",
        "check",
        "bench",
        "watch",
        "explain",
    ],
)
def test_help_fits_on_a_terminal(teller: Teller, command: str) -> None:
    told = teller.tell(*command.split(), "--help")
    assert told.code == 0
    assert max(len(line) for line in told.output.splitlines()) <= 80, told.output
