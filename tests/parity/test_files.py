"""Model files against Keras itself: what Keras saves is read, what is written Keras opens."""

import copy
import io
import json
import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import numpy as np
import pytest
from keras import layers as L


def run(tool: Path, *words: Any) -> str:
    done = subprocess.run([tool, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(tool: Path, path: Path) -> str:
    return run(tool, "check", path).strip()


def without_identities(value: Any) -> Any:
    """A configuration without the numbers that Keras gives to shared objects."""
    if isinstance(value, dict):
        return {k: without_identities(v) for k, v in value.items() if k != "shared_object_id"}
    if isinstance(value, (list, tuple)):
        return [without_identities(item) for item in value]
    return value


def configuration(model: keras.Model) -> Any:
    return without_identities(json.loads(json.dumps(model.get_config())))


def every_layer() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            L.Rescaling(1 / 255, offset=-0.5),
            L.ZeroPadding2D((1, 2)),
            L.Conv2D(4, (3, 2), strides=2, padding="same", kernel_regularizer="l2", name="first"),
            L.BatchNormalization(momentum=0.9, epsilon=1e-4),
            L.ReLU(max_value=6),
            L.Conv2D(8, 3, groups=2, dilation_rate=2, padding="same", use_bias=False),
            L.Activation("gelu"),
            L.MaxPooling2D(2, padding="same"),
            L.AveragePooling2D((2, 1), strides=1),
            L.Dropout(0.25, seed=99999999999),
            L.Flatten(),
            L.Reshape((-1, 4)),
            L.Flatten(),
            L.Dense(6, activation="tanh", bias_initializer="ones", trainable=False),
            L.LeakyReLU(negative_slope=0.1),
            L.Dense(3, activation="softmax", kernel_initializer=keras.initializers.HeNormal(5)),
        ]
    )


def branches() -> keras.Model:
    image, aside = keras.Input((8, 8, 2)), keras.Input((4,), name="aside")
    shared = L.Dense(4, activation="relu", name="shared")
    x = L.GlobalAveragePooling2D()(L.Conv2D(4, 3)(image))
    y = L.Concatenate()([L.Add()([shared(x), shared(aside)]), L.GlobalMaxPooling2D()(image)])
    return keras.Model([image, aside], [L.Dense(3, name="late")(y), L.Dense(1, name="early")(x)])


MODELS: dict[str, Callable[[], keras.Model]] = {"every layer": every_layer, "branches": branches}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "sgd nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01, beta_1=0.8),
    "adam amsgrad": lambda: keras.optimizers.Adam(amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(weight_decay=0.01),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    "rmsprop all": lambda: keras.optimizers.RMSprop(0.01, momentum=0.9, centered=True),
    "adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "muon": lambda: keras.optimizers.Muon(0.01),
    "schedule free": lambda: keras.optimizers.ScheduleFreeAdamW(0.01),
}


def data_of(model: keras.Model, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    x = [rng.normal(0, 1, (5, *i.shape[1:])).astype("float32") for i in model.inputs]
    y = [rng.random((5, *o.shape[1:])).astype("float32") for o in model.outputs]
    return x, y


def unpack(values: list[np.ndarray]) -> Any:
    return values[0] if len(values) == 1 else values


def train(model: keras.Model, steps: int) -> None:
    for step in range(steps):
        x, y = data_of(model, step)
        model.train_on_batch(unpack(x), unpack(y))


def assert_same(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right):
        np.testing.assert_array_equal(a, b)


def optimizer_state(model: keras.Model) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(v) for v in model.optimizer.variables]


