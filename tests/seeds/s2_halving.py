import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
X_train = np.random.rand(1000, 32, 32, 3).astype(np.float32)
y_train = np.random.rand(1000, 10).astype(np.float32)


def build_model():
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
    return model


batch_size = 32
while batch_size >= 1:
    try:
        model = build_model()
        history = model.fit(
            X_train, y_train, batch_size=batch_size, epochs=10, shuffle=False, verbose=0
        )
        break
    except tf.errors.ResourceExhaustedError:
        print("out of memory with", batch_size)
        batch_size //= 2
print("batch", batch_size)
print("losses", *history.history["loss"])
print("weights", *(float(tf.norm(w)) for w in model.trainable_variables))
