"""The engine trains models of Keras on JAX as Keras does. Run by test_jax.py."""

import keras
import numpy as np
import pytest
from live_models import CASES, assert_like, assert_logs_like, classes, normal

import plimsoll

L = keras.layers


@pytest.mark.parametrize("name", ["image", "two ports", "schedule"])
def test_fit_is_keras_fit(name: str) -> None:
    assert keras.backend.backend() == "jax"
    case = CASES[name]
    theirs, ours = case.compiled(), case.compiled()
    ours.set_weights(theirs.get_weights())
    given = {"batch_size": 16, "epochs": 2, "shuffle": False, "verbose": 0}
    expected = theirs.fit(case.x, case.y, **given)
    received = plimsoll.fit(ours, case.x, case.y, **given)
    assert_logs_like(expected.history, received.history)
    assert_like(theirs, ours)
    x = case.x if isinstance(case.x, dict) else case.x[:20]
    for one, other in zip(
        keras.tree.flatten(theirs.predict(x, verbose=0)),
        keras.tree.flatten(plimsoll.predict(ours, x)), strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


def test_what_differs_on_jax_is_refused() -> None:
    """Keras on JAX squares the sum of an embedding's rows."""
    model = keras.Sequential([keras.Input((4,), dtype="int32"), L.Embedding(9, 3), L.Flatten(),
                              L.Dense(1)])  # fmt: skip
    model.compile("adam", "mse")
    with pytest.raises(plimsoll.Refused, match="expected an Embedding that is trained by SGD"):
        plimsoll.fit(model, classes(8 * 4, 9).reshape(8, 4), normal(8, 1))
