"""Keras's training methods as the engine does them, and Keras's own where it does not.

Each method has Keras's parameters. It is done natively where `plimsoll.fit` and its like accept
model and arguments; what they refuse before anything has changed is done by Keras's own method with
the same arguments, and one line says what was refused and where. The package's calls are the only
judge of what the engine takes: there is no list of it here.
"""

from __future__ import annotations

import sys

from plimsoll import asked
from plimsoll.surroundings import call_site, raised_here, sees_gpu

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


_GENERATOR = type((lambda: (yield))())  # as `types` has it, which need not be loaded for that


class _Refusals:
    """Models that Keras trains, so that they are not looked at again in every step."""

    def __init__(self) -> None:
        # By model: how it is compiled, whether it is built, and the methods; "": all of them.
        self._of: Any = {}  # one of weak keys, once there is a model

    def _methods(self, model: Any) -> set[str] | None:
        """The methods left to Keras, where a model is what it was when it was refused."""
        try:
            entry = self._of.get(model)
        except TypeError:  # it has no hash
            return None
        if entry is None or entry[0] is not getattr(model, "_compile_config", None):
            return None
        return entry[2] if entry[1] is model.built else None

    def has(self, model: Any, method: str) -> bool:
        methods = self._methods(model)
        return methods is not None and ("" in methods or method in methods)

    def add(self, model: Any, method: str) -> None:
        methods = self._methods(model)
        if methods is not None:
            methods.add(method)
            return
        if not self._of:
            import weakref

            self._of = weakref.WeakKeyDictionary()
        try:
            self._of[model] = (getattr(model, "_compile_config", None), model.built, {method})
        except TypeError:
            pass


_refusals = _Refusals()


def _trains_with_others(method: str) -> bool:
    """Whether the method is that of ranks which train together."""
    module: Any = sys.modules.get("plimsoll.model.shared")
    return method == "fit" and module is not None and bool(module.trains_together())


def _is_refused(model: Any, method: str) -> bool:
    """As it was before; of ranks each is asked again, since the others wait for its answer."""
    return _refusals.has(model, method) and not _trains_with_others(method)


def _tell(model: Any, method: str, reason: str, how: str) -> None:
    """Once for a model and a reason; models that a loop makes at one place are one."""
    import re

    site = call_site()
    alike = re.sub(r"_\d+\b|\b0x[0-9a-f]+", "", reason)
    keys = {(model.name, reason), (site, alike)}
    if not keys & asked.outcome.told:
        asked.say(f"{site}: {method} of {model.name} runs in Keras, {how}: {reason}")
    asked.outcome.told |= keys


class Source:
    """The argument x; where it is a generator, its first batch is kept until it is known whose."""

    def __init__(self, x: Any) -> None:
        self._own = x
        self.x = self if isinstance(x, _GENERATOR) else x
        self._first: list[Any] = []
        self._count = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = next(self._own)
        self._first = [batch] if self._count == 0 else []
        self._count += 1
        return batch

    @property
    def is_whole(self) -> bool:
        """Whether Keras can still be given all of it."""
        return self._count <= 1

    def again(self) -> Any:
        if self._count == 0:
            return self._own

        def chained() -> Iterator[Any]:  # Keras takes generators, and no other iterators
            yield from self._first
            yield from self._own

        return chained()


def reason_of_program(what: asked.Asked) -> str:
    """What keeps every model in Keras."""
    if what.engine == "keras":
        return 'engine="keras" was asked for.'
    keras: Any = sys.modules.get("keras")
    if keras is not None:
        from plimsoll.versions import why_not_backend

        other = why_not_backend(keras.backend.backend())
        if other:
            return other
    if what.engine == "auto" and sees_gpu():
        return 'Keras sees a GPU. engine="native" trains on the processor.'
    limits: Any = sys.modules.get("keras.src.backend.config")
    for name in ("max_epochs", "max_steps_per_epoch"):
        if getattr(limits, name, lambda: None)() is not None:
            return f"keras.config.{name} is set."
    return ""


