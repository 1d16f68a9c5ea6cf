"""Mixed precision: one step beside Keras's mixed_bfloat16, the same bits at every limit."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import (
    Case,
    build_in,
    keras_gradients,
    plimsoll_gradients,
    read_keras,
    run_plimsoll,
    save_case,
    shaken_weights,
)
from keras import layers as L

# A share of a gradient's norm: a few roundings of eight binary places.
FLOOR = 2.0**-7


def ending(x: keras.KerasTensor, classes: int) -> keras.KerasTensor:
    """As Keras advises: what comes out is float32."""
    return L.Activation("softmax", dtype="float32")(L.Dense(classes)(x))


def pooled() -> keras.Model:
    x = keras.Input((20, 20, 3))
    y = L.MaxPooling2D(2)(L.Conv2D(32, 3, activation="relu")(x))
    y = L.MaxPooling2D(2)(L.Conv2D(48, 3, activation="relu")(y))
    return keras.Model(x, ending(L.Dense(64, activation="relu")(L.Flatten()(y)), 5))


def normalized() -> keras.Model:
    """Residual blocks, joins, averages, strides, groups, and a transposed convolution."""
    x = keras.Input((12, 12, 3))
    y = L.ReLU()(L.BatchNormalization()(L.Conv2D(16, 3, padding="same", use_bias=False)(x)))
    z = L.BatchNormalization()(L.Conv2D(16, 3, padding="same", groups=4)(y))
    y = L.Activation("swish")(L.Add()([y, z]))
    z = L.Conv2DTranspose(8, 2, strides=2)(L.AveragePooling2D(2)(y))
    y = L.Concatenate()([y, z])
    y = L.DepthwiseConv2D(3, strides=2, padding="same")(y)
    return keras.Model(x, ending(L.GlobalAveragePooling2D()(y), 4))


def sequences() -> keras.Model:
    """Layers that compute in float32 between those that do not."""
    x = keras.Input((9, 6))
    y = L.LSTM(12, return_sequences=True)(L.Dense(8, activation="tanh")(x))
    y = L.LayerNormalization()(y)
    y = L.Add()([y, L.MultiHeadAttention(2, 4)(y, y)])
    return keras.Model(x, ending(L.GlobalMaxPooling1D()(y), 3))


def scaled() -> keras.Model:
    """A residual block between normalizations by the root mean square."""
    x = keras.Input((24, 32))
    y = L.Dense(48)(x)
    y = L.Add()([y, L.Dense(48, activation="gelu")(L.RMSNormalization()(y))])
    y = L.RMSNormalization(axis=[1, 2], epsilon=1e-5)(y)
    return keras.Model(x, ending(L.GlobalAveragePooling1D()(y), 4))


def dense() -> keras.Model:
    x = keras.Input((40,))
    y = L.Dense(96, activation="relu")(x)
    y = L.Multiply()([y, L.Dense(96, activation="sigmoid")(y)])
    return keras.Model(x, ending(y, 6))


NETWORKS: dict[str, Callable[[], keras.Model]] = {
    "pooled": pooled,
    "normalized": normalized,
    "sequences": sequences,
    "scaled": scaled,
    "dense": dense,
}


def case_of(name: str, samples: int = 13) -> Case:
    source = np.random.default_rng(11)
    model = NETWORKS[name]()
    x = source.normal(size=(samples, *model.input_shape[1:])).astype("float32")
    y = source.integers(0, model.output_shape[-1], samples).astype("int32")
    return Case(NETWORKS[name], x, y, "sparse_categorical_crossentropy")


def in_mixed_precision(case: Case) -> Case:
    """The case with Keras's policy for every layer that names none."""

    def build() -> keras.Model:
        keras.config.set_dtype_policy("mixed_bfloat16")
        try:
            return case.build()
        finally:
            keras.config.set_dtype_policy("float32")

    return dataclasses.replace(case, build=build)


