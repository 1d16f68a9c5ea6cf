"""Every form of file, models inside models, and training that goes on from either side."""

import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import numpy as np
import pytest
from harness import run_plimsoll
from keras import layers as L
from test_files import (
    archive,
    assert_same,
    branches,
    configuration,
    data_of,
    dense_config,
    every_layer,
    measure,
    optimizer_state,
    run,
    train,
    unpack,
    weights_file,
)


def block(name: str, units: int = 4) -> keras.Model:
    x = keras.Input((4,))
    y = L.BatchNormalization()(L.Dense(units, activation="relu", name="inside")(x))
    return keras.Model(x, y, name=name)


def functional_in_sequential() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), block("body"), L.Dense(2, name="head")])


def sequential_in_functional() -> keras.Model:
    """One Sequential on two inputs: its weights are shared."""
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    tower = keras.Sequential([keras.Input((4,)), L.Dense(3), L.Dense(3)], name="tower")
    return keras.Model([left, right], L.Dense(1)(L.Concatenate()([tower(left), tower(right)])))


def models_in_models() -> keras.Model:
    """Two levels deep, an inner model of two outputs, and a frozen one."""
    x = keras.Input((4,))
    h = L.Dense(4, name="shared_name")(x)
    inner = keras.Model(x, [L.Dense(4, name="a")(h), L.Dense(2, name="b")(h)], name="pair")
    frozen = block("frozen")
    frozen.trainable = False
    i = keras.Input((4,))
    first, second = inner(frozen(i))
    deep = keras.Sequential([keras.Input((4,)), block("deep"), L.Dense(2)], name="outer")
    return keras.Model(i, L.Add()([deep(first), second]))


def lazy_sequential() -> keras.Model:
    """Inner models without an input of their own."""
    return keras.Sequential(
        [keras.Input((4,)), keras.Sequential([L.Dense(3), L.Dense(2)], name="inner"), L.Dense(1)]
    )


MODELS: dict[str, Callable[[], keras.Model]] = {
    "every layer": every_layer,
    "branches": branches,
    "functional in sequential": functional_in_sequential,
    "sequential in functional": sequential_in_functional,
    "models in models": models_in_models,
    "lazy sequential": lazy_sequential,
}


def trained(name: str) -> keras.Model:
    keras.utils.set_random_seed(3)
    model = MODELS[name]()
    model.compile(keras.optimizers.Adam(0.01, amsgrad=True), loss=["mse"] * len(model.outputs))
    train(model, 3)
    return model


def predictions(model: keras.Model) -> list[np.ndarray]:
    x, _ = data_of(model, 9)
    return keras.tree.flatten(model.predict(unpack(x), verbose=0))


@pytest.mark.parametrize("out", [".keras", ".h5"])
@pytest.mark.parametrize("start", [".keras", ".h5"])
@pytest.mark.parametrize("name", MODELS)
def test_whole_models_keep_everything(
    name: str,
    start: str,
    out: str,
    tool: Path,
    tmp_path: Path,
) -> None:
    model = trained(name)
    model.save(tmp_path / f"in{start}")
    run(tool, "convert", tmp_path / f"in{start}", tmp_path / f"out{out}")
    again = keras.saving.load_model(tmp_path / f"out{out}")
    assert configuration(again) == configuration(model)
    assert_same(again.get_weights(), model.get_weights())
    assert_same(predictions(again), predictions(model))
    if start == out == ".keras":
        assert_same(optimizer_state(again), optimizer_state(model))


@pytest.mark.parametrize("name", MODELS)
def test_optimizer_state_of_hdf5_files(name: str, tool: Path, tmp_path: Path) -> None:
    """Keras writes it and we read it; we write it as Keras does, name for name aside."""
    model = trained(name)
    model.save(tmp_path / "in.h5")
    run(tool, "convert", tmp_path / "in.h5", tmp_path / "out.keras")
    again = keras.saving.load_model(tmp_path / "out.keras")
    assert_same(optimizer_state(again), optimizer_state(model))
    run(tool, "convert", tmp_path / "in.h5", tmp_path / "out.h5")
    with h5py.File(tmp_path / "in.h5") as theirs, h5py.File(tmp_path / "out.h5") as ours:
        stored = []
        for file in (theirs, ours):
            group = file["optimizer_weights"]
            stored.append([np.array(group[n]) for n in group.attrs["weight_names"]])
        assert_same(stored[1], stored[0])


