"""A Keras model that lives in this program, and the engine that trains it.

The engine reads the structure as Keras serializes it; each variable is found by walking the model
as Keras does when it saves, so that models inside models, shared layers and wrappers need no rules
of their own. Whether a layer, activation, loss, metric or optimizer is Keras's own is decided on
the live object, never on its name: a program's own `relu` serializes like Keras's.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from plimsoll import _core, errors, interrupts, sizes
from plimsoll.data import Samples, samples_of
from plimsoll.errors import Refused, translate
from plimsoll.model import sync
from plimsoll.model.kept import Session, release_all
from plimsoll.model.lookups import Lookups
from plimsoll.model.stamp import Stamp
from plimsoll.model.variables import Variables
from plimsoll.versions import check_backend, check_model, check_optimizer, keras_module


def _keras_folder() -> str:
    file: str = keras_module().__file__
    return os.path.dirname(os.path.abspath(file)) + os.sep


_TAPE = os.path.join(os.path.dirname(os.path.abspath(errors.__file__)), "tapes", "tape.py")


def _is_of_keras(value: Any) -> bool:
    """Whether a function, or the class of an object, is code of Keras's own."""
    function: Any = value if isinstance(value, types.FunctionType) else None
    if function is not None:
        while function is not None:  # a wrapper is code too
            if isinstance(function, types.FunctionType):
                file = os.path.abspath(function.__code__.co_filename)
                ours = file == _TAPE and hasattr(function, "__wrapped__")  # it is watched
                if not ours and not file.startswith(_keras_folder()):
                    return False
            function = getattr(function, "__wrapped__", None)
        return True
    cls = value if isinstance(value, type) else type(value)
    module = cls.__module__ or ""
    return module == "keras" or module.startswith("keras.")


def _method_is_of_keras(cls: type, name: str) -> bool:
    method = getattr(cls, name, None)
    return not isinstance(method, types.FunctionType) or _is_of_keras(method)


def _where(value: Any) -> str:
    function = isinstance(value, types.FunctionType)
    name = value.__qualname__ if function else type(value).__qualname__
    return f"{getattr(value, '__module__', '?')}.{name}"


_PARTS = ("initializer", "regularizer", "constraint")


