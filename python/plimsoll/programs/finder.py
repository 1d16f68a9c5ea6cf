"""Puts the package's training methods in the place of Keras's, when Keras is imported.

All models of Keras 3, by whatever name it is imported, inherit `fit` and its like from one class of
the backend's. A finder in front of `sys.meta_path` waits for that class's module and replaces the
methods as soon as the module has run, so subclasses and functions that wrap `Model.fit` are made of
the new ones. Only methods that are known are replaced: Keras's own code, with parameters and names
that it had in a version this package was made for. `tf.function` and the steps of optimizers are
watched (tape.py); nothing else is touched.
"""

from __future__ import annotations

import atexit
import os
import sys

from plimsoll import asked
from plimsoll.fingerprints import fingerprint
from plimsoll.replaced import keras_methods, methods
from plimsoll.tapes import tape

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

_LEAST = 1 << 20  # bytes: no Python process takes less

_FUNCTION = type(lambda: None)

_TRAINERS = {
    "keras.src.backend.tensorflow.trainer": "TensorFlowTrainer",
    "keras.src.backend.jax.trainer": "JAXTrainer",
    "keras.src.backend.torch.trainer": "TorchTrainer",
}
_LEFT = {  # a module by which a Keras is known that is left as it is
    "keras.src.backend.openvino.trainer": "Keras on openvino",
    "keras.src.backend.numpy.trainer": "Keras on numpy",
    "keras.src.engine.training": "Keras 2",
    "tf_keras": "Keras 2 (tf_keras)",
}


def unknown_method(module: Any, cls: Any) -> str:
    """The first method of a trainer that is not known, with what it is; empty where all are."""
    folder = os.path.abspath(module.__file__).rsplit(os.sep, 3)[0] + os.sep  # …/keras/src/
    known = keras_methods.KNOWN[cls.__name__]
    for name in keras_methods.NAMES:
        function = vars(cls).get(name)
        while isinstance(function, _FUNCTION) and hasattr(function, "__wrapped__"):
            if not os.path.abspath(function.__code__.co_filename).startswith(folder):
                return f"{name} was replaced by {function.__module__}.{function.__qualname__}"
            function = function.__wrapped__
        if not isinstance(function, _FUNCTION):
            return f"it has no method {name}"
        if function.__code__.co_filename != module.__file__:
            return f"{name} was replaced by {function.__module__}.{function.__qualname__}"
        if fingerprint(function.__code__) not in known[name]:
            return f"its {name} is not one that this version of Plimsoll knows"
    return ""


def replace_methods(module: Any) -> None:
    """Replaces methods in a trainer's module that has run; says so where they are left."""
    cls = getattr(module, _TRAINERS[module.__name__], None)
    asked.outcome.found_keras = "Keras"
    if cls is None or methods.are_replaced(cls):
        return
    unknown = unknown_method(module, cls)
    if unknown:
        asked.say(f"models are trained by Keras, untouched: {cls.__name__}: {unknown}.")
        asked.outcome.told.add(("", unknown))
        return
    methods.replace(cls)


_counted: list[asked.Asked] = []  # what asks for arrays to be counted, at most one


_after: dict[str, Callable[[Any], None]] = {  # what follows when a module has run
    **dict.fromkeys(_TRAINERS, replace_methods),
    "tensorflow": lambda tensorflow: _after_tensorflow(tensorflow),
    "keras.src.optimizers.base_optimizer": tape.watch_optimizers,
    "numpy": lambda numpy: _after_numpy(numpy),
}


class _Loader:
    """A module's own loader, and what follows when the module has run."""

    def __init__(self, own: Any, then: Callable[[Any], None]) -> None:
        self._own, self._then = own, then

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._own.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        self._then(module)


class _Finder:
    """In front of all others; finds nothing by itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        if name in _LEFT:
            _leave(name)
        then = _after.get(name)
        if then is None:
            return None
        for other in sys.meta_path:
            find = getattr(other, "find_spec", None)
            if other is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, then)  # type: ignore[assignment]
                return spec
        return None


_FINDER = _Finder()


def _leave(name: str) -> None:
    what = _LEFT[name]
    if not asked.outcome.found_keras:
        asked.outcome.found_keras = what
        asked.outcome.told.add(("", what))
        asked.say(f"models of {what} are trained there, untouched.")


def _is_loaded(name: str) -> bool:
    module: Any = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def begin(what: asked.Asked, says_at_end: bool = True) -> None:
    """From now on; where Keras is loaded already its methods are replaced at once."""
    if asked.current is None and says_at_end:
        atexit.register(asked.say_at_end)
    asked.current = what
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    for name, then in list(_after.items()):
        if _is_loaded(name) and name != "numpy":
            then(sys.modules[name])


def count_arrays(what: asked.Asked | None) -> asked.Asked | None:
    """From now on, or when NumPy is imported; none: no longer. Returns what was asked before.

    After `begin`. Arrays that are made in this thread are counted.
    """
    before = _counted.pop() if _counted else None
    arrays: Any = sys.modules.get("plimsoll.arrays")
    if arrays is not None:
        arrays.end()
    if what is not None and (what.limit is not None or what.arrays):
        _counted.append(what)
        if _is_loaded("numpy"):
            _begin_counting()
    return before


def _after_tensorflow(tensorflow: Any) -> None:
    tape.watch_functions(tensorflow)
    from plimsoll.programs import slices

    slices.watch(tensorflow)


def _after_numpy(numpy: Any) -> None:
    if asked.current is not None and asked.current.restart is not None:
        numpy.random.seed(asked.current.restart.seed)
    if _counted:
        _begin_counting()


def _begin_counting() -> None:
    try:
        from plimsoll import arrays

        arrays.begin(_counted[0])
    except Exception as error:  # the program runs without
        asked.say(f"arrays are neither counted nor held to the limit: {error}")


def checked(
    memory: int | str | None,
    strict: bool,
    engine: str,
    options: dict[str, Any],
    plans: bool = False,
    inexact: bool = False,
) -> asked.Asked:
    """What is asked for. Raises ValueError and TypeError as `fit` does for its options."""
    if memory is None:
        memory = os.environ.get("PLIMSOLL_MEMORY") or None
    bytes_asked = None
    if memory is not None or options:
        from plimsoll.options import Options, size

        bytes_asked = size(memory)
        if bytes_asked is not None and bytes_asked < _LEAST:
            raise ValueError(f"memory: expected the bytes of a whole Python process, received "
                             f"{bytes_asked}. Write 3GiB for 3 GiB.")  # fmt: skip
        size(options.get("reserve"), "reserve")
        Options.of({"memory": memory, **options})
    return asked.Asked(memory, strict, engine, plans, options, inexact, bytes_asked)


def install(
    memory: int | str | None = None, strict: bool = False, engine: str = "auto",
    inexact: bool = False, **options: Any,
) -> None:  # fmt: skip
    """From now on models of this process are trained by the engine, inside a limit.

    `model.fit`, `evaluate`, `predict` and the methods for single batches do what the functions of
    this package do with the same options. What the engine does not take over is trained by Keras,
    and a line on standard error says what and why.

    memory: of the whole process, as in `fit`; none: what the variable PLIMSOLL_MEMORY says.
    strict: `Refused` is raised in place of that. engine: "native" trains on the processor where
    Keras sees a GPU too, "keras" leaves all to Keras, whose own steps are then done in parts where
    a batch does not fit. inexact: also where it is not proved that parts give what the whole gives.
    options: as in `fit`.
    """
    begin(checked(memory, strict, engine, options, inexact=inexact))
