"""keras.losses.CTC and keras.ops.ctc_loss: against Keras, sliced, and what is refused.

TensorFlow computes them in float32 whatever it is given; ours are in double, rounded once.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import read_keras, run_plimsoll
from keras import layers as L
from keras import losses, ops
from test_compile import BATCH, assert_as_keras, numbers, save, weights

STEPS, CLASSES = 9, 5
SPELLED = np.array(
    [[1, 2, 3, 4], [1, 1, 0, 0], [4, 0, 0, 0], [0, 0, 0, 0], [2, 2, 2, 2], [3, 4, 3, 0],
     [1, 2, 1, 1], [4, 4, 0, 0]], "int32",
)  # fmt: skip


def reader(activation: str | None = None) -> keras.Model:
    return keras.Sequential(
        [keras.Input((STEPS, 3)), L.Dense(6, activation="tanh"), L.Dense(CLASSES, activation)]
    )


def compiled(loss: Any) -> keras.Model:
    model = reader()
    model.compile(keras.optimizers.SGD(0.05), loss)
    return model


KINDS: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "by name": (lambda: "ctc", SPELLED),
    "CTC": (losses.CTC, SPELLED),
    "summed": (lambda: losses.CTC(reduction="sum"), SPELLED),
    "of one label": (losses.CTC, SPELLED[:, :1]),
    "wider than there are steps": (losses.CTC, np.pad(SPELLED, [(0, 0), (0, 8)])),
    # No path of nine steps spells nine labels alike: TensorFlow has such a loss at about 707.
    "of labels that steps cannot spell": (losses.CTC, np.pad(SPELLED, [(0, 0), (5, 0)], "edge")),
    "with the blank between labels": (losses.CTC, SPELLED[:, [0, 3, 1]]),
    "of labels as floats": (losses.CTC, SPELLED.astype("float32")),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", KINDS)
def test_two_steps_are_those_of_keras(name: str, weighted: bool, tmp_path: Path) -> None:
    made, y = KINDS[name]
    x = numbers(STEPS, 3)
    assert_as_keras(tmp_path, compiled(made()), x, y, weights() if weighted else None)


def lengths(x: Any, most: int, least: int) -> Any:
    """A number from `least` to `most` for each sample, of its data."""
    drawn = ops.abs(x[:, 0, 0]) * 2.0 + float(least)
    return ops.cast(ops.minimum(drawn, float(most)), "int32")


def labels_of(x: Any) -> Any:
    return ops.cast(ops.minimum(ops.abs(x[:, :3, 1]) * 3.0, 3.0), "int32")


CALLS: dict[str, dict[str, Any]] = {
    "the first class is blank": {},
    "the last class is blank": {"mask_index": -1},
    "a class between is blank": {"mask_index": 2},
}


@pytest.mark.parametrize("name", CALLS)
def test_between_layers(name: str, tmp_path: Path) -> None:
    options = CALLS[name]
    x = keras.Input((STEPS, 3))
    logits = L.Dense(CLASSES)(L.Dense(6, activation="tanh")(x))
    labels = labels_of(x)
    if not options:
        labels = labels + 1
    loss = ops.ctc_loss(labels, logits, lengths(x, 3, 0), lengths(x, STEPS, 6), **options)
    model = keras.Model(x, loss[:, None])
    model.compile(keras.optimizers.SGD(0.05), "mae")
    assert_as_keras(tmp_path, model, numbers(STEPS, 3), np.zeros((2 * BATCH, 1), "float32"))


def test_every_limit_gives_the_same_bits(tmp_path: Path) -> None:
    batch, steps, width = 256, 40, 64
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [keras.Input((steps, 8)), L.Dense(width, "relu"), L.Dense(width, "relu"), L.Dense(12)]
    )
    model.compile(keras.optimizers.SGD(0.001), losses.CTC())
    source = np.random.default_rng(5)
    x = source.normal(size=(batch, steps, 8)).astype("float32")
    y = source.integers(1, 12, (batch, 6)).astype("int32")
    y[::3, 4:] = 0
    arguments = [*save(tmp_path, model, x, y), "--batch", batch]
    planned = json.loads(run_plimsoll("plan", *arguments, "--json").stdout)
    limits = [point["process_bytes"] for point in planned["frontier"]]
    assert any(point["strategy"].startswith("slices") for point in planned["frontier"])
    results = []
    for limit in [None, min(limits)]:
        output = tmp_path / f"out{len(results)}.keras"
        options = [] if limit is None else ["--memory", limit]
        run_plimsoll("fit", *arguments, "--epochs", 2, "--no-shuffle", "--output", output, *options)
        results.append(read_keras(output)[0])
    assert all((results[1][name] == results[0][name]).all() for name in results[0])


REFUSED: dict[str, tuple[Callable[[], keras.Model], np.ndarray, list[Any], str]] = {
    "a label that is no class": (reader, SPELLED + 1, [], "label"),
    "a number for each sample": (reader, SPELLED[:, 0], [], "expected a row of labels"),
    "images": (
        lambda: keras.Sequential([keras.Input((4, 4, 2)), L.Conv2D(CLASSES, 1)]),
        SPELLED, [], "expected logits (B, steps, classes)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path) -> None:
    build, y, metrics, words = REFUSED[name]
    model = build()
    model.compile("sgd", losses.CTC(), metrics=metrics)
    x = numbers(*model.input_shape[1:])
    arguments = save(tmp_path, model, x, y)
    done = run_plimsoll("evaluate", *arguments, "--batch", BATCH, check=False)
    assert done.returncode in (4, 5), done.stdout + done.stderr
    assert words in done.stderr, done.stderr


def test_from_the_command_line(tmp_path: Path) -> None:
    """By name, of a model that says nothing of training."""
    losses_read = []
    for loss in (["--loss", "ctc"], ["--loss", "CTC(reduction=sum)"], []):
        model = reader()
        model.set_weights([np.full(w.shape, 0.25, "float32") for w in model.get_weights()])
        model.compile("sgd", losses.CTC())
        arguments = save(tmp_path, model, numbers(STEPS, 3), SPELLED)
        done = run_plimsoll("evaluate", *arguments, "--batch", BATCH, *loss)
        losses_read.append(float(done.stdout.split()[1]))
    assert losses_read[0] == losses_read[2]
    assert losses_read[1] == pytest.approx(BATCH * losses_read[0], rel=1e-5)


def test_accuracy_is_left_out(tmp_path: Path) -> None:
    model = reader()
    model.compile("sgd", losses.CTC(), metrics=["accuracy"])
    arguments = save(tmp_path, model, numbers(STEPS, 3), SPELLED)
    done = run_plimsoll("evaluate", *arguments, "--batch", BATCH)
    assert "metric accuracy is left out" in done.stderr
    assert "sequences of labels of the loss ctc" in done.stderr


def test_neighbours_of_a_blank_are_alike(tmp_path: Path) -> None:
    """TensorFlow numbers classes below the blank anew, so that the blank is the class before it."""
    labels = np.array([[1, 2, 3], [2, 1, 1], [0, 1, 2], [3, 2, 1]], "float32")
    values = np.concatenate([labels, np.zeros((4, 3 * 4), "float32")], axis=1)
    values[:, 3:] += np.random.default_rng(2).normal(size=(4, 12))
    x = keras.Input((15,))
    logits = ops.reshape(x[:, 3:], (-1, 3, 4))
    length = ops.cast(0.0 * x[:, 0] + 3.0, "int32")
    loss = ops.ctc_loss(ops.cast(x[:, :3], "int32"), logits, length, length, mask_index=2)
    model = keras.Model(x, loss)
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", values)
    run_plimsoll("predict", tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--output",
                 tmp_path / "y.npy")  # fmt: skip
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(values), rtol=1e-5)


def test_no_number_stays_none(tmp_path: Path) -> None:
    x = numbers(STEPS, 3)
    x[3, 2, 1] = np.nan
    model = compiled(losses.CTC())
    arguments = save(tmp_path, model, x, SPELLED)
    done = run_plimsoll("evaluate", *arguments, "--batch", BATCH, check=False)
    assert "loss nan" in done.stdout + done.stderr


def test_validation_labels_are_as_long(tmp_path: Path) -> None:
    arguments = save(tmp_path, compiled(losses.CTC()), numbers(STEPS, 3), SPELLED)
    np.save(tmp_path / "vx.npy", numbers(STEPS, 3))
    np.save(tmp_path / "vy.npy", SPELLED[:, :2])
    done = run_plimsoll("fit", *arguments, "--batch", BATCH, "--epochs", 1, "--validation",
                        tmp_path / "vx.npy", "--validation-labels", tmp_path / "vy.npy",
                        check=False)  # fmt: skip
    assert done.returncode == 5
    assert "expected rows of 4 labels, as the training data has" in done.stderr, done.stderr
