import time
import tensorflow as tf
import numpy as np
from tensorflow.keras.layers import Dense, Flatten, Conv2D, MaxPool2D, Dropout, Input

# Writing a training loop from scratch
tf.keras.utils.set_random_seed(64)
BATCH_SIZE = 64
EPOCHS = 2

r = np.random.RandomState(64)
proto = r.rand(10, 28, 28)
y = r.randint(0, 10, 5000)
x = (proto[y] * 120 + r.rand(5000, 28, 28) * 135).astype(np.uint8)
x = np.where(r.rand(5000, 1, 1) < 0.2, 255 - x, x)   # some inverted ones
x_train, y_train, x_val, y_val = x[:4200], y[:4200], x[4200:], y[4200:]

# Add a channels dimension
x_train = x_train[..., tf.newaxis].astype("float32") / 255.0
x_val = x_val[..., tf.newaxis].astype("float32") / 255.0

train_ds = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(buffer_size=1024).batch(BATCH_SIZE)
val_ds = tf.data.Dataset.from_tensor_slices((x_val, y_val)).batch(BATCH_SIZE)

model = tf.keras.Sequential([
    Input((28, 28, 1)),
    Conv2D(16, 5, activation="relu"), MaxPool2D(),
    Conv2D(32, 3, activation="relu", kernel_regularizer="l2"), MaxPool2D(),
    Flatten(), Dropout(0.25),
    Dense(64, activation="relu"),
    Dense(10),
])
lr = tf.keras.optimizers.schedules.ExponentialDecay(3e-3, decay_steps=20, decay_rate=0.9, staircase=True)
optimizer = tf.keras.optimizers.Adam(lr)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_loss = tf.keras.metrics.Mean(name="train_loss")
train_acc_metric = tf.keras.metrics.SparseCategoricalAccuracy()
val_acc_metric = tf.keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss_value = loss_fn(y, logits)
        # Add any extra losses created during the forward pass.
        loss_value += sum(model.losses)
    grads = tape.gradient(loss_value, model.trainable_weights)
    grads, norm = tf.clip_by_global_norm(grads, 5.0)
    optimizer.apply_gradients(zip(grads, model.trainable_weights))
    train_loss(loss_value)
    train_acc_metric.update_state(y, logits)
    return loss_value, norm


@tf.function
def test_step(x, y):
    val_logits = model(x, training=False)
    val_acc_metric.update_state(y, val_logits)


for epoch in range(EPOCHS):
    print("\nStart of epoch %d" % (epoch,))
    start_time = time.time()
    train_loss.reset_state()
    for step, (x_batch_train, y_batch_train) in enumerate(train_ds):
        loss_value, norm = train_step(x_batch_train, y_batch_train)
        if step % 20 == 0:
            print("Training loss (for one batch) at step %d: %.4f (norm %.3f)" % (step, float(loss_value), float(norm)))
    train_acc = train_acc_metric.result()
    train_acc_metric.reset_state()
    for x_batch_val, y_batch_val in val_ds:
        test_step(x_batch_val, y_batch_val)
    val_acc = val_acc_metric.result()
    val_acc_metric.reset_state()
    print("Training acc: %.4f  Validation acc: %.4f  Time taken: %.2fs" % (
        float(train_acc), float(val_acc), time.time() - start_time))

print("RESULT train_loss=%.5f train_acc=%.5f val_acc=%.5f iterations=%d lr=%.5f" % (
    float(train_loss.result()), float(train_acc), float(val_acc), int(optimizer.iterations), float(optimizer.learning_rate)))
