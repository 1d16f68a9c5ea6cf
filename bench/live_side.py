"""One run of a live Keras model in a process of its own: what `live.py` starts.

live_side.py WHAT MODEL DATA LABELS BATCH ROWS [MEMORY]

WHAT: `plan` says the limits of this process that are worth trying, `fit` and `keras` train one
epoch, `read` tells what a trained file holds. Prints one JSON object.
"""

import contextlib
import hashlib
import json
import sys
import time
from typing import Any

import keras
import numpy as np

import plimsoll

RESERVE = 8 << 20
UNEVEN = 2 << 20  # what two processes that load the same differ by
SMALL = 1e-12


def loaded(path: str) -> keras.Model:
    """The model of a file. Seeds that are not in it, of an LSTM's dropout, are alike each time."""
    keras.utils.set_random_seed(0)
    return keras.saving.load_model(path)


def arrays(model: keras.Model) -> list[np.ndarray]:
    held = [*model.variables, *model.optimizer.variables]
    return [np.asarray(keras.ops.convert_to_numpy(variable)) for variable in held]


def digest(model: keras.Model) -> str:
    total = hashlib.sha256()
    for array in arrays(model):
        total.update(array.tobytes())
    return total.hexdigest()[:16]


def difference(before: list[np.ndarray], one: list[np.ndarray], other: list[np.ndarray]) -> float:
    """The norm of the difference of two trained models over the norm of what training changed."""
    apart = sum(float(np.sum((a.astype("f8") - b) ** 2)) for a, b in zip(one, other, strict=True))
    moved = sum(float(np.sum((a.astype("f8") - b) ** 2)) for a, b in zip(one, before))
    return float(np.sqrt(apart / max(moved, SMALL)))


def in_turned_batches(rows: np.ndarray, batch: int) -> np.ndarray:
    """The same batches, the samples of each in the other order."""
    starts = range(0, len(rows), batch)
    return np.concatenate([rows[start : start + batch][::-1] for start in starts])


def plan(model: keras.Model, batch: int, steps: int) -> dict[str, Any]:
    answer = plimsoll.plan(model, batch, reserve=0)
    return {
        "least": answer.details["smallest_same_bits_bytes"] + RESERVE + UNEVEN,
        "free": answer.details["free_plan_bytes"] + RESERVE,
        "held": answer.held, "steps": steps,
    }  # fmt: skip


def train(what: str, model: keras.Model, x: Any, y: Any, batch: int, memory: str) -> dict[str, Any]:
    options: dict[str, Any] = {"batch_size": batch, "shuffle": False, "verbose": 0}
    began = time.perf_counter()
    if what == "keras":
        history = model.fit(x, y, **options)
    else:
        limit = int(memory) if memory else None
        history = plimsoll.fit(model, x, y, memory=limit, reserve=RESERVE, **options)
    seconds = time.perf_counter() - began
    return {"digest": digest(model), "loss": history.history["loss"][0], "seconds": seconds}


def main() -> None:
    what, path, data, labels, batch, rows, *memory = sys.argv[1:]
    model = loaded(path)
    if what == "read":
        print(json.dumps({"digest": digest(model)}))
        return
    x, y = (np.load(file, mmap_mode="r")[: int(rows)] for file in (data, labels))
    if what == "plan":
        print(json.dumps(plan(model, int(batch), -(-int(rows) // int(batch)))))
        return
    if what == "compare":
        model.optimizer.build(model.trainable_variables)
        before = arrays(model)
        train("keras", model, x, y, int(batch), "")
        other = loaded(path)
        train("fit", other, x, y, int(batch), "")
        turned = loaded(path)
        train("keras", turned, in_turned_batches(x, int(batch)), in_turned_batches(y, int(batch)),
              int(batch), "")  # fmt: skip
        weights = len(model.variables)
        apart, own = (difference(before[:weights], arrays(model)[:weights], arrays(one)[:weights])
                      for one in (other, turned))  # fmt: skip
        print(json.dumps({"apart": apart, "own": own}))
        return
    with contextlib.redirect_stdout(sys.stderr):
        result = train(what, model, x, y, int(batch), *(memory or [""]))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
