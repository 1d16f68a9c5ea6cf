"""The checks of tools/gpu_check on torch: Keras's own steps on a GPU whose memory runs out.

Each is run in a process of its own that limits its part of the GPU's memory first (`memory`, MiB).
Weights are compared with those of plain gradients, few samples at a time.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from typing import Any

from gpu_common import FEW, MIB, Failed, check_trained, data, network, run_tests

# Its name and version, the device, and the bytes that it has.
LIST = (
    "import torch; there = torch.cuda.is_available(); one = there and "
    "torch.cuda.get_device_properties(0); print('torch', torch.__version__, 'gpu' if there else "
    "'cpu', one.total_memory if there else 0, one.name if there else 'a processor', sep='|')"
)


def environment(memory: int, total: int, on_cpu: bool) -> dict[str, str]:
    """Of a check's process; memory: MiB of the GPU's `total` bytes, 0: all. No size that fitted in
    an earlier run is found again."""
    found = {**os.environ, "KERAS_BACKEND": "torch", "XDG_CACHE_HOME": os.devnull}
    found["KERAS_TORCH_DEVICE"] = "cpu" if on_cpu else "cuda"
    if memory and not on_cpu:
        found["GPU_CHECK_FRACTION"] = str(memory * MIB / total)
    return found


def begin() -> None:
    """The package in Keras's place; full precision, as another order of sums is no other result."""
    import torch

    fraction = os.environ.get("GPU_CHECK_FRACTION")
    if fraction:
        torch.cuda.set_per_process_memory_fraction(float(fraction))
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    import plimsoll

    plimsoll.install(engine="keras")


def gradients(model: Any, x: Any, y: Any) -> list[Any]:
    """Of the mean squared error of the batch, few samples at a time."""
    from keras import ops

    weights = [one.value for one in model.trainable_variables]
    model.zero_grad()
    for at in range(0, len(x), FEW):
        told = model(x[at : at + FEW], training=True)
        wanted = ops.convert_to_tensor(y[at : at + FEW])
        (((told - wanted) ** 2).mean() * (FEW / len(x))).backward()
    found = [one.grad.double().cpu().numpy() for one in weights]
    model.zero_grad()
    return found


def resource_exhausted() -> None:
    """A tensor larger than any memory, for more than four samples."""
    begin()
    import keras
    import torch

    class Large(keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            if inputs.is_meta or inputs.shape[0] <= FEW:
                return inputs
            return inputs + 0 * torch.max(torch.empty(1 << 45, device=inputs.device))

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
    """The engine takes nothing over of Keras on torch, which is said."""
    begin()
    import plimsoll
    from plimsoll import asked

    x, y = data(16, 32, 32, 3)
    for name in ("auto", "native"):
        plimsoll.install(engine=name)
        asked.outcome = asked.Outcome()
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            network(32, 4).fit(x, y, verbose=0)
        if "backend tensorflow or jax, received torch" not in told.getvalue():
            raise Failed(f"engine={name}: expected a refusal, received {told.getvalue()!r}")
        if asked.outcome.taken:
            raise Failed(f"engine={name}: expected that Keras trains, received the engine")
    print("models of Keras on torch stay in Keras")


def faults() -> None:
    """The tests of failures at every phase of a step, on this GPU."""
    run_tests("torch_faults_side.py", "not address_space")


CHECKS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (resource_exhausted, convolution, engine, faults)
}
MEMORY = {"resource_exhausted": 512, "convolution": 1536, "engine": 512}  # MiB; else all there is
ON_CPU = ("resource_exhausted", "engine")  # where memory of a GPU is not what runs out
