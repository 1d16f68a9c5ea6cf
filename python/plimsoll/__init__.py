"""Keras models trained inside a memory limit.

    history = plimsoll.fit(model, x, y, batch_size=128, epochs=3, memory="2GiB")

The model is an ordinary compiled Keras model; after the call it holds the trained weights and the
optimizer's state. `memory` bounds the whole process. Where the limit cannot be met,
`ResourceExhausted` (a MemoryError) says why and what would do, before anything has changed.
Results do not depend on the limit.

Whole programs run unchanged: `python -m plimsoll --memory 2GiB train.py`, or `plimsoll.install()`.
The engine and NumPy are loaded when a call needs them.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from plimsoll.answers import PlanAnswer
    from plimsoll.calls import (
        evaluate,
        fit,
        plan,
        predict,
        predict_on_batch,
        test_on_batch,
        train_on_batch,
    )
    from plimsoll.errors import Refused, ResourceExhausted
    from plimsoll.explained import Explanation, Remedy, explain
    from plimsoll.model.live import release
    from plimsoll.model.shared import rank
    from plimsoll.peak import Peak, predict_peak
    from plimsoll.programs.finder import install
    from plimsoll.training.trainer import Trainer
    from plimsoll.watching.watched import Watch, watch

__all__ = [
    "Explanation", "Peak", "PlanAnswer", "Refused", "Remedy", "ResourceExhausted", "Trainer",
    "Watch", "evaluate", "explain", "fit", "install", "plan", "predict", "predict_on_batch",
    "predict_peak", "rank", "release", "test_on_batch", "train_on_batch", "watch",
]  # fmt: skip

_HOMES = {
    "Explanation": "explained", "Peak": "peak", "PlanAnswer": "answers", "Refused": "errors",
    "Remedy": "explained", "ResourceExhausted": "errors", "Trainer": "training.trainer",
    "Watch": "watching.watched", "explain": "explained", "install": "programs.finder",
    "predict_peak": "peak", "rank": "model.shared", "release": "model.live",
    "watch": "watching.watched",
    "__version__": "_core",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name, "calls" if name in __all__ else None)
    if home is None:
        if name.startswith("__"):
            raise AttributeError(f"module 'plimsoll' has no attribute {name!r}")
        try:
            return importlib.import_module(f"plimsoll.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"plimsoll.{name}":
                raise
            raise AttributeError(f"module 'plimsoll' has no attribute {name!r}") from None
    value = globals()[name] = getattr(importlib.import_module(f"plimsoll.{home}"), name)
    return value


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext plimsoll`: the magics `%%plimsoll` and `%plimsoll_last`."""
    importlib.import_module("plimsoll.watching.notebook").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    importlib.import_module("plimsoll.watching.notebook").unload(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
