"""Keras's own training on torch in parts, where memory runs out (torch_guard_side.py,
torch_faults_side.py)."""

from pathlib import Path

import pytest
from on_backend import needs_torch, run_on

GROUPS = {
    "parts": ("torch_guard_side.py", "parts_give"),
    "proofs": ("torch_guard_side.py", "not_proved or inexact or proves"),
    "rest": ("torch_guard_side.py", "not (parts_give or not_proved or inexact or proves)"),
    "faults": ("torch_faults_side.py", "leaves_nothing"),
    "failures": ("torch_faults_side.py", "not leaves_nothing"),
}


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_in_a_process_on_torch(group: str, package: Path) -> None:
    file, chosen = GROUPS[group]
    run_on("torch", file, package, "-k", chosen)
