"""Which Keras the package works with, and what differs among its versions.

Keras is the program's own: this module looks at the one that is there, and refuses by name what the
package does not know.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from plimsoll.errors import Refused

OLDEST = "3.0.5"
_LOSS_OF_EACH_OUTPUT = (3, 5)  # from here on logs have it
_BACKENDS = ("tensorflow", "jax")


def number(version: str) -> tuple[int, ...]:
    """What a version counts up: "3.12.0rc1" is (3, 12, 0)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def keras_module() -> Any:
    """The program's Keras. Raises Refused where it is another one than the package knows."""
    try:
        import keras
    except ModuleNotFoundError as error:
        if error.name != "keras":
            raise
        raise Refused(f"keras: needs Keras {OLDEST} or later, found none.") from None
    _check(getattr(keras, "__version__", ""))
    return keras


@functools.cache
def _check(version: str) -> None:
    if number(version) < number(OLDEST):
        raise Refused(
            f"keras: needs Keras {OLDEST} or later, found {version or 'one without a version'}. "
            f'Install one: pip install "keras>={OLDEST}".'
        )


def _number(value: Any) -> Any:
    """As Keras's logs have it: an array of one number is a float where its NumPy makes it one."""
    if isinstance(value, float):
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def reported(logs: dict[str, float], outputs: list[str]) -> dict[str, float]:
    """What of the engine's logs the program's Keras reports too."""
    logs = {name: _number(value) for name, value in logs.items()}
    if len(outputs) == 1 or number(keras_module().__version__) >= _LOSS_OF_EACH_OUTPUT:
        return logs
    unknown = {f"{output}_loss" for output in outputs}
    return {name: value for name, value in logs.items() if name.removeprefix("val_") not in unknown}


def packed(structure: Any, values: list[Any]) -> Any:
    """Values in a nested structure, as Keras packs them."""
    own = getattr(keras_module(), "tree", None)
    if own is not None:
        return own.pack_sequence_as(structure, values)
    import tree  # dm-tree, on which Keras 3.0 stands

    return tree.unflatten_as(structure, values)


def why_not_backend(backend: str) -> str:
    """Why nothing of Keras on a backend is the engine's; empty: it may be."""
    if backend in _BACKENDS:
        return ""
    return (f"expected Keras with the backend {' or '.join(_BACKENDS)}, received {backend}. "
            "Set KERAS_BACKEND before keras is imported.")  # fmt: skip


def check_backend(model: Any, optimizer: Any) -> None:
    """Raises Refused where Keras trains on another backend than those whose results the engine has.

    With TensorFlow an embedding's gradient is a list of rows, each squared by itself where an
    optimizer squares gradients; elsewhere rows are summed first. The engine does the former.
    """
    backend = keras_module().backend.backend()
    why = why_not_backend(backend)
    if why:
        raise Refused(f"{model.name}: {why}")
    if backend == "tensorflow" or optimizer is None:
        return
    named = optimizer if isinstance(optimizer, str) else type(optimizer).__name__
    if named.lower() == "schedulefreeadamw":
        raise Refused(
            f"{model.name}: expected another optimizer than {named} with the backend {backend}, "
            "where Keras averages weights otherwise than with tensorflow. Set "
            "KERAS_BACKEND=tensorflow."
        )
    for layer in model._flatten_layers(include_self=False, recursive=True):
        if type(layer).__name__ == "Embedding" and layer.trainable and named.lower() != "sgd":
            raise Refused(
                f"layer {layer.name}: expected an Embedding that is trained by SGD, received "
                f"{named}: with the backend {backend} Keras squares an embedding's gradients "
                "otherwise than with tensorflow. Set KERAS_BACKEND=tensorflow, or freeze the layer."
            )


def check_optimizer(model: Any, optimizer: Any) -> None:
    """Raises Refused where an optimizer does what its description does not say."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    decays = getattr(optimizer, "weight_decay", None) is not None
    if decays and hasattr(optimizer, "_use_weight_decay"):
        for variable in model.trainable_variables:
            if not optimizer._use_weight_decay(variable):
                raise Refused(
                    f"{variable.path}: expected the same weight_decay for all that is trained, "
                    f"received {optimizer.name} with exclude_from_weight_decay of it."
                )
    if type(optimizer).__name__ == "ScheduleFreeAdamW" and not optimizer.built:
        raise Refused(
            f"{model.name}: expected {optimizer.name} with averages that begin at the weights, "
            "received one that is not built: Keras's fit begins them at 0 and so forgets the "
            "weights. Call optimizer.build(model.trainable_variables) after compile."
        )


def check_model(model: Any) -> None:
    """Raises Refused where it is no model of the Keras that the package works with."""
    cls = type(model)
    if not isinstance(model, keras_module().Model):
        legacy = " Models of tf_keras are of Keras 2." if cls.__module__[:8] == "tf_keras" else ""
        raise Refused(
            f"model: expected a model of Keras {OLDEST} or later, received "
            f"{cls.__module__}.{cls.__qualname__}.{legacy}"
        )
