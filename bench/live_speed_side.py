"""One run of a live Keras model in a process of its own: what `live_speed.py` starts.

live_speed_side.py plimsoll|keras MODEL DATA LABELS BATCH EPOCHS
live_speed_side.py calls MODEL DATA LABELS BATCH

The first prints the seconds of a step, of the fastest epoch but the first; the second those of one
call of `predict` and `train_on_batch`, of Plimsoll and of Keras. One JSON object.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import plimsoll

CALLS = 200
MOST_SECONDS = 4.0  # of all calls, unless the least number takes longer
FIRST_CALLS = 3  # compile or plan


class Ends(keras.callbacks.Callback):
    """When each epoch ended; has no hooks of batches, which would be called."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[float] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.at.append(time.perf_counter())


def fit(side: str, model: keras.Model, x: Any, y: Any, batch: int, epochs: int) -> dict[str, Any]:
    ends = Ends()
    options: dict[str, Any] = {"batch_size": batch, "epochs": epochs, "shuffle": False,
                               "verbose": 0, "callbacks": [ends]}  # fmt: skip
    if side == "keras":
        model.fit(x, y, **options)
    else:
        plimsoll.fit(model, x, y, **options)
    steps = -(-len(x) // batch)
    return {"seconds": float(np.min(np.diff(ends.at))) / steps}


def least_of(call: Callable[[], Any]) -> float:
    times: list[float] = []
    for number in range(FIRST_CALLS + CALLS):
        if number > 2 * FIRST_CALLS and sum(times) > MOST_SECONDS:
            break
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times[FIRST_CALLS:])


def calls(model: keras.Model, x: Any, y: Any) -> dict[str, float]:
    ours = {
        "predict": least_of(lambda: plimsoll.predict(model, x[:1], verbose=0)),
        "train_on_batch": least_of(lambda: plimsoll.train_on_batch(model, x, y)),
    }
    theirs = {
        "keras_predict": least_of(lambda: model.predict(x[:1], verbose=0)),
        "keras_train_on_batch": least_of(lambda: model.train_on_batch(x, y)),
    }
    return {**ours, **theirs}


def main() -> None:
    what, path, data, labels, batch, *epochs = sys.argv[1:]
    model = keras.saving.load_model(path)
    x, y = np.load(data), np.load(labels)
    if what == "calls":
        print(json.dumps(calls(model, x, y)))
    else:
        print(json.dumps(fit(what, model, x, y, int(batch), int(*epochs))))


if __name__ == "__main__":
    main()
