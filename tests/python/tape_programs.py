"""Training steps as people write them, each made with a `tf.function` that the caller names.

Each program returns its step, its model, and the metrics that the step updates.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

L = keras.layers
Made = tuple[Any, keras.Model, list[Any]]
Program = Callable[..., Made]


def classifier(*layers: Any, regularizer: Any = None) -> keras.Model:
    """Of eight numbers, three classes."""
    return keras.Sequential([
        keras.Input((8,)), L.Dense(12, "relu", kernel_regularizer=regularizer), *layers,
        L.Dense(3, "softmax"),
    ])  # fmt: skip


def closure(function: Any, optimizer: Any = None, model: Any = None, loss: Any = None) -> Made:
    """The form of TensorFlow's own guide."""
    model = model or classifier()
    optimizer = optimizer or keras.optimizers.Adam(0.01)
    loss_fn = loss or keras.losses.SparseCategoricalCrossentropy()
    mean, accuracy = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()

    @function
    def train_step(x: Any, y: Any) -> Any:
        """One step."""
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            loss = loss_fn(y, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        mean(loss)
        accuracy.update_state(y, predictions)
        return loss

    return train_step, model, [mean, accuracy]


class _Loop(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = classifier(L.BatchNormalization())
        self.loss = keras.losses.SparseCategoricalCrossentropy()
        self.optimizer = keras.optimizers.SGD(0.05, momentum=0.9, clipnorm=1.0)
        self.accuracy = keras.metrics.SparseCategoricalAccuracy()


def method(function: Any) -> Made:
    """Objects are attributes; labels come first; a tuple is returned."""

    class Trained(_Loop):
        @function
        def step(self, labels: Any, images: Any) -> Any:
            with tf.GradientTape() as tape:
                outputs = self.model(images, training=True)
                value = self.loss(y_pred=outputs, y_true=labels)
            slopes = tape.gradient(value, self.model.trainable_weights)
            self.optimizer.apply(slopes, self.model.trainable_weights)
            self.accuracy.update_state(labels, outputs)
            return value, {"accuracy": self.accuracy.result()}

    loop = Trained()
    return (lambda x, y: loop.step(y, x)[0]), loop.model, [loop.accuracy]


MODEL: Any = None
OPTIMIZER: Any = None


def of_globals(function: Any) -> Made:
    """A function as loss, all in one expression; the decorator has an argument."""
    global MODEL, OPTIMIZER
    MODEL = keras.Sequential([keras.Input((8,)), L.Dense(6, "tanh"), L.Dense(1)])
    OPTIMIZER = keras.optimizers.Adam(0.01)

    @function(reduce_retracing=True)
    def step(x, y):  # type: ignore[no-untyped-def]
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(keras.losses.mean_squared_error(y, MODEL(x, training=True)))
        OPTIMIZER.apply(tape.gradient(loss, MODEL.trainable_variables), MODEL.trainable_variables)
        del tape
        return {"loss": loss}

    return (lambda x, y: step(x, y)["loss"]), MODEL, []


def penalties(function: Any) -> Made:
    """The model's own losses are added."""
    model = classifier(regularizer=keras.regularizers.L2(0.02))
    optimizer = keras.optimizers.SGD(0.1)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(reduction=None)

    @function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(loss_fn(y, model(x, training=True)))
            loss += sum(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step, model, []


def penalties_left_out(function: Any) -> Made:
    """There are some, and the tape does not know of them."""
    return closure(function, model=classifier(regularizer=keras.regularizers.L2(0.5)))


def summed(function: Any) -> Made:
    """A loss that is a sum, from logits."""
    return closure(
        function,
        keras.optimizers.SGD(0.01),
        keras.Sequential([keras.Input((8,)), L.Dense(5, "tanh"), L.Dense(3)]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
    )


def logits(function: Any) -> Made:
    """A function as loss, with an option."""
    model = keras.Sequential([keras.Input((8,)), L.Dense(5, "tanh"), L.Dense(3)])
    optimizer = keras.optimizers.RMSprop(0.01)

    @function(jit_compile=False)
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            outputs = model(x, training=True)
            each = keras.losses.sparse_categorical_crossentropy(y, outputs, from_logits=True)
            loss = tf.math.reduce_mean(each)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return step, model, []


def predictions(function: Any) -> Made:
    """Predictions are returned, and the model is called without training=True."""
    model, optimizer = classifier(), keras.optimizers.Adam(0.01)
    loss_fn = keras.losses.SparseCategoricalCrossentropy()

    @function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            activations = model(x)
            loss = loss_fn(y, activations)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return activations

    return step, model, []


def clipped(function: Any) -> Made:
    """All gradients together; the metric is called as a function."""
    model, optimizer = classifier(), keras.optimizers.SGD(0.3)
    loss_fn, norm = keras.losses.SparseCategoricalCrossentropy(), 0.1
    accuracy = keras.metrics.SparseCategoricalAccuracy()

    @function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            outputs = model(x, training=True)
            loss = loss_fn(y, outputs)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, norm)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        accuracy(y, outputs)
        return loss

    return step, model, [accuracy]


def norms(function: Any) -> Made:
    """The norm of gradients is returned too."""
    model, optimizer = classifier(), keras.optimizers.Adam(0.02)
    loss_fn = keras.losses.SparseCategoricalCrossentropy()
    accuracy = keras.metrics.SparseCategoricalAccuracy()

    @function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            outputs = model(x, training=True)
            loss = loss_fn(y, outputs) + tf.reduce_sum(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, norm = tf.clip_by_global_norm(gradients, 0.2)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        accuracy(y, outputs)
        return [loss, norm]

    return step, model, [accuracy]


NATIVE: dict[str, Program] = {
    "closure": closure, "method": method, "globals": of_globals, "penalties": penalties,
    "penalties left out": penalties_left_out, "predictions": predictions,
    "summed": summed, "logits": logits, "clipped": clipped, "norms": norms,
}  # fmt: skip
