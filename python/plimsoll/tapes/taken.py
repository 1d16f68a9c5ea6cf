"""Calls of training steps in a `tf.function`: by the engine where they are proved standard.

TensorFlow traces such a function once for each kind of arguments, and what its names stand for then
is what it uses from then on. The engine does likewise: a step is read, with the objects of that
moment, at the first call with arguments of a kind.
"""

from __future__ import annotations

import ast
import sys
from typing import Any

import numpy as np

from plimsoll import asked
from plimsoll.replaced import fallback
from plimsoll.surroundings import call_site, raised_here
from plimsoll.tapes.grammar import NotStandard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from plimsoll.tapes.steps import Runner

_KEPT = "_plimsoll_taken"


class _Left(Exception):
    """A call that TensorFlow does; with the reason."""


def _kind(value: Any) -> Any:
    """What of an argument makes TensorFlow trace anew. Raises _Left for no tensor."""
    if isinstance(value, dict):
        return tuple((key, _kind(one)) for key, one in value.items())
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return (type(value).__name__, *map(_kind, value))
    tensorflow: Any = sys.modules["tensorflow"]
    if isinstance(value, np.ndarray) and value.ndim:
        return value.shape, str(value.dtype)
    if type(value).__name__ == "EagerTensor" and isinstance(value, tensorflow.Tensor):
        if len(value.shape):
            return tuple(value.shape), value.dtype.name
    raise _Left(f"expected arrays or tensors of samples, received {type(value).__name__}")


def _specified(value: Any) -> Any:
    """Arguments that `_kind` knows, without their numbers."""
    if isinstance(value, dict):
        return {key: _specified(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_specified(one) for one in value])
    tensorflow: Any = sys.modules["tensorflow"]
    return tensorflow.TensorSpec(value.shape, value.dtype)


class _Function:
    """One tf.function, and the steps that were read of it."""

    def __init__(self, made: Any) -> None:
        from plimsoll.tapes import proof

        self.function, self.instance = proof.subject(made)
        self.name = getattr(self.function, "__name__", "a function")
        self.given = getattr(made, "input_signature", None)
        self.tree: ast.FunctionDef | None = None
        self.left = ""  # why all calls are TensorFlow's
        self.runners: dict[Any, Runner | str] = {}  # by kinds of arguments; a text: why not
        self.untraced: list[Any] = []  # arguments of each kind, as what TensorFlow traces by
        self.parameters: list[str] = []
        self._signature: Any = None

    def read(self) -> None:
        """Once. Sets `left` where it is no standard step."""
        from plimsoll.tapes import proof

        try:
            if self.given is not None:
                raise NotStandard(None, "an input_signature is given")
            self.tree = proof.tree_of(self.function)
            names = proof.Live(self.function, self.instance)
            proof.read(self.tree, names)
            self.parameters = names.parameters
        except NotStandard as error:
            self.left = proof.where(self.function, error)

    def arguments(self, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        import inspect

        if self._signature is None:
            signature = inspect.signature(self.function)
            if self.instance is not None:
                first, *rest = signature.parameters.values()
                signature = signature.replace(parameters=rest)
            self._signature = signature
        bound = self._signature.bind(*given, **named)
        bound.apply_defaults()
        return dict(bound.arguments)

    def runner(self, values: dict[str, Any], given: Any, named: Any) -> Runner:
        """The step for arguments of these kinds. Raises _Left."""
        kinds = tuple((name, _kind(value)) for name, value in values.items())
        found = self.runners.get(kinds)
        if found is None:
            found = self.runners[kinds] = self._made(values)
            if not isinstance(found, str):
                self.untraced.append((_specified(given), _specified(named)))
        if isinstance(found, str):
            raise _Left(found)
        return found

    def _made(self, values: dict[str, Any]) -> Runner | str:
        from plimsoll.tapes import proof, steps

        assert self.tree is not None
        try:
            step = proof.read(self.tree, proof.Live(self.function, self.instance))
            made = steps.Runner(step, values[step.x.id])  # type: ignore[union-attr]
        except NotStandard as error:
            return proof.where(self.function, error)
        except (ValueError, TypeError) as error:
            if not raised_here(error):
                raise
            return str(error)
        for other in self.runners.values():
            if not isinstance(other, str) and other.is_like(made):
                return other
        return made


def _is_plain() -> bool:
    """Whether a call is one that a program makes by itself, of no function or strategy or tape."""
    tensorflow: Any = sys.modules["tensorflow"]
    if not tensorflow.executing_eagerly() or tensorflow.config.functions_run_eagerly():
        return False
    if tensorflow.distribute.has_strategy():
        return False
    empty = getattr(sys.modules["tensorflow.python.pywrap_tfe"], "TFE_Py_TapeSetIsEmpty", None)
    return empty is not None and bool(empty())


def call(made: Any, own: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What a call of a function with a tape in it does; `own`: TensorFlow's."""

    def by_tensorflow() -> Any:
        return own(made, *given, **named)

    what = asked.current
    if what is None or "keras" not in sys.modules or not _is_plain():
        return by_tensorflow()
    kept: _Function | None = made.__dict__.get(_KEPT)
    if kept is None:
        kept = made.__dict__[_KEPT] = _Function(made)
        reason = fallback.reason_of_program(what) or fallback.reason_of_engine()
        kept.left = reason
        if not reason:
            kept.read()
    if kept.left:
        return _leave(kept, kept.left, what, by_tensorflow)
    try:
        values = kept.arguments(given, named)
    except TypeError:
        return by_tensorflow()  # which says what is wrong
    try:
        return _step(kept, kept.runner(values, given, named), values, what)
    except _Left as left:
        reason = str(left)
    return _leave(kept, reason, what, by_tensorflow)


def trace(made: Any) -> None:
    """Has TensorFlow trace what the engine has done, once for each kind of arguments.

    A function that is saved is its traces, and one that is asked how often it was traced should
    say so. Nothing runs; the variables that a first trace makes were made by the first step.
    """
    kept: _Function | None = made.__dict__.get(_KEPT)
    while kept is not None and kept.untraced:
        given, named = kept.untraced[0]
        made.get_concrete_function(*given, **named)
        kept.untraced.pop(0)


def _step(kept: _Function, runner: Runner, values: dict[str, Any], what: asked.Asked) -> Any:
    from plimsoll.tapes import steps

    x, y = (values[node.id] for node in (runner.step.x, runner.step.y))  # type: ignore[union-attr]
    if what.plans:
        from plimsoll.replaced import planned

        planned.end_with_step(runner.known, x, what.of_calls)
    try:
        answer = runner.run(x, y, steps.options())
    except (ValueError, TypeError) as error:
        if not raised_here(error):
            raise
        raise _Left(str(error)) from None
    except BaseException:
        asked.outcome.taken += 1
        raise
    asked.outcome.taken += 1
    return answer


def _leave(
    kept: _Function, reason: str, what: asked.Asked, by_tensorflow: Callable[[], Any]
) -> Any:
    """To TensorFlow. Raises Refused where what is not native is not wanted."""
    if what.strict or what.plans:
        from plimsoll.errors import Refused

        asked.outcome.refused += 1
        raise Refused(f"{call_site()}: {kept.name}: expected a training step that the "
                      f"engine does, received another: {reason}")  # fmt: skip
    key = (kept.name, reason)
    if key not in asked.outcome.told:
        asked.outcome.told.add(key)
        asked.say(f"{call_site()}: {kept.name} runs in TensorFlow, untouched: {reason}")
    return by_tensorflow()
