"""evaluate and predict: what Keras does around sessions that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from plimsoll import _core, data, sizes
from plimsoll.model import live, sync
from plimsoll.model.kept import Session
from plimsoll.options import Options
from plimsoll.versions import keras_module, packed, reported

Show = Callable[[int, dict[str, float]], None]  # is told of steps and logs when a call has ended


def batch_sizes(rows: int, batch: int) -> tuple[int, int]:
    """The larger size of batch and the other one; 0: there is none."""
    return (batch, rows % batch) if rows > batch else (rows, 0)


def outputs_like(model: Any, outputs: list[Any]) -> Any:
    """Outputs in the structure that the model gives them in."""
    structure = getattr(model, "_outputs_struct", None)
    if isinstance(structure, (dict, list, tuple)):
        return packed(structure, outputs)
    return outputs[0] if len(outputs) == 1 else outputs


def by_name(logs: dict[str, float]) -> dict[str, float]:
    """Keras's order of logs."""
    return dict(sorted(logs.items()))


def metrics_of(engine: _core.Engine) -> dict[str, float]:
    """What training or its validation has reached."""
    return by_name(reported(engine.metrics(), engine.output_names))


def in_order(model: Any, logs: dict[str, float], outputs: list[str]) -> Any:
    """A single value, or a list of them in Keras's order."""
    if len(logs) == 1:
        return next(iter(logs.values()))
    losses, metrics = model._compile_loss, model._compile_metrics
    if (losses is None or losses.built) and (metrics is None or metrics.built):
        return model._flatten_metrics_in_order(logs)
    # Keras has not built them yet: their order will be that of outputs and of compile().
    if len(outputs) == 1:
        return list(logs.values())
    first = ["loss", *(f"{name}_loss" for name in outputs)]
    rest = sorted(name for name in logs if name not in first)
    return [logs[name] for name in [*first, *rest] if name in logs]


class Caller:
    """Calls on one model with one kind of session."""

    def __init__(self, known: live.Live, how: Options, kind: str) -> None:
        self.known, self.how = known, how
        self.session: Session = known.session(kind)
        self._weights = known.read_by_engine(training=False)

    def predict(self, samples: data.Samples, sizes: tuple[int, int]) -> list[Any]:
        engine, state = self.session.engine, sync.buffers(self._weights)
        arrays = samples.arrays()
        return self.session.run(
            self.how, sizes, samples.rows,
            lambda kept, listener: engine.predict_kept(kept, arrays, state, listener),
        )  # fmt: skip

    def evaluate(
        self, samples: data.Samples, sizes: tuple[int, int], go_on: bool = False
    ) -> dict[str, float]:
        """`go_on`: metrics count on from the last call."""
        engine, state = self.session.engine, sync.buffers(self._weights)
        arrays = samples.arrays()
        logs = self.session.run(
            self.how, sizes, samples.rows,
            lambda kept, listener: engine.evaluate_kept(kept, arrays, state, listener), go_on,
            weights=samples.weight_shapes,
        )  # fmt: skip
        return reported(logs, engine.output_names)


def _callback_list(model: Any, callbacks: Any, verbose: Any, steps: int | None) -> Any:
    """Keras's list of callbacks, as its own evaluate and predict make it; None: nobody listens."""
    if not callbacks:
        return None
    keras = keras_module()
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks
    return keras.callbacks.CallbackList(callbacks, verbose=verbose, epochs=1, steps=steps,
                                        model=model)  # fmt: skip


