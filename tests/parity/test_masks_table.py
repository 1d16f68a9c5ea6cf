"""Every layer that a mask meets, crossed with everything that makes one: one step against Keras.

Loss, metrics and all weights after one step of SGD are equal, or the model is refused with a
reason that is listed here. By default each consumer meets one producer, and a few meet all;
PLIMSOLL_MASKS=all crosses them all (with -s it prints the table).
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import read_keras, read_log, run_plimsoll
from keras import layers as L
from mask_cases import CONSUMERS, PRODUCERS, STEPS, WITH_MASK, producer_data

ALL = os.environ.get("PLIMSOLL_MASKS") == "all"
GIVEN = "mask= of a bool input"
# Beside those with a name that begins with Random.
IMAGE_LAYERS = {
    "AutoContrast", "CenterCrop", "ContrastLimitedAdaptiveHistogramEqualization", "CutMix",
    "Equalization", "MixUp", "RandAugment", "Resizing", "Solarization"
}  # fmt: skip
# What is refused, and a part of the message that says why.
REFUSED: dict[str, str] = {}
# What Keras itself cannot do: it fails with an error of its own.
NOT_IN_KERAS = {"Softmax"}


# Consumers that meet every producer.
OFTEN = ("nothing", "GlobalAveragePooling1D", "Concatenate masked, bare")


def chosen() -> list[tuple[str, str]]:
    """All cells, or a band through the table that meets every row and every column."""
    producers = list(PRODUCERS)
    cells = []
    for i, consumer in enumerate(CONSUMERS):
        for k, producer in enumerate(producers):
            if ALL or consumer in OFTEN or (k - i) % len(producers) == 0:
                cells.append((consumer, producer))
    return cells + [(consumer, GIVEN) for consumer in WITH_MASK]


def build(consumer: str, producer: str) -> keras.Model:
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(5)
    made = PRODUCERS[producer]()
    y = (CONSUMERS | WITH_MASK)[consumer](made)
    model = keras.Model(made.inputs, L.Dense(3, activation="sigmoid")(y))
    rng = np.random.default_rng(3)
    model.set_weights([w + rng.uniform(0.02, 0.2, w.shape) for w in model.get_weights()])
    return model


def compile_model(model: keras.Model) -> None:
    model.compile(
        keras.optimizers.SGD(0.1),
        "mse",
        metrics=["mae", "categorical_accuracy", keras.metrics.BinaryAccuracy(threshold=0.4)],
        run_eagerly=True,
    )


def by_keras(
    model: keras.Model, x: list[np.ndarray], y: np.ndarray, folder: Path
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    logs = model.train_on_batch(x, y, return_dict=True)
    model.save(folder / "keras.keras")
    return {name: float(value) for name, value in logs.items()}, read_keras(folder / "keras.keras")[
        0
    ]


def by_plimsoll(
    folder: Path, count: int, batch: int
) -> tuple[dict[str, float], dict[str, np.ndarray]] | str:
    """Metrics and weights, or the message that refuses the model."""
    data: list[Any] = []
    for i in range(count):
        data += ["--data", folder / f"x{i}.npy"]
    result = run_plimsoll(
        "fit", folder / "model.keras", *data, "--labels", folder / "y.npy", "--batch", batch,
        "--steps", 1, "--no-shuffle", "--output", folder / "out.keras", "--threads", 1,
        "--log", folder / "log.jsonl", check=False,
    )  # fmt: skip
    if result.returncode == 4:
        return result.stderr.strip()
    assert result.returncode == 0, result.stderr[-2000:]
    rows = read_log(folder / "log.jsonl")
    row = next(row for row in rows if "epoch" in row and "loss" in row and "step" not in row)
    return row, read_keras(folder / "out.keras")[0]


def differences(
    ours: tuple[dict[str, float], dict[str, np.ndarray]],
    theirs: tuple[dict[str, float], dict[str, np.ndarray]],
    before: dict[str, np.ndarray],
) -> list[str]:
    """What is not equal, by name."""
    wrong = []
    for name, value in theirs[0].items():
        if not abs(ours[0][name] - value) <= 2e-5 * max(1, abs(value)):
            wrong.append(f"{name} {ours[0][name]:.6f} for {value:.6f}")
    for path, value in theirs[1].items():
        got = ours[1][path]
        moved = np.abs(value - before[path]).max()
        if got.shape != value.shape or not np.abs(got - value).max() <= 1e-3 * moved + 2e-6:
            wrong.append(f"{path} off by {np.abs(got - value).max():.2e}, moved {moved:.2e}")
    return wrong


def outcome(consumer: str, producer: str, folder: Path) -> str:
    """ "equal", "refused: …", "Keras: …", or what is wrong."""
    x = producer_data(producer)
    try:
        model = build(consumer, producer)
        shape = (len(x[0]), *model.output_shape[1:])
        y = np.random.default_rng(4).uniform(0, 1, shape).astype("float32").round(1)
        compile_model(model)
        model.save(folder / "model.keras")
        before, _ = read_keras(folder / "model.keras")
        theirs = by_keras(model, x, y, folder)
    except Exception as error:
        return f"Keras: {type(error).__name__} {str(error)[:200]}"
    for i, array in enumerate(x):
        np.save(folder / f"x{i}.npy", array)
    np.save(folder / "y.npy", y)
    ours = by_plimsoll(folder, len(x), len(y))
    if isinstance(ours, str):
        return f"refused: {ours}"
    wrong = differences(ours, theirs, before)
    return "; ".join(wrong[:3]) if wrong else "equal"


@pytest.mark.parametrize(("consumer", "producer"), chosen())
def test_cell(consumer: str, producer: str, tmp_path: Path) -> None:
    result = outcome(consumer, producer, tmp_path)
    print(f"{consumer:40} {producer:24} {result}")
    if consumer in NOT_IN_KERAS:
        assert result.startswith("Keras: ")
    elif consumer in REFUSED:
        assert result.startswith("refused: ")
        assert REFUSED[consumer] in result
    else:
        assert result == "equal"


def compare(model: keras.Model, x: list[np.ndarray], y: np.ndarray, folder: Path) -> None:
    """One step of a compiled model here and there."""
    model.save(folder / "model.keras")
    theirs = by_keras(model, x, y, folder)
    for i, array in enumerate(x):
        np.save(folder / f"x{i}.npy", array)
    np.save(folder / "y.npy", y)
    ours = by_plimsoll(folder, len(x), len(y))
    assert not isinstance(ours, str), ours
    assert not differences(ours, theirs, read_keras(folder / "model.keras")[0])


@pytest.mark.parametrize("layer", [L.LSTM, L.GlobalAveragePooling1D])
def test_a_mask_of_words_in_sentences(layer: Any, tmp_path: Path) -> None:
    """A layer in TimeDistributed gets the mask of its own step."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(5)
    words = keras.Input((3, STEPS), dtype="int32")
    y = L.Embedding(9, 4, mask_zero=True)(words)
    y = L.TimeDistributed(layer(5) if layer is L.LSTM else layer())(y)
    model = keras.Model(words, L.Dense(2)(L.Flatten()(y)))
    compile_model(model)
    rng = np.random.default_rng(8)
    numbers = rng.integers(0, 9, (4, 3, STEPS)).astype("int32")
    numbers[..., 0] = 1
    compare(model, [numbers], rng.uniform(0, 1, (4, 2)).astype("float32"), tmp_path)


