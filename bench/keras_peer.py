"""A workload in Keras on TensorFlow, compiled; prints one JSON line. A peer's process.

keras_peer.py steps MODEL X Y BATCH STEPS [--precision bf16] [--floor STEPS]
keras_peer.py predict|evaluate MODEL X Y BATCH PASSES [--precision bf16] [--output FILE]
              [--exact FILE: the predictions in float64]
"""

import argparse
import os
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import peer_side
import tensorflow as tf

DISTURBED = 5


def load(path: str, precision: str) -> keras.Model:
    """As in the file; in bf16 every layer but the last computes in mixed precision."""
    model = keras.saving.load_model(path)
    if precision == "f32":
        return model
    config = model.get_config()
    name = {"bf16": "mixed_bfloat16", "f64": "float64"}[precision]
    for layer in config["layers"][:-1] if precision == "bf16" else config["layers"]:
        policy = layer["config"].get("dtype")
        if isinstance(policy, dict):
            policy["config"]["name"] = name
        elif policy == "float32" and precision == "f64":
            layer["config"]["dtype"] = name
    mixed = model.__class__.from_config(config)
    mixed.set_weights(model.get_weights())
    if precision == "f64":
        return mixed
    optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(model.optimizer))
    mixed.compile(optimizer, loss=model.loss)
    return mixed


class Steps:
    """Training steps over the samples in their order, the short last batch included."""

    def __init__(self, model: keras.Model, x: np.ndarray, y: np.ndarray, batch: int) -> None:
        self.model, self.x, self.y, self.batch = model, x, y, batch
        self.begin = 0
        optimizer, loss_of = model.optimizer, model.compute_loss
        optimizer.build(model.trainable_variables)

        @tf.function
        def step(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = loss_of(y=labels, y_pred=model(features, training=True))
            gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
            optimizer.apply(gradients, model.trainable_variables)
            return loss

        self.step = step

    def run(self, order: np.random.Generator | None = None) -> float:
        end = min(self.begin + self.batch, len(self.x))
        rows: Any = slice(self.begin, end)
        if order is not None:
            rows = self.begin + order.permutation(end - self.begin)
        features = self.x[rows]
        if features.dtype == np.float64:
            features = features.astype("float32")
        loss = self.step(tf.convert_to_tensor(features), tf.convert_to_tensor(self.y[rows]))
        self.begin = 0 if end == len(self.x) else end
        return float(loss)


def widened(rows: np.ndarray) -> np.ndarray:
    return rows.astype("float64") if rows.dtype.kind == "f" else np.array(rows)


def nudged(weights: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """Each weight an ulp up or down."""
    moved = [w * (1 + rng.choice([-1, 1], w.shape) * 2.0**-23) for w in weights]
    return [m.astype(w.dtype) for m, w in zip(moved, weights)]


def floor(steps: Steps, weights: list[np.ndarray], count: int) -> float:
    """The largest difference of a loss from itself: samples permuted, weights nudged by an ulp."""
    model = steps.model

    def losses(run: int | None) -> list[float]:
        rng = None if run is None else np.random.default_rng(run)
        model.set_weights(weights if rng is None else nudged(weights, rng))
        for variable in model.optimizer.variables:
            if variable.path.split("/")[-1] != "learning_rate":
                variable.assign(np.zeros(variable.shape, variable.dtype))
        steps.begin = 0
        return [steps.run(rng) for _ in range(count)]

    reference = losses(None)
    others = [losses(run) for run in range(DISTURBED)]
    return max(abs(a - b) for other in others for a, b in zip(other, reference))


def train(model: keras.Model, x: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> dict:
    weights = model.get_weights() if options.floor else []
    steps = Steps(model, x, y, options.batch)
    seconds, losses = [], []
    for _ in range(options.count):
        start = time.perf_counter()
        losses.append(steps.run())
        seconds.append(time.perf_counter() - start)
    result = peer_side.result(seconds[2:] or seconds, losses)
    if options.floor:
        result["floor"] = floor(steps, weights, options.floor)
    return result


def infer(model: keras.Model, x: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> dict:
    """Passes over the samples in compiled functions; the seconds of a batch. Evaluation takes the
    loss alone: Plimsoll's takes the metrics too."""
    evaluate, batch = options.program == "evaluate", options.batch
    loss_of = model.compute_loss

    @tf.function(reduce_retracing=True)
    def predict_batch(features: tf.Tensor) -> tf.Tensor:
        return model(features, training=False)

    @tf.function(reduce_retracing=True)
    def evaluate_batch(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return loss_of(y=labels, y_pred=model(features, training=False))

    outputs, losses, seconds = [], [], []
    for number in range(options.count + 1):
        start = time.perf_counter()
        for begin in range(0, len(x), batch):
            features = x[begin : begin + batch]
            if features.dtype == np.float64:
                features = features.astype("float32")
            if evaluate:
                labels = tf.convert_to_tensor(y[begin : begin + batch])
                got = evaluate_batch(tf.convert_to_tensor(features), labels)
                losses.append(float(got))
            else:
                got = predict_batch(tf.convert_to_tensor(features)).numpy()
                if number == 0:
                    outputs.append(got)
        seconds.append((time.perf_counter() - start) / -(-len(x) // batch))
    result = peer_side.result(seconds[1:], losses)
    if options.output:
        np.save(options.output, np.concatenate(outputs))
    if options.exact:
        model = load(options.model, "f64")
        exact = [
            model(tf.convert_to_tensor(widened(x[i : i + batch])), training=False).numpy()
            for i in range(0, len(x), batch)
        ]
        np.save(options.exact, np.concatenate(exact))
    return result


def main() -> None:
    parser = peer_side.parser(__doc__)
    parser.add_argument("--floor", type=int, default=0)
    parser.add_argument("--exact")
    options = parser.parse_args()
    peer_side.answer(load(options.model, options.precision), options, train, infer)


if __name__ == "__main__":
    main()
