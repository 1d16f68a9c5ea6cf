import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
X_train = np.random.rand(1000, 32, 32, 3).astype(np.float32)
y_train = np.random.rand(1000, 10).astype(np.float32)
dataset = tf.data.Dataset.from_tensor_slices((X_train, y_train)).batch(16)
accumulation_steps = 4

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

losses = []
for epoch in range(10):
    accumulated = [tf.zeros_like(v) for v in model.trainable_variables]
    for step, (x, y) in enumerate(dataset):
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            loss = loss_fn(y, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        accumulated = [a + g for a, g in zip(accumulated, gradients)]
        if (step + 1) % accumulation_steps == 0:
            optimizer.apply_gradients(zip(accumulated, model.trainable_variables))
            accumulated = [tf.zeros_like(v) for v in model.trainable_variables]
    losses.append(float(loss))
print("losses", *losses)
print("weights", *(float(tf.norm(w)) for w in model.trainable_variables))
