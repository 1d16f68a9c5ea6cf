"""Keras's layers for images in live models: accepted as they are, and trained with."""

from typing import Any

import keras
import numpy as np
import pytest

import plimsoll

L = keras.layers
RANDOM = np.random.default_rng(3)
X = RANDOM.uniform(0, 255, (48, 12, 14, 3)).astype("float32")
Y = RANDOM.integers(0, 4, 48)


def augmented(*layers: L.Layer) -> keras.Model:
    keras.utils.set_random_seed(4)
    model = keras.Sequential(
        [keras.Input((12, 14, 3)), *layers, L.Rescaling(1 / 127.5, -1),
         L.Conv2D(6, 3, 2, activation="relu"), L.GlobalAveragePooling2D(), L.Dense(4, "softmax")]
    )  # fmt: skip
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def test_a_model_with_image_layers_trains_and_predicts_as_keras() -> None:
    model = augmented(
        L.Resizing(10, 10), L.RandomFlip("horizontal"), L.RandomRotation(0.05),
        L.RandomZoom(0.1), L.RandomTranslation(0.1, 0.1), L.RandomContrast(0.2),
        L.RandomBrightness(0.1), L.RandomColorJitter((0, 255), hue_factor=0.1), L.RandomCrop(8, 8),
        L.CenterCrop(8, 8),
    )  # fmt: skip
    before = model.get_weights()
    history = plimsoll.fit(model, X, Y, epochs=2, batch_size=16, verbose=0)
    assert all(np.isfinite(history.history["loss"]))
    assert any((a != b).any() for a, b in zip(before, model.get_weights()))
    np.testing.assert_allclose(
        plimsoll.predict(model, X, verbose=0), model.predict(X, verbose=0), rtol=1e-4, atol=1e-5
    )


def test_fixed_layers_train_as_keras() -> None:
    losses = []
    for fit in (keras.Model.fit, plimsoll.fit):
        model = augmented(L.Resizing(9, 7), L.CenterCrop(8, 7), L.RandomBrightness((0.1, 0.1)))
        losses.append(fit(model, X, Y, epochs=2, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_a_layer_of_the_programs_own_is_refused() -> None:
    class Tilted(L.RandomRotation):
        def get_random_transformation(self, data: Any, **kwargs: Any) -> Any:
            return super().get_random_transformation(data, **kwargs)

    with pytest.raises(plimsoll.Refused, match="the program's own"):
        plimsoll.fit(augmented(Tilted(0.1)), X, Y, verbose=0)
