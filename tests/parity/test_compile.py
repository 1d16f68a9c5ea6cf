"""What compile() and fit() of Keras take: losses by any name, weights of them and of samples.

Each case is trained for two steps by Keras and by the built binary, from one file.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import read_log, run_plimsoll
from keras import layers as L

RNG = np.random.default_rng(25)
BATCH = 4


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, (2 * BATCH, *shape)).astype("float32")


def labels(count: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, count, (2 * BATCH, *shape)).astype("int32")


def weights(*shape: int) -> np.ndarray:
    drawn = RNG.random((2 * BATCH, *shape)).astype("float32")
    return np.where(drawn < 0.3, 0, drawn).astype("float32")


def classifier(activation: str | None = "softmax", outputs: int = 3) -> keras.Model:
    return keras.Sequential(
        [keras.Input((5,)), L.Dense(6, activation="tanh"), L.Dense(outputs, activation=activation)]
    )


def pixels(activation: str | None = "softmax") -> keras.Model:
    return keras.Sequential(
        [keras.Input((4, 5, 2)), L.Conv2D(3, 3, padding="same", activation=activation)]
    )


def words() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            L.Embedding(9, 4, mask_zero=True),
            L.LSTM(5, return_sequences=True),
            L.Dense(3, activation="softmax"),
        ]
    )


def two_heads() -> keras.Model:
    x = keras.Input((5,), name="x")
    h = L.Dense(6, activation="relu")(x)
    return keras.Model(x, [L.Dense(3, activation="softmax", name="kind")(h),
                           L.Dense(1, name="size")(h)])  # fmt: skip


def save(folder: Path, model: keras.Model, x: Any, y: Any, weight: Any = None) -> list[Any]:
    """Writes model and arrays; returns the arguments that name them."""
    model.save(folder / "model.keras")
    model.run_eagerly = True  # a few steps are not worth their tracing
    arguments: list[Any] = [folder / "model.keras"]
    for option, arrays in (("--data", x), ("--labels", y)):
        for i, array in enumerate(arrays if isinstance(arrays, list) else [arrays]):
            np.save(folder / f"{option[2:]}{i}.npy", array)
            arguments += [option, folder / f"{option[2:]}{i}.npy"]
    if weight is not None:
        np.save(folder / "weights.npy", weight)
        arguments += ["--sample-weights", folder / "weights.npy"]
    return arguments


def two_steps(folder: Path, arguments: list[Any], *options: Any) -> list[dict[str, Any]]:
    """The log of two steps, an epoch: its steps and its end."""
    run_plimsoll("fit", *arguments, "--batch", BATCH, "--epochs", 1, "--no-shuffle", "--log-steps",
                 "--log", folder / "log.jsonl", *options)  # fmt: skip
    return read_log(folder / "log.jsonl")


def part(arrays: Any, rows: slice) -> Any:
    return [a[rows] for a in arrays] if isinstance(arrays, list) else arrays[rows]


def assert_as_keras(folder: Path, model: keras.Model, x: Any, y: Any, weight: Any = None) -> None:
    """Losses of two steps, metrics of the epoch, and an evaluation before them."""
    arguments = save(folder, model, x, y, weight)
    evaluated = run_plimsoll("evaluate", *arguments, "--batch", BATCH, "--json").stdout
    expected = model.evaluate(x, y, BATCH, sample_weight=weight, verbose=0, return_dict=True)
    got = json.loads(evaluated)
    for key, value in expected.items():
        assert got[key] == pytest.approx(value, rel=1e-5, abs=1e-6), ("evaluate", key)
    log = two_steps(folder, arguments)
    losses = []
    for first in (0, BATCH):
        rows = slice(first, first + BATCH)
        given = None if weight is None else weight[rows]
        logs = model.train_on_batch(part(x, rows), part(y, rows), given, return_dict=True)
        losses.append(logs["loss"])
        if first == 0:
            model.reset_metrics()
    # The loss of the second step alone: metrics started anew in between.
    ours = [row["loss"] for row in log if "step" in row]
    assert ours == pytest.approx([float(loss) for loss in losses], rel=1e-5)


# Losses -------------------------------------------------------------------------------------------

# Keras's own, in every spelling that keras.losses.get takes.
SPELLINGS = sorted(
    name
    for name in keras.src.losses.ALL_OBJECTS_DICT
    if name.lower() not in ("loss", "lossfunctionwrapper", "circle", "ctc", "dice", "tversky")
)


def by_spelling(name: str) -> tuple[keras.Model, np.ndarray]:
    if "sparse" in name.lower():
        return classifier(), labels(3)
    if "categorical" in name.lower() and "hinge" not in name.lower():
        return classifier(), np.eye(3, dtype="float32")[labels(3)]
    return classifier("sigmoid"), RNG.integers(0, 2, (2 * BATCH, 3)).astype("float32")


def test_losses_by_every_name(tmp_path: Path) -> None:
    x = numbers(5)
    for name in SPELLINGS:
        model, y = by_spelling(name)
        model.compile("sgd", name)
        arguments = save(tmp_path, model, x, y)
        done = run_plimsoll("evaluate", *arguments, "--batch", 2 * BATCH, "--json")
        expected = float(model.compute_loss(y=y, y_pred=model(x)))
        got = json.loads(done.stdout)["loss"]
        assert got == pytest.approx(expected, rel=1e-5), name


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_a_loss_by_name_says_what_labels_are(ending: str, tmp_path: Path) -> None:
    """The label column of a table, and class folders, hold class numbers for such a loss."""
    x, y = numbers(5), labels(3)
    y[:3] = range(3)  # each is met
    rows = [",".join([*map(repr, map(float, row)), "abc"[label]]) for row, label in zip(x, y)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e,label", *rows]) + "\n")
    losses = []
    for loss in ("sparse_categorical_crossentropy", "SparseCategoricalCrossentropy",
                 keras.losses.SparseCategoricalCrossentropy()):  # fmt: skip
        keras.utils.set_random_seed(1)
        model = classifier()
        model.compile("sgd", loss)
        model.save(tmp_path / f"m.{ending}")
        done = run_plimsoll("evaluate", tmp_path / f"m.{ending}", "--data", tmp_path / "t.csv")
        losses.append(done.stdout)
    assert losses[0] == losses[1] == losses[2]
    expected = model.evaluate(x, y, verbose=0)
    assert float(losses[0].split()[1]) == pytest.approx(expected, rel=1e-5)


LOSSES: dict[str, Callable[[], tuple[keras.Model, Any, np.ndarray]]] = {
    "the last axis by its number": lambda: (
        classifier(), keras.losses.CategoricalCrossentropy(axis=1), np.eye(3)[labels(3)]
    ),
    "the last axis of pixels": lambda: (
        pixels(), keras.losses.CategoricalCrossentropy(axis=3), np.eye(3)[labels(3, 4, 5)]
    ),
    "an ignored class": lambda: (
        pixels(), keras.losses.SparseCategoricalCrossentropy(ignore_class=255),
        np.where(RNG.random((2 * BATCH, 4, 5)) < 0.3, 255, labels(3, 4, 5)),
    ),
    "an ignored class of logits": lambda: (
        pixels(None),
        keras.losses.SparseCategoricalCrossentropy(True, ignore_class=-1, reduction="sum"),
        np.where(RNG.random((2 * BATCH, 4, 5)) < 0.3, -1, labels(3, 4, 5)),
    ),
    "an ignored class that the model has": lambda: (
        classifier(), keras.losses.SparseCategoricalCrossentropy(ignore_class=1), labels(3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_options_of_losses(name: str, tmp_path: Path) -> None:
    model, loss, y = LOSSES[name]()
    model.compile(keras.optimizers.SGD(0.1), loss)
    x = numbers(*model.input_shape[1:])
    assert_as_keras(tmp_path, model, x, y.astype("int32") if y.ndim < 4 else y.astype("float32"))


def test_an_ignored_class_together_with_a_mask_and_weights(tmp_path: Path) -> None:
    model = words()
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=2)
    model.compile(keras.optimizers.SGD(0.1), loss)
    assert_as_keras(tmp_path, model, labels(9, 6), labels(3, 6), weights(6))


def test_an_axis_that_is_not_the_last_is_named(tmp_path: Path) -> None:
    model = pixels()
    model.compile("sgd", keras.losses.CategoricalCrossentropy(axis=1))
    model.save(tmp_path / "m.keras")
    done = run_plimsoll("check", tmp_path / "m.keras", check=False)
    assert done.returncode == 4
    assert "axis: expected -1 or 3, the last of (B, 4, 5, 3), received 1." in done.stdout


def test_an_ignored_class_in_a_folder_of_masks(tmp_path: Path) -> None:
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=255)
    y = np.where(RNG.random((2 * BATCH, 4, 5)) < 0.3, 255, labels(3, 4, 5)).astype("uint8")
    x = RNG.integers(0, 256, (2 * BATCH, 4, 5, 3)).astype("uint8")
    model = keras.Sequential(
        [keras.Input((4, 5, 3)), L.Conv2D(3, 3, padding="same", activation="softmax")]
    )
    model.compile("sgd", loss)
    for folder, images in (("images", x), ("masks", y[..., None])):
        (tmp_path / folder).mkdir()
        for i, image in enumerate(images):
            png = tf.io.encode_png(image).numpy()
            (tmp_path / folder / f"{i}.png").write_bytes(png)
    arguments = save(tmp_path, model, x.astype("float32"), y.astype("float32"))
    from_arrays = run_plimsoll("evaluate", *arguments).stdout
    from_folders = run_plimsoll("evaluate", arguments[0], "--data", tmp_path / "images",
                                "--labels", tmp_path / "masks").stdout  # fmt: skip
    assert from_arrays == from_folders


# What returns a new tensor loses the logits that Keras keeps with sigmoid's and softmax's result.
BEHIND_SIGMOID: dict[str, Callable[[], L.Layer]] = {
    "flattened rows": L.Flatten,
    "flattened rows of channels first": lambda: L.Flatten(data_format="channels_first"),
    "rows of the same shape": lambda: L.Reshape((3,)),
    "one value joined": L.Concatenate,
    "the same tensor": L.Identity,
    "no dropout": lambda: L.Dropout(0.0),
}


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
@pytest.mark.parametrize("name", BEHIND_SIGMOID)
def test_logits_after_layers_that_change_nothing(
    name: str, activation: str, tmp_path: Path
) -> None:
    x = keras.Input((5,))
    layer = BEHIND_SIGMOID[name]()
    h = L.Dense(3, activation=activation)(x)
    model = keras.Model(x, layer([h] if name == "one value joined" else h))
    binary = activation == "sigmoid"
    kind = keras.losses.BinaryCrossentropy if binary else keras.losses.CategoricalCrossentropy
    model.compile(keras.optimizers.SGD(0.1), kind(from_logits=True))
    y = RNG.integers(0, 2, (2 * BATCH, 3)) if binary else np.eye(3)[labels(3)]
    assert_as_keras(tmp_path, model, numbers(5), y.astype("float32"))


# Outputs ------------------------------------------------------------------------------------------

SPARSE = "sparse_categorical_crossentropy"
OUTPUTS: dict[str, dict[str, Any]] = {
    "a list of weights": {"loss": [SPARSE, "mse"], "loss_weights": [1.0, 0.2]},
    "weights by name": {
        "loss": {"size": "mae", "kind": SPARSE}, "loss_weights": {"kind": 0.5, "size": 3.0},
        "metrics": {"kind": ["accuracy"], "size": ["mae", "mse"]},
    },
    "an output without a loss": {"loss": [SPARSE, None]},
    "weighted metrics": {
        "loss": [SPARSE, "mse"], "metrics": [["accuracy"], ["mae"]],
        "weighted_metrics": [["accuracy"], ["mae", "mse"]],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_losses_of_outputs(name: str, tmp_path: Path) -> None:
    model = two_heads()
    model.compile(keras.optimizers.SGD(0.05), **OUTPUTS[name])
    x, y = numbers(5), [labels(3), numbers(1)]
    if name == "an output without a loss":
        arguments = save(tmp_path, model, x, y[0])
        log = two_steps(tmp_path, arguments)
        losses = [float(model.train_on_batch(x[r], [y[0][r], None], return_dict=True)["loss"])
                  for r in (slice(0, BATCH),)]  # fmt: skip
        assert log[0]["loss"] == pytest.approx(losses[0], rel=1e-5)
    else:
        assert_as_keras(tmp_path, model, x, y)


def test_one_name_of_two_outputs_is_of_both(tmp_path: Path) -> None:
    """Outputs of one layer have its name, and what a dictionary says of it is said of each."""
    first, second = keras.Input((5,), name="first"), keras.Input((5,), name="second")
    layer = L.Dense(2, name="shared")
    model = keras.Model([first, second], [layer(first), layer(second)])
    model.compile(keras.optimizers.SGD(0.1), {"shared": "mse"}, metrics={"shared": ["mae"]},
                  loss_weights={"shared": 0.5})  # fmt: skip
    assert_as_keras(tmp_path, model, [numbers(5), numbers(5)], [numbers(2), numbers(2)])


def test_losses_by_the_keys_of_a_dictionary_of_outputs(tmp_path: Path) -> None:
    model = two_heads()
    model = keras.Model(model.input, {"b": model.outputs[1], "a": model.outputs[0]})
    model.compile("sgd", {"a": SPARSE, "b": "mse"}, loss_weights={"a": 0.5, "b": 2.0})
    x, y = numbers(5), {"a": labels(3), "b": numbers(1)}
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", x)
    arguments = [tmp_path / "model.keras", "--data", tmp_path / "x.npy"]
    for key, name in (("a", "kind"), ("b", "size")):
        np.save(tmp_path / f"{key}.npy", y[key])
        arguments += ["--labels", f"{name}={tmp_path / key}.npy"]
    got = run_plimsoll("evaluate", *arguments).stdout.splitlines()[0]
    expected = model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    assert float(got.split()[1]) == pytest.approx(expected, rel=1e-5)


def test_a_weight_of_a_single_loss(tmp_path: Path) -> None:
    model = classifier()
    model.compile(keras.optimizers.SGD(0.1), SPARSE, loss_weights=0.25, metrics=["accuracy"])
    assert_as_keras(tmp_path, model, numbers(5), labels(3))


def test_nothing_but_training_asks_for_the_training_configuration(tmp_path: Path) -> None:
    """predict and convert of losses, weights and metrics that nobody knows; convert keeps them."""
    model = two_heads()
    model.compile("sgd", [SPARSE, "mse"], loss_weights=[1.0, 0.2],
                  metrics=[[keras.metrics.F1Score(name="f")], ["mae"]])  # fmt: skip
    arguments = save(tmp_path, model, numbers(5), [])
    done = run_plimsoll("predict", *arguments, "--output", tmp_path / "p.npy")
    assert "left out" not in done.stderr
    run_plimsoll("convert", tmp_path / "model.keras", tmp_path / "out.keras")
    again = keras.saving.load_model(tmp_path / "out.keras").get_compile_config()
    before = model.get_compile_config()
    for key in ("loss", "loss_weights", "metrics", "weighted_metrics"):
        assert again[key] == before[key], key


def test_a_metric_that_is_not_known_is_left_out_and_said(tmp_path: Path) -> None:
    model = classifier("sigmoid", 1)
    metrics = ["accuracy", keras.metrics.Mean(name="tp"),
               keras.metrics.Precision(thresholds=[0.7, 0.2], name="precision")]  # fmt: skip
    model.compile("sgd", "bce", metrics=metrics)
    y = RNG.integers(0, 2, (2 * BATCH, 1)).astype("float32")
    arguments = save(tmp_path, model, numbers(5), y)
    done = run_plimsoll("evaluate", *arguments)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["loss", "accuracy"]
    assert "metric tp (Mean) is left out" in done.stderr
    assert "thresholds: expected numbers that rise, received 0.7" in done.stderr
    shown = json.loads(run_plimsoll("evaluate", *arguments, "--json").stdout)
    assert [line.split()[1] for line in shown["left_out_metrics"]] == ["tp", "precision"]
    done = run_plimsoll("evaluate", *arguments, "--metrics", "accuracy,recal", check=False)
    assert done.returncode == 2 and "Did you mean" in done.stderr


# Weights ------------------------------------------------------------------------------------------

WEIGHTED: dict[str, Callable[[], tuple[keras.Model, Any, np.ndarray, np.ndarray]]] = {
    "a step": lambda: (words(), labels(9, 6), labels(3, 6), weights(6)),
    "a step, with a dimension of its own": lambda: (
        words(),
        labels(9, 6),
        labels(3, 6),
        weights(6, 1),
    ),
    "a pixel": lambda: (pixels(), numbers(4, 5, 2), labels(3, 4, 5), weights(4, 5)),
    "a row of pixels": lambda: (pixels(), numbers(4, 5, 2), labels(3, 4, 5), weights(4, 1)),
    "a sample": lambda: (classifier(), numbers(5), labels(3), weights()),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_parts_of_samples(name: str, tmp_path: Path) -> None:
    model, x, y, weight = WEIGHTED[name]()
    # Keras's weighted metrics do not take all of these shapes.
    metrics = ["accuracy"] if name in ("a pixel", "a sample") else []
    model.compile(keras.optimizers.SGD(0.1), SPARSE, weighted_metrics=metrics)
    assert_as_keras(tmp_path, model, x, y, weight)


@pytest.mark.parametrize("options", [{}, {"curve": "PR"}, {"num_thresholds": 9}], ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
def test_weighted_areas_under_curves(outputs: int, options: dict[str, Any], tmp_path: Path) -> None:
    model = classifier("sigmoid", outputs)
    metrics = [keras.metrics.AUC(**options)]
    again = [keras.metrics.AUC(**options), "accuracy"]
    model.compile(keras.optimizers.SGD(0.1), "bce", metrics=metrics, weighted_metrics=again)
    y = RNG.integers(0, 2, (2 * BATCH, outputs)).astype("float32")
    assert_as_keras(tmp_path, model, numbers(5), y, weights())


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    model = pixels()
    model.compile("sgd", SPARSE)
    arguments = save(tmp_path, model, numbers(4, 5, 2), labels(3, 4, 5), weights(5))
    done = run_plimsoll("evaluate", *arguments, check=False)
    assert done.returncode == 5
    assert "expected one weight a sample, or weights of shape (B, 4, 5)" in done.stderr


@pytest.mark.parametrize("kind", ["one-hot", "numbers", "several"])
def test_class_weights(kind: str, tmp_path: Path) -> None:
    y: np.ndarray = labels(3)
    model = classifier("sigmoid" if kind == "several" else "softmax")
    loss = {"one-hot": "categorical_crossentropy", "several": "bce"}.get(kind, SPARSE)
    if kind == "one-hot":
        y = np.eye(3, dtype="float32")[y]
    elif kind == "several":
        y = RNG.integers(0, 2, (2 * BATCH, 3)).astype("float32")
    model.compile(keras.optimizers.SGD(0.1), loss)
    x = numbers(5)
    arguments = save(tmp_path, model, x, y)
    log = two_steps(tmp_path, arguments, "--class-weights", "0:1.5,1:0.25")
    first = slice(0, BATCH)
    expected = model.train_on_batch(x[first], y[first], class_weight={0: 1.5, 1: 0.25})
    assert log[0]["loss"] == pytest.approx(float(expected), rel=1e-5)
    run_plimsoll("fit", *arguments, "--batch", BATCH, "--steps", 1, "--class-weights", "balanced",
                 "--validation-split", 0.5)  # fmt: skip


def test_class_weights_beside_weights_of_steps(tmp_path: Path) -> None:
    """Both multiply: one class a sample, one weight a step."""
    x = keras.Input((6, 2))
    model = keras.Model(x, L.Dense(3, activation="softmax")(x))
    model.compile(keras.optimizers.SGD(0.1), SPARSE)
    x, y, weight = numbers(6, 2), labels(3, 6), weights(6)
    arguments = save(tmp_path, model, x, y, weight)
    done = run_plimsoll("fit", *arguments, "--steps", 1, "--class-weights", "0:2", check=False)
    assert done.returncode == 5 and "--sample-weights" in done.stderr
