import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
X_train = np.random.rand(1000, 28, 28, 3).astype(np.float32)
y_train = np.random.randint(0, 10, size=(1000,)).astype(np.int32)
dataset = tf.data.Dataset.from_tensor_slices((X_train, y_train)).batch(256)

model = models.Sequential(
    [
        layers.Input((28, 28, 3)),
        layers.Conv2D(32, (3, 3), activation="relu"),
        layers.MaxPooling2D((2, 2)),
        layers.Flatten(),
        layers.Dense(10, activation="softmax"),
    ]
)
optimizer = tf.keras.optimizers.Adam(0.001)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy()


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
