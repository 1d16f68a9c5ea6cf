"""plimsoll.fit, evaluate and predict on live Keras models, against Keras itself."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import CASES, Case, assert_like, assert_logs_like, classes, normal, numbers

import plimsoll

L = keras.layers


def both(case: Case, **arguments: Any) -> tuple[Any, Any, keras.Model, keras.Model]:
    """Histories and models of Keras and of Plimsoll after the same call."""
    theirs, ours = case.compiled(), case.compiled()
    keras.utils.set_random_seed(8)
    expected = theirs.fit(case.x, case.y, verbose=0, **arguments)
    keras.utils.set_random_seed(8)
    received = plimsoll.fit(ours, case.x, case.y, verbose=0, **arguments)
    return expected, received, theirs, ours


def assert_same_history(expected: Any, received: Any) -> None:
    assert expected.epoch == received.epoch
    assert_logs_like(expected.history, received.history)


@pytest.mark.parametrize("name", CASES)
def test_fit_is_keras_fit(name: str) -> None:
    """Losses, metrics, weights, slots and the order of samples, a short last batch among them."""
    expected, received, theirs, ours = both(CASES[name], batch_size=32, epochs=3)
    assert_same_history(expected, received)
    assert_like(theirs, ours)


@pytest.mark.parametrize("arguments", [
    {"validation_split": 0.3},
    {"validation_data": (normal(20, 16, 16, 3, seed=9), classes(20, 5)), "validation_freq": 2},
    {"sample_weight": np.linspace(0, 2, 90).astype("float32")},
    {"class_weight": {0: 1.0, 1: 2.5, 3: 0.5}},
    {"class_weight": {0: 1.0, 1: 2.5, 3: 0.5}, "validation_split": 0.3},
    {"shuffle": False, "initial_epoch": 2},
], ids=lambda arguments: "+".join(arguments))  # fmt: skip
def test_arguments(arguments: dict[str, Any]) -> None:
    expected, received, theirs, ours = both(CASES["image"], batch_size=16, epochs=4, **arguments)
    assert_same_history(expected, received)
    assert_like(theirs, ours)


def test_a_second_fit_goes_on() -> None:
    case = CASES["image"]
    theirs, ours = case.compiled(), case.compiled()
    for model, fit in ((theirs, keras.Model.fit), (ours, plimsoll.fit)):
        keras.utils.set_random_seed(8)
        for _ in range(2):
            fit(model, case.x, case.y, batch_size=32, epochs=1, verbose=0)
    assert_like(theirs, ours)
    assert int(numbers(ours.optimizer.iterations)) == 6
    # … and Keras goes on from there.
    for model in (theirs, ours):
        keras.utils.set_random_seed(9)
        model.fit(case.x, case.y, batch_size=32, epochs=1, verbose=0)
    assert_like(theirs, ours)


def test_every_limit_gives_the_same_bits() -> None:
    case = Case(
        lambda: keras.Sequential([
            keras.Input((64, 64, 3)), L.Conv2D(16, 3, activation="relu"), L.BatchNormalization(),
            L.Conv2D(16, 3, activation="relu"), L.GlobalAveragePooling2D(), L.Dropout(0.3),
            L.Dense(4),
        ]),
        normal(128, 64, 64, 3), normal(128, 4, seed=2), "mse",
    )  # fmt: skip
    answer = plimsoll.plan(case.compiled(), 64, reserve=0)
    smallest = answer.details["smallest_same_bits_bytes"] - answer.held + 6 * 2**20
    assert smallest < 0.9 * (answer.details["free_plan_bytes"] - answer.held)
    kept = []
    for limited in (False, True):
        model = case.compiled()
        keras.utils.set_random_seed(8)
        memory = smallest + plimsoll._core.held_by_process() if limited else None
        plimsoll.fit(model, case.x, case.y, batch_size=64, epochs=2, verbose=0, memory=memory,
                     reserve=0)  # fmt: skip
        kept.append([numbers(v).tobytes() for v in [*model.variables, *model.optimizer.variables]])
    assert kept[0] == kept[1]


def test_the_command_line_trains_the_same_bits(plimsoll_program: Path, tmp_path: Path) -> None:
    case = CASES["image"]
    model = case.compiled()
    model.save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", case.x)
    np.save(tmp_path / "y.npy", case.y)
    plimsoll.fit(model, case.x, case.y, batch_size=32, epochs=2, shuffle=False, verbose=0)
    words = [plimsoll_program, "fit", tmp_path / "m.keras", "--data", tmp_path / "x.npy",
             "--labels", tmp_path / "y.npy", "--batch", 32, "--epochs", 2, "--no-shuffle",
             "--output", tmp_path / "out.keras"]  # fmt: skip
    subprocess.run([str(word) for word in words], check=True, capture_output=True)
    other = keras.saving.load_model(tmp_path / "out.keras")
    for ours, theirs in zip(model.variables, other.variables, strict=True):
        assert numbers(ours).tobytes() == numbers(theirs).tobytes(), ours.path


def test_evaluate_and_predict() -> None:
    for name in ("image", "two ports", "nested and frozen"):
        case = CASES[name]
        model = case.compiled()
        model.fit(case.x, case.y, verbose=0)
        expected = model.evaluate(case.x, case.y, verbose=0, return_dict=True)
        received = plimsoll.evaluate(model, case.x, case.y, return_dict=True)
        assert_logs_like(expected, received, rtol=1e-4)
        theirs, ours = model.predict(case.x, verbose=0), plimsoll.predict(model, case.x)
        pairs = zip(theirs, ours, strict=True) if isinstance(theirs, list) else [(theirs, ours)]
        for one, other in pairs:
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


class Sequence(keras.utils.PyDataset):
    def __init__(self, x: np.ndarray, y: np.ndarray, batch: int) -> None:
        super().__init__()
        self.x, self.y, self.batch = x, y, batch

    def __len__(self) -> int:
        return -(-len(self.x) // self.batch)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(index * self.batch, (index + 1) * self.batch)
        return self.x[rows], self.y[rows]


def iterated(kind: str, x: np.ndarray, y: np.ndarray, batch: int) -> Any:
    if kind == "tf.data":
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
    if kind == "PyDataset":
        return Sequence(x, y, batch)
    batches = Sequence(x, y, batch)  # iterating over it never ends in an older Keras
    return (batches[i] for _ in range(5) for i in range(len(batches)))


@pytest.mark.parametrize("kind", ["tf.data", "PyDataset", "generator"])
def test_batches(kind: str) -> None:
    """A short last batch, metrics over whole epochs, validation of the same kind."""
    case = CASES["image"]
    histories, models = [], []
    for fit in (keras.Model.fit, plimsoll.fit):
        model = case.compiled()
        arguments: dict[str, Any] = {"epochs": 2, "verbose": 0}
        if kind == "generator":
            arguments["steps_per_epoch"] = 3
        else:
            arguments["validation_data"] = iterated(kind, case.x[:40], case.y[:40], 32)
        histories.append(fit(model, iterated(kind, case.x, case.y, 32), **arguments))
        models.append(model)
    if kind == "PyDataset":  # Keras shuffles its batches: only the first counts are alike
        assert list(histories[0].history) == list(histories[1].history)
        return
    assert_same_history(*histories)
    assert_like(*models)


@pytest.mark.parametrize("change", [
    lambda x: np.asfortranarray(x), lambda x: x[::-1], lambda x: x.astype("float16"),
    lambda x: x.astype("float64"), lambda x: (x > 0), lambda x: (x * 9).astype("uint16"),
    lambda x: (x * 9).astype("int16"), lambda x: tf.constant(x), lambda x: x.astype(">f4"),
], ids=["fortran", "reversed", "float16", "float64", "bool", "uint16", "int16", "tensor",
        "big endian"])  # fmt: skip
def test_forms_of_arrays(change: Any) -> None:
    x = change(normal(40, 6) if change is not None else None)
    model = keras.Sequential([keras.Input((6,)), L.Dense(3)])
    expected = model.predict(np.asarray(x).astype("float32"), verbose=0)
    np.testing.assert_allclose(plimsoll.predict(model, x), expected, rtol=1e-5, atol=1e-5)


def trace(fit: Any, case: Case, **arguments: Any) -> list[tuple[str, Any]]:
    events: list[tuple[str, Any]] = []

    class Spy(keras.callbacks.Callback):
        pass

    names = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_")
             and "predict" not in name and "_batch" not in name]  # fmt: skip
    for name in names:

        def hook(self: Any, *given: Any, name: str = name, **logs: Any) -> None:
            events.append((name, [sorted(one) if isinstance(one, dict) else one
                                  for one in given if one]))  # fmt: skip

        setattr(Spy, name, hook)
    keras.utils.set_random_seed(8)
    fit(case.compiled(), case.x, case.y, verbose=0, callbacks=[Spy()], **arguments)
    return [event for event in events if "test_end" not in event[0]]


@pytest.mark.parametrize("arguments", [
    {"epochs": 2}, {"epochs": 3, "validation_split": 0.2},
    {"epochs": 4, "validation_split": 0.2, "validation_freq": [1, 4]},
])  # fmt: skip
def test_events_come_in_keras_order(arguments: dict[str, Any]) -> None:
    case = CASES["image"]
    assert trace(plimsoll.fit, case, **arguments) == trace(keras.Model.fit, case, **arguments)


def test_batch_events() -> None:
    counts = []
    for fit in (keras.Model.fit, plimsoll.fit):
        seen: list[tuple[str, int]] = []

        class Spy(keras.callbacks.Callback):
            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                seen.append(("begin", batch))  # noqa: B023

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                assert "loss" in logs
                seen.append(("end", batch))  # noqa: B023

        fit(CASES["image"].compiled(), CASES["image"].x, CASES["image"].y, batch_size=32, epochs=2,
            verbose=0, callbacks=[Spy()])  # fmt: skip
        counts.append(seen)
    assert counts[0] == counts[1]


def _fit_with_callbacks(fit: Any, case: Case, folder: Path) -> None:
    """Leaves what callbacks wrote and saw in `folder`."""
    folder.mkdir()
    model = case.compiled()
    keras.utils.set_random_seed(8)
    looks: list[float] = []

    def look(epoch: int, logs: Any) -> None:
        looks.append(float(model.predict(case.x[:4], verbose=0).sum()))

    history = fit(model, case.x, case.y, batch_size=32, epochs=12, verbose=0, validation_split=0.3,
        callbacks=[
            keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True),
            keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.5),
            keras.callbacks.ModelCheckpoint(folder / "{epoch}.weights.h5", save_weights_only=True),
            keras.callbacks.CSVLogger(folder / "log.csv"),
            keras.callbacks.LambdaCallback(on_epoch_end=look),
        ])  # fmt: skip
    (folder / "seen.json").write_text(json.dumps([history.history, looks]))
    model.save_weights(folder / "last.weights.h5")


def test_callbacks_of_keras(tmp_path: Path) -> None:
    """What looks at the model sees it trained; what changes it is obeyed."""
    case = CASES["image"]
    _fit_with_callbacks(keras.Model.fit, case, tmp_path / "theirs")
    _fit_with_callbacks(plimsoll.fit, case, tmp_path / "ours")
    seen = [json.loads((tmp_path / who / "seen.json").read_text()) for who in ("theirs", "ours")]
    assert_logs_like(*(history for history, _ in seen), rtol=5e-3, atol=1e-4)
    np.testing.assert_allclose(seen[1][1], seen[0][1], rtol=1e-3)
    files = [sorted(path.name for path in (tmp_path / who).iterdir()) for who in ("theirs", "ours")]
    assert files[0] == files[1] and len(files[0]) > 5
    models = [case.compiled(), case.compiled()]
    for model, who in zip(models, ("theirs", "ours"), strict=True):
        model.load_weights(tmp_path / who / "last.weights.h5")
    for one, other in zip(models[0].variables, models[1].variables, strict=True):
        np.testing.assert_allclose(numbers(other), numbers(one), rtol=1e-3, atol=2e-4)


def test_a_rate_that_a_callback_sets() -> None:
    case = CASES["image"]
    models = []
    for fit in (keras.Model.fit, plimsoll.fit):
        model = case.compiled()
        keras.utils.set_random_seed(8)
        schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.01 / (epoch + 1))
        fit(model, case.x, case.y, epochs=3, verbose=0, callbacks=[schedule])
        models.append(model)
    assert_like(*models)


def test_stop_training_within_an_epoch() -> None:
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch == 1

    model = CASES["image"].compiled()
    plimsoll.fit(model, CASES["image"].x, CASES["image"].y, batch_size=16, epochs=3, verbose=0,
                 callbacks=[Stop()])  # fmt: skip
    assert int(numbers(model.optimizer.iterations)) == 2


def test_an_error_in_a_callback_leaves_what_was_trained() -> None:
    class Fail(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                raise LookupError("of the callback")

    model = CASES["image"].compiled()
    with pytest.raises(LookupError, match="of the callback"):
        plimsoll.fit(model, CASES["image"].x, CASES["image"].y, batch_size=32, epochs=5, verbose=0,
                     callbacks=[Fail()])  # fmt: skip
    assert int(numbers(model.optimizer.iterations)) == 6


def test_ctrl_c_leaves_a_consistent_model(package: Path, tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, signal, sys, threading, time
        import keras, numpy as np, plimsoll
        model = keras.Sequential([keras.Input((400,)), keras.layers.Dense(300, "relu"),
                                  keras.layers.Dense(3)])
        model.compile("adam", "mse")
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
        x = np.ones((4000, 400), "float32"); y = np.ones((4000, 3), "float32")
        threading.Timer(3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            plimsoll.fit(model, x, y, epochs=1_000_000, verbose=0)
        except KeyboardInterrupt:
            model.save(sys.argv[1])
            print("steps", int(model.optimizer.iterations.numpy()))
    """)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "m.keras")], text=True,
                          capture_output=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": str(package)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) > 10
    model = keras.saving.load_model(tmp_path / "m.keras")
    assert np.isfinite(numbers(model.variables[0])).all()


