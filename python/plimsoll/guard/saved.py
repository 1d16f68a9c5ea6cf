"""The state of each `fit` on disk, so that a program that the kernel has killed can go on.

A program is started again as a whole (programs/again.py) and comes to the same calls of `fit`,
which are known by their order. One that was over gives what it gave; one that was not goes on with
the step at which it was saved last. Batches that have been trained are taken from the data once
more and compared with what was trained: where they come in another order the epoch begins anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any, NoReturn

from plimsoll import asked
from plimsoll.guard import proof as guard_proof
from plimsoll.guard.step import build_optimizer, changing

_SHARE = 30  # a state is written once this many times as long as that takes has passed
_LOOKED_AT = 1 << 16  # bytes of a tensor by which a batch is known
_PLAIN = (bool, int, float, str, type(None))
_OF_PROCESS = ("_profiler_started", "_is_tracing")  # what a callback counts of this process alone
_BETWEEN, _IN_STEP = b"0", b"1"  # the first byte of what tells what the program does


def _arrays(data: Any) -> list[Any]:
    """The arrays of a batch, as an iterator gives it."""
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
    """How many samples a batch has."""
    return next((int(one.shape[0]) for one in _arrays(data) if one.ndim), 0)


def _digest(batch: Any) -> int:
    found = 0
    for data in _arrays(batch):
        if data.dtype == object:
            found = zlib.crc32(repr(data.tolist()[:64]).encode(), found)
            continue
        flat = data.reshape(-1).view("uint8")
        # An odd step comes to each byte of a number, also to those that tell numbers apart.
        found = zlib.crc32(flat[:: flat.size // _LOOKED_AT | 1].tobytes(), found)
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
        """best: the weights that each callback keeps, or none. Raises OSError where there is no
        room: what was written before stays."""
        before = self._values if self.facts is not None else None
        count = (self.facts or {}).get("count", 0) + 1
        name = f"{self._path}-{count % 2}.values"  # the other one stays until the facts are new
        try:
            with open(name, "wb") as file:
                sizes = [file.write(one._value.numpy().tobytes()) for one in variables]
                kept = []
                for weights in best:
                    kept.append([[list(one.shape), one.dtype.name] for one in weights])
                    for one in weights:
                        file.write(one.tobytes())
            new = {**facts, "count": count, "file": os.path.basename(name), "sizes": sizes,
                   "needed": needed, "best": kept}  # fmt: skip
            _write(self._path + ".json", new)
        except OSError:
            _remove(name)
            raise
        self.facts = new
        if before is not None:
            _remove(before)

    def forget(self) -> None:
        if self.facts is not None:
            os.unlink(self._path + ".json")
            _remove(self._values)
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
    try:
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(facts, file)
    except OSError:
        _remove(path + ".part")
        raise
    os.replace(path + ".part", path)


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


def _kept(value: Any) -> Any:
    """One value of a History as JSON: numbers, arrays, and the text of anything else."""
    import numpy as np

    one = np.asarray(value)
    if one.dtype.kind not in "biuf":
        return str(value)
    return {"of": one.dtype.name, "values": one.tolist()} if one.ndim else float(one)


def _of_kept(one: Any) -> Any:
    """What `_kept` was given."""
    import numpy as np

    return np.asarray(one["values"], one["of"]) if isinstance(one, dict) else one


def _variables(model: Any) -> tuple[list[Any], int]:
    """All that a step changes, each once; how many of them are the model's and its optimizer's."""
    found = {id(one): one for one in [*model.variables, *model.optimizer.variables]}
    needed = len(found)
    found |= {id(one): one for one in changing(model)}
    return list(found.values()), needed


def _kind(model: Any) -> list[Any]:
    return [type(model.optimizer).__name__, [type(one).__name__ for one in model.layers]]


def _plain_of(callback: Any) -> dict[str, Any]:
    """What a callback counts, as JSON has it."""
    import numpy as np

    found = {}
    for name, value in vars(callback).items():
        if isinstance(value, np.generic) or isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if type(value) in _PLAIN and name not in _OF_PROCESS:
            found[name] = value
    return found


def _listed(callbacks: Any) -> list[Any]:
    import keras

    own = callbacks
    if isinstance(callbacks, keras.callbacks.CallbackList):
        own = callbacks.callbacks
    return [one for one in keras.tree.flatten(own) if one is not None]


def _is_of_keras(callback: Any) -> bool:
    return type(callback).__module__.startswith("keras.")


class _Follows:
    """In place of one of the program's callbacks where batches may be left out: it is told of those
    that are trained. All else is the callback's own."""

    def __init__(self, own: Any, leaves_out: Callable[[], bool], resumes: bool) -> None:
        import keras

        self._own, self._leaves_out = own, leaves_out
        self._held: tuple[Any, ...] | None = None  # what it was not told yet
        # Its own state is older than ours, and may have been killed while it was written.
        self._restores = resumes and type(own) is keras.callbacks.BackupAndRestore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def on_train_begin(self, logs: Any = None) -> None:
        if not self._restores:
            self._own.on_train_begin(logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._held = (batch, logs)
        if not self._leaves_out():
            self.release()

    def release(self) -> None:
        """The batch is trained after all."""
        if self._held is not None:
            batch, logs = self._held
            self._held = None
            self._own.on_train_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._held is None:
            self._own.on_train_batch_end(batch, logs=logs)


class Over(Exception):
    """Ends Keras's fit with its first batch: it was over before the program was killed."""

    def __init__(self, history: Any) -> None:
        super().__init__()
        self.history = history


def _is_later(one: _Slot, other: _Slot) -> bool:
    facts = [(slot.facts["epoch"], slot.facts["over"], len(slot.facts["digests"]))
             if slot.facts is not None else (-1, False, 0) for slot in (one, other)]  # fmt: skip
    return facts[0] > facts[1]


class Saved:
    """The state of one call of `fit`. index: its number in the process, from 1."""

    def __init__(self, model: Any, index: int, given: asked.Restart, where: str) -> None:
        self._model, self._given, self._where = model, given, where
        base = os.path.join(given.folder, f"fit{index}")
        self._doing, self._fatal = base + ".doing", base + ".killed"
        self._file: int | None = None  # of what is being done
        self._tells, self._never, self._length = True, "", 0
        self._epoch_slot, self._now = _Slot(base + ".epoch"), _Slot(base + ".step")
        self._from = self._now if _is_later(self._now, self._epoch_slot) else self._epoch_slot
        self._callbacks: list[Any] = []
        self._follows: list[_Follows] = []
        self._before: list[Any] = []  # what the callbacks count before the epoch's first batch
        self.epoch = self._step = 0
        self._digests: list[int] = []
        self._skips: list[int] = []  # digests of batches that have been trained
        self._next_save = 0.0
        self._is_ahead = False  # of what was saved
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
            with open(self._fatal, encoding="utf-8") as file:
                done: dict[str, Any] = json.loads(file.read()[1:])
        except (OSError, ValueError):
            return {}
        return done

    def killed_with(self, batch: int) -> int:
        """Samples at a time, when the kernel killed the program in a step of this fit; 0: else."""
        return int(self._killed["rows"]) if self._killed.get("batch") == batch else 0

    def mark(self, rows: int, batch: int) -> None:
        """Before a step or a measurement."""
        is_other, self._marked = self._marked != (rows, batch), (rows, batch)
        self._tell(_IN_STEP, is_other)

    def never(self, reason: str) -> None:
        """A batch of this fit is not cut, so another start would end like this one."""
        self._never = reason
        self._tell(_BETWEEN, True)

    def _tell(self, first: bytes, is_new: bool = False) -> None:
        """What is being done now, for the process that waits. Between steps a byte is written."""
        if not self._tells:
            return
        told = first
        if is_new:
            rows, batch = self._marked
            found = {"rows": rows, "batch": batch, "where": self._where, "never": self._never}
            told += json.dumps(found).encode()
            self._length = max(self._length, len(told))
            told = told.ljust(self._length)  # nothing is left of what was there before
        try:
            if self._file is None:
                self._file = os.open(self._doing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.pwrite(self._file, told, 0)
        except OSError as error:
            self._tells = False
            _remove(self._doing)
            asked.say(f"{self._where}: it cannot be noted what the program does, so it is not "
                      f"started again from here on: {error}.")  # fmt: skip

    def begin(self) -> None:
        self._tell(_BETWEEN, True)

    def close(self) -> None:
        """Keras's fit has ended, in any way: nothing that comes now is blamed on it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._tells = False
        _remove(self._doing)

    # What Keras's fit is called with, and what is there when it is over.

    def arguments(self, verbose: Any, callbacks: Any, initial_epoch: int) -> tuple[Any, Any, int]:
        """The program's callbacks between two of ours, and the epoch to begin with."""
        import keras

        self._callbacks = _listed(callbacks)
        first, last = _own_callbacks(self)
        if isinstance(callbacks, keras.callbacks.CallbackList):
            asked.say(f"{self._where}: with a CallbackList of the program's own no state is saved.")
            self._resumes = self._saves = False
            return verbose, callbacks, initial_epoch
        if self._is_over:  # its first batch is asked for, by which the model is built
            return 0, [first], initial_epoch
        if self._resumes:
            initial_epoch = int(self._facts["epoch"])
            for one in self._callbacks:
                if isinstance(one, keras.callbacks.CSVLogger) and self._facts["epochs"]:
                    one.append = True
        seen = (keras.callbacks.History, keras.callbacks.ProgbarLogger)  # Keras looks for these
        told = [one if isinstance(one, seen) else
                _Follows(one, lambda: bool(self._skips), self._resumes)
                for one in self._callbacks]  # fmt: skip
        self._follows = [one for one in told if isinstance(one, _Follows)]
        return verbose, [first, *told, last], initial_epoch

    @property
    def _facts(self) -> dict[str, Any]:
        assert self._from.facts is not None
        return self._from.facts

    @property
    def _is_over(self) -> bool:
        return self._resumes and bool(self._facts["over"])

    def over(self, callbacks: Any) -> Any:
        """The History of a fit that was over, whose state is there again; None: it was not, or the
        model is not built yet."""
        layers = guard_proof.layers_of(self._model)
        if not self._is_over or not all(one.built for one in layers):
            return None
        build_optimizer(self._model)
        if not self._from.assign(*_variables(self._model)):
            return None
        self._callbacks = _listed(callbacks)
        return self._finished()

    def _finished(self) -> Any:
        import keras

        self._model.history = history = keras.callbacks.History()
        history.set_model(self._model)
        for one in self._callbacks:
            one.set_model(self._model)
        self._put_back(self._from)
        return history

    def end(self) -> None:
        """Keras's fit has returned."""
        if self._saves and not self._is_new:
            self._write(self._now, self._states(), over=True)
        if self._saves:
            self._epoch_slot.forget()
            _remove(self._fatal)

    # While it runs.

    def _begin_epoch(self, epoch: int) -> None:
        """When all callbacks have had their `on_train_begin`, or the end of the last epoch."""
        if self._is_over:
            return
        if self._is_new and self._resumes:
            anew = self._put_back(self._from)
            if anew:
                asked.say(f"{self._where}: {', '.join(anew)}: begins anew.")
            self._skips = list(self._facts["digests"])
            self.epoch = epoch
            return
        self.epoch, self._step, self._digests = epoch, 0, []
        self._skips = []

    def _begin_batch(self) -> None:
        """Before the callbacks are told of it."""
        if self._step == 0:
            self._before = self._states()

    def _end_batch(self) -> None:
        """When all callbacks have been told of it."""
        if self._saves and self._is_ahead and time.monotonic() >= self._next_save:
            self._write(self._now, self._states())

    def _put_back(self, slot: _Slot) -> list[str]:
        """History, and what Keras's callbacks count; names of those that begin anew."""
        history, facts = self._model.history, slot.facts
        assert facts is not None
        history.epoch = list(facts["epochs"])
        history.history = {name: [_of_kept(one) for one in values]
                           for name, values in facts["history"].items()}  # fmt: skip
        anew = []
        for callback, state, best in zip(self._callbacks, facts["callbacks"], slot.best()):
            if not _is_of_keras(callback):
                anew.append(type(callback).__name__)
                continue
            if type(callback).__name__ != "CSVLogger":  # its file goes on
                vars(callback).update(state)
            if best:
                callback.best_weights = best
        return anew

    def has_trained(self, data: Any) -> bool:
        """Whether this batch has been trained before the program was killed. Raises Over where the
        whole fit was over."""
        if not self._saves:
            return False
        if self._is_new:
            if not self._build(data):
                return False
            self._is_new = False
            if self._resumes:
                self._go_on(data)
        if self._step == 0 and not self._skips:
            self._write(self._epoch_slot, self._before)
        found = _digest(data)
        if self._skips and self._skips[0] != found:
            self._begin_epoch_anew(len(self._digests))
        self._digests.append(found)
        if not self._skips:
            for one in self._follows:
                one.release()
            return False
        del self._skips[0]
        self._step += 1
        return True

    def _build(self, data: Any) -> bool:
        """Before the first batch: the model and its optimizer. False: Keras cannot yet."""
        from keras.src import backend, tree
        from keras.src.trainers.data_adapters import data_adapter_utils as own

        def symbol(one: Any) -> Any:
            shape = [None, *one.shape[1:]] if len(one.shape) else []
            return backend.KerasTensor(shape, backend.standardize_dtype(one.dtype))

        model = self._model
        if not all(one.built for one in guard_proof.layers_of(model)):
            x = own.unpack_x_y_sample_weight(data)[0]
            try:
                backend.compute_output_spec(model, tree.map_structure(symbol, x), training=False)
            except Exception as error:
                if self._resumes:
                    raise
                self._stop(f"the model cannot be built before its first step: {error}")
                return False
        build_optimizer(model)
        return True

    def _stop(self, why: str) -> None:
        self._saves = False
        asked.say(f"{self._where}: the state of this fit is not saved from here on: {why}")

    def _go_on(self, data: Any) -> None:
        """All but metrics is built now."""
        from keras.src.trainers.data_adapters import data_adapter_utils as own

        model = self._model
        if not all(getattr(one, "built", True) for one in model.metrics):
            batch = own.unpack_x_y_sample_weight(data)
            model._symbolic_build(data_batch=tuple(one for one in batch if one is not None))
        if self._from.assign(*_variables(model)):
            if self._is_over:
                raise Over(self._finished())
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
            self._put_back(slot)
            self._skips, self._step = [], 0
            asked.say(f"{self._where}: its data come in another order than before: epoch "
                      f"{self.epoch + 1} is done again from its beginning.")  # fmt: skip
            return
        self._start_over(seen)

    def _start_over(self, seen: int) -> NoReturn:
        """With the state at the begin of an epoch, by another start of the program. Ends the
        process at once, as the kernel did: nothing but output is written out."""
        asked.say(f"{self._where}: its data come in another order than before, after {seen} "
                  f"batches of epoch {self.epoch + 1}: the program is started once more, and the "
                  "epoch done again from its beginning.")  # fmt: skip
        _write(os.path.join(self._given.folder, "again"), {})
        self._now.forget()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, or none
                stream.flush()
        os._exit(asked.START_AGAIN)

    def stepped(self) -> None:
        """After a step."""
        self._step += 1
        self._is_ahead = True
        self._tell(_BETWEEN)

    def _states(self) -> list[dict[str, Any]]:
        """What Keras's callbacks count."""
        return [_plain_of(one) if _is_of_keras(one) else {} for one in self._callbacks]

    def _write(self, slot: _Slot, states: list[dict[str, Any]], over: bool = False) -> None:
        began = time.monotonic()
        history = getattr(self._model, "history", None)
        facts = {
            "kind": _kind(self._model), "epoch": self.epoch, "over": over,
            "digests": self._digests[: self._step], "where": self._where,
            "epochs": list(getattr(history, "epoch", [])),
            "history": {name: [_kept(one) for one in values]
                        for name, values in getattr(history, "history", {}).items()},
            "callbacks": states,
        }  # fmt: skip
        best = [getattr(one, "best_weights", None) or [] if _is_of_keras(one) else []
                for one in self._callbacks]  # fmt: skip
        try:
            slot.write(facts, *_variables(self._model), best)
        except OSError as error:
            self._stop(f"{error.strerror or error} ({self._given.folder}).")
        self._is_ahead = False
        took = time.monotonic() - began
        self._next_save = time.monotonic() + _SHARE * took


def _own_callbacks(saved: Saved) -> list[Any]:
    """The one in front of the program's, and the one after them."""
    import keras

    class First(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            saved._begin_epoch(epoch)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            saved._begin_batch()

    class Last(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            if saved._resumes:  # where BackupAndRestore has named another epoch
                self.model._initial_epoch = None

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            saved._end_batch()

    return [First(), Last()]


_count = 0


def begin(model: Any, where: str) -> Saved | None:
    """What is kept of the next fit of this process; None: nobody asked for restarts."""
    global _count
    what = asked.current
    if what is None or what.restart is None:
        return None
    _count += 1
    found = Saved(model, _count, what.restart, where)
    found.begin()
    return found
