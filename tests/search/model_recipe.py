"""A recipe is a Keras model, its training configuration and its data as plain JSON.

    {"seed": 7, "form": "keras", "batch": 4, "samples": 9,
     "inputs":  [{"name": "x0", "shape": [5, 3], "values": "floats"}],
     "nodes":   [{"name": "n1", "layer": "Dense", "config": {"units": 2}, "in": ["x0"]}],
     "outputs": ["n1"],
     "compile": {"optimizer": {…}, "loss": [{…}], "metrics": [[…]]}}

A node may hold a model ("layer": "Functional" or "Sequential", with "model"), name the node whose
layer it calls again ("again"), hand tensors to its call by name ("call": {"mask": {"tensor":
"x1"}}), or be an operator ("layer": "Operator", with the operands in "in" and the rest in
"config"). The k-th output of node n1 is called n1:k. What a recipe builds depends on nothing
else.
"""

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import keras
import numpy as np

Recipe = dict[str, Any]

# Operators of two tensors, or of a tensor and a number.
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "matmul": lambda a, b: keras.ops.matmul(a, b),
    "maximum": lambda a, b: keras.ops.maximum(a, b),
    "minimum": lambda a, b: keras.ops.minimum(a, b),
}
# What compares gives bool, and is cast so that a layer may follow.
COMPARE = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


def as_object(value: Any) -> Any:
    """An option's value: {"layer": …} is a layer, lists and numbers are themselves."""
    if isinstance(value, dict) and "layer" in value:
        return make_layer(value, None)
    return value


def make_layer(spec: Recipe, name: str | None) -> Any:
    """The layer of a node or of a wrapper's option."""
    if "model" in spec:
        return build_model(spec["model"], name, spec["layer"] == "Sequential")
    config = {key: as_object(value) for key, value in spec.get("config", {}).items()}
    if name is not None:  # a node, which is frozen where it is called
        config["name"] = name
        config.pop("trainable", None)
    return getattr(keras.layers, spec["layer"])(**config)


def freeze(layer: Any, spec: Recipe) -> None:
    """Once the layer is built: Keras trains the parts that attention makes later."""
    for options in (spec, spec.get("config", {})):
        if "trainable" in options:
            layer.trainable = options["trainable"]


def slices_of(spec: list[Any]) -> tuple[Any, ...]:
    """The index of a GetItem: an integer, or [start, stop, step] of each axis after the batch."""
    parts = [part if isinstance(part, int) else slice(*part) for part in spec]
    return (slice(None), *parts)


def apply_operator(spec: Recipe, args: list[Any]) -> Any:
    """The value of an operator node."""
    config = dict(spec["config"])
    op = config.pop("op")
    if op in BINARY or op in COMPARE:
        number = config.get("number")
        pair = args if number is None else [args[0], number]
        if config.get("swapped"):
            pair = pair[::-1]
        if op in BINARY:
            return BINARY[op](*pair)
        return keras.ops.cast(getattr(keras.ops, op)(*pair), "float32")
    if op == "getitem":
        return args[0][slices_of(config["index"])]
    if op == "reshape":
        return keras.ops.reshape(args[0], (-1, *config["shape"]))
    if op in ("concatenate", "stack"):
        return getattr(keras.ops, op)(args, **config)
    if op.startswith("activations."):
        return getattr(keras.activations, op.removeprefix("activations."))(args[0], **config)
    return getattr(keras.ops, op)(args[0], **config)


def with_tensors(value: Any, tensors: dict[str, Any]) -> Any:
    """Arguments of a call, with the tensors that they name."""
    if isinstance(value, dict):
        return tensors[value["tensor"]]
    if isinstance(value, list):
        return [with_tensors(item, tensors) for item in value]
    return value


def call_node(node: Recipe, tensors: dict[str, Any], layers: dict[str, Any]) -> None:
    """Calls one node, and adds its outputs to `tensors` and its layer to `layers`."""
    args = [tensors[name] for name in node["in"]]
    if node["layer"] == "Operator":
        result = apply_operator(node, args)
    else:
        if "again" in node:
            layer = layers[node["again"]]
        else:
            layer = make_layer(node, node["name"])
        layers[node["name"]] = layer
        options = {k: with_tensors(v, tensors) for k, v in node.get("call", {}).items()}
        result = layer(args if len(args) > 1 else args[0], **options)
        freeze(layer, node)
    results = result if isinstance(result, (list, tuple)) else [result]
    tensors[node["name"]] = results[0]
    for index, each in enumerate(results[1:], 1):
        tensors[f"{node['name']}:{index}"] = each


def input_dtype(spec: Recipe) -> str:
    values = spec["values"]
    return {"tokens": "int32", "flags": "bool"}.get(values.split()[0], keras.config.floatx())


def make_input(spec: Recipe) -> Any:
    return keras.Input(tuple(spec["shape"]), name=spec["name"], dtype=input_dtype(spec))


