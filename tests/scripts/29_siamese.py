'''Siamese network with contrastive loss on pairs of pictures of pets: same species or not?'''
import glob
import os
import random

import numpy as np
import tensorflow as tf
from PIL import Image
from tensorflow.keras import backend as K
from tensorflow.keras.layers import Conv2D, Dense, Dropout, Flatten, Input, Lambda, MaxPooling2D, BatchNormalization
from tensorflow.keras.models import Model
from tensorflow.keras.optimizers import RMSprop

tf.keras.utils.set_random_seed(24)
num_classes = 2
epochs = 2
root = os.path.join(os.environ.get("SCRIPTS_DATA", "data"), "cats_dogs")


def euclidean_distance(vects):
    x, y = vects
    sum_square = tf.reduce_sum(tf.square(x - y), axis=1, keepdims=True)
    return tf.sqrt(tf.maximum(sum_square, K.epsilon()))


def contrastive_loss(y_true, y_pred):
    '''Contrastive loss from Hadsell-et-al.'06'''
    margin = 1
    y_true = tf.cast(y_true, y_pred.dtype)
    sqaure_pred = tf.square(y_pred)
    margin_square = tf.square(tf.maximum(margin - y_pred, 0))
    return tf.reduce_mean(y_true * sqaure_pred + (1 - y_true) * margin_square)


def create_pairs(x, digit_indices):
    '''Positive and negative pair creation. Alternates between positive and negative pairs.'''
    pairs, labels = [], []
    n = min([len(digit_indices[d]) for d in range(num_classes)]) - 1
    for d in range(num_classes):
        for i in range(n):
            z1, z2 = digit_indices[d][i], digit_indices[d][i + 1]
            pairs += [[x[z1], x[z2]]]
            inc = random.randrange(1, num_classes)
            dn = (d + inc) % num_classes
            z1, z2 = digit_indices[d][i], digit_indices[dn][i]
            pairs += [[x[z1], x[z2]]]
            labels += [1, 0]
    return np.array(pairs), np.array(labels)


def create_base_network(input_shape):
    input = Input(shape=input_shape)
    x = Conv2D(16, 5, strides=2, activation='relu')(input)
    x = MaxPooling2D()(x)
    x = Conv2D(32, 3, activation='relu')(x)
    x = BatchNormalization()(x)
    x = Flatten()(x)
    x = Dense(64, activation='relu')(x)
    x = Dropout(0.1)(x)
    x = Dense(32)(x)
    return Model(input, x)


def accuracy(y_true, y_pred):
    '''Compute classification accuracy with a fixed threshold on distances.'''
    return tf.reduce_mean(tf.cast(tf.equal(y_true, tf.cast(y_pred < 0.5, y_true.dtype)), tf.float32))


files = [sorted(glob.glob(os.path.join(root, c, '*.jpg')))[:260] for c in ('cat', 'dog')]
x = np.array([np.array(Image.open(f).convert('RGB').resize((40, 40))) for fs in files for f in fs], dtype='float32') / 255
y = np.repeat([0, 1], [len(f) for f in files])
is_test = np.arange(len(x)) % 5 == 0
tr_pairs, tr_y = create_pairs(x, [np.where((y == i) & ~is_test)[0] for i in range(num_classes)])
te_pairs, te_y = create_pairs(x, [np.where((y == i) & is_test)[0] for i in range(num_classes)])

base_network = create_base_network(x.shape[1:])
input_a, input_b = Input(shape=x.shape[1:]), Input(shape=x.shape[1:])
# because we re-use the same instance `base_network`, the weights will be shared across the two branches
distance = Lambda(euclidean_distance, output_shape=(1,))([base_network(input_a), base_network(input_b)])
model = Model([input_a, input_b], distance)
model.compile(loss=contrastive_loss, optimizer=RMSprop(), metrics=[accuracy])
h = model.fit([tr_pairs[:, 0], tr_pairs[:, 1]], tr_y, batch_size=64, epochs=epochs,
              validation_data=([te_pairs[:, 0], te_pairs[:, 1]], te_y))
y_pred = model.predict([te_pairs[:, 0], te_pairs[:, 1]])
emb = base_network.predict(x[is_test], verbose=0)
print('RESULT loss=%.5f acc=%.5f val_loss=%.5f val_acc=%.5f dist=%.5f emb_std=%.5f' % (
    h.history['loss'][-1], h.history['accuracy'][-1], h.history['val_loss'][-1], h.history['val_accuracy'][-1],
    y_pred.mean(), emb.std()))
