"""Which Keras the package takes, and what it gives in the order of the Keras that is there."""

import sys
import types
from collections.abc import Callable
from typing import Any

import keras
import pytest
from live_models import classes, normal

import plimsoll
from plimsoll import versions

L = keras.layers
X, Y = normal(24, 4), classes(24, 3)


def model() -> keras.Model:
    made = keras.Sequential([keras.Input((4,)), L.Dense(3, activation="softmax")])
    made.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return made


CALLS: dict[str, Callable[[Any], Any]] = {
    "fit": lambda m: plimsoll.fit(m, X, Y, verbose=0),
    "evaluate": lambda m: plimsoll.evaluate(m, X, Y),
    "predict": lambda m: plimsoll.predict(m, X),
    "train_on_batch": lambda m: plimsoll.train_on_batch(m, X, Y),
    "test_on_batch": lambda m: plimsoll.test_on_batch(m, X, Y),
    "predict_on_batch": lambda m: plimsoll.predict_on_batch(m, X),
    "plan": plimsoll.plan,
    "Trainer": plimsoll.Trainer,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_older_keras_is_refused_by_name(
    call: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = model()
    monkeypatch.setattr(keras, "__version__", "2.15.0")
    with pytest.raises(plimsoll.Refused, match=r"needs Keras 3\.\d+\.\d+ or later, found 2\.15\.0"):
        call(made)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_no_model_is_refused_by_name(call: Callable[[Any], Any]) -> None:
    """Models of Keras 2 among them, whose module is another one."""
    old = type("Sequential", (), {"__module__": "tf_keras.src.engine.sequential"})
    for other, named in ((old(), r"received tf_keras\S*Sequential\. Models of tf_keras are of"),
                         (types.SimpleNamespace(compiled=True, built=True), "SimpleNamespace"),
                         (None, "NoneType")):  # fmt: skip
        with pytest.raises(plimsoll.Refused, match=f"expected a model of Keras.*{named}"):
            call(other)


def test_no_keras_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model()
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(plimsoll.Refused, match="needs Keras .* found none"):
        plimsoll.plan(made)


def test_versions_are_compared_as_numbers() -> None:
    assert versions.number("3.12.0rc1") == (3, 12, 0)
    assert versions.number("3.10.1.dev2025") > versions.number("3.9")
    assert versions.number("nightly") < versions.number(versions.OLDEST)


def two_outputs() -> tuple[keras.Model, list[Any]]:
    inputs = keras.Input((4,))
    made = keras.Model(inputs, [L.Dense(1, name="value")(inputs), L.Dense(2, name="other")(inputs)])
    made.compile("sgd", ["mse", "mse"], metrics=[["mae"], None])
    return made, [normal(24, 1), normal(24, 2)]


@pytest.mark.parametrize("version, losses", [
    ("3.4.1", set()), ("3.5.0", {"value_loss", "other_loss"}),
])  # fmt: skip
def test_losses_of_outputs_are_reported_as_the_program_s_keras_does(
    version: str, losses: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, y = two_outputs()
    monkeypatch.setattr(keras, "__version__", version)
    names = losses | {"loss", "value_mae"}
    assert set(plimsoll.evaluate(made, X, y, return_dict=True)) == names
    assert len(plimsoll.evaluate(made, X, y)) == len(names)
    assert set(plimsoll.train_on_batch(made, X, y, return_dict=True)) == names
    assert set(plimsoll.Trainer(made).accumulate(X, y, return_dict=True)) == names
    for how in ({}, {"steps_per_epoch": 1}):
        history = plimsoll.fit(made, X, y, validation_data=(X, y), verbose=0, **how).history
        assert set(history) == names | {f"val_{name}" for name in names}


def test_structures_where_keras_has_no_tree_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Keras 3.0 they are those of another package."""
    made, _ = two_outputs()
    expected = [part.shape for part in plimsoll.predict(made, X)]
    other = types.SimpleNamespace(unflatten_as=keras.tree.pack_sequence_as)
    monkeypatch.setitem(sys.modules, "tree", other)
    monkeypatch.delattr(keras, "tree")
    assert [part.shape for part in plimsoll.predict(made, X)] == expected == [(24, 1), (24, 2)]


def on_backend(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: name)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_other_backends_are_refused_by_name(
    call: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = model()
    on_backend(monkeypatch, "torch")
    with pytest.raises(plimsoll.Refused, match="backend tensorflow or jax, received torch"):
        call(made)


def test_embeddings_on_jax_are_trained_by_sgd_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = keras.Sequential([keras.Input((3,), dtype="int32"), L.Embedding(9, 2, name="words"),
                             L.Flatten(), L.Dense(1)])  # fmt: skip
    on_backend(monkeypatch, "jax")
    for optimizer in ("rmsprop", keras.optimizers.Adam()):
        made.compile(optimizer, "mse")
        for call in (plimsoll.plan, plimsoll.Trainer):
            with pytest.raises(plimsoll.Refused, match="layer words: .* trained by SGD, received"):
                call(made)
    made.compile("sgd", "mse")
    versions.check_backend(made, made.optimizer)
    made.layers[0].trainable = False
    versions.check_backend(made, keras.optimizers.Adam())


class Raw(keras.callbacks.CallbackList):  # type: ignore[misc]
    """Passes logs on as it is given them, as lists of callbacks do before Keras 3.7."""

    def __init__(self, **more: Any) -> None:
        super().__init__(add_history=True, **more)
        self.seen: dict[str, list[str]] = {}

    def note(self, event: str, logs: Any) -> None:
        self.seen[event] = list(logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.note("batch", logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.note("test batch", logs)

    def on_test_end(self, logs: Any = None) -> None:
        self.note("test", logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.note("epoch", logs)


class Hooks(keras.callbacks.Callback):  # type: ignore[misc]
    """So that somebody listens to batches."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        pass

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        pass


@pytest.mark.parametrize("batches", [False, True], ids=["arrays", "batches"])
def test_logs_come_by_name(batches: bool) -> None:
    """As every Keras 3 has them, whoever sorts them there."""
    made = model()
    seen = Raw(callbacks=[Hooks()], model=made, epochs=1, steps=2, verbose=0)
    how: dict[str, Any] = {"steps_per_epoch": 2} if batches else {}
    plimsoll.fit(made, X, Y, batch_size=12, validation_data=(X, Y), verbose=0, callbacks=seen,
                 **how)  # fmt: skip
    plain = ["accuracy", "loss"]
    assert seen.seen == {
        "batch": plain, "test batch": plain, "test": plain,
        "epoch": [*plain, "val_accuracy", "val_loss"],
    }  # fmt: skip
