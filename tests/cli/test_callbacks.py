"""Callbacks at the ends of epochs: Keras's own, fed with our metrics, must decide alike."""

import csv
import json
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_place import USAGE, Workplace, dense, layer, place

__all__ = ["place"]


class Training:
    """Noise that a network learns by heart, so that validation gets worse soon."""

    def __init__(self, place: Workplace) -> None:
        self.place = place
        rng = np.random.default_rng(11)
        for name, count in {"x": 120, "v": 80}.items():
            x = rng.normal(0, 1, (count, 8)).astype("float32")
            y = (x[:, 0] + rng.normal(0, 1.2, count) > 0).astype("int32")
            np.save(place.folder / f"{name}.npy", x)
            np.save(place.folder / f"{name}y.npy", y)
        self.model = place.model([8], dense(32, "relu", "hidden"), dense(1, "sigmoid"))

    def fit(self, *more: Any, **values: Any) -> str:
        folder = self.place.folder
        values = {
            "data": folder / "x.npy", "labels": folder / "xy.npy", "validation": folder / "v.npy",
            "validation_labels": folder / "vy.npy", "batch": 16, "epochs": 60,
            "metrics": "accuracy", "loss": "binary_crossentropy",
            "optimizer": "adam(learning_rate=0.02)", **values,
        }  # fmt: skip
        result = self.place.fit(self.model, *more, **values)
        assert result.returncode == 0, result.stderr
        return result.stderr

    def epochs(self) -> list[dict[str, Any]]:
        return [{k: v for k, v in line.items() if k != "seconds"} for line in self.place.epochs()]


@pytest.fixture
def training(place: Workplace) -> Training:
    return Training(place)


class FakeModel:
    """What Keras's callbacks ask of a model."""

    def __init__(self, keras: Any) -> None:
        self.optimizer = keras.optimizers.Adam(0.02)
        self.stop_training = False
        self.epoch = -1
        self.restored = None

    def get_weights(self) -> int:
        return self.epoch

    def set_weights(self, weights: int) -> None:
        self.restored = weights


