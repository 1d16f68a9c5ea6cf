# Simple CNN on 28x28 digit-like images (same as the well known mnist_cnn example,
# but the images are generated so nothing has to be downloaded)
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(42)

num_classes = 10
input_shape = (28, 28, 1)
batch_size = 128
epochs = 3


def load_data(n_train=6000, n_test=1000):
    rng = np.random.RandomState(0)
    proto = rng.rand(num_classes, 7, 7)
    proto = np.kron(proto > 0.55, np.ones((4, 4)))
    n = n_train + n_test
    y = rng.randint(0, num_classes, size=n)
    x = proto[y] * 160
    # shift every digit a bit, add noise
    for i in range(n):
        x[i] = np.roll(x[i], rng.randint(-3, 4, size=2), axis=(0, 1))
    x = np.clip(x + rng.normal(0, 60, size=x.shape), 0, 255).astype("uint8")
    return (x[:n_train], y[:n_train]), (x[n_train:], y[n_train:])


(x_train, y_train), (x_test, y_test) = load_data()

# Scale images to the [0, 1] range
x_train = x_train.astype("float32") / 255
x_test = x_test.astype("float32") / 255
x_train = np.expand_dims(x_train, -1)
x_test = np.expand_dims(x_test, -1)
print("x_train shape:", x_train.shape)
print(x_train.shape[0], "train samples")
print(x_test.shape[0], "test samples")

# convert class vectors to binary class matrices
y_train = keras.utils.to_categorical(y_train, num_classes)
y_test = keras.utils.to_categorical(y_test, num_classes)

model = keras.Sequential(
    [
        keras.Input(shape=input_shape),
        layers.Conv2D(32, kernel_size=(3, 3), activation="relu"),
        layers.MaxPooling2D(pool_size=(2, 2)),
        layers.Conv2D(64, kernel_size=(3, 3), activation="relu"),
        layers.MaxPooling2D(pool_size=(2, 2)),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(num_classes, activation="softmax"),
    ]
)
model.summary()

model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(x_train, y_train, batch_size=batch_size, epochs=epochs, validation_split=0.1)

score = model.evaluate(x_test, y_test, verbose=0)
print("Test loss:", score[0])
print("Test accuracy:", score[1])

pred = np.argmax(model.predict(x_test[:200]), axis=1)
right = int((pred == np.argmax(y_test[:200], axis=1)).sum())
print("RESULT train_loss=%.5f val_loss=%.5f test_loss=%.5f test_acc=%.5f right=%d" % (
    history.history["loss"][-1], history.history["val_loss"][-1], score[0], score[1], right))
