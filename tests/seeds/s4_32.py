import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
NUM_SAMPLES, NUM_FEATURES, BATCH_SIZE = 100_000, 1000, 32

X_train = np.random.rand(NUM_SAMPLES, NUM_FEATURES)
y_train = np.random.randint(0, 2, NUM_SAMPLES)

model = models.Sequential(
    [
        layers.Input((NUM_FEATURES,)),
        layers.Dense(128, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(X_train, y_train, batch_size=BATCH_SIZE, epochs=2, shuffle=False, verbose=2)
print("losses", *history.history["loss"])
print("weights", *(float(tf.norm(w)) for w in model.trainable_variables))
