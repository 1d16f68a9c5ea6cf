import os

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
if not os.path.exists("large_dataset.npy"):
    made = np.lib.format.open_memmap("large_dataset.npy", "w+", np.float32, (4096, 32, 32, 3))
    for at in range(0, 4096, 1024):
        made[at : at + 1024] = np.random.rand(1024, 32, 32, 3)
    made.flush()
    del made
    np.save("labels.npy", np.random.rand(4096, 10).astype(np.float32))
labels = np.load("labels.npy")

model = models.Sequential(
    [
        layers.Input((32, 32, 3)),
        layers.Conv2D(32, (3, 3), activation="relu"),
        layers.MaxPooling2D((2, 2)),
        layers.Conv2D(64, (3, 3), activation="relu"),
        layers.MaxPooling2D((2, 2)),
        layers.Flatten(),
        layers.Dense(10),
    ]
)
optimizer = tf.keras.optimizers.Adam(0.001)
loss_fn = tf.keras.losses.MeanSquaredError()

data = np.load("large_dataset.npy", mmap_mode="r")
losses = []
for start in range(0, len(data), 1024):
    chunk = data[start : start + 1024]
    dataset = tf.data.Dataset.from_tensor_slices((chunk, labels[start : start + 1024]))
    dataset = dataset.batch(32).prefetch(tf.data.AUTOTUNE)
    accumulated = [tf.zeros_like(v) for v in model.trainable_variables]
    for step, (x, y) in enumerate(dataset):
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            loss = loss_fn(y, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        accumulated = [a + g for a, g in zip(accumulated, gradients)]
        if (step + 1) % 4 == 0:
            optimizer.apply_gradients(zip(accumulated, model.trainable_variables))
            accumulated = [tf.zeros_like(v) for v in model.trainable_variables]
    losses.append(float(loss))
print("losses", *losses)
print("weights", *(float(tf.norm(w)) for w in model.trainable_variables))