def build_model(recipe: Recipe, name: str | None = None, sequential: bool = False) -> keras.Model:
    """The model of a recipe, or of a node that holds one."""
    tensors = {spec["name"]: make_input(spec) for spec in recipe["inputs"]}
    inputs = list(tensors.values())
    if sequential:
        parts = [make_layer(node, node["name"]) for node in recipe["nodes"]]
        model = keras.Sequential([inputs[0], *parts], name=name)
        for part, node in zip(parts, recipe["nodes"]):
            freeze(part, node)
        return model
    layers: dict[str, Any] = {}
    for node in recipe["nodes"]:
        call_node(node, tensors, layers)
    outputs = [tensors[output] for output in recipe["outputs"]]
    model = keras.Model(
        inputs if len(inputs) > 1 else inputs[0],
        outputs if len(outputs) > 1 else outputs[0],
        name=name,
    )
    return model


def shake(model: keras.Model, seed: int) -> None:
    """Moves every weight off what its initializer gives, statistics and scales too."""
    rng = np.random.default_rng(seed)
    values = []
    for variable in model.weights:
        value = np.array(variable)
        if value.dtype.kind == "f":
            # By the shape alone, so that another precision draws the same.
            moved = rng.normal(0, 0.3 if np.all(value == 0) else 0.1, value.shape)
            value = value + (np.abs(moved) if "variance" in variable.path else moved)
        values.append(value.astype("float32"))
    model.set_weights(values)


# Data


def inputs_of(spec: Recipe, count: int, rng: np.random.Generator) -> np.ndarray:
    """Samples of an input; "padded" ends in steps of zeros, of which some stand in between."""
    shape = (count, *spec["shape"])
    kind, *options = spec["values"].split()
    if kind == "tokens":
        values = rng.integers(0, int(options[0]), shape)
        if len(options) > 1:  # many zeros, mostly at the end
            values = np.where(places_kept(shape[:2], rng), values, 0)
        return values.astype("int32")
    if kind == "flags":
        return places_kept(shape[:2], rng)
    values = rng.normal(0, 1, shape)
    if kind == "padded":
        kept = places_kept(shape[:2], rng)
        values *= kept.reshape(kept.shape + (1,) * (len(shape) - 2))
    return values.astype("float32")


def places_kept(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Which steps of each sample count: the first ones, one at least, and a few of them not."""
    count, steps = shape
    lengths = rng.integers(1, steps + 1, count)
    kept = np.arange(steps) < lengths[:, None]
    holes = rng.random(shape) < 0.15
    holes[:, 0] = False
    return kept & ~holes


def one_hot(shape: tuple[int, ...], rng: np.random.Generator, axis: int = -1) -> np.ndarray:
    axis %= len(shape)
    drawn = rng.integers(0, shape[axis], shape[:axis] + shape[axis + 1 :])
    return np.moveaxis(np.eye(shape[axis])[drawn], -1, axis)


def targets_of(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Targets of an output of `shape` (with the batch) that suit a loss; see losses' "targets"."""
    kind, *options = kind.split()
    if kind == "classes":
        drawn = rng.integers(0, shape[-1], shape[:-1])
        if "column" in options:
            drawn = drawn[..., None]
        if "ignored" in options:
            drawn = np.where(rng.random(drawn.shape) < 0.3, int(options[-1]), drawn)
        return drawn.astype("int32")
    if kind == "one_hot":
        axis = int(options[0]) if options else -1
        values = one_hot(shape, rng, axis)
    elif kind == "flags":
        values = rng.integers(0, 2, shape)
    elif kind == "signs":
        values = rng.integers(0, 2, shape) * 2 - 1
    elif kind == "shares":
        values = np.exp(rng.normal(0, 1, shape))
        values /= values.sum(-1, keepdims=True)
    elif kind == "counts":
        values = rng.poisson(1.5, shape)
    else:
        values = rng.normal(0, 1, shape)
    return values.astype("float32")


def data_of(recipe: Recipe, model: keras.Model) -> dict[str, Any]:
    """{"x": arrays, "y": arrays, "weights": None, or an array}; lists where there are several."""
    rng = np.random.default_rng(recipe["seed"])
    count = recipe["samples"]
    x = [inputs_of(spec, count, rng) for spec in recipe["inputs"]]
    y = [
        targets_of(kind, (count, *output.shape[1:]), rng)
        for kind, output in zip(recipe["targets"], model.outputs)
    ]
    weights = None
    if recipe.get("weights") == "sample":
        weights = rng.uniform(0.2, 2, count).astype("float32")
    elif recipe.get("weights") == "step":
        weights = rng.uniform(0.2, 2, (count, *model.outputs[0].shape[1:2])).astype("float32")
    return {"x": x, "y": y, "weights": weights}
