"""What the checks of tools/gpu_check on JAX and on torch have in common."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
FAR = 1e-3  # of the way that the weights have gone
FEW = 4  # samples at a time of what it is compared with


class Failed(Exception):
    """What a check found."""


def check_trained(model: Any, x: Any, y: Any, gradients: list[Any]) -> None:
    """One step on a batch that does not fit, by `fit` with SGD.

    gradients: those of the mean squared error of the whole batch, at the weights as they are.
    """
    import numpy as np
    from keras import ops

    from plimsoll.guard import decide

    def weights() -> list[Any]:
        return [ops.convert_to_numpy(one).astype("float64") for one in model.trainable_variables]

    start, rate = weights(), float(model.optimizer.learning_rate)
    gone = [rate * one for one in gradients]
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        model.fit(x, y, batch_size=len(x), epochs=1, verbose=0, shuffle=False)
    rows = decide._guards[model].rows
    apart = [b - (a - c) for a, b, c in zip(start, weights(), gone)]
    far = float(np.sqrt(sum(np.sum(one**2) for one in apart) / sum(np.sum(c**2) for c in gone)))
    print(f"{rows} samples at a time of {len(x)}, {far:.1e} from the whole gradient")
    if "does not fit (" not in told.getvalue() or not 0 < rows < len(x):
        raise Failed(f"expected that memory runs out and a batch of {len(x)} is cut, received "
                     f"{rows} samples at a time: {told.getvalue()}")  # fmt: skip
    if not far <= FAR:
        raise Failed(f"weights are {far:.1e} of their way from where they should be: {FAR} is all")


def data(rows: int, *shape: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    return rng.random((rows, *shape), dtype="float32"), rng.random((rows, 1), dtype="float32")


def network(size: int, filters: int) -> Any:
    import keras

    keras.utils.set_random_seed(3)
    layers = keras.layers
    one = keras.Sequential([
        keras.Input((size, size, 3)), layers.Conv2D(filters, 3, activation="tanh"),
        layers.Conv2D(filters, 3, activation="tanh"), layers.GlobalAveragePooling2D(),
        layers.Dense(1),
    ])  # fmt: skip
    one.compile(keras.optimizers.SGD(0.1), "mse")
    return one


def run_tests(file: str, chosen: str, **environment: str) -> None:
    """Tests of failures at every phase of a step, on this GPU."""
    import plimsoll

    given = {**os.environ, "PLIMSOLL_BUILD": str(Path(plimsoll.__file__).parents[2]), **environment}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file, "-k", chosen],
        cwd=ROOT / "tests/python", capture_output=True, text=True, env=given,
    )  # fmt: skip
    print(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "nothing ran")
    if done.returncode:
        raise Failed(done.stdout[-3000:] + done.stderr[-1000:])
