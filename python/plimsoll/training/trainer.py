"""Training loops of one's own: gradients are added up over calls, read, and applied.

    trainer = plimsoll.Trainer(model, keras.optimizers.Adam(1e-3), "mse", memory="2GiB")
    for k in range(4):
        loss = trainer.accumulate(x[16 * k : 16 * k + 16], y[16 * k : 16 * k + 16])
    trainer.apply()  # one step of the optimizer, by the mean over 64 samples

The weights are in the model's variables: read when a call begins, written when it ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from plimsoll import sizes
from plimsoll.asked import options_of_program
from plimsoll.errors import Refused, guarded
from plimsoll.model import live, sync
from plimsoll.model.kept import Session
from plimsoll.model.stamp import Stamp
from plimsoll.model.variables import Variables
from plimsoll.options import Options
from plimsoll.training import taped
from plimsoll.training.inference import by_name
from plimsoll.versions import check_backend, check_model, check_optimizer, keras_module, reported

_Assigned = list[tuple[int, np.ndarray[Any, Any]]]


def _without_trainable(config: Any) -> Any:
    if isinstance(config, dict):
        return {k: _without_trainable(v) for k, v in config.items() if k != "trainable"}
    if isinstance(config, list):
        return [_without_trainable(item) for item in config]
    return config


def _structure(config: str) -> Any:
    return _without_trainable(json.loads(config))


class _Trained(live.Live):
    """A model with the optimizer that one trainer steps it with."""

    def __init__(self, model: Any, config: str, optimizer: Any) -> None:
        super().__init__(model, config)
        self.optimizer = optimizer
        self.trainable = list(model.trainable_variables)  # as of now: what is frozen later counts
        names = {id(variable): name for variable, (_path, name, _dtype, _shape)
                 in zip(self._weights, self.variables)}  # fmt: skip
        self.names = [names[id(variable)] for variable in self.trainable]
        self.gradients = sum(live._bytes_of(one) for one in self.variables if one[1] in self.names)
        self.weights = self._as_read(self._weights)
        self._everything: Variables | None = None
        self.check_kinds(optimizer)

    def everything(self) -> Variables:
        """The optimizer's variables too, which are built for it."""
        if self._everything is None:
            self._everything = self._with_slots()
        return self._everything

    def _with_slots(self) -> Variables:
        optimizer, wanted = self.optimizer, len(self.variables) - self.weight_count
        if not optimizer.built:
            optimizer.build(self.trainable)
        variables = list(optimizer.variables)
        if len(variables) != wanted:
            raise Refused(f"{optimizer.name}: expected an optimizer with {wanted} variables, "
                          f"received one with {len(variables)}.")  # fmt: skip
        return self._as_read(self._weights + variables)

    def steps_seen(self) -> int:
        return int(np.asarray(keras_module().ops.convert_to_numpy(self.optimizer.iterations)))


def _optimizer_for(model: Any, asked: Any) -> Any:
    keras = keras_module()
    optimizer = keras.optimizers.get(asked) if asked is not None else model.optimizer
    check_optimizer(model, optimizer)
    built_for = getattr(optimizer, "_trainable_variables", None)
    if not optimizer.built or built_for is None:
        return optimizer
    ours = model.trainable_variables
    if len(built_for) != len(ours) or any(a is not b for a, b in zip(built_for, ours)):
        raise Refused(
            f"{optimizer.name}: expected an optimizer for what is trained of {model.name} "
            f"({len(ours)} variables), received one that was built for others ({len(built_for)}). "
            "Give each trainer an optimizer of its own."
        )
    return optimizer


