"""Optimizers that do what their description does not say are left to Keras, by name."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import plimsoll

L, OF = keras.layers, keras.optimizers


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
X, Y = np.ones((8, 5, 4), "float32"), np.ones((8, 2), "float32")


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused_before_anything_changes(case: str) -> None:
    name, make, told = REFUSED[case]
    model = trained(name, make())
    before = [np.array(one) for one in model.get_weights()]
    for call in (plimsoll.fit, plimsoll.train_on_batch):
        with pytest.raises(plimsoll.Refused, match=told):
            call(model, X, Y)
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
        plimsoll.fit(trained("net", optimizer), X, Y, verbose=0)
    model = trained("net", OF.ScheduleFreeAdamW())
    model.optimizer.build(model.trainable_variables)
    plimsoll.fit(model, X, Y, verbose=0)
