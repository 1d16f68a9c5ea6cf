"""TensorFlow's own time for calls that Plimsoll's nodes make: what `operators.py` starts.

operators_side.py FILE

The file holds {"threads", "calls": [{"operator", "inputs", "outputs", "attributes"}]}. Prints one
JSON list with an answer to each: `seconds`, the least of several calls as a compiled function (not
by XLA), less those of a function of the same operands that does nothing; or `none`, why there are
none. Operands are where the last call left them: in caches, where they fit. `cold_seconds` are
those of calls whose operands no cache holds any more, by turns of enough copies (not of what a
layer or an optimizer holds). In a step it is something between.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import operator_image_calls  # noqa: F401  makes its calls known
import operator_map_calls  # noqa: F401
import tensorflow as tf
from operator_calls import NoCall, Node, Way, ways_of

FIRST_CALLS = 3  # compile, and lay memory out
LEAST_CALLS = 5
MOST_CALLS = 2000
SECONDS = 0.4
LEAST_SHARE = 0.05  # of a function's time, that is told from what is taken off
MOST_COPIES = 512
USUAL_CACHE = 32 << 20

Operands = list[tf.Tensor]


def cache_bytes() -> int:
    """Of the largest cache."""
    found = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    sizes = [int(path.read_text().strip().removesuffix("K")) << 10 for path in found]
    return max(sizes, default=USUAL_CACHE)


def copies_of(operands: Operands) -> list[Operands]:
    """Twice what the largest cache holds; two at least."""
    size = sum(each.dtype.size * each.shape.num_elements() for each in operands)
    count = min(max(2 * cache_bytes() // max(size, 1) + 1, 2), MOST_COPIES)
    return [operands, *([tf.constant(np.array(each)) for each in operands]
                        for _ in range(count - 1))]  # fmt: skip


def least(call: Callable[..., Any], sets: list[Operands]) -> float:
    """Seconds of the fastest call, on one set of operands after another."""
    function = tf.function(call, autograph=False, jit_compile=False)
    for _ in range(FIRST_CALLS):
        function(*sets[0])
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(times) < LEAST_CALLS or time.perf_counter() < end:
        operands = sets[(len(times) + 1) % len(sets)]
        began = time.perf_counter()
        function(*operands)
        times.append(time.perf_counter() - began)
        if len(times) == MOST_CALLS:
            break
    return min(times)


def seconds_of(way: Way, sets: list[Operands]) -> float:
    whole = least(way.function, sets)
    taken = least(way.less or (lambda *_: tf.zeros(())), sets)
    if whole - taken < LEAST_SHARE * whole:
        raise NoCall("its time cannot be told from that of what goes with it")
    return whole - taken


def answer(call: dict[str, Any]) -> dict[str, Any]:
    """Of several ways the fastest, of those that TensorFlow can go here."""
    hot, cold, reasons = [], [], []
    try:
        for way in ways_of(Node(**call)):
            try:
                seconds = seconds_of(way, [way.operands])
                cold.append(max(seconds, seconds_of(way, copies_of(way.operands))))
                hot.append(seconds)
            except NoCall as none:
                reasons.append(str(none))
            except tf.errors.OpError as error:
                reasons.append(f"TensorFlow refuses it: {str(error.message).splitlines()[0][:160]}")
    except NoCall as none:
        reasons.append(str(none))
    gc.collect()
    return {"seconds": min(hot), "cold_seconds": min(cold)} if hot else {"none": reasons[0]}


def main() -> None:
    asked = json.loads(Path(sys.argv[1]).read_text())
    tf.config.threading.set_intra_op_parallelism_threads(asked["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(asked["threads"])
    print(json.dumps([answer(call) for call in asked["calls"]]))


if __name__ == "__main__":
    main()
