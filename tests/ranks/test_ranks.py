"""mpirun -n R plimsoll fit: the bits of one process with as many lanes, each rank its own limit."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from normalized_network import layer, write_normalized_network
from ranks_job import (
    LIBRARY,
    MPI,
    Job,
    side_by_side,
    skip_without_ranks,
    started_by,
    under_mpirun,
)

FILE_FAILURE = 6
INTERRUPTED = 7


@pytest.fixture(autouse=True)
def launcher(plimsoll: Path) -> None:
    skip_without_ranks(plimsoll)


def ranks_of(run: subprocess.Popen[str]) -> list[int]:
    deadline = time.monotonic() + 30  # the launcher may warn before it starts them
    while len(ranks := started_by(run)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(ranks) == 2
    return ranks


def wait_for_epoch(log: Path) -> None:
    deadline = time.monotonic() + 60
    while "epoch" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, "no epoch within a minute"
        time.sleep(0.05)


@pytest.fixture
def job(plimsoll: Path, tmp_path: Path) -> Job:
    return Job(plimsoll, tmp_path)


@pytest.mark.parametrize("batch", [64, 19, 7])
def test_any_number_of_ranks_gives_the_same_bits(job: Job, batch: int) -> None:
    job.batch = batch
    alone, told = job.fit(1, "--lanes", 4)
    for ranks in (2, 4):
        digest, shared = job.fit(ranks, "--lanes", 4)
        assert digest == alone
        assert shared["loss"] == told["loss"]


def write_text_network(folder: Path) -> list[str]:
    """An update of the table looks at all words of a batch at once; dropout draws by sample."""
    rng = np.random.default_rng(7)
    np.save(folder / "words.npy", rng.integers(0, 50, (72, 6)).astype("int32"))
    np.save(folder / "classes.npy", rng.integers(0, 3, 72))
    layers = [layer("InputLayer", "words", batch_shape=[None, 6], dtype="int32"),
              layer("Embedding", "table", input_dim=50, output_dim=8),
              layer("LSTM", "lstm", units=8), layer("Dropout", "dropout", rate=0.5),
              layer("Dense", "classes", units=3, activation="softmax")]  # fmt: skip
    model = {"class_name": "Sequential", "config": {"name": "words", "layers": layers}}
    (folder / "text.json").write_text(json.dumps(model))
    return [str(folder / "text.json"), "--data", str(folder / "words.npy"), "--labels",
            str(folder / "classes.npy"), "--optimizer", "adam", "--loss",
            "sparse_categorical_crossentropy", "--metrics", "accuracy", "--json"]  # fmt: skip


@pytest.mark.parametrize("batch", [64, 3])
def test_what_looks_at_all_samples_is_gathered(job: Job, batch: int) -> None:
    job.words = write_text_network(job.folder)
    job.batch = batch
    alone, told = job.fit(1, "--lanes", 4)
    for ranks in (2, 4):
        digest, shared = job.fit(ranks, "--lanes", 4)
        assert digest == alone
        assert (shared["loss"], shared["accuracy"]) == (told["loss"], told["accuracy"])


def test_mpich(job: Job) -> None:
    mpirun = shutil.which("mpirun.mpich")
    shim = job.binary.parent.parent / "libexec" / "plimsoll" / "plimsoll-mpich.so"
    if mpirun is None or not shim.exists():
        pytest.skip("MPICH is not here")
    alone, _ = job.fit(1, "--lanes", 4)
    output = job.folder / "mpich.weights.h5"
    words = job.command("--epochs", 3, "--lanes", 4, "--output", output)
    done = subprocess.run([mpirun, "-n", "2", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "2 ranks by MPICH 4" in done.stderr
    assert hashlib.sha256(output.read_bytes()).hexdigest() == alone


def test_clipping_by_the_norm_of_all_weights(job: Job) -> None:
    at = job.words.index("--optimizer") + 1
    job.words[at] = "adam(learning_rate=0.01,global_clipnorm=0.01)"
    clipped = ["--lanes", 2]
    assert job.fit(1, *clipped)[0] == job.fit(2, *clipped)[0]


def test_lanes_are_as_many_as_ranks_where_nobody_says(job: Job) -> None:
    assert job.fit(2)[0] == job.fit(1, "--lanes", 2)[0]


def test_the_first_rank_speaks_for_all(job: Job) -> None:
    done = job.run(2, "--epochs", 2)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"2 ranks by {LIBRARY}") == 1
    assert json.loads(done.stdout)["steps"] == 4


def test_a_run_goes_on_with_another_number_of_ranks(job: Job) -> None:
    whole, _ = job.fit(1, "--lanes", 4)
    kept = ["--checkpoint", job.folder / "kept", "--checkpoint-every", "1steps"]
    for ranks, steps in ((2, 2), (4, 4), (1, 6)):
        resume = ["--resume"] if steps > 2 else ["--lanes", 4]
        done = job.run(ranks, "--epochs", 3, "--steps", steps, *kept, *resume, "--output",
                       job.folder / "end.weights.h5")  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert steps == 2 or "continues bit for bit" in done.stderr
    assert hashlib.sha256((job.folder / "end.weights.h5").read_bytes()).hexdigest() == whole


def test_each_rank_has_a_limit_of_its_own(job: Job) -> None:
    job.words = write_normalized_network(job.folder, side=48, filters=16)
    alone, _ = job.fit(1, "--lanes", 2)
    _, shared = job.fit(2, "--lanes", 2)
    free = shared["predicted_process_bytes"]
    limits = [free - shared["planned_arena_bytes"] // 3, free + (64 << 20)]
    one, two = (job.command("--epochs", 3, "--lanes", 2, "--memory", limit, "--output",
                            job.folder / "own.weights.h5") for limit in limits)  # fmt: skip
    launcher = under_mpirun(1)
    done = subprocess.run(
        [*launcher, *one, ":", "-n", "1", *two], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256((job.folder / "own.weights.h5").read_bytes()).hexdigest() == alone


def test_a_limit_that_one_rank_cannot_meet_ends_all(job: Job) -> None:
    launcher = under_mpirun(1)
    one, two = (job.command("--memory", limit) for limit in ("20MiB", "200MiB"))
    begin = time.monotonic()
    done = subprocess.run(
        [*launcher, *two, ":", "-n", "1", *one], capture_output=True, text=True, timeout=120
    )
    assert done.returncode != 0
    assert "rank 1 on" in done.stderr and "does not fit" in done.stderr
    assert time.monotonic() - begin < 30


def test_ranks_of_different_runs_are_told(job: Job) -> None:
    launcher = under_mpirun(1)
    done = subprocess.run(
        [*launcher, *job.command("--seed", 1), ":", "-n", "1", *job.command("--seed", 2)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "the seed: expected the same on all ranks" in done.stderr


def test_three_ranks_are_refused(job: Job) -> None:
    done = job.run(3)
    assert done.returncode != 0
    assert "expected a power of two, received 3" in done.stderr


def test_lanes_that_ranks_do_not_divide(job: Job) -> None:
    done = job.run(4, "--lanes", 2)
    assert done.returncode != 0
    assert "a number that 4 ranks divide, received 2" in done.stderr


def test_a_rank_that_stops_ends_all(job: Job) -> None:
    """SIGSTOP of one: the other one says so when its time is over."""
    log = job.folder / "log.jsonl"
    more = ["--epochs", 100000, "--rank-timeout", 3, "--log", log]
    words = [*under_mpirun(2), *job.command(*more)]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_epoch(log)
        os.kill(ranks_of(run)[1], signal.SIGSTOP)
        _, said = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode != 0
    assert "has not answered for 3 seconds" in said


def test_a_rank_that_never_joins_ends_all(job: Job) -> None:
    """MPI starts on all ranks or on none: the one that has begun says so when its time is over."""
    other = [*under_mpirun(1), *job.command("--epochs", 1, "--rank-timeout", 2)]
    done = subprocess.run(
        [*other, ":", "-n", "1", "sleep", "100"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "rank 0: MPI has not started within 20 seconds" in done.stderr


def test_evaluation_is_shared(job: Job) -> None:
    trained = job.folder / "trained.keras"
    assert job.run(1, "--epochs", 1, "--output", trained).returncode == 0
    words = [str(job.folder / "x.npy"), "--labels", str(job.folder / "y.npy")]
    command = [str(job.binary), "evaluate", str(trained), "--data", *words, "--batch", "48",
               "--parts", "2", "--threads", "1", "--lanes", "4", "--json"]  # fmt: skip
    told = []
    for launcher in ([], under_mpirun(2), under_mpirun(4)):
        done = subprocess.run([*launcher, *command], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout)["loss"])
    assert told[0] == told[1] == told[2]


def test_validation_is_shared(job: Job) -> None:
    split = ["--lanes", 2, "--validation-split", 0.25]
    alone, told = job.fit(1, *split)
    digest, shared = job.fit(2, *split)
    assert digest == alone
    assert shared["val_loss"] == told["val_loss"]


def test_samples_that_depend_on_others_are_refused(job: Job) -> None:
    """MixUp takes each image's partner from anywhere in the batch."""
    at = job.folder / "model.json"
    model = json.loads(at.read_text())
    model["config"]["layers"].insert(1, layer("MixUp", "mixed", alpha=0.3, seed=1))
    at.write_text(json.dumps(model))
    done = job.run(2)
    assert done.returncode != 0
    assert "whose result for a sample depends on the others of its batch" in done.stderr


