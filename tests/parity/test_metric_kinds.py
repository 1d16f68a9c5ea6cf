"""Every kind of metric and its options, unweighted and weighted, evaluated by Keras and by us.

Many metrics are compared in one run: an entry is a model with its data and all metrics that fit.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import read_log, run_plimsoll
from keras import layers as L
from keras import metrics as M

ROWS, BATCH = 22, 8
DRAW = np.random.default_rng(12)


@dataclass
class Group:
    model: Callable[[], keras.Model]
    y: np.ndarray
    loss: Any
    metrics: list[Callable[..., Any]]
    weights: tuple[int, ...] | None = ()  # of one sample; None: Keras cannot weigh all of them


def scored(activation: str | None, *shape: int) -> Callable[[], keras.Model]:
    """Scores that spread out, so that thresholds tell them apart."""

    def build() -> keras.Model:
        spread = keras.initializers.RandomNormal(stddev=1.5, seed=5)
        layer = L.Dense(shape[-1], activation, kernel_initializer=spread)
        return keras.Sequential([keras.Input((*shape[:-1], 4)), layer])

    return build


def words() -> keras.Model:
    return keras.Sequential([
        keras.Input((6,), dtype="int32"), L.Embedding(9, 4, mask_zero=True), L.LSTM(5,
        return_sequences=True), L.Dense(3, activation="softmax"),
    ])  # fmt: skip


def binary(*shape: int) -> np.ndarray:
    return DRAW.integers(0, 2, (ROWS, *shape)).astype("float32")


def labels(count: int, *shape: int) -> np.ndarray:
    return DRAW.integers(0, count, (ROWS, *shape)).astype("int32")


def with_(cls: type, **options: Any) -> Callable[..., Any]:
    return lambda name: cls(name=name, **options)


SOME = [0.2, 0.5, 0.7]
COUNTS = [M.TruePositives, M.TrueNegatives, M.FalsePositives, M.FalseNegatives]
HITS = [M.Precision, M.Recall, *COUNTS]
BEST = [with_(cls, **{key: value}, **more) for cls, key in (
    (M.PrecisionAtRecall, "recall"), (M.RecallAtPrecision, "precision"),
    (M.SensitivityAtSpecificity, "specificity"), (M.SpecificityAtSensitivity, "sensitivity"))
    for value, more in ((0.5, {}), (0.3, {"num_thresholds": 9}), (0.4, {"num_thresholds": 1}))
]  # fmt: skip
AREAS = [with_(M.AUC, curve=curve, summation_method=summation)
         for curve in ("ROC", "PR", "PRGAIN")
         for summation in ("interpolation", "minoring", "majoring")]  # fmt: skip
ERRORS = [with_(cls) for cls in (
    M.MeanSquaredError, M.MeanAbsoluteError, M.MeanAbsolutePercentageError, M.LogCoshError,
    M.MeanSquaredLogarithmicError, M.RootMeanSquaredError, M.KLDivergence, M.Poisson, M.Hinge,
    M.SquaredHinge, M.CategoricalHinge, M.CosineSimilarity, M.PearsonCorrelation,
    M.ConcordanceCorrelation, M.BinaryAccuracy, M.BinaryCrossentropy)]  # fmt: skip
F_SCORES = [with_(cls, average=average, **more)
            for average in (None, "micro", "macro", "weighted")
            for cls, more in ((M.F1Score, {}), (M.FBetaScore, {"beta": 0.5, "threshold": 0.4}))
]  # fmt: skip
R2 = [with_(M.R2Score, class_aggregation=kind, num_regressors=count)
      for kind in ("uniform_average", "variance_weighted_average", None) for count in (0, 2)
]  # fmt: skip

GROUPS = {
    "one output": Group(
        scored("sigmoid", 1), binary(1), "binary_crossentropy",
        [*map(with_, HITS), *(with_(cls, thresholds=SOME) for cls in HITS), *BEST, *AREAS,
         *(with_(cls, thresholds=[0.0, 0.5, 1.0]) for cls in HITS),
         with_(M.AUC, thresholds=[0.3, 0.35, 0.8]), with_(M.AUC, thresholds=[0.75, 0.5, 0.25]),
         with_(M.AUC, from_logits=True), with_(M.BinaryIoU),
         with_(M.BinaryIoU, target_class_ids=[1], threshold=0.3),
         with_(M.BinaryIoU, dtype="float32"), with_(M.MeanIoU, num_classes=2),
         with_(M.F1Score, threshold=0.5), with_(M.R2Score), with_(M.Accuracy),
         with_(M.BinaryCrossentropy, label_smoothing=0.1),
         with_(M.BinaryAccuracy, threshold=0.3)],
    ),
    "three outputs": Group(
        scored("sigmoid", 3), binary(3), "binary_crossentropy",
        [*F_SCORES, *R2, *ERRORS, with_(M.Precision, class_id=1), with_(M.Recall, class_id=2),
         with_(M.Precision, top_k=2), with_(M.Recall, top_k=1, class_id=2),
         with_(M.Precision, top_k=2, thresholds=SOME), with_(M.PrecisionAtRecall, recall=0.4,
                                                             class_id=0),
         with_(M.AUC, multi_label=True), with_(M.AUC, multi_label=True, curve="PR"),
         with_(M.AUC, multi_label=True, num_labels=3, label_weights=[0.5, 2.0, 1.0]),
         with_(M.AUC, label_weights=[0.5, 2.0, 1.0]),
         with_(M.MeanMetricWrapper, fn=keras.losses.huber, delta=0.3),
         lambda name: keras.losses.log_cosh, lambda name: keras.losses.binary_focal_crossentropy],
    ),
    "three numbers": Group(
        scored(None, 3), DRAW.normal(size=(ROWS, 3)).astype("float32"), "mse",
        [*R2, *ERRORS[:6], *ERRORS[8:14], with_(M.BinaryCrossentropy, from_logits=True)],
    ),
    "one-hot labels": Group(
        scored("softmax", 3), np.eye(3, dtype="float32")[labels(3)], "categorical_crossentropy",
        [*F_SCORES, *ERRORS, with_(M.CategoricalAccuracy), with_(M.TopKCategoricalAccuracy, k=2),
         with_(M.CategoricalCrossentropy), with_(M.CategoricalCrossentropy, label_smoothing=0.1),
         with_(M.OneHotIoU, num_classes=3, target_class_ids=[0, 2]),
         with_(M.OneHotMeanIoU, num_classes=3), with_(M.OneHotMeanIoU, num_classes=3,
                                                      ignore_class=1),
         with_(M.MeanIoU, num_classes=3, sparse_y_true=False, sparse_y_pred=False,
               dtype="float32"),
         with_(M.IoU, num_classes=3, target_class_ids=[1], sparse_y_true=False,
               sparse_y_pred=False)],
    ),
    "class numbers": Group(
        scored("softmax", 3), labels(3), "sparse_categorical_crossentropy",
        [with_(M.SparseCategoricalAccuracy), with_(M.SparseTopKCategoricalAccuracy, k=2),
         with_(M.SparseCategoricalCrossentropy),
         with_(M.SparseCategoricalCrossentropy, ignore_class=1),
         with_(M.MeanIoU, num_classes=3, sparse_y_pred=False),
         with_(M.MeanIoU, num_classes=3, sparse_y_pred=False, ignore_class=0),
         with_(M.IoU, num_classes=4, target_class_ids=[1, 2], sparse_y_pred=False)],
    ),
    "pixels": Group(
        scored("softmax", 3, 2, 3), labels(3, 3, 2), "sparse_categorical_crossentropy",
        [with_(M.MeanIoU, num_classes=3, sparse_y_pred=False),
         with_(M.SparseCategoricalCrossentropy), with_(M.SparseTopKCategoricalAccuracy, k=2)],
        weights=(3, 2),
    ),
    "pixels of one number": Group(
        scored("sigmoid", 3, 2, 1), binary(3, 2, 1), "binary_crossentropy",
        [with_(M.BinaryIoU), with_(M.AUC), with_(M.Precision, thresholds=SOME),
         with_(M.BinaryCrossentropy)],
        weights=None,
    ),
    "words with a mask": Group(
        words, labels(3, 6), "sparse_categorical_crossentropy",
        [with_(M.SparseCategoricalCrossentropy), with_(M.SparseCategoricalAccuracy),
         with_(M.MeanIoU, num_classes=3, sparse_y_pred=False)],
        weights=None,
    ),
}  # fmt: skip


def flat(logs: dict[str, Any]) -> dict[str, float]:
    """What has several numbers, under the names that we have for them."""
    numbers = {}
    for name, value in logs.items():
        several = np.atleast_1d(value)
        for i, number in enumerate(several):
            numbers[name if len(several) == 1 else f"{name}[{i}]"] = float(number)
    return numbers


@pytest.mark.parametrize("name", GROUPS)
def test_metrics_are_those_of_keras(name: str, tmp_path: Path) -> None:
    group = GROUPS[name]
    keras.utils.set_random_seed(3)
    model = group.model()
    draw = np.random.default_rng(4)
    shape = (ROWS, *model.input_shape[1:])
    x = draw.integers(0, 9, shape) if name.startswith("words") else draw.normal(size=shape)
    weighs = group.weights is not None
    made = lambda prefix: [make(f"{prefix}{i}") for i, make in enumerate(group.metrics)]  # noqa: E731
    model.compile(keras.optimizers.SGD(0.0), group.loss, metrics=made("m"),
                  weighted_metrics=made("w") if weighs else None, run_eagerly=True)  # fmt: skip
    model.save(tmp_path / "m.keras")
    arrays = {"--data": x, "--labels": group.y}
    weight = None
    if weighs:
        # Whole numbers and fractions: IoU counts in whole ones, where it is not told otherwise.
        weight = draw.choice([0.0, 0.5, 1.0, 2.25], (ROWS, *group.weights)).astype("float32")
        arrays["--sample-weights"] = weight
    arguments: list[Any] = [tmp_path / "m.keras"]
    for option, array in arrays.items():
        np.save(tmp_path / f"{option[2:]}.npy", array.astype("float32") if option != "--labels"
                else array)  # fmt: skip
        arguments += [option, tmp_path / f"{option[2:]}.npy"]
    expected = flat(model.evaluate(x.astype("float32"), group.y, BATCH, sample_weight=weight,
                                   verbose=0, return_dict=True))  # fmt: skip
    done = run_plimsoll("evaluate", *arguments, "--batch", BATCH, "--json")
    assert "left out" not in done.stderr, done.stderr
    got = {k: np.nan if v is None else v for k, v in json.loads(done.stdout).items()}
    wrong = [f"{k}: expected {v}, received {got.get(k)}" for k, v in expected.items()
             if got.get(k) != pytest.approx(v, rel=2e-5, abs=2e-6, nan_ok=True)]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_one_metric_of_two_outputs_counts_both(tmp_path: Path) -> None:
    """Outputs of one layer have one name; what a dictionary says of it is one object for both."""
    first, second = keras.Input((4,), name="first"), keras.Input((4,), name="second")
    layer = L.Dense(2, name="shared")
    model = keras.Model([first, second], [layer(first), layer(second)])
    metrics = {"shared": [M.MeanAbsoluteError(name="mine"), "mae", M.R2Score()]}
    model.compile("sgd", {"shared": "mse"}, metrics=metrics, weighted_metrics=metrics)
    draw = np.random.default_rng(4)
    x = [draw.normal(size=(ROWS, 4)).astype("float32") for _ in range(2)]
    y = [draw.normal(size=(ROWS, 2)).astype("float32") for _ in range(2)]
    expected = model.evaluate(x, y, BATCH, verbose=0, return_dict=True)
    assert expected["shared_mine"] == expected["shared_mine_1"]
    assert expected["shared_mae"] != expected["shared_mae_1"]
    model.save(tmp_path / "m.keras")
    arguments: list[Any] = []
    for option, arrays in (("--data", x), ("--labels", y)):
        for i, array in enumerate(arrays):
            np.save(tmp_path / f"{option[2:]}{i}.npy", array)
            arguments += [option, tmp_path / f"{option[2:]}{i}.npy"]
    for ending in ("keras", "h5"):
        run_plimsoll("convert", tmp_path / "m.keras", tmp_path / f"n.{ending}")
        for path in (tmp_path / "m.keras", tmp_path / f"n.{ending}"):
            done = run_plimsoll("evaluate", path, *arguments, "--batch", BATCH, "--json")
            got = json.loads(done.stdout)
            for key, value in expected.items():
                assert got[key] == pytest.approx(value, rel=1e-5), (path.name, key)


def test_counts_do_not_depend_on_the_limit(tmp_path: Path) -> None:
    """Slices of a batch add up in one order: the same bits within the smallest limit."""
    model = keras.Sequential([
        keras.Input((64, 64, 3)), L.Conv2D(16, 3, activation="relu"),
        L.Conv2D(16, 3, activation="relu"), L.GlobalAveragePooling2D(),
        L.Dense(3, activation="sigmoid"),
    ])  # fmt: skip
    made = lambda: [  # noqa: E731
        M.AUC(multi_label=True), M.Precision([0.3, 0.5, 0.55]), M.F1Score("macro"), M.R2Score(),
        M.PrecisionAtRecall(0.5), M.PearsonCorrelation(), M.BinaryCrossentropy(), M.Recall(top_k=2),
    ]  # fmt: skip
    model.compile("adam", keras.losses.Tversky(), metrics=[*made(), M.BinaryIoU()],
                  weighted_metrics=made())  # fmt: skip
    model.save(tmp_path / "m.keras")
    draw = np.random.default_rng(4)
    arguments: list[Any] = [tmp_path / "m.keras", "--batch", 32]
    for option, array in (("--data", draw.normal(size=(64, 64, 64, 3))),
                          ("--labels", draw.integers(0, 2, (64, 3))),
                          ("--sample-weights", draw.random(64))):  # fmt: skip
        np.save(tmp_path / f"{option[2:]}.npy", array.astype("float32"))
        arguments += [option, tmp_path / f"{option[2:]}.npy"]
    planned = json.loads(run_plimsoll("plan", *arguments, "--json").stdout)
    told, arenas = [], []
    for limit in ([], ["--memory", planned["smallest_same_bits_bytes"] + (4 << 20)]):
        log = tmp_path / "log.jsonl"
        done = run_plimsoll("fit", *arguments, "--epochs", 1, "--log", log, "--json", *limit)
        arenas.append(json.loads(done.stdout)["planned_arena_bytes"])
        epoch = next(row for row in read_log(log) if "epoch" in row)
        told.append({k: v for k, v in epoch.items() if "seconds" not in k and "bytes" not in k})
    assert told[0] == told[1] and len(told[0]) > 20
    assert arenas[1] < arenas[0]


REFUSED = {
    "a loss among the metrics": (lambda: keras.losses.Huber(), "received the loss Huber"),
    "a ratio of whole batches": (lambda: keras.losses.dice, "ratio of whole batches"),
    "F1 of pixels": (M.F1Score, "expected an output of rank 2"),
    "classes that do not fit": (lambda: M.MeanIoU(3), "sparse_y_pred=false"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_mean_is_refused_by_name(name: str, tmp_path: Path) -> None:
    make, message = REFUSED[name]
    pixels = name == "F1 of pixels"
    model = scored("softmax", 3, 2, 3)() if pixels else scored("softmax", 3)()
    loss = "sparse_categorical_crossentropy" if "classes" in name else "categorical_crossentropy"
    model.compile("sgd", loss, metrics=[make()])
    model.save(tmp_path / "m.keras")
    done = run_plimsoll("check", tmp_path / "m.keras", check=False)
    assert message in done.stdout + done.stderr
