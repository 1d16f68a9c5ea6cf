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
REFUSED = {
    "other_samples": ("the samples: expected the same on all ranks", "72 of checksum"),
    "other_batches": ("the samples of a batch: expected the same on all ranks", "none on rank 0"),
}


class Together:
    def __init__(self, package: Path, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}

    def run(self, ranks: int, *words: str, program: tuple[str, ...] = ()) -> list[Any]:
        """What each rank has told."""
        launcher = under_mpirun(ranks) if ranks > 1 else []
        command = [*launcher, sys.executable, *program, str(SIDE), str(self.folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600,
                              env=self.environment)  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        self.output = done.stdout
        return [json.loads((self.folder / f"{ranks}-{rank}.json").read_text())
                for rank in range(ranks)]  # fmt: skip


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


@pytest.mark.parametrize("case", REFUSED)
def test_what_differs_is_told(together: Together, case: str) -> None:
    for told in together.run(2, case):
        for text in REFUSED[case]:
            assert text in told[case]["error"]
