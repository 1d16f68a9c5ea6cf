# Credit-card-fraud-like imbalanced table with a custom focal loss
import numpy as np
import tensorflow as tf
from keras import backend as K
import keras
from keras.layers import Dense, Dropout
from keras.models import Sequential

keras.utils.set_random_seed(13)


def binary_focal_loss(gamma=2., alpha=.25):
    """
    Binary form of focal loss.
      FL(p_t) = -alpha * (1 - p_t)**gamma * log(p_t)
    Usage: model.compile(loss=[binary_focal_loss(alpha=.25, gamma=2)], metrics=["accuracy"], optimizer=adam)
    """
    def binary_focal_loss_fixed(y_true, y_pred):
        y_true = tf.cast(y_true, tf.float32)
        # Define epsilon so that the back-propagation will not result in NaN for 0 divisor case
        epsilon = K.epsilon()
        y_pred = y_pred + epsilon
        y_pred = tf.clip_by_value(y_pred, epsilon, 1.0 - epsilon)
        p_t = tf.where(tf.equal(y_true, 1), y_pred, 1 - y_pred)
        alpha_factor = tf.ones_like(y_true) * alpha
        alpha_t = tf.where(tf.equal(y_true, 1), alpha_factor, 1 - alpha_factor)
        cross_entropy = -tf.math.log(p_t)
        weight = alpha_t * tf.pow((1 - p_t), gamma)
        loss = weight * cross_entropy
        # Sum the losses in mini_batch
        return tf.reduce_mean(tf.reduce_sum(loss, axis=1))
    return binary_focal_loss_fixed


n, d = 30000, 28
X = np.random.randn(n, d)
w = np.random.randn(d)
score = X @ w / np.sqrt(d) + 0.6 * X[:, 0] * X[:, 1]
y = (score > np.quantile(score, 0.985)).astype(np.uint8)[:, np.newaxis]
X[:, -1] = np.log1p(np.abs(X[:, -1]) * 100)
perm = np.random.permutation(n)
X, y = X[perm], y[perm]
X_train, X_val, y_train, y_val = X[:24000], X[24000:], y[:24000], y[24000:]
print("fraud rate %.4f" % y.mean())

model = Sequential([
    Dense(128, activation="relu", input_shape=(X_train.shape[-1],)),
    Dense(128, activation="relu"),
    Dropout(0.3),
    Dense(1, activation="sigmoid", bias_initializer=keras.initializers.Constant(-np.log((1 - 0.015) / 0.015))),
])
metrics = [
    keras.metrics.FalseNegatives(name="fn"),
    keras.metrics.FalsePositives(name="fp"),
    keras.metrics.Precision(name="precision"),
    keras.metrics.Recall(name="recall"),
    keras.metrics.AUC(name="prc", curve="PR"),
]
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=binary_focal_loss(gamma=2., alpha=.6), metrics=metrics)
hist = model.fit(X_train, y_train, batch_size=2048, epochs=8, verbose=2, validation_data=(X_val, y_val))
r = model.evaluate(X_val, y_val, batch_size=2048, verbose=0, return_dict=True)
print(r)
print("RESULT loss=%.5f val_loss=%.5f fn=%d fp=%d recall=%.5f prc=%.5f" % (
    hist.history["loss"][-1], r["loss"], r["fn"], r["fp"], r["recall"], r["prc"]))
