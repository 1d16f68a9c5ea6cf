"""What people do with Keras models around a fit, as its guides show it, against Keras itself."""

import html
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import CASES, assert_like, classes, normal, numbers

import plimsoll

L = keras.layers
Fit = Callable[..., Any]
FITS: list[Fit] = [keras.Model.fit, plimsoll.fit]


def compare(models: list[keras.Model], tolerance: float = 2e-4) -> None:
    for one, other in zip(models[0].variables, models[1].variables, strict=True):
        np.testing.assert_allclose(numbers(other), numbers(one), rtol=tolerance, atol=tolerance,
                                   err_msg=one.path)  # fmt: skip


def transfer_model() -> keras.Model:
    """As the guide builds it: a base that is frozen and called in inference mode, and a head."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    base = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, include_top=False)
    base.trainable = False
    inputs = keras.Input((32, 32, 3))
    x = base(inputs, training=False)
    x = L.Dropout(0.0)(L.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, L.Dense(1)(x))


def test_transfer_learning() -> None:
    """Frozen first; then the base is trained too, compiled again at a low rate."""
    x, y = normal(24, 32, 32, 3), classes(24, 2)
    models = [transfer_model(), transfer_model()]
    before = [numbers(v) for v in models[1].layers[1].variables]
    for model, fit in zip(models, FITS):
        model.compile(keras.optimizers.Adam(), keras.losses.BinaryCrossentropy(from_logits=True),
                      metrics=[keras.metrics.BinaryAccuracy()])  # fmt: skip
        fit(model, x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    compare(models)
    after = models[1].layers[1].variables
    assert all((a == numbers(b)).all() for a, b in zip(before, after, strict=True))
    # A second step of so deep a network without statistics makes much of rounding, in Keras too.
    models[1].set_weights(models[0].get_weights())
    for model, fit in zip(models, FITS):
        model.layers[1].trainable = True
        model.compile(keras.optimizers.SGD(1e-3), keras.losses.BinaryCrossentropy(from_logits=True))
        fit(model, x, y, batch_size=24, epochs=1, shuffle=False, verbose=0)
    compare(models, 1e-3)
    assert max(np.abs(a - numbers(b)).max() for a, b in zip(before, after, strict=True)) > 1e-2


class Adversaries:
    """A generator, a discriminator, and both in a row: shared layers, two optimizers."""

    def __init__(self) -> None:
        keras.backend.clear_session()
        keras.utils.set_random_seed(5)
        self.generator = keras.Sequential([
            keras.Input((6,)), L.Dense(12, "relu"), L.BatchNormalization(), L.Dense(8),
        ])  # fmt: skip
        self.discriminator = keras.Sequential([
            keras.Input((8,)), L.Dense(10), L.LeakyReLU(), L.Dense(1, "sigmoid"),
        ])  # fmt: skip
        self.discriminator.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy")
        self.discriminator.trainable = False
        noise = keras.Input((6,))
        self.both = keras.Model(noise, self.discriminator(self.generator(noise)))
        self.both.compile(keras.optimizers.RMSprop(1e-3), "binary_crossentropy")
        self.discriminator.trainable = True
        self.discriminator.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy")

    def train(self, face: Any, predict: Any, rounds: int) -> None:
        rng = np.random.default_rng(6)
        ones, zeros = np.ones((16, 1), "float32"), np.zeros((16, 1), "float32")
        for _ in range(rounds):
            noise = rng.normal(size=(16, 6)).astype("float32")
            real = rng.normal(1, 1, size=(16, 8)).astype("float32")
            made = predict(self.generator, noise)
            self.discriminator.trainable = True
            face.train_on_batch(self.discriminator, real, ones)
            face.train_on_batch(self.discriminator, made, zeros)
            self.discriminator.trainable = False
            face.train_on_batch(self.both, noise, ones)

    def models(self) -> list[keras.Model]:
        return [self.generator, self.discriminator]


def test_two_networks_that_train_against_each_other() -> None:
    theirs, ours = Adversaries(), Adversaries()
    theirs.train(keras.Model, lambda model, x: model.predict(x, verbose=0), 5)
    ours.train(plimsoll, plimsoll.predict, 5)
    for pair in zip(theirs.models(), ours.models(), strict=True):
        compare(list(pair), 5e-4)


def siamese() -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(6)
    tower = keras.Sequential([keras.Input((12,)), L.Dense(16, "relu"), L.Dense(8)], name="tower")
    left, right = keras.Input((12,)), keras.Input((12,))
    distance = L.Subtract()([tower(left), tower(right)])
    return keras.Model([left, right], L.Dense(1, "sigmoid")(L.Multiply()([distance, distance])))


def test_two_inputs_through_one_tower() -> None:
    x, y = [normal(40, 12), normal(40, 12, seed=8)], classes(40, 2)
    models = [siamese(), siamese()]
    for model, fit in zip(models, FITS):
        model.compile("adam", "binary_crossentropy")
        fit(model, x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
    compare(models)


def test_two_models_side_by_side() -> None:
    """A callback of one's fit trains the other."""
    x, y = normal(40, 8), normal(40, 1, seed=7)

    def build() -> list[keras.Model]:
        keras.backend.clear_session()
        keras.utils.set_random_seed(7)
        made = [keras.Sequential([keras.Input((8,)), L.Dense(4, "relu"), L.Dense(1)])
                for _ in range(2)]  # fmt: skip
        for model in made:
            model.compile("adam", "mse")
        return made

    pairs = []
    for fit in FITS:
        first, second = build()

        def train_second(epoch: int, logs: Any, fit: Fit = fit, model: Any = second) -> None:
            fit(model, x, y, batch_size=16, shuffle=False, verbose=0)

        follow = keras.callbacks.LambdaCallback(on_epoch_end=train_second)
        fit(first, x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, callbacks=[follow])
        pairs.append((first, second))
    for one, other in zip(*pairs, strict=True):
        assert_like(one, other)


