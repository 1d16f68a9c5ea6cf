"""`tf.function` as the package watches it, and optimizers that a program steps by itself.

A function that is decorated with `tf.function` and has a tape and a step of an optimizer in it
stays the object that TensorFlow makes, with a class of ours that is derived from its own: what it
does when it is called is decided there (tapes/taken.py), all else is TensorFlow's. Other functions
are not touched. Steps of optimizers outside of such functions, and outside of Keras's own training,
are named once for each place.
"""

from __future__ import annotations

import os
import sys

from plimsoll import asked
from plimsoll.fingerprints import CODE, names_in

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

MARK = "_plimsoll_replaces"
_KERAS = os.path.join("keras", "src") + os.sep
_classes: dict[type, type] = {}


def is_a_step(function: Any) -> bool:
    """Whether it has a tape and a step of an optimizer in it."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if not isinstance(code, CODE):
        return False
    names = names_in(code)
    return "GradientTape" in names and ("apply_gradients" in names or "apply" in names)


def _class_of(own: Any) -> Any:
    """TensorFlow's class of functions, whose calls we are asked about first."""
    if own in _classes:
        return _classes[own]

    class Function(own):  # type: ignore[misc]
        autograph_info__ = None  # called from another function, it is no code to convert

        def __call__(self, *arguments: Any, **named: Any) -> Any:
            if asked.current is None:
                return own.__call__(self, *arguments, **named)
            from plimsoll.surroundings import without_our_frames
            from plimsoll.tapes import taken

            try:
                return taken.call(self, own.__call__, arguments, named)
            except BaseException as error:
                without_our_frames(error)
                raise

        def _list_all_concrete_functions(self) -> Any:
            from plimsoll.tapes import taken

            taken.trace(self)
            return own._list_all_concrete_functions(self)

        def experimental_get_tracing_count(self) -> Any:
            # TensorFlow asks in each of its own calls, to tell whether they trace.
            if sys._getframe(1).f_globals.get("__name__") != own.__module__:
                from plimsoll.tapes import taken

                taken.trace(self)
            return own.experimental_get_tracing_count(self)

    Function.__name__, Function.__qualname__ = own.__name__, own.__qualname__
    Function.__module__, Function.__doc__ = own.__module__, own.__doc__
    _classes[own] = Function
    return Function


def _watched(inner: Any, made: Any) -> Any:
    polymorphic: Any = sys.modules.get("tensorflow.python.eager.polymorphic_function"
                                       ".polymorphic_function")  # fmt: skip
    if type(made) is getattr(polymorphic, "Function", None) and is_a_step(inner):
        made.__class__ = _class_of(type(made))
    return made


def watch_functions(tensorflow: Any) -> None:
    """`tf.function` from now on; where TensorFlow has none, nothing is watched."""
    own = getattr(tensorflow, "function", None)
    if own is None or hasattr(own, MARK):
        return
    import functools

    @functools.wraps(own)
    def function(func: Any = None, *arguments: Any, **named: Any) -> Any:
        made = own(func, *arguments, **named)
        if func is not None:
            return _watched(func, made)

        def decorated(inner: Any) -> Any:
            return _watched(inner, made(inner))

        return decorated

    setattr(function, MARK, True)
    tensorflow.function = function


def _in_training_of_keras(frame: Any) -> bool:
    """Whether a call comes from Keras's own training, or from a function that is left as it is."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "taken.py")
    while frame is not None:
        file = frame.f_code.co_filename
        if file == own or (_KERAS in file and os.path.basename(file) == "trainer.py"):
            return True
        frame = frame.f_back
    return False


def _name(optimizer: Any) -> None:
    """A step that the program takes by itself."""
    what, frame = asked.current, sys._getframe(2)
    tensorflow = sys.modules.get("tensorflow")
    place = (frame.f_code, frame.f_lineno)
    if (
        what is None
        or place in asked.outcome.steps
        or tensorflow is None
        or _KERAS in place[0].co_filename
    ):
        return
    if not tensorflow.executing_eagerly():
        return  # a function's trace
    if _in_training_of_keras(frame):
        return
    from plimsoll.surroundings import call_site

    site = call_site()
    file = site.rpartition(":")[0]
    reason = "it is a loop of its own, outside of a tf.function"
    if what.strict:
        from plimsoll.errors import Refused

        asked.outcome.refused += 1
        raise Refused(f"{site}: a step of {optimizer.name}: expected training that the engine "
                      f"does, received another: {reason}. `python -m plimsoll migrate {file}` "
                      "rewrites it where it can.")  # fmt: skip
    asked.outcome.steps.add(place)
    asked.outcome.told.add((site, reason))
    asked.say(f"{site}: a step of {optimizer.name} runs in TensorFlow, untouched: {reason}. "
              f"`python -m plimsoll migrate {file}` rewrites it where it can.")  # fmt: skip


def watch_optimizers(module: Any) -> None:
    """Watches the class of optimizers in Keras's module of them."""
    cls = getattr(module, "BaseOptimizer", None)
    if cls is None or MARK in vars(cls):
        return
    import functools

    def named(own: Any) -> Any:
        @functools.wraps(own)
        def method(self: Any, *arguments: Any, **words: Any) -> Any:
            _name(self)
            return own(self, *arguments, **words)

        vars(method)["autograph_info__"] = None
        return method

    for name in ("apply_gradients", "apply"):
        own = vars(cls).get(name)
        if isinstance(own, type(named)) and not hasattr(own, "__wrapped__"):
            setattr(cls, name, named(own))
    setattr(cls, MARK, True)
