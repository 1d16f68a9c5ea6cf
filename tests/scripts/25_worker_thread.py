"""
Training in a background thread with progress through a queue, the way web demos
(streamlit / gradio / flask) do it: the main thread only draws.
"""
import queue
import threading
import time
import traceback

import numpy as np
import keras
from keras import layers

events = queue.Queue()
stop_flag = threading.Event()


class Progress(keras.callbacks.Callback):
    def __init__(self, q):
        super().__init__()
        self.q = q
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % 10 == 0:
            self.q.put(("batch", self.seen, float(logs["loss"])))
        if stop_flag.is_set():
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        self.q.put(("epoch", epoch, {k: float(v) for k, v in logs.items()}))


def worker(cfg):
    try:
        rng = np.random.default_rng(cfg["seed"])
        x = rng.uniform(-1, 1, size=(cfg["n"], 2)).astype("float32")
        r = np.hypot(x[:, 0], x[:, 1])
        y = ((r * 3).astype(int) % 2).astype("float32")
        model = keras.Sequential(name="playground")
        model.add(layers.Input((2,)))
        for units in cfg["hidden"]:
            model.add(layers.Dense(units, activation=cfg["activation"]))
            model.add(layers.Dropout(cfg["dropout"]))
        model.add(layers.Dense(1, activation="sigmoid"))
        model.compile(optimizer=keras.optimizers.Adam(cfg["lr"]), loss="binary_crossentropy",
                      metrics=["accuracy"])
        model.fit(x, y, epochs=cfg["epochs"], batch_size=cfg["batch_size"], validation_split=0.25, verbose=0,
                  callbacks=[Progress(events)])
        grid = np.stack(np.meshgrid(np.linspace(-1, 1, 20), np.linspace(-1, 1, 20)), -1).reshape(-1, 2)
        events.put(("done", model, model.predict(grid, verbose=0)))
    except Exception:
        events.put(("error", traceback.format_exc(), None))


def main():
    keras.utils.set_random_seed(8)
    cfg = dict(seed=8, n=4000, hidden=[32, 32], activation="relu", dropout=0.05, lr=3e-3, epochs=20, batch_size=64)
    t = threading.Thread(target=worker, args=(cfg,), daemon=True)
    t.start()
    n_batches, epochs = 0, []
    while True:
        try:
            kind, a, b = events.get(timeout=0.2)
        except queue.Empty:
            continue
        if kind == "batch":
            n_batches = a
        elif kind == "epoch":
            epochs.append(b)
            print("\repoch %2d %s %s" % (a, "#" * a, b))
            if a == 4:              # user presses "stop" after five epochs
                stop_flag.set()
        elif kind == "done":
            model, heat = a, b
            break
        else:
            raise SystemExit(a)
    t.join()
    # the UI thread now uses the model that was trained in the other one
    p = model.predict(np.array([[0.0, 0.0], [0.5, 0.0], [0.9, 0.0]]), verbose=0).ravel()
    e = epochs[4]
    print("RESULT loss=%.5f acc=%.5f val_loss=%.5f val_acc=%.5f" % (e["loss"], e["accuracy"], e["val_loss"], e["val_accuracy"]))


if __name__ == "__main__":
    main()
