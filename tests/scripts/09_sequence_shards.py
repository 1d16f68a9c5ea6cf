"""Training from .npy shards on disk with a custom Sequence."""
import argparse
import math
import os
import tempfile

import numpy as np
import keras
from keras import layers


class ShardSequence(keras.utils.Sequence):
    def __init__(self, folder, ids, batch_size=32, n_classes=5, shuffle=True, **kwargs):
        super().__init__(**kwargs)
        self.folder, self.ids = folder, list(ids)
        self.batch_size = batch_size
        self.n_classes = n_classes
        self.shuffle = shuffle
        self.rng = np.random.RandomState(0)
        self.on_epoch_end()

    def __len__(self):
        return math.ceil(len(self.ids) / self.batch_size)

    def __getitem__(self, index):
        batch_ids = [self.ids[k] for k in self.indexes[index * self.batch_size:(index + 1) * self.batch_size]]
        X = np.empty((len(batch_ids), 32, 32, 3), dtype="float32")
        y = np.empty((len(batch_ids),), dtype=int)
        for i, ID in enumerate(batch_ids):
            X[i] = np.load(os.path.join(self.folder, "%05d.npy" % ID)) / 127.5 - 1.0
            y[i] = ID % self.n_classes
        return X, keras.utils.to_categorical(y, num_classes=self.n_classes)

    def on_epoch_end(self):
        self.indexes = np.arange(len(self.ids))
        if self.shuffle:
            self.rng.shuffle(self.indexes)


def make_files(folder, n, n_classes):
    rng = np.random.RandomState(99)
    colours = rng.randint(60, 190, size=(n_classes, 1, 1, 3))
    for i in range(n):
        img = colours[i % n_classes] + rng.normal(0, 70, size=(32, 32, 3))
        np.save(os.path.join(folder, "%05d.npy" % i), np.clip(img, 0, 255).astype("uint8"))


def build(n_classes):
    model = keras.Sequential()
    model.add(layers.Input((32, 32, 3)))
    for f in (16, 32):
        model.add(layers.Conv2D(f, 3, padding="same"))
        model.add(layers.BatchNormalization())
        model.add(layers.Activation("elu"))
        model.add(layers.AveragePooling2D(2))
    model.add(layers.GlobalMaxPooling2D())
    model.add(layers.Dense(n_classes, activation="softmax"))
    return model


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=1500)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        make_files(folder, args.n, 5)
        split = int(args.n * 0.8)
        train = ShardSequence(folder, range(split), args.batch_size, workers=args.workers, max_queue_size=4)
        valid = ShardSequence(folder, range(split, args.n), args.batch_size, shuffle=False)
        model = build(5)
        model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
        # the sequence shuffles itself
        hist = model.fit(train, validation_data=valid, epochs=args.epochs, shuffle=False, verbose=2)
        loss, acc = model.evaluate(valid, verbose=0)
        probs = model.predict(valid, verbose=0)
    print(f"RESULT loss={hist.history['loss'][-1]:.5f} val_loss={loss:.5f} val_acc={acc:.5f} "
          f"n_pred={len(probs)} conf={probs.max(1).mean():.5f}")
