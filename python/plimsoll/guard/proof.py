"""What of a model's training may be cut into parts: its loss has to be a mean or sum over samples.

Three things count as proof that a loss gives each sample a value of its own, which Keras's own code
then reduces: a function of Keras's from the list here; the graph of a function of the program's
(graph.py); nothing else. For the layers between there is no proof but evidence: samples are
changed one at a time, and the predictions of all others have to stay (`coupled`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from plimsoll.fingerprints import fingerprint
from plimsoll.guard import graph as guard_graph

# Each of them gives a sample, or a place of a sample, a value that depends on nothing else. Not
# here: hinge and squared_hinge, which ask whether all labels of a batch are 0 or 1; dice, tversky
# and circle, which add up over the batch; ctc.
_OF_SAMPLES = frozenset(
    "mean_squared_error mean_absolute_error mean_absolute_percentage_error "
    "mean_squared_logarithmic_error cosine_similarity huber log_cosh categorical_hinge "
    "kl_divergence poisson categorical_crossentropy categorical_focal_crossentropy "
    "sparse_categorical_crossentropy binary_crossentropy binary_focal_crossentropy "
    "categorical_generalized_cross_entropy".split()
)
_OF_CLASSES = frozenset(("sparse_categorical_crossentropy",))
_MIXING = frozenset(("MixUp", "CutMix"))
_SUMS = frozenset(("L1", "L2", "L1L2"))
_REDUCED = frozenset(("sum", "sum_over_batch_size", "mean", "mean_with_sample_weight"))
# Metrics whose state is a sum over samples: what parts add is what the whole batch would.
_ADDED = frozenset(
    "Accuracy BinaryAccuracy CategoricalAccuracy SparseCategoricalAccuracy TopKCategoricalAccuracy "
    "SparseTopKCategoricalAccuracy MeanSquaredError MeanAbsoluteError RootMeanSquaredError "
    "BinaryCrossentropy CategoricalCrossentropy SparseCategoricalCrossentropy AUC Precision Recall "
    "TruePositives TrueNegatives FalsePositives FalseNegatives".split()
)

# What of Keras is done here in its place, as its code is known (fingerprints.py).
_KNOWN: dict[str, frozenset[str]] = {
    "Loss.__call__": frozenset(("32fc4f30687e",)),
    "reduce_weighted_values": frozenset(("ea805224879a",)),
    "reduce_values": frozenset(("3b0c738d6c9f",)),
    "apply_mask": frozenset(("98f37d9ed010",)),
    "CompileLoss.call": frozenset(("054ba0c69a68",)),
    "TensorFlowTrainer.train_step": frozenset(("813886f3900a",)),
    "TensorFlowTrainer.test_step": frozenset(("2d4165a5a434",)),
    "JAXTrainer.train_step": frozenset(("adc761ceb4f4",)),
    "JAXTrainer.compute_loss_and_updates": frozenset(("da45f10f24d9",)),
    "JAXTrainer._update_metrics_variables": frozenset(("b937bdbbeca4",)),
    "TorchTrainer.train_step": frozenset(("ea0cc711f6cb",)),
    "TorchTrainer.make_train_function": frozenset(("6b4d40ca76a2",)),
    "Layer.stateless_call": frozenset(("45d600979bf0",)),
    "Trainer.stateless_compute_loss": frozenset(("82e4afcc3854",)),
    "BaseOptimizer.stateless_apply": frozenset(("b50aac0ce6c5",)),
    "Trainer.compute_loss": frozenset(("4790cee86b4f",)),
    "Layer.__call__": frozenset(("eb1b6d55cb9c",)),
    "Trainer.compute_metrics": frozenset(("f81951b1dd49",)),
}


def _backend() -> str:
    """What Keras computes with."""
    import keras

    return str(keras.backend.backend())


_STEP_OF_JAX = ("train_step", "compute_loss_and_updates", "_update_metrics_variables")
_STEP = {  # by backend: methods of a model that are its step
    "tensorflow": ("train_step", "make_train_function", "_compute_loss", "_make_function"),
    "jax": ("train_step", "make_train_function", "_compute_loss", "_make_function", *_STEP_OF_JAX,
            "stateless_call", "stateless_compute_loss"),
    "torch": ("train_step", "make_train_function", "_compute_loss"),
}  # fmt: skip


def rank_of(tensor: Any) -> int | None:
    """Axes of a tensor, where they are known."""
    shape = tensor.shape
    rank: int | None = shape.rank if hasattr(shape, "rank") else len(shape)
    return rank


def _known_functions() -> dict[str, Any]:
    from keras.src.layers.layer import Layer
    from keras.src.losses import loss
    from keras.src.trainers.compile_utils import CompileLoss
    from keras.src.trainers.trainer import Trainer

    return {
        "Loss.__call__": loss.Loss.__call__, "apply_mask": loss.apply_mask,
        "reduce_weighted_values": loss.reduce_weighted_values,
        "reduce_values": loss.reduce_values, "CompileLoss.call": CompileLoss.call,
        "Trainer.compute_loss": Trainer.compute_loss,
        "Trainer.compute_metrics": Trainer.compute_metrics,
        "Layer.__call__": inspect.unwrap(Layer.__call__),
        **_FUNCTIONS[_backend()](),
    }  # fmt: skip


def _functions_of_tensorflow() -> dict[str, Any]:
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    return {"TensorFlowTrainer.train_step": TensorFlowTrainer.train_step}


def _functions_of_jax() -> dict[str, Any]:
    from keras.src.backend.jax.trainer import JAXTrainer
    from keras.src.layers.layer import Layer
    from keras.src.optimizers.base_optimizer import BaseOptimizer
    from keras.src.trainers.trainer import Trainer

    found = {f"JAXTrainer.{name}": getattr(JAXTrainer, name) for name in _STEP_OF_JAX}
    found["Layer.stateless_call"] = inspect.unwrap(Layer.stateless_call)
    found["Trainer.stateless_compute_loss"] = Trainer.stateless_compute_loss
    found["BaseOptimizer.stateless_apply"] = BaseOptimizer.stateless_apply
    return found


def _functions_of_torch() -> dict[str, Any]:
    from keras.src.backend.torch.trainer import TorchTrainer

    return {f"TorchTrainer.{name}": getattr(TorchTrainer, name)
            for name in ("train_step", "make_train_function")}  # fmt: skip


_FUNCTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "tensorflow": _functions_of_tensorflow, "jax": _functions_of_jax, "torch": _functions_of_torch,
}  # fmt: skip


@functools.cache
def unknown_keras() -> str:
    """The first of Keras's functions that is another one than is known; empty: all are known."""
    try:
        found = _known_functions()
    except (ImportError, AttributeError) as error:
        return f"this version of Keras is built otherwise ({error})"
    for name, function in found.items():
        code = getattr(function, "__code__", None)
        if code is None or fingerprint(code) not in _KNOWN[name]:
            return f"Keras's {name} is not one that this version of Plimsoll knows"
    return ""


