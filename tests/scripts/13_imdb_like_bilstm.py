# Bidirectional LSTM on IMDB-like reviews (lists of word indices of different length)
import numpy as np
import keras
from keras import layers
from keras.preprocessing import sequence

max_features = 5000  # Only consider the top 5k words
maxlen = 64
keras.utils.set_random_seed(22)


def load_reviews(n, seed):
    """Integer sequences, words 10..59 are bad words, 60..109 good words, 1 is <start>"""
    rng = np.random.RandomState(seed)
    xs, ys = [], []
    for _ in range(n):
        label = rng.randint(2)
        length = int(np.clip(rng.lognormal(3.6, 0.6), 6, 300))
        words = np.minimum(rng.zipf(1.3, size=length) + 110, max_features - 1)
        k = rng.rand(length) < 0.08
        good = rng.rand(length) < (0.8 if label else 0.2)
        words[k] = np.where(good, 60, 10)[k] + rng.randint(0, 50, size=length)[k]
        xs.append([1] + words.tolist())
        ys.append(label)
    return np.array(xs, dtype=object), np.array(ys)


x_train, y_train = load_reviews(1600, 0)
x_val, y_val = load_reviews(400, 1)
print(len(x_train), "Training sequences")
print(len(x_val), "Validation sequences")
print("average length", np.mean([len(s) for s in x_train]))

x_train = keras.utils.pad_sequences(x_train, maxlen=maxlen, padding="post", truncating="post")
x_val = sequence.pad_sequences(x_val, maxlen=maxlen, padding="post", truncating="post")

# Input for variable-length sequences of integers
inputs = keras.Input(shape=(None,), dtype="int32")
x = layers.Embedding(max_features, 48, mask_zero=True)(inputs)
x = layers.SpatialDropout1D(0.1)(x)
x = layers.Bidirectional(layers.LSTM(20, return_sequences=True))(x)
x = layers.Bidirectional(layers.LSTM(20))(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)
model.summary()

model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
h = model.fit(x_train, y_train, batch_size=32, epochs=2, validation_data=(x_val, y_val))

# one review alone, without any padding, should score like the padded one
one = np.trim_zeros(x_val[0], "b")[None, :]
p1 = float(model.predict(one, verbose=0)[0, 0])
p2 = float(model.predict(x_val[:1], verbose=0)[0, 0])
print(p1, p2)
print(f"RESULT loss={h.history['loss'][-1]:.5f} acc={h.history['accuracy'][-1]:.5f} "
      f"val_loss={h.history['val_loss'][-1]:.5f} val_acc={h.history['val_accuracy'][-1]:.5f} p={p1:.5f} p_padded={p2:.5f}")
