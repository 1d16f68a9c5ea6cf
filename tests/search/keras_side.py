"""What Keras makes of a recipe: one epoch of training step by step, and an evaluation before it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import tensorflow as tf
from harness import float64_twin
from keras.src.backend.tensorflow import numpy as numpy_in_keras
from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights
from model_recipe import Recipe, build_model, data_of, shake


@dataclass
class Run:
    """Numbers of one run; a gradient is that of the first step."""

    evaluation: dict[str, float]
    losses: list[float]
    gradients: list[np.ndarray]
    weights: list[np.ndarray]
    slots: list[np.ndarray]
    epoch: dict[str, float]
    trained: list[int]  # which of the weights the gradients are of


class NotKeras(Exception):
    """Keras itself does not build, save or train this."""

    _keras_call_info_injected = True  # Keras adds no text of its own on the way


keras_add = numpy_in_keras.add
ELSEWHERE = "a bias along another axis"


def add_along_its_axis(x1: Any, x2: Any) -> Any:
    """Keras's sum, where it is the one that NumPy, JAX and Torch give.

    With TensorFlow, keras.src.backend.tensorflow.numpy.add takes whatever has one axis longer than
    1 for a bias of the last axis or else of axis 1, wherever one of those is as long. So it adds
    along another axis than it says the bias of a convolution over channels first, of attention with
    as many positions as heads of one channel, and a column to a square batch.
    """
    if not isinstance(x1, (int, float)) and not isinstance(x2, (int, float)):
        first, second = list(x1.shape), list(x2.shape)
        begin = len(first) - len(second)
        long = [axis for axis, size in enumerate(second, begin) if size is None or size > 1]
        if len(first) > 1 and len(long) == 1 and (size := second[long[0] - begin]) is not None:
            taken = [axis for axis in (len(first) - 1, 1) if first[axis] == size]
            if taken and taken[0] != long[0]:
                raise NotKeras(ELSEWHERE)
    return keras_add(x1, x2)


def per_output(entries: list[Any], recipe: Recipe, model: keras.Model) -> Any:
    """One entry for a single output, else a list or, where the recipe says so, a dictionary."""
    if len(entries) == 1:
        return entries[0]
    if recipe["compile"].get("by_name"):
        return dict(zip(model.output_names, entries))
    return entries


def load_object(kind: Any, value: Any) -> Any:
    """The loss, metric or optimizer of a serialized object; a name stays a name."""
    if not isinstance(value, dict):
        return value
    config = dict(value["config"])
    rate = config.get("learning_rate")
    if isinstance(rate, dict):
        schedule = getattr(keras.optimizers.schedules, rate["class_name"])
        config["learning_rate"] = schedule(**rate["config"])
    made = getattr(kind, value["class_name"])(**config)
    if kind is keras.optimizers:
        return made
    return made.from_config(made.get_config())  # Huber's delta, say, is in no file


def compile_model(recipe: Recipe, model: keras.Model) -> None:
    """Compiles the model as the recipe says, to run without a graph."""
    spec = recipe["compile"]
    metrics = [[load_object(keras.metrics, m) for m in each] for each in spec["metrics"]]
    weighted = spec.get("weighted_metrics")
    options: Recipe = {}
    if weighted:
        made = [[load_object(keras.metrics, m) for m in each] for each in weighted]
        options["weighted_metrics"] = per_output(made, recipe, model)
    if "loss_weights" in spec:
        weights = spec["loss_weights"]
        options["loss_weights"] = (
            weights if len(weights) == 1 else per_output(weights, recipe, model)
        )
    model.compile(
        optimizer=load_object(keras.optimizers, spec["optimizer"]),
        loss=per_output([load_object(keras.losses, x) for x in spec["loss"]], recipe, model),
        metrics=per_output(metrics, recipe, model),
        run_eagerly=True,
        **options,
    )


def new_model(recipe: Recipe, floatx: str = "float32") -> keras.Model:
    """The model with weights that are no longer as an initializer left them."""
    keras.config.set_floatx("float32")
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(recipe["seed"])
    try:
        model = build_model(recipe, "searched", recipe.get("sequential", False))
        if not recipe.get("sequential") and any(not n for n in model.output_names):
            raise NotKeras("an output without a name")
        shake(model, recipe["seed"])
        if floatx == "float64":
            keras.config.set_floatx("float64")
            twin = float64_twin(model)
            for own, other in zip(model._flatten_layers(), twin._flatten_layers()):
                other.trainable = own.trainable
            twin.set_weights([value.astype("float64") for value in model.get_weights()])
            model = twin
        compile_model(recipe, model)
    except NotKeras:
        raise
    except Exception as error:
        raise NotKeras(f"build: {error}") from error
    return model


def batches(
    recipe: Recipe, data: Recipe, floatx: str, training: bool = True
) -> list[tuple[Any, ...]]:
    """(x, y, weights) of each batch, the last one short; classes have weights in training alone."""
    weights = data["weights"]
    if training and "class_weights" in recipe:
        table = {int(key): value for key, value in recipe["class_weights"].items()}
        weights = np.array(class_weight_to_sample_weights(data["y"][0], table))

    def part(values: np.ndarray, rows: slice) -> tf.Tensor:
        values = values[rows]
        return tf.constant(values.astype(floatx) if values.dtype.kind == "f" else values)

    def parts(values: list[np.ndarray], rows: slice) -> Any:
        cut = [part(each, rows) for each in values]
        return cut if len(cut) > 1 else cut[0]

    found = []
    for begin in range(0, recipe["samples"], recipe["batch"]):
        rows = slice(begin, min(begin + recipe["batch"], recipe["samples"]))
        w = None if weights is None else part(weights, rows)
        found.append((parts(data["x"], rows), parts(data["y"], rows), w))
    return found


def numbers_of(logs: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in logs.items()}


def slots_from(recipe: Recipe) -> int:
    """Where slots begin among an optimizer's variables: a schedule keeps no learning rate there."""
    rate = recipe["compile"]["optimizer"]["config"].get("learning_rate")
    return 1 if isinstance(rate, dict) else 2


