"""Activations as layers and as functions of tensors; penalties of a layer's outputs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from cases import images, one_hot, regress
from harness import (
    Case,
    assert_many_steps,
    assert_one_step,
    build_in,
    read_log,
    run_plimsoll,
    save_case,
)
from keras import layers as L
from keras import regularizers as R

# Penalties ----------------------------------------------------------------------------------------


def shared_penalty() -> keras.Model:
    """A layer that is called twice is penalized twice, before its flatter relatives once."""
    x = keras.Input((4,))
    shared = L.Dense(5, activation="tanh", activity_regularizer=R.L2(0.1))
    return keras.Model(x, L.Dense(3)(L.Add()([shared(x), shared(L.Rescaling(0.5)(x))])))


def attention_penalty() -> keras.Model:
    x = keras.Input((4, 3))
    return keras.Model(x, L.LSTM(3, return_sequences=True, activity_regularizer="l2")(x))


PENALTIES: dict[str, Callable[[], Case]] = {
    "l1 of a dense layer": lambda: regress(
        (6,), lambda: L.Dense(8, activation="relu", activity_regularizer=R.L1(0.01))
    ),
    "l2 of images": lambda: regress(
        (6, 6, 2), lambda: L.Conv2D(3, 3, activity_regularizer=R.L2(0.02))
    ),
    "both of an activation": lambda: regress(
        (6,), lambda: L.Dense(4),
        lambda: L.Activation("tanh", activity_regularizer=R.L1L2(0.1, 0.2)),
    ),
    "a layer of its own": lambda: regress(
        (5, 4), lambda: L.Dense(4), lambda: L.ActivityRegularization(l1=0.03, l2=0.01)
    ),
    "all steps of a sequence": lambda: Case(attention_penalty, images(4, 3), images(4, 3), "mse"),
    "a last layer": lambda: Case(
        lambda: keras.Sequential(
            [keras.Input((6,)), L.Dense(3, activation="softmax", activity_regularizer="l1")]
        ),
        images(6), one_hot(3), "categorical_crossentropy",
    ),
    "a shared layer": lambda: Case(shared_penalty, images(4), images(3), "mse"),
    "a layer as an activation": lambda: regress(
        (6,), lambda: L.Dense(4, activation=L.LeakyReLU(0.1, activity_regularizer=R.L1L2(0.1, 0.2)))
    ),
    "a layer as an activation of images": lambda: regress(
        (5, 5, 2), lambda: L.Conv2D(3, 2, activation=L.ELU(activity_regularizer="l2"))
    ),
    "an activation inside of an activation": lambda: regress(
        (6,), lambda: L.Dense(4),
        lambda: L.Activation(L.Activation("tanh", activity_regularizer="l1")),
    ),
}  # fmt: skip


def orthogonal() -> keras.Model:
    rows = R.OrthogonalRegularizer(0.3)
    columns = R.OrthogonalRegularizer(0.2, mode="columns")
    return keras.Sequential(
        [
            keras.Input((7,)),
            L.Dense(5, kernel_regularizer=rows),
            L.Dense(3, kernel_regularizer=columns),
        ]
    )


def test_orthogonal_weights(tmp_path: Path) -> None:
    """Many steps, since Keras's own works in float32 alone."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(0, 1, (40, 7)), rng.normal(0, 1, (40, 3))
    case = Case(orthogonal, x.astype("float32"), y.astype("float32"), "mse")
    assert_many_steps(tmp_path, case, lambda: keras.optimizers.SGD(0.1), 16, 12)


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_of_activities(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, PENALTIES[name]())


@pytest.mark.parametrize(
    "make",
    [
        lambda activation: L.Dense(2, activation=activation),
        lambda activation: L.Activation(activation),
        lambda activation: keras.Sequential([L.Dense(2, activation=activation)]),
    ],
    ids=["dense", "activation", "sequential"],
)
def test_a_penalty_inside_of_time_distributed_is_refused(
    make: Callable[[Any], L.Layer], tmp_path: Path
) -> None:
    penalized = L.ReLU(activity_regularizer="l2")
    model = keras.Sequential([keras.Input((3, 4)), L.TimeDistributed(make(penalized))])
    model.save(tmp_path / "m.keras")
    done = run_plimsoll("check", tmp_path / "m.keras", check=False)
    assert done.returncode == 4
    assert "expected a layer without activity_regularizer" in done.stdout


