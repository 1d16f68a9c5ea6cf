import os

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
X_train = np.random.rand(1000, 32, 32, 3).astype(np.float32)
y_train = np.random.rand(1000, 10).astype(np.float32)

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
model.compile(optimizer="adam", loss="mse")

losses = []
for epoch in range(10):
    try:
        history = model.fit(X_train, y_train, batch_size=32, epochs=1, shuffle=False, verbose=0)
        losses += history.history["loss"]
        model.save_weights("model.weights.h5")
    except tf.errors.ResourceExhaustedError:
        if os.path.exists("model.weights.h5"):
            model.load_weights("model.weights.h5")
print("losses", *losses)
print("weights", *(float(tf.norm(w)) for w in model.trainable_variables))
