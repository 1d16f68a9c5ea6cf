"""Keras as the oracle: the same model, weights and data through Keras and through the built binary.

A gradient is read off Plimsoll without a special door: one step of SGD with momentum and learning
rate 1 from a zero momentum leaves minus the gradient in the momentum slot, exactly.
"""

import io
import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import numpy as np
import tensorflow as tf

ROOT = Path(__file__).parents[2]
BINARY = Path(os.environ.get("PLIMSOLL_BUILD", ROOT / "build/dev")) / "bin/plimsoll"


@dataclass
class Case:
    """One model with the data and the training configuration that it is tried with."""

    build: Callable[[], keras.Model]
    x: np.ndarray
    y: np.ndarray
    loss: Any
    sample_weight: np.ndarray | None = None
    metrics: list[Any] = field(default_factory=list)
    noise: float = 0.05  # that initial weights are moved by


def predicted(
    folder: Path, call: Callable[[Any], Any], values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What Plimsoll and Keras predict with a model that is that call."""
    x = keras.Input(values.shape[1:], dtype=values.dtype.name)
    model = keras.Model(x, call(x))
    model.save(folder / "model.keras")
    np.save(folder / "x.npy", values)
    run_plimsoll("predict", folder / "model.keras", "--data", folder / "x.npy", "--output",
                 folder / "y.npy")  # fmt: skip
    return np.load(folder / "y.npy"), np.asarray(model(values))


def run_plimsoll(*arguments: Any, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs the binary; with `check`, a failure shows its messages."""
    result = subprocess.run(
        [str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=600
    )
    if check and result.returncode != 0:
        raise AssertionError(
            f"plimsoll {' '.join(map(str, arguments))}\nexit {result.returncode}\n"
            f"{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
        )
    return result


def assert_refused(folder: Path, x: Any, call: Callable[[Any], Any], words: str) -> None:
    """A model of that call on the input is refused in these words."""
    keras.Model(x, call(x)).save(folder / "model.keras")
    done = run_plimsoll("check", folder / "model.keras", check=False)
    assert done.returncode == 4
    assert words in done.stdout + done.stderr, done.stdout + done.stderr


def at_float64(config: Any) -> Any:
    """A layer's configuration with float64 in place of float32, in layers inside of it too."""
    if isinstance(config, list):
        return [at_float64(item) for item in config]
    if not isinstance(config, dict):
        return config
    if config.get("class_name") == "DTypePolicy":
        return "float64"
    return {
        key: "float64" if key == "dtype" and value == "float32" else at_float64(value)
        for key, value in config.items()
    }


def float64_twin(model: keras.Model) -> keras.Model:
    """The model in float64, with the constants that it was built with. Its weights are new."""
    return keras.models.clone_model(
        model,
        clone_function=lambda layer: layer.__class__.from_config(at_float64(layer.get_config())),
    )


def build_in(floatx: str, case: Case, weights: list[np.ndarray] | None) -> keras.Model:
    """Builds the case's model at a precision; the weights come from outside where given."""
    keras.config.set_floatx(floatx)
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(7)
    model = case.build()
    config = str(model.get_config())
    if floatx == "float64" and ("float32" in config or "__tensor__" in config):
        # A layer has a dtype of its own, or a constant was drawn that is another in float64.
        keras.config.set_floatx("float32")
        keras.utils.clear_session(free_memory=False)
        keras.utils.set_random_seed(7)
        single = case.build()
        keras.config.set_floatx("float64")
        model = float64_twin(single)
    if weights is not None:
        model.set_weights([w.astype(floatx) for w in weights])
        for layer in model._flatten_layers():
            if isinstance(layer, keras.layers.Normalization):
                layer.finalize_state()  # what it has of its statistics, as after loading
    return model


def shaken_weights(
    model: keras.Model, noise: float = Case.noise, seed: int = 3
) -> list[np.ndarray]:
    """Initial weights with biases, scales and statistics moved off zero and one."""
    rng = np.random.default_rng(seed)
    shaken = []
    for variable, value in zip(model.weights, model.get_weights()):
        moved = rng.normal(0, noise, value.shape).astype("float32")
        shaken.append(value + (np.abs(moved) if "variance" in variable.path else moved))
    return shaken


def keras_gradients(
    floatx: str, case: Case, weights: list[np.ndarray]
) -> tuple[float, list[np.ndarray]]:
    """Loss and gradients of the trainable variables of one full-batch step, training=True."""
    model = build_in(floatx, case, weights)
    model.compile("sgd", loss=case.loss)
    cast = lambda a: a.astype(floatx) if a.dtype.kind == "f" else a  # noqa: E731
    sample_weight = None if case.sample_weight is None else tf.constant(cast(case.sample_weight))
    with tf.GradientTape() as tape:
        predictions = model(tf.constant(cast(case.x)), training=True)
        loss = model.compute_loss(
            y=tf.constant(cast(case.y)), y_pred=predictions, sample_weight=sample_weight
        )
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    return float(loss), [tf.convert_to_tensor(g).numpy() for g in gradients]


def save_case(folder: Path, case: Case, weights: list[np.ndarray], optimizer: Any) -> list[Any]:
    """Writes model and data; returns the command-line arguments that name them."""
    model = build_in("float32", case, weights)
    model.compile(optimizer, loss=case.loss, metrics=case.metrics)
    model.save(folder / "model.keras")
    np.save(folder / "x.npy", case.x)
    np.save(folder / "y.npy", case.y)
    arguments = [folder / "model.keras", "--data", folder / "x.npy", "--labels", folder / "y.npy"]
    if case.sample_weight is not None:
        np.save(folder / "w.npy", case.sample_weight)
        arguments += ["--sample-weights", folder / "w.npy"]
    return arguments


def read_keras(path: Path) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """All weights of a .keras file by path, and the optimizer's variables in order."""
    weights: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(path) as archive:
        with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file:
            file.visititems(
                lambda name, item: (
                    weights.update({name: np.array(item)})
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
    slots = {k: v for k, v in weights.items() if k.startswith("optimizer/")}
    ordered = [slots[f"optimizer/vars/{i}"] for i in range(len(slots))]
    return {k: v for k, v in weights.items() if k not in slots}, ordered


def read_log(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of a --log file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def plimsoll_gradients(
    folder: Path, case: Case, weights: list[np.ndarray], *options: Any
) -> tuple[float, list[np.ndarray]]:
    """Loss and gradients of one full-batch step by the built binary."""
    optimizer = keras.optimizers.SGD(1.0, momentum=0.5)
    arguments = save_case(folder, case, weights, optimizer)
    run_plimsoll(
        "fit", *arguments, "--batch", len(case.x), "--steps", 1, "--no-shuffle", "--output",
        folder / "out.keras", "--log", folder / "log.jsonl", "--log-steps", *options,
    )  # fmt: skip
    _, slots = read_keras(folder / "out.keras")
    loss = next(row["loss"] for row in read_log(folder / "log.jsonl") if "step" in row)
    return loss, [-s for s in slots[2:]]  # after iterations and learning rate


def permuted(case: Case, seed: int) -> Case:
    """The same case with its samples in another order."""
    order = np.random.default_rng(seed).permutation(len(case.x))
    sample_weight = None if case.sample_weight is None else case.sample_weight[order]
    return Case(case.build, case.x[order], case.y[order], case.loss, sample_weight)


def rounded_otherwise(weights: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """Each weight moved by up to half a unit in its last place, as a rounding might have."""
    rng = np.random.default_rng(seed)
    move = lambda w: 1 + 2.0**-24 * rng.choice([-1.0, 1.0], w.shape)  # noqa: E731
    return [(w * move(w)).astype(w.dtype) if w.dtype.kind == "f" else w for w in weights]


# What a gradient may be off by where it is 0 but for rounding, as a share of all gradients.
ROUNDED_ZERO = 1e-9


def assert_one_step(
    folder: Path,
    case: Case,
    *options: Any,
    orders: int = 1,
    roundings: int = 0,
    zero: float = ROUNDED_ZERO,
    loss_share: float = 1e-5,
) -> None:
    """Loss and every gradient against float64, no worse than Keras's own float32 twice over.

    Where rounding decides between sides of many kinks, or is enlarged by hundreds of layers, one
    run of Keras says little about its error: the largest counts of so many orders of the samples,
    and of so many other roundings of the weights.
    """
    weights = shaken_weights(build_in("float32", case, None), case.noise)
    loss64, exact = keras_gradients("float64", case, weights)
    cases = [case, *(permuted(case, seed) for seed in range(1, orders))]
    starts = [(each, weights) for each in cases]
    starts += [(case, rounded_otherwise(weights, seed)) for seed in range(roundings)]
    losses, runs = zip(*(keras_gradients("float32", *start) for start in starts))
    keras_error = max(abs(loss32 - loss64) for loss32 in losses)
    loss, ours = plimsoll_gradients(folder, case, weights, *options)
    assert abs(loss - loss64) <= max(loss_share * abs(loss64), 2 * keras_error), (
        loss,
        loss64,
        losses,
    )
    assert len(ours) == len(exact), (len(ours), len(exact))
    share, where = worst_gradient(ours, exact, list(runs), zero)
    keras.config.set_floatx("float32")
    print(f"{len(ours)} gradients: the worst has {share:.2f} of the error that it may have")
    assert share <= 1, where


def worst_gradient(
    ours: list[np.ndarray], exact: list[np.ndarray], runs: list[list[np.ndarray]], zero: float
) -> tuple[float, str]:
    """The largest error as a share of what is allowed, and which gradient has it.

    `zero` is allowed to those that are 0 in float64 but for its own rounding.
    """
    total = np.sqrt(sum(np.sum(np.square(g)) for g in exact))
    worst = (0.0, "")
    for index, (got, want) in enumerate(zip(ours, exact)):
        assert got.shape == want.shape, (index, got.shape, want.shape)
        # A NaN is below no bound and above none.
        assert np.all(np.isfinite(want)), f"gradient {index} of Keras is not finite"
        if not np.all(np.isfinite(got)):
            return np.inf, f"gradient {index} {want.shape} is not finite"
        error = np.linalg.norm((got - want).ravel())
        keras_error = max(np.linalg.norm((run[index] - want).ravel()) for run in runs)
        size = np.linalg.norm(want.ravel())
        least = zero if size < 1e-15 * total else ROUNDED_ZERO
        allowed = max(1e-5 * size, 2 * keras_error, least * total)
        if error > worst[0] * allowed:
            text = f"gradient {index} {want.shape}: error {error}, allowed {allowed}"
            worst = (error / allowed if allowed > 0 else np.inf, text)
    return worst


def distance(a: list[np.ndarray], b: list[np.ndarray], start: list[np.ndarray]) -> float:
    """‖a − b‖ over ‖b − start‖, all tensors together."""
    difference = np.sqrt(sum(np.sum(np.square(x - y, dtype="float64")) for x, y in zip(a, b)))
    path = np.sqrt(sum(np.sum(np.square(x - y, dtype="float64")) for x, y in zip(b, start)))
    return float(difference / path)


class KerasTraining:
    """Trains a case again and again from other weights, by a step that Keras traces once."""

    def __init__(self, case: Case, optimizer: Callable[[], Any]) -> None:
        self.case, self.optimizer = case, optimizer
        self.model = build_in("float32", case, None)
        self.model.compile(optimizer(), loss=case.loss)
        # Inside of a traced step Keras's ScheduleFreeAdamW is built without the weights that its
        # momentum starts at.
        self.model.optimizer.build(self.model.trainable_variables)

    def begin(self, weights: list[np.ndarray]) -> None:
        """From these weights, with the state of an optimizer that is built on them."""
        self.model.set_weights(weights)
        new = self.optimizer()
        new.build(self.model.trainable_variables)
        assert len(new.variables) == len(self.model.optimizer.variables)
        for variable, start in zip(self.model.optimizer.variables, new.variables):
            variable.assign(start)

    def run(
        self, weights: list[np.ndarray], batch: int, steps: int,
        permute: np.random.Generator | None = None,
    ) -> tuple[list[float], list[np.ndarray]]:  # fmt: skip
        """Losses and final weights of `steps` steps without shuffling; batches permuted inside."""
        case = self.case
        self.begin(weights)
        losses: list[float] = []
        count = len(case.x)
        begin = 0
        while len(losses) < steps:
            rows = np.arange(begin, min(begin + batch, count))
            if permute is not None:
                rows = permute.permutation(rows)
            sample_weight = None if case.sample_weight is None else case.sample_weight[rows]
            logs = self.model.train_on_batch(case.x[rows], case.y[rows], sample_weight)
            self.model.reset_metrics()
            losses.append(float(logs if np.isscalar(logs) else np.ravel(logs)[0]))
            begin = 0 if begin + batch >= count else begin + batch
        return losses, self.model.get_weights()


def assert_many_steps(
    folder: Path, case: Case, optimizer: Callable[[], Any], batch: int, steps: int, *options: Any
) -> tuple[float, float]:
    """Weights and losses after many steps within four times Keras's distance from itself."""
    weights = shaken_weights(build_in("float32", case, None))
    training = KerasTraining(case, optimizer)
    losses, reference = training.run(weights, batch, steps)
    floor_weights = floor_loss = 0.0
    for run in range(5):
        rng = np.random.default_rng(run)
        nudged = [
            (w * (1 + rng.choice([-1, 1], w.shape) * 2.0**-23)).astype("float32") for w in weights
        ]
        other, moved = training.run(nudged, batch, steps, rng)
        floor_weights = max(floor_weights, distance(moved, reference, weights))
        floor_loss = max(floor_loss, max(abs(a - b) for a, b in zip(other, losses)))
    arguments = save_case(folder, case, weights, optimizer())
    run_plimsoll(
        "fit", *arguments, "--batch", batch, "--steps", steps, "--epochs", 1000, "--no-shuffle",
        "--output", folder / "out.keras", "--log", folder / "log.jsonl", "--log-steps", *options,
    )  # fmt: skip
    ours = [row["loss"] for row in read_log(folder / "log.jsonl") if "step" in row]
    final = keras.saving.load_model(folder / "out.keras").get_weights()
    off_weights = distance(final, reference, weights)
    off_loss = max(abs(a - b) for a, b in zip(ours, losses))
    print(
        f"{steps} steps: weights {off_weights:.2e} (floor {floor_weights:.2e}), "
        f"loss {off_loss:.2e} (floor {floor_loss:.2e})"
    )
    assert len(ours) == steps
    assert off_weights <= 4 * floor_weights
    assert off_loss <= 4 * floor_loss + 1e-7
    return off_weights, floor_weights
