# All the callbacks at once on CIFAR-like pictures
import csv
import math
import os
import shutil

import numpy as np
import tensorflow as tf
from tensorflow.keras import datasets, layers, models, regularizers
from tensorflow.keras.callbacks import (CSVLogger, LambdaCallback, LearningRateScheduler, ModelCheckpoint,
                                        ReduceLROnPlateau, TerminateOnNaN, TensorBoard)

tf.keras.utils.set_random_seed(55)
baseMapNum = 16
weight_decay = 1e-4
EPOCHS = 4

# 32x32 colour textures instead of cifar10.load_data()
rng = np.random.RandomState(55)
n = 2200
y = rng.randint(0, 10, (n, 1))
fx, fy = (1 + y % 5), (1 + y // 2)
gx, gy = np.meshgrid(np.arange(32), np.arange(32))
wave = np.sin(2 * np.pi * (fx[:, :, None] * gx + fy[:, :, None] * gy) / 32 + rng.rand(n, 1, 1) * 6.28)
x = (127 + 70 * wave)[..., None] * rng.uniform(.6, 1.2, (n, 1, 1, 3)) + rng.normal(0, 40, (n, 32, 32, 3))
x = np.clip(x, 0, 255).astype('float32')
x_train, y_train, x_test, y_test = x[:1800], y[:1800], x[1800:], y[1800:]
# z-score
mean = np.mean(x_train, axis=(0, 1, 2, 3))
std = np.std(x_train, axis=(0, 1, 2, 3))
x_train = (x_train - mean) / (std + 1e-7)
x_test = (x_test - mean) / (std + 1e-7)

model = models.Sequential()
model.add(layers.Conv2D(baseMapNum, (3, 3), padding='same', kernel_regularizer=regularizers.l2(weight_decay), input_shape=x_train.shape[1:]))
model.add(layers.Activation('relu'))
model.add(layers.BatchNormalization())
model.add(layers.MaxPooling2D(pool_size=(2, 2)))
model.add(layers.Dropout(0.2))
model.add(layers.Conv2D(2 * baseMapNum, (3, 3), padding='same', kernel_regularizer=regularizers.l2(weight_decay)))
model.add(layers.Activation('relu'))
model.add(layers.BatchNormalization())
model.add(layers.MaxPooling2D(pool_size=(2, 2)))
model.add(layers.Flatten())
model.add(layers.Dense(10, activation='softmax'))


def schedule(epoch, lr):
    return 2e-3 * math.pow(0.7, epoch)


lrs = []
os.makedirs("ckpt", exist_ok=True)
callbacks = [
    LearningRateScheduler(schedule, verbose=1),
    ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, min_lr=1e-5, verbose=1),
    ModelCheckpoint("ckpt/weights.{epoch:02d}.weights.h5", save_weights_only=True, monitor="val_accuracy"),
    ModelCheckpoint("ckpt/best.keras", save_best_only=True, monitor="val_accuracy", mode="max"),
    CSVLogger("training.csv"),
    TensorBoard("logs", histogram_freq=0),
    TerminateOnNaN(),
    LambdaCallback(on_epoch_begin=lambda e, logs: lrs.append(float(model.optimizer.learning_rate))),
]
model.compile(loss='sparse_categorical_crossentropy', optimizer='adam', metrics=['accuracy'])
h = model.fit(x_train, y_train, batch_size=64, epochs=EPOCHS, verbose=2, validation_data=(x_test, y_test), callbacks=callbacks)

with open("training.csv") as f:
    rows = list(csv.DictReader(f))
best = tf.keras.models.load_model("ckpt/best.keras")
best_acc = best.evaluate(x_test, y_test, verbose=0)[1]
model.load_weights("ckpt/weights.01.weights.h5")
first_loss = model.evaluate(x_test, y_test, verbose=0)[0]
n_files = len(os.listdir("ckpt"))
shutil.rmtree("ckpt"), shutil.rmtree("logs")
print("RESULT loss=%s val_loss=%.5f best_acc=%.5f first_val_loss=%.5f last_lr=%.5f csv_rows=%d files=%d" % (
    "%.5f" % float(rows[-1]["loss"]), h.history["val_loss"][-1], best_acc, first_loss, lrs[-1], len(rows), n_files))