@pytest.mark.parametrize("name", MODELS)
def test_weights_alone(name: str, tmp_path: Path) -> None:
    model = trained(name)
    (tmp_path / "m.json").write_text(model.to_json())
    model.save_weights(tmp_path / "k.weights.h5")
    run_plimsoll(
        "convert", tmp_path / "m.json", "--weights", tmp_path / "k.weights.h5",
        tmp_path / "p.weights.h5",
    )  # fmt: skip
    again = MODELS[name]()
    again.load_weights(tmp_path / "p.weights.h5")
    assert_same(again.get_weights(), model.get_weights())
    model.save(tmp_path / "whole.h5")
    run_plimsoll(
        "convert", tmp_path / "m.json", "--weights", tmp_path / "whole.h5", tmp_path / "out.keras"
    )
    assert_same(keras.saving.load_model(tmp_path / "out.keras").get_weights(), model.get_weights())


@pytest.mark.parametrize("name", ["functional in sequential", "lazy sequential"])
def test_training_goes_on_in_keras(name: str, tmp_path: Path) -> None:
    """Keras, ten steps of Plimsoll, Keras: the same arrays in every form, and they are used."""
    model = trained(name)
    start = [w.copy() for w in model.get_weights()]
    model.save(tmp_path / "in.keras")
    x, y = data_of(model, 4)
    np.savez(tmp_path / "d.npz", x=np.tile(x[0], (4, 1)), y=np.tile(y[0], (4, 1)))
    for out in ("out.keras", "out.h5"):
        run_plimsoll(
            "fit", tmp_path / "in.keras", "--data", tmp_path / "d.npz", "--batch", 5, "--steps",
            10, "--epochs", 10, "--no-shuffle", "--output", tmp_path / out,
        )  # fmt: skip
    first = keras.saving.load_model(tmp_path / "out.keras")
    second = keras.saving.load_model(tmp_path / "out.h5")
    assert_same(first.get_weights(), second.get_weights())
    assert any(np.any(a != b) for a, b in zip(first.get_weights(), start))
    state = optimizer_state(first)
    assert int(state[0]) == 13  # three steps of Keras and ten
    with h5py.File(tmp_path / "out.h5") as file:
        group = file["optimizer_weights"]
        assert_same([np.array(group[n]) for n in group.attrs["weight_names"]], state)
    again = keras.models.clone_model(first)
    again.set_weights(first.get_weights())
    again.compile(keras.optimizers.Adam(0.01, amsgrad=True), loss="mse")
    again.optimizer.build(again.trainable_variables)
    for variable, value in zip(again.optimizer.variables, state):
        variable.assign(value)
    for both in (first, again):
        train(both, 2)
    assert_same(first.get_weights(), again.get_weights())


def test_self_test_is_kept_and_checked(tmp_path: Path) -> None:
    model = trained("functional in sequential")
    model.save(tmp_path / "in.keras")
    np.save(tmp_path / "x.npy", data_of(model, 1)[0][0])
    for out in ("out.keras", "out.h5"):
        run_plimsoll(
            "convert", tmp_path / "in.keras", tmp_path / out, "--self-test", tmp_path / "x.npy"
        )
        assert_same(keras.saving.load_model(tmp_path / out).get_weights(), model.get_weights())
        assert "can be trained" in run_plimsoll("check", tmp_path / out).stdout
    with h5py.File(tmp_path / "out.h5", "r+") as file:
        kernel = file["model_weights/head"]
        name = kernel.attrs["weight_names"][0]
        kernel[name][...] = np.array(kernel[name]) + 0.5
    done = run_plimsoll("check", tmp_path / "out.h5", check=False)
    assert done.returncode == 4
    assert "[self-test] expected the predictions that the file holds" in done.stdout
    done = run_plimsoll("predict", tmp_path / "out.h5", "--data", tmp_path / "x.npy", "--output",
                        tmp_path / "y.npy", check=False)  # fmt: skip
    assert done.returncode == 4 and "[self-test]" in done.stderr


