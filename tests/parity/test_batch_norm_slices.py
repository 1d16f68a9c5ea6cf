"""A batch that is cut into slices keeps the statistics of the whole batch, moving averages too,
where gradients that are accumulated over smaller batches do not."""

import json
from pathlib import Path

import keras
import numpy as np
from batch_norm_network import loss, network
from harness import Case, read_keras, run_plimsoll, save_case

BATCH, STEPS = 512, 8


def train_in_keras(case: Case, weights: list[np.ndarray], slices: int) -> np.ndarray:
    keras.backend.clear_session()
    model = network()
    model.set_weights(weights)
    accumulated = slices if slices > 1 else None
    model.compile(keras.optimizers.SGD(0.05, gradient_accumulation_steps=accumulated), loss())
    model.fit(case.x, case.y, batch_size=BATCH // slices, shuffle=False, verbose=0)
    return all_weights(model)


def all_weights(model: keras.Model) -> np.ndarray:
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


def off(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def test_slices_change_no_bit(tmp_path: Path) -> None:
    source = np.random.default_rng(5)
    contrast = np.exp(source.normal(size=(BATCH * STEPS, 1, 1, 3)))  # images are no two alike
    x = (contrast * source.normal(size=(BATCH * STEPS, 32, 32, 3))).astype("float32")
    y = source.integers(0, 10, BATCH * STEPS).astype("int32")
    case = Case(network, x, y, loss())
    keras.utils.set_random_seed(3)
    weights = network().get_weights()
    arguments = save_case(tmp_path, case, weights, keras.optimizers.SGD(0.05))

    planned = json.loads(run_plimsoll("plan", *arguments, "--batch", BATCH, "--json").stdout)
    limits = [point["process_bytes"] for point in planned["frontier"]]
    strategies = [point["strategy"] for point in planned["frontier"]]
    assert len({s for s in strategies if s.startswith("slices")}) >= 1, strategies

    results = []
    for limit in [None, *limits]:
        output = tmp_path / f"out{len(results)}.keras"
        options = [] if limit is None else ["--memory", limit]
        run_plimsoll("fit", *arguments, "--batch", BATCH, "--epochs", 1, "--no-shuffle",
                     "--output", output, *options)  # fmt: skip
        results.append(read_keras(output)[0])
    for within in results[1:]:
        assert all((within[name] == results[0][name]).all() for name in within)

    whole = train_in_keras(case, weights, 1)
    ours = keras.models.load_model(tmp_path / "out0.keras", compile=False)
    assert off(all_weights(ours), whole) < 1e-3
    drifts = [off(train_in_keras(case, weights, slices), whole) for slices in (2, 4, 8, 16)]
    assert drifts == sorted(drifts)
    assert drifts[0] > 0.02, drifts
