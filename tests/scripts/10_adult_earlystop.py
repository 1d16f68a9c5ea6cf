# Census income: mixed table (numbers + categories), early stopping, class weights
import csv
import os

import numpy as np
import tensorflow as tf
from tensorflow.keras.callbacks import EarlyStopping
from tensorflow.keras.layers import Input, Dense, Embedding, Flatten, Concatenate, Dropout, BatchNormalization
from tensorflow.keras.models import Model

try:
    import pandas as pd
except ImportError:
    pd = None

tf.keras.utils.set_random_seed(1)
cols = ["age", "workclass", "fnlwgt", "education", "education_num", "marital", "occupation", "relationship",
        "race", "sex", "gain", "loss", "hours", "country", "income"]
num = ["age", "education_num", "gain", "loss", "hours"]
cat = ["workclass", "education", "marital", "occupation", "relationship", "race", "sex"]


def read(name):
    path = os.path.join(os.environ.get("SCRIPTS_DATA", "data"), name)
    if pd is not None:
        df = pd.read_csv(path, names=cols, skipinitialspace=True)
        return {c: df[c].to_numpy() for c in cols}
    with open(path) as f:
        rows = [r for r in csv.reader(f, skipinitialspace=True) if len(r) == len(cols)]
    table = {c: np.array([r[i] for r in rows]) for i, c in enumerate(cols)}
    for c in num:
        table[c] = table[c].astype(float)
    return table


train, test = read("adult-train.csv"), read("adult-test.csv")
y_train = np.char.startswith(train["income"].astype(str), ">50K").astype(int)
y_test = np.char.startswith(test["income"].astype(str), ">50K").astype(int)
print("positives:", y_train.mean())

inputs, encoded, x_train, x_test = [], [], {}, {}
for c in num:
    mu, sd = train[c].mean(), train[c].std()
    x_train[c], x_test[c] = (train[c] - mu) / sd, (test[c] - mu) / sd
    i = Input(shape=(1,), name=c)
    inputs.append(i)
    encoded.append(i)
for c in cat:
    vocab = {v: k + 1 for k, v in enumerate(sorted(set(train[c])))}
    x_train[c] = np.array([vocab[v] for v in train[c]])
    x_test[c] = np.array([vocab.get(v, 0) for v in test[c]])
    i = Input(shape=(1,), name=c, dtype="int64")
    inputs.append(i)
    encoded.append(Flatten()(Embedding(len(vocab) + 1, min(8, len(vocab)))(i)))

h = Concatenate()(encoded)
h = Dense(64, activation="relu")(h)
h = BatchNormalization()(h)
h = Dropout(0.3)(h)
h = Dense(32, activation="relu")(h)
out = Dense(1, activation="sigmoid")(h)
model = Model(inputs, out)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy", "AUC"])

neg, pos = np.bincount(y_train)
class_weight = {0: len(y_train) / (2 * neg), 1: len(y_train) / (2 * pos)}
es = EarlyStopping(monitor="val_loss", patience=1, min_delta=0.004, restore_best_weights=True, verbose=1)
history = model.fit(x_train, y_train, validation_split=0.2, epochs=15, batch_size=512, callbacks=[es],
                    class_weight=class_weight, verbose=2)
loss, acc, auc = model.evaluate(x_test, y_test, batch_size=1024, verbose=0)
print("RESULT epochs=%d loss=%.5f test_loss=%.5f test_acc=%.5f test_auc=%.5f" % (
    len(history.history["loss"]), history.history["loss"][-1], loss, acc, auc))
