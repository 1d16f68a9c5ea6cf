"""Layers and models inside of wrappers: statistics of each step, models that are called twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
from harness import Case, assert_many_steps, assert_one_step, build_in, run_plimsoll
from keras import layers as L
from sequence_cases import floats, functional, tokens

SGD = lambda: keras.optimizers.SGD(0.05, momentum=0.9)  # noqa: E731


def over_steps(shape: tuple[int, ...], make: Callable[[], L.Layer]) -> Case:
    """A layer on each step, between layers that give and take a gradient."""

    def call(x: Any) -> Any:
        return L.Dense(2)(L.TimeDistributed(make())(L.Dense(3, use_bias=False)(x)))

    return Case(functional([shape], call), floats(*shape), floats(3), "mse")


def normalization(**options: Any) -> Callable[[], L.Layer]:
    return lambda: L.BatchNormalization(momentum=0.7, **options)


def dense_and_normalized() -> L.Layer:
    return keras.Sequential([L.Dense(3, activation="tanh"), L.BatchNormalization(momentum=0.6)])


CASES = {
    "rows": over_steps((5, 4), normalization()),
    "one step": over_steps((1, 4), normalization()),
    "images": over_steps((3, 4, 2, 4), normalization(scale=False)),
    "images, channels first": over_steps((3, 4, 2, 4), normalization(axis=1, center=False)),
    "steps of steps": over_steps((2, 3, 4), lambda: L.TimeDistributed(normalization()())),
    "in a model": over_steps((5, 4), dense_and_normalized),
    "in a model, steps of steps": over_steps(
        (2, 3, 4), lambda: L.TimeDistributed(dense_and_normalized())
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_statistics_are_those_of_each_step(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_moving_statistics_move_once_a_step(name: str, tmp_path: Path) -> None:
    assert_many_steps(tmp_path, CASES[name], SGD, 7, 6)


@pytest.mark.parametrize("steps", [50, 1500])
def test_long_sequences_are_one_node(steps: int, tmp_path: Path) -> None:
    case = over_steps((steps, 4), normalization())
    build_in("float32", case, None).save(tmp_path / "model.keras")
    answer = run_plimsoll(
        "plan", tmp_path / "model.keras", "--batch", 16, "--loss", "mse", "--optimizer", "sgd"
    )
    assert answer.returncode == 0


def masked(steps: int) -> keras.Model:
    x = keras.Input((steps,), dtype="int32")
    y = L.Embedding(9, 4, mask_zero=True)(x)
    y = L.TimeDistributed(L.BatchNormalization(name="normal"))(y)
    return keras.Model(x, L.Dense(2)(y))


def test_masked_statistics_of_many_steps_are_refused_with_a_way_out(tmp_path: Path) -> None:
    masked(129).save(tmp_path / "model.keras")
    answer = run_plimsoll(
        "plan", tmp_path / "model.keras", "--batch", 4, "--loss", "mse", "--optimizer", "sgd",
        check=False,
    )  # fmt: skip
    assert answer.returncode == 4
    assert "[normal] expected at most 128 steps" in answer.stderr
    assert "received 129" in answer.stderr
    assert "by a Reshape" in answer.stderr


def test_masked_statistics_are_those_of_each_step(tmp_path: Path) -> None:
    case = Case(lambda: masked(5), tokens(5, 9), floats(5, 2), "mse")
    assert_many_steps(tmp_path, case, SGD, 7, 6)


def twice(straight: bool, elsewhere: bool) -> Callable[[], keras.Model]:
    """A model whose inner one is called twice; its second call is the output."""

    def build() -> keras.Model:
        a = keras.Input((4,))
        inner = keras.Model(a, L.Dense(4, activation="tanh")(a), name="inner")
        if elsewhere:
            inner(keras.Input((4,)))  # no part of the model, but counted by Keras
        x = keras.Input((4,))
        if straight:
            y = inner(L.Dense(4)(inner(x)))
        else:
            y = inner(L.Dense(4, activation="relu")(x))
            y = inner(L.Add()([y, L.Dense(4)(y)]))
        outer = keras.Model(x, y)
        steps = keras.Input((3, 4))
        return keras.Model(steps, L.Dense(2)(L.TimeDistributed(outer, name="outer")(steps)))

    return build


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("straight", [False, True])
def test_the_call_that_a_port_names(straight: bool, elsewhere: bool, tmp_path: Path) -> None:
    build = twice(straight, elsewhere)
    outer = build().get_layer("outer").layer
    assert outer.get_config()["output_layers"][1] == 2
    assert_one_step(tmp_path, Case(build, floats(3, 4), floats(3, 2), "mse"))


def test_a_call_that_is_not_there_is_refused(tmp_path: Path) -> None:
    config = json.loads(twice(True, False)().to_json())
    wrapped = next(e for e in config["config"]["layers"] if e["class_name"] == "TimeDistributed")
    wrapped["config"]["layer"]["config"]["output_layers"][1] = 4
    (tmp_path / "model.json").write_text(json.dumps(config))
    answer = run_plimsoll("check", tmp_path / "model.json", check=False)
    assert answer.returncode == 4
    assert "a call of inner between 1 and 2, received 4" in answer.stdout + answer.stderr
