"""Live models trained by `mpirun -n R python …`: the bits and the History of one process, on all
ranks (ranks_side.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ranks_job import skip_without_ranks, under_mpirun

SIDE = Path(__file__).with_name("ranks_side.py")
ALIKE = ["arrays", "rules", "meddling", "stops", "weighted", "batches"]
OF_BATCHES = ["shuffled_steps", "before_the_first", "probed", "probed_within"]
REFUSED = {
    "other_samples": ("the samples: expected the same on all ranks", "72 of checksum"),
    "other_batches": ("the samples of a batch: expected the same on all ranks", "none on rank 0"),
    "other_epochs": ("epochs of fit: expected the same on all ranks", "2 on rank 0", "3 on rank 1"),
    "other_kind": ("x of fit: expected the same", "arrays on rank 0", "batches on rank 1"),
    "other_metrics": ("metrics of fit: expected the same", "sparse_categorical_crossentropy"),
    "one_refuses": ("Refused: ", "Own is the program's own", "received a refusal by rank 1"),
    "one_has_other_data": ("as many samples in each array", "received a refusal by rank 1"),
    "one_lane": ("a number that 2 ranks divide, received 1. Name a multiple of it with lanes=.",),
}


class Together:
    def __init__(self, package: Path, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}

    def run(
        self, ranks: int, *words: str, program: tuple[str, ...] = (), told_by: int | None = None
    ) -> list[Any]:
        """What each rank has told; `told_by`: so many alone, in a run that may fail."""
        launcher = under_mpirun(ranks) if ranks > 1 else []
        command = [*launcher, sys.executable, *program, str(SIDE), str(self.folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600,
                              env=self.environment)  # fmt: skip
        assert done.returncode == 0 or told_by is not None, done.stderr[-3000:]
        self.output, self.errors = done.stdout, done.stderr
        return [json.loads((self.folder / f"{ranks}-{rank}.json").read_text())
                for rank in range(told_by or ranks)]  # fmt: skip


@pytest.fixture
def together(package: Path, plimsoll_program: Path, tmp_path: Path) -> Together:
    skip_without_ranks(plimsoll_program)
    return Together(package, tmp_path)


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_all_ranks_have_what_one_process_has(together: Together, ranks: int) -> None:
    (alone,) = together.run(1, *ALIKE)
    shared = together.run(ranks, *ALIKE)
    for name in ALIKE:
        assert "error" not in alone[name], alone[name]
        for rank in range(ranks):
            assert shared[rank][name] == alone[name], (name, rank)
    assert together.output.count("Epoch 3/3") == 1  # the first rank's progress alone
    assert len(alone["stops"]["epoch"]) == 1
    assert alone["rules"]["history"]["learning_rate"][0] > alone["rules"]["history"][
        "learning_rate"][-1]  # fmt: skip


def test_a_program_that_runs_unchanged(together: Together) -> None:
    program = ("-m", "plimsoll", "--lanes", "2", "--threads", "1", "--parts", "2", "--strict")
    (alone,) = together.run(1, "taken_over", program=program)
    shared = together.run(2, "taken_over", program=program)
    assert "error" not in alone["taken_over"], alone
    assert shared[0] == shared[1] == alone


@pytest.fixture(scope="module")
def refusals(
    package: Path, plimsoll_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Any]:
    skip_without_ranks(plimsoll_program)
    return Together(package, tmp_path_factory.mktemp("refusals")).run(2, *REFUSED)


@pytest.mark.parametrize("case", REFUSED)
def test_what_differs_is_told(refusals: list[Any], case: str) -> None:
    for told in refusals:
        for text in REFUSED[case]:
            assert text in told[case]["error"]


def test_hooks_for_batches_and_orders_of_batches(together: Together) -> None:
    (alone,) = together.run(1, *OF_BATCHES)
    shared = together.run(2, *OF_BATCHES)
    for name in OF_BATCHES:
        assert "error" not in alone[name], alone[name]
        assert shared[0][name] == shared[1][name] == alone[name], name


def test_logs_that_are_no_numbers(together: Together) -> None:
    first, second = (told["odd_logs"] for told in together.run(2, "odd_logs"))
    assert "error" not in first, first
    assert first["digest"] == second["digest"]
    assert first["history"]["complex"] == "(1+2j)"
    assert second["history"] == {
        **{name: first["history"][name] for name in ("loss", "accuracy")},
        "complex": "'(1+2j)'", "bytes": repr(repr(b"ab")), "keys": "{'3': 1, '(1, 2)': 2}",
        "endless": "[1, '[1, [...]]']", "number": "0.5", "flag": "True",
        "spectrum": repr("[0.+0.j 0.+0.j]"), "array": "[0, 1]",
    }  # fmt: skip


@pytest.mark.parametrize("case", ["one_in_keras", "all_in_keras"])
def test_what_one_rank_refuses_each_trains_by_itself(together: Together, case: str) -> None:
    program = ("-m", "plimsoll", "--threads", "1")
    for told in together.run(2, case, program=program):
        assert "error" not in told[case], told
    lines = [line for line in together.errors.splitlines() if "runs in Keras" in line]
    assert len(lines) == 2, together.errors
    for line in lines:
        assert "Own is the program's own" in line
        assert line.endswith("The ranks do not train together: each trains by itself.")


def test_a_rank_that_does_not_come(together: Together) -> None:
    (told,) = together.run(2, "late", told_by=1)
    assert told["late"]["error"].endswith(
        "rank 1 has not answered for 2 seconds. What takes a rank longer than that "
        "belongs before or after fit."
    )
