"""Every way of looking at what train_on_batch has trained, and of changing it."""

from __future__ import annotations

import copy
import gc
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from live_models import assert_like, normal, numbers

import plimsoll
from plimsoll.model import sync

L = keras.layers
X, Y = normal(40, 4), normal(40, 1, seed=3)
Look = Callable[[], Any]


def small(optimizer: Any = "adam") -> keras.Model:
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((4,)), L.Dense(6, "tanh"), L.Dense(1)])
    model.compile(optimizer, keras.losses.MeanSquaredError())
    return model


def train(model: keras.Model, face: Any = plimsoll, steps: int = 1) -> None:
    for step in range(steps):
        face.train_on_batch(model, X[step * 8 : step * 8 + 8], Y[step * 8 : step * 8 + 8])


def is_lent() -> bool:
    door = sync.gate()
    assert door is not None
    return door.is_shut()


def kernel(model: keras.Model) -> Any:
    return model.layers[0].kernel


def _traced(model: keras.Model) -> Look:
    function = tf.function(lambda: model(X, training=False))
    function()
    return lambda: function().numpy()


def _by_handle(model: keras.Model) -> Look:
    handle = kernel(model).value.handle
    return lambda: tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32).numpy()


def _by_another_handle(model: keras.Model) -> Look:
    handle = tf.identity(kernel(model).value.handle)
    return lambda: tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32).numpy()


def _by_data_set(model: keras.Model) -> Look:
    raw = kernel(model).value
    exactly = tf.data.Options()  # nothing is read ahead
    exactly.experimental_optimization.apply_default_optimizations = False
    data = tf.data.Dataset.range(9).map(lambda i: raw.read_value()).with_options(exactly)
    iterator = iter(data)
    return lambda: next(iterator).numpy()


def _by_gradient(model: keras.Model) -> Look:
    def look() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(X) ** 2)
        return tape.gradient(loss, kernel(model).value).numpy()

    return look


def _printed(model: keras.Model) -> Look:
    return lambda: np.frombuffer(repr(kernel(model).value).encode(), "uint8")


def _by_file(name: str) -> Callable[[keras.Model, Path], Look]:
    def make(model: keras.Model, folder: Path) -> Look:
        def look() -> Any:
            path = folder / name
            if name.endswith(".weights.h5"):
                model.save_weights(path)
                other = small()
                other.load_weights(path)
            else:
                model.save(path)
                other = keras.saving.load_model(path)
            found = [*other.get_weights(), *(numbers(v) for v in other.optimizer.variables)]
            return np.concatenate([np.ravel(value).astype("float64") for value in found])

        return look

    return make


def _exported(model: keras.Model, folder: Path) -> Look:
    def look() -> Any:
        model.export(folder / "exported", verbose=False)
        loaded = tf.saved_model.load(folder / "exported")
        return loaded.serve(X).numpy()

    return look


def _by_module(model: keras.Model) -> Look:
    module = tf.Module()
    module.held = [variable.value for variable in model.variables]
    return lambda: np.concatenate([variable.numpy().ravel() for variable in module.variables])


def _by_lookup(model: keras.Model) -> Look:
    raw = kernel(model).value
    return lambda: tf.nn.embedding_lookup(raw, [0, 2]).numpy()


def _by_operator(model: keras.Model) -> Look:
    return lambda: (tf.constant(2.0) * kernel(model).value).numpy()


def _by_shared_model(model: keras.Model) -> Look:
    other = keras.Sequential([keras.Input((4,)), *model.layers])
    return lambda: plimsoll.predict(other, X)


def _slots(model: keras.Model) -> Look:
    return lambda: np.concatenate([numbers(v).ravel() for v in model.optimizer.variables])


