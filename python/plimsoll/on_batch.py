"""train_on_batch, test_on_batch and predict_on_batch.

After each call Keras's variables hold what was trained: those that a step has changed are given
memory of their own, so that whatever looks at them, by whatever way, sees it.
"""

from __future__ import annotations

from typing import Any

from plimsoll import data, live
from plimsoll.inference import Caller, in_order, outputs_like
from plimsoll.options import Listener, Options

_QUIET = Listener()


def train(
    model: Any, x: Any, y: Any, sample_weight: Any, class_weight: dict[int, float] | None,
    return_dict: bool, how: Options,
) -> Any:  # fmt: skip
    known = live.live_model(model)
    session = known.session("train")
    samples = data.samples_of(known.engine, x, y, sample_weight, class_weight)
    variables = known.read_by_engine(training=True)
    arrays, state = samples.arrays(), variables.buffers()
    try:
        logs, changed = session.run(
            how, (samples.rows, 0), samples.rows,
            lambda kept: session.engine.train_kept(kept, arrays, state, _QUIET),
            weights=samples.weight_shapes, steps=known.iterations(),
        )  # fmt: skip
        try:
            variables.assign_all(changed)
        except BaseException:  # Ctrl-C between two of them: a step is whole or not there
            variables.assign_all(changed)
            raise
    finally:
        session.end_call()
    if return_dict:
        return dict(sorted(logs.items()))  # Keras's order
    return in_order(model, logs, known.engine.output_names)


def test(
    model: Any, x: Any, y: Any, sample_weight: Any, return_dict: bool, how: Options
) -> Any:  # fmt: skip
    known = live.live_model(model)
    caller = Caller(known, how, "evaluate")
    samples = data.samples_of(known.engine, x, y, sample_weight)
    try:
        logs = caller.evaluate(samples, (samples.rows, 0))
    finally:
        caller.session.end_call()
    if return_dict:
        return dict(sorted(logs.items()))  # Keras's order
    return in_order(model, logs, known.engine.output_names)


def predict(model: Any, x: Any, how: Options) -> Any:
    known = live.live_model(model)
    caller = Caller(known, how, "predict")
    samples = data.samples_of(known.engine, x)
    try:
        return outputs_like(model, list(caller.predict(samples, (samples.rows, 0))))
    finally:
        caller.session.end_call()