@pytest.mark.parametrize("name", NETWORKS)
def test_one_step(name: str, tmp_path: Path) -> None:
    """Each gradient at most twice as far from float64's as Keras's own, or a few roundings."""
    case = case_of(name)
    weights = shaken_weights(build_in("float32", case, None), case.noise)
    loss64, exact = keras_gradients("float64", case, weights)
    keras.config.set_floatx("float32")
    mixed_loss, mixed = keras_gradients("float32", in_mixed_precision(case), weights)
    loss, ours = plimsoll_gradients(tmp_path, case, weights, "--precision", "bf16")
    assert abs(loss - loss64) <= max(2 * abs(mixed_loss - loss64), 0.01 * abs(loss64))
    total = np.sqrt(sum(np.sum(np.square(g)) for g in exact))
    shares = []
    errors = []
    for got, want, peer in zip(ours, exact, mixed, strict=True):
        error = np.linalg.norm((got - want).ravel())
        errors.append(error)
        allowed = max(
            2 * np.linalg.norm((peer - want).ravel()),
            FLOOR * np.linalg.norm(want.ravel()),
            1e-4 * FLOOR * total,
        )
        shares.append(error / allowed)
    print(f"{len(ours)} gradients: the worst has {max(shares):.2f} of what it may be off; "
          f"together {np.linalg.norm(errors) / total:.1e} of their norm")  # fmt: skip
    assert max(shares) <= 1
    assert np.linalg.norm(errors) > 1e-4 * total, "this was float32"


def fit(folder: Path, arguments: list[Any], name: str, *options: Any) -> tuple[dict, dict, list]:
    output = folder / f"{name}.keras"
    done = run_plimsoll("fit", *arguments, "--batch", 64, "--steps", 6, "--epochs", 9,
                        "--no-shuffle", "--json", "--output", output, *options)  # fmt: skip
    return json.loads(done.stdout), *read_keras(output)


def same_bits(one: tuple[dict, dict, list], other: tuple[dict, dict, list]) -> bool:
    return (
        one[0]["loss"] == other[0]["loss"]
        and all((one[1][name] == other[1][name]).all() for name in one[1])
        and all((a == b).all() for a, b in zip(one[2], other[2], strict=True))
    )


@pytest.mark.parametrize("name", ["pooled", "normalized", "scaled"])
def test_a_limit_changes_no_bit(name: str, tmp_path: Path) -> None:
    case = case_of(name, samples=150)
    weights = shaken_weights(build_in("float32", case, None), case.noise)
    arguments = save_case(tmp_path, case, weights, keras.optimizers.Adam(0.01))
    mixed = ("--precision", "bf16")
    free = fit(tmp_path, arguments, "free", *mixed)
    answer = json.loads(run_plimsoll("plan", *arguments, "--batch", 64, "--json", *mixed).stdout)
    assert answer["precision"] == "bf16"
    small = answer["smallest_same_bits_bytes"] + 2**20
    within = fit(tmp_path, arguments, "within", *mixed, "--memory", small)
    assert within[0]["block_set"] == 0
    assert within[0]["measured_process_bytes"] <= small
    for run in (free, within):
        assert run[0]["measured_process_bytes"] <= run[0]["predicted_process_bytes"]
    assert same_bits(free, within)
    single = fit(tmp_path, arguments, "single", "--precision", "f32")
    assert not same_bits(free, single)
    assert single[0]["planned_arena_bytes"] > 0


def test_the_policies_of_a_file_are_honoured(tmp_path: Path) -> None:
    case = case_of("dense", samples=70)
    weights = shaken_weights(build_in("float32", case, None), case.noise)
    plain = save_case(tmp_path, case, weights, keras.optimizers.Adam(0.01))
    (tmp_path / "mixed").mkdir()
    mixed = save_case(
        tmp_path / "mixed", in_mixed_precision(case), weights, keras.optimizers.Adam(0.01)
    )
    asked = fit(tmp_path, plain, "asked", "--precision", "bf16")
    single = fit(tmp_path, plain, "single")
    of_file = fit(tmp_path / "mixed", mixed, "of_file")
    forced = fit(tmp_path / "mixed", mixed, "forced", "--precision", "f32")
    assert same_bits(forced, single)
    assert same_bits(of_file, asked)
    assert not same_bits(of_file, single)
    again = keras.saving.load_model(tmp_path / "mixed" / "of_file.keras")
    assert again.layers[1].compute_dtype == "bfloat16"


def test_other_precisions_are_refused(tmp_path: Path) -> None:
    case = case_of("dense")
    arguments = save_case(tmp_path, case, build_in("float32", case, None).get_weights(), "sgd")
    done = run_plimsoll("plan", arguments[0], "--precision", "f16", check=False)
    assert done.returncode == 2
    assert "--precision: expected f32 or bf16, received f16" in done.stderr