def dense_metrics() -> list[Any]:
    metrics = keras.metrics
    return [
        "mae", "mape", "msle", metrics.KLDivergence(), metrics.Poisson(), metrics.Hinge(),
        metrics.SquaredHinge(), metrics.CategoricalHinge(),
        metrics.CosineSimilarity(), metrics.LogCoshError(), metrics.RootMeanSquaredError(),
        metrics.BinaryAccuracy(), metrics.CategoricalAccuracy(),
        metrics.TopKCategoricalAccuracy(2), metrics.Precision(0.3), metrics.Recall(0.3),
        metrics.AUC(num_thresholds=20),
    ]  # fmt: skip


def sparse_metrics() -> list[Any]:
    return ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)]


@pytest.mark.parametrize("sparse", [False, True])
def test_every_metric_under_a_mask(sparse: bool, tmp_path: Path) -> None:
    """Means of a function count what the mask shows; counts by threshold and the root count all."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(5)
    made = PRODUCERS["Embedding"]()
    model = keras.Model(made.inputs[:1], L.Dense(4, activation="softmax")(made.x))
    x = producer_data("Embedding")[:1]
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 4, (len(x[0]), STEPS)).astype("int32")
    y = labels if sparse else np.eye(4, dtype="float32")[labels]
    loss = "sparse_categorical_crossentropy" if sparse else "categorical_crossentropy"
    metrics = sparse_metrics() if sparse else dense_metrics()
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=metrics, run_eagerly=True)
    compare(model, x, y, tmp_path)


def test_every_layer_stands_in_the_table(tool: Path) -> None:
    """A layer that Plimsoll reads is a consumer here, or takes no mask that could be met."""
    names = subprocess.run([tool, "layers"], capture_output=True, text=True, check=True)
    images = {n for n in names.stdout.split() if "2D" in n or "3D" in n}
    elsewhere = {"InputLayer", "Masking", "Embedding", "Operation", "Normalization"}
    elsewhere |= {
        "CategoryEncoding",
        "Discretization",
        "HashedCrossing",
        "ReversibleEmbedding",
        "MelSpectrogram",
    }
    elsewhere |= {"GaussianDropout", "Conv1DTranspose", "RepeatVector", "LocallyConnected1D"}
    elsewhere |= {"Hashing", "IntegerLookup", "StringLookup", "TextVectorization"}  # of inputs
    elsewhere |= {n for n in names.stdout.split() if n in IMAGE_LAYERS or n.startswith("Random")}
    text = " ".join([*CONSUMERS, *WITH_MASK])
    missing = [n for n in names.stdout.split() if n not in images | elsewhere and n not in text]
    assert not missing, missing
    assert STEPS > 1
