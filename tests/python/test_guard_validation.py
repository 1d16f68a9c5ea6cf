"""Validation in a fit that Keras does: cut as training is, and told as validation's."""

from typing import Any

import keras
import numpy as np
import pytest
from guarded import CUTS, TRAINER, installed, own_fit, parts_of
from live_models import normal

from plimsoll.guard import base, validation
from plimsoll.guard import sizes as guard_sizes

pytestmark = CUTS

L = keras.layers
X, Y = normal(48, 6), normal(48, 3, seed=2)
HELD = (normal(21, 6, seed=5), normal(21, 3, seed=6))
EVEN = tuple(one[:16] for one in HELD)  # TensorFlow knows the size of each batch


class Own(L.Layer):
    """What the engine does not take."""

    def call(self, inputs: Any) -> Any:
        return keras.ops.tanh(inputs)


def apart(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.mean(keras.ops.square(y_true - y_pred), axis=-1)


def network(**more: Any) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), L.Dense(8), Own(), L.Dense(3)])
    model.compile("adam", **{"loss": apart, "metrics": ["mae"], **more})
    return model


def fitted(method: Any, **more: Any) -> dict[str, list[float]]:
    given = {"validation_data": HELD, "epochs": 2, "batch_size": 16, "shuffle": False, "verbose": 0}
    history = method(network(), X, Y, **{**given, **more}).history
    return dict(history)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of the batches that Keras's test function is given."""
    seen: list[int] = []
    plain = validation.again

    def again(data: Any, element: Any) -> Any:
        seen.append(int(keras.tree.flatten(data)[0].shape[0]))
        return plain(data, element)

    monkeypatch.setattr(validation, "again", again)
    return seen


def test_parts_are_as_large_as_those_of_training(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    with installed(monkeypatch):
        whole = fitted(own_fit())
        assert not sizes
        parts_of(monkeypatch, 6)
        cut = fitted(TRAINER.fit)
        assert sizes == [6, 6, 4, 5] * 2  # 16 and 5 samples, as few parts as with six
        assert list(cut) == list(whole)
        for name, values in whole.items():
            np.testing.assert_allclose(cut[name], values, rtol=2e-5, err_msg=name)


def test_batches_whose_size_is_known(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    with installed(monkeypatch):
        whole = fitted(own_fit(), validation_data=EVEN)
        parts_of(monkeypatch, 6)
        cut = fitted(TRAINER.fit, validation_data=EVEN)
        assert sizes == [6, 6, 4] * 2
        np.testing.assert_allclose(cut["val_loss"], whole["val_loss"], rtol=2e-5)


def test_keras_has_its_own_function_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    with installed(monkeypatch):
        parts_of(monkeypatch, 6)
        model = network()
        TRAINER.fit(model, X, Y, validation_split=0.25, batch_size=16, verbose=0)
        assert getattr(model.test_function, "__self__", None) is None
        before = model.evaluate(*HELD, verbose=0)
        TRAINER.fit(model, X, Y, validation_split=0.25, batch_size=16, verbose=0)
        assert before != model.evaluate(*HELD, verbose=0)


@pytest.mark.parametrize(
    "more", [{"loss": keras.losses.MeanSquaredError(reduction="sum")},
             {"metrics": [keras.metrics.F1Score(threshold=0.5)]}], ids=["a sum", "no mean"],
)  # fmt: skip
def test_what_parts_would_change_stays_whole(
    more: dict[str, Any], monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    with installed(monkeypatch):
        parts_of(monkeypatch, 6)
        TRAINER.fit(network(**more), X, (Y > 0).astype("float32"), validation_data=HELD,
                    batch_size=16, verbose=0)  # fmt: skip
        assert sizes == [16, 5]


class OwnTest(keras.Sequential):
    def test_step(self, data: Any) -> Any:
        x, y = data
        return {"loss": keras.ops.max(keras.ops.abs(self(x) - y))}


class OwnFunction(keras.Sequential):
    def make_test_function(self, force: bool = False) -> Any:
        raise AssertionError("fit asks once, where it validates")


def test_a_test_step_of_the_program(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    """What it does with a batch nobody knows: it is given whole ones."""

    def train(method: Any) -> list[float]:
        keras.utils.set_random_seed(1)
        model = OwnTest([keras.Input((6,)), L.Dense(8), Own(), L.Dense(3)])
        model.compile("adam", apart)
        given = {"validation_data": HELD, "batch_size": 16, "shuffle": False, "verbose": 0}
        return list(method(model, X, Y, **given).history["val_loss"])

    with installed(monkeypatch):
        whole = train(own_fit())
        parts_of(monkeypatch, 6)
        np.testing.assert_allclose(train(TRAINER.fit), whole, rtol=2e-5)
        assert sizes == [16, 5]
        model = OwnFunction([keras.Input((6,)), L.Dense(8), Own(), L.Dense(3)])
        model.compile("adam", apart)
        TRAINER.fit(model, X, Y, batch_size=16, verbose=0)


def test_what_it_takes_is_told_as_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validation passes the limit: it is named, and training goes on as before."""
    parts_of(monkeypatch, 16)
    running = []
    plain = validation.Validation._batch

    def batch(self: Any, given: Any, element: Any) -> Any:
        running.append(True)
        try:
            return plain(self, given, element)
        finally:
            running.clear()

    monkeypatch.setattr(validation.Validation, "_batch", batch)
    monkeypatch.setattr(
        guard_sizes, "peak", lambda *given, **named: (900 if running else 700) << 20
    )
    with installed(monkeypatch, memory="800MiB"):
        fitted(TRAINER.fit, validation_batch_size=21)
    said = capsys.readouterr().err
    assert said.count("validation with batches of 21 samples took 900.0 MiB") == 1, said
    assert "validation_batch_size= takes less" in said and "a step with" not in said


def test_one_sample_is_one() -> None:
    assert (base.samples(1), base.samples(3)) == ("1 sample", "3 samples")
