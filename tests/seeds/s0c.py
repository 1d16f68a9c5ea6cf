import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
NUM_SAMPLES, LENGTH, VOCABULARY = 1000, 128, 20000

X_train = np.random.randint(0, VOCABULARY, size=(NUM_SAMPLES, LENGTH))
y_train = np.random.randint(0, 2, size=(NUM_SAMPLES,))

model = models.Sequential(
    [
        layers.Input((LENGTH,)),
        layers.Embedding(VOCABULARY, 256),
        layers.LSTM(64),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(X_train, y_train, batch_size=32, epochs=5, shuffle=False, verbose=2)
print("losses", *history.history["loss"])
print("weights", *(float(tf.norm(w)) for w in model.trainable_variables))
