"""Keras's own engine inside the limit: training steps in parts where a whole batch takes too much.

Models that Keras trains, since the engine does not, come by here with `fit` and `train_on_batch`.
How many samples at a time fit is measured with the first batch (sizes.py); a step in parts
gives the gradient of the whole batch (step.py); what is not proved to do so is not cut
(proof.py). Where the whole batch fits, Keras's own function runs and nothing is in its way.

Where memory that runs out is an exception, on a GPU or with a limited address space, a step that
fails is undone and done again in smaller parts.
"""

from __future__ import annotations

import gc
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

from plimsoll import asked
from plimsoll.guard import proof as guard_proof
from plimsoll.guard import saved as guard_saved
from plimsoll.guard import sizes as guard_sizes
from plimsoll.guard.base import ALL, Base, mib, samples
from plimsoll.guard.jax_guard import JaxGuard
from plimsoll.guard.parts import (
    again,
    as_gradients,
    bytes_of,
    each_batch,
    merged,
    of_rows,
    ones,
    shares_of,
    tensors_of,
)  # fmt: skip
from plimsoll.guard.step import CutStep, Packing, State, build_optimizer, changing
from plimsoll.guard.torch_guard import TorchGuard
from plimsoll.guard.unmeasured import Unmeasured
from plimsoll.guard.validation import Validation
from plimsoll.surroundings import call_site

_LOOKS_EVERY_S = 0.25  # at the peak, while nothing is cut


class _Doubtful(Exception):
    """What is seen only when a step has been done in parts."""


