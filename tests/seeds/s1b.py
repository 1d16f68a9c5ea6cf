import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

tf.keras.utils.set_random_seed(0)
X_train = np.random.rand(1000, 10).astype(np.float32)
y_train = np.random.randint(0, 10, size=(1000,)).astype(np.int32)
dataset = tf.data.Dataset.from_tensor_slices((X_train, y_train)).batch(32)

model = models.Sequential(
    [
        layers.Input((10,)),
        layers.Dense(100, activation="relu"),
        layers.Dense(10, activation="softmax"),
    ]
)
optimizer = tf.keras.optimizers.Adam(0.001)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        activations = model(x, training=True)
        loss = loss_fn(y, activations)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return activations


for epoch in range(5):
    for x, y in dataset:
        activations = train_step(x, y)
print("activations", *activations[0].numpy())
print("weights", *(float(tf.norm(w)) for w in model.trainable_variables))
