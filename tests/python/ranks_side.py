"""Trainings that `mpirun` starts on several ranks, or one process alone (test_ranks_together.py).

Run as `ranks_side.py FOLDER CASE…`: writes what each rank has at the end to a file
FOLDER/RANKS-RANK.json. The first rank's callbacks count; all begin with weights and orders of
their own.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

import plimsoll

RANK = plimsoll.rank()
COUNT = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
RNG = np.random.default_rng(3)
X = RNG.normal(size=(72, 12, 12, 3)).astype("float32")
Y = RNG.integers(0, 4, 72)
OPTIONS: dict[str, Any] = {"lanes": 4, "threads": 1, "parts": 2, "times": "none"}


def network() -> keras.Model:
    keras.utils.set_random_seed(11 + RANK)
    model = keras.Sequential([
        keras.Input((12, 12, 3)),
        keras.layers.Conv2D(8, 3, padding="same"),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras.layers.Dropout(0.2),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(4, activation="softmax"),
    ])  # fmt: skip
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy",
                  metrics=["accuracy"])  # fmt: skip
    return model


def digest(model: keras.Model) -> str:
    held = hashlib.sha256()
    for variable in [*model.weights, *model.optimizer.variables]:
        held.update(np.ascontiguousarray(keras.ops.convert_to_numpy(variable)).tobytes())
    return held.hexdigest()


class Meddling(keras.callbacks.Callback):
    """Writes weights, a rate, and has the session ended by a prediction."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        bias = self.model.layers[-1].bias
        bias.assign(bias + 0.01 * epoch)
        self.model.optimizer.learning_rate = 0.01 / (epoch + 2)
        if epoch == 1:
            plimsoll.predict(self.model, X[:4])