def test_early_stopping_as_keras(training: Training) -> None:
    keras = pytest.importorskip("keras")
    folder = training.place.folder
    said = training.fit(early_stopping="patience=4,min_delta=0.001", output=folder / "s.keras")
    epochs = training.epochs()
    assert 5 < len(epochs) < 60
    callback = keras.callbacks.EarlyStopping(patience=4, min_delta=0.001, restore_best_weights=True)
    model = FakeModel(keras)
    callback.set_model(model)
    callback.on_train_begin()
    for model.epoch, logs in enumerate(epochs):
        assert not model.stop_training
        callback.on_epoch_end(model.epoch, logs)
    assert model.stop_training
    callback.on_train_end()
    best = model.restored + 1
    assert f"stopped early: val_loss was best in epoch {best}" in said
    # The best weights are those of a run that ended there.
    training.fit(epochs=best, output=folder / "b.keras")
    evaluated = []
    for name in ["s", "b"]:
        result = training.place.run(
            "evaluate", folder / f"{name}.keras", "--data", folder / "v.npy", "--labels",
            folder / "vy.npy", "--batch", 16, "--json",
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        evaluated.append(json.loads(result.stdout)["loss"])
    assert evaluated[0] == evaluated[1] == epochs[best - 1]["val_loss"]


def test_reduce_on_plateau_as_keras(training: Training) -> None:
    keras = pytest.importorskip("keras")
    rule = {"factor": 0.3, "patience": 2, "min_delta": 0.002, "cooldown": 1, "min_lr": 0.0005}
    said = training.fit(reduce_on_plateau=",".join(f"{k}={v}" for k, v in rule.items()), epochs=30)
    ours = [float(x) for x in re.findall(r"the learning rate is now (\S+)", said)]
    callback = keras.callbacks.ReduceLROnPlateau(**rule)
    model = FakeModel(keras)
    callback.set_model(model)
    callback.on_train_begin()
    rates = []
    for epoch, logs in enumerate(training.epochs()):
        before = float(model.optimizer.learning_rate)
        callback.on_epoch_end(epoch, dict(logs))
        after = float(model.optimizer.learning_rate)
        if after != before:
            rates.append(after)
    assert len(ours) >= 3, rates
    assert ours == pytest.approx(rates, rel=1e-5), (ours, rates)


@pytest.mark.parametrize(
    ("metric", "named", "best_of"),
    [("precision", "precision", np.argmax), ("AUC", "AUC", np.argmax),
     ("cosine_similarity", "cosine_similarity", np.argmax), ("mae", "mae", np.argmin)],
)  # fmt: skip
def test_what_is_better_is_told_by_the_metric(
    training: Training, metric: str, named: str, best_of: Callable[[list[float]], Any]
) -> None:
    """Not by what it is called: keep-best, plateaus and stopping look the same way."""
    said = training.fit(early_stopping="2", monitor=f"val_{named}", metrics=metric, epochs=12)
    values = [line[f"val_{named}"] for line in training.epochs()]
    best = int(best_of(values)) + 1
    if len(values) < 12:
        assert len(values) == best + 2
        assert f"val_{named} was best in epoch {best}" in said
    else:
        assert best > 10, (values, said)


def test_monitored_accuracy_is_better_when_larger(training: Training) -> None:
    said = training.fit(early_stopping="3", monitor="val_accuracy")
    values = [line["val_accuracy"] for line in training.epochs()]
    best = int(np.argmax(values)) + 1
    assert len(values) == best + 3
    assert f"val_accuracy was best in epoch {best}" in said


def test_resumed_runs_decide_as_one(training: Training) -> None:
    folder = training.place.folder
    rules = {"early_stopping": "4", "reduce_on_plateau": "patience=2,factor=0.5", "seed": 5}
    training.fit(**rules, output=folder / "whole.keras")
    whole = training.epochs()
    common = {**rules, "checkpoint": folder / "run", "output": folder / "parts.keras"}
    training.fit(**common, epochs=3)
    for more in range(4, len(whole) + 2, 2):
        training.fit("--resume", **common, epochs=more)
    training.fit("--resume", **common)
    assert training.epochs() == whole
    assert (folder / "parts.keras").read_bytes() == (folder / "whole.keras").read_bytes()
    said = training.fit("--resume", **common)  # it is over: nothing is trained
    assert training.epochs() == whole
    assert (folder / "parts.keras").read_bytes() == (folder / "whole.keras").read_bytes()
    assert "continues bit for bit" in said


def test_keep_best_and_tables(training: Training) -> None:
    folder = training.place.folder
    training.fit(keep_best=folder / "best.keras", csv_log=folder / "log.csv", epochs=12)
    epochs = training.epochs()
    best = int(np.argmin([line["val_loss"] for line in epochs])) + 1
    training.fit(epochs=best, output=folder / "there.keras", log=folder / "other.jsonl")
    results = [
        training.place.run("predict", folder / name, "--data", folder / "v.npy", "--output",
                           folder / f"{name}.npy")
        for name in ["best.keras", "there.keras"]
    ]  # fmt: skip
    assert [result.returncode for result in results] == [0, 0]
    np.testing.assert_array_equal(
        np.load(folder / "best.keras.npy"), np.load(folder / "there.keras.npy")
    )
    with (folder / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == list(range(1, 13))
    for row, line in zip(rows, epochs):
        assert {name: float(row[name]) for name in line} == line


def read_events(folder: Path) -> list[bytes]:
    records = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            records.append(data[12 : 12 + length])
            data = data[16 + length :]
    return records


def test_event_files_as_tensorflow_reads_them(training: Training) -> None:
    tf = pytest.importorskip("tensorflow")
    folder = training.place.folder / "events"
    training.fit(tensorboard=folder, epochs=4)
    (path,) = folder.iterdir()
    scalars: dict[str, dict[int, float]] = {}
    texts, images = [], []
    events = list(tf.compat.v1.train.summary_iterator(str(path)))  # verifies the checksums
    assert events[0].file_version == "brain.Event:2"
    for event in events[1:]:
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "text":
                texts.append(value.tensor.string_val[0].decode())
            elif value.HasField("image"):
                images.append(value.image)
            else:
                scalars.setdefault(value.tag, {})[event.step] = value.simple_value
    epochs = training.epochs()
    for tag in ["loss", "accuracy", "val_loss", "val_accuracy"]:
        expected = {line["epoch"]: pytest.approx(line[tag], rel=1e-6) for line in epochs}
        assert scalars[tag] == expected
    plan, memory = texts
    assert "predicted peak" in plan
    assert "| layer | bytes | activations |" in memory and "MiB" in memory or "KiB" in memory
    (image,) = images
    pixels = tf.io.decode_png(image.encoded_image_string).numpy()
    assert pixels.shape == (image.height, image.width, 3)
    assert 0.02 < (pixels != 255).any(-1).mean() < 0.9, "bars and letters on white"
    measured = scalars["memory/process_measured_mib"]
    planned = scalars["memory/process_planned_mib"]
    assert all(0 < measured[epoch] <= planned[epoch] for epoch in planned)
    assert len(read_events(folder)) == len(events)


def test_tensorboard_lists_them(training: Training) -> None:
    """TensorBoard itself, where it is installed."""
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing import event_accumulator

    folder = training.place.folder / "events"
    training.fit(tensorboard=folder, epochs=3)
    events = event_accumulator.EventAccumulator(str(folder))
    events.Reload()
    tags = events.Tags()
    found = set(tags["scalars"]) | set(tags["tensors"])
    assert {"loss", "accuracy", "val_loss", "val_accuracy", "plan"} <= found, (tags, sys.path)
    assert set(events.PluginTagToContent("text")) == {"plan", "memory"}
    assert set(tags["images"]) == {"memory by layer"}


def test_tensorboard_shows_the_weights(training: Training) -> None:
    """Thirty buckets a weight and epoch, as tf.summary.histogram has them."""
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    h5py = pytest.importorskip("h5py")
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.util.tensor_util import make_ndarray

    folder, output = training.place.folder / "events", training.place.folder / "out.h5"
    training.fit(tensorboard=folder, epochs=4, histograms=2, output=output)
    events = event_accumulator.EventAccumulator(str(folder))
    events.Reload()
    weights: dict[str, np.ndarray] = {}

    def keep(path: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            weights[path] = item[()]

    with h5py.File(output) as file:
        file["model_weights"].visititems(keep)
    found = events.PluginTagToContent("histograms")
    assert len(found) == len(weights) > 1, (found, weights.keys())
    for tag in found:
        assert tag.endswith("/histogram")
        first, last = events.Tensors(tag)
        assert (first.step, last.step) == (2, 4)
        rows = make_ndarray(last.tensor_proto)
        name = tag.removesuffix("/histogram")
        (weight,) = [w for path, w in weights.items() if path.split(":")[0].endswith(name)]
        assert rows.shape == (30, 3) and rows[:, 2].sum() == weight.size
        assert rows[0, 0] == weight.min() and rows[-1, 1] == pytest.approx(weight.max())
        np.testing.assert_allclose(rows[1:, 0], rows[:-1, 1])
        if weight.min() < weight.max():
            expected, _ = np.histogram(weight, bins=np.append(rows[:, 0], rows[-1, 1]))
            assert np.abs(expected - rows[:, 2]).sum() <= 2, "but for a number on an edge"


def test_histograms_want_a_folder(place: Workplace) -> None:
    training = Training(place)
    done = place.fit(training.model, "--data", training.place.folder / "x.npy", histograms=1)
    assert done.returncode == USAGE and "--tensorboard FOLDER" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("early_stopping", "patiense=2", 'Did you mean "patience"?'),
        ("reduce_on_plateau", "factor=2", "factor from 0 to"),
        ("monitor", "val_los", 'Did you mean "val_loss"?'),
        ("shuffle", "blocks", 'Did you mean "block"?'),
        ("keep_best", "best.onnx", ".keras"),
    ],
)
def test_unknown_words(place: Workplace, option: str, value: str, words: str) -> None:
    training = Training(place)
    folder = place.folder
    more = {"early_stopping": "2"} if option == "monitor" else {}
    result = place.fit(
        training.model, data=folder / "x.npy", labels=folder / "xy.npy", epochs=2,
        validation=folder / "v.npy", validation_labels=folder / "vy.npy",
        loss="binary_crossentropy", **{**more, option: value},
    )  # fmt: skip
    assert result.returncode == USAGE, result.stderr
    assert words in result.stderr


def test_a_monitor_that_is_not_there_is_refused_before_the_first_step(training: Training) -> None:
    place, folder = training.place, training.place.folder
    output = folder / "trained.keras"
    words = {"data": folder / "x.npy", "labels": folder / "xy.npy", "metrics": "accuracy",
             "loss": "binary_crossentropy", "early_stopping": "3", "output": output}  # fmt: skip
    for monitor in ("val_loss", "val_accuracy"):
        refused = place.fit(training.model, **words, monitor=monitor)
        assert refused.returncode == USAGE, refused.stderr
        assert f'expected one of the metrics loss, accuracy, received "{monitor}"' in refused.stderr
        assert "--validation PATH or --validation-split PART" in refused.stderr
        assert not place.log.exists(), "refused before the first step"
    refused = place.fit(training.model, **words, monitor="acuracy", validation_split="0.2")
    assert refused.returncode == USAGE and 'Did you mean "accuracy"?' in refused.stderr
    assert "loss, accuracy, val_loss, val_accuracy" in refused.stderr
    assert not place.log.exists() and not output.exists()
    done = place.fit(training.model, **words, monitor="val_accuracy", validation_split="0.2")
    assert done.returncode == 0 and output.exists(), done.stderr


def test_a_plateau_where_nothing_is_trained(training: Training) -> None:
    place = training.place
    np.save(place.folder / "targets.npy", np.zeros((120, 8), "float32"))
    activation = layer("Activation", "idle", activation="relu")
    idle = place.model([8], activation)
    result = place.fit(
        idle, "--reduce-on-plateau", "patience=1", data=place.folder / "x.npy",
        labels=place.folder / "targets.npy", batch=16, epochs=3, loss="mse", optimizer="sgd",
    )  # fmt: skip
    assert result.returncode == USAGE
    assert "--reduce-on-plateau: expected a learning rate to reduce" in result.stderr


def test_a_rate_that_follows_a_schedule(training: Training) -> None:
    place = training.place
    model = json.loads(training.model.read_text())
    decay = {
        "class_name": "ExponentialDecay",
        "config": {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.9},
    }
    model["compile_config"] = {
        "optimizer": {"class_name": "Adam", "config": {"learning_rate": decay}},
        "loss": "binary_crossentropy",
    }
    path = place.folder / "scheduled.json"
    path.write_text(json.dumps(model))
    result = place.run(
        "fit", path, "--data", place.folder / "x.npy", "--labels", place.folder / "xy.npy",
        "--reduce-on-plateau", "patience=2",
    )  # fmt: skip
    assert result.returncode == USAGE, result.stderr
    assert "follows a schedule" in result.stderr


def test_blocks_take_every_row(place: Workplace) -> None:
    """Rows of 64 KiB: sixteen make a block; the mean over an epoch does not depend on the order."""
    rng = np.random.default_rng(3)
    np.save(place.folder / "x.npy", rng.normal(0, 1, (301, 16384)).astype("float32"))
    np.save(place.folder / "y.npy", rng.normal(0, 1, 301).astype("float32"))
    model = place.model([16384], dense(1, "linear"))
    losses, orders = {}, set()
    for shuffle in ["full", "block", "none"]:
        result = place.fit(
            model, "--log-steps", data=place.folder / "x.npy",
            labels=place.folder / "y.npy", shuffle=shuffle,
            batch=43, loss="mse", optimizer="sgd(learning_rate=0)"
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert f", shuffle {shuffle}\n" in result.stderr
        *steps, epoch = place.epochs()
        losses[shuffle] = epoch["loss"]
        orders.add(tuple(step["loss"] for step in steps))
    assert losses["full"] == pytest.approx(losses["none"], rel=1e-5)
    assert losses["block"] == pytest.approx(losses["none"], rel=1e-5)
    assert len(orders) == 3


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_predictions_as_text(training: Training, ending: str) -> None:
    place = training.place
    training.fit(epochs=1, output=place.folder / "m.keras")
    for name in ["npy", ending]:
        result = place.run(
            "predict", place.folder / "m.keras", "--data", place.folder / "v.npy", "--output",
            place.folder / f"p.{name}",
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
    lines = (place.folder / f"p.{ending}").read_text().splitlines()
    if ending == "csv":
        assert lines[0] == "y0"
        values = [[float(line)] for line in lines[1:]]
    else:
        objects = [json.loads(line) for line in lines]
        assert [one["row"] for one in objects] == list(range(80))
        values = [one["output"] for one in objects]
    np.testing.assert_array_equal(np.array(values, "float32"), np.load(place.folder / "p.npy"))