def relu(x: Any) -> Any:
    return keras.ops.relu(x) * 2


def mse(y: Any, p: Any) -> Any:
    return keras.ops.mean(keras.ops.abs(y - p))


class Dense(L.Dense):
    pass


def small(*layers: Any, loss: Any = "mse", metrics: Any = None) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), *layers, L.Dense(1)])
    model.compile("sgd", loss, metrics=metrics)
    return model


@pytest.mark.parametrize("make, named", [
    (lambda: small(L.Dense(3, activation=relu)), r"layer dense\S*: its activation \S*\.relu"),
    (lambda: small(L.Activation(relu)), "relu"),
    (lambda: small(Dense(3)), r"its class \S*\.Dense is the program's own"),
    (lambda: small(L.Dense(3), loss=mse), r"loss \S*\.mse"),
    (lambda: small(L.Dense(3), metrics=[mse]), r"metric \S*\.mse"),
    (lambda: small(L.Dense(3, kernel_initializer=lambda shape, dtype=None: keras.ops.ones(shape))),
     "initializer"),
    (lambda: small(L.Lambda(lambda x: x)), "function"),
], ids=["activation", "Activation", "class", "loss", "metric", "initializer",
        "Lambda"])  # fmt: skip
def test_what_is_the_programs_own_is_named(make: Any, named: str) -> None:
    """It serializes like Keras's: only the live object tells."""
    model = make()
    before = [numbers(variable) for variable in model.variables]
    with pytest.raises(plimsoll.Refused, match=named):
        plimsoll.fit(model, normal(8, 4), normal(8, 1), verbose=0)
    assert all((numbers(v) == b).all() for v, b in zip(model.variables, before, strict=True))


