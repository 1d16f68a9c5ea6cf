"""use_ema: averages of weights beside them, in their place every so many steps and in the end."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from harness import run_plimsoll
from keras import layers as L

OF = keras.optimizers
EVERY = {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 3}
OPTIMIZERS: dict[str, Callable[[], OF.Optimizer]] = {
    "sgd": lambda: OF.SGD(0.1, use_ema=True, ema_momentum=0.9),
    "sgd momentum": lambda: OF.SGD(0.05, momentum=0.8, **EVERY),
    "adam": lambda: OF.Adam(0.01, **EVERY),
    "adamw": lambda: OF.AdamW(0.01, use_ema=True, weight_decay=0.02),
    "rmsprop": lambda: OF.RMSprop(0.004, momentum=0.5, centered=True, **EVERY),
    "adafactor": lambda: OF.Adafactor(0.02, use_ema=True, ema_momentum=0.5),
    "nadam": lambda: OF.Nadam(0.01, **EVERY),
    "ftrl": lambda: OF.Ftrl(0.1, **EVERY),
    "lion": lambda: OF.Lion(0.002, use_ema=True, ema_momentum=0.7, clipnorm=0.5),
    "muon": lambda: OF.Muon(0.01, **EVERY),
}


def network(optimizer: OF.Optimizer) -> keras.Model:
    keras.utils.set_random_seed(7)
    x = keras.Input((6,))
    y = L.Dense(8, activation="tanh", kernel_constraint="max_norm", name="first")(x)
    y = L.Dense(5, trainable=False, name="frozen")(y)
    model = keras.Model(x, L.Dense(2, name="last")(y))
    model.compile(optimizer, "mse")
    return model


def samples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    return (rng.normal(0, 1, (20, 6)).astype("float32"),
            rng.normal(0, 1, (20, 2)).astype("float32"))  # fmt: skip


def saved(folder: Path, model: keras.Model) -> list[object]:
    x, y = samples()
    model.save(folder / "model.keras")
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    return [folder / "model.keras", "--data", folder / "x.npy", "--labels", folder / "y.npy",
            "--batch", 8, "--no-shuffle", "--output", folder / "out.keras"]  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weights_and_averages_are_keras(name: str, tmp_path: Path) -> None:
    """After two epochs of three steps, the last of them on a short batch."""
    model = network(OPTIMIZERS[name]())
    run_plimsoll("fit", *saved(tmp_path, model), "--epochs", 2)
    model.fit(*samples(), 8, 2, shuffle=False, verbose=0)
    ours = keras.saving.load_model(tmp_path / "out.keras")
    for got, want in zip(ours.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
    slots = [np.asarray(v) for v in ours.optimizer.variables]
    wanted = [np.asarray(v) for v in model.optimizer.variables]
    for variable, got, want in zip(model.optimizer.variables, slots, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=variable.path)


def test_a_resumed_run_goes_on_from_the_weights(tmp_path: Path) -> None:
    """What a checkpoint has are the weights, not their averages."""
    whole, part = tmp_path / "whole", tmp_path / "part"
    for folder in (whole, part):
        folder.mkdir()
    arguments = saved(whole, network(OPTIMIZERS["adamw"]()))
    run_plimsoll("fit", *arguments, "--epochs", 4)
    arguments = saved(part, network(OPTIMIZERS["adamw"]()))
    kept = ["--checkpoint", part / "kept.ckpt"]
    run_plimsoll("fit", *arguments, *kept, "--epochs", 2)
    run_plimsoll("fit", *arguments, *kept, "--resume", "--epochs", 4)
    a, b = (keras.saving.load_model(f / "out.keras").get_weights() for f in (whole, part))
    assert all((x == y).all() for x, y in zip(a, b, strict=True))


def test_a_loss_scale_around_it_is_refused(tmp_path: Path) -> None:
    optimizer = OF.LossScaleOptimizer(OF.SGD(0.1, use_ema=True))
    done = run_plimsoll("fit", *saved(tmp_path, network(optimizer)), check=False)
    assert done.returncode == 4
    assert "one without use_ema" in done.stderr


def test_the_file_has_the_averages(tmp_path: Path) -> None:
    model = network(OPTIMIZERS["sgd"]())
    run_plimsoll("fit", *saved(tmp_path, model), "--epochs", 1)
    ours = keras.saving.load_model(tmp_path / "out.keras")
    averages = [v for v in ours.optimizer.variables if v.path.endswith("_average")]
    assert len(averages) == len(ours.trainable_variables)
    for average, weight in zip(averages, ours.trainable_variables):
        # They took the weights' places.
        np.testing.assert_array_equal(average.numpy(), weight.numpy())


def test_the_smallest_limit_holds_with_the_same_bits(tmp_path: Path) -> None:
    """The averages are state as slots are, and the program that takes them is planned with it."""
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((784,)), L.Dense(1024, "relu"), L.Dense(10)])
    model.compile(OF.Adam(**EVERY), "mse")
    model.save(tmp_path / "model.keras")
    rng = np.random.default_rng(3)
    np.save(tmp_path / "x.npy", rng.normal(0, 1, (256, 784)).astype("float32"))
    np.save(tmp_path / "y.npy", rng.normal(0, 1, (256, 10)).astype("float32"))
    words = [tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--labels",
             tmp_path / "y.npy", "--batch", 64]  # fmt: skip
    told = json.loads(run_plimsoll("plan", *words, "--json").stdout)
    variables = 4 * 4 * model.count_params()  # weights, two slots, averages
    assert told["smallest_feasible_bytes"] > variables
    output = tmp_path / "out.weights.h5"
    found = []
    for limit in ([], ["--memory", f"{told['smallest_feasible_bytes']}B"]):
        done = run_plimsoll("fit", *words, "--no-shuffle", "--epochs", 2, "--output", output,
                            "--json", *limit)  # fmt: skip
        run = json.loads(done.stdout)
        assert run["measured_process_bytes"] <= run["predicted_process_bytes"]
        found.append(hashlib.sha256(output.read_bytes()).hexdigest())
    assert found[0] == found[1]