def test_statistics_of_slices_are_refused(job: Job) -> None:
    done = job.run(2, "--batch-norm", "slice:32")
    assert done.returncode != 0
    assert "lanes: expected 1 with statistics of slices of 32 samples" in done.stderr


def test_a_saved_plan_is_refused(job: Job) -> None:
    path = job.folder / "plan.txt"
    words = [*job.command("--output", path), "--lanes", "2"]
    words[words.index("fit")] = "plan"
    assert subprocess.run(words, capture_output=True, timeout=120).returncode == 0
    done = job.run(2, "--plan", path)
    assert done.returncode != 0
    assert "--plan: expected none where ranks share the steps" in done.stderr


def test_ranks_that_were_not_joined(job: Job) -> None:
    """A launcher's variables in a process that it did not start."""
    environment = {**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    done = subprocess.run(
        job.command(), capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == FILE_FAILURE
    assert "OMPI_COMM_WORLD_SIZE says that 2 ranks were started" in done.stderr


def test_other_models_are_not_evaluated_as_one(job: Job) -> None:
    commands = []
    for seed in (1, 2):
        trained = job.folder / f"trained{seed}.keras"
        assert job.run(1, "--epochs", 1, "--seed", seed, "--output", trained).returncode == 0
        commands.append([str(job.binary), "evaluate", str(trained), "--data",
                         str(job.folder / "x.npy"), "--labels", str(job.folder / "y.npy"),
                         "--parts", "2"])  # fmt: skip
    done = side_by_side(*commands)
    assert done.returncode != 0
    assert "weights and state of the optimizer: expected the same" in done.stderr


def test_a_stop_of_one_rank_is_a_stop_of_all(job: Job) -> None:
    kept = ["--checkpoint", job.folder / "kept", "--checkpoint-every", "1steps"]
    words = [*under_mpirun(2), *job.command("--epochs", 100000, *kept)]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        newest = job.folder / "kept"
        deadline = time.monotonic() + 60
        while not (newest.exists() and any(newest.iterdir())) and time.monotonic() < deadline:
            time.sleep(0.1)
        os.kill(ranks_of(run)[1], signal.SIGTERM)
        _, said = run.communicate(timeout=60)
    finally:
        run.kill()
    if MPI == "openmpi":  # the other one kills what ends beside a rank with such a code
        assert run.returncode == INTERRUPTED, said
    done = job.run(2, "--epochs", 1, *kept, "--resume")
    assert done.returncode == 0 and "continues bit for bit" in done.stderr, done.stderr
