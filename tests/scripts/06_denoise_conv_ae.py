"""Convolutional autoencoder for image denoising on grey pet photos"""
import glob
import os

import numpy as np
from PIL import Image
from keras import layers
from keras.models import Model
from keras.utils import set_random_seed

set_random_seed(812)
SIZE = 48


def preprocess(array):
    """Normalizes the supplied array and reshapes it."""
    array = array.astype("float32") / 255.0
    return np.reshape(array, (len(array), SIZE, SIZE, 1))


def noise(array):
    """Adds random noise to each image in the supplied array."""
    noise_factor = 0.3
    noisy_array = array + noise_factor * np.random.normal(loc=0.0, scale=1.0, size=array.shape)
    return np.clip(noisy_array, 0.0, 1.0)


paths = sorted(glob.glob(os.path.join(os.environ.get("SCRIPTS_DATA", "data"), "cats_dogs", "*", "*.jpg")))[::2]
images = np.array([np.asarray(Image.open(p).convert("L").resize((SIZE, SIZE))) for p in paths])
np.random.shuffle(images)
train_data, test_data = preprocess(images[:600]), preprocess(images[600:])
noisy_train_data = noise(train_data)      # float64 now
noisy_test_data = noise(test_data)

input = layers.Input(shape=(SIZE, SIZE, 1))

# Encoder
x = layers.Conv2D(32, (3, 3), activation="relu", padding="same")(input)
x = layers.MaxPooling2D((2, 2), padding="same")(x)
x = layers.Conv2D(32, (3, 3), activation="relu", padding="same")(x)
x = layers.MaxPooling2D((2, 2), padding="same")(x)

# Decoder
x = layers.Conv2DTranspose(32, (3, 3), strides=2, activation="relu", padding="same")(x)
x = layers.UpSampling2D((2, 2))(x)
x = layers.Conv2D(32, (3, 3), padding="same")(x)
x = layers.LeakyReLU(0.1)(x)
x = layers.Conv2D(1, (3, 3), activation="sigmoid", padding="same")(x)

# Autoencoder
autoencoder = Model(input, x)
autoencoder.compile(optimizer="adam", loss="binary_crossentropy")
autoencoder.summary()

# first learn to copy, then to clean
autoencoder.fit(x=train_data, y=train_data, epochs=1, batch_size=64, shuffle=True,
                validation_data=(test_data, test_data))
h = autoencoder.fit(x=noisy_train_data, y=train_data, epochs=2, batch_size=64, shuffle=True,
                    validation_data=(noisy_test_data, test_data))

predictions = autoencoder.predict(noisy_test_data)
mse_before = np.mean((noisy_test_data - test_data) ** 2)
mse_after = np.mean((predictions - test_data) ** 2)
print(f"RESULT loss={h.history['loss'][-1]:.5f} val_loss={h.history['val_loss'][-1]:.5f} "
      f"mse_before={mse_before:.5f} mse_after={mse_after:.5f}")