def _is_own(model: Any, name: str) -> bool:
    """Whether a method is the program's, of a class or of the object."""
    if name in vars(model):
        return True
    for cls in type(model).__mro__:
        if name in vars(cls):
            return not cls.__module__.startswith("keras.src.")
    return True


def makes_test_function(model: Any) -> bool:
    """Whether the function that tests batches is made by the program."""
    return _is_own(model, "make_test_function")


def tests_as_keras(model: Any) -> bool:
    """Whether TensorFlow tests a batch by Keras's code, as it is known: loss weighed by samples."""
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    code = fingerprint(TensorFlowTrainer.test_step.__code__)
    return code in _KNOWN["TensorFlowTrainer.test_step"] and not _is_own(model, "test_step")


def layers_of(model: Any) -> list[Any]:
    found: list[Any] = list(model._flatten_layers())
    return found


def is_keras_own(thing: Any) -> bool:
    return type(thing).__module__.startswith("keras.src.")


def _why_spread(model: Any) -> str:
    """Where TensorFlow trains it at several places at once."""
    if model.distribute_strategy.num_replicas_in_sync > 1:
        return "it is trained by several replicas at once"
    return ""


def _why_spread_elsewhere() -> str:
    """Where what holds the weights is more than arrays of one device."""
    import keras
    from keras.src.backend.config import is_nnx_enabled

    if keras.distribution.distribution() is not None:
        return "its arrays are spread over devices (keras.distribution)"
    if is_nnx_enabled():
        return "its variables are those of Flax (KERAS_NNX_ENABLED)"
    return ""


