"""Networks as people train them, in four lanes: the same weights on 1, 2 and 4 ranks, with and
without a limit, by any number of threads; and by Keras, as far as rounding lets them."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import batch_norm_network
import keras
import numpy as np
import pytest
from harness import (
    BINARY,
    Case,
    assert_many_steps,
    build_in,
    distance,
    run_plimsoll,
    save_case,
    shaken_weights,
)
from keras import layers as L
from ranks_job import TAKEN, skip_without_ranks, under_mpirun
from test_networks import MOBILE, unet
from test_transformer import transformer
from workloads import workload

SAMPLES, BATCH, STEPS = 64, 19, 20  # the last batch of an epoch is of 7
SAME = ["--batch", BATCH, "--lanes", 4, "--parts", 2, "--times", "none"]


def adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.001, global_clipnorm=0.5)


def dropped() -> keras.Model:
    model = batch_norm_network.network()
    y = L.Dense(16, activation="relu")(L.Dropout(0.3)(model.layers[-2].output))
    return keras.Model(model.input, L.Dense(10)(L.GaussianNoise(0.1)(y)))


def images(build: Callable[[], keras.Model], side: int, loss: Any) -> Case:
    rng = np.random.default_rng(11)
    x = rng.random((SAMPLES, side, side, 3)).astype("float32")
    return Case(build, x, rng.integers(0, 10, SAMPLES).astype("int32"), loss)


def pixels() -> Case:
    rng = np.random.default_rng(12)
    x = rng.random((SAMPLES, 64, 64, 3)).astype("float32")
    y = rng.integers(0, 2, (SAMPLES, 64, 64, 1)).astype("float32")
    return Case(unet, x, y, "binary_crossentropy")


def text() -> Case:
    rng = np.random.default_rng(4)
    tokens = rng.integers(0, 8192, (SAMPLES, 65)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Case(lambda: transformer(6, 384, 6, 64, 8192), tokens[:, :-1], tokens[:, 1:], loss)


NETWORKS: dict[str, Callable[[], Case]] = {
    "BatchNormalization": lambda: images(batch_norm_network.network, 32, batch_norm_network.loss()),
    "S0a": lambda: workload("S0a", samples=SAMPLES)[0],
    "S1c": lambda: workload("S1c", samples=SAMPLES)[0],
    "MobileNetV2": lambda: images(MOBILE, 64, "sparse_categorical_crossentropy"),
    "U-Net": pixels,
    "GPT-small": text,
}
DRAWING = {"Dropout": lambda: images(dropped, 32, batch_norm_network.loss())}
SMALL = ("BatchNormalization", "Dropout")
MANY = ("U-Net", "GPT-small")  # losses a sample


def weighted(case: Case) -> Case:
    case.sample_weight = np.random.default_rng(9).uniform(0.2, 2, SAMPLES).astype("float32")
    case.metrics = []
    return case


def each(networks: dict[str, Callable[[], Case]]) -> list[Any]:
    return [name if name in SMALL else pytest.param(name, marks=pytest.mark.nightly)
            for name in networks]  # fmt: skip


class Training:
    def __init__(self, folder: Path, case: Case) -> None:
        self.folder, self.output = folder, folder / "out.weights.h5"
        weights = shaken_weights(build_in("float32", case, None))
        self.words = [*save_case(folder, case, weights, adam()), *SAME]

    def smallest(self, ranks: int, threads: int) -> int:
        """By the plan for as many threads as the run has: the search goes by estimated times."""
        shared = ["--ranks", ranks, "--shard", 0] if ranks > 1 else []
        words = [*self.words, *shared, "--threads", threads, "--json"]
        told = json.loads(run_plimsoll("plan", *words).stdout)
        return int(told["smallest_same_bits_bytes"]) + (TAKEN if ranks > 1 else 0)

    def digest(self, ranks: int, *more: Any) -> str:
        self.output.unlink(missing_ok=True)
        launcher = under_mpirun(ranks) if ranks > 1 else []
        words = [*launcher, BINARY, "fit", *self.words, "--steps", STEPS, "--epochs", 1000,
                 "--no-shuffle", "--rank-timeout", 1000, "--output", self.output, "--json",
                 *more]  # fmt: skip
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=3000)
        assert done.returncode == 0, done.stderr[-2000:]
        told = json.loads(done.stdout)
        assert told["measured_process_bytes"] <= told["predicted_process_bytes"]
        digest = hashlib.sha256(self.output.read_bytes()).hexdigest()
        print(f"  {ranks} ranks {' '.join(map(str, more))}: {digest[:12]}, loss {told['loss']}, "
              f"{told['measured_process_bytes'] >> 20} MiB", flush=True)  # fmt: skip
        return digest


@pytest.mark.parametrize("name", each(NETWORKS | DRAWING))
def test_the_same_bits(plimsoll: Path, name: str, tmp_path: Path) -> None:
    skip_without_ranks(plimsoll)
    print(f"\n{name}:")
    training = Training(tmp_path, weighted((NETWORKS | DRAWING)[name]()))
    digests = {training.digest(1, "--threads", 2)}
    for ranks, threads in ((1, 1), (2, 2), (4, 1)):
        limited = ["--memory", training.smallest(ranks, threads), "--no-spill"]
        digests.add(training.digest(ranks, "--threads", threads, *limited))
        if ranks > 1:
            digests.add(training.digest(ranks, "--threads", 3 - threads))
    assert len(digests) == 1


@pytest.mark.parametrize("name", each(NETWORKS))
def test_as_keras_trains(name: str, tmp_path: Path) -> None:
    """In four lanes and in one."""
    case = NETWORKS[name]()
    if name not in MANY:  # Keras takes no weight of a sample where it has many losses
        case = weighted(case)
    _, floor = assert_many_steps(tmp_path, case, adam, BATCH, STEPS, "--lanes", 4)
    four = keras.saving.load_model(tmp_path / "out.keras").get_weights()
    weights = [] if case.sample_weight is None else ["--sample-weights", tmp_path / "w.npy"]
    training = [tmp_path / "model.keras", "--data", tmp_path / "x.npy", "--labels",
                tmp_path / "y.npy", *weights]  # fmt: skip
    run_plimsoll("fit", *training, "--batch", BATCH, "--steps", STEPS, "--epochs", 1000,
                 "--no-shuffle", "--output", tmp_path / "one.keras")  # fmt: skip
    one = keras.saving.load_model(tmp_path / "one.keras").get_weights()
    start = keras.saving.load_model(tmp_path / "model.keras").get_weights()
    apart = distance(four, one, start)
    print(f"{name}: four lanes from one {apart:.2e}, Keras from itself {floor:.2e}")
    assert apart <= 4 * floor
