"""Spectrograms that Keras computes in float32 alone, or with a window without scipy, against it."""

import keras
import numpy as np
import pytest

import plimsoll

L = keras.layers
X = np.random.default_rng(0).normal(size=(12, 90)).astype("float32")
Y = np.random.default_rng(1).normal(size=(12, 3)).astype("float32")
MEL = {"fft_length": 32, "num_mel_bins": 4, "sampling_rate": 64, "min_freq": 2.0}

LAYERS = {
    "decibels": lambda: L.MelSpectrogram(sequence_stride=10, top_db=6.0, ref_power=2.0, **MEL),
    "power of a short window": lambda: L.MelSpectrogram(
        sequence_stride=9,
        sequence_length=21,
        window="hamming",
        power_to_db=False,
        mag_exp=1.0,
        **MEL,
    ),
    "channels first": lambda: L.STFTSpectrogram(
        "stft", 8, window=None, data_format="channels_first", expand_dims=True
    ),
    "channels first, joined": lambda: L.STFTSpectrogram(
        "imag", 8, 3, window=None, data_format="channels_first", padding="same"
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_predicts_and_trains_as_keras(name: str) -> None:
    def made() -> keras.Model:
        keras.backend.clear_session()
        keras.utils.set_random_seed(3)
        wide = [L.Reshape((2, 45))] if "first" in name else []
        model = keras.Sequential(
            [keras.Input((90,)), L.Dense(90), *wide, LAYERS[name](), L.Flatten(), L.Dense(3)]
        )
        model.compile(keras.optimizers.SGD(1e-4), "mse")
        return model

    ours, theirs = made(), made()
    options = {"batch_size": 4, "shuffle": False, "verbose": 0}
    expected = theirs.predict(X, batch_size=4, verbose=0)
    np.testing.assert_allclose(
        plimsoll.predict(ours, X, batch_size=4), expected, rtol=1e-3, atol=1e-3
    )
    plimsoll.fit(ours, X, Y, **options)
    theirs.fit(X, Y, **options)
    for mine, own in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(mine, own, rtol=2e-3, atol=1e-4)
