"""Standard training steps on live objects, done by the engine.

What a tape does is what a step of `train_on_batch` does, but for what Keras adds there by itself
and a tape does not: penalties of layers, masks in losses that are plain functions, training mode.
Where the two would differ, the step is refused by name.
"""

from __future__ import annotations

import copy
import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from plimsoll import asked, data, sizes
from plimsoll.errors import Refused
from plimsoll.model import live
from plimsoll.model.variables import tensorflow
from plimsoll.options import Options
from plimsoll.tapes.grammar import BUILT_OTHERWISE, LOSS_FUNCTIONS, Role, Step, not_a_plain_mean
from plimsoll.training import taped
from plimsoll.training.inference import Caller, outputs_like
from plimsoll.training.trainer import Trainer, _optimizer_for, _Trained
from plimsoll.versions import check_backend, check_model, keras_module


def _check_precision(model: Any) -> None:
    for layer in taped.layers_of(model):
        if getattr(layer, "compute_dtype", "float32") not in ("float32", None):
            raise Refused(
                f"{model.name}: layer {layer.name}: expected float32, received "
                f"{layer.compute_dtype}: a tape does not scale losses by itself."
            )


def _loss_of(step: Step, model: Any) -> Any:
    """The loss as compile() takes it."""
    assert step.loss is not None
    value, keras = step.loss.value, keras_module()
    if step.loss.kind == "loss function":
        taped.check_no_masks(model, "a loss that is a function knows of no mask")
        name = LOSS_FUNCTIONS[value.__name__]
        try:
            return getattr(keras.losses, name)(**step.loss_options)
        except TypeError:
            raise Refused(f"{value.__name__}: expected options of {name}, received "
                          f"{', '.join(step.loss_options)}.") from None  # fmt: skip
    if getattr(value, "dtype", "float32") != "float32":
        raise Refused(f"loss {value.name}: expected float32, received {value.dtype}.")
    if step.loss.kind == "loss of each":
        taped.check_no_masks(model, "a mean over all losses knows of no mask")
        other = not_a_plain_mean(type(value).__name__, getattr(value, "_fn_kwargs", {}))
        if other:
            raise Refused(f"loss {value.name}: expected one whose mean is that over all samples, "
                          f"received {other}.")  # fmt: skip
        value = copy.copy(value)
        value.reduction = "sum_over_batch_size"
    return value


def _check_optimizer(optimizer: Any) -> None:
    """That a step begins as it would in TensorFlow."""
    if hasattr(optimizer, "inner_optimizer"):
        raise Refused(f"{optimizer.name}: expected an optimizer that scales no losses.")
    kinds = {cls.__name__ for cls in type(optimizer).__mro__}
    if BUILT_OTHERWISE in kinds and not optimizer.built:
        raise Refused(f"{optimizer.name}: expected a {BUILT_OTHERWISE} that is built, received "
                      "another: in a tf.function its momentum begins at 0, and elsewhere at the "
                      "weights.")  # fmt: skip


def _check_metrics(step: Step, model: Any) -> None:
    keras = keras_module()
    for role in step.in_loss:
        if type(role.value) is not keras.metrics.Mean or role.value.dtype != "float32":
            raise Refused(f"metric {role.value.name}: expected keras.metrics.Mean of a loss, "
                          f"received {live._where(role.value)}.")  # fmt: skip
    taped.check_metrics([role.value for role in step.metrics], model)


def _answers(answer: Any) -> list[Any]:
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        return [one for item in answer for one in _answers(item)]
    return [answer]


def _check_step(step: Step, model: Any) -> None:
    if len(model.outputs) != 1:
        raise Refused(f"{model.name}: expected one output, received {len(model.outputs)}.")
    _check_precision(model)
    if not step.training:
        taped.check_same_in_training(model, "it is called without training=True")
    if "prediction" in _answers(step.answer):
        taped.check_same_in_training(model, "the step returns predictions")
    adds = taped.has_penalties(model) if step.mixes or step.penalties_by == "add_n" else False
    if step.mixes and adds:
        raise Refused(f"{model.name}: expected one loss, with or without model.losses, received "
                      "a step that uses both.")  # fmt: skip
    if step.penalties_by == "add_n" and not adds:
        raise Refused(f"{model.name}: expected model.losses for tf.add_n, received none.")
    _check_metrics(step, model)


def _clipped(model: Any, config: str, norm: float) -> str:
    """A model's description with an optimizer that clips all gradients together."""
    for layer in taped.layers_of(model):
        if type(layer).__name__ == "Embedding" and layer.trainable:
            raise Refused(
                f"{layer.name}: expected no Embedding that is trained where gradients are clipped: "
                "rows that occur twice count otherwise there."
            )
    written = json.loads(config)
    described = written["compile_config"]["optimizer"]["config"]
    if any(described.get(name) for name in ("clipnorm", "clipvalue", "global_clipnorm")):
        raise Refused("gradients: expected them to be clipped once, received an optimizer that "
                      "clips them too.")  # fmt: skip
    described["global_clipnorm"] = norm
    return json.dumps(written)


