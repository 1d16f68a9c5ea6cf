"""Names and records of tf.keras 2: functions among layers, wrapped metrics, optimizers, groups."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import read_log, run_plimsoll
from keras import layers as L
from test_file_forms import old_names

RNG = np.random.default_rng(11)


def function(name: str, of: Any, **arguments: Any) -> dict[str, Any]:
    """A layer of tf.keras that stands for tf.<name>, called on the layer `of`."""
    slices = name == "__operators__.getitem"
    tensors = of if isinstance(of, list) else [of]
    own = f"tf.{name}"
    return {
        "class_name": "SlicingOpLambda" if slices else "TFOpLambda",
        "config": {"name": own, "trainable": True, "dtype": "float32", "function": name},
        "name": own,
        "inbound_nodes": [[[t, 0, 0, {**arguments, "name": None}] for t in tensors]]
        if isinstance(of, list)
        else [[of, 0, 0, {**arguments, "name": None}]],
    }


def tensor(name: str) -> list[Any]:
    return [name, 0, 0]


FIRST = [{"start": None, "stop": None, "step": None}, {"start": 0, "stop": 2, "step": None}]
# name: the layer on "a" and "b" of shape (3, 4), and what it computes
FUNCTIONS: dict[str, tuple[dict[str, Any], Callable[[Any, Any], Any]]] = {
    "a + b": (function("__operators__.add", "a", y=tensor("b")), lambda a, b: a + b),
    "a + 2": (function("math.add", "a", y=2.0), lambda a, b: a + 2),
    "a + row": (
        function("__operators__.add", "a", y=[[0.5, 1.0, 1.5, 2.0]]),
        lambda a, b: a + np.array([0.5, 1.0, 1.5, 2.0]),
    ),
    "1 - a": (
        {
            **function("math.subtract", "a"),
            "inbound_nodes": [["_CONSTANT_VALUE", -1, 1.0, {"y": tensor("a"), "name": None}]],
        },
        lambda a, b: 1 - a,
    ),
    "a * b": (function("math.multiply", "a", y=tensor("b")), lambda a, b: a * b),
    "a / 4": (function("math.truediv", "a", y=4.0), lambda a, b: a / 4),
    "maximum": (function("math.maximum", "a", y=tensor("b")), lambda a, b: np.maximum(a, b)),
    "tf.add": (function("add", "a", y=tensor("b")), lambda a, b: a + b),
    "-a": (function("math.negative", "a"), lambda a, b: -a),
    "square": (function("math.square", "a"), lambda a, b: a * a),
    "relu": (function("nn.relu", "a"), lambda a, b: np.maximum(a, 0)),
    "relu6": (function("nn.relu6", "a"), lambda a, b: np.clip(a, 0, 6)),
    "leaky": (
        function("nn.leaky_relu", "a", alpha=0.1), lambda a, b: np.where(a > 0, a, 0.1 * a)
    ),
    "swish": (function("nn.silu", "a", beta=1.0), lambda a, b: a / (1 + np.exp(-a))),
    "tanh": (function("math.tanh", "a"), lambda a, b: np.tanh(a)),
    "softmax": (
        function("nn.softmax", "a"), lambda a, b: np.exp(a) / np.exp(a).sum(-1, keepdims=True)
    ),
    "reshape": (function("reshape", "a", shape=[-1, 12]), lambda a, b: a.reshape(-1, 12)),
    "transpose": (
        function("transpose", "a", perm=[0, 2, 1]), lambda a, b: a.transpose(0, 2, 1)
    ),
    "expand": (function("expand_dims", "a", axis=-1), lambda a, b: a[..., None]),
    "concat": (
        function("concat", ["a", "b"], axis=-1), lambda a, b: np.concatenate([a, b], -1)
    ),
    "stack": (function("stack", ["a", "b"], axis=1), lambda a, b: np.stack([a, b], 1)),
    "mean": (function("math.reduce_mean", "a", axis=[1]), lambda a, b: a.mean(1)),
    "sum": (
        function("reduce_sum", "a", axis=2, keepdims=True), lambda a, b: a.sum(2, keepdims=True)
    ),
    "slice": (
        function("__operators__.getitem", "a", slice_spec=FIRST), lambda a, b: a[:, 0:2]
    ),
    "identity": (function("identity", "a"), lambda a, b: a),
    "gelu by tanh": (
        function("nn.gelu", "a", approximate=True),
        lambda a, b: tf.nn.gelu(a, approximate=True).numpy(),
    ),
    # With TensorFlow's defaults, which are not all those of Keras.
    **{
        f"{name}, no arguments": (
            function(f"nn.{name}", "a"), lambda a, b, name=name: getattr(tf.nn, name)(a).numpy()
        )
        for name in "elu gelu leaky_relu log_softmax selu sigmoid silu softplus softsign".split()
    },
    "log_sigmoid, no arguments": (
        function("math.log_sigmoid", "a"), lambda a, b: tf.math.log_sigmoid(a).numpy()
    ),
}  # fmt: skip


def graph(layer: dict[str, Any]) -> dict[str, Any]:
    inputs = [
        {
            "class_name": "InputLayer",
            "config": {"batch_input_shape": [None, 3, 4], "dtype": "float32", "sparse": False,
                       "ragged": False, "name": name},
            "name": name,
            "inbound_nodes": [],
        }
        for name in ("a", "b")
    ]  # fmt: skip
    config = {"name": "m", "trainable": True, "layers": [*inputs, layer],
              "input_layers": [["a", 0, 0], ["b", 0, 0]],
              "output_layers": [[layer["name"], 0, 0]]}  # fmt: skip
    return {"class_name": "Functional", "config": config, "keras_version": "2.11.0",
            "backend": "tensorflow"}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_tensorflow_that_are_operators(name: str, tmp_path: Path) -> None:
    layer, compute = FUNCTIONS[name]
    (tmp_path / "m.json").write_text(json.dumps(graph(layer)))
    a, b = (RNG.normal(0, 1, (5, 3, 4)).astype("float32") for _ in "ab")
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    run_plimsoll("predict", tmp_path / "m.json", "--data", tmp_path / "a.npy", "--data",
                 tmp_path / "b.npy", "--output", tmp_path / "p.npy")  # fmt: skip
    expected = compute(a.astype("float64"), b.astype("float64"))
    got = np.load(tmp_path / "p.npy")
    assert got.shape == expected.shape
    assert np.allclose(got, expected, rtol=1e-5, atol=1e-6)
    # As Keras 3 has it.
    run_plimsoll("convert", tmp_path / "m.json", tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras").predict([a, b], verbose=0)
    assert np.allclose(again, expected, rtol=1e-5, atol=1e-6)


def test_other_functions_are_refused_by_name(tmp_path: Path) -> None:
    for layer, message in (
        (function("math.cumsum", "a"), "received tf.math.cumsum"),
        (function("nn.relu", "a", features=3), "received features=3"),
        (function("reshape", "a", shape=[-1, tensor("b")]), "a constant shape"),
    ):
        (tmp_path / "m.json").write_text(json.dumps(graph(layer)))
        done = run_plimsoll("check", tmp_path / "m.json", check=False)
        assert done.returncode == 4 and message in done.stdout, done.stdout


def classifier() -> keras.Model:
    return keras.Sequential(
        [keras.Input((4,)), L.Dense(5, activation="relu"), L.Dense(1, activation="sigmoid")]
    )


def test_wrapped_metrics_of_whole_files(tmp_path: Path) -> None:
    """tf.keras kept the metrics of a fitted model as MeanMetricWrapper around a function's name."""
    model = classifier()
    model.compile("adam", "bce", metrics=["accuracy"])
    model.save(tmp_path / "m.h5")
    wrapped = lambda name, fn: {"class_name": "MeanMetricWrapper",  # noqa: E731
                                "config": {"name": name, "dtype": "float32", "fn": fn}}  # fmt: skip
    with h5py.File(tmp_path / "m.h5", "r+") as file:
        training = json.loads(file.attrs["training_config"])
        training["metrics"] = [[wrapped("accuracy", "binary_accuracy"),
                                wrapped("mine", "my_function")]]  # fmt: skip
        training["loss"] = {"class_name": "LossFunctionWrapper",
                            "config": {"fn": "binary_crossentropy", "name": "x",
                                       "reduction": "auto"}}  # fmt: skip
        file.attrs["training_config"] = json.dumps(training)
    assert "can be trained" in run_plimsoll("check", tmp_path / "m.h5").stdout
    x, y = RNG.normal(0, 1, (8, 4)).astype("float32"), RNG.integers(0, 2, 8).astype("float32")
    np.savez(tmp_path / "d.npz", x=x, y=y)
    done = run_plimsoll("evaluate", tmp_path / "m.h5", "--data", tmp_path / "d.npz")
    got = dict(line.split() for line in done.stdout.splitlines())
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert float(got["loss"]) == pytest.approx(loss, rel=1e-5)
    assert float(got["accuracy"]) == pytest.approx(accuracy, rel=1e-5)
    assert "metric mine (my_function) is left out" in done.stderr


OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "Adam": lambda: keras.optimizers.Adam(0.05),
    "amsgrad": lambda: keras.optimizers.Adam(0.05, amsgrad=True),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.05, momentum=0.5),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "SGD": lambda: keras.optimizers.SGD(0.05),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_without_a_learning_rate_among_their_variables(
    name: str, tmp_path: Path
) -> None:
    """Keras 2.11 to 2.15 listed none, and SGD's momentum where it is not used."""
    keras.utils.set_random_seed(3)
    model = classifier()
    model.compile(OPTIMIZERS[name](), "bce", run_eagerly=True)
    x, y = RNG.normal(0, 1, (8, 4)).astype("float32"), RNG.integers(0, 2, (8, 1)).astype("float32")
    model.fit(x, y, epochs=3, verbose=0)
    model.save(tmp_path / "m.keras")
    np.savez(tmp_path / "d.npz", x=x, y=y)

    def steps() -> tuple[list[float], str]:
        done = run_plimsoll("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs",
                            3, "--no-shuffle", "--log", tmp_path / "l.jsonl")  # fmt: skip
        return [row["loss"] for row in read_log(tmp_path / "l.jsonl")], done.stderr

    expected, _ = steps()
    shift = lambda i: "learning_rate" if i == 1 else f"vars/{i - (i > 1)}"  # noqa: E731
    rename = lambda path: (  # noqa: E731
        f"optimizer/{shift(int(path.rsplit('/', 1)[1]))}" if path.startswith("optimizer/") else path
    )
    old_names(tmp_path / "m.keras", rename)
    if name == "SGD":
        add_unused_momentum(tmp_path / "m.keras", model)
    losses, said = steps()
    assert "left out" not in said
    assert losses == expected


