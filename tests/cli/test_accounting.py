"""Every large allocation belongs to a part of the predicted memory, and keeps within its bound."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

SMALL_MARGIN = 2**20  # what allocations below 64 KiB may hold beyond what is counted
ALIGNMENT = 2 * 4096  # what aligned blocks may be larger by than what was asked for


@pytest.fixture(scope="session")
def account(build_dir: Path) -> Path:
    """The allocator that is put in between (tests/toys/account_allocations.cpp)."""
    path = build_dir / "lib" / "account_allocations.so"
    if not path.is_file():
        if "PLIMSOLL_SANITIZE:STRING=\n" not in (build_dir / "CMakeCache.txt").read_text():
            pytest.skip("sanitizers have allocators of their own")
        pytest.fail(f"{path} is missing. Build the target 'plimsoll_account_allocations'.")
    return path


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of a kind of kernels each, with `NAME-x.npy` and `NAME-y.npy`."""
    import keras
    from keras import layers

    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(5)

    def write(name: str, shape: tuple[int, ...], body: list[keras.Layer], ids: int = 0) -> None:
        model = keras.Sequential([keras.Input(shape, dtype="int32" if ids else "float32"), *body])
        write_model(name, model, shape, ids)

    def write_model(name: str, model: keras.Model, shape: tuple[int, ...], ids: int = 0) -> None:
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.save(folder / f"{name}.keras")
        x = rng.integers(0, ids, (24, *shape)) if ids else rng.random((24, *shape))
        np.save(folder / f"{name}-x.npy", x.astype("int32" if ids else "float32"))
        np.save(folder / f"{name}-y.npy", rng.integers(0, 10, 24))

    classes = layers.Dense(10, activation="softmax")
    write("conv", (32, 32, 3), [
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"), layers.GlobalAveragePooling2D(), classes,
    ])  # fmt: skip
    write("dense", (300,), [layers.Dense(700, activation="relu"), layers.Dropout(0.3),
                            layers.Dense(10, activation="softmax")])  # fmt: skip
    write("lstm", (50,), [layers.Embedding(5000, 32, mask_zero=True), layers.LSTM(48),
                          layers.Dense(10, activation="softmax")], ids=5000)  # fmt: skip
    blocks = []
    for _ in range(12):
        blocks += [layers.Conv2D(8, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()]
    write("normalized", (16, 16, 4), [*blocks, layers.Flatten(),
                                      layers.Dense(10, activation="softmax")])  # fmt: skip
    write("upsampled", (500, 2), [
        layers.UpSampling1D(200), layers.Conv1D(4, 3, dilation_rate=2, padding="causal"),
        layers.GlobalAveragePooling1D(), layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    x = keras.Input((64, 48))
    y = layers.LayerNormalization()(x)
    y = layers.Add()([x, layers.MultiHeadAttention(4, 16)(y, y)])
    y = layers.GlobalAveragePooling1D()(y)
    y = layers.Dense(10, activation="softmax")(y)
    write_model("attention", keras.Model(x, y), (64, 48))
    return folder


NAMES = ["conv", "dense", "lstm", "normalized", "upsampled", "attention"]


def described(orphan: dict) -> str:
    """An allocation without a part, and the code that led to it."""
    places: dict[str, list[str]] = {}
    for frame in orphan["frames"][2:]:
        path, address = frame.rsplit("+", 1)
        places.setdefault(path, []).append(hex(int(address, 16) - 1))
    lines = [f"{orphan['bytes']} bytes:"]
    for path, addresses in places.items():
        command = ["addr2line", "-Cfspe", path, *addresses]
        try:
            lines.append(subprocess.run(command, capture_output=True, text=True).stdout)
        except OSError:
            lines += [f"{path}+{address}" for address in addresses]
    return "\n".join(lines)


class Accounted:
    """A run of the program, its report and what it allocated."""

    def __init__(self, account: Path, folder: Path, words: list[object], hold: int = 0) -> None:
        report = folder / "account.json"
        environment = {**os.environ, "LD_PRELOAD": str(account), "PLIMSOLL_ACCOUNT": str(report)}
        if hold:
            environment["PLIMSOLL_ACCOUNT_HOLD"] = str(hold)
        self.done = subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, env=environment
        )
        self.account = json.loads(report.read_text())
        assert not self.account["overflow"]

    def summary(self) -> dict:
        return json.loads(self.done.stdout)

    def check_scopes(self) -> None:
        orphans = self.account["orphans"]
        assert self.account["orphan_count"] == 0, "\n".join(described(one) for one in orphans[:4])

    def check_bounds(self) -> None:
        """Of each part, and of what is too small to have one."""
        bounds = self.summary()["accounted"]
        for name, part in self.account["parts"].items():
            if part["calls"] == 0 or name == "none":
                continue
            taken = part["heap"] + part["mapped"]
            assert taken <= bounds[name] + ALIGNMENT, (name, part, bounds[name])
        small = self.account["small_peak"]
        counted = bounds["structures"] + bounds["kernels"] + bounds["search"]
        assert small <= counted + SMALL_MARGIN, (small, bounds)


def fit_words(plimsoll: Path, models: Path, name: str, *more: object) -> list[object]:
    batch = [] if "--batch" in more else ["--batch", 8]
    return [plimsoll, "fit", models / f"{name}.keras", "--data", models / f"{name}-x.npy",
            "--labels", models / f"{name}-y.npy", *batch, "--threads", 2, "--json",
            *more]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_fit(plimsoll: Path, account: Path, models: Path, tmp_path: Path, name: str) -> None:
    run = Accounted(account, tmp_path, fit_words(
        plimsoll, models, name, "--epochs", 2, "--validation", models / f"{name}-x.npy",
        "--validation-labels", models / f"{name}-y.npy", "--output", tmp_path / "out.keras",
        "--checkpoint", tmp_path / "checkpoints", "--log", tmp_path / "log.jsonl", "--log-steps",
        "--early-stopping", 3, "--csv-log", tmp_path / "log.csv",
    ))  # fmt: skip
    assert run.done.returncode == 0, run.done.stderr
    run.check_scopes()
    run.check_bounds()


# Every option of `fit` that writes something, beside those of test_fit. A profile is measured
# against the machine, which takes what a limit leaves once the run is over: here nothing.
LIMIT = ["--memory", "40MiB"]
WRITTEN = {
    "tensorboard": ["--tensorboard", "{folder}/events"],
    "histograms": ["--tensorboard", "{folder}/events", "--histograms", "1"],
    "profile": ["--profile", *LIMIT],
    "profile.json": ["--profile-output", "{folder}/profile.json", *LIMIT],
    "profile.html": ["--profile-output", "{folder}/profile.html", *LIMIT],
    "profile.trace.json": ["--profile-output", "{folder}/profile.trace.json", *LIMIT],
    "keep best": ["--keep-best", "{folder}/best.keras", "--validation-split", "0.3"],
    "keep best .h5": ["--keep-best", "{folder}/best.h5", "--validation-split", "0.3"],
    "output .h5": ["--output", "{folder}/out.h5"],
    "output .weights.h5": ["--output", "{folder}/out.weights.h5"],
    "output .json": ["--output", "{folder}/out.json"],
    "checkpoints": ["--checkpoint", "{folder}/points", "--checkpoint-every", "2steps",
                    "--checkpoint-keep", "2"],
    "spill": ["--spill", "--spill-dir", "{folder}"],
    "times": ["--tune", "--times", "{folder}/times"],
}  # fmt: skip


@pytest.mark.parametrize("name", ["dense", "normalized"])
@pytest.mark.parametrize("what", WRITTEN)
def test_what_is_written(
    plimsoll: Path, account: Path, models: Path, tmp_path: Path, what: str, name: str
) -> None:
    written = [word.replace("{folder}", str(tmp_path)) for word in WRITTEN[what]]
    words = fit_words(plimsoll, models, name, "--epochs", 2, *written)
    run = Accounted(account, tmp_path, words)
    assert run.done.returncode == 0, run.done.stderr
    run.check_scopes()
    run.check_bounds()
    if what == "checkpoints":
        run = Accounted(account, tmp_path, [*words, "--resume"])
        assert run.done.returncode == 0, run.done.stderr
        run.check_scopes()
        run.check_bounds()


@pytest.mark.parametrize("form", ["npz", "csv", "h5"])
def test_forms_of_data(
    plimsoll: Path, account: Path, models: Path, tmp_path: Path, form: str
) -> None:
    import h5py

    x, y = (np.load(models / f"dense-{part}.npy") for part in "xy")
    x, y = np.tile(x, (40, 1)), np.tile(y, 40)
    data = tmp_path / f"data.{form}"
    if form == "npz":
        np.savez_compressed(data, x=x, y=y)
    elif form == "csv":
        np.savetxt(data, np.column_stack([x, y]), "%g", ",")
    else:
        with h5py.File(data, "w") as file:
            file.create_dataset("x", data=x, chunks=(200, 300), compression="gzip")
            file.create_dataset("y", data=y)
    run = Accounted(account, tmp_path, [
        plimsoll, "fit", models / "dense.keras", "--data", data, "--batch", 32, "--json",
    ])  # fmt: skip
    assert run.done.returncode == 0, run.done.stderr
    run.check_scopes()
    run.check_bounds()


def test_a_limit_below_the_free_plan(
    plimsoll: Path, account: Path, models: Path, tmp_path: Path
) -> None:
    words = fit_words(plimsoll, models, "normalized", "--batch", 16)
    words[1] = "plan"
    plan = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert plan.returncode == 0, plan.stderr
    smallest = json.loads(plan.stdout)["smallest_spill_bytes"]
    run = Accounted(account, tmp_path, fit_words(
        plimsoll, models, "normalized", "--batch", 16, "--memory", smallest, "--steps", 2,
    ))  # fmt: skip
    assert run.done.returncode == 0, run.done.stderr
    run.check_scopes()
    run.check_bounds()


@pytest.mark.parametrize("name", ["lstm", "normalized"])
def test_evaluate_and_plan(
    plimsoll: Path, account: Path, models: Path, tmp_path: Path, name: str
) -> None:
    words = [models / f"{name}.keras", "--data", models / f"{name}-x.npy", "--labels",
             models / f"{name}-y.npy", "--batch", 8, "--json"]  # fmt: skip
    run = Accounted(account, tmp_path, [plimsoll, "evaluate", *words])
    assert run.done.returncode == 0, run.done.stderr
    run.check_scopes()
    run.check_bounds()
    files = ["--output", tmp_path / "plan.txt", "--html", tmp_path / "plan.html"]
    run = Accounted(account, tmp_path, [plimsoll, "plan", *words, *files])
    assert run.done.returncode == 0, run.done.stderr
    run.check_scopes()


@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_predict(plimsoll: Path, account: Path, models: Path, tmp_path: Path, ending: str) -> None:
    run = Accounted(account, tmp_path, [
        plimsoll, "predict", models / "conv.keras", "--data", models / "conv-x.npy", "--batch", 8,
        "--output", tmp_path / f"out.{ending}",
    ])  # fmt: skip
    assert run.done.returncode == 0, run.done.stderr
    run.check_scopes()


def test_a_passed_limit_is_said(
    plimsoll: Path, account: Path, models: Path, tmp_path: Path
) -> None:
    """Everything is written, both figures are told, and the exit code is 8."""
    output, log = tmp_path / "out.keras", tmp_path / "log.jsonl"
    words = fit_words(plimsoll, models, "dense", "--memory", "48MiB", "--output", output, "--log",
                      log, "--log-steps", "--checkpoint", tmp_path / "checkpoints")  # fmt: skip
    run = Accounted(account, tmp_path, words, hold=40)
    assert run.done.returncode == 8, run.done.stderr
    summary = run.summary()
    limit, measured = summary["limit_bytes"], summary["measured_process_bytes"]
    assert summary["passed_limit"] and measured > limit == 48 * 2**20
    assert f"({limit} B)" in run.done.stderr and "exit code 8" in run.done.stderr
    assert run.done.stderr.count("above its limit") == 1
    assert output.is_file() and any((tmp_path / "checkpoints").iterdir())
    assert len(log.read_text().splitlines()) == 4  # three steps and an epoch
    # And what is held for nobody is found.
    assert run.account["orphan_count"] == 1
    assert run.account["orphans"][0]["bytes"] >= 40 * 2**20


def test_a_kept_limit_is_kept(plimsoll: Path, account: Path, models: Path, tmp_path: Path) -> None:
    run = Accounted(account, tmp_path, fit_words(plimsoll, models, "dense", "--memory", "96MiB"))
    assert run.done.returncode == 0, run.done.stderr
    assert not run.summary()["passed_limit"] and "above its limit" not in run.done.stderr


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_passed_limit_of_other_commands(
    plimsoll: Path, account: Path, models: Path, tmp_path: Path, command: str
) -> None:
    words = [plimsoll, command, models / "dense.keras", "--data", models / "dense-x.npy",
             "--batch", 8, "--memory", "48MiB"]  # fmt: skip
    words += (["--labels", models / "dense-y.npy"] if command == "evaluate"
              else ["--output", tmp_path / "out.npy"])  # fmt: skip
    run = Accounted(account, tmp_path, words, hold=40)
    assert run.done.returncode == 8, run.done.stderr
    assert "above its limit of 48 MiB" in run.done.stderr
    if command == "predict":
        assert np.load(tmp_path / "out.npy").shape == (24, 10)