def test_a_replaced_call_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(L.Dense(3))
    monkeypatch.setattr(L.Dense, "call", lambda self, inputs, training=None: inputs)
    with pytest.raises(plimsoll.Refused, match=r"Dense\.call was replaced"):
        plimsoll.fit(model, normal(8, 4), normal(8, 1), verbose=0)


def test_a_model_with_a_call_of_its_own() -> None:
    class Own(keras.Model):
        def call(self, x: Any) -> Any:
            return x

    model = Own()
    model.compile("sgd", "mse")
    model.build((None, 4))
    with pytest.raises(plimsoll.Refused, match="expected a Sequential or functional model"):
        plimsoll.fit(model, normal(8, 4), normal(8, 4), verbose=0)


@pytest.mark.parametrize("kind, call", [
    (ValueError, lambda m: plimsoll.fit(m, normal(8, 5), normal(8, 1), verbose=0)),
    (ValueError, lambda m: plimsoll.fit(m, normal(8, 4), normal(7, 1), verbose=0)),
    (ValueError, lambda m: plimsoll.fit(m, normal(8, 4) * np.nan, normal(8, 1), verbose=0)),
    (TypeError, lambda m: plimsoll.fit(m, np.array([["a"] * 4] * 8), normal(8, 1), verbose=0)),
    (ValueError, lambda m: plimsoll.fit(m, normal(8, 4), normal(8, 1), memory="lots")),
    (TypeError, lambda m: plimsoll.fit(m, normal(8, 4), normal(8, 1), memori="2GiB")),
    (ValueError, lambda m: plimsoll.fit(m, [normal(8, 4)] * 2, normal(8, 1), verbose=0)),
], ids=["shape", "rows", "nan", "text", "size", "option", "inputs"])  # fmt: skip
def test_bad_input(kind: type, call: Any) -> None:
    model = small(L.Dense(3))
    with pytest.raises(kind) as caught:
        call(model)
    assert len(str(caught.value)) > 20


