import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
NUM_SAMPLES, IMG_SIZE, BATCH_SIZE, EPOCHS = 1000, 256, 32, 5

X_train = np.random.rand(NUM_SAMPLES, IMG_SIZE, IMG_SIZE, 3).astype(np.float32)
y_train = np.random.randint(0, 2, size=(NUM_SAMPLES,))
dataset = tf.data.Dataset.from_tensor_slices((X_train, y_train)).batch(BATCH_SIZE)

model = models.Sequential(
    [
        layers.Input((IMG_SIZE, IMG_SIZE, 3)),
        layers.Conv2D(32, (3, 3), activation="relu"),
        layers.MaxPooling2D((2, 2)),
        layers.Conv2D(64, (3, 3), activation="relu"),
        layers.MaxPooling2D((2, 2)),
        layers.Flatten(),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(dataset, epochs=EPOCHS, verbose=2)
print("losses", *history.history["loss"])
print("accuracy", *history.history["accuracy"])
print("weights", *(float(tf.norm(w)) for w in model.trainable_variables))