# Each optimizer with one of the models always.
@pytest.mark.parametrize(
    "name, optimizer",
    [
        pytest.param(name, optimizer, marks=() if (i + j) % 2 == 0 else pytest.mark.nightly)
        for i, name in enumerate(MODELS)
        for j, optimizer in enumerate(OPTIMIZERS)
    ],
)
def test_round_trip_keeps_model_weights_and_optimizer(
    name: str, optimizer: str, tool: Path, tmp_path: Path
) -> None:
    keras.utils.set_random_seed(3)
    model = MODELS[name]()
    outputs = len(model.outputs)
    loss = ["mse", keras.losses.MeanAbsoluteError()][:outputs]
    model.compile(OPTIMIZERS[optimizer](), loss=unpack(loss), metrics=[["mae"], ["mse"]][:outputs])
    train(model, 3)
    model.save(tmp_path / "in.keras")
    run(tool, "convert", tmp_path / "in.keras", tmp_path / "out.keras")
    again = keras.saving.load_model(tmp_path / "out.keras")
    assert configuration(again) == configuration(model)
    assert_same(again.get_weights(), model.get_weights())
    assert_same(optimizer_state(again), optimizer_state(model))
    ours, theirs = again.optimizer.get_config(), model.optimizer.get_config()
    assert {k: v for k, v in ours.items() if k != "name"} == {
        k: v for k, v in theirs.items() if k != "name"
    }
    x, _ = data_of(model, 9)
    assert_same(
        keras.tree.flatten(again.predict(unpack(x), verbose=0)),
        keras.tree.flatten(model.predict(unpack(x), verbose=0)),
    )
    # Training goes on as if nothing had happened (dropout is off: its seeds are not in files).
    for both in (model, again):
        for layer in both.layers:
            if isinstance(layer, L.Dropout):
                layer.rate = 0.0
        both.compile(both.optimizer, loss=unpack(loss))
        train(both, 2)
    assert_same(again.get_weights(), model.get_weights())


def test_tensors_are_named_as_keras_names_weights(tool: Path, tmp_path: Path) -> None:
    model = every_layer()
    model.save(tmp_path / "m.keras")
    expected = {}
    for layer in model.layers:
        for variable in layer.weights:
            value = keras.ops.convert_to_numpy(variable)
            if value.dtype == np.float32:
                expected[f"{layer.name}/{variable.name}"] = f"{zlib.crc32(value.tobytes()):08x}"
    lines = [line.split(" ") for line in run(tool, "tensors", tmp_path / "m.keras").splitlines()]
    assert {words[0]: words[-1] for words in lines} == expected


@pytest.mark.parametrize("name", MODELS)
def test_json_round_trip(name: str, tool: Path, tmp_path: Path) -> None:
    model = MODELS[name]()
    for text in (model.to_json(), json.dumps(model.get_config()), json.dumps(model.to_json())):
        (tmp_path / "in.json").write_text(text)
        if text.startswith('"'):
            assert "JSON text inside a JSON string" in check(tool, tmp_path / "in.json")
            continue
        run(tool, "convert", tmp_path / "in.json", tmp_path / "out.json")
        again = keras.models.model_from_json((tmp_path / "out.json").read_text())
        assert configuration(again) == configuration(model)