def old_names(
    path: Path, rename: Callable[[str], str], more: dict[str, np.ndarray] | None = None
) -> None:
    """Rewrites an archive's weights as other versions of Keras called their groups; adds some."""
    with zipfile.ZipFile(path) as zipped:
        members = {name: zipped.read(name) for name in zipped.namelist()}
    (path.parent / "w.h5").write_bytes(members["model.weights.h5"])
    datasets: dict[str, np.ndarray] = dict(more or {})

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            datasets[rename(name)] = np.array(item)

    with h5py.File(path.parent / "w.h5") as file:
        file.visititems(visit)

    def fill(file: h5py.File) -> None:
        for name, value in datasets.items():
            file.create_dataset(name, data=value)

    members["model.weights.h5"] = weights_file(fill)
    with zipfile.ZipFile(path, "w") as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name.replace("layers/", "layers\\", 1),
        lambda name: name.replace("layers/", "_layer_checkpoint_dependencies/"),
        lambda name: name.replace("layers/", "_layer_checkpoint_dependencies\\", 1),
    ],
)
def test_groups_as_keras_2_called_them(
    rename: Callable[[str], str], tool: Path, tmp_path: Path
) -> None:
    model = trained("branches")
    model.save(tmp_path / "in.keras")
    old_names(tmp_path / "in.keras", rename)
    run(tool, "convert", tmp_path / "in.keras", tmp_path / "out.keras")
    again = keras.saving.load_model(tmp_path / "out.keras")
    assert_same(again.get_weights(), model.get_weights())
    assert_same(optimizer_state(again), optimizer_state(model))


def test_outputs_by_name_keep_their_weights(tmp_path: Path) -> None:
    """Keras lists layers from outputs in the order of their names, whatever order they came in."""
    x = keras.Input((4,))
    model = keras.Model(x, {"b": L.Dense(2, name="first")(x), "a": L.Dense(2, name="second")(x)})
    model.save(tmp_path / "m.keras")
    samples = np.random.default_rng(1).normal(0, 1, (3, 4)).astype("float32")
    np.save(tmp_path / "x.npy", samples)
    run_plimsoll("predict", tmp_path / "m.keras", "--data", tmp_path / "x.npy", "--output",
                 tmp_path / "p.npy")  # fmt: skip
    expected = model.predict(samples, verbose=0)
    for key, name in (("b", "first"), ("a", "second")):
        assert np.allclose(np.load(tmp_path / f"p-{name}.npy"), expected[key], atol=1e-6)


def test_open_sizes_are_asked_for_and_stay_open(tmp_path: Path) -> None:
    model = keras.Sequential(
        [keras.Input((None, None, 3)), L.Conv2D(2, 3), L.GlobalAveragePooling2D()]
    )
    model.save(tmp_path / "in.keras")
    done = run_plimsoll("show", tmp_path / "in.keras", check=False)
    assert done.returncode == 4 and "--input-shape 64,64,3" in done.stderr
    shown = run_plimsoll("show", tmp_path / "in.keras", "--input-shape", "8,10,3").stdout
    assert "(B, 6, 8, 2)" in shown
    run_plimsoll(
        "convert", tmp_path / "in.keras", tmp_path / "out.keras", "--input-shape", "8,10,3"
    )
    assert keras.saving.load_model(tmp_path / "out.keras").input_shape == (None, None, None, 3)


def test_show_counts_what_a_sample_costs(tmp_path: Path) -> None:
    keras.Sequential(
        [keras.Input((8, 8, 2)), L.Conv2D(4, 3, name="c"), L.Flatten(), L.Dense(3, name="d")]
    ).save(tmp_path / "m.keras")
    shown = run_plimsoll("show", tmp_path / "m.keras").stdout
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if "(" in line}
    # 6 × 6 × 4 outputs of 3 × 3 × 2 products each, the bias added.
    assert rows["c"][6:10] == ["float32", "76", "yes", "5.3"]  # thousand operations
    assert rows["d"][4:7] == ["float32", "435", "yes"]


def test_check_names_every_reason(tmp_path: Path) -> None:
    x = keras.Input((4,))
    y = L.Dense(4, dtype="float16", name="half")(x)
    y = L.Lambda(lambda v: v, name="code")(y)
    keras.Model(x, L.Dense(2)(y)).save(tmp_path / "m.keras")
    done = run_plimsoll("check", tmp_path / "m.keras", check=False)
    assert done.returncode == 4
    assert "for 2 reasons" in done.stdout
    assert "[half] expected float32, mixed_bfloat16 or mixed_float16" in done.stdout
    assert "Lambda" in done.stdout