LOOKS: dict[str, Callable[..., Look]] = {
    "numpy": lambda m: kernel(m).numpy,
    "value": lambda m: lambda: kernel(m).value.numpy(),
    "read_value": lambda m: lambda: kernel(m).value.read_value().numpy(),
    "__array__": lambda m: lambda: np.asarray(kernel(m)),
    "convert_to_numpy": lambda m: lambda: keras.ops.convert_to_numpy(kernel(m)),
    "convert_to_tensor": lambda m: lambda: tf.convert_to_tensor(kernel(m).value).numpy(),
    "keras.ops": lambda m: lambda: np.asarray(keras.ops.sum(kernel(m), axis=0)),
    "print": _printed,
    "operator": _by_operator,
    "item": lambda m: lambda: kernel(m).value[1].numpy(),
    "get_weights": lambda m: lambda: np.concatenate([w.ravel() for w in m.get_weights()]),
    "slots": _slots,
    "iterations": lambda m: lambda: m.optimizer.iterations.numpy(),
    "handle": _by_handle,
    "another handle": _by_another_handle,
    "embedding_lookup": _by_lookup,
    "tf.Module": _by_module,
    "traced": _traced,
    "gradient": _by_gradient,
    "data set": _by_data_set,
    "call": lambda m: lambda: m(X).numpy(),
    "predict": lambda m: lambda: m.predict(X, verbose=0),
    "evaluate": lambda m: lambda: m.evaluate(X, Y, verbose=0),
    "plimsoll.predict": lambda m: lambda: plimsoll.predict(m, X),
    "plimsoll.evaluate": lambda m: lambda: plimsoll.evaluate(m, X, Y),
    "plimsoll.predict_on_batch": lambda m: lambda: plimsoll.predict_on_batch(m, X),
    "of a model that shares": _by_shared_model,
    "keras file": _by_file("m.keras"),
    "h5": _by_file("m.h5"),
    "weights file": _by_file("m.weights.h5"),
    "pickle": lambda m: lambda: pickle.loads(pickle.dumps(m)).get_weights()[0],
    "copy": lambda m: lambda: copy.deepcopy(kernel(m).value).numpy(),
    "export": _exported,
}  # fmt: skip


