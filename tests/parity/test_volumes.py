"""Layers over volumes: Keras's gradients, who wins a tie, channels first, the same bits."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from cases import lazy, regress
from harness import (
    Case,
    assert_one_step,
    build_in,
    keras_gradients,
    plimsoll_gradients,
    read_keras,
    run_plimsoll,
    save_case,
    shaken_weights,
)
from keras import layers as L

VOLUME = (5, 6, 4, 3)
FIRST: dict[str, Any] = {"data_format": "channels_first"}


def on(*layers: Callable[[], L.Layer]) -> Case:
    return regress(VOLUME, *layers)


def pooled_in_three_ways() -> keras.Model:
    """Totals beside windows, of one tensor."""
    x = keras.Input(VOLUME)
    y = L.Conv3D(4, 1, activation="tanh")(x)
    ways = [
        L.GlobalAveragePooling3D()(y),
        L.GlobalMaxPooling3D()(y),
        L.Flatten()(L.GlobalMaxPooling3D(keepdims=True)(y)),
        L.Flatten()(L.AveragePooling3D((5, 2, 4))(y)),
    ]
    return keras.Model(x, L.Dense(3)(L.Concatenate()(ways)))


# Each layer comes after one with weights, whose gradient is the one that goes through it.
CASES: dict[str, Case] = {
    "conv3d": on(lazy(L.Conv3D, 5, 3, activation="tanh"), lazy(L.Conv3D, 6, (1, 2, 2))),
    "conv3d same strided": on(
        lazy(L.Conv3D, 16, (3, 2, 3), strides=(2, 1, 2), padding="same"),
        lazy(L.Conv3D, 4, 3, strides=2, padding="same", use_bias=False),
    ),
    "conv3d dilated and grouped": on(
        lazy(L.Conv3D, 6, 2, dilation_rate=(2, 3, 1), padding="same", activation="relu"),
        lazy(L.Conv3D, 8, (3, 3, 2), groups=2),
    ),
    "conv3d of single points": on(
        lazy(L.Conv3D, 32, 1, activation="sigmoid"), lazy(L.Conv3D, 24, 1, strides=(2, 1, 2))
    ),
    "conv3d transpose": on(
        lazy(L.Conv3DTranspose, 5, 3, strides=(1, 2, 2), activation="tanh"),
        lazy(L.Conv3DTranspose, 4, 3, strides=2, padding="same", output_padding=(0, 1, 0)),
    ),
    "conv3d transpose same": on(
        lazy(L.Conv3DTranspose, 16, (2, 3, 4), strides=(1, 2, 3), padding="same"),
        lazy(L.Conv3DTranspose, 2, 2, padding="same"),
    ),
    "max pooling3d": on(lazy(L.Conv3D, 5, 2), lazy(L.MaxPooling3D, 2)),
    "max pooling3d overlapping": on(
        lazy(L.Conv3D, 20, 2, padding="same"),
        lazy(L.MaxPooling3D, (3, 2, 3), strides=(1, 2, 1), padding="same"),
    ),
    "average pooling3d": on(lazy(L.Conv3D, 5, 2), lazy(L.AveragePooling3D, 2)),
    "average pooling3d same": on(
        lazy(L.Conv3D, 5, 2),
        lazy(L.AveragePooling3D, (3, 2, 2), strides=(2, 2, 1), padding="same"),
    ),
    "adaptive pooling1d": regress(
        (11, 4),
        lazy(L.Conv1D, 5, 2),
        lazy(L.AdaptiveMaxPooling1D, 4),
        lazy(L.Conv1D, 3, 1),
        lazy(L.AdaptiveAveragePooling1D, 3),
    ),
    "adaptive pooling2d": regress(
        (9, 8, 3),
        lazy(L.Conv2D, 5, 2),
        lazy(L.AdaptiveMaxPooling2D, (6, 4)),
        lazy(L.Conv2D, 4, 1),
        lazy(L.AdaptiveAveragePooling2D, (3, 2)),
    ),
    "adaptive pooling3d": on(
        lazy(L.Conv3D, 4, 1),
        lazy(L.AdaptiveMaxPooling3D, (3, 4, 4)),
        lazy(L.Conv3D, 3, 1),
        lazy(L.AdaptiveAveragePooling3D, 2),
    ),
    "borders of volumes": on(
        lazy(L.Conv3D, 4, 1),
        lazy(L.ZeroPadding3D, ((1, 0), (2, 1), (0, 3))),
        lazy(L.Conv3D, 3, 2),
        lazy(L.Cropping3D, ((0, 1), (1, 2), (2, 0))),
        lazy(L.UpSampling3D, (2, 1, 3)),
        lazy(L.SpatialDropout3D, 0.0),
    ),
}


def assert_beside_float32(folder: Path, case: Case, twin: Case | None = None) -> None:
    """Keras has no poolings of volumes in float64. `twin`: whose gradients are asked of it."""
    asked = twin or case
    weights = shaken_weights(build_in("float32", asked, None), case.noise)
    loss32, peers = keras_gradients("float32", asked, weights)
    loss, ours = plimsoll_gradients(folder, case, weights)
    assert abs(loss - loss32) <= 1e-5 * abs(loss32)
    total = np.sqrt(sum(np.sum(np.square(g)) for g in peers))
    for got, want in zip(ours, peers, strict=True):
        assert got.shape == want.shape
        size = np.linalg.norm(want.ravel())
        assert np.linalg.norm((got - want).ravel()) <= 1e-5 * size + 1e-7 * total


@pytest.mark.parametrize("name", CASES)
def test_layer(name: str, tmp_path: Path) -> None:
    if "pooling" in name:
        assert_beside_float32(tmp_path, CASES[name])
    else:
        assert_one_step(tmp_path, CASES[name])


def test_totals(tmp_path: Path) -> None:
    case = dataclasses.replace(CASES["conv3d"], build=pooled_in_three_ways)
    assert_beside_float32(tmp_path, case)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_who_wins_a_tie(rank: int, tmp_path: Path) -> None:
    """The first maximum has the gradient, but of a volume every equal one has it, in full."""
    convolution = (L.Conv1D, L.Conv2D, L.Conv3D)[rank - 1]
    pooling = (L.MaxPooling1D, L.MaxPooling2D, L.MaxPooling3D)[rank - 1]
    source = np.random.default_rng(5)
    sizes = (4,) * rank
    # One channel of two numbers: under a positive kernel all ones are the maximum.
    x = source.integers(0, 2, (6, *sizes, 1)).astype("float32")
    y = source.normal(size=(6, 3)).astype("float32")

    def build() -> keras.Model:
        image = keras.Input((*sizes, 1))
        h = convolution(2, 1, kernel_initializer="ones", bias_initializer="ones")(image)
        return keras.Model(image, L.Dense(3)(L.Flatten()(pooling(2, strides=1)(h))))

    assert_beside_float32(tmp_path, Case(build, x, y, "mse", noise=0.01))


def chain(data_format: str) -> Callable[[], keras.Model]:
    """The same network of channels first and, with a permutation in front, of channels last."""
    options = {"data_format": data_format}

    def build() -> keras.Model:
        x = keras.Input((3, 4, 6, 5))
        y = L.Permute((2, 3, 4, 1))(x) if data_format == "channels_last" else x
        y = L.Conv3D(6, (2, 3, 2), padding="same", activation="tanh", **options)(y)
        y = L.MaxPooling3D((1, 2, 2), **options)(y)
        y = L.ZeroPadding3D((1, 0, 1), **options)(y)
        y = L.Conv3DTranspose(4, 2, strides=(1, 2, 1), **options)(y)
        y = L.AveragePooling3D(2, padding="same", **options)(y)
        y = L.UpSampling3D((1, 2, 2), **options)(y)
        y = L.Cropping3D(((1, 0), (0, 1), (1, 1)), **options)(y)
        y = L.SpatialDropout3D(0.0, **options)(y)
        total = L.GlobalAveragePooling3D(**options)(y)
        most = L.GlobalMaxPooling3D(**options)(y)
        y = L.Concatenate()([L.Flatten(**options)(y), total, most])
        return keras.Model(x, L.Dense(3)(y))

    return build


def test_channels_first(tmp_path: Path) -> None:
    """Keras on the CPU has no convolution of that layout: its twin of channels last is asked."""
    source = np.random.default_rng(6)
    x = source.normal(size=(5, 3, 4, 6, 5)).astype("float32")
    y = source.normal(size=(5, 3)).astype("float32")
    first, last = (Case(chain(f"channels_{end}"), x, y, "mse") for end in ("first", "last"))
    assert_beside_float32(tmp_path, first, twin=last)


def recurrence(data_format: str) -> Callable[[], keras.Model]:
    """Images that follow each other, channels first and, permuted, channels last."""
    options = {"data_format": data_format}

    def build() -> keras.Model:
        x = keras.Input((3, 2, 5, 4))
        y = L.Permute((1, 3, 4, 2))(x) if data_format == "channels_last" else x
        y = L.ConvLSTM2D(3, 2, strides=(2, 1), return_sequences=True, **options)(y)
        y, h, c = L.ConvLSTM2D(2, (1, 2), padding="same", return_state=True, **options)(y)
        y = L.Concatenate()([L.GlobalAveragePooling2D(**options)(one) for one in (y, h, c)])
        return keras.Model(x, L.Dense(3)(y))

    return build


def test_recurrence_of_channels_first(tmp_path: Path) -> None:
    source = np.random.default_rng(7)
    x = source.normal(size=(5, 3, 2, 5, 4)).astype("float32")
    y = source.normal(size=(5, 3)).astype("float32")
    first, last = (Case(recurrence(f"channels_{end}"), x, y, "mse") for end in ("first", "last"))
    assert_beside_float32(tmp_path, first, twin=last)


def test_dropped_channels_are_dropped_whole(tmp_path: Path) -> None:
    """What trains through SpatialDropout3D sees a channel at all places or at none."""

    def build() -> keras.Model:
        x = keras.Input((2, 3, 2, 8))
        y = L.GlobalAveragePooling3D()(L.SpatialDropout3D(0.5)(x))
        return keras.Model(x, L.Dense(1, use_bias=False)(y))

    case = Case(build, np.ones((1, 2, 3, 2, 8), "float32"), np.zeros((1, 1), "float32"), "mse")
    weights = [np.ones((8, 1), "float32")]
    _, (gradient,) = plimsoll_gradients(tmp_path, case, weights)
    # The mean of a channel is 0 or 2, and with it the gradient of its weight.
    kept = gradient[:, 0] != 0
    assert 0 < kept.sum() < 8
    assert np.allclose(gradient[kept, 0], 2 * 2 * (2 * kept.sum()))


def network() -> keras.Model:
    x = keras.Input((12, 16, 16, 2))
    y = L.Conv3D(8, 3, padding="same", activation="relu")(x)
    skip = y
    y = L.BatchNormalization()(L.Conv3D(16, 3, padding="same")(L.MaxPooling3D(2)(y)))
    y = L.Conv3DTranspose(8, 2, strides=2)(L.Activation("tanh")(y))
    y = L.AveragePooling3D((2, 4, 4))(L.Concatenate()([skip, y]))
    y = L.SpatialDropout3D(0.1)(L.Conv3D(8, 2, groups=2)(y))
    return keras.Model(x, L.Dense(4, activation="softmax")(L.GlobalAveragePooling3D()(y)))


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_limit_changes_no_bit(precision: str, tmp_path: Path) -> None:
    source = np.random.default_rng(7)
    x = source.normal(size=(40, 12, 16, 16, 2)).astype("float32")
    y = source.integers(0, 4, 40).astype("int32")
    case = Case(network, x, y, "sparse_categorical_crossentropy")
    weights = shaken_weights(build_in("float32", case, None), case.noise)
    arguments = save_case(tmp_path, case, weights, keras.optimizers.Adam(0.01))
    plan = ("--batch", 32, "--precision", precision, "--json")
    answer = json.loads(run_plimsoll("plan", *arguments, *plan).stdout)
    smallest = answer["smallest_same_bits_bytes"]
    results = []
    for limit in (None, (smallest + answer["predicted_process_bytes"]) // 2, smallest + 2**20):
        output = tmp_path / f"out{len(results)}.keras"
        within = [] if limit is None else ["--memory", limit]
        done = run_plimsoll("fit", *arguments, *plan, "--steps", 2, "--epochs", 2, "--no-shuffle",
                            "--output", output, *within)  # fmt: skip
        run = json.loads(done.stdout)
        assert run["block_set"] == 0
        assert run["measured_process_bytes"] <= run["predicted_process_bytes"]
        assert limit is None or run["predicted_process_bytes"] <= limit
        results.append((run, *read_keras(output)))
    free, *others = results
    arenas = [run["planned_arena_bytes"] for run, *_ in results]
    assert arenas == sorted(arenas, reverse=True)  # by how much depends on the processor
    for run, plain, slots in others:
        assert run["loss"] == free[0]["loss"]
        assert all((plain[name] == free[1][name]).all() for name in free[1])
        assert all((a == b).all() for a, b in zip(slots, free[2], strict=True))