# Hostile HDF5 -------------------------------------------------------------------------------------


def whole_h5(config: str, fill: Callable[[h5py.File], None]) -> bytes:
    def write(file: h5py.File) -> None:
        file.attrs["model_config"] = config
        file.attrs["keras_version"] = "2.9.0"
        fill(file)

    return weights_file(write)


def layer_group(file: h5py.File, names: list[str], shape: tuple[int, ...], **more: Any) -> None:
    group = file.create_group("model_weights")
    group.attrs["layer_names"] = [b"d"]
    group.create_group("d").attrs["weight_names"] = [n.encode() for n in names]
    for name in names:
        group["d"].create_dataset(name, shape, "f4", **more)


def cyclic_group(file: h5py.File) -> None:
    group = file.create_group("model_weights")
    group.attrs["layer_names"] = [b"d"]
    group["d"] = group


HOSTILE_H5: dict[str, Callable[[], bytes]] = {
    "no weights": lambda: whole_h5(dense_config(4, 4), lambda f: None),
    "nothing in it": lambda: whole_h5(dense_config(4, 4), lambda f: layer_group(f, [], (1,))),
    "huge": lambda: whole_h5(
        dense_config(4, 4),
        lambda f: layer_group(f, ["a", "b"], (1 << 20, 1 << 19), chunks=(64, 64)),
    ),
    "group in itself": lambda: whole_h5(dense_config(4, 4), cyclic_group),
    "deep json": lambda: whole_h5("[" * 30_000, lambda f: None),
    "huge input": lambda: whole_h5(dense_config(1 << 40, 4), lambda f: None),
    "cut off": lambda: whole_h5(dense_config(4, 4), lambda f: layer_group(f, ["a", "b"], (4, 4)))[
        :-500
    ],
}


@pytest.mark.parametrize("name", HOSTILE_H5)
def test_hostile_hdf5_is_refused_at_once(name: str, tool: Path, tmp_path: Path) -> None:
    path = tmp_path / "evil.h5"
    path.write_bytes(HOSTILE_H5[name]())
    seconds, mib, answer = measure(tool, "check", path)
    assert answer.startswith("model"), answer
    assert seconds < 1
    assert mib < 64


def test_models_that_unfold_without_end_are_refused(tool: Path, tmp_path: Path) -> None:
    inner: dict[str, Any] = {"class_name": "Dense", "config": {"name": "d", "units": 4}}
    for depth in range(7):
        name = f"m{depth}"
        call = [[["x", 0, 0, {}]], *([[f"{name}s", i, 0, {}]] for i in range(4))]
        inner = {
            "class_name": "Functional", "name": name, "inbound_nodes": [],
            "config": {
                "name": name,
                "layers": [
                    {"class_name": "InputLayer", "name": "x", "inbound_nodes": [],
                     "config": {"name": "x", "batch_shape": [None, 4]}},
                    {"class_name": "Sequential", "name": f"{name}s", "inbound_nodes": call,
                     "config": {"name": f"{name}s", "layers": [inner]}},
                ],
                "input_layers": [["x", 0, 0]],
                "output_layers": [[f"{name}s", 4, 0]],
            },
        }  # fmt: skip
    (tmp_path / "m.keras").write_bytes(archive(json.dumps(inner), b""))
    seconds, mib, answer = measure(tool, "check", tmp_path / "m.keras")
    assert answer.startswith("model"), answer
    assert seconds < 1 and mib < 64


def test_pickles_and_pointers_are_never_opened(tool: Path, tmp_path: Path) -> None:
    (tmp_path / "p.h5").write_bytes(b"\x80\x04\x95cposix\nsystem\n")
    (tmp_path / "l.h5").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    done = subprocess.run(
        [tool, "check", tmp_path / "p.h5", tmp_path / "l.h5"], capture_output=True, text=True
    )
    pickled, pointer = done.stdout.splitlines()
    assert "a Python pickle" in pickled and "model.save(" in pickled
    assert "git lfs pull" in pointer