def looking(name: str, model: keras.Model, folder: Path) -> Look:
    make = LOOKS[name]
    takes_folder = make is _exported or make.__qualname__.startswith("_by_file")
    return make(model, folder) if takes_folder else make(model)


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_sees_what_was_trained(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as it looks; and it is the gate that it sees it by."""
    seen = []
    for face in (keras.Model, plimsoll):
        model = small()
        look = looking(name, model, tmp_path)
        train(model, face)
        told = [look()]
        train(model, face, 2)
        told.append(look())
        seen.append(told)
    if name == "print":
        for one in seen:
            assert (one[0][-20:] != one[1][-20:]).any()
    else:
        for expected, received in zip(*seen, strict=True):
            np.testing.assert_allclose(received, expected, rtol=1e-3, atol=1e-5)
    if not name.startswith(("plimsoll", "of a model")):
        train(model)
        assert is_lent()
        monkeypatch.setattr(sync._Gate, "look", lambda self, arguments: None)
        np.testing.assert_array_equal(look(), told[1])  # old ones


def test_a_look_at_one_variable_hands_back_that_one() -> None:
    model = small()
    train(model, steps=3)
    lent = vars(model)["_plimsoll"].session("train")._lent
    count = len(lent._held)
    assert int(model.optimizer.iterations.numpy()) == 3
    assert sum(held is not None for held in lent._held) == count - 1
    train(model)
    assert all(held is not None for held in lent._held)


def test_operations_that_lead_to_no_variable_hand_nothing_back() -> None:
    model = small()
    train(model)
    tf.constant([1.0]) + tf.random.normal((1,))
    tf.concat([tf.zeros(2), np.ones(2, "float32")], axis=0)
    assert is_lent()
    function = tf.function(lambda x: x * 2)
    function(tf.ones(3))
    assert is_lent()


def test_a_data_set_without_variables_hands_nothing_back() -> None:
    model = small()
    factor = tf.constant(1.0)  # which a function has hold of
    data = tf.data.Dataset.from_tensor_slices((X, Y)).map(lambda x, y: (x * factor, y)).repeat()
    batches = iter(data.shuffle(40).batch(8).prefetch(2))
    train(model)
    for _ in range(3):
        x, y = next(batches)
        assert is_lent()
        plimsoll.train_on_batch(model, x, y)
    raw = kernel(model).value
    for other in (
        data.flat_map(lambda x, y: tf.data.Dataset.range(2).map(lambda i: raw[0, 0])),
        data.filter(lambda x, y: raw[0, 0] < 100.0), data.map(lambda x, y: raw[0, 0]).batch(2),
        tf.data.Dataset.zip(data, data.map(lambda x, y: raw[0, 0])),
        tf.data.Dataset.from_tensors(1).concatenate(data.map(lambda x, y: 1)).interleave(
            lambda i: tf.data.Dataset.from_tensors(raw[0, 0])),
    ):  # fmt: skip
        elements = iter(other)
        for _ in range(2):
            train(model)
            next(elements)
            assert not is_lent()


def test_nothing_stands_before_tensorflow_when_nothing_is_lent() -> None:
    from tensorflow.python import pywrap_tfe

    model = small()
    train(model)
    sync.gate().hand_all_back()
    assert not is_lent()
    doors = {name: getattr(pywrap_tfe, name) for name in sync._DOORS}
    assert not any(type(door) is type(is_lent) for door in doors.values())
    train(model)
    assert all(getattr(pywrap_tfe, name) is not door for name, door in doors.items())
    model.get_weights(), model.optimizer.learning_rate.numpy(), _slots(model)()
    assert {name: getattr(pywrap_tfe, name) for name in sync._DOORS} == doors


def test_twenty_steps_are_those_of_keras() -> None:
    models = []
    for face in (keras.Model, plimsoll):
        model, told = small(), []
        for step in range(20):
            begin = step * 8 % 40
            told.append(face.train_on_batch(model, X[begin : begin + 8], Y[begin : begin + 8]))
        models.append((model, told))
    np.testing.assert_allclose(models[1][1], models[0][1], rtol=1e-4)
    assert_like(models[0][0], models[1][0])


def _restore(model: keras.Model, folder: Path) -> Look:
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = checkpoint.save(str(folder / "c"))
    return lambda: checkpoint.restore(path)


def _assigning_function(model: keras.Model, folder: Path) -> Look:
    raw = kernel(model).value
    function = tf.function(lambda: raw.assign(raw * 0.5))
    function()
    return lambda: function()


CHANGES: dict[str, Callable[[keras.Model, Path], Look]] = {
    "assign": lambda m, _: lambda: kernel(m).assign(np.full((4, 6), 0.1, "float32")),
    "assign_add": lambda m, _: lambda: kernel(m).value.assign_add(np.full((4, 6), 0.1, "float32")),
    "scatter": lambda m, _: lambda: kernel(m).value.scatter_nd_update([[1, 2]], [0.5]),
    "slot": lambda m, _: lambda: m.optimizer.variables[2].assign(np.ones((4, 6), "float32")),
    "rate": lambda m, _: lambda: setattr(m.optimizer, "learning_rate", 0.05),
    "iterations": lambda m, _: lambda: m.optimizer.iterations.assign(0),
    "set_weights": lambda m, _: lambda: m.set_weights([w * 0.5 for w in m.get_weights()]),
    "apply": lambda m, _: lambda: m.optimizer.apply([tf.ones_like(v) for v in m.trainable_weights]),
    "checkpoint": _restore,
    "traced": _assigning_function,
    "train_on_batch": lambda m, _: lambda: m.train_on_batch(X[:8], Y[:8]),
    "fit": lambda m, _: lambda: m.fit(X, Y, verbose=0, shuffle=False),
    "plimsoll.fit": lambda m, _: lambda: plimsoll.fit(m, X, Y, verbose=0, shuffle=False),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_others_change_counts(name: str, tmp_path: Path) -> None:
    models = []
    for face in (keras.Model, plimsoll):
        model = small()
        model.optimizer.build(model.trainable_variables)
        train(model, face)
        change = CHANGES[name](model, tmp_path)
        train(model, face, 3)
        change()
        train(model, face, 2)
        models.append(model)
    assert_like(*models)


def test_models_that_share_layers_by_turns() -> None:
    kept = []
    noise, ones, zeros = normal(8, 3, seed=8), np.ones((8, 1)), np.zeros((8, 1))
    for face in (keras.Model, plimsoll):
        keras.utils.set_random_seed(2)
        body = L.Dense(6, "tanh")
        models = []
        for units, loss in ((1, "mse"), (2, "mae")):
            inputs = keras.Input((3,))
            model = keras.Model(inputs, L.Dense(units)(body(inputs)))
            model.compile(keras.optimizers.Adam(0.01), loss)
            models.append(model)
        for step in range(5):
            face.train_on_batch(models[0], noise, ones * step)
            face.train_on_batch(models[1], noise, np.concatenate([zeros, ones], axis=1))
            if step % 2:
                face.train_on_batch(models[1], -noise, np.concatenate([ones, ones], axis=1))
        kept.append(models)
    for one, other in zip(*kept, strict=True):
        assert_like(one, other)


def test_a_variable_outlives_its_model() -> None:
    variables = []
    for face in (keras.Model, plimsoll):
        model = small()
        train(model, face, 3)
        variables.append(kernel(model))
        del model
        gc.collect()
    assert not is_lent()
    np.testing.assert_allclose(numbers(variables[1]), numbers(variables[0]), rtol=1e-4)


def test_release_hands_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    raw = kernel(model).value
    train(model)
    before = raw.numpy()
    train(model, steps=2)
    plimsoll.release()
    assert not is_lent() and (raw.numpy() != before).all()
    train(model)
    plimsoll.train_on_batch(model, X, Y, np.ones(40, "float32"))  # another plan
    train(model, keras.Model)
    assert int(model.optimizer.iterations.numpy()) == 6


def test_an_error_loses_no_step() -> None:
    models = []
    for face in (keras.Model, plimsoll):
        model = small()
        train(model, face, 3)
        for bad in ((X[:, :3], Y), (X, Y[:5]), (X, None)):
            with pytest.raises(ValueError):
                plimsoll.train_on_batch(model, *bad)
        train(model, face, 2)
        models.append(model)
    assert_like(*models)


def test_labels_that_are_no_classes_lose_no_step() -> None:
    models = []
    for bad in (False, True):
        keras.utils.set_random_seed(4)
        model = keras.Sequential([keras.Input((4,)), L.Dense(3)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        labels = np.arange(40) % 3
        for _ in range(3):
            plimsoll.train_on_batch(model, X, labels)
        if bad:
            with pytest.raises(ValueError, match="7"):
                plimsoll.train_on_batch(model, X, np.full(40, 7))
        models.append([numbers(v) for v in [*model.variables, *model.optimizer.variables]])
    for one, other in zip(*models, strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_thread_looks_while_steps_run() -> None:
    model = small("sgd")
    model.optimizer.learning_rate.assign(0.0)
    raw, counts, over = model.optimizer.iterations.value, [], threading.Event()

    def look() -> None:
        while not over.is_set():
            counts.append(int(raw.numpy()))

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(300):
        train(model)
    over.set()
    thread.join()
    assert counts == sorted(counts) and int(raw.numpy()) == 300


def test_a_call_from_inside_of_an_operation() -> None:
    model = small()
    train(model)
    raw = model.optimizer.iterations.value

    @tf.function
    def around() -> Any:
        before = raw.read_value()
        with tf.control_dependencies([before]):
            trained = tf.py_function(lambda: train(model, steps=2), [], [])
        with tf.control_dependencies([trained] if trained is not None else []):
            return before, raw.read_value()

    before, after = around()
    assert int(after) == int(before) + 2


def test_a_function_in_the_place_of_the_gate_is_noticed() -> None:
    from tensorflow.python import pywrap_tfe

    own = pywrap_tfe.TFE_Py_FastPathExecute
    model = small()
    train(model, steps=2)
    pywrap_tfe.TFE_Py_FastPathExecute = own  # as a profiler that ends
    train(model)
    assert is_lent()
    assert int(model.optimizer.iterations.numpy()) == 3
    sync.gate().hand_all_back()
    assert pywrap_tfe.TFE_Py_FastPathExecute is own


PROGRAM = """
import atexit, os, signal, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, {package!r})
import numpy as np, keras
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.compile("sgd", "mse")
x, y = np.ones((8, 4), "float32"), np.ones((8, 2), "float32")
raw = model.optimizer.iterations.value
import tensorflow as tf, plimsoll
from plimsoll.model import sync
"""


def run(package: Path, body: str, **arguments: Any) -> subprocess.Popen[str]:
    program = PROGRAM.format(package=str(package)) + body
    return subprocess.Popen([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **arguments)  # fmt: skip


def test_a_child_sees_it_and_so_do_handlers_at_the_end(package: Path) -> None:
    process = run(package, """