class Batches:
    """Samples batch by batch, with Keras's count of steps."""

    def __init__(
        self, known: live.Live, x: Any, y: Any = None, weights: Any = None,
        batch: int | None = None, steps: int | None = None, labels: bool = True,
    ) -> None:  # fmt: skip
        """`x`: arrays, Samples of them, or what yields batches."""
        self._known, self._labels = known, labels
        self.whole: data.Samples | None = None
        self.batch = batch or data.BATCH
        self.count: int | None
        if isinstance(x, data.Samples):
            self.whole = x
        elif not data.is_iterated(x):
            self.whole = known.samples_of(x, y, weights)
            known.check_sizes(self.whole)
        if self.whole is None:
            self._source, self.count = data.batches_of(x)
        else:
            self.batch = data.batch_size_of(self.whole.rows, batch, steps)
            self.count = -(-self.whole.rows // self.batch)
        self.steps = steps or self.count
        self._taken: int | None = None  # of batches that come one by one

    @property
    def taken(self) -> int:
        """How many batches there were."""
        return self._taken or self.steps or 0

    def __iter__(self) -> Iterator[data.Samples]:
        if self.whole is not None:
            for begin in range(0, self.whole.rows, self.batch):
                yield self.whole.part(begin, min(begin + self.batch, self.whole.rows))
            return
        for one in self._source:
            x, y, weights = data.unpacked(one)
            samples = self._known.samples_of(x, y if self._labels else None,
                                             weights if self._labels else None)  # fmt: skip
            self._known.check_sizes(samples)
            yield samples

    def counted(self, begin: Any = None) -> Iterator[tuple[int, data.Samples]]:
        """With their numbers; `begin` is told of each, as Keras does before it asks for it."""
        source = self._source if self.whole is None else None
        if self._labels:  # Keras's evaluate begins so, its predict does not
            data.tell_epoch(source, "on_epoch_end")
        data.tell_epoch(source, "on_epoch_begin")
        epochs = data.Epochs(self, self.count, self.steps, source)
        epoch = epochs.epoch(begin or (lambda step: None))
        for step, samples in enumerate(epoch):
            self._taken = step + 1
            yield step, samples
        data.tell_epoch(source, "on_epoch_end")

    def sizes(self, samples: data.Samples) -> tuple[int, int]:
        """The sizes of batches to come, as far as they are known."""
        return (samples.rows, 0) if self.whole is None else batch_sizes(self._rows, self.batch)

    @property
    def _rows(self) -> int:
        assert self.whole is not None
        return min(self.whole.rows, (self.steps or 0) * self.batch)

    def piece(self) -> data.Samples | None:
        """All of them as one piece; None: they come one by one."""
        if self.whole is None:
            return None
        return self.whole if self._rows == self.whole.rows else self.whole.part(0, self._rows)


def evaluate(
    model: Any, x: Any, y: Any, batch_size: int | None, sample_weight: Any, steps: int | None,
    callbacks: Any, verbose: Any, return_dict: bool, how: Options, show: Show | None = None,
) -> Any:  # fmt: skip
    shapes, x = sizes.of_data(model, x)
    known = live.live_model(model, shapes=shapes)
    caller = Caller(known, how, "evaluate")
    batches = Batches(known, x, y, sample_weight, batch_size, steps)
    events = _callback_list(model, callbacks, verbose, batches.steps)
    logs: dict[str, float] = {}
    try:
        piece = batches.piece()
        if piece is not None and events is None:
            logs = caller.evaluate(piece, batches.sizes(piece))
        else:
            logs = evaluate_batches(model, caller, batches, events)
    finally:
        caller.session.end_call()
    if show is not None:
        show(batches.taken, by_name(logs))
    if return_dict:
        return by_name(logs)
    return in_order(model, logs, known.engine.output_names)


def evaluate_batches(model: Any, caller: Caller, batches: Batches, events: Any) -> dict[str, float]:
    """With Keras's events."""
    logs: dict[str, float] = {}
    if events is not None:
        model.stop_evaluating = False
        events.on_test_begin()
    with caller.session.batch_by_batch():
        for step, samples in batches.counted(events and events.on_test_batch_begin):
            logs = caller.evaluate(samples, batches.sizes(samples), go_on=step > 0)
            if events is not None:
                events.on_test_batch_end(step, by_name(logs))
                if model.stop_evaluating:
                    break
    if not logs:
        raise ValueError("x: expected batches, received none.")
    if events is not None:
        events.on_test_end(by_name(logs))
    return logs


def predict(
    model: Any, x: Any, batch_size: int | None, steps: int | None, callbacks: Any, verbose: Any,
    how: Options, show: Show | None = None,
) -> Any:  # fmt: skip
    shapes, x = sizes.of_data(model, x)
    known = live.live_model(model, shapes=shapes)
    caller = Caller(known, how, "predict")
    batches = Batches(known, x, None, None, batch_size, steps, labels=False)
    events = _callback_list(model, callbacks, verbose, batches.steps)
    try:
        piece = batches.piece()
        if piece is not None and events is None:
            outputs = outputs_like(model, list(caller.predict(piece, batches.sizes(piece))))
            if show is not None:
                show(batches.taken, {})
            return outputs
        parts: list[list[Any]] = []
        if events is not None:
            model.stop_predicting = False
            events.on_predict_begin()
        for step, samples in batches.counted(events and events.on_predict_batch_begin):
            parts.append(list(caller.predict(samples, batches.sizes(samples))))
            if events is not None:
                outputs = outputs_like(model, parts[-1])
                events.on_predict_batch_end(step, {"outputs": outputs})
                if model.stop_predicting:
                    break
        if events is not None:
            events.on_predict_end()
    finally:
        caller.session.end_call()
    if not parts:
        raise ValueError("x: expected batches, received none.")
    if show is not None:
        show(batches.taken, {})
    return outputs_like(model, [np.concatenate(all) for all in zip(*parts)])
