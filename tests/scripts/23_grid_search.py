# poor man's keras-tuner: loop over a small grid, keep the best model
import gc
import itertools
import json
import random

import numpy as np
import tensorflow as tf
from tensorflow import keras

SEED = 17
GRID = {
    "units": [16, 64],
    "layers": [1, 2],
    "lr": [1e-2, 1e-3],
    "optimizer": ["adam", "rmsprop", "sgd"],
}


def get_data(n=2500):
    rng = np.random.default_rng(SEED)
    # two moons in 2d + 6 noise columns
    a = rng.uniform(0, np.pi, n)
    k = rng.integers(0, 2, n)
    xy = np.where(k[:, None], np.c_[1 - np.cos(a), 0.5 - np.sin(a)], np.c_[np.cos(a), np.sin(a)])
    X = np.hstack([xy + rng.normal(0, 0.2, xy.shape), rng.normal(size=(n, 6))])
    cut = int(0.75 * n)
    return (X[:cut], k[:cut]), (X[cut:], k[cut:])


def build(hp):
    model = keras.models.Sequential()
    model.add(keras.layers.Input(shape=(8,)))
    for _ in range(hp["layers"]):
        model.add(keras.layers.Dense(hp["units"], activation="relu",
                                     kernel_regularizer=keras.regularizers.l1_l2(1e-5, 1e-4)))
    model.add(keras.layers.Dense(2, activation="softmax"))
    opt = keras.optimizers.get({"class_name": hp["optimizer"], "config": {"learning_rate": hp["lr"]}})
    model.compile(optimizer=opt, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


(X, y), (Xv, yv) = get_data()
combos = [dict(zip(GRID, v)) for v in itertools.product(*GRID.values())]
random.Random(SEED).shuffle(combos)
combos = combos[:6]

best, best_weights, log = None, None, []
for trial, hp in enumerate(combos):
    tf.keras.backend.clear_session()
    keras.utils.set_random_seed(SEED)
    model = build(hp)
    stop = keras.callbacks.EarlyStopping(monitor="val_accuracy", mode="max", patience=2)
    h = model.fit(X, y, epochs=4, batch_size=int(hp["units"]), validation_data=(Xv, yv), verbose=0, callbacks=[stop])
    score = max(h.history["val_accuracy"])
    log.append({"trial": trial, **hp, "val_accuracy": score, "epochs": len(h.epoch)})
    print(json.dumps(log[-1]))
    if best is None or score > best["val_accuracy"]:
        best, best_weights = log[-1], model.get_weights()
    del model
    gc.collect()

# rebuild the winner and continue on all data
final = build(best)
final.set_weights(best_weights)
before = final.evaluate(Xv, yv, verbose=0)
h = final.fit(np.concatenate([X, Xv]), np.concatenate([y, yv]), epochs=2, batch_size=32, verbose=0)
print("RESULT best_trial=%d best_acc=%.5f mean_acc=%.5f reload_loss=%.5f final_loss=%.5f final_acc=%.5f" % (
    best["trial"], best["val_accuracy"], np.mean([l["val_accuracy"] for l in log]), before[0],
    h.history["loss"][-1], h.history["accuracy"][-1]))
