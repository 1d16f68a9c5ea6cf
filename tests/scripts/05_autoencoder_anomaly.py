# Anomaly detection with an autoencoder (ECG tutorial style)
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, losses
from tensorflow.keras.models import Model

tf.keras.utils.set_random_seed(3)
rng = np.random.RandomState(3)

T = 140
t = np.linspace(0, 1, T)


def beat(kind):
    c = 0.3 + 0.02 * rng.randn()
    sig = np.exp(-((t - c) / 0.02) ** 2) * 3 + 0.6 * np.exp(-((t - c - 0.3) / 0.06) ** 2)
    if kind:  # abnormal: inverted T wave, a wide QRS
        sig = np.exp(-((t - c) / 0.05) ** 2) * 2.2 - 0.8 * np.exp(-((t - c - 0.25) / 0.08) ** 2)
    return sig + 0.1 * rng.randn(T)


labels = (rng.rand(4000) < 0.4).astype(int)
data = np.stack([beat(k) for k in labels])

n_train = 3200
train_data, test_data = data[:n_train], data[n_train:]
train_labels, test_labels = labels[:n_train].astype(bool), labels[n_train:].astype(bool)

min_val = tf.reduce_min(train_data)
max_val = tf.reduce_max(train_data)
train_data = tf.cast((train_data - min_val) / (max_val - min_val), tf.float32)
test_data = tf.cast((test_data - min_val) / (max_val - min_val), tf.float32)

normal_train_data = train_data[~train_labels]
normal_test_data = test_data[~test_labels]
anomalous_test_data = test_data[test_labels]


class AnomalyDetector(Model):
    def __init__(self):
        super(AnomalyDetector, self).__init__()
        self.encoder = tf.keras.Sequential([
            layers.Dense(32, activation="relu"),
            layers.Dense(16, activation="relu"),
            layers.Dense(8, activation="relu")])
        self.decoder = tf.keras.Sequential([
            layers.Dense(16, activation="relu"),
            layers.Dense(32, activation="relu"),
            layers.Dense(T, activation="sigmoid")])

    def call(self, x):
        encoded = self.encoder(x)
        decoded = self.decoder(encoded)
        return decoded


autoencoder = AnomalyDetector()
autoencoder.compile(optimizer='adam', loss='mae')
history = autoencoder.fit(normal_train_data, normal_train_data,
                          epochs=10,
                          batch_size=64,
                          validation_data=(test_data, test_data),
                          shuffle=True)

reconstructions = autoencoder.predict(normal_train_data)
train_loss = losses.mae(reconstructions, normal_train_data)
threshold = np.mean(train_loss) + np.std(train_loss)
print("Threshold: ", threshold)


def predict(model, data, threshold):
    return tf.math.less(losses.mae(model(data), data), threshold)


preds = predict(autoencoder, test_data, threshold)
acc = np.mean(preds.numpy() == ~test_labels)
code = autoencoder.encoder(anomalous_test_data[:16]).numpy()
print("RESULT loss=%.5f val_loss=%.5f threshold=%.5f acc=%.5f code_mean=%.5f" % (
    history.history["loss"][-1], history.history["val_loss"][-1], threshold, acc, code.mean()))