class Trainer:
    """Steps of a loop of one's own on a Keras model, inside a limit.

    optimizer, loss, metrics: as compile() takes them; none: what the model is compiled with. Which
    weights are trained is read when the trainer is made, as compile() reads it.
    reduce: "mean" or "sum" of calls. input_shape: of a sample, where the model leaves sizes open
    (for several inputs a list or dict of shapes). memory and further options: as in `fit`; in a
    program that runs by `python -m plimsoll`, or after `install`, those that were named there.
    losses: whether what layers add to the loss counts, as sum(model.losses) in TensorFlow's loops.
    training: False stands for a loop that calls the model without training=True, which only models
    have that do the same then. updates: metric objects of Keras's, whose state each call of
    `accumulate` updates, as update_state(y, predictions) does.

    Several trainers may live side by side, on models that share layers too: the weights are in the
    model's variables, read when a call begins and written when it ends. A limit counts what the
    other trainers hold.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any = None,
        loss: Any = None,
        metrics: Any = None,
        reduce: str = "mean",
        input_shape: Any = None,
        losses: bool = True,
        training: bool = True,
        updates: Sequence[Any] = (),
        **options: Any,
    ) -> None:
        if reduce not in ("mean", "sum"):
            raise ValueError(f'reduce: expected "mean" or "sum", received {reduce!r}.')
        options = {**options_of_program(), **options}
        Options.of(options)  # says what is wrong with them
        check_model(model)
        self.model, self._options = model, options
        compiled = live.compiled_with(model)
        asked = {} if loss is not None else dict(compiled)
        for what, given in (("optimizer", optimizer), ("loss", loss), ("metrics", metrics)):
            if given is not None:
                asked[what] = given
        for what in ("optimizer", "loss"):
            if asked.get(what) is None and compiled.get(what) is None:
                raise ValueError(f"{what}: expected one, received none, and {model.name} is not "
                                 "compiled.")  # fmt: skip
            asked.setdefault(what, compiled.get(what))
        self._updates = list(updates)
        if self._updates:
            taped.check_metrics(self._updates, model)
            asked["metrics"] = [*live._flat(asked.get("metrics")), *self._updates]
        if not training:
            taped.check_same_in_training(model, "training=False")
        if not model.built:
            raise Refused(f"{model.name}: expected a model that is built, received one whose "
                          "input shapes are not known. Add an Input.")  # fmt: skip
        live.check_identity(model, asked)
        check_backend(model, asked["optimizer"])
        if optimizer is None:
            live.check_training(model)
        live.check_trainable(model)
        self.optimizer = _optimizer_for(model, optimizer)
        if optimizer is not None or hasattr(self.optimizer, "inner_optimizer"):
            asked["optimizer"] = self.optimizer
        self._asked = asked
        self._shapes: sizes.Shapes = ()
        if input_shape is not None or sizes.open_inputs(model):
            self._shapes = sizes.given_shapes(model, input_shape)
        config = live.serialized(model, asked, self._shapes)
        self._structure = _structure(config)
        if not losses:
            config = taped.without_penalties(model, config)
        self._rules = self._rules_now()
        self._stamp = Stamp(model)
        self._known = _Trained(model, config, self.optimizer)
        self._session = Session(model.name, config, parks=True)
        self._engine = self._session.engine
        self._engine.begin_steps(reduce == "sum", self._known.steps_seen())
        self._held = ExitStack()  # what the trainer planned is nobody else's to end
        self._holds = False
        self._rows = 0
        self._weight_shapes: tuple[Any, ...] = ()

    @property
    def trainable_variables(self) -> list[Any]:
        """What is trained, in the order of `gradients`."""
        return list(self._known.trainable)

    def accumulate(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Adds the gradients of a batch to what `apply` will use; returns the batch's loss.

        With `return_dict` its loss and metrics. Data that are refused change nothing; where the
        call raises after the batch has begun to run (Ctrl-C), nothing is added up any more.
        """
        self._look_at_model()
        samples = self._known.samples_of(x, y, sample_weight)
        if not samples.y:
            raise ValueError("y: expected labels, received none.")
        variables, arrays = self._known.weights, samples.arrays()
        state = sync.buffers(variables)
        loss, logs, changed = self._run(
            samples.rows, samples.weight_shapes,
            lambda kept, listener: self._engine.accumulate(kept, arrays, state, listener),
        )  # fmt: skip
        self._rows, self._weight_shapes = samples.rows, samples.weight_shapes
        _assign(variables, changed)
        for metric in self._updates:
            taped.add(metric, logs[metric.name], samples.rows)
        if not return_dict:
            return loss
        return by_name(reported(logs, self._known.engine.output_names))

    def gradients(self) -> list[Any]:
        """What `apply` will use, as arrays in the order of `trainable_variables`.

        None stands for a variable that the loss does not depend on.
        """
        if not self._engine.has_gradients:
            raise ValueError("gradients: expected batches since the last apply, received none. "
                             "Call accumulate first.")  # fmt: skip
        found = guarded(self._engine.gradients)
        return [found.get(name) for name in self._known.names]

    def apply(self, gradients: Sequence[Any] | None = None) -> None:
        """One step of the optimizer by what was added up, or by `gradients`; then sums start anew.

        `gradients` are in the order of `trainable_variables`; for a variable of None what was added
        up counts.
        """
        self._look_at_model()
        given = [] if gradients is None else self._checked(gradients)
        if not given and not self._engine.has_gradients:
            raise ValueError("apply: expected gradients, received none. Call accumulate first.")
        variables = self._known.everything()
        state = sync.buffers(variables)
        changed = self._run(
            max(self._rows, 1), self._weight_shapes,
            lambda kept, listener: self._engine.apply(kept, given, state, listener),
        )  # fmt: skip
        _assign(variables, changed)

    def clear(self) -> None:
        """Forgets what was added up."""
        guarded(self._engine.forget_gradients)

    def release(self) -> None:
        """Ends what is kept between calls, and forgets what was added up."""
        self._held.close()
        self._holds = False
        self._session.release()
        self.clear()

    def _run(self, rows: int, weights: tuple[Any, ...], call: Any) -> Any:
        how = Options.of(self._options)
        how.handed = self._known.gradients  # what was added up moves when a session is replaced
        answer = self._session.run(how, (rows, 0), rows, call, bool(self._engine.has_gradients),
                                   weights)  # fmt: skip
        if not self._holds:
            self._held.enter_context(self._session.batch_by_batch())
            self._holds = True
        return answer

    def _rules_now(self) -> Any:
        """What the optimizer does beside its rate, where that is a variable."""
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        rate = getattr(optimizer, "_learning_rate", None)
        return live._rules(self.optimizer), None if hasattr(rate, "assign") else rate

    def _look_at_model(self) -> None:
        if self._rules_now() != self._rules:
            raise ValueError(
                f"{self.optimizer.name}: expected the optimizer as it was when the trainer was "
                "made, received one that has changed since. Make another Trainer."
            )
        known = vars(self.model).get("_plimsoll")
        if known is not None:
            known.refuse_in_a_call("Trainer")
        if self._stamp.holds():
            return
        live.check_identity(self.model, self._asked)
        if _structure(live.serialized(self.model, self._asked, self._shapes)) != self._structure:
            raise ValueError(
                f"{self.model.name}: expected the model that the trainer was made for, received "
                "one that has changed since. Make another Trainer."
            )
        self._stamp = Stamp(self.model)

    def _checked(self, gradients: Sequence[Any]) -> list[tuple[str, np.ndarray[Any, Any]]]:
        variables = self._known.trainable
        if len(gradients) != len(variables):
            raise ValueError(f"gradients: expected {len(variables)}, one for each trainable "
                             f"variable, received {len(gradients)}.")  # fmt: skip
        given = []
        for gradient, variable, name in zip(gradients, variables, self._known.names):
            if gradient is None:
                continue
            if type(gradient).__name__ == "IndexedSlices":  # of an Embedding, by TensorFlow
                gradient = sys.modules["tensorflow"].convert_to_tensor(gradient)
            array = np.ascontiguousarray(gradient, "float32")
            if array.shape != tuple(variable.shape):
                raise ValueError(f"{variable.path}: expected a gradient of shape "
                                 f"{tuple(variable.shape)}, received {array.shape}.")  # fmt: skip
            given.append((name, array))
        return given


def _assign(variables: Variables, changed: _Assigned) -> None:
    try:
        _assign_all(variables, changed)
    except BaseException:  # Ctrl-C between two of them: a step is whole or not there
        _assign_all(variables, changed)
        raise


def _assign_all(variables: Variables, changed: _Assigned) -> None:
    for index, array in changed:
        sync.assign(variables, index, array)
