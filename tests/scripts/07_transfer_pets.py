import os
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

# Transfer learning and fine-tuning. The tutorial uses weights="imagenet"; there is no network here so None.
SEED = 123
keras.utils.set_random_seed(SEED)
PATH = os.path.join(os.environ.get("SCRIPTS_DATA", "data"), "cats_dogs")
BATCH_SIZE = 32
IMG_SIZE = (96, 96)

train_dataset = keras.utils.image_dataset_from_directory(
    PATH, validation_split=0.2, subset="training", seed=SEED, shuffle=True,
    batch_size=BATCH_SIZE, image_size=IMG_SIZE)
validation_dataset = keras.utils.image_dataset_from_directory(
    PATH, validation_split=0.2, subset="validation", seed=SEED, shuffle=True,
    batch_size=BATCH_SIZE, image_size=IMG_SIZE)
class_names = train_dataset.class_names
print(class_names)

train_dataset = train_dataset.take(6)
val_batches = tf.data.experimental.cardinality(validation_dataset)
test_dataset = validation_dataset.take(val_batches // 5)
validation_dataset = validation_dataset.skip(val_batches // 5).take(2)

AUTOTUNE = tf.data.AUTOTUNE
train_dataset = train_dataset.prefetch(buffer_size=AUTOTUNE)
validation_dataset = validation_dataset.cache().prefetch(buffer_size=AUTOTUNE)
test_dataset = test_dataset.cache().prefetch(buffer_size=AUTOTUNE)

data_augmentation = keras.Sequential([
    layers.RandomFlip('horizontal'),
    layers.RandomRotation(0.2),
    layers.RandomZoom(0.1),
])
preprocess_input = keras.applications.mobilenet_v2.preprocess_input

base_model = keras.applications.MobileNetV2(
    input_shape=IMG_SIZE + (3,), include_top=False, weights=None, alpha=0.35)
base_model.trainable = False
global_average_layer = layers.GlobalAveragePooling2D()
prediction_layer = layers.Dense(1, activation='sigmoid')

inputs = keras.Input(shape=IMG_SIZE + (3,))
x = data_augmentation(inputs)
x = preprocess_input(x)
x = base_model(x, training=False)
x = global_average_layer(x)
x = layers.Dropout(0.2)(x)
outputs = prediction_layer(x)
model = keras.Model(inputs, outputs)

base_learning_rate = 0.0001
model.compile(optimizer=keras.optimizers.Adam(learning_rate=base_learning_rate),
              loss=keras.losses.BinaryCrossentropy(),
              metrics=[keras.metrics.BinaryAccuracy(threshold=0.5, name='accuracy')])
n_head = len(model.trainable_variables)
history = model.fit(train_dataset, epochs=1, validation_data=validation_dataset)

# Un-freeze the top of the model
base_model.trainable = True
fine_tune_at = 100
for layer in base_model.layers[:fine_tune_at]:
    layer.trainable = False
model.compile(loss=keras.losses.BinaryCrossentropy(),
              optimizer=keras.optimizers.RMSprop(learning_rate=base_learning_rate / 10),
              metrics=[keras.metrics.BinaryAccuracy(threshold=0.5, name='accuracy')])
n_fine = len(model.trainable_variables)
history_fine = model.fit(train_dataset, epochs=2, initial_epoch=history.epoch[-1] + 1,
                         validation_data=validation_dataset)

loss, accuracy = model.evaluate(test_dataset)
print('RESULT head_loss=%.5f fine_loss=%.5f test_loss=%.5f test_acc=%.5f n_head=%d n_fine=%d' % (
    history.history['loss'][-1], history_fine.history['loss'][-1], loss, accuracy, n_head, n_fine))
