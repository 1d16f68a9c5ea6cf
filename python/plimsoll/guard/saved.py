"""The state of each `fit` on disk, so that a program that the kernel has killed can go on.

A program is started again as a whole (programs/again.py) and comes to the same calls of `fit`,
which are known by their order. One that was over gives what it gave; one that was not goes on with
the step at which it was saved last. Batches that have been trained are taken from the data once
more and compared with what was trained: where they come in another order the epoch begins anew.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from typing import Any, NoReturn

from plimsoll import asked
from plimsoll.guard.step import build_optimizer, changing

AGAIN = 75  # the exit code that asks for another start, with nothing wrong
_SHARE = 30  # a state is written once this many times as long as that takes has passed
_LOOKED_AT = 1 << 16  # bytes of a tensor by which a batch is known
_PLAIN = (bool, int, float, str, type(None))


def _arrays(data: Any) -> list[Any]:
    """Of a batch as an iterator gives it."""
    import keras
    import numpy as np

    found: list[Any] = []
    for one in keras.tree.flatten(data):
        parts = [one]
        if hasattr(one, "flat_values"):  # ragged
            parts = [one.flat_values, *one.nested_row_splits]
        elif hasattr(one, "dense_shape"):  # sparse
            parts = [one.indices, one.values]
        found += [np.asarray(part) for part in parts if part is not None]
    return found


def samples_of(data: Any) -> int:
    """Of a batch."""
    return next((int(one.shape[0]) for one in _arrays(data) if one.ndim), 0)


def _digest(batch: Any) -> int:
    found = 0
    for data in _arrays(batch):
        if data.dtype == object:
            found = zlib.crc32(repr(data.tolist()[:64]).encode(), found)
            continue
        flat = data.reshape(-1).view("uint8")
        found = zlib.crc32(flat[:: max(1, flat.size // _LOOKED_AT)].tobytes(), found)
    return found


class _Slot:
    """One saved state: facts as JSON, variables beside it. The facts are replaced last."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.facts: dict[str, Any] | None = None
        try:
            with open(path + ".json", encoding="utf-8") as file:
                self.facts = json.load(file)
        except (OSError, ValueError):
            return

    def write(
        self, facts: dict[str, Any], variables: list[Any], needed: int, best: list[Any]
    ) -> None:
        """best: the weights that each callback keeps, or none."""
        count = (self.facts or {}).get("count", 0) + 1
        name = f"{self._path}-{count % 2}.values"  # the other one stays until the facts are new
        with open(name, "wb") as file:
            sizes = [file.write(one._value.numpy().tobytes()) for one in variables]
            kept = []
            for weights in best:
                kept.append([[list(one.shape), one.dtype.name] for one in weights])
                for one in weights:
                    file.write(one.tobytes())
        self.facts = {**facts, "count": count, "file": os.path.basename(name), "sizes": sizes,
                      "needed": needed, "best": kept}  # fmt: skip
        _write(self._path + ".json", self.facts)

    def forget(self) -> None:
        if self.facts is not None:
            os.unlink(self._path + ".json")
            self.facts = None

    def best(self) -> list[list[Any]]:
        """The weights that each callback kept."""
        import numpy as np

        assert self.facts is not None
        found: list[list[Any]] = []
        with open(self._values, "rb") as file:
            file.seek(sum(self.facts["sizes"]))
            for weights in self.facts["best"]:
                found.append([])
                for shape, name in weights:
                    kind = np.dtype(name)
                    count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
                    one = np.frombuffer(file.read(count), kind).reshape(shape)
                    found[-1].append(one.copy())
        return found

    @property
    def _values(self) -> str:
        assert self.facts is not None
        return os.path.join(os.path.dirname(self._path), self.facts["file"])

    def assign(self, variables: list[Any], needed: int) -> bool:
        """False: the first ones, as many as needed, are others than those that were saved. The rest
        may not be there yet: metrics, before a model has been trained."""
        import numpy as np

        assert self.facts is not None
        sizes = self.facts["sizes"]
        if needed != self.facts["needed"]:
            return False
        if len(variables) != len(sizes):
            variables = variables[:needed]
        values = []
        with open(self._values, "rb") as file:
            for one, count in zip(variables, sizes):
                like = one._value.numpy()
                if like.nbytes != count:
                    return False
                values.append(np.frombuffer(file.read(count), like.dtype).reshape(like.shape))
        for one, value in zip(variables, values):
            one._value.assign(value)
        return True


def _write(path: str, facts: dict[str, Any]) -> None:
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(facts, file)
    os.replace(path + ".part", path)