def test_labels_out_of_range_and_no_compile() -> None:
    model = keras.Sequential([keras.Input((4,)), L.Dense(3)])
    with pytest.raises(ValueError, match="compile"):
        plimsoll.fit(model, normal(8, 4), classes(8, 3))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(ValueError, match="7"):
        plimsoll.fit(model, normal(8, 4), np.full(8, 7), verbose=0)


def test_a_limit_that_cannot_be_met() -> None:
    """Existing handlers catch it, it explains itself, and the model is as it was."""
    model = CASES["image"].compiled()
    before = [numbers(variable) for variable in model.variables]
    for memory in ("64MiB", plimsoll._core.process_memory() + 2**20):
        with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
            plimsoll.fit(model, CASES["image"].x, CASES["image"].y, verbose=0, memory=memory,
                         reserve=0)  # fmt: skip
        assert isinstance(caught.value, MemoryError)
        assert isinstance(caught.value, plimsoll.ResourceExhausted)
        assert "interpreter, framework and the program's arrays" in str(caught.value)
        assert "MiB" in caught.value.message
    assert all((numbers(v) == b).all() for v, b in zip(model.variables, before, strict=True))
    plimsoll.fit(model, CASES["image"].x, CASES["image"].y, verbose=0)  # in the handler, say


def test_an_error_of_a_limit_names_one_that_does() -> None:
    """Its remedies are arguments, with the reserve in them."""
    model = keras.Sequential([keras.Input((32, 32, 3)), L.Conv2D(64, 3), L.Conv2D(64, 3),
                              L.GlobalAveragePooling2D(), L.Dense(3)])  # fmt: skip
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = normal(128, 32, 32, 3), classes(128, 3)
    with pytest.raises(plimsoll.ResourceExhausted) as caught:
        memory = plimsoll._core.held_by_process() + 80 * 2**20
        plimsoll.fit(model, x, y, batch_size=128, verbose=0, spill=False, memory=memory,
                     reserve="64MiB")  # fmt: skip
    text = str(caught.value)
    first = re.search(r": needs ([\d.]+) MiB, ", text)
    named = re.search(r'memory="([\d.]+MiB)"', text)
    assert first and named and "why: " in text, text
    for memory in (first[1] + "MiB", named[1]):
        plimsoll.fit(model, x, y, batch_size=128, verbose=0, memory=memory, reserve="64MiB")