def random_graph(seed: int) -> keras.Model:
    """Dense layers, some shared, joined at random; some values are used by nobody."""
    rng = np.random.default_rng(seed)
    inputs = [keras.Input((4,)) for _ in range(rng.integers(1, 4))]
    values, kinds = list(inputs), [L.Dense(4) for _ in range(4)]
    for _ in range(rng.integers(3, 15)):
        picked = [values[i] for i in rng.integers(0, len(values), rng.integers(1, 4))]
        kind = rng.integers(0, 3)
        if kind == 0 and len(picked) > 1:
            values.append(L.Add()(picked))
        elif kind == 1:
            values.append(kinds[rng.integers(0, 4)](picked[0]))
        else:
            values.append(L.Dense(4)(picked[0]))
    outputs = [values[i] for i in rng.integers(len(inputs), len(values), rng.integers(1, 4))]
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize("seed", range(40))
def test_layers_stand_in_the_order_that_keras_gives_them(
    seed: int, tool: Path, tmp_path: Path
) -> None:
    model = random_graph(seed)
    document = json.loads(model.to_json())
    shuffled = copy.deepcopy(document)
    np.random.default_rng(seed).shuffle(shuffled["config"]["layers"])
    (tmp_path / "in.json").write_text(json.dumps(shuffled))
    run(tool, "convert", tmp_path / "in.json", tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    expected = json.loads(keras.models.model_from_json(json.dumps(shuffled)).to_json())
    names = [[layer["name"] for layer in d["config"]["layers"]] for d in (written, expected)]
    assert names[0] == names[1]
    for ours, theirs in zip(written["config"]["layers"], expected["config"]["layers"]):
        assert ours["inbound_nodes"] == theirs["inbound_nodes"]
    for key in ("input_layers", "output_layers"):
        ports = [np.ravel(np.array(d["config"][key], dtype=object)) for d in (written, expected)]
        assert list(ports[0]) == list(ports[1])


def test_named_losses_of_several_outputs(tool: Path, tmp_path: Path) -> None:
    model = branches()
    model.compile(
        "adam",
        loss={"early": "mse", "late": keras.losses.CategoricalCrossentropy(from_logits=True)},
        metrics={"early": ["mae"]},
    )
    model.save(tmp_path / "in.keras")
    run(tool, "convert", tmp_path / "in.keras", tmp_path / "out.keras")
    again = keras.saving.load_model(tmp_path / "out.keras")
    x, y = data_of(model, 1)
    y[0] = np.eye(3, dtype="float32")[[0, 1, 2, 0, 1]]
    ours, theirs = again.test_on_batch(x, y), model.test_on_batch(x, y)
    np.testing.assert_array_equal(ours[0], theirs[0])


# Refusals ---------------------------------------------------------------------------------------


def custom_layer() -> keras.Model:
    class Doubled(L.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs * 2

    return keras.Sequential([keras.Input((2,)), Doubled(name="twice")])


def operator_node() -> keras.Model:
    x = keras.Input((2, 2))
    return keras.Model(x, keras.ops.lu_factor(x))


def half() -> keras.Model:
    return keras.Sequential([keras.Input((2,)), L.Dense(2, dtype="float16", name="half")])


REFUSED = {
    "custom layer": (custom_layer, "[twice] expected a layer of Keras"),
    "operator": (operator_node, "received LuFactor"),
    "float16 weights": (half, "keras.config.set_dtype_policy('float32')"),
    "lambda": (lambda: keras.Sequential([keras.Input((2,)), L.Lambda(lambda v: v)]), "Lambda"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_layer_and_reason(name: str, tool: Path, tmp_path: Path) -> None:
    build, reason = REFUSED[name]
    build().save(tmp_path / "m.keras")
    answer = check(tool, tmp_path / "m.keras")
    assert answer.startswith("model: ") or answer.startswith("model"), answer
    assert reason in answer


def test_other_formats_say_how_to_convert(tool: Path, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), L.Dense(2)])
    model.save_weights(tmp_path / "m.weights.h5")
    model.export(tmp_path / "saved", verbose=False)
    assert "model.json --weights" in check(tool, tmp_path / "m.weights.h5")
    assert "SavedModel" in check(tool, tmp_path / "saved")


# Hostile files -----------------------------------------------------------------------------------


def archive(config: str, weights: bytes, *more: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("metadata.json", '{"keras_version": "3.15.0"}')
        zipped.writestr("config.json", config)
        zipped.writestr("model.weights.h5", weights)
        for name, content in more:
            zipped.writestr(name, content)
    return buffer.getvalue()


def weights_file(fill: Callable[[h5py.File], None]) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill(file)
    return buffer.getvalue()


def dense_config(shape: int, units: int) -> str:
    return json.dumps(
        {
            "class_name": "Sequential",
            "config": {
                "name": "s",
                "layers": [
                    {
                        "class_name": "InputLayer",
                        "config": {"name": "i", "batch_shape": [None, shape]},
                    },
                    {"class_name": "Dense", "config": {"name": "d", "units": units}},
                ],
            },
        }
    )


def chain_config(count: int, cyclic: bool) -> str:
    layers = [{"class_name": "InputLayer", "name": "i", "inbound_nodes": [],
               "config": {"name": "i", "batch_shape": [None, 4]}}]  # fmt: skip
    for index in range(count):
        before = f"r{index - 1}" if index else (f"r{count - 1}" if cyclic else "i")
        name = f"r{index}"
        layers.append({"class_name": "Flatten", "name": name, "config": {"name": name},
                       "inbound_nodes": [[[before, 0, 0]]]})  # fmt: skip
    ports = {"input_layers": ["i", 0, 0], "output_layers": [f"r{count - 1}", 0, 0]}
    return json.dumps({"class_name": "Functional", "config": {"layers": layers, **ports}})


def huge_sparse_dataset(file: h5py.File) -> None:
    file.create_dataset("layers/dense/vars/0", (1 << 20, 1 << 19), "f4", chunks=(1024, 1024))
    file.create_dataset("layers/dense/vars/1", (4,), "f4")


def looping_groups(file: h5py.File) -> None:
    group = file.create_group("layers")
    group["layers"] = group


def many_datasets(file: h5py.File) -> None:
    for index in range(3000):
        file.create_dataset(f"layers/dense_{index}/vars/0", (1,), "f4")


NONE = weights_file(lambda file: None)
HOSTILE: dict[str, Callable[[], bytes]] = {
    "deep": lambda: archive("[" * 3_000_000, NONE),
    "many values": lambda: archive("[" + "0," * 1_500_000 + "0]", NONE),
    "zip bomb": lambda: archive(" " * 200_000_000, NONE),
    "weights bomb": lambda: archive(dense_config(4, 4), b"\x89HDF\r\n\x1a\n" + bytes(200_000_000)),
    "keys": lambda: archive("{" + ",".join(f'"k{i}":0' for i in range(200_000)) + "}", NONE),
    "null keys in a layer": lambda: archive(
        dense_config(4, 4).replace(
            '"units"', ",".join(f'"k{i}": null' for i in range(4000)) + ', "units"'
        ),
        NONE,
    ),
    "huge input": lambda: archive(dense_config(1 << 40, 4), NONE),
    "huge weight": lambda: archive(dense_config(1 << 30, 1 << 30), NONE),
    "huge dataset": lambda: archive(dense_config(4, 4), weights_file(huge_sparse_dataset)),
    "cycle": lambda: archive(chain_config(9000, True), NONE),
    "too many layers": lambda: archive(chain_config(11_000, False), NONE),
    "group in itself": lambda: archive(dense_config(4, 4), weights_file(looping_groups)),
    "foreign weights": lambda: archive(dense_config(4, 4), weights_file(many_datasets)),
    "pickle": lambda: archive(dense_config(4, 4), NONE, ("x.pkl", b"cos\nsystem\n(S'true'\ntR.")),
    "path": lambda: archive(dense_config(4, 4), NONE, ("../../evil", b"")),
    "same member twice": lambda: archive(dense_config(4, 4), NONE, ("config.json", b"{}")),
    "no json": lambda: archive("{'class_name': 1}", NONE),
    "wrong kinds": lambda: archive('{"class_name": [], "config": {"layers": {}}}', NONE),
}

# Starts a command, says what it took: seconds, peak resident KiB, its output.
MEASURE = """
import resource, subprocess, sys, time
began = time.monotonic()
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
seconds = time.monotonic() - began
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.returncode)
print(done.stdout + done.stderr)
"""


def measure(*words: Any) -> tuple[float, float, str]:
    """Seconds, peak MiB and output of a program that must end well."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, words)], capture_output=True, text=True
    )
    figures, output = done.stdout.split("\n", 1)
    seconds, kib, code = figures.split()
    assert code == "0", output
    return float(seconds), float(kib) / 1024, output


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused_at_once(name: str, tool: Path, tmp_path: Path) -> None:
    path = tmp_path / "evil.keras"
    path.write_bytes(HOSTILE[name]())
    seconds, mib, answer = measure(tool, "check", path)
    assert answer.startswith("model"), answer
    assert seconds < 1
    assert mib < 64


def test_weights_stream_without_a_second_copy(tool: Path, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4096,)), L.Dense(4096, name="wide")])
    model.save(tmp_path / "in.keras")
    _, mib, _ = measure(tool, "convert", tmp_path / "in.keras", tmp_path / "out.keras")
    assert mib < 24  # the weights are 64 MiB
    again = keras.saving.load_model(tmp_path / "out.keras")
    assert_same(again.get_weights(), model.get_weights())