def reason_of_engine() -> str:
    """Where it cannot be loaded."""
    if "plimsoll.calls" not in sys.modules:
        try:
            import plimsoll.calls  # noqa: F401
        except ImportError as error:
            return f"the engine cannot be loaded here: {error}"
    return ""


def check_sizes(model: Any, x: Any) -> None:
    """Raises Refused where batches may have different sizes, each of which needs a plan."""
    from plimsoll import data, sizes
    from plimsoll.errors import Refused

    if data.is_iterated(x) and sizes.open_inputs(model) and not sizes.are_told(x):
        raise Refused("its inputs leave sizes open, and the batches of x may differ in them.")


class Call:
    """One call of a method of the program's."""

    def __init__(self, model: Any, method: str, in_keras: Callable[[], Any]) -> None:
        self.model, self.method, self.in_keras = model, method, in_keras

    def run(self, natively: Callable[[], Any], is_whole: Callable[[], bool] = lambda: True) -> Any:
        """`is_whole`: whether Keras can still do all of it."""
        what = asked.current
        assert what is not None
        if not self._is_complete():
            return self.in_keras()  # which says so
        if not what.strict and not what.plans and _is_refused(self.model, self.method):
            from plimsoll.guard import decide as guard

            return guard.run(self.model, self.method, self.in_keras, what)
        reason = reason_of_program(what) or reason_of_engine()
        if reason:
            return self._leave(what, reason)
        try:
            answer = natively()
        except (ValueError, TypeError) as error:
            if not raised_here(error) or not is_whole():
                raise
            reason = self._reason(error)
        except BaseException:
            asked.outcome.taken += 1
            raise
        else:
            asked.outcome.taken += 1
            return answer
        return self._leave(what, reason)

    def _is_complete(self) -> bool:
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow is not None and not tensorflow.executing_eagerly():
            return False
        return self.model.compiled or self.method.startswith("predict")

    def _reason(self, error: Exception) -> str:
        """Why the engine does not do it; what of it is the model's is kept for the next calls."""
        from plimsoll.errors import Refused
        from plimsoll.model import live

        try:
            live.check_identity(self.model)
        except ValueError as of_model:
            _refusals.add(self.model, "")
            return str(of_model)
        if self.method.endswith("_on_batch") and isinstance(error, (Refused, TypeError)):
            _refusals.add(self.model, self.method)
        return str(error)

    def _leave(self, what: asked.Asked, reason: str) -> Any:
        """To Keras. Raises Refused where what is not native is not wanted."""
        if what.strict or (what.plans and self.method in ("fit", "train_on_batch")):
            from plimsoll.errors import Refused

            asked.outcome.refused += 1
            raise Refused(f"{call_site()}: {self.method} of {self.model.name} would run in Keras, "
                          "since the engine does not do it: "
                          f"{reason.removeprefix(f'{self.model.name}: ')}")  # fmt: skip
        if _trains_with_others(self.method):
            reason += " The ranks do not train together: each trains by itself."
        if not is_guarded(what, self.method):
            _tell(self.model, self.method, reason, "untouched")
            return self.in_keras()
        from plimsoll.guard import decide as guard

        _tell(self.model, self.method, reason, guard.how(self.model))
        return guard.run(self.model, self.method, self.in_keras, what)


def is_guarded(what: asked.Asked, method: str) -> bool:
    """Whether Keras's own steps are kept inside the limit."""
    needs_engine = what.memory is not None or what.restart is not None  # to read sizes
    if method not in ("fit", "train_on_batch") or not (needs_engine or what.engine == "keras"):
        return False
    return not needs_engine or not reason_of_engine()


def is_left(model: Any, method: str) -> bool:
    """Whether Keras's own method runs without further ado."""
    what = asked.current
    if what is None:
        return True
    if what.strict or what.plans or not _is_refused(model, method):
        return False
    if not is_guarded(what, method):
        return True
    from plimsoll.guard import decide as guard

    return guard.is_passing(model, method, what)