class Guard(Base):
    """On TensorFlow; `train` stands in place of Keras's train function."""

    def __init__(self, model: Any, what: asked.Asked) -> None:
        super().__init__(model, what)
        self._raises = guard_sizes.may_raise(self._on_gpu)
        self.saved: guard_saved.Saved | None = None  # states of the call that runs
        if what.restart is not None and what.restart.attempt and not self._on_gpu:
            self.limit = guard_sizes.lower(self.limit, what.restart.attempt)
        self._measures = self.limit is not None and not self._on_gpu
        self._keras: Any = None
        self._validation: Validation | None = None  # of the call that runs
        self._steps: dict[str, CutStep] = {}
        self.passes = False  # Keras's own function runs
        self._gave_up = False  # as fewer samples do not take less
        self._over = 0  # bytes of the last step that passed the limit
        self._looked = 0.0
        self._shrinks_by = 0  # bytes that Keras's own function took, above the limit

    def begin(self, keras_function: Any, where: str, saved: guard_saved.Saved | None) -> None:
        self._keras, self.where, self.saved = keras_function, where, saved
        if saved is not None and self._reason:
            saved.never(self._reason)

    def begin_validation(self) -> None:
        if not guard_proof.makes_test_function(self._model()):
            self._validation = Validation(self, self._model())

    def end(self) -> None:
        self._keras = self.saved = None
        if self._validation is not None:
            self._validation.end()
            self._validation = None

    @property
    def measures(self) -> bool:
        """Whether peaks of memory can be seen, and are held to a limit."""
        return self._measures

    def rows_of(self, packing: Packing) -> int:
        """Samples of a part of such batches, where training has cut some alike; 0: it has not.

        Only by Keras's own code (what another does with a batch nobody knows), with one loss, a
        mean over samples (several have trackers of their own, which count batches), and metrics
        that are told of parts.
        """
        found = (one for one in self._steps.values() if one.packing.is_alike(packing))
        step = next(found, None)
        if step is None or self._reason or step.gathers:
            return 0
        if step.packing.key not in self._approved or not guard_proof.tests_as_keras(self._model()):
            return 0
        return self.rows if list(step.traced.shares.values()) == ["rows"] else 0

    def _forget_validation(self) -> None:
        """What it has taken is not the training step's that follows."""
        if self._validation is not None and self._validation.has_run:
            self._validation.has_run, self._looked = False, 0.0
            if self._measures:
                guard_sizes.release()

    def beside(self, in_keras: Callable[[], Any], where: str) -> Any:
        """A call that is Keras's or the program's alone; what it took is looked at when it ends."""
        self.where = where
        measures = self._measures and guard_sizes.reset_peak()
        answer = in_keras()
        taken = guard_sizes.peak(read_meanwhile=False) if measures else 0
        if self.limit is not None and taken > self.limit:
            self._passed(taken)
        return answer

    def look(self) -> None:
        """At the peak, now and then: what Keras's own function took."""
        now = time.monotonic()
        if not self._measures or now - self._looked < _LOOKS_EVERY_S:
            return
        if self._looked == 0.0:
            guard_sizes.reset_peak()
        self._looked = now
        assert self.limit is not None
        taken = guard_sizes.peak(read_meanwhile=False)
        if taken > self.limit:
            self._passed(taken)

    def _passed(self, taken: int) -> None:
        """The limit, in a step of Keras's own."""
        assert self.limit is not None
        if self._reason:
            self.say(f"the process has passed the limit of {mib(self.limit)}, and a batch is not "
                     f"cut into parts: {self._reason}.")  # fmt: skip
        else:
            self.passes, self._is_checked, self._shrinks_by = False, False, taken

    def _leave_whole(self, why: str) -> None:
        """Nothing is cut from now on."""
        self.passes = not self._raises
        if self.saved is not None:
            self.saved.never(why)
        super()._leave_whole(why)

    def train(self, iterator: Any) -> Any:
        """Keras's train function: steps on batches of an iterator."""
        self._forget_validation()
        if self.passes and self.saved is None:
            logs = self._keras(iterator)
            self.look()
            return logs
        return each_batch(iterator, self._model().steps_per_execution, self._taken)

    def _taken(self, data: Any, element: Any) -> Any:
        """A batch of this execution; one that has been trained before the program was killed is
        left out."""
        if self.saved is None:
            return self._batch(data, element)
        if self.saved.has_trained(data):
            return self._model().get_metrics_result()
        logs = self._batch(data, element)
        self.saved.stepped()
        return logs

    def _batch(self, given: Any, element: Any) -> Any:
        def whole() -> Any:
            return self._keras(again(given, element))

        if self.passes:
            self._mark(given)
            logs = whole()
            self.look()
            return logs
        data, tensors, why = tensors_of(given)
        batch = 0 if why else int(tensors[0].shape[0])
        failed = ""
        if not why and self._runs_first(data, element, batch):
            logs, failed = self._eagerly(data, whole)
            if not failed:
                return logs
        step = None if why else self._step(data, element, tensors)
        if step is None:
            if why:
                self._leave_whole(why)
            self.passes = True
            return whole()
        if failed:
            self._shrink(step, tensors, batch, failed)
        if self.rows == 0:
            self._choose(step, tensors, batch)
        if self._shrinks_by:
            self._fewer(step, tensors, min(batch, self.rows), self._shrinks_by)
            self._shrinks_by = 0
        return self._train(step, tensors, batch, whole)

    def _runs_first(self, data: Any, element: Any, batch: int) -> bool:
        """Whether the program's code must not be called once more than Keras does: it runs without
        a graph that would tell what it changes, and nothing has to be cut as far as is known."""
        model = self._model()
        packing = Packing(data, element)
        if not model.run_eagerly or packing.key in self._steps or self._shrinks_by:
            return False
        if self._killed_with(batch):
            return False
        known = (
            guard_sizes.remembered(self._key(packing.key, batch)) if self.rows == 0 else self.rows
        )
        return known is None or known >= batch

    def _own(
        self, whole: Callable[[], Any], tensors: Any, changes: list[Any], released: bool
    ) -> tuple[Any, str, int]:
        """Keras's own function on a whole batch: its logs, why it was undone, bytes taken.

        changes: what is put back, beside weights and slots, where memory that runs out is an
        exception: Keras's function may have done half of its update by then.
        """
        model = self._model()
        self._mark(tensors)
        held: list[Any] = []
        if self._raises:
            if all(layer.built for layer in guard_proof.layers_of(model)):
                build_optimizer(model)
            held = [*changes, *(self._changed_by_update() if self._keeps_whole else [])]
        before = State(held)
        if self._measures:
            if released:
                guard_sizes.release()
            guard_sizes.reset_peak()
        try:
            logs = whole()
        except Exception as error:
            if not self._raises or not guard_sizes.is_of_memory(error):
                raise
            why = type(error).__name__
        else:
            taken = guard_sizes.peak(read_meanwhile=False) if self._measures else 0
            return logs, "", taken
        before.restore()
        known = {id(one) for one in held}
        for metric in model.metrics:
            if any(id(one) not in known for one in metric.variables):
                metric.reset_state()
        return None, why, 0

    def _eagerly(self, data: Any, whole: Callable[[], Any]) -> tuple[Any, str]:
        """A batch of which there is no graph to look at; logs, or why it was undone."""
        self.rows = ALL
        logs, why, taken = self._own(whole, data, changing(self._model()), not self._is_checked)
        if not why:
            self._is_checked, self.passes = True, not self._raises
            if self.limit is not None and taken > self.limit:
                self._passed(taken)
        return logs, why

    def _step(self, data: Any, element: Any, tensors: list[Any]) -> CutStep | None:
        packing = Packing(data, element)
        if packing.key not in self._steps:
            try:
                step = CutStep(self._model(), packing, [one[:1] for one in tensors])
            except Exception as error:
                text = str(error).strip().splitlines()
                self._leave_whole(f"its step cannot be done in parts ({type(error).__name__}"
                                  f"{': ' + text[0][:100] if text else ''})")  # fmt: skip
                return None
            self._steps[packing.key] = step
        return self._steps[packing.key]

    def _choose(self, step: CutStep, tensors: list[Any], batch: int) -> None:
        """How many samples at a time, from what small parts take."""
        self.rows = ALL
        known = guard_sizes.remembered(self._key(step.packing.key, batch))
        killed = self._killed_with(batch)
        measures = self._measures and not step.acts and not self._model().run_eagerly
        if known is not None:
            rows = known
        elif measures:
            rows = self._measured(step, tensors, batch)
        elif killed:
            rows = batch
        else:
            return
        if killed:
            rows = min(rows, max(1, killed // 2))
        if rows >= batch:
            return
        if not self._is_approved(step, tensors, rows):
            return
        if known is None and measures:
            rows = self._verified(step, tensors, batch, rows)
        self.rows = max(rows, 1)
        if rows == 0:
            self.say("not even one sample at a time is within the limit; it is trained one by one.")

    def _killed_with(self, batch: int) -> int:
        """Samples at a time with which the kernel has killed the program; 0: it has not."""
        return 0 if self.saved is None else self.saved.killed_with(batch)

    def _mark(self, data: Any, rows: int = ALL) -> None:
        """Before a step, so that the next start of the program knows what this one has died of."""
        if self.saved is not None:
            batch = guard_saved.samples_of(data)
            self.saved.mark(min(rows, batch), batch)

    def _verified(self, step: CutStep, tensors: list[Any], batch: int, rows: int) -> int:
        """Measured at the size itself, and at smaller ones where it takes more than predicted."""
        assert self.limit is not None
        while rows > 0:
            rows = guard_sizes.even(batch, rows)
            found = self._probe(step, tensors, rows)
            if found is not None and found.has_room(batch, self.limit):
                return rows
            rows = rows * 4 // 5
            if found is not None and found.live is not None:
                return max(rows, 1)  # what was taken stays taken: smaller ones show nothing
        return 0

    def _measured(self, step: CutStep, tensors: list[Any], batch: int) -> int:
        assert self.limit is not None
        points: guard_sizes.Points = []
        if not guard_sizes.reset_peak():
            self.say("what a step takes cannot be measured here (/proc/self/clear_refs): it is "
                     "cut where memory runs out alone.")  # fmt: skip
            self._measures, self._raises = False, True
            return batch
        takes = 0
        live: guard_sizes.Points = []
        self._probe(step, tensors, 1)  # what is there once is there afterwards
        while True:
            measures, rows = (
                guard_sizes.choose_pooled(points, live, batch, self.limit, takes)
                if live
                else guard_sizes.choose(points, batch, self.limit, takes)
            )
            if not measures:
                return rows
            found = self._probe(step, tensors, rows)
            if found is None:
                return max((one for one, _ in points), default=0)
            takes = found.beside_parts(batch)
            points.append((rows, found.taken))
            if found.live is not None:
                live.append((rows, found.live))

    def _probe(self, step: CutStep, tensors: list[Any], rows: int) -> guard_sizes.Found | None:
        """One part, undone; None: memory ran out."""
        self._mark(tensors, rows)
        before = State(step.variables())
        guard_sizes.release()
        guard_sizes.reset_peak()
        held, base = guard_sizes.live(resets=True), guard_sizes.peak()
        failed = False
        live, sums, kept = None, 0, 0
        try:
            flat, small, predictions = step.part(
                [one[:rows] for one in tensors], ones(step.traced), 1.0
            )
            most = guard_sizes.live(resets=False)
            live = None if held is None or most is None else most - held
            sums = sum(bytes_of(one) for one in flat)
            kept = sum(bytes_of(one) for some in predictions for one in some) // rows
            del flat, small, predictions
        except Exception as error:
            if not guard_sizes.is_of_memory(error):
                raise
            failed = True
        finally:
            before.restore()
        taken = guard_sizes.peak()
        return None if failed else guard_sizes.Found(taken, taken - base, live, sums, kept)

    def _coupled(self, step: CutStep, tensors: list[Any]) -> str:
        modes = [False] if step.has_statistics or step.draws() else [False, True]
        found = []
        before = State([])
        try:
            looks = [step.looking(mode) for mode in modes]
            before = State(step.variables())
            for look in looks:

                def ask(part: list[Any], look: Callable[..., Any] = look) -> Any:
                    before.restore()
                    return look(part)

                found.append(guard_proof.coupled(ask, tensors, step.draws()))
        except Exception as error:
            if guard_sizes.is_of_memory(error) and int(tensors[0].shape[0]) > 2:
                return self._coupled(step, [one[:2] for one in tensors])
            return f"its layers cannot be looked at ({type(error).__name__})"
        finally:
            before.restore()
        return next((one for one in found if one), "")

    def _train(
        self, step: CutStep, tensors: list[Any], batch: int, whole_batch: Callable[[], Any]
    ) -> Any:
        """One batch, in the parts that are known to fit, or in smaller ones where they do not."""
        while True:
            rows = guard_sizes.even(batch, min(self.rows, batch))
            if rows < batch and not self._is_approved(step, tensors, rows):
                rows = batch
            if self.rows == ALL and not self._on_gpu:
                logs, why, taken = self._own(
                    whole_batch, tensors, step.variables(), not self._is_checked
                )
                if not why:
                    self._done(step, tensors, rows, taken)
                    return logs
                self._shrink(step, tensors, rows, why)
                continue
            self._mark(tensors, rows)
            before = State(step.variables())
            whole = self._whole_state() if self._keeps_whole else None
            if self._measures:
                if not self._is_checked:
                    guard_sizes.release()
                guard_sizes.reset_peak()
            why, doubt, phase = "", "", ["parts"]
            try:
                logs = self._parts(step, tensors, batch, rows, before, phase)
            except _Doubtful as error:
                doubt = str(error)
            except Exception as error:
                if not guard_sizes.is_of_memory(error) or (phase[0] == "update" and whole is None):
                    raise
                why = type(error).__name__
            if not why and not doubt:
                taken = guard_sizes.peak(read_meanwhile=False) if self._measures else 0
                self._done(step, tensors, rows, taken)
                return logs
            before.restore()
            if whole is not None:
                whole.restore()
            del before, whole
            gc.collect()
            if doubt:
                self._leave_whole(f"{doubt}. --inexact cuts it all the same")
            else:
                self._shrink(step, tensors, rows, why)

    @property
    def _keeps_whole(self) -> bool:
        """Whether an update may fail. On a GPU, where copies are dear, until one has been done: the
        next ones take the same."""
        return self._raises and not (self._on_gpu and self._is_checked)

    def _whole_state(self) -> State:
        return State(self._changed_by_update())

    def _changed_by_update(self) -> list[Any]:
        """Weights and the optimizer's variables."""
        model = self._model()
        return [*model.trainable_variables, *model.optimizer.variables]

    def _done(self, step: CutStep, tensors: list[Any], rows: int, taken: int) -> None:
        """What the step took, against the limit."""
        batch = int(tensors[0].shape[0])
        if self.limit is not None and taken > self.limit and not self._reason:
            if self._fewer(step, tensors, rows, taken):
                return
        if self._is_checked:
            return
        self._is_checked = True
        guard_sizes.remember(self._key(step.packing.key, batch), rows, taken)
        if rows >= batch:
            self.passes = not self._raises and self.rows == ALL
        else:
            self._say_parts(batch, rows, taken)

    def _fewer(self, step: CutStep, tensors: list[Any], rows: int, taken: int) -> bool:
        """After a step that passed the limit. False: the next ones are as they were."""
        assert self.limit is not None
        fewer = max(1, min(rows - 1, rows * 4 // 5))
        is_lower = self._over == 0 or taken < self._over - guard_sizes.MIB
        self._over = taken
        guard_sizes.release()
        if self._gave_up or rows == 1 or not is_lower:
            self._gave_up = True
            self.say(f"the process takes {mib(taken)}, above the limit of {mib(self.limit)}, "
                     f"also with {samples(rows)} at a time.", "also")  # fmt: skip
            return False
        if not self._is_approved(step, tensors, fewer):
            return False
        self.rows, self._is_checked = fewer, False
        self.say(f"a step with {samples(rows)} at a time took {mib(taken)}, above the limit of "
                 f"{mib(self.limit)}: the next ones have fewer.")  # fmt: skip
        return True

    def _parts(
        self,
        step: CutStep,
        tensors: list[Any],
        batch: int,
        rows: int,
        before: State,
        phase: list[str],
    ) -> Any:
        import tensorflow as tf

        pieces = [[one[at : at + rows] for one in tensors] for at in range(0, batch, rows)]
        sizes = [int(one[0].shape[0]) for one in pieces]
        shares = shares_of(step.traced, sizes, batch, lambda at: step.counts(pieces[at]))
        sparse: list[list[Any]] = []
        predictions: list[list[list[Any]]] = []
        for index, piece in enumerate(pieces):
            share = int(piece[0].shape[0]) / batch
            flat, small, seen = step.part(piece, shares[index], share)
            sparse.append(of_rows(step, flat))
            predictions.append(seen)
            if len(pieces) > 1:
                step.store(flat, small) if index == 0 else step.add(flat, small)
                del flat, small
        if len(pieces) > 1:
            if not self._is_checked and not self._inexact:
                changed = before.changed(step.watched())
                if changed:
                    raise _Doubtful(f"{changed} changes in each part")
            sums = [one.read_value() for one in step.sums]
            count = len(sums) - step.count_of_small
            flat, small = merged(step, sums[:count], sparse), sums[count:]
        phase[0] = "update"
        logs = step.update(as_gradients(step, flat), small, batch)
        if step.gathers:
            joined = [
                [tf.concat(list(some), 0) for some in zip(*each)] for each in zip(*predictions)
            ]
            logs = step.told(tensors, joined)
        return logs


_guards: weakref.WeakKeyDictionary[Any, Guard | Unmeasured] = weakref.WeakKeyDictionary()
_GUARDS: dict[str, Any] = {"tensorflow": Guard, "jax": JaxGuard, "torch": TorchGuard}


def _of(model: Any, what: asked.Asked) -> Guard | Unmeasured | None:
    keras: Any = sys.modules["keras"]
    cls = _GUARDS.get(keras.backend.backend())
    if cls is None:
        return None
    found = _guards.get(model)
    if found is None or not found.is_for(model, what):
        found = _guards[model] = cls(model, what)
    return found


def how(model: Any) -> str:
    """In which way Keras trains it, for the line that says so."""
    keras: Any = sys.modules["keras"]
    if keras.backend.backend() not in _GUARDS:
        return f"untouched (on {keras.backend.backend()} a batch is not cut into parts)"
    why = guard_proof.why_never(model)
    if why:
        return f"untouched (a batch is not cut into parts: {why})"
    return "in parts where a batch does not fit"


def history_of(model: Any, callbacks: Any) -> Any:
    """The History of a fit that was over before this start; None: it is to run."""
    found = _guards.get(model)
    return None if found is None or found.saved is None else found.saved.over(callbacks)


def fit_arguments(
    model: Any, verbose: Any, callbacks: Any, initial_epoch: int
) -> tuple[Any, Any, int]:
    """What Keras's fit is called with in place of these, where states are saved."""
    found = _guards.get(model)
    if found is None or found.saved is None:
        return verbose, callbacks, initial_epoch
    return found.saved.arguments(verbose, callbacks, initial_epoch)


def is_passing(model: Any, method: str, what: asked.Asked) -> bool:
    """Whether Keras's own method may run without further ado."""
    found = _guards.get(model)
    if found is None or method != "train_on_batch" or not found.passes:
        return False
    if not found.is_for(model, what):
        return False
    found.look()
    return found.passes


def run(model: Any, method: str, in_keras: Callable[[], Any], what: asked.Asked) -> Any:
    """Keras's own method, with its steps kept inside the limit."""
    guard = _of(model, what)
    if guard is None:
        return in_keras()
    where = f"{call_site()}: {method}"
    if isinstance(guard, Unmeasured):
        return guard.run(in_keras, where)
    fits = method == "fit"
    saved = guard_saved.begin(model, where) if fits else None
    try:
        return _run(guard, model, in_keras, where, saved, fits)
    finally:
        if saved is not None:
            saved.close()


def _run(
    guard: Guard, model: Any, in_keras: Callable[[], Any], where: str,
    saved: guard_saved.Saved | None, fits: bool,
) -> Any:  # fmt: skip
    if guard.is_never:
        if saved is not None:
            saved.never(guard.reason)
        return guard.beside(in_keras, where)
    model.make_train_function()
    own = model.train_function
    ours = guard.train
    guard.begin(own, where, saved)
    if fits:
        guard.begin_validation()
    model.train_function = ours
    try:
        answer = in_keras()
        if saved is not None:
            saved.end()
        return answer
    except guard_saved.Over as over:
        return over.history
    finally:
        if model.train_function is ours:
            model.train_function = own
        guard.end()
