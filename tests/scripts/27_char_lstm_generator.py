'''Character level language model on tiny shakespeare, batches from a python generator'''
import os
import random
import sys

import numpy as np
from keras.layers import LSTM, Dense, Embedding, TimeDistributed
from keras.models import Sequential
from keras.optimizers import RMSprop
from keras.utils import set_random_seed

set_random_seed(1)
path = os.path.join(os.environ.get("SCRIPTS_DATA", "data"), "tinyshakespeare.txt")
with open(path) as f:
    text = f.read().lower()[:200000]
print('corpus length:', len(text))

chars = sorted(list(set(text)))
print('total chars:', len(chars))
char_indices = dict((c, i) for i, c in enumerate(chars))
indices_char = dict((i, c) for i, c in enumerate(chars))
ids = np.array([char_indices[c] for c in text], dtype=np.int32)
cut = int(len(ids) * 0.9)

maxlen = 40
BATCH = 64


def generator(data, batch_size=BATCH, rng=random.Random(1)):
    while 1:
        starts = [rng.randrange(len(data) - maxlen - 1) for _ in range(batch_size)]
        x = np.stack([data[s:s + maxlen] for s in starts])
        y = np.stack([data[s + 1:s + maxlen + 1] for s in starts])
        yield x, y[..., None]


# build the model
model = Sequential()
model.add(Embedding(len(chars), 24))
model.add(LSTM(96, return_sequences=True, dropout=0.1))
model.add(TimeDistributed(Dense(len(chars), activation='softmax')))
model.compile(loss='sparse_categorical_crossentropy', optimizer=RMSprop(learning_rate=0.01, clipvalue=0.5), metrics=['sparse_categorical_accuracy'])


def sample(preds, temperature=1.0):
    # helper function to sample an index from a probability array
    preds = np.asarray(preds).astype('float64')
    preds = np.log(preds + 1e-9) / temperature
    exp_preds = np.exp(preds)
    preds = exp_preds / np.sum(exp_preds)
    return np.argmax(np.random.multinomial(1, preds, 1))


history = model.fit(generator(ids[:cut]), steps_per_epoch=60, epochs=2,
                    validation_data=generator(ids[cut:], rng=random.Random(2)), validation_steps=8)
model.summary()

sentence = text[1000:1000 + maxlen]
generated = ''
for i in range(30):
    x_pred = np.array([[char_indices[c] for c in sentence]])
    preds = model.predict(x_pred, verbose=0)[0, -1]
    next_char = indices_char[sample(preds, 0.5)]
    generated += next_char
    sentence = sentence[1:] + next_char
sys.stdout.write(repr(generated) + '\n')

h = history.history
val_loss, _ = model.evaluate(generator(ids[cut:], rng=random.Random(3)), steps=10, verbose=0)
print('RESULT loss=%.5f acc=%.5f val_loss=%.5f eval_loss=%.5f n_chars=%d generated=%d' % (
    h['loss'][-1], h['sparse_categorical_accuracy'][-1], h['val_loss'][-1], val_loss, len(chars), len(generated)))
