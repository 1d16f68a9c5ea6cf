# Basic regression: predict fuel efficiency (generated auto-mpg like table)
import numpy as np
import tensorflow as tf

from tensorflow import keras
from tensorflow.keras import layers

np.set_printoptions(precision=3, suppress=True)
keras.utils.set_random_seed(0)

N = 398
rs = np.random.RandomState(398)
cyl = rs.choice([4, 6, 8], N, p=[.52, .22, .26])
disp = cyl * 38 + rs.normal(0, 25, N) - 20
hp = disp * 0.42 + 22 + rs.normal(0, 12, N)
weight = 1400 + disp * 8 + rs.normal(0, 250, N)
acc = 22 - hp * 0.055 + rs.normal(0, 1.5, N)
year = rs.randint(70, 83, N)
origin = rs.choice(3, N)
mpg = 46 - 0.0062 * weight + 0.65 * (year - 76) - 0.03 * hp + (origin > 0) * 1.5 + rs.normal(0, 2.0, N)
dataset = np.column_stack([cyl, disp, hp, weight, acc, year, np.eye(3)[origin]])

perm = rs.permutation(N)
train_idx, test_idx = perm[:318], perm[318:]
train_features, test_features = dataset[train_idx], dataset[test_idx]
train_labels, test_labels = mpg[train_idx], mpg[test_idx]

normalizer = tf.keras.layers.Normalization(axis=-1)
normalizer.adapt(np.array(train_features))
print(normalizer.mean.numpy())

test_results = {}

# one variable
horsepower = np.array(train_features[:, 2])
horsepower_normalizer = layers.Normalization(input_shape=[1,], axis=None)
horsepower_normalizer.adapt(horsepower)
horsepower_model = tf.keras.Sequential([horsepower_normalizer, layers.Dense(units=1)])
horsepower_model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=0.1), loss='mean_absolute_error')
horsepower_model.fit(horsepower, train_labels, epochs=20, verbose=0, validation_split=0.2)
test_results['horsepower'] = horsepower_model.evaluate(test_features[:, 2], test_labels, verbose=0)

# linear, many variables
linear_model = tf.keras.Sequential([normalizer, layers.Dense(units=1)])
print(linear_model.predict(train_features[:10]).ravel())
linear_model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=0.1), loss='mean_absolute_error')
linear_model.fit(train_features, train_labels, epochs=20, verbose=0, validation_split=0.2)
test_results['linear'] = linear_model.evaluate(test_features, test_labels, verbose=0)


def build_and_compile_model(norm):
    model = keras.Sequential([
        norm,
        layers.Lambda(lambda t: tf.concat([t, tf.square(t)], axis=-1)),
        layers.Dense(64, activation='relu'),
        layers.Dense(64, activation='relu'),
        layers.Dense(1)
    ])
    model.compile(loss=keras.losses.Huber(delta=2.0), optimizer=tf.keras.optimizers.Adam(0.001),
                  metrics=['mae', keras.metrics.RootMeanSquaredError(name='rmse')])
    return model


dnn_model = build_and_compile_model(normalizer)
history = dnn_model.fit(train_features, train_labels, validation_split=0.2, verbose=0, epochs=20)
test_results['dnn'] = dnn_model.evaluate(test_features, test_labels, verbose=0)
test_predictions = dnn_model.predict(test_features).flatten()
error = test_predictions - test_labels
print('RESULT horsepower=%.5f linear=%.5f dnn_loss=%.5f dnn_mae=%.5f dnn_rmse=%.5f val_loss=%.5f bias=%.5f' % (
    test_results['horsepower'], test_results['linear'], *test_results['dnn'], history.history['val_loss'][-1], error.mean()))
