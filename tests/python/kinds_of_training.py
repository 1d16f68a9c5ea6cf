"""An ordinary Keras program of many kinds of training; writes what came of them to argv[1].

test_scripts_run.py runs it by plain `python` and by `python -m plimsoll` and compares. It knows
nothing of Plimsoll.
"""

import pickle
import sys
import threading
from pathlib import Path

import keras as plain_keras
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.callbacks import EarlyStopping, ModelCheckpoint

RESULTS = {}
rng = np.random.default_rng(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x.sum(1) > 0).astype("int64")


def deferred(loss="binary_crossentropy", name=None):
    """No Input: built from the data."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([layers.Dense(8, "relu"), layers.Dense(1, "sigmoid")], name=name)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


def keep(name, model, *values):
    RESULTS[name] = [np.asarray(v) for v in (*values, *model.get_weights())]


def logs(history):
    return [history.history[name] for name in sorted(history.history)]


def arrays_and_callbacks(folder):
    model = deferred()
    seen = []
    history = model.fit(
        x, y, batch_size=32, epochs=4, validation_split=0.25, verbose=2,
        callbacks=[
            EarlyStopping("val_loss", patience=2, restore_best_weights=True),
            ModelCheckpoint(str(folder / "best.keras"), save_best_only=True),
            keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, _: seen.append(
                    float(model.predict(x[:1], verbose=0)[0, 0])
                )
            ),
        ],
    )  # fmt: skip
    assert sorted(history.history) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert history is model.history and len(history.epoch) == 4
    loaded = keras.models.load_model(folder / "best.keras")
    keep("arrays", model, *logs(history), seen, model.evaluate(x, y, verbose=0),
         model.predict(x, verbose=0), loaded.predict(x[:5], verbose=0))  # fmt: skip


def batches():
    model = deferred()
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(20)
    first = model.fit(data, epochs=2, verbose=0, validation_data=data)

    def generator():
        for begin in range(0, 96, 32):
            yield x[begin : begin + 32], y[begin : begin + 32]

    second = model.fit(generator(), steps_per_epoch=3, verbose=0)
    answers = model.predict(data, verbose=0)
    keep("batches", model, *logs(first), *logs(second), answers, model.evaluate(generator()))


def k_fold():
    scores = []
    for fold in range(3):
        here = np.arange(96) % 3 == fold
        model = deferred()
        model.fit(x[~here], y[~here], epochs=1, batch_size=16, verbose=0)
        scores.append(model.evaluate(x[here], y[here], verbose=0, return_dict=True)["loss"])
    keep("k-fold", model, scores)


def adversaries():
    keras.utils.set_random_seed(2)
    make = keras.Sequential([keras.Input((4,)), layers.Dense(8, "relu"), layers.Dense(8)])
    judge = keras.Sequential([keras.Input((8,)), layers.Dense(8), layers.Dense(1, "sigmoid")])
    judge.compile(keras.optimizers.SGD(0.01), "binary_crossentropy")
    judge.trainable = False
    noise = keras.Input((4,))
    both = keras.Model(noise, judge(make(noise)))
    both.compile(keras.optimizers.SGD(0.01), "binary_crossentropy")
    judge.trainable = True
    judge.compile(keras.optimizers.SGD(0.01), "binary_crossentropy")
    losses = []
    for step in range(4):
        z = np.random.default_rng(step).normal(size=(16, 4)).astype("float32")
        made = make.predict(z, verbose=0)
        judge.trainable = True
        losses.append(judge.train_on_batch(x[:16], np.ones((16, 1))))
        losses.append(judge.train_on_batch(made, np.zeros((16, 1))))
        judge.trainable = False
        losses.append(both.train_on_batch(z, np.ones((16, 1))))
    keep("adversaries", make, losses[::3], judge.test_on_batch(x[:16], np.ones((16, 1))))
    keep("judge", judge, make.predict_on_batch(z))


def thread():
    model = deferred()
    worker = threading.Thread(target=lambda: model.fit(x, y, verbose=0, batch_size=32))
    worker.start()
    worker.join()
    keep("thread", model)


def plain_import():
    """`import keras`, functional, several inputs."""
    plain_keras.utils.set_random_seed(3)
    left, right = plain_keras.Input((3,), name="left"), plain_keras.Input((5,), name="right")
    joined = plain_keras.layers.Concatenate()([left, right])
    model = plain_keras.Model([left, right], plain_keras.layers.Dense(1)(joined))
    model.compile("sgd", "mse")
    history = model.fit({"left": x[:, :3], "right": x[:, 3:]}, y, verbose=0, batch_size=32)
    keep("functional", model, *logs(history))


class Own(keras.Model):
    """Its own call and fit: Python code, which stays Keras's."""

    def __init__(self):
        super().__init__(name="own")
        self.dense = layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)

    def fit(self, *args, **kwargs):
        self.fitted = True
        return super().fit(*args, **kwargs)


def subclass():
    keras.utils.set_random_seed(4)
    model = Own()
    model.compile("sgd", "mse")
    history = model.fit(x, y, verbose=0, shuffle=False)
    assert model.fitted
    keep("subclass", model, *logs(history), model.evaluate(x, y, verbose=0))


def own_loss(true, predicted):
    return tf.reduce_mean(tf.abs(tf.cast(true, "float32") - predicted))


def custom_loss():
    for _ in range(2):  # one line for both
        model = deferred(own_loss)
        model.fit(x, y, verbose=0, shuffle=False, batch_size=32)
    keep("custom loss", model)


def wrapped():
    """A program that puts a function of its own around Model.fit."""
    before, calls = keras.Model.fit, []

    def fit(self, *args, **kwargs):
        calls.append(args)
        return before(self, *args, **kwargs)

    keras.Model.fit = fit
    model = deferred()
    model.fit(x, y, verbose=0, batch_size=32)
    keras.Model.fit = before
    assert len(calls) == 1
    keep("wrapped", model)


def errors():
    model = deferred()
    for faulty in (lambda: model.fit(x, y[:5], verbose=0), lambda: model.fit(x, epochs="many")):
        try:
            faulty()
        except Exception as error:
            RESULTS[f"error {len(RESULTS)}"] = [np.asarray(type(error).__name__)]

    class Stops(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise KeyError("of the program")

    try:
        model.fit(x, y, verbose=0, callbacks=[Stops()])
    except KeyError as error:
        names, trace = [], error.__traceback__
        while trace is not None:
            names.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        assert names[0] == "errors" and names[-1] == "on_epoch_end"
        RESULTS["frames"] = [np.asarray(len(names))]


if __name__ == "__main__":
    target = Path(sys.argv[1])
    arrays_and_callbacks(target.parent)
    for part in (batches, k_fold, adversaries, thread, plain_import, subclass, custom_loss,
                 wrapped, errors):  # fmt: skip
        part()
    target.write_bytes(pickle.dumps(RESULTS))