def count_batches_alike(model: keras.Model, part: Any) -> None:
    """Losses of single outputs are means of batches, as in traced steps, which know no sizes."""
    model.test_step(part)
    model.reset_metrics()
    for tracker in getattr(model._compile_loss, "metrics", []):
        own = tracker.update_state
        tracker.update_state = lambda value, sample_weight=None, own=own: own(value)


@patch.object(numpy_in_keras, "add", add_along_its_axis)
def run_model(recipe: Recipe, model: keras.Model, data: Recipe) -> Run:
    """Evaluates, then trains one epoch without shuffling."""
    floatx = keras.config.floatx()
    count_batches_alike(model, next(iter(batches(recipe, data, floatx, training=False))))
    for part in batches(recipe, data, floatx, training=False):
        model.test_step(part)
    evaluation = numbers_of(model.get_metrics_result())
    model.reset_metrics()
    gradients: list[np.ndarray] = []
    losses: list[float] = []
    apply, compute = model.optimizer.apply_gradients, model.compute_loss

    def keep_gradients(pairs: Any, **options: Any) -> Any:
        listed = list(pairs)
        if not gradients:
            for gradient, variable in listed:
                whole = np.zeros(variable.shape) if gradient is None else gradient
                gradients.append(tf.convert_to_tensor(whole).numpy())
        return apply(listed, **options)

    def keep_loss(*args: Any, **options: Any) -> Any:
        loss = compute(*args, **options)
        losses.append(float(loss))
        return loss

    model.optimizer.apply_gradients = keep_gradients
    model.compute_loss = keep_loss
    for part in batches(recipe, data, floatx):
        model.train_step(part)
    epoch = numbers_of(model.get_metrics_result())
    slots = [np.array(v) for v in model.optimizer.variables[slots_from(recipe) :]]
    if not model.trainable_variables:  # Keras does not build the optimizer
        slots = []
    return Run(evaluation, losses, gradients, model.get_weights(), slots, epoch, trained(model))


def trained(model: keras.Model) -> list[int]:
    places = {id(variable): place for place, variable in enumerate(model.weights)}
    return [places[id(variable)] for variable in model.trainable_variables]


def train_in_keras(recipe: Recipe, folder: Path) -> tuple[keras.Model, list[np.ndarray], Run]:
    """Writes model and data into `folder` and runs the recipe in float32; weights at first."""
    model = new_model(recipe)
    start = model.get_weights()
    try:
        data = data_of(recipe, model)
        model.save(folder / f"model.{recipe['form']}")
        for kind in ("x", "y"):
            for index, values in enumerate(data[kind]):
                np.save(folder / f"{kind}{index}.npy", values)
        if data["weights"] is not None:
            np.save(folder / "w.npy", data["weights"])
        run = run_model(recipe, model, data)
    except NotKeras:
        raise
    except Exception as error:
        # Keras wraps an error in words about the call of each layer.
        raise NotKeras(ELSEWHERE if ELSEWHERE in str(error) else f"run: {error}") from error
    return model, start, run


def permuted(data: Recipe, recipe: Recipe, rng: np.random.Generator) -> Recipe:
    count, batch = recipe["samples"], recipe["batch"]
    rows = [rng.permutation(np.arange(k, min(k + batch, count))) for k in range(0, count, batch)]
    order = np.concatenate(rows)
    weights = data["weights"]
    return {
        "x": [values[order] for values in data["x"]],
        "y": [values[order] for values in data["y"]],
        "weights": None if weights is None else weights[order],
    }


def loaded_run(recipe: Recipe, folder: Path) -> Run:
    """What Keras makes of the file that it wrote, which may say less than the model that it had."""
    model = keras.saving.load_model(folder / f"model.{recipe['form']}")
    compile_model(recipe, model)
    return run_model(recipe, model, data_of(recipe, model))


def run_again(recipe: Recipe, floatx: str, nudge: int | None = None) -> Run:
    """The same at another precision; or with every weight off by a rounding, and the samples of
    each batch in another order."""
    model = new_model(recipe, floatx)
    data = data_of(recipe, model)
    if nudge is not None:
        rng = np.random.default_rng(nudge)
        data = permuted(data, recipe, rng)
        model.set_weights(
            [
                (w * (1 + rng.choice([-1, 1], w.shape) * 2.0**-23)).astype(w.dtype)
                for w in model.get_weights()
            ]
        )
    try:
        return run_model(recipe, model, data)
    finally:
        keras.config.set_floatx("float32")