def why_never(model: Any) -> str:
    """What no option changes: the step is not Keras's own, or cannot be done in two halves."""
    backend = _backend()
    for name in _STEP[backend]:
        if _is_own(model, name):
            return f"it has a {name} of its own"
    unknown = unknown_keras()
    if unknown:
        return unknown
    spread = _why_spread(model) if backend == "tensorflow" else _why_spread_elsewhere()
    if spread:
        return spread
    if model.optimizer is None:
        return "it has no optimizer"
    for layer in layers_of(model):
        if getattr(layer, "stateful", False):
            return f"layer {layer.name} keeps a state for each place in a batch (stateful=True)"
    return ""


def why_not_model(model: Any) -> str:
    """What is not proved of the model beside its losses."""
    for variable in model.trainable_variables:
        if getattr(variable, "overwrite_with_gradient", False):
            return f"{variable.path} is overwritten with its gradient"
    if _is_own(model, "compute_loss"):
        return "it has a compute_loss of its own"
    if getattr(model, "_losses_override", None):
        return "its additional losses are set from outside"
    if model._compile_loss is None:
        return "it is compiled without a loss"
    for layer in layers_of(model):
        if type(layer).__name__ in _MIXING and is_keras_own(layer):
            return f"layer {layer.name} ({type(layer).__name__}) mixes samples"
    return ""


def adds_a_mean(layer: Any) -> bool:
    """Whether what a layer adds to the loss is a mean over samples: Keras divides its regularizers
    of activities by the size of the batch, and L1 and L2 are sums."""
    regularizer = getattr(layer, "activity_regularizer", None)
    return bool(
        is_keras_own(layer)
        and regularizer is not None
        and is_keras_own(regularizer)
        and type(regularizer).__name__ in _SUMS
    )


def are_added(model: Any, y_pred: list[Any]) -> bool:
    """Whether metrics may be told of a batch in parts."""
    if _is_own(model, "compute_metrics") or _is_own(model, "get_metrics_result"):
        return False
    if any((rank_of(tensor) or 0) < 2 for tensor in y_pred):
        return False
    compiled = model._compile_metrics
    if compiled is None:
        return True
    if not compiled.built:
        return False
    return all(is_keras_own(one) and type(one).__name__ in _ADDED or _wraps_added(one)
               for one in compiled.metrics)  # fmt: skip


def _wraps_added(metric: Any) -> bool:
    function = getattr(metric, "_fn", None)
    return bool(
        type(metric).__name__ == "MeanMetricWrapper"
        and is_keras_own(metric)
        and _name_in_keras(function) in _OF_SAMPLES
    )


def _name_in_keras(function: Any) -> str:
    """The name of one of Keras's functions of losses; empty: it is another."""
    own = getattr(function, "__module__", "") == "keras.src.losses.losses"
    return str(function.__name__) if own else ""


def is_called_by_keras(loss: Any) -> bool:
    """Whether Keras's own code takes the mean."""
    from keras.src.losses.loss import Loss

    return isinstance(loss, Loss) and bool(type(loss).__call__ is Loss.__call__)


def _ranks_agree(y_true: Any, y_pred: Any, of_classes: bool) -> bool:
    """Whether nothing is spread over the axis of samples."""
    true, pred = rank_of(y_true), rank_of(y_pred)
    if true is None or pred is None or true < 1 or pred < 2:
        return False
    if of_classes:
        return pred - true in (0, 1)
    larger = y_pred if pred > true else y_true
    return bool(true == pred or (abs(true - pred) == 1 and larger.shape[-1] == 1))


def _axis_is_first(loss: Any) -> bool:
    axis = (getattr(loss, "_fn_kwargs", None) or {}).get("axis", -1)
    return not isinstance(axis, int) or axis == 0


