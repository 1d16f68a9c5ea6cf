"""Runs steps of a workload in Keras on TensorFlow; prints one JSON line. A peer's process."""

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    model_path, x_path, y_path, batch_text, steps_text = sys.argv[1:6]
    batch, steps = int(batch_text), int(steps_text)
    import keras
    import numpy as np
    import tensorflow as tf

    model = keras.saving.load_model(model_path)
    x, y = np.load(x_path, mmap_mode="r"), np.load(y_path, mmap_mode="r")
    optimizer, loss_of = model.optimizer, model.compute_loss

    @tf.function
    def step(features, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(y=labels, y_pred=model(features, training=True))
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    seconds, losses = [], []
    begin = 0
    while len(seconds) < steps:
        start = time.perf_counter()
        end = min(begin + batch, len(x))
        features = tf.convert_to_tensor(x[begin:end].astype("float32", copy=False))
        loss = step(features, tf.convert_to_tensor(y[begin:end]))
        losses.append(float(loss))
        seconds.append(time.perf_counter() - start)
        begin = 0 if end == len(x) else end
    kept = sorted(seconds[2:] or seconds)
    print(
        json.dumps(
            {
                "min_seconds": kept[0],
                "median_seconds": kept[len(kept) // 2],
                "peak_bytes": peak_bytes(),
                "losses": losses[:5],
            }
        )
    )


if __name__ == "__main__":
    main()