def test_monitored_metrics_are_found_by_name() -> None:
    """Callbacks in mode "auto" look for Keras's metric objects at the end of the first epoch."""
    case = CASES["image"]
    model, own = case.compiled(), case.compiled()
    for one, train in ((model, plimsoll.fit), (own, keras.Model.fit)):
        one.compile("sgd", case.loss, metrics=["accuracy"])
        train(one, case.x, case.y, verbose=0, epochs=1,
              callbacks=[keras.callbacks.EarlyStopping(monitor="accuracy")])  # fmt: skip
    assert [m.name for m in model.metrics] == [m.name for m in own.metrics]


def test_a_plan_prints_and_answers() -> None:
    answer = plimsoll.plan(CASES["image"].compiled(), 64, memory="2GiB")
    assert answer.fits and answer.predicted > answer.held
    assert "interpreter, framework and arrays" in str(answer)
    assert answer.frontier()[0][0] > 0


def test_a_fit_within_a_limit_says_what_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES["image"]
    plimsoll.fit(case.compiled(), case.x, case.y, batch_size=32, epochs=2, memory="6GiB")
    told = re.fullmatch(r"memory: at most (\S+) of 6144.0 MiB when an epoch ended",
                        capsys.readouterr().out.splitlines()[-1])  # fmt: skip
    assert told is not None and 0 < float(told[1]) < 6144
    plimsoll.fit(case.compiled(), case.x, case.y, batch_size=32, memory="6GiB", verbose=0)
    assert capsys.readouterr().out == ""


def test_memory_comes_back() -> None:
    case = Case(
        lambda: keras.Sequential([keras.Input((64, 64, 3)), L.Conv2D(32, 3), L.Flatten(),
                                  L.Dense(1)]),
        normal(64, 64, 64, 3), normal(64, 1), "mse")  # fmt: skip
    model = case.compiled()
    plimsoll.fit(model, case.x, case.y, batch_size=64, verbose=0)
    before = plimsoll._core.process_memory()
    for _ in range(5):
        plimsoll.fit(model, case.x, case.y, batch_size=64, verbose=0)
    assert plimsoll._core.process_memory() - before < 16 * 2**20
