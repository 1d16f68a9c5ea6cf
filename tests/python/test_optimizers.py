"""Optimizers whose state is not alike for every weight, on a model with a table, against Keras.

Those that do what their description does not say are left to Keras, by name.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import plimsoll

L = keras.layers
OF = keras.optimizers
X = np.random.default_rng(0).integers(0, 9, (40, 6))
Y = np.random.default_rng(1).normal(size=(40, 2)).astype("float32")

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "lamb": lambda: OF.Lamb(0.01, weight_decay=0.01),
    "lamb clipped": lambda: OF.Lamb(0.01, clipnorm=0.05),
    "adafactor": lambda: OF.Adafactor(0.05),
    "adafactor clipped": lambda: OF.Adafactor(
        OF.schedules.ExponentialDecay(0.05, 4, 0.9), clip_threshold=0.7, global_clipnorm=0.1
    ),
    "muon": lambda: OF.Muon(0.01, adam_lr_ratio=0.5),
    "muon of the table": lambda: OF.Muon(0.01, exclude_embeddings=False, exclude_layers=["out"]),
    "schedule free": lambda: OF.ScheduleFreeAdamW(0.01, warmup_steps=4, weight_decay=0.01),
    "averages": lambda: OF.Adam(0.01, use_ema=True, ema_momentum=0.8),
    "averages that overwrite": lambda: OF.SGD(
        0.05, momentum=0.8, use_ema=True, ema_momentum=0.7, ema_overwrite_frequency=4
    ),
}


def made(optimizer: Callable[[], Any]) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(4)
    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            L.Embedding(9, 5),
            L.LSTM(4),
            L.Dense(7, "tanh"),
            L.Dense(2, name="out"),
        ]
    )
    model.compile(optimizer(), "mse")
    # Inside of a traced step ScheduleFreeAdamW is built without its weights.
    model.optimizer.build(model.trainable_variables)
    return model


def state(model: keras.Model) -> list[np.ndarray]:
    variables = [*model.variables, *model.optimizer.variables]
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_trains_as_keras_and_goes_on_there(name: str) -> None:
    theirs, ours = made(OPTIMIZERS[name]), made(OPTIMIZERS[name])
    options = {"batch_size": 8, "epochs": 2, "shuffle": False, "verbose": 0}
    expected = theirs.fit(X, Y, **options).history["loss"]
    found = plimsoll.fit(ours, X, Y, **options).history["loss"]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    for mine, own in zip(state(ours), state(theirs), strict=True):
        np.testing.assert_allclose(mine, own, rtol=2e-3, atol=2e-5)
    for model in (ours, theirs):
        model.reset_metrics()  # before Keras 3.15 a single batch's go on from what was there
    np.testing.assert_allclose(
        ours.train_on_batch(X[:8], Y[:8]), theirs.train_on_batch(X[:8], Y[:8]), rtol=1e-3
    )


def test_a_fresh_schedule_free_begins_at_the_weights() -> None:
    model = made(OPTIMIZERS["schedule free"])
    model.compile(OF.ScheduleFreeAdamW(0.0), "mse")
    model.optimizer.build(model.trainable_variables)
    before = model.get_weights()
    plimsoll.fit(model, X, Y, verbose=0)
    for now, then in zip(model.get_weights(), before):
        np.testing.assert_allclose(now, then, rtol=1e-5, atol=1e-7)


def trained(name: str, optimizer: Any) -> keras.Model:
    made = keras.Sequential(
        [keras.Input((5, 4)), L.LSTM(6), L.Dense(7, name="hid"), L.Dense(2)], name=name
    )
    made.compile(optimizer, "mse")
    return made


def excluding(optimizer: Any, **what: Any) -> Any:
    optimizer.exclude_from_weight_decay(**what)
    return optimizer


REFUSED: dict[str, tuple[str, Callable[[], Any], str]] = {
    "a cell's name": ("net", lambda: OF.Muon(exclude_layers=["lstm_cell"]), "lstm_cell"),
    "the model's name": ("embedding_net", lambda: OF.Muon(), "embedding_net"),
    "the begin of a path": ("net", lambda: OF.Muon(exclude_layers=["^hid"]), "name in its layer"),
    "AdamW": ("net", lambda: excluding(OF.AdamW(), var_names=["kernel"]), "weight_decay"),
    "Lamb": ("net", lambda: excluding(OF.Lamb(weight_decay=0.1), var_names=["bias"]), "bias"),
    "not built": ("net", lambda: OF.ScheduleFreeAdamW(), "optimizer.build"),
}
SEQUENCES, LABELS = np.ones((8, 5, 4), "float32"), np.ones((8, 2), "float32")


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused_before_anything_changes(case: str) -> None:
    name, make, told = REFUSED[case]
    model = trained(name, make())
    before = [np.array(one) for one in model.get_weights()]
    for call in (plimsoll.fit, plimsoll.train_on_batch):
        with pytest.raises(plimsoll.Refused, match=told):
            call(model, SEQUENCES, LABELS)
    for one, then in zip(model.get_weights(), before):
        assert np.array_equal(one, then)
    with pytest.raises(plimsoll.Refused, match=told):
        plimsoll.Trainer(model, make(), "mse")


def test_what_excludes_nothing_is_taken() -> None:
    for optimizer in (
        excluding(OF.AdamW(), var_names=["nothing_has_this_name"]),
        excluding(OF.SGD(), var_names=["kernel"]),
        OF.Muon(exclude_layers=["hid/k"]),
    ):
        plimsoll.fit(trained("net", optimizer), SEQUENCES, LABELS, verbose=0)
    model = trained("net", OF.ScheduleFreeAdamW())
    model.optimizer.build(model.trainable_variables)
    plimsoll.fit(model, SEQUENCES, LABELS, verbose=0)
