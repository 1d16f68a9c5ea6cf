"""Keras's own training on JAX in parts, where memory runs out (jax_guard_side.py)."""

from pathlib import Path

import pytest
from on_backend import needs_jax, run_on

GROUPS = {
    "parts": "parts_give",
    "faults": "whole_batch or leaves_nothing or for_good or no_lack or later_update or real",
    "proofs": "not_proved or inexact or proves",
}
GROUPS["rest"] = f"not ({' or '.join(GROUPS.values())})"


@needs_jax
@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_in_a_process_on_jax(group: str, package: Path) -> None:
    run_on("jax", "jax_guard_side.py", package, "-k", GROUPS[group])
