"""train_on_batch, test_on_batch and predict_on_batch.

After a step of training Keras's variables are lent to the engine: they hold what was trained when
somebody looks (sync.py).
"""

from __future__ import annotations

from typing import Any

from plimsoll.model import live
from plimsoll.options import Options
from plimsoll.training.inference import Caller, by_name, in_order, outputs_like
from plimsoll.versions import reported


def train(
    model: Any, x: Any, y: Any, sample_weight: Any, class_weight: dict[int, float] | None,
    return_dict: bool, how: Options,
) -> Any:  # fmt: skip
    known = live.live_model(model, x)
    how.handed = known.largest
    session = known.session("train")
    samples = known.samples_of(x, y, sample_weight, class_weight)
    lent = session.lent(known.read_by_engine(training=True), known)
    arrays = samples.arrays()
    try:
        logs = session.run(
            how, (samples.rows, 0), samples.rows,
            lambda kept, listener: lent.step(kept, arrays, listener), weights=samples.weight_shapes,
        )  # fmt: skip
    finally:
        session.end_call()
    logs = reported(logs, known.engine.output_names)
    if return_dict:
        return by_name(logs)
    return in_order(model, logs, known.engine.output_names)


def test(
    model: Any, x: Any, y: Any, sample_weight: Any, return_dict: bool, how: Options
) -> Any:  # fmt: skip
    known = live.live_model(model, x)
    caller = Caller(known, how, "evaluate")
    samples = known.samples_of(x, y, sample_weight)
    try:
        logs = caller.evaluate(samples, (samples.rows, 0))
    finally:
        caller.session.end_call()
    if return_dict:
        return by_name(logs)
    return in_order(model, logs, known.engine.output_names)


def predict(model: Any, x: Any, how: Options) -> Any:
    known = live.live_model(model, x)
    caller = Caller(known, how, "predict")
    samples = known.samples_of(x)
    try:
        return outputs_like(model, list(caller.predict(samples, (samples.rows, 0))))
    finally:
        caller.session.end_call()
