# Iris flowers, k-fold cross validation by hand, model without an input shape
import os
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(5)

raw = np.genfromtxt(os.path.join(os.environ.get("SCRIPTS_DATA", "data"), "iris.csv"), delimiter=",", dtype=str)
raw = raw[raw[:, 0] != ""]
X = raw[:, :4].astype(float)
names, Y = np.unique(raw[:, 4], return_inverse=True)
Y = tf.one_hot(Y, len(names)).numpy()

k = 4
order = np.random.permutation(len(X))
folds = np.array_split(order, k)


def baseline_model():
    # shape is known on the first call of fit
    return tf.keras.models.Sequential([
        tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dense(8, activation="relu"),
        tf.keras.layers.Dense(3, activation="softmax"),
    ])


scores, losses, all_pred = [], [], np.zeros_like(Y)
for i in range(k):
    print("processing fold #", i)
    val = folds[i]
    trn = np.concatenate([folds[j] for j in range(k) if j != i])
    mu, sigma = X[trn].mean(0), X[trn].std(0)
    xt, xv = (X[trn] - mu) / sigma, (X[val] - mu) / sigma

    # flowers measured "earlier" are trusted a bit less
    w = np.linspace(0.5, 1.5, len(X))[trn]

    model = baseline_model()
    model.compile(loss="categorical_crossentropy", optimizer=tf.keras.optimizers.Adam(0.02), metrics=["accuracy"],
                  weighted_metrics=["categorical_crossentropy"])
    h = model.fit(xt, Y[trn], sample_weight=w, epochs=15, batch_size=16, verbose=0,
                  validation_data=(xv, Y[val], np.ones(len(val))))
    r = model.evaluate(xv, Y[val], verbose=0, return_dict=True)
    scores.append(r["accuracy"])
    losses.append(h.history["loss"][-1])
    all_pred[val] = model.predict(xv, verbose=0)

conf = np.zeros((3, 3), int)
np.add.at(conf, (Y.argmax(1), all_pred.argmax(1)), 1)
print(conf)
print("Baseline: %.2f%% (%.2f%%)" % (np.mean(scores) * 100, np.std(scores) * 100))
print("RESULT mean_acc=%.5f std_acc=%.5f mean_loss=%.5f logloss=%.5f right=%d" % (
    np.mean(scores), np.std(scores), np.mean(losses), -np.mean(np.log(all_pred[Y == 1])), np.trace(conf)))
