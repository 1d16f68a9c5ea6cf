"""A Keras network written down for PyTorch's side: its calls in order as JSON, weights as NumPy."""

import json
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np

LOSSES = {
    "binary_crossentropy": "binary_crossentropy",
    "sparse_categorical_crossentropy": "sparse_categorical_crossentropy",
    "mse": "mse",
    "mean_squared_error": "mse",
}


def loss_of(model: keras.Model) -> str:
    loss = model.loss
    name = loss if isinstance(loss, str) else loss.name
    logits = not isinstance(loss, str) and loss.get_config().get("from_logits", False)
    return LOSSES[name] + ("_from_logits" if logits else "")


def calls_of(model: keras.Model, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What the graph computes, call by call; tensors are numbered as they come up."""
    graph = getattr(model, "_functional", model)
    numbers: dict[int, int] = {}

    def number(tensor: Any) -> Any:
        if isinstance(tensor, keras.KerasTensor):
            return numbers.setdefault(id(tensor), len(numbers))
        name = f"constant/{len(arrays)}"
        arrays[name] = np.asarray(tensor)
        return name

    for tensor in graph.inputs:
        number(tensor)
    calls = []
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            if node.is_input:
                continue
            layer = node.operation
            given = [*node.arguments.args]
            if len(given) == 1 and isinstance(given[0], (list, tuple)):
                given = [*given[0]]
            config = layer.get_config() if isinstance(layer, keras.Layer) else {}
            calls.append({
                "kind": type(layer).__name__, "name": layer.name,
                "inputs": [number(tensor) for tensor in given if tensor is not None],
                "causal": bool(node.arguments.kwargs.get("use_causal_mask", False)),
                "output": number(node.outputs[0]),
                "config": {k: v for k, v in config.items() if "initializer" not in k},
            })  # fmt: skip
    result = number(graph.outputs[0])
    later: set[Any] = {result}
    for call in reversed(calls):
        call["read_last"] = sorted({i for i in call["inputs"] if isinstance(i, int)} - later)
        later |= set(call["inputs"])
    return {"calls": calls, "result": result}


def write(model_file: str) -> None:
    """Beside the model: pytorch.json and pytorch.npz, unless they are newer than it."""
    place = Path(model_file).parent
    made = place / "pytorch.json"
    if made.exists() and made.stat().st_mtime > Path(model_file).stat().st_mtime:
        return
    with warnings.catch_warnings():  # of an optimizer that has not stepped yet
        warnings.simplefilter("ignore")
        model = keras.saving.load_model(model_file)
    arrays: dict[str, np.ndarray] = {}
    description = calls_of(model, arrays) | {
        "loss": loss_of(model),
        "learning_rate": float(model.optimizer.learning_rate),
        "epsilon": float(model.optimizer.epsilon),
    }
    for layer in model.layers:
        for index, weight in enumerate(layer.get_weights()):
            arrays[f"{layer.name}/{index}"] = weight
    np.savez(place / "pytorch.npz", **arrays)
    (place / "pytorch.json").write_text(json.dumps(description, default=str))
