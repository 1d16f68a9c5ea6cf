import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
X_train = np.random.rand(1000, 64, 64, 3).astype(np.float32)
y_train = np.random.randint(0, 10, size=(1000,)).astype(np.int32)
dataset = tf.data.Dataset.from_tensor_slices((X_train, y_train)).batch(64)

model = models.Sequential(
    [
        layers.Input((64, 64, 3)),
        layers.Conv2D(64, (3, 3), activation="relu"),
        layers.MaxPooling2D((2, 2)),
        layers.Conv2D(128, (3, 3), activation="relu"),
        layers.MaxPooling2D((2, 2)),
        layers.Flatten(),
        layers.Dense(256, activation="relu"),
        layers.Dense(10, activation="softmax"),
    ]
)
optimizer = tf.keras.optimizers.Adam(0.001)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy()

for gpu in tf.config.list_physical_devices("GPU"):  # too late: the page catches the error
    try:
        tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError as error:
        print(error)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        predictions = model(x, training=True)
        loss = loss_fn(y, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


losses = [float(train_step(x, y)) for x, y in dataset]
print("losses", *losses)
print("weights", *(float(tf.norm(w)) for w in model.trainable_variables))