class StopsAt(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if int(self.model.optimizer.iterations.numpy()) == 3:
            self.model.stop_training = True


def arrays() -> Any:
    model = network()
    history = plimsoll.fit(model, X, Y, 16, 3, verbose=2, validation_split=0.25, **OPTIONS)
    return model, history


def rules() -> Any:
    model = network()
    rules = [keras.callbacks.ReduceLROnPlateau("loss", patience=0, min_delta=10.0, cooldown=0),
             keras.callbacks.EarlyStopping("loss", patience=2, min_delta=10.0,
                                           restore_best_weights=True)]  # fmt: skip
    return model, plimsoll.fit(model, X, Y, 16, 9, 0, rules, **OPTIONS)


def meddling() -> Any:
    model = network()
    return model, plimsoll.fit(model, X, Y, 16, 4, 0, [Meddling()], **OPTIONS)


def stops() -> Any:
    model = network()
    return model, plimsoll.fit(model, X, Y, 16, 4, 0, [StopsAt()], **OPTIONS)


def weighted() -> Any:
    model = network()
    return model, plimsoll.fit(model, X, Y, 16, 2, 0, class_weight={0: 2.0, 1: 1.0, 2: 0.5, 3: 1.0},
                               validation_data=(X[:19], Y[:19]), **OPTIONS)  # fmt: skip


def batches() -> Any:
    def endless() -> Iterator[Any]:
        while True:
            for begin in range(0, 72, 16):
                yield X[begin : begin + 16], Y[begin : begin + 16]

    model = network()
    return model, plimsoll.fit(model, endless(), epochs=2, verbose=0, steps_per_epoch=5,
                               callbacks=[Meddling()], validation_data=(X[:24], Y[:24]),
                               **OPTIONS)  # fmt: skip


def shuffled_steps() -> Any:
    """Arrays that go batch by batch, in another order each epoch."""
    model = network()
    return model, plimsoll.fit(model, X, Y, 16, 3, 0, steps_per_epoch=4, **OPTIONS)


class Probing(keras.callbacks.Callback):
    """Writes in hooks for batches of validation."""

    def __init__(self, at_end: bool = False) -> None:
        super().__init__()
        self.at_end = at_end

    def on_test_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        bias = self.model.layers[-1].bias
        bias.assign(bias + [0.125, 0.0, 0.0, 0.0])

    def on_test_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if self.at_end:
            self.model.optimizer.learning_rate = 0.02 + 0.01 * batch


def probed() -> Any:
    """Batches of validation are of another size, so that those of training come one by one."""
    model = network()
    return model, plimsoll.fit(model, X, Y, 16, 3, 0, [Probing(True)], validation_batch_size=12,
                               validation_data=(X[:24], Y[:24]), **OPTIONS)  # fmt: skip


def probed_within() -> Any:
    """The engine runs the validation."""
    model = network()
    return model, plimsoll.fit(model, X, Y, 16, 3, 0, [Probing()], shuffle=False,
                               validation_data=(X[:24], Y[:24]), **OPTIONS)  # fmt: skip


class BeforeTheFirst(keras.callbacks.Callback):
    """Writes before an epoch's first batch, and sets a rate."""

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if batch == 0:
            bias = self.model.layers[-1].bias
            bias.assign(bias + [0.5, 0.0, 0.0, 0.0])
            rate = self.model.optimizer.learning_rate
            self.model.optimizer.learning_rate = 0.5 * float(rate)


def before_the_first() -> Any:
    model = network()
    return model, plimsoll.fit(model, X, Y, 16, 3, 0, [BeforeTheFirst()], **OPTIONS)


def taken_over() -> Any:
    model = network()
    return model, model.fit(X, Y, 16, 2, verbose=0, validation_split=0.25)


def other_samples() -> Any:
    model = network()
    return model, plimsoll.fit(model, X + RANK, Y, 16, 2, 0, **OPTIONS)


def other_batches() -> Any:
    """One rank has one batch more."""
    model = network()
    given = [(X[:16], Y[:16])] * (2 + RANK)
    return model, plimsoll.fit(model, (one for one in given), epochs=1, verbose=0, **OPTIONS)


class Telling(keras.callbacks.Callback):
    """Logs what no text of JSON's stands for."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        endless: list[Any] = [1]
        endless.append(endless)
        logs |= {"complex": 1 + 2j, "bytes": b"ab", "keys": {np.int64(3): 1, (1, 2): 2},
                 "endless": endless, "number": np.float32(0.5), "flag": np.bool_(True),
                 "spectrum": np.zeros(2, "complex64"), "array": np.arange(2)}  # fmt: skip


def odd_logs() -> Any:
    model = network()
    held = plimsoll.fit(model, X, Y, 16, 1, 0, [Telling()], **OPTIONS)
    held.history = {name: repr(value[0]) for name, value in held.history.items()}
    return model, held


def other_epochs() -> Any:
    model = network()
    return model, plimsoll.fit(model, X, Y, 16, 2 + RANK, 0, **OPTIONS)


def other_kind() -> Any:
    model = network()
    given = iter([(X[:16], Y[:16])])
    if RANK == 0:
        return model, plimsoll.fit(model, X, Y, epochs=1, verbose=0, **OPTIONS)
    return model, plimsoll.fit(model, given, epochs=1, verbose=0, **OPTIONS)


def other_metrics() -> Any:
    model = network()
    model.compile("sgd", "sparse_categorical_crossentropy",
                  metrics=["accuracy", "sparse_categorical_crossentropy"][: 1 + RANK])  # fmt: skip
    return model, plimsoll.fit(model, X, Y, 16, 1, 0, **OPTIONS)


class Own(keras.layers.Layer):
    """Which the engine does not take over."""

    def call(self, x: Any) -> Any:
        return 2.0 * x


def refused(at: tuple[int, ...]) -> keras.Model:
    model = network()
    if RANK in at:
        model = keras.Sequential([keras.Input((12, 12, 3)), Own(), *model.layers])
        model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def one_refuses() -> Any:
    model = refused((1,))
    return model, plimsoll.fit(model, X, Y, 16, 1, 0, **OPTIONS)


def one_has_other_data() -> Any:
    model = network()
    return model, plimsoll.fit(model, X, Y[: 72 - RANK], 16, 1, 0, **OPTIONS)


def one_lane() -> Any:
    model = network()
    return model, plimsoll.fit(model, X, Y, 16, 1, 0, **{**OPTIONS, "lanes": 1})


def one_in_keras() -> Any:
    """Twice, since what was refused once is not looked at again."""
    model = refused((1,))
    model.fit(X, Y, 16, 1, verbose=0)
    return model, model.fit(X, Y, 16, 1, verbose=0)


def all_in_keras() -> Any:
    model = refused((0, 1))
    model.fit(X, Y, 16, 1, verbose=0)
    return model, model.fit(X, Y, 16, 1, verbose=0)


def late() -> Any:
    """The other rank does not come."""
    from plimsoll.model import shared

    shared.TIMEOUT = 2.0
    shared.joined()
    model = network()
    if RANK > 0:
        time.sleep(6)
        raise ValueError("late")
    return model, plimsoll.fit(model, X, Y, 16, 1, 0, **OPTIONS)


def main() -> None:
    folder = Path(sys.argv[1])
    told = {}
    for name in sys.argv[2:]:
        case: Callable[[], Any] = globals()[name]
        try:
            model, history = case()
        except Exception as error:
            told[name] = {"error": f"{type(error).__name__}: {error}"}
            continue
        told[name] = {"digest": digest(model), "history": history.history, "epoch": history.epoch}
    (folder / f"{COUNT}-{RANK}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