def _variables(model: Any) -> tuple[list[Any], int]:
    """All that a step changes, each once; how many of them are the model's and its optimizer's."""
    found = {id(one): one for one in [*model.variables, *model.optimizer.variables]}
    needed = len(found)
    found |= {id(one): one for one in changing(model)}
    return list(found.values()), needed


def _kind(model: Any) -> list[Any]:
    return [type(model.optimizer).__name__, [type(one).__name__ for one in model.layers]]


def _plain_of(callback: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(callback).items()
            if type(value) in _PLAIN or type(value).__module__ == "numpy" and not value.shape
            }  # fmt: skip


def _listed(callbacks: Any) -> list[Any]:
    import keras

    own = callbacks
    if isinstance(callbacks, keras.callbacks.CallbackList):
        own = callbacks.callbacks
    return [one for one in keras.tree.flatten(own) if one is not None]


def _is_of_keras(callback: Any) -> bool:
    return type(callback).__module__.startswith("keras.")


def _is_later(one: _Slot, other: _Slot) -> bool:
    facts = [(slot.facts["epoch"], slot.facts["over"], len(slot.facts["digests"]))
             if slot.facts is not None else (-1, False, 0) for slot in (one, other)]  # fmt: skip
    return facts[0] > facts[1]


class Saved:
    """Of one call of `fit`. index: the how manieth of the process."""

    def __init__(self, model: Any, index: int, given: asked.Restart, where: str) -> None:
        self._model, self._given, self._where = model, given, where
        base = os.path.join(given.folder, f"fit{index}")
        self._doing = base + ".doing"
        self._epoch_slot, self._now = _Slot(base + ".epoch"), _Slot(base + ".step")
        self._from = self._now if _is_later(self._now, self._epoch_slot) else self._epoch_slot
        self._callbacks: list[Any] = []
        self.epoch = self._step = 0
        self._digests: list[int] = []
        self._skips: list[int] = []  # digests of batches that have been trained
        self._next_save = 0.0
        self._marked = (0, 0)
        self._is_new = True  # nothing of this call has run yet
        self._saves = True
        self._resumes = self._usable()
        self._killed = self._last() if self._resumes else {}

    def _usable(self) -> bool:
        facts = self._from.facts
        if facts is None or not self._given.attempt:
            return False
        if facts["kind"] == _kind(self._model):
            return True
        asked.say(f"{self._where}: the program has come to another model than before: this fit "
                  "begins anew.")  # fmt: skip
        return False

    # What the kernel has seen last.

    def _last(self) -> dict[str, Any]:
        try:
            with open(self._doing, encoding="utf-8") as file:
                done: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return {}
        return done

    def killed_with(self, batch: int) -> int:
        """Samples at a time, when the kernel killed the program in this fit; 0: elsewhere."""
        return int(self._killed["rows"]) if self._killed.get("batch") == batch else 0

    def mark(self, rows: int, batch: int) -> None:
        """Before a step or a measurement, where the size is new."""
        if self._marked != (rows, batch):
            self._marked = (rows, batch)
            _write(self._doing, {"rows": rows, "batch": batch, "where": self._where})

    # What Keras's fit is called with, and what is there when it is over.

    def arguments(self, callbacks: Any, initial_epoch: int) -> tuple[Any, int]:
        """The program's callbacks with one of ours in front, and the epoch to begin with."""
        import keras

        saved = self

        class Follows(keras.callbacks.Callback):  # type: ignore[misc]
            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                saved._begin_epoch(epoch)

        self._callbacks = _listed(callbacks)
        if self._resumes:
            initial_epoch = int(self._facts["epoch"])
            for one in self._callbacks:
                if isinstance(one, keras.callbacks.CSVLogger) and self._facts["epochs"]:
                    one.append = True
        if isinstance(callbacks, keras.callbacks.CallbackList):
            asked.say(f"{self._where}: with a CallbackList of the program's own no state is saved.")
            self._resumes = self._saves = False
            return callbacks, initial_epoch
        return [Follows(), *self._callbacks], initial_epoch

    @property
    def _facts(self) -> dict[str, Any]:
        assert self._from.facts is not None
        return self._from.facts

    def over(self, callbacks: Any) -> Any:
        """The History of a fit that was over, whose state is there again; None: it was not."""
        if not self._resumes or not self._facts.get("over") or not self._model.built:
            return None
        import keras

        build_optimizer(self._model)
        if not self._from.assign(*_variables(self._model)):
            return None
        self._model.history = history = keras.callbacks.History()
        history.set_model(self._model)
        self._callbacks = _listed(callbacks)
        for one in self._callbacks:
            one.set_model(self._model)
        self._put_back()
        return history

    def end(self) -> None:
        """Keras's fit has returned."""
        if self._saves and not self._is_new:
            self._write(self._now, over=True)
        if os.path.exists(self._doing):
            os.unlink(self._doing)

    def never(self, reason: str) -> None:
        """A batch of this fit is not cut, so another start would end like this one."""
        _write(self._doing, {"rows": 0, "batch": 0, "where": self._where, "never": reason})

    # While it runs.

    def _begin_epoch(self, epoch: int) -> None:
        """When all callbacks have had their `on_train_begin`, or the end of the last epoch."""
        if self._is_new and self._resumes:
            self._put_back()
            self._skips = list(self._facts["digests"])
            self.epoch = epoch
            return
        self.epoch, self._step, self._digests = epoch, 0, []
        self._skips = []

    def _put_back(self) -> None:
        """History, and what Keras's callbacks count."""
        history, facts = self._model.history, self._facts
        history.epoch, history.history = list(facts["epochs"]), dict(facts["history"])
        anew = []
        for callback, state, best in zip(self._callbacks, facts["callbacks"], self._from.best()):
            if not _is_of_keras(callback):
                anew.append(type(callback).__name__)
                continue
            if type(callback).__name__ != "CSVLogger":  # its file goes on
                vars(callback).update(state)
            if best:
                callback.best_weights = best
        if anew and not facts["over"]:
            asked.say(f"{self._where}: {', '.join(anew)}: begins anew.")

    def has_trained(self, data: Any) -> bool:
        """Whether this batch has been trained before the program was killed."""
        if not self._saves:
            return False
        if self._is_new:
            self._is_new = False
            build_optimizer(self._model)
            if self._resumes:
                self._go_on(data)
        if self._step == 0 and not self._skips:
            self._write(self._epoch_slot)
        found = _digest(data)
        if self._skips and self._skips[0] != found:
            self._begin_epoch_anew(len(self._digests))
        self._digests.append(found)
        if not self._skips:
            return False
        del self._skips[0]
        self._step += 1
        return True

    def _go_on(self, data: Any) -> None:
        """Before the first batch: all but metrics is built now."""
        from keras.src.trainers.data_adapters import data_adapter_utils as own

        model = self._model
        if not all(getattr(one, "built", True) for one in model.metrics):
            batch = own.unpack_x_y_sample_weight(data)
            model._symbolic_build(data_batch=tuple(one for one in batch if one is not None))
        if self._from.assign(*_variables(model)):
            done = f"after step {len(self._skips)} of" if self._skips else "with"
            asked.say(f"{self._where}: goes on {done} epoch {self.epoch + 1}.")
            return
        raise RuntimeError(f"{self._where}: expected the variables that were saved before the "
                           "program was killed, received others.")  # fmt: skip

    def _begin_epoch_anew(self, seen: int) -> None:
        """The data come in another order than before."""
        slot = self._epoch_slot
        assert slot.facts is not None
        if seen == 0 and slot.facts["epoch"] == self.epoch:
            slot.assign(*_variables(self._model))
            self._skips, self._step = [], 0
            asked.say(f"{self._where}: its data come in another order than before: epoch "
                      f"{self.epoch + 1} is done again from its beginning.")  # fmt: skip
            return
        self._start_over()

    def _start_over(self) -> NoReturn:
        """With the state at the begin of an epoch, by another start of the program."""
        self._now.forget()
        _write(os.path.join(self._given.folder, "again"), {})
        os._exit(AGAIN)

    def stepped(self) -> None:
        """After a step."""
        self._step += 1
        if self._saves and time.monotonic() >= self._next_save:
            self._write(self._now)

    def _write(self, slot: _Slot, over: bool = False) -> None:
        began = time.monotonic()
        history = getattr(self._model, "history", None)
        facts = {
            "kind": _kind(self._model), "epoch": self.epoch, "over": over,
            "digests": self._digests[: self._step], "where": self._where,
            "epochs": list(getattr(history, "epoch", [])),
            "history": {name: [float(one) for one in values]
                        for name, values in getattr(history, "history", {}).items()},
            "callbacks": [_plain_of(one) if _is_of_keras(one) else {} for one in self._callbacks],
        }  # fmt: skip
        best = [getattr(one, "best_weights", None) or [] for one in self._callbacks]
        slot.write(facts, *_variables(self._model), best)
        took = time.monotonic() - began
        self._next_save = time.monotonic() + _SHARE * took


_count = 0


def begin(model: Any, where: str) -> Saved | None:
    """Of the next fit of this process; None: nobody asked for restarts."""
    global _count
    what = asked.current
    if what is None or what.restart is None:
        return None
    _count += 1
    return Saved(model, _count, what.restart, where)
