"""What is decided for a model whose training Keras does, whichever backend computes it."""

from __future__ import annotations

import re
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from plimsoll import asked, errors
from plimsoll.guard import proof as guard_proof
from plimsoll.guard import sizes as guard_sizes
from plimsoll.surroundings import sees_gpu

ALL = sys.maxsize  # samples of a part, where no limit is known
_NEAR = 4  # samples of the first batch by which the layers are looked at


def mib(count: int) -> str:
    return f"{count / guard_sizes.MIB:.1f} MiB"


def _limit(memory: int | str | None) -> int | None:
    if memory is None:
        return None
    from plimsoll.options import size  # what loads the engine

    return size(memory)


def samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count} samples"


class Base(ABC):
    """What is known of one compiled model, and decided for it."""

    def __init__(self, model: Any, what: asked.Asked) -> None:
        self._model: Callable[[], Any] = weakref.ref(model)
        self.limit, self._inexact = _limit(what.memory), what.inexact
        self._made_for = (model._compile_config, what.memory, what.inexact)
        self._on_gpu = sees_gpu()
        self.rows = 0  # samples of a part; 0: not known yet; ALL: as many as there are
        self._approved: set[str] = set()  # kinds of batches that may be cut
        self._is_checked = False  # whether a step of this size has been done
        self._told: set[str] = set()
        self.where = ""  # the program's call
        self._reason = guard_proof.why_never(model)  # it has been said
        self.is_never = bool(self._reason)

    @property
    def reason(self) -> str:
        """Why nothing is cut; empty where a batch may be."""
        return self._reason

    def is_for(self, model: Any, what: asked.Asked) -> bool:
        config, memory, inexact = self._made_for
        return config is model._compile_config and memory == what.memory and inexact == what.inexact

    def say(self, text: str, once: str = "") -> None:
        """once: what is said one time, whatever its numbers are."""
        if (once or text) not in self._told:
            self._told.add(once or text)
            asked.say(f"{self.where} of {self._model().name}: {text}")

    def _leave_whole(self, why: str) -> None:
        """Nothing is cut from now on."""
        self._reason, self.rows = why, ALL
        self.say(f"a batch is not cut into parts: {why}.")

    def _say_parts(self, batch: int, rows: int, taken: int = 0) -> None:
        most = f", {mib(taken)} at most" if taken else ""
        parts = -(-batch // rows)
        self.say(f"a batch of {samples(batch)} is trained in {parts} parts of {rows}{most}.")

    def _key(self, packing: str, batch: int) -> str:
        """By which the size that fits is found again in another run."""
        import keras

        model = self._model()
        layers = [f"{type(one).__module__}.{type(one).__qualname__}"
                  for one in guard_proof.layers_of(model)]  # fmt: skip
        weights = [(tuple(one.shape), str(one.dtype)) for one in model.variables]
        loss = re.sub(r"0x[0-9a-f]+", "", str(model.loss))
        backend = keras.backend.backend()
        others = () if backend == "tensorflow" else (backend,)
        return guard_sizes.digest(
            layers, weights, packing, batch, self.limit, keras.__version__, loss,
            type(model.optimizer).__qualname__, self._on_gpu, model.run_eagerly, model.jit_compile,
            *others,
        )  # fmt: skip

    @abstractmethod
    def _coupled(self, step: Any, tensors: list[Any]) -> str:
        """Evidence that samples change each other's predictions; empty: there is none."""

    def _no_memory(self, text: str) -> BaseException:
        """What is raised where memory has run out; it is the framework's own error too."""
        return errors.exhausted(text)

    def _may_cut(self, step: Any, tensors: list[Any], rows: int) -> bool:
        """Whether parts give what the whole gives; says why not, and what differs where they do."""
        few = [one[: min(max(rows, 2), _NEAR)] for one in tensors]
        why = "; ".join(step.traced.doubts) or self._coupled(step, few)
        if why and not self._inexact:
            self._leave_whole(f"{why}. --inexact cuts it all the same")
            return False
        differs = [f"it is cut all the same (--inexact), though {why}"] if why else []
        if step.has_statistics:
            differs.append("BatchNormalization takes its statistics of a part")
        if step.draws():
            differs.append("random layers draw other numbers")
        if step.acts:
            differs.append(f"its {step.acts} runs in each part")
        if differs:
            self.say(f"in parts it differs from a whole batch: {'; '.join(differs)}.")
        return True

    def _is_approved(self, step: Any, tensors: list[Any], rows: int) -> bool:
        """As _may_cut, asked once for batches of a kind."""
        key = step.packing.key
        if self._reason or (key not in self._approved and not self._may_cut(step, tensors, rows)):
            return False
        self._approved.add(key)
        return True

    def _shrink(self, step: Any, tensors: list[Any], rows: int, why: str) -> None:
        """After a step that failed and was undone."""
        if rows == 1 or self._reason or not self._is_approved(step, tensors, -(-rows // 2)):
            raise self._no_memory(
                f"{self.where} of {self._model().name}: a step with {samples(rows)} at a time does "
                f"not fit ({why}), and the batch is not cut further"
                f"{': ' + self._reason if self._reason else ''}. Name a smaller batch_size."
            )
        self.rows, self._is_checked = -(-rows // 2), False
        self.say(f"a step with {samples(rows)} at a time does not fit ({why}): it was undone, and "
                 f"is done again with {self.rows} at a time.")  # fmt: skip
