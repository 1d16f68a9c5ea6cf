from __future__ import print_function, division

import numpy as np

from tensorflow.keras.layers import Input, Dense, Reshape, Flatten, Dropout
from tensorflow.keras.layers import BatchNormalization, LeakyReLU
from tensorflow.keras.models import Sequential, Model
from tensorflow.keras.optimizers import Adam
from tensorflow.keras.utils import set_random_seed


class GAN():
    def __init__(self):
        self.img_rows = 28
        self.img_cols = 28
        self.channels = 1
        self.img_shape = (self.img_rows, self.img_cols, self.channels)
        self.latent_dim = 100

        # Build and compile the discriminator
        self.discriminator = self.build_discriminator()
        self.discriminator.compile(loss='binary_crossentropy', optimizer=Adam(0.0002, 0.5), metrics=['accuracy'])

        # Build the generator
        self.generator = self.build_generator()
        z = Input(shape=(self.latent_dim,))
        img = self.generator(z)

        # For the combined model we will only train the generator
        self.discriminator.trainable = False
        validity = self.discriminator(img)

        # The combined model  (stacked generator and discriminator)
        self.combined = Model(z, validity)
        self.combined.compile(loss='binary_crossentropy', optimizer=Adam(0.0002, 0.5))

    def build_generator(self):
        model = Sequential()
        model.add(Input((self.latent_dim,)))
        for n in (128, 256, 512):
            model.add(Dense(n))
            model.add(LeakyReLU(0.2))
            model.add(BatchNormalization(momentum=0.8))
        model.add(Dense(int(np.prod(self.img_shape)), activation='tanh'))
        model.add(Reshape(self.img_shape))
        return model

    def build_discriminator(self):
        img = Input(shape=self.img_shape)
        x = Flatten()(img)
        x = Dense(256)(x)
        x = LeakyReLU(0.2)(x)
        x = Dropout(0.2)(x)
        x = Dense(128)(x)
        x = LeakyReLU(0.2)(x)
        return Model(img, Dense(1, activation='sigmoid')(x))

    def train(self, X_train, epochs, batch_size=64, sample_interval=40):
        # Rescale -1 to 1
        X_train = X_train / 127.5 - 1.
        X_train = np.expand_dims(X_train, axis=3)
        valid = np.ones((batch_size, 1))
        fake = np.zeros((batch_size, 1))
        for epoch in range(epochs):
            idx = np.random.randint(0, X_train.shape[0], batch_size)
            imgs = X_train[idx]
            noise = np.random.normal(0, 1, (batch_size, self.latent_dim))
            gen_imgs = self.generator.predict(noise, verbose=0)
            self.discriminator.trainable = True   # needed since keras 3
            d_loss_real = self.discriminator.train_on_batch(imgs, valid)
            d_loss_fake = self.discriminator.train_on_batch(gen_imgs, fake)
            d_loss = 0.5 * np.add(d_loss_real, d_loss_fake)
            noise = np.random.normal(0, 1, (batch_size, self.latent_dim))
            self.discriminator.trainable = False
            g_loss = self.combined.train_on_batch(noise, valid)
            if epoch % sample_interval == 0:
                print("%d [D loss: %f, acc.: %.2f%%] [G loss: %f]" % (epoch, d_loss[0], 100*d_loss[1], g_loss))
        return d_loss, g_loss


if __name__ == '__main__':
    set_random_seed(9)
    proto = np.kron(np.random.rand(10, 14, 14) > 0.6, np.ones((2, 2))) * 255
    gan = GAN()
    d, g = gan.train(proto[np.random.randint(0, 10, 3000)] * np.random.uniform(.6, 1, (3000, 1, 1)), epochs=120)
    out = gan.generator.predict(np.random.normal(size=(64, 100)), verbose=0)
    print("RESULT d_loss=%.5f d_acc=%.5f g_loss=%.5f img_mean=%.5f img_std=%.5f" % (d[0], d[1], g, out.mean(), out.std()))