def trained() -> keras.Model:
    case = CASES["image"]
    model = case.compiled()
    plimsoll.fit(model, case.x, case.y, batch_size=32, epochs=1, verbose=0)
    return model


def from_checkpoint(model: keras.Model, folder: Path) -> keras.Model:
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(str(folder / "c"))
    other = CASES["image"].compiled()
    other.optimizer.build(other.trainable_variables)
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).read(path).assert_consumed()
    return other


def from_keras_file(model: keras.Model, folder: Path) -> keras.Model:
    model.save(folder / "m.keras")
    return keras.saving.load_model(folder / "m.keras")


@pytest.mark.parametrize("saved", [
    from_checkpoint, from_keras_file, lambda model, _: pickle.loads(pickle.dumps(model)),
], ids=["tf.train.Checkpoint", ".keras", "pickle"])  # fmt: skip
def test_saved_models_hold_what_was_trained(saved: Any, tmp_path: Path) -> None:
    model = trained()
    other = saved(model, tmp_path)
    ours = [*model.weights, *model.optimizer.variables]
    theirs = [*other.weights, *other.optimizer.variables]
    for one, two in zip(ours, theirs, strict=True):
        assert numbers(one).tobytes() == numbers(two).tobytes(), one.path
    assert int(numbers(other.optimizer.iterations)) == 3


def test_old_files_hold_what_was_trained_and_saving_them_ends_nothing(tmp_path: Path) -> None:
    """Keras reads no slots of .h5; saving takes the optimizer out of what compile() was given."""
    case, model = CASES["image"], trained()
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5") as file:
        held: list[bytes] = []
        file["optimizer_weights"].visititems(
            lambda _, item: held.append(item[()].tobytes()) if hasattr(item, "shape") else None
        )
    assert sorted(held) == sorted(numbers(v).tobytes() for v in model.optimizer.variables)
    other = keras.saving.load_model(tmp_path / "m.h5")
    for one, two in zip(model.weights, other.weights, strict=True):
        assert numbers(one).tobytes() == numbers(two).tobytes(), one.path
    try:
        best = keras.callbacks.ModelCheckpoint(str(tmp_path / "best.h5"))
    except ValueError as error:  # Keras 3.5, say, knows the other form alone here
        pytest.skip(str(error))
    plimsoll.fit(model, case.x, case.y, batch_size=32, epochs=2, verbose=0, callbacks=[best])
    plimsoll.fit(model, case.x, case.y, batch_size=32, epochs=1, verbose=0)
    assert int(numbers(model.optimizer.iterations)) == 12


def test_weights_files_and_exports_hold_what_was_trained(tmp_path: Path) -> None:
    case, model = CASES["image"], trained()
    model.save_weights(tmp_path / "m.weights.h5")
    other = case.compiled()
    other.load_weights(tmp_path / "m.weights.h5")
    for one, two in zip(model.variables, other.variables, strict=True):
        assert numbers(one).tobytes() == numbers(two).tobytes(), one.path
    model.export(tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(
        served.serve(tf.constant(case.x[:8])), model(case.x[:8]), rtol=1e-5, atol=1e-6
    )


def test_a_notebook_shows_plan_and_chart() -> None:
    """In a frame, so that styles of the page do not reach the notebook."""
    model = keras.Sequential([
        keras.Input((64, 64, 3)), L.Conv2D(16, 3, activation="relu"),
        L.Conv2D(16, 3, activation="relu"), L.GlobalAveragePooling2D(), L.Dense(4),
    ])  # fmt: skip
    model.compile("adam", "mse")
    shown = plimsoll.plan(model, 64, memory="4GiB")._repr_html_()
    assert shown.startswith("<iframe ") and shown.count("<") == 2
    page = html.unescape(shown)
    assert "<svg" in page and "MiB" in page