class Runner:
    """A standard step on its objects, with the engine that does it.

    Raises Refused, ValueError and TypeError for what the engine does not do.
    """

    def __init__(self, step: Step, x: Any) -> None:
        assert step.model is not None and step.optimizer is not None
        self.step, model = step, step.model.value
        self.objects = objects(step)
        check_model(model)
        sizes.built(model, x)
        if not model.built:
            raise Refused(f"{model.name}: expected a model that is built, received another.")
        optimizer = step.optimizer.value
        _check_optimizer(optimizer)
        wanted = {"optimizer": optimizer, "loss": _loss_of(step, model),
                  "metrics": [role.value for role in step.metrics]}  # fmt: skip
        if not step.metrics:
            del wanted["metrics"]
        live.check_identity(model, wanted)
        _check_step(step, model)
        live.check_trainable(model)
        check_backend(model, optimizer)
        wanted["optimizer"] = _optimizer_for(model, optimizer)
        shapes = sizes.shapes_of(model, x) if sizes.open_inputs(model) else ()
        config = live.serialized(model, wanted, shapes)
        if not step.penalties:
            config = taped.without_penalties(model, config)
        if step.clip is not None:
            config = _clipped(model, config, step.clip)
        self.model, self.config, self.known = model, config, _Trained(model, config, optimizer)
        self._trainer: Trainer | None = None
        if "norm" in _answers(step.answer):
            self._trainer = Trainer(model, optimizer, wanted["loss"], reduce="sum",
                                    losses=step.penalties,
                                    updates=wanted.get("metrics", ()))  # fmt: skip

    def is_like(self, other: Runner) -> bool:
        """Whether both do the same."""
        return (self.config == other.config and self.step.answer == other.step.answer
                and len(self.objects) == len(other.objects)
                and all(a is b for a, b in zip(self.objects, other.objects)))  # fmt: skip

    def _check_labels(self, labels: np.ndarray[Any, Any]) -> None:
        """Functions of losses take labels as they are, where objects adapt them."""
        role = self.step.loss
        if role is None or role.kind != "loss function":
            return
        wanted = len(self.model.outputs[0].shape)
        if role.value.__name__ == "sparse_categorical_crossentropy":
            wanted -= labels.ndim < wanted
        if labels.ndim != wanted:
            raise ValueError(f"y: expected labels of rank {wanted}, received {labels.ndim}.")

    def run(self, x: Any, y: Any, how: Options) -> Any:
        """One step; returns what the function returns, as TensorFlow's tensors."""
        known = self.known
        for other in (known, vars(self.model).get("_plimsoll")):
            if other is not None:
                other.refuse_in_a_call("a training step")
        how.handed = known.largest
        samples = known.samples_of(x, y)
        self._check_labels(samples.y[0])
        predictions = self._predict(samples, how) if self._gives_predictions else None
        if self._trainer is not None:
            loss, norm = self._clip(self._trainer, x, y)
            return self._told(loss, {"prediction": predictions, "norm": norm})
        session = known.session("train")
        lent = session.lent(known.everything(), known)
        arrays = samples.arrays()
        try:
            logs = session.run(
                how, (samples.rows, 0), samples.rows,
                lambda kept, listener: lent.step(kept, arrays, listener),
            )  # fmt: skip
        finally:
            session.end_call()
        for role in self.step.metrics:
            taped.add(role.value, logs[role.value.name], samples.rows)
        return self._told(logs["loss"], {"prediction": predictions})

    def _clip(self, trainer: Trainer, x: Any, y: Any) -> tuple[float, np.float32]:
        """A step whose norm of gradients is returned; loss and norm."""
        limit = self.step.clip
        assert limit is not None
        loss = trainer.accumulate(x, y)
        found = trainer.gradients()
        norm = math.sqrt(sum(float(np.vdot(one, one)) for one in found if one is not None))
        scale = np.float32(limit / max(norm, limit) if math.isfinite(norm) else math.nan)
        trainer.apply([None if one is None else one * scale for one in found])
        return loss, np.float32(norm)

    @property
    def _gives_predictions(self) -> bool:
        return "prediction" in _answers(self.step.answer)

    def _predict(self, samples: data.Samples, how: Options) -> Any:
        caller = Caller(self.known, how, "predict")
        only = data.Samples(samples.x)
        return outputs_like(self.model, list(caller.predict(only, (samples.rows, 0))))

    def _told(self, loss: float, beside: dict[str, Any]) -> Any:
        import tensorflow as tf

        values = {name: tf.convert_to_tensor(value) for name, value in beside.items()
                  if value is not None}  # fmt: skip
        values["loss"] = tf.constant(loss, tf.float32)
        for role in self.step.in_loss:
            taped.add_to(role.value.total, loss)
            taped.add_to(role.value.count, 1)
        if not any(isinstance(one, Role) for one in _answers(self.step.answer)):
            return _answered(self.step.answer, values)
        with _unwatched():
            return _answered(self.step.answer, values)


@contextmanager
def _unwatched() -> Iterator[None]:
    """For operations on variables that are no weights: what is lent stays so."""
    inside, mine = tensorflow(), threading.get_ident()
    assert inside is not None
    inside.ours.add(mine)
    try:
        yield
    finally:
        inside.ours.discard(mine)


def _answered(answer: Any, values: dict[str, Any]) -> Any:
    if isinstance(answer, dict):
        return {key: _answered(item, values) for key, item in answer.items()}
    if isinstance(answer, (list, tuple)):
        return type(answer)([_answered(item, values) for item in answer])
    if isinstance(answer, Role):
        return answer.value.result()
    return None if answer is None else values[answer]


def objects(step: Step) -> list[Any]:
    """The live objects of a step."""
    roles = [step.model, step.loss, step.optimizer, *step.in_loss, *step.metrics,
             *(one for one in _answers(step.answer) if isinstance(one, Role))]  # fmt: skip
    return [role.value for role in roles if role is not None]


def options() -> Options:
    """What the program was asked to keep to."""
    return Options.of(asked.options_of_program())
