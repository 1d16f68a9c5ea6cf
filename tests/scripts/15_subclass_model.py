import tensorflow as tf
import numpy as np
from tensorflow.keras.layers import Dense, Flatten, Conv2D, DepthwiseConv2D, LayerNormalization, PReLU
from tensorflow.keras import Model

tf.keras.utils.set_random_seed(100)

# expert style: everything subclassed


class Block(tf.keras.layers.Layer):
    def __init__(self, filters, **kw):
        super().__init__(**kw)
        self.filters = filters
        self.dw = DepthwiseConv2D(3, padding='same')
        self.norm = LayerNormalization(epsilon=1e-6)
        self.pw = Conv2D(filters, 1)
        self.act = PReLU(shared_axes=[1, 2])

    def build(self, input_shape):
        # learned scale of the branch
        self.gamma = self.add_weight(name='gamma', shape=(self.filters,), initializer=tf.keras.initializers.Constant(0.1))
        super().build(input_shape)

    def call(self, x):
        y = self.act(self.pw(self.norm(self.dw(x))))
        self.add_loss(1e-4 * tf.reduce_sum(tf.abs(self.gamma)))
        return x + self.gamma * y


class MyModel(Model):
    def __init__(self, n_blocks=3, width=24):
        super(MyModel, self).__init__()
        self.stem = Conv2D(width, 4, strides=4)
        self.blocks = [Block(width) for _ in range(n_blocks)]
        self.flatten = Flatten()
        self.drop = tf.keras.layers.Dropout(0.1)
        self.d1 = Dense(64, activation='gelu')
        self.d2 = Dense(4)

    def call(self, x, training=False):
        x = self.stem(x)
        for b in self.blocks:
            x = b(x)
        x = self.flatten(x)
        if training:
            x = x + 0.01 * tf.random.normal(tf.shape(x))
        x = self.d1(self.drop(x, training=training))
        return self.d2(x)


def shapes(n):
    """squares / discs / crosses / rings"""
    yy, xx = np.mgrid[0:32, 0:32]
    X, Y = np.zeros((n, 32, 32, 3), 'float32'), np.random.randint(0, 4, n)
    for i in range(n):
        cx, cy, r = np.random.randint(10, 22), np.random.randint(10, 22), np.random.randint(5, 10)
        dx, dy = np.abs(xx - cx), np.abs(yy - cy)
        d = np.sqrt(dx ** 2 + dy ** 2)
        m = [np.maximum(dx, dy) < r, d < r, ((dx < 2) & (dy < r)) | ((dy < 2) & (dx < r)), (d < r) & (d > r - 3)][Y[i]]
        X[i] = m[..., None] * np.random.rand(3)
    return X + np.random.normal(0, .1, X.shape).astype('float32'), Y


x_train, y_train = shapes(2000)
x_test, y_test = shapes(400)

model = MyModel()
model.compile(optimizer=tf.keras.optimizers.Nadam(2e-3),
              loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=['sparse_categorical_accuracy'])
hist = model.fit(x_train, y_train, epochs=3, batch_size=50, validation_data=(x_test, y_test))
model.summary()
gammas = float(np.mean([b.gamma.numpy().mean() for b in model.blocks]))
print('RESULT loss=%.5f val_loss=%.5f val_acc=%.5f gamma=%.5f params=%d' % (
    hist.history['loss'][-1], hist.history['val_loss'][-1], hist.history['val_sparse_categorical_accuracy'][-1],
    gammas, model.count_params()))