atexit.register(lambda: print("at exit", int(raw.numpy()), flush=True))
for _ in range(3): plimsoll.train_on_batch(model, x, y)
child = os.fork()
if child == 0:
    print("child", int(raw.numpy()), flush=True)
    os._exit(0)
os.waitpid(child, 0)
plimsoll.train_on_batch(model, x, y)
assert sync.gate().is_shut()
""")  # fmt: skip
    out, errors = process.communicate(timeout=120)
    assert out.split("\n")[:2] == ["child 3", "at exit 4"], errors


def test_ctrl_c_and_signals_leave_whole_steps(package: Path) -> None:
    process = run(package, """
def save(*_): print("saved", int(raw.numpy()), flush=True)
signal.signal(signal.SIGUSR1, save)
done = 0
try:
    while True:
        plimsoll.train_on_batch(model, x, y)
        done += 1
        if done == 200: print("begun", flush=True)
except KeyboardInterrupt:
    count = int(raw.numpy())
    assert count in (done, done + 1), (count, done)
    before = model.get_weights()
    reference = keras.models.clone_model(model)
    reference.set_weights(before)
    plimsoll.train_on_batch(model, x, y)
    assert int(raw.numpy()) == count + 1
    print("whole", flush=True)
""")  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    for _ in range(5):
        process.send_signal(signal.SIGUSR1)
        assert int(process.stdout.readline().split()[1]) >= 200
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert out == "whole\n", errors


def test_a_step_asks_nothing_of_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    train(model, steps=2)
    asked: list[Any] = []
    monkeypatch.setattr(sync._Gate, "look", lambda self, arguments: asked.append(arguments))
    train(model, steps=4)
    assert asked == []