def test_penalties_are_the_same_at_every_limit(tmp_path: Path) -> None:
    """The sum over the batch is a reduction like any other, so that slices give the same bits."""
    rng = np.random.default_rng(9)
    case = Case(
        lambda: keras.Sequential(
            [
                keras.Input((64, 64, 3)),
                L.Conv2D(16, 3, activation="relu", activity_regularizer=R.L1L2(0.001, 0.002)),
                L.GlobalAveragePooling2D(),
                L.Dense(3),
            ]
        ),
        rng.normal(0, 1, (64, 64, 64, 3)).astype("float32"),
        rng.normal(0, 1, (64, 3)).astype("float32"),
        "mse",
    )
    model = build_in("float32", case, None)
    arguments = save_case(tmp_path, case, model.get_weights(), keras.optimizers.SGD(0.1))
    planned = json.loads(run_plimsoll("plan", *arguments, "--batch", 64, "--threads", 1,
                                      "--json").stdout)  # fmt: skip
    smallest = planned["smallest_same_bits_bytes"]
    assert smallest < planned["predicted_process_bytes"]
    logs = []
    for options in ([], ["--memory", smallest]):
        run_plimsoll("fit", *arguments, "--batch", 64, "--epochs", 3, "--no-shuffle", "--threads",
                     1, "--log-steps", "--log", tmp_path / "log.jsonl", *options)  # fmt: skip
        logs.append([row["loss"] for row in read_log(tmp_path / "log.jsonl") if "step" in row])
    assert logs[0] == logs[1]


def test_penalties_are_evaluated_and_kept(tmp_path: Path) -> None:
    case = PENALTIES["both of an activation"]()
    model = build_in("float32", case, None)
    arguments = save_case(tmp_path, case, model.get_weights(), "sgd")
    model.compile("sgd", case.loss)
    shown = run_plimsoll("evaluate", *arguments, "--batch", len(case.x)).stdout
    expected = model.evaluate(case.x, case.y, len(case.x), verbose=0)
    assert float(shown.split()[1]) == pytest.approx(expected, rel=1e-5)
    run_plimsoll("convert", tmp_path / "model.keras", tmp_path / "out.keras")
    again = keras.saving.load_model(tmp_path / "out.keras")
    assert again.evaluate(case.x, case.y, verbose=0) == pytest.approx(expected, rel=1e-6)


# Activations --------------------------------------------------------------------------------------

LAYERS: dict[str, Callable[[], L.Layer]] = {
    "leaky": lambda: L.LeakyReLU(0.1),
    "bounded": lambda: L.ReLU(max_value=0.5, negative_slope=0.1, threshold=0.1),
    "elu": lambda: L.ELU(0.5),
    "softmax": lambda: L.Softmax(),
    "by name": lambda: L.Activation("gelu"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_as_an_activation(name: str, tmp_path: Path) -> None:
    make = LAYERS[name]
    case = regress((6, 4), lambda: L.Dense(5, activation=make()))
    assert_one_step(tmp_path, case)
    run_plimsoll("convert", tmp_path / "model.keras", tmp_path / "out.keras")
    again = keras.saving.load_model(tmp_path / "out.keras")
    expected = keras.saving.load_model(tmp_path / "model.keras").predict(case.x, verbose=0)
    assert np.allclose(again.predict(case.x, verbose=0), expected, atol=1e-6)


def test_convolutions_with_layers_as_activations(tmp_path: Path) -> None:
    case = regress(
        (6, 6, 2),
        lambda: L.Conv2D(3, 3, activation=L.LeakyReLU(0.2)),
        lambda: L.DepthwiseConv2D(3, activation=L.ReLU(6.0)),
    )
    assert_one_step(tmp_path, case)


def test_a_layer_with_weights_is_no_activation(tmp_path: Path) -> None:
    keras.Sequential([keras.Input((4,)), L.Dense(3, activation=L.PReLU())]).save(
        tmp_path / "m.keras"
    )
    done = run_plimsoll("check", tmp_path / "m.keras", check=False)
    assert done.returncode == 4
    assert "received PReLU. Put it after this one as a layer of its own." in done.stdout


A = keras.activations
# Functions of a tensor that Keras records in a Functional model; it fails at hard_silu.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": A.relu,
    "relu with arguments": lambda x: A.relu(x, negative_slope=0.1, max_value=0.5, threshold=0.2),
    **{
        name: getattr(A, name)
        for name in "leaky_relu relu6 softmax elu selu softplus softsign soft_shrink sparse_plus "
        "silu squareplus gelu celu glu tanh tanh_shrink hard_tanh hard_shrink sigmoid exponential "
        "hard_sigmoid log_sigmoid sparse_sigmoid linear log_softmax".split()
    },
    "threshold": lambda x: A.threshold(x, 0.1, 0.3),
    "gelu by tanh": lambda x: A.gelu(x, approximate=True),
}


def functions() -> keras.Model:
    x = keras.Input((4,))
    parts = [f(L.Dense(4)(x)) for f in FUNCTIONS.values()]
    return keras.Model(x, L.Dense(3)(L.Concatenate()(parts)))


def test_activations_of_tensors(tmp_path: Path) -> None:
    case = Case(functions, images(4), images(3), "mse")
    assert_one_step(tmp_path, case)
    run_plimsoll("convert", tmp_path / "model.keras", tmp_path / "out.keras")
    again = keras.saving.load_model(tmp_path / "out.keras")
    expected = keras.saving.load_model(tmp_path / "model.keras").predict(case.x, verbose=0)
    assert np.allclose(again.predict(case.x, verbose=0), expected, atol=1e-6)
