# Is this line of Shakespeare a question?  TextVectorization + Embedding
import os
import re
import string

import tensorflow as tf
from tensorflow.keras import layers, losses

tf.keras.utils.set_random_seed(6)
batch_size = 64
seed = 6

text = open(os.path.join(os.environ.get("SCRIPTS_DATA", "data"), "tinyshakespeare.txt")).read()
sentences = re.split(r"(?<=[.?!])\s+", text)
sentences = [s.replace("\n", " ") for s in sentences if 20 < len(s) < 240]
q = [s for s in sentences if s.endswith("?")]
o = [s for s in sentences if not s.endswith("?")][:2 * len(q)]
lines = q + o
labels = [1] * len(q) + [0] * len(o)
print(len(q), "questions,", len(o), "others")

full = tf.data.Dataset.from_tensor_slices((lines, labels)).shuffle(len(lines), seed=seed, reshuffle_each_iteration=False)
n_val = len(lines) // 5
raw_val_ds = full.take(n_val).batch(batch_size)
raw_train_ds = full.skip(n_val).batch(batch_size)


@tf.keras.utils.register_keras_serializable()
def custom_standardization(input_data):
    lowercase = tf.strings.lower(input_data)
    return tf.strings.regex_replace(lowercase, '[%s]' % re.escape(string.punctuation), '')


max_features = 4000
sequence_length = 40

vectorize_layer = layers.TextVectorization(
    standardize=custom_standardization,
    max_tokens=max_features,
    output_mode='int',
    output_sequence_length=sequence_length)

# Make a text-only dataset (without labels), then call adapt
train_text = raw_train_ds.map(lambda x, y: x)
vectorize_layer.adapt(train_text)


def vectorize_text(text, label):
    text = tf.expand_dims(text, -1)
    return vectorize_layer(text), label


AUTOTUNE = tf.data.AUTOTUNE
train_ds = raw_train_ds.map(vectorize_text).cache().prefetch(buffer_size=AUTOTUNE)
val_ds = raw_val_ds.map(vectorize_text).cache().prefetch(buffer_size=AUTOTUNE)

model = tf.keras.Sequential([
    layers.Embedding(max_features, 16),
    layers.Dropout(0.2),
    layers.GlobalAveragePooling1D(),
    layers.Dropout(0.2),
    layers.Dense(1)])

model.compile(loss=losses.BinaryCrossentropy(from_logits=True),
              optimizer='adam',
              metrics=[tf.metrics.BinaryAccuracy(threshold=0.0)])
history = model.fit(train_ds, validation_data=val_ds, epochs=3)

# export with the raw strings going in
export_model = tf.keras.Sequential([vectorize_layer, model, layers.Activation('sigmoid')])
export_model.compile(loss=losses.BinaryCrossentropy(from_logits=False), optimizer="adam", metrics=['accuracy'])
loss, accuracy = export_model.evaluate(raw_val_ds)
examples = tf.constant(["What say you to this", "I will go home now, my lord", "Where is the king"])
p = export_model.predict(examples).ravel()
print("RESULT loss=%.5f val_loss=%.5f export_loss=%.5f acc=%.5f vocab=%d p_what=%.5f" % (
    history.history['loss'][-1], history.history['val_loss'][-1], loss, accuracy,
    len(vectorize_layer.get_vocabulary()), p[0]))
