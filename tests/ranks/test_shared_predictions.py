"""mpirun -n R plimsoll predict: the bytes of one process. Standard input is every rank's."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from normalized_network import layer
from ranks_job import MPI, Job, side_by_side, skip_without_ranks, under_mpirun


@pytest.fixture(autouse=True)
def launcher(plimsoll: Path) -> None:
    skip_without_ranks(plimsoll)


@pytest.fixture
def job(plimsoll: Path, tmp_path: Path) -> Job:
    return Job(plimsoll, tmp_path)


def predict(job: Job, model: Path, ranks: int, ending: str, *more: Any) -> dict[str, str]:
    """The digest of each file of predictions."""
    folder = job.folder / f"predicted{ranks}"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    words = [job.binary, "predict", model, "--data", job.folder / "x.npy", "--output",
             folder / f"p{ending}", "--times", "none", "--parts", 2, "--threads", 1,
             *more]  # fmt: skip
    launcher = under_mpirun(ranks) if ranks > 1 else []
    done = subprocess.run(
        [*launcher, *map(str, words)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("wrote ") == len(list(folder.iterdir()))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("batch", [64, 7, 2, 1])  # 2, 11, 36 and 72 batches
@pytest.mark.parametrize("ending", [".npy", ".csv"])
def test_predictions_are_those_of_one_process(job: Job, batch: int, ending: str) -> None:
    trained = job.folder / "trained.keras"
    assert job.run(1, "--epochs", 1, "--output", trained).returncode == 0
    alone = predict(job, trained, 1, ending, "--batch", batch)
    for ranks in (2, 4):
        assert predict(job, trained, ranks, ending, "--batch", batch) == alone


def test_several_outputs_of_several_types(job: Job) -> None:
    inputs = keras.Input((16, 16, 3), name="in")
    wide = keras.layers.Conv2D(40, 3, name="wide")(inputs)  # 31 KB a row
    pooled = keras.layers.GlobalAveragePooling2D()(wide)
    outputs = {"wide": wide, "large": keras.ops.argmax(pooled, axis=-1),
               "is": keras.ops.greater(pooled, 0.1)}  # fmt: skip
    keras.utils.set_random_seed(1)
    model = keras.Model(inputs, outputs)
    model.save(job.folder / "several.keras")
    np.save(job.folder / "x.npy", np.random.default_rng(3).normal(size=(41, 16, 16, 3)))
    alone = predict(job, job.folder / "several.keras", 1, ".npy", "--batch", 5)
    assert len(alone) == 3
    assert predict(job, job.folder / "several.keras", 4, ".npy", "--batch", 5) == alone


def test_a_state_that_goes_on_from_batch_to_batch(job: Job) -> None:
    layers = [layer("InputLayer", "in", batch_shape=[8, 5, 3]),
              layer("LSTM", "lstm", units=4, stateful=True),
              layer("Dense", "out", units=2)]  # fmt: skip
    model = {"class_name": "Sequential", "config": {"name": "kept", "layers": layers}}
    (job.folder / "kept.json").write_text(json.dumps(model))
    np.save(job.folder / "x.npy", np.random.default_rng(3).normal(size=(24, 5, 3)))
    kept = job.folder / "kept.json"
    alone = predict(job, kept, 1, ".npy", "--batch", 8, "--seed", 5)
    assert predict(job, kept, 2, ".npy", "--batch", 8, "--seed", 5) == alone


def test_predictions_within_limits_of_their_own(job: Job, in_cgroup: Path) -> None:
    """Each rank's group has exactly its limit, and the bytes are those of a process without one."""
    trained = job.folder / "trained.keras"
    assert job.run(1, "--epochs", 1, "--output", trained).returncode == 0
    alone = predict(job, trained, 1, ".npy")
    words: list[str] = [*under_mpirun(1)]
    for rank, limit in enumerate((48 << 20, 64 << 20)):
        fit = [job.binary, "predict", trained, "--data", job.folder / "x.npy", "--memory", limit,
               "--output", job.folder / "p.npy", "--times", "none", "--parts", 2]  # fmt: skip
        group = [in_cgroup, f"{limit}B", "--report", job.folder / f"group{rank}.json", "--", *fit]
        words += [*([":", "-n", "1"] if rank > 0 else []), *map(str, group)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256((job.folder / "p.npy").read_bytes()).hexdigest() == alone["p.npy"]
    for rank in range(2):
        assert json.loads((job.folder / f"group{rank}.json").read_text())["oom_kills"] == 0


def test_ranks_that_predict_by_other_layers(job: Job) -> None:
    """Their weights are equal."""
    trained = [job.folder / f"trained{i}.keras" for i in range(2)]
    assert job.run(1, "--epochs", 1, "--output", trained[0]).returncode == 0
    other = keras.saving.load_model(trained[0])
    other.get_layer("classes").activation = keras.activations.sigmoid
    other.save(trained[1])
    commands = [[str(job.binary), "predict", str(model), "--data", str(job.folder / "x.npy"),
                 "--output", str(job.folder / "p.npy"), "--parts", "2"]
                for model in trained]  # fmt: skip
    done = side_by_side(*commands)
    assert done.returncode != 0
    assert "the model's layers: expected the same" in done.stderr
    assert not list(job.folder.glob("*.tmp"))


def test_ranks_that_predict_by_other_weights(job: Job) -> None:
    commands = []
    for seed in (1, 2):
        trained = job.folder / f"trained{seed}.keras"
        assert job.run(1, "--epochs", 1, "--seed", seed, "--output", trained).returncode == 0
        commands.append([str(job.binary), "predict", str(trained), "--data",
                         str(job.folder / "x.npy"), "--output", str(job.folder / "p.npy"),
                         "--parts", "2"])  # fmt: skip
    done = side_by_side(*commands)
    assert done.returncode != 0
    assert "weights and state of the optimizer: expected the same" in done.stderr


GENERATE = """
import sys, time, numpy as np
x, y = np.load("x.npy"), np.load("y.npy")
for first in range(0, len(x), 30):
    np.save(sys.stdout.buffer, x[first : first + 30])
    np.save(sys.stdout.buffer, y[first : first + 30])
    sys.stdout.flush()
    time.sleep({pause})
"""


def from_standard_input(job: Job, script: str, command: list[str]) -> Any:
    if MPI == "mpich":
        pytest.skip("MPICH's mpiexec ends a job whose standard input comes faster than it is read")
    writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE,
                              cwd=job.folder)  # fmt: skip
    assert writer.stdout is not None
    with writer.stdout:  # whose writer ends when nobody reads any more
        done = subprocess.run(command, stdin=writer.stdout, capture_output=True, text=True,
                              timeout=120)  # fmt: skip
    writer.wait()
    return done