def why_not_loss(loss: Any, y_true: Any, y_pred: Any, sample_weight: Any) -> str:
    """Why it is not proved that a loss is a mean, or a sum, over samples; empty: it is."""
    from keras.src.losses.losses import LossFunctionWrapper

    name = getattr(loss, "name", type(loss).__name__)
    if not is_called_by_keras(loss):
        return f"loss {name} is reduced by code of its own"
    if loss.reduction not in _REDUCED:
        return f"loss {name} has the reduction {loss.reduction}"
    if any(not hasattr(one, "shape") for one in (y_true, y_pred)):
        return f"loss {name} is one of several outputs at once"
    if sample_weight is not None and rank_of(sample_weight) is None:
        return f"sample weights of loss {name} have no known rank"
    wraps = type(loss).call is LossFunctionWrapper.call
    function = _name_in_keras(getattr(loss, "fn", None)) if wraps else ""
    if function:
        if function not in _OF_SAMPLES:
            return f"loss {name} compares samples of a batch with each other"
        if _axis_is_first(loss):
            return f"loss {name} has an axis of its own"
        if not _ranks_agree(y_true, y_pred, function in _OF_CLASSES):
            shapes = tuple(y_true.shape), tuple(y_pred.shape)
            return f"loss {name} is given labels {shapes[0]} for predictions {shapes[1]}"
        return ""
    return _why_not_graph(loss, name, y_true, y_pred)


def _why_not_graph(loss: Any, name: str, y_true: Any, y_pred: Any) -> str:
    """Why a loss that is a function of the program's is no mean; empty: it is one."""
    look = _LOOKS[_backend()]
    try:
        why = look(loss, y_true, y_pred)
    except Exception as error:
        return f"loss {name} cannot be looked at ({type(error).__name__})"
    return f"loss {name} is not proved to be a mean over samples: {why}" if why else ""


def _why_not_tensorflow_graph(loss: Any, y_true: Any, y_pred: Any) -> str:
    import tensorflow as tf

    specs = [tf.TensorSpec([None, *one.shape[1:]] if one.shape.rank else one.shape, loss.dtype)
             for one in (y_true, y_pred)]  # fmt: skip
    function = tf.function(loss.call, autograph=False)
    return guard_graph.why_not(function.get_concrete_function(*specs))


def _why_not_jaxpr(loss: Any, y_true: Any, y_pred: Any) -> str:
    from plimsoll.guard import jax_graph

    return jax_graph.why_not(loss.call, [tuple(one.shape) for one in (y_true, y_pred)], loss.dtype)


def _why_not_torch_graph(loss: Any, y_true: Any, y_pred: Any) -> str:
    from plimsoll.guard import torch_graph

    return torch_graph.why_not(loss.call, [tuple(one.shape) for one in (y_true, y_pred)],
                               loss.dtype)  # fmt: skip


_LOOKS: dict[str, Callable[[Any, Any, Any], str]] = {
    "tensorflow": _why_not_tensorflow_graph, "jax": _why_not_jaxpr, "torch": _why_not_torch_graph,
}  # fmt: skip


def coupled(forward: Callable[[list[Any]], Any], tensors: list[Any], draws: bool) -> str:
    """Evidence: samples whose predictions change with those of others; empty: none were found.

    forward: the predictions for tensors of a batch, always from the same state. tensors: a few
    samples. draws: whether layers draw at random.
    """
    import numpy as np
    from keras import backend, ops, tree

    rows = int(tensors[0].shape[0])
    if rows < 2:
        return ""

    def ask(part: list[Any]) -> list[Any]:
        return [np.asarray(one, "float64") for one in tree.flatten(forward(part))]

    def changed(one: Any) -> Any:
        is_number = backend.is_float_dtype(backend.standardize_dtype(one.dtype))
        last = one[-1:] * -3 + 1 if is_number else one[:1]
        return ops.concatenate([one[:-1], last], 0)

    whole, again = ask(tensors), ask(tensors)
    if not all(np.array_equal(one, other, equal_nan=True) for one, other in zip(whole, again)):
        return "its predictions are not the same twice: a layer draws by what cannot be put back"
    for received, fewer, what in [
        (ask([changed(one) for one in tensors]), rows - 1, "another sample"),
        (ask([one[:1] for one in tensors]), 1, "how many samples there are"),
    ]:
        for before, after in zip(whole, received):
            if before.ndim == 0 or before.shape[0] != rows or after.shape[0] < fewer:
                return f"its predictions {before.shape} have no row for each of {rows} samples"
            if draws and fewer == 1:
                continue  # fewer samples draw other numbers
            near = 1e-3 * max(float(np.max(np.abs(before), initial=0)), 1e-6)
            if not np.allclose(before[:fewer], after[:fewer], rtol=0, atol=near, equal_nan=True):
                return f"its prediction for a sample changes with {what}"
    return ""
