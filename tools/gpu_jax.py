"""The checks of tools/gpu_check on JAX: Keras's own steps on a GPU whose memory runs out.

Each is run in a process of its own whose GPU memory is limited before JAX is loaded (`memory`,
MiB). Weights are compared with those of plain `jax.grad`, few samples at a time.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Callable
from typing import Any

from gpu_common import FEW, MIB, Failed, check_trained, data, network, run_tests

# Its name and version, the device, and the bytes that it has; with half of them as a limit.
LIST = (
    "import jax; one = jax.devices()[0]; stats = one.memory_stats() or {}; "
    "print('JAX', jax.__version__, one.platform, 2 * stats.get('bytes_limit', 0), one.device_kind, "
    "sep='|')"
)


def environment(memory: int, total: int, on_cpu: bool) -> dict[str, str]:
    """Of a check's process; memory: MiB of the GPU's `total` bytes, 0: as JAX takes it. No size
    that fitted in an earlier run is found again."""
    found = {**os.environ, "KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3",
             "XDG_CACHE_HOME": os.devnull}  # fmt: skip
    found.pop("XLA_PYTHON_CLIENT_MEM_FRACTION", None)  # the older name, not to be set beside it
    if on_cpu:
        return found | {"JAX_PLATFORMS": "cpu"}
    if memory == 0:
        return found | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return found | {"XLA_CLIENT_MEM_FRACTION": str(memory * MIB / total)}


def begin() -> None:
    """The package in Keras's place; full precision, as another order of sums is no other result."""
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    import plimsoll

    plimsoll.install(engine="keras")


def gradients(model: Any, x: Any, y: Any) -> list[Any]:
    """Of the mean squared error of the batch, few samples at a time."""
    import jax
    import numpy as np

    fixed = [one.value for one in model.non_trainable_variables]

    @jax.jit
    def some(weights: list[Any], x: Any, y: Any) -> list[Any]:
        def loss(weights: list[Any]) -> Any:
            told, _ = model.stateless_call(weights, fixed, x, training=True)
            return ((told - y) ** 2).mean()

        found: list[Any] = jax.grad(loss)(weights)
        return found

    weights = [one.value for one in model.trainable_variables]
    sums = [np.zeros(one.shape) for one in weights]
    for at in range(0, len(x), FEW):
        for total, one in zip(sums, some(weights, x[at : at + FEW], y[at : at + FEW])):
            total += np.asarray(one, "float64") * (FEW / len(x))
    return sums


def resource_exhausted() -> None:
    """A tensor larger than any memory, for more than four samples."""
    begin()
    import jax
    import jax.numpy as jnp
    import keras

    class Large(keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            if not isinstance(inputs.shape[0], int) or inputs.shape[0] <= FEW:
                return inputs
            line = jnp.arange(1 << 19, dtype="float32") * jax.lax.stop_gradient(inputs[0, 0])
            wide = jnp.cumsum(jnp.sin(line[:, None] * line[None, :]), axis=0)
            return inputs + 0 * jnp.max(wide[::7])

    keras.utils.set_random_seed(3)
    one = keras.Sequential([keras.Input((6,)), Large(), keras.layers.Dense(1)])
    one.compile(keras.optimizers.SGD(0.1), "mse")
    x, y = data(16, 6)
    check_trained(one, x, y, gradients(one, x, y))


def convolution() -> None:
    """Activations of 4 GiB in 1.5 GiB; buffers of cuDNN among them."""
    begin()
    one, (x, y) = network(256, 64), data(64, 256, 256, 3)
    check_trained(one, x, y, gradients(one, x, y))


def engine() -> None:
    """Without a word models stay on the GPU; with engine="native" they are the processor's."""
    begin()
    import jax

    import plimsoll
    from plimsoll import asked, surroundings

    if jax.default_backend() == "cpu":
        surroundings._gpu[:] = [True]
    from plimsoll.replaced import fallback

    missing = fallback.reason_of_engine()
    x, y = data(16, 32, 32, 3)
    for name, expected in (("auto", "Keras sees a GPU"), ("native", missing)):
        plimsoll.install(engine=name)
        asked.outcome = asked.Outcome()
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            network(32, 4).fit(x, y, verbose=0)
        is_taken = name == "native" and not missing
        if (expected not in told.getvalue()) or (asked.outcome.taken > 0) != is_taken:
            raise Failed(f"engine={name}: expected {expected!r}, received {told.getvalue()!r}")
    native = "native says that the engine is not there" if missing else "native is taken over"
    print(f"auto stays on the GPU, {native}")


def faults() -> None:
    """The tests of failures at every phase of a step, on this GPU. Kernels are not searched for,
    and compiled steps are kept from one test to the next: their networks are small."""
    chosen = "leaves_nothing or (for_good and fit) or real_failure or seeds or whole_batch"
    with tempfile.TemporaryDirectory() as folder:
        run_tests("jax_guard_side.py", chosen, XLA_FLAGS="--xla_gpu_autotune_level=0",
                  JAX_COMPILATION_CACHE_DIR=folder,
                  JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")  # fmt: skip


CHECKS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (resource_exhausted, convolution, engine, faults)
}
MEMORY = {"resource_exhausted": 512, "convolution": 1536, "engine": 512}  # MiB; else all there is
ON_CPU = ("resource_exhausted", "engine")  # where memory of a GPU is not what runs out