@pytest.mark.parametrize("ranks", [2, 4])
def test_standard_input_is_every_ranks(job: Job, ranks: int) -> None:
    """It comes in three pieces, with more than --rank-timeout between them."""
    alone, _ = job.fit(1, "--lanes", 4)
    words = job.command("--epochs", 3, "--lanes", 4, "--rank-timeout", 1, "--output",
                        job.folder / "in.weights.h5")  # fmt: skip
    for option in ("--data", "--labels"):
        at = words.index(option)
        del words[at : at + 2]
    command = [*under_mpirun(ranks), *words, "--data", "-"]
    done = from_standard_input(job, GENERATE.format(pause=2), command)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256((job.folder / "in.weights.h5").read_bytes()).hexdigest() == alone


def test_predictions_on_standard_input(job: Job) -> None:
    trained = job.folder / "trained.keras"
    assert job.run(1, "--epochs", 1, "--output", trained).returncode == 0
    alone = predict(job, trained, 1, ".npy", "--batch", 7)
    words = [job.binary, "predict", trained, "--data", "-", "--output", job.folder / "p.npy",
             "--batch", 7, "--times", "none", "--parts", 2]  # fmt: skip
    whole = "import sys, numpy as np; np.save(sys.stdout.buffer, np.load('x.npy'))"
    done = from_standard_input(job, whole, [*under_mpirun(2), *map(str, words)])
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256((job.folder / "p.npy").read_bytes()).hexdigest() == alone["p.npy"]


def test_standard_input_that_is_no_array_ends_all(job: Job) -> None:
    words = job.command()
    at = words.index("--labels")
    del words[at : at + 2]
    words[words.index("--data") + 1] = "-"
    done = from_standard_input(job, "print('x' * 100000)", [*under_mpirun(2), *words])
    assert done.returncode != 0
    assert "standard input" in done.stderr
