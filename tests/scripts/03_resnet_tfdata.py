"""Small ResNet for cats vs dogs. Files are listed by hand and decoded in tf.data."""
import os
import pathlib

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, regularizers

AUTOTUNE = tf.data.AUTOTUNE
IMG = 64
BATCH = 32
EPOCHS = 2

keras.utils.set_random_seed(1234)
root = pathlib.Path(os.environ.get("SCRIPTS_DATA", "data")) / "cats_dogs"
class_names = sorted(p.name for p in root.iterdir() if p.is_dir())
files, labels = [], []
for idx, name in enumerate(class_names):
    these = sorted(str(p) for p in (root / name).glob("*.jpg"))[:350]
    files += these
    labels += [idx] * len(these)
print(len(files), "files in", class_names)


def load(path, label):
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.resize(img, (IMG, IMG)) / 255.0
    return img, label


def augment(img, label):
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_brightness(img, 0.1)
    return img, label


ds = tf.data.Dataset.from_tensor_slices((files, labels)).shuffle(len(files), seed=1, reshuffle_each_iteration=False)
val_ds = ds.take(140).map(load, num_parallel_calls=AUTOTUNE).batch(BATCH).cache().prefetch(AUTOTUNE)
train_ds = (ds.skip(140).map(load, num_parallel_calls=AUTOTUNE).cache()
            .shuffle(600).map(augment, num_parallel_calls=AUTOTUNE).batch(BATCH).prefetch(AUTOTUNE))


def res_block(x, filters, stride=1):
    shortcut = x
    x = layers.Conv2D(filters, 3, stride, padding="same", use_bias=False, kernel_initializer="he_normal",
                      kernel_regularizer=regularizers.l2(1e-4))(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False, kernel_initializer="he_normal",
                      kernel_regularizer=regularizers.l2(1e-4))(x)
    x = layers.BatchNormalization(momentum=0.9)(x)
    if stride != 1 or shortcut.shape[-1] != filters:
        shortcut = layers.Conv2D(filters, 1, stride, use_bias=False)(shortcut)
        shortcut = layers.BatchNormalization(momentum=0.9)(shortcut)
    return layers.ReLU()(layers.Add()([x, shortcut]))


inp = layers.Input((IMG, IMG, 3))
x = layers.Conv2D(16, 3, padding="same", activation="relu")(inp)
for f, s in [(16, 1), (32, 2), (64, 2)]:
    x = res_block(x, f, s)
x = layers.GlobalAveragePooling2D()(x)
out = layers.Dense(1)(x)
model = keras.Model(inp, out, name="mini_resnet")

steps = EPOCHS * int(train_ds.cardinality())
lr = keras.optimizers.schedules.CosineDecay(0.0, decay_steps=steps, warmup_target=2e-3, warmup_steps=5)
model.compile(
    optimizer=keras.optimizers.AdamW(learning_rate=lr, weight_decay=1e-3, clipnorm=1.0),
    loss=keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.05),
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="acc"), keras.metrics.AUC(from_logits=True, name="auc")],
)
h = model.fit(train_ds, validation_data=val_ds, epochs=EPOCHS)
res = model.evaluate(val_ds, return_dict=True, verbose=0)
print("RESULT loss={:.5f} val_loss={:.5f} val_acc={:.5f} val_auc={:.5f} iterations={}".format(
    h.history["loss"][-1], res["loss"], res["acc"], res["auc"], int(model.optimizer.iterations.numpy())))