def add_unused_momentum(path: Path, model: keras.Model) -> None:
    slots = {f"optimizer/vars/{i + 1}": np.zeros(w.shape, "float32")
             for i, w in enumerate(model.get_weights())}  # fmt: skip
    old_names(path, lambda name: name, slots)


def test_momentum_that_sgd_does_not_use_in_whole_files(tmp_path: Path) -> None:
    """tf.keras from 2.11 kept it under the names of its weights."""
    model = classifier()
    model.compile(keras.optimizers.SGD(0.05), "bce")
    model.fit(np.zeros((8, 4)), np.zeros((8, 1)), verbose=0)
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "r+") as file:
        del file["optimizer_weights"]
        group = file.create_group("optimizer_weights")
        names = ["iteration:0", *(f"SGD/m/{w.path}:0" for w in model.weights)]
        group.attrs["weight_names"] = [name.encode() for name in names]
        group.create_dataset(names[0], data=np.int64(1))
        for name, value in zip(names[1:], model.get_weights()):
            group.create_dataset(name, data=np.zeros_like(value))
    assert run_plimsoll("check", tmp_path / "m.h5").stderr == ""


def test_groups_of_keras_2_13_that_count_layers_with_weights_twice(tmp_path: Path) -> None:
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), L.Conv2D(2, 3), L.MaxPooling2D(2), L.Conv2D(3, 2), L.Flatten(),
         L.Dense(4), L.Dense(2)]
    )  # fmt: skip
    model.compile("adam", "mse")
    model.save(tmp_path / "m.keras")
    x = RNG.normal(0, 1, (3, 8, 8, 1)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    for slash in "/\\":
        model.save(tmp_path / "m.keras")
        old_names(
            tmp_path / "m.keras",
            lambda name, slash=slash: (
                name.replace("conv2d_1", "conv2d_2")
                .replace("dense_1", "dense_2")
                .replace("layers/", f"_layer_checkpoint_dependencies{slash}", 1)
            ),
        )
        run_plimsoll("predict", tmp_path / "m.keras", "--data", tmp_path / "x.npy", "--output",
                     tmp_path / "p.npy")  # fmt: skip
        assert np.allclose(np.load(tmp_path / "p.npy"), model.predict(x, verbose=0), atol=1e-5)


def test_layers_of_tf_keras_1_under_their_names_of_today(tmp_path: Path) -> None:
    entries = [
        {"class_name": "CuDNNLSTM", "config": {"name": "l", "units": 4, "return_sequences": True,
                                               "batch_input_shape": [None, 5, 3]}},
        {"class_name": "CuDNNGRU", "config": {"name": "g", "units": 4, "return_sequences": True}},
        {"class_name": "BatchNormalizationV1", "config": {"name": "b"}},
    ]  # fmt: skip
    config = {"class_name": "Sequential", "config": {"name": "s", "layers": entries},
              "keras_version": "2.2.4", "backend": "tensorflow"}  # fmt: skip
    (tmp_path / "m.json").write_text(json.dumps(config))
    shown = run_plimsoll("show", tmp_path / "m.json").stdout
    assert "LSTM" in shown and "GRU" in shown and "BatchNormalization" in shown
    model = keras.Sequential(
        [keras.Input((5, 3)), L.LSTM(4, return_sequences=True), L.GRU(4, return_sequences=True),
         L.BatchNormalization()]
    )  # fmt: skip
    model.save_weights(tmp_path / "w.weights.h5")
    x = RNG.normal(0, 1, (2, 5, 3)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    run_plimsoll("predict", tmp_path / "m.json", "--weights", tmp_path / "w.weights.h5", "--data",
                 tmp_path / "x.npy", "--output", tmp_path / "p.npy")  # fmt: skip
    assert np.allclose(np.load(tmp_path / "p.npy"), model.predict(x, verbose=0), atol=1e-5)


def test_weights_of_cudnn_are_refused_with_a_way_out(tmp_path: Path) -> None:
    config = {"class_name": "Sequential", "config": [
        {"class_name": "CuDNNLSTM", "config": {"name": "l", "units": 2,
                                               "batch_input_shape": [None, 5, 3]}}]}  # fmt: skip
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"], file.attrs["backend"] = "2.2.4", "tensorflow"
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [b"l"]
        names = ["kernel:0", "recurrent_kernel:0", "bias:0"]
        layer = group.create_group("l")
        layer.attrs["weight_names"] = [name.encode() for name in names]
        for name, shape in zip(names, [(3, 8), (2, 8), (16,)]):
            layer.create_dataset(name, data=np.zeros(shape, "float32"))
    done = run_plimsoll("check", tmp_path / "m.h5", check=False)
    assert done.returncode == 4 and "received those of CuDNNLSTM" in done.stdout
