"""`plimsoll.fit` of models of Keras on JAX (jax_fit_side.py)."""

from pathlib import Path

from on_backend import needs_jax, run_on


@needs_jax
def test_in_a_process_on_jax(package: Path) -> None:
    run_on("jax", "jax_fit_side.py", package)
