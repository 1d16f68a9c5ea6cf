"""What backends have in common on which no memory is measured: a step is cut where it runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plimsoll.guard import sizes as guard_sizes
from plimsoll.guard.base import ALL, Base, mib


class Unmeasured(Base):
    """`train` of those that derive from it stands in place of Keras's train function."""

    saved = None  # states for another start are not written here
    passes = False
    named = ("", "")  # the backend, and who raises there
    _keras: Any = None  # Keras's train function, while a method of Keras's runs
    _said = ""  # by the backend, when a step failed last

    def run(self, in_keras: Callable[[], Any], where: str) -> Any:
        """Keras's own method, with this in the place of its train function."""
        model, self.where = self._model(), where
        if self.limit is not None and not self._on_gpu:
            backend, who = self.named
            self.say(
                f"on {backend} the limit of {mib(self.limit)} is not kept: the memory of a step is "
                f"not measured, and it is done in parts where {who} raises for memory alone."
            )
        if self.is_never:
            return in_keras()
        model.make_train_function()
        self._keras, ours = model.train_function, self.train
        model.train_function = ours
        try:
            return in_keras()
        finally:
            if model.train_function is ours:
                model.train_function = self._keras
            self._keras = None

    def train(self, *given: Any) -> Any:
        """As Keras's train function of the backend."""
        raise NotImplementedError

    def look(self) -> None:
        """Nothing is measured."""

    def _choose(self, step: Any, arrays: list[Any], batch: int) -> None:
        """How many samples at a time: as many as fitted in an earlier run."""
        known = guard_sizes.remembered(self._key(step.packing.key, batch))
        self.rows = ALL
        if known is not None and known < batch and self._is_approved(step, arrays, known):
            self.rows = known

    def _cannot(self, error: Exception) -> None:
        """A step that cannot be done in two functions."""
        text = str(error).strip().splitlines()
        self._leave_whole(f"its step cannot be done in parts ({type(error).__name__}"
                          f"{': ' + text[0][:100] if text else ''})")  # fmt: skip

    def _looked(self, coupled: Callable[[list[Any]], str], arrays: list[Any]) -> str:
        """What a look at the layers with a few samples finds; with two, where more do not fit."""
        try:
            return coupled(arrays)
        except Exception as error:
            if guard_sizes.is_of_memory(error) and int(arrays[0].shape[0]) > 2:
                return self._looked(coupled, [one[:2] for one in arrays])
            return f"its layers cannot be looked at ({type(error).__name__})"

    def _done(self, step: Any, batch: int, rows: int) -> None:
        if self._is_checked:
            return
        self._is_checked = True
        guard_sizes.remember(self._key(step.packing.key, batch), rows, 0)
        if rows < batch:
            self._say_parts(batch, rows)
