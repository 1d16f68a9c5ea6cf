"""Models of mixed_float16, and optimizers that scale losses, against Keras in float32.

Layers of mixed_float16 are computed in float32. A step whose gradients are not finite is skipped as
Keras skips it, and the scale goes on as Keras's does.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import plimsoll

L = keras.layers
OF = keras.optimizers
X = np.random.default_rng(0).normal(size=(48, 5)).astype("float32")
X[17] = 0  # where a root has no gradient: that of the third of six batches is not finite
Y = np.random.default_rng(1).normal(size=(48, 2)).astype("float32")

INNER: dict[str, Callable[[], Any]] = {
    "clipped adam": lambda: OF.Adam(0.01, global_clipnorm=0.5),
    "a schedule": lambda: OF.RMSprop(OF.schedules.ExponentialDecay(0.01, 3, 0.5), momentum=0.3),
}


def made(optimizer: Any, policy: str = "float32", functional: bool = True) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    keras.config.set_dtype_policy(policy)
    inputs = keras.Input((5,))
    first = L.Dense(6, use_bias=False, dtype=policy, name="a")
    rest = [
        L.LayerNormalization(dtype=policy, name="n"),
        L.Dense(2, dtype="float32", name="b"),
    ]
    if not functional:
        model = keras.Sequential([inputs, first, *rest])
    else:
        x = keras.ops.sqrt(keras.ops.abs(first(inputs)))
        for layer in rest:
            x = layer(x)
        model = keras.Model(inputs, x)
    model.compile(optimizer, "mse")
    keras.config.set_dtype_policy("float32")
    return model


def state(model: keras.Model) -> list[np.ndarray]:
    variables = [*model.variables, *model.optimizer.variables]
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]


def assert_alike(ours: keras.Model, theirs: keras.Model) -> None:
    for mine, own in zip(state(ours), state(theirs), strict=True):
        np.testing.assert_allclose(mine, own, rtol=1e-3, atol=1e-5)


def run(build_dir: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [build_dir / "bin" / "plimsoll", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def file_of(model: keras.Model, folder: Path, ending: str) -> list[Any]:
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    model.save(folder / f"m{ending}")
    return [folder / f"m{ending}", "--data", folder / "x.npy", "--labels", folder / "y.npy"]


FIT = {"batch_size": 8, "epochs": 2, "shuffle": False, "verbose": 0}


@pytest.mark.parametrize("name", INNER)
def test_a_live_model_skips_the_steps_that_keras_skips(name: str) -> None:
    scaled = lambda: OF.LossScaleOptimizer(INNER[name](), 1024.0, 3)  # noqa: E731
    theirs, ours = made(scaled()), made(scaled())
    theirs.fit(X, Y, **FIT)
    plimsoll.fit(ours, X, Y, **FIT)
    assert ours.optimizer.iterations == 10  # of twelve
    assert ours.optimizer.dynamic_scale == 1024  # doubled twice, halved twice
    assert_alike(ours, theirs)
    theirs.train_on_batch(X[:8], Y[:8])
    ours.train_on_batch(X[:8], Y[:8])
    assert_alike(ours, theirs)


def test_the_policy_of_a_program() -> None:
    """Keras puts the scale around the optimizer; a fit that goes on has it."""
    ours = made("adam", "mixed_float16")
    assert isinstance(ours.optimizer, OF.LossScaleOptimizer)
    plimsoll.fit(ours, X, Y, **FIT)
    theirs = made(OF.LossScaleOptimizer(OF.Adam()))
    theirs.fit(X, Y, **FIT)
    assert_alike(ours, theirs)


@pytest.mark.parametrize(
    ("form", "ending"),
    [
        ("sequential", ".h5"),
        ("sequential", ".keras"),
        ("functional", ".keras"),
        ("named", ".keras"),
    ],
)
def test_a_file_goes_on_here_and_in_keras(
    form: str, ending: str, build_dir: Path, tmp_path: Path
) -> None:
    optimizer = OF.LossScaleOptimizer(OF.Adam(0.01), 64.0, 3) if form == "named" else "adam"
    model = made(optimizer, "mixed_float16", form != "sequential")
    model.fit(X[:16], Y[:16], **FIT)
    arguments = file_of(model, tmp_path, ending)
    before, steps = state(model), int(model.optimizer.iterations)
    output = tmp_path / f"out{ending}"
    done = run(build_dir, "fit", *arguments, "--batch", 8, "--epochs", 1,
                        "--no-shuffle", "--json", "--output", output)  # fmt: skip
    assert "layers of mixed_float16 are computed in float32" in done.stderr
    assert json.loads(done.stdout)["steps"] == 6
    again = keras.saving.load_model(output)
    assert again.get_layer("a").compute_dtype == "float16"
    scale = again.optimizer
    assert isinstance(scale, OF.LossScaleOptimizer)
    # Keras itself does not read what is inside of a scale from an .h5 file.
    assert ending == ".h5" or scale.iterations == steps + (6 if form == "sequential" else 5)
    scaled = OF.LossScaleOptimizer(OF.Adam(0.01), 64.0, 3)
    single = made(scaled if form == "named" else OF.LossScaleOptimizer(OF.Adam()),
                  functional=form != "sequential")  # fmt: skip
    single.optimizer.build(single.trainable_variables)
    for variable, value in zip([*single.variables, *single.optimizer.variables], before):
        variable.assign(value)
    single.fit(X, Y, **FIT | {"epochs": 1})
    count = len(single.variables) if ending == ".h5" else None
    for mine, own in zip(state(again)[:count], state(single)[:count], strict=True):
        np.testing.assert_allclose(mine, own, rtol=1e-3, atol=1e-5)


def test_nadam_inside_of_a_scale_is_refused() -> None:
    with pytest.raises(plimsoll.Refused, match="loss_scale_optimizer, inner_optimizer"):
        plimsoll.fit(made(OF.LossScaleOptimizer(OF.Nadam())), X, Y, **FIT)


def test_a_limit_changes_no_bit(build_dir: Path, tmp_path: Path) -> None:
    arguments = file_of(made("adam", "mixed_float16"), tmp_path, ".keras")
    asked = [*arguments, "--batch", 32, "--epochs", 2, "--no-shuffle", "--json"]
    answer = json.loads(run(build_dir, "plan", *arguments, "--batch", 32, "--json").stdout)
    found = []
    for name, limit in (("free", []), ("small", ["--memory", answer["smallest_same_bits_bytes"]])):
        run(build_dir, "fit", *asked, "--output", tmp_path / f"{name}.keras", *limit)
        found.append(state(keras.saving.load_model(tmp_path / f"{name}.keras")))
    for one, other in zip(*found, strict=True):
        assert (one == other).all()


def test_a_scale_ends_where_nothing_else_would_end_it() -> None:
    """Losses are not scaled here, so no gradient overflows by the scale."""
    model = made(OF.LossScaleOptimizer(OF.SGD(0.0), 2.0**23, dynamic_growth_steps=1))
    plimsoll.fit(model, X[:16], Y[:16], batch_size=4, epochs=1, shuffle=False, verbose=0)
    assert float(model.optimizer.dynamic_scale) == 2.0**24
