"""Conv1D on accelerometer windows (HAR); train, save, load again and go on."""
import argparse
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras.layers import (BatchNormalization, Conv1D, Dense, Dropout, GlobalAveragePooling1D, Input,
                                     MaxPooling1D, ReLU, SeparableConv1D)

CLASSES = ["walk", "run", "stairs", "sit", "stand", "lie"]


def windows(n, length=128, seed=0):
    r = np.random.RandomState(seed)
    y = r.randint(len(CLASSES), size=n)
    t = np.arange(length) / 50.0
    freq = np.array([1.8, 2.8, 1.4, 0.0, 0.0, 0.0])[y] * r.uniform(0.8, 1.2, n)
    amp = np.array([1.0, 2.2, 1.2, 0.05, 0.08, 0.03])[y]
    grav = np.array([[0, 0, 1], [0, .2, 1], [.3, 0, .9], [.7, 0, .7], [0, 0, 1], [1, 0, 0]])[y]
    phase = r.uniform(0, 6.28, (n, 1, 3))
    x = grav[:, None, :] + amp[:, None, None] * np.sin(6.28 * freq[:, None, None] * t[None, :, None] + phase)
    return x + r.normal(0, 0.35, x.shape), y


def build_model(shape, n_out):
    i = Input(shape)
    x = Conv1D(32, 7, padding="causal", kernel_initializer="he_uniform")(i)
    x = BatchNormalization()(x)
    x = ReLU()(x)
    x = MaxPooling1D(2)(x)
    x = SeparableConv1D(64, 5, padding="same", activation="relu")(x)
    x = Conv1D(64, 3, dilation_rate=2, padding="same", activation="swish")(x)
    x = GlobalAveragePooling1D()(x)
    x = Dropout(0.2)(x)
    return keras.Model(i, Dense(n_out, activation="softmax")(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--model", default="har_model.keras")
    a = p.parse_args()
    keras.utils.set_random_seed(77)

    x, y = windows(3000)
    xv, yv = windows(600, seed=1)

    if os.path.exists(a.model):
        print("resuming from", a.model)
        model = keras.models.load_model(a.model)
    else:
        model = build_model(x.shape[1:], len(CLASSES))
        model.compile(keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
                      "sparse_categorical_crossentropy", metrics=["accuracy"])
    first = model.fit(x, y, epochs=a.epochs, batch_size=64, validation_data=(xv, yv), verbose=2)
    before = model.evaluate(xv, yv, verbose=0)
    model.save(a.model)

    # ... some days later
    del model
    tf.keras.backend.clear_session()
    model = keras.models.load_model(a.model)
    after = model.evaluate(xv, yv, verbose=0)
    assert np.allclose(before, after, atol=1e-4), (before, after)
    steps = int(model.optimizer.iterations.numpy())
    model.optimizer.learning_rate = 0.01
    second = model.fit(x, y, epochs=2 * a.epochs, initial_epoch=a.epochs, batch_size=64,
                       validation_data=(xv, yv), verbose=2)
    print("RESULT first=%.5f before=%.5f after=%.5f second=%.5f val=%.5f val_acc=%.5f steps=%d" % (
        first.history["loss"][-1], before[0], after[0], second.history["loss"][-1],
        second.history["val_loss"][-1], second.history["val_accuracy"][-1], steps))


if __name__ == "__main__":
    main()
