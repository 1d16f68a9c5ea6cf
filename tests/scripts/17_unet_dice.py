# U-Net for blobs ("nuclei"), Dice loss
import numpy as np
import tensorflow as tf
from tensorflow.keras import backend as K
from tensorflow.keras.layers import *
from tensorflow.keras.models import *
from tensorflow.keras.optimizers import *
from tensorflow.keras.utils import set_random_seed

set_random_seed(2018)
IMG_WIDTH = IMG_HEIGHT = 64
smooth = 1.


def dice_coef(y_true, y_pred):
    y_true_f = tf.reshape(tf.cast(y_true, tf.float32), [-1])
    y_pred_f = tf.reshape(y_pred, [-1])
    intersection = tf.reduce_sum(y_true_f * y_pred_f)
    return (2. * intersection + smooth) / (tf.reduce_sum(y_true_f) + tf.reduce_sum(y_pred_f) + smooth)


def dice_coef_loss(y_true, y_pred):
    return 1 - dice_coef(y_true, y_pred)


def bce_dice(y_true, y_pred):
    return tf.reduce_mean(tf.keras.losses.binary_crossentropy(tf.cast(y_true, tf.float32), y_pred)) + dice_coef_loss(y_true, y_pred)


def make(n):
    yy, xx = np.mgrid[:IMG_HEIGHT, :IMG_WIDTH]
    X = np.zeros((n, IMG_HEIGHT, IMG_WIDTH, 3), dtype=np.uint8)
    Y = np.zeros((n, IMG_HEIGHT, IMG_WIDTH, 1), dtype=bool)
    for i in range(n):
        m = np.zeros((IMG_HEIGHT, IMG_WIDTH), bool)
        for _ in range(np.random.randint(2, 7)):
            a, b = np.random.randint(0, IMG_HEIGHT, 2)
            r = np.random.uniform(4, 9)
            m |= ((yy - a) ** 2 + (xx - b) ** 2 * np.random.uniform(.6, 1.6)) < r ** 2
        Y[i, ..., 0] = m
        X[i] = np.clip(60 + 80 * m[..., None] + np.random.normal(0, 35, (IMG_HEIGHT, IMG_WIDTH, 3)), 0, 255)
    return X, Y


X_train, Y_train = make(280)
X_test, Y_test = make(60)


def conv(x, f, drop=0.1):
    x = Conv2D(f, (3, 3), activation='elu', kernel_initializer='he_normal', padding='same')(x)
    x = Dropout(drop)(x)
    return Conv2D(f, (3, 3), activation='elu', kernel_initializer='he_normal', padding='same')(x)


inputs = Input((IMG_HEIGHT, IMG_WIDTH, 3))
s = Lambda(lambda x: x / 255)(inputs)
c1 = conv(s, 16)
c2 = conv(MaxPooling2D((2, 2))(c1), 32)
c3 = conv(MaxPooling2D((2, 2))(c2), 64, 0.2)
u4 = concatenate([Conv2DTranspose(32, (2, 2), strides=(2, 2), padding='same')(c3), c2])
c4 = conv(u4, 32)
u5 = concatenate([Conv2DTranspose(16, (2, 2), strides=(2, 2), padding='same')(c4), c1], axis=3)
c5 = conv(u5, 16)
outputs = Conv2D(1, (1, 1), activation='sigmoid')(c5)

model = Model(inputs=[inputs], outputs=[outputs])
model.compile(optimizer=Adam(learning_rate=1e-3), loss=bce_dice, metrics=[dice_coef])
results = model.fit(X_train, Y_train, validation_split=0.1, batch_size=8, epochs=3)

preds = model.predict(X_test, verbose=1)
hard = (preds > 0.5)
iou = (hard & Y_test).sum() / (hard | Y_test).sum()
h = results.history
print('RESULT loss=%.5f dice_coef=%.5f val_loss=%.5f val_dice_coef=%.5f iou=%.5f' % (
    h['loss'][-1], h['dice_coef'][-1], h['val_loss'][-1], h['val_dice_coef'][-1], iou))