def _foreign_parts(layer: Any) -> Iterator[str]:
    """What of a layer is not Keras's own, as texts."""
    cls = type(layer)
    if not _is_of_keras(cls):
        yield f"its class {_where(layer)} is the program's own"
        return
    for method in ("call", "build", "__call__", "compute_mask"):
        if not _method_is_of_keras(cls, method):
            yield f"{cls.__name__}.{method} was replaced"
        own = vars(layer).get(method)
        function = getattr(own, "__func__", own)
        if isinstance(function, types.FunctionType) and not _is_of_keras(function):
            yield f"its {method} was replaced"
    for name, value in vars(layer).items():
        if isinstance(value, types.FunctionType):
            if name not in ("call", "build", "__call__") and not _is_of_keras(value):
                yield f"its {name.lstrip('_')} {_where(value)} is the program's own"
        elif any(name.endswith(part) for part in _PARTS) and value is not None:
            if not isinstance(value, str) and not _is_of_keras(value):
                yield f"its {name.lstrip('_')} {_where(value)} is the program's own"


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _flat(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    elif value is not None:
        yield value


def _replaced(value: Any, methods: tuple[str, ...]) -> Iterator[str]:
    """Methods of an object of Keras's that are somebody else's, on the object or its class."""
    for name in methods:
        own = vars(value).get(name) if hasattr(value, "__dict__") else None
        function = getattr(own, "__func__", own)
        if isinstance(function, types.FunctionType) and not _is_of_keras(function):
            yield name
        elif not _method_is_of_keras(type(value), name):
            yield name


_OF_TRAINING = ("call", "__call__", "update_state", "result", "reset_state", "apply",
                "apply_gradients", "update_step", "build")  # fmt: skip
_OF_MODEL = ("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics",
             "train_function", "make_train_function", "make_test_function", "call")  # fmt: skip


def compiled_with(model: Any) -> dict[str, Any]:
    """What compile() was given; nothing where it was not called."""
    if not model.compiled or model._compile_config is None:
        return {}
    config = dict(model._compile_config.config)
    if config.get("optimizer") is None:  # Keras takes it out when it writes an .h5 file
        config["optimizer"] = model.optimizer
    return config


def names_of_metrics(model: Any) -> list[str]:
    """As compile() was given them."""
    given = compiled_with(model)
    every = [*_flat(given.get("metrics")), *_flat(given.get("weighted_metrics"))]
    return [one if isinstance(one, str) else str(getattr(one, "name", getattr(one, "__name__", "")))
            for one in every]  # fmt: skip


def _foreign_training(asked: dict[str, Any]) -> Iterator[str]:
    for what in ("optimizer", "loss", "metrics", "weighted_metrics"):
        given = list(_flat(asked.get(what)))
        given += [v.inner_optimizer for v in given if hasattr(v, "inner_optimizer")]
        for value in given:
            if isinstance(value, (str, int, float)):
                continue
            own = value if isinstance(value, types.FunctionType) else type(value)
            if not _is_of_keras(own):
                yield f"{what.rstrip('s') if what != 'loss' else what} {_where(value)}"
            elif not isinstance(value, types.FunctionType):
                inner = getattr(value, "fn", getattr(value, "_fn", None))
                if isinstance(inner, types.FunctionType) and not _is_of_keras(inner):
                    yield f"{what} {_where(inner)}"
                for name in _replaced(value, _OF_TRAINING):
                    yield f"{what} {type(value).__name__}, whose {name} was replaced,"


def check_identity(model: Any, asked: dict[str, Any] | None = None) -> None:
    """Raises Refused, naming everything in the model that is not Keras's own.

    `asked`: what it is trained with; None: what compile() was given.
    """
    if type(model).__name__ not in ("Sequential", "Functional", "Model") or not _is_of_keras(model):
        raise Refused(
            f"{model.name}: expected a Sequential or functional model of Keras, received "
            f"{_where(model)}. Its own call is Python code, which the engine does not run."
        )
    for method in _replaced(model, _OF_MODEL):
        raise Refused(f"{model.name}: {method} was replaced: expected Keras's own.")
    for layer in model._flatten_layers(include_self=False, recursive=True):
        if getattr(layer, "stateful", False):
            raise Refused(
                f"{layer.name}: expected a layer that forgets its states with each batch, received "
                "stateful=True. In a program its states are Keras's own variables."
            )
    in_keras = set(Lookups(model).parts())
    found = [
        f"layer {layer.name}: {text}"
        for layer in model._flatten_layers(include_self=False, recursive=True)
        if id(layer) not in in_keras
        for text in _foreign_parts(layer)
    ]
    found += [f"{text} is the program's own" for text in
              _foreign_training(compiled_with(model) if asked is None else asked)]  # fmt: skip
    if found:
        raise Refused(
            f"{model.name}: expected layers, losses and metrics of Keras's own, received "
            + "; ".join(found)
            + ". What is the program's own is Python code, which the engine does not run."
        )


def check_trainable(model: Any) -> None:
    """Raises Refused where a variable is frozen by itself."""
    for layer in model._flatten_layers(include_self=False, recursive=True):
        for variable in getattr(layer, "_trainable_variables", ()):
            if variable.trainable != layer.trainable:
                raise Refused(
                    f"{variable.path}: expected a variable that is trained as its layer is, "
                    f"received trainable={variable.trainable} in a layer with trainable="
                    f"{layer.trainable}. Set trainable of the layer."
                )


def check_training(model: Any) -> None:
    """Raises Refused where Keras trains otherwise than its own description of the model says."""
    check_trainable(model)
    config = getattr(getattr(model, "_compile_config", None), "config", None)
    if not model.compiled or not isinstance(config, dict) or "optimizer" not in config:
        return
    described, own = config["optimizer"], model.optimizer
    if described is own or own is None:
        return
    made = keras_module().optimizers.get(described)
    while hasattr(own, "inner_optimizer") and not hasattr(made, "inner_optimizer"):
        own = own.inner_optimizer  # what compile() put around it
    if type(made) is not type(own) or _rules(made) != _rules(own):
        raise Refused(
            f"{model.name}: expected the optimizer that compile() was given, received another "
            f"one ({type(own).__name__}). Compile the model with it."
        )


def _rules(optimizer: Any) -> dict[str, Any]:
    """What it does beside its rate, which is a variable."""
    config = optimizer.get_config()
    if hasattr(optimizer, "inner_optimizer"):
        config["inner_optimizer"] = _rules(optimizer.inner_optimizer)
    return {k: v for k, v in config.items() if k not in ("learning_rate", "name")}


def variables_by_path(model: Any) -> dict[str, Any]:
    """Keras's variables by where a .keras file keeps them ("layers/dense/vars/0")."""
    from keras.src.saving import saving_lib

    class Paths(saving_lib.H5IOStore):  # type: ignore[misc]
        """Stands in for a file: notes what is written where."""

        def __init__(self) -> None:
            self.found: dict[str, Any] = {}

        def make(self, path: str, metadata: Any = None) -> dict[str, Any]:
            found = self.found

            class Entry(dict):  # type: ignore[type-arg]
                def __setitem__(self, key: str, value: Any) -> None:
                    found[f"{path}/vars/{key}" if path else f"vars/{key}"] = value

            return Entry()

        def __bool__(self) -> bool:
            return True

        def close(self) -> None:
            pass

    store = Paths()
    visited: set[int] = {id(model.optimizer)} if model.compiled else set()
    saving_lib._save_state(model, store, None, "", visited)  # whose names differ by version
    return {path.replace("\\", "/"): value for path, value in store.found.items()}


def number_type(dtype: str) -> np.dtype[Any]:
    return np.dtype({"int64": "int64", "int32": "int32"}.get(dtype, "float32"))


def _bytes_of(variable: tuple[str, str, str, list[int]]) -> int:
    _path, _name, dtype, shape = variable
    return math.prod(shape) * number_type(dtype).itemsize


class Live:
    """An engine and the Keras variables that its state belongs to."""

    def __init__(self, model: Any, config: str, shapes: sizes.Shapes = ()) -> None:
        """`shapes`: of a sample of each input, where the model leaves sizes open."""
        self.config = config
        self.shapes = shapes
        self.siblings: dict[sizes.Shapes, Live] = {}  # by shapes, this one too
        self._model = weakref.ref(model)
        try:
            self.engine = _core.Engine(config, model.name)
        except _core.EngineError as error:
            raise translate(error) from None
        self.lookups = Lookups(model)
        self.variables = self.engine.variables()
        self.weight_count = self.engine.weight_count
        self.largest = max(map(_bytes_of, self.variables), default=0)
        found = variables_by_path(model)
        self._weights: list[Any] = []
        self.stepped = False  # since adopt(), on batches that came one by one
        self.lent = False  # the engine may hold what was trained since the last give()
        self.shown = False  # since give(), and until the engine takes or trains
        for path, name, _dtype, shape in self.variables[: self.weight_count]:
            variable = found.get(path)
            if variable is None or not hasattr(variable, "assign"):
                raise Refused(f"{model.name}: expected a variable at {path} for {name}, "
                              "received none.")  # fmt: skip
            if tuple(variable.shape) != tuple(shape):
                raise Refused(f"{name}: expected the shape {tuple(shape)}, received "
                              f"{tuple(variable.shape)}.")  # fmt: skip
            self._weights.append(variable)
        self.stamp: Stamp | None = None
        self._sessions: dict[str, Session] = {}
        self._buffers: dict[bool, Variables] = {}  # by whether training's are among them

    def join(self, last: Live | None) -> None:
        """This one and those of other sizes know each other; of too many the first one goes."""
        if last is not None and last.model is self.model:
            self.siblings = last.siblings
        self.siblings.pop(self.shapes, None)
        self.siblings[self.shapes] = self
        if len(self.siblings) > sizes.MOST:
            self.siblings.pop(next(iter(self.siblings))).release()

    def check_kinds(self, optimizer: Any) -> None:
        """Raises Refused where an optimizer of two kinds takes a weight for another than we do."""
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        kind = getattr(optimizer, "_should_use_adamw", None)
        if kind is None or not self.weight_count < len(self.variables):
            return
        slots = {name for _path, name, _dtype, _shape in self.variables[self.weight_count :]}
        for variable, (_path, name, _dtype, _shape) in zip(self._weights, self.variables):
            ours = f"optimizer/{name}/velocity" in slots
            if (
                variable.trainable
                and f"optimizer/{name}/momentum" in slots
                and ours != kind(variable)
            ):
                raise Refused(
                    f"{variable.path}: expected {optimizer.name} to know it by {name}, the name in "
                    "its layer, received exclude_layers or a model's name that tell by more."
                )

    def check_sizes(self, samples: Samples) -> None:
        """Raises Refused where sizes that the model leaves open differ from the call's first."""
        sizes.check_alike(self.model, self.shapes, samples.x)

    def samples_of(
        self, x: Any, y: Any = None, sample_weight: Any = None,
        class_weight: dict[int, float] | None = None,
    ) -> Samples:  # fmt: skip
        """Arrays by the model's inputs and outputs. Raises ValueError and TypeError."""
        x = self.lookups.numbers(x) if self.lookups else x
        return samples_of(self.engine, x, y, sample_weight, class_weight)

    def session(self, kind: str) -> Session:
        """What is kept for calls of a kind. Raises ValueError while another call runs."""
        self.refuse_in_a_call(kind)
        if self.engine.trains:  # between the epochs of a fit
            self.engine.close()
            self.take()
        session = self._sessions.get(kind)
        if session is None:
            session = self._sessions[kind] = Session(self.model.name, self.config)
        session.refuse_in_a_call()
        return session

    def refuse_in_a_call(self, what: str) -> None:
        if self.engine.runs or self.lent:
            raise ValueError(
                f"[{self.model.name}] {what}: expected a model that is not being run, received one "
                "in the middle of another call. Call it afterwards."
            )

    def release(self) -> None:
        for session in self._sessions.values():
            session.release()

    def read_by_engine(self, training: bool) -> Variables:
        """The weights, or what training changes too, in the engine's order."""
        known = self._buffers.get(training)
        if known is None:
            if training:
                self._slots(build=True)
                self.stamp = Stamp(self.model)  # of the optimizer that is built
            variables = self._weights + (self._slots(build=True) if training else [])
            known = self._buffers[training] = self._as_read(variables)
        return known

    def _as_read(self, variables: list[Any]) -> Variables:
        return Variables(variables, [number_type(dtype) for _path, _name, dtype, _shape
                                     in self.variables[: len(variables)]])  # fmt: skip

    def is_of(self, model: Any, config: str) -> bool:
        """Whether this is the engine of this model, with the variables that it has now."""
        if self.config != config or self.model is not model:
            return False
        found = variables_by_path(model)
        paths = [path for path, *_ in self.variables[: self.weight_count]]
        return all(found.get(path) is own for path, own in zip(paths, self._weights))

    def stamped(self) -> Live:
        """The model is what the engine knows, as of now."""
        self._buffers.clear()
        self.stamp = Stamp(self.model)
        return self

    @property
    def model(self) -> Any:
        return self._model()

    def _slots(self, build: bool) -> list[Any]:
        """The optimizer's variables in the engine's order; not built: count and rate alone."""
        wanted = len(self.variables) - self.weight_count
        if wanted == 0:
            return []
        optimizer = self.model.optimizer
        if not optimizer.built:
            if not build:
                return _before_a_step(optimizer)[:wanted]
            optimizer.build(self.model.trainable_variables)
        variables = list(optimizer.variables)
        if len(variables) != wanted:
            raise Refused(
                f"{self.model.name}: expected an optimizer with {wanted} variables, received one "
                f"with {len(variables)}: what is trained has changed since compile(). Compile the "
                "model again."
            )
        return variables

    def adopt(self) -> None:
        """The engine takes what Keras's variables hold now."""
        self.refuse_in_a_call("fit")
        self.stepped = False
        self.take()

    def trains(self) -> bool:
        """Whether the engine holds anything that Keras's variables do not."""
        return bool(self.engine.trains) or self.stepped

    def take(self) -> None:
        """The same in the middle of an epoch."""
        self.shown = False
        variables = self._as_read(self._weights + self._slots(build=False))
        with interrupts.put_off():
            self.engine.adopt(lambda index: sync.array(variables, index), len(variables.variables))

    def give(self) -> None:
        """Keras's variables take what the engine holds now; the optimizer's are built for it.

        Where they have had it since, what somebody has written to them stays.
        """
        if self.shown:
            self.lent = False
            return
        variables = self._as_read(self._weights + self._slots(build=True))
        count = len(variables.variables)

        def take(index: int, value: np.ndarray[Any, Any]) -> None:
            if index < count:
                sync.assign(variables, index, value)

        with interrupts.put_off():
            self.engine.give(take, count == self.weight_count)
            self.lent, self.shown = False, True

    def iterations(self) -> int:
        optimizer = self.model.optimizer
        return int(optimizer.iterations.numpy()) if hasattr(optimizer.iterations, "numpy") else int(
            np.asarray(keras_module().ops.convert_to_numpy(optimizer.iterations)))  # fmt: skip


def _before_a_step(optimizer: Any) -> list[Any]:
    """What an optimizer that is not built has of the variables that it will begin with."""
    variables = list(optimizer.variables)
    if not hasattr(optimizer, "inner_optimizer"):
        return variables
    keras = keras_module()
    own = len(variables) - len(optimizer.inner_optimizer.variables)
    steps = keras.Variable(0, dtype="int64", trainable=False)
    scale = keras.Variable(float(optimizer.initial_scale), dtype="float32", trainable=False)
    return [*variables[:own], steps, scale, *variables[own:]]


def _options_of(cls: type) -> list[str]:
    """The names of what it is made with."""
    given = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return [p.name for p in given if p.name != "self" and p.kind is not p.VAR_KEYWORD]


def _add_options(what: str, value: Any, config: dict[str, Any]) -> None:
    """What a loss or metric was made with and its own description lacks, from the object."""
    held = vars(value)
    for name in _options_of(type(value)):
        if name in config:
            continue
        if name == "thresholds" and held.get("_init_from_thresholds") is False:
            continue  # they lie evenly
        places = [(held.get("_fn_kwargs") or {}, name), (held, name), (held, f"_{name}")]
        found = [place[key] for place, key in places if key in place]
        if not found:
            raise Refused(
                f"{what} {type(value).__name__}: expected to find its option {name}, received an "
                "object that does not hold it. Make it anew, as Keras's documentation says."
            )
        config[name] = keras_module().saving.serialize_keras_object(found[0])


def _described(what: str, value: Any, numbers: dict[int, int]) -> Any:
    """What Keras writes of what compile() was given, with every option of losses and metrics.

    Metrics are numbered by object: one that is given in several places has one state.
    """
    if isinstance(value, dict):
        return {key: _described(what or key, item, numbers) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_described(what, item, numbers) for item in value]
    keras = keras_module()
    written = keras.saving.serialize_keras_object(value)
    if isinstance(value, keras.metrics.Metric):
        written["shared_object_id"] = numbers.setdefault(id(value), len(numbers))
    if isinstance(value, (keras.losses.Loss, keras.metrics.Metric)) and _is_of_keras(value):
        _add_options(what.rstrip("s") if what != "loss" else what, value, written["config"])
    return written


def serialized(model: Any, asked: dict[str, Any] | None = None, shapes: sizes.Shapes = ()) -> str:
    """What Keras writes of a model's structure and training; `asked` as in check_identity.

    `shapes`: of its inputs, where they leave sizes open.
    """
    written = keras_module().saving.serialize_keras_object(model)
    training = compiled_with(model) if asked is None else asked
    if training:
        scaled = asked is None and hasattr(model.optimizer, "inner_optimizer")
        training = training | ({"optimizer": model.optimizer} if scaled else {})
        # What compile() put around the optimizer is told as it is, and else nothing is.
        training["auto_scale_loss"] = False
        written["compile_config"] = _described("", training, {})
    sizes.fill(model, written, shapes)
    lookups = Lookups(model)
    if not lookups:
        return json.dumps(written)
    return json.dumps(lookups.described(json.loads(json.dumps(written))))


def live_model(model: Any, x: Any = None, shapes: sizes.Shapes = ()) -> Live:
    """The engine of a model; made anew where its structure or training changed.

    Where the model leaves sizes of its inputs open they are `shapes`, those of the arrays `x`, or
    what they were in the last call; the engines of the last eight sizes are kept.
    """
    check_model(model)
    if not model.built:
        raise Refused(f"{model.name}: expected a model whose input shapes are known, received one "
                      "that is not built. Add an Input, or call model.build(…).")  # fmt: skip
    # It is kept beside Keras's own tracking: a stamp holds parts that hold the model.
    last: Live | None = vars(model).get("_plimsoll")
    known = last
    if last.shapes if last is not None else sizes.open_inputs(model):
        if not shapes:
            shapes = last.shapes if last is not None and x is None else sizes.shapes_of(model, x)
        known = last.siblings.get(shapes) if last is not None else None
    if known is None or known.stamp is None or not known.stamp.holds():
        check_identity(model)
        check_backend(model, model.optimizer if model.compiled else None)
        check_training(model)
        if model.compiled:
            check_optimizer(model, model.optimizer)
        config = serialized(model, shapes=shapes)
        if known is None or not known.is_of(model, config):
            if known is not None and known.model is model:
                known.release()
            known = Live(model, config, shapes)
            if model.compiled:
                known.check_kinds(model.optimizer)
        known.stamped()
    if known is not last:
        known.join(last)
        vars(model)["_plimsoll"] = known
    return known


def release(model: Any = None) -> None:
    """Ends what is kept between calls for a model; for every model where none is named.

    Nothing is lost: what a session computes with is in the model's variables.
    """
    if model is None:
        release_all()
        return
    known = vars(model).get("_plimsoll")
    if known is not None:
        for one in known.siblings.values():
            one.release()
