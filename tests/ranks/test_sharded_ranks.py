"""mpirun -n R plimsoll fit --shard S: less memory for each rank, and the bits of one process."""

import hashlib
import json
import re
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dense_network import write_dense_network
from normalized_network import layer
from ranks_job import TAKEN, Job, skip_without_ranks, under_mpirun

DOES_NOT_FIT = 3
MEBIBYTE = 1 << 20
DIFFER = (r"the model, optimizer and loss: expected the same on all ranks, received ([0-9a-f]{16}) "
          r"on rank \d and ([0-9a-f]{16}) on rank \d")  # fmt: skip


@pytest.fixture(autouse=True)
def launcher(plimsoll: Path) -> None:
    skip_without_ranks(plimsoll)


def write_wide_network(folder: Path, units: int) -> list[str]:
    """Dense layers whose elements no number of ranks divides, one of them within a constraint."""
    decay = {"class_name": "L2", "config": {"l2": 0.01}}
    norm = {"class_name": "MaxNorm", "config": {"max_value": 1.5, "axis": 0}}
    return write_dense_network(
        folder, 40, 67, 3, "adam",
        layer("Dense", "first", units=units, activation="relu", kernel_regularizer=decay),
        layer("Dense", "second", units=units - 2, activation="relu", kernel_constraint=norm),
    )  # fmt: skip


class WideJob(Job):
    """40 samples in batches of 16, the last one of 8."""

    def __init__(self, binary: Path, folder: Path, units: int = 131) -> None:
        super().__init__(binary, folder)
        self.batch = 16
        self.words = write_wide_network(folder, units)

    def train(self, ranks: int, *more: Any) -> tuple[str, dict[str, Any]]:
        """The digest of weights and slots, and what the run said."""
        output = self.folder / "out.keras"
        output.unlink(missing_ok=True)
        done = self.run(ranks, "--epochs", 2, "--lanes", 4, "--output", output, *more)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["measured_process_bytes"] <= told["predicted_process_bytes"]
        return digest_of(output), told

    def plan(self, *more: Any) -> dict[str, Any]:
        words = self.command("--lanes", 4, *more)
        words[words.index("fit")] = "plan"
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, DOES_NOT_FIT), done.stderr
        return json.loads(done.stdout)

    def with_optimizer(self, optimizer: str) -> None:
        self.words[self.words.index("--optimizer") + 1] = optimizer


def digest_of(model: Path) -> str:
    with zipfile.ZipFile(model) as archive:
        return hashlib.sha256(archive.read("model.weights.h5")).hexdigest()


@pytest.fixture
def job(plimsoll: Path, tmp_path: Path) -> WideJob:
    return WideJob(plimsoll, tmp_path)


@pytest.mark.parametrize("optimizer", [
    "adam",
    "adam(amsgrad=true,weight_decay=0.01)",
    "adam(global_clipnorm=0.1)",
    "sgd(learning_rate=0.1,clipnorm=0.2)",
    "rmsprop(momentum=0.5,centered=true)",
    "ftrl(clipvalue=0.01)",
    "nadam(use_ema=true,ema_momentum=0.5)",
    "schedulefreeadamw(learning_rate=0.01)",
    "lamb",
])  # fmt: skip
def test_every_stage_gives_the_same_bits(job: WideJob, optimizer: str) -> None:
    job.with_optimizer(optimizer)
    alone, told = job.train(1)
    for ranks, stage in ((2, 1), (2, 3), (4, 1), (4, 2), (4, 3)):
        digest, shared = job.train(ranks, "--shard", stage)
        assert digest == alone, (ranks, stage)
        assert shared["loss"] == told["loss"]


def test_bfloat16(job: WideJob) -> None:
    alone, _ = job.train(1, "--precision", "bf16")
    for ranks, stage in ((2, 1), (4, 3)):
        assert job.train(ranks, "--shard", stage, "--precision", "bf16")[0] == alone


def test_a_scaled_loss(job: WideJob) -> None:
    """Its steps are taken where the norm of all gradients is finite."""
    adam = {"class_name": "Adam", "config": {"learning_rate": 0.01}}
    scaled = {"initial_scale": 1024.0, "dynamic_growth_steps": 2, "inner_optimizer": adam}
    at = job.folder / "wide.json"
    model = json.loads(at.read_text())
    model["compile_config"] = {"optimizer": {"class_name": "LossScaleOptimizer", "config": scaled},
                               "loss": "sparse_categorical_crossentropy"}  # fmt: skip
    at.write_text(json.dumps(model))
    begin = job.words.index("--optimizer")
    del job.words[begin : begin + 2]
    alone, _ = job.train(1)
    for ranks, stage in ((2, 1), (4, 2), (4, 3)):
        assert job.train(ranks, "--shard", stage)[0] == alone


def test_state_in_a_file(plimsoll: Path, tmp_path: Path) -> None:
    """Slots that lie in a spill file are written and read by parts, too."""
    job = WideJob(plimsoll, tmp_path, units=1331)
    alone, _ = job.train(1)
    for stage in (1, 3):
        planned = job.plan("--ranks", 4, "--shard", stage)
        limit = planned["smallest_spill_bytes"] + TAKEN
        kept = ["--checkpoint", tmp_path / str(stage), "--memory", limit, "--spill", "--lanes", 4]
        end = ["--epochs", 2, "--output", tmp_path / "end.keras", "--shard", stage]
        assert job.run(4, *kept, *end, "--steps", 3).returncode == 0
        done = job.run(4, *kept, *end, "--resume")
        assert done.returncode == 0, done.stderr
        assert digest_of(tmp_path / "end.keras") == alone


def test_tables_are_sharded_by_rows(job: WideJob) -> None:
    """Adam takes the rows of each part out of the words of all ranks; 4 do not divide 1201."""
    rng = np.random.default_rng(7)
    np.save(job.folder / "words.npy", rng.integers(0, 1201, (40, 6)).astype("int32"))
    layers = [layer("InputLayer", "words", batch_shape=[None, 6], dtype="int32"),
              layer("Embedding", "table", input_dim=1201, output_dim=16),
              layer("LSTM", "lstm", units=8),
              layer("Dense", "classes", units=3, activation="softmax")]  # fmt: skip
    model = {"class_name": "Sequential", "config": {"name": "words", "layers": layers}}
    (job.folder / "words.json").write_text(json.dumps(model))
    job.words[0] = str(job.folder / "words.json")
    job.words[job.words.index("--data") + 1] = str(job.folder / "words.npy")
    for optimizer in ("adam", "adam(amsgrad=true,global_clipnorm=0.1)", "adagrad"):
        job.with_optimizer(optimizer)
        alone, _ = job.train(1)
        planned = job.plan("--ranks", 4, "--shard", 2)
        assert planned["sharded_states"] > 0
        for ranks, stage in ((2, 1), (4, 2), (4, 3)):
            assert job.train(ranks, "--shard", stage)[0] == alone, (optimizer, ranks)


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_what_goes_between_ranks(job: WideJob, stage: int) -> None:
    """Gradients are summed by halves; weights in parts are put together twice, but for those of the
    first layer and of the last group, which the backward pass begins with."""
    hidden = (layer("Dense", f"d{i}", units=255, activation="relu") for i in range(6))
    job.words = write_dense_network(job.folder, 40, 67, 3, "adam", *hidden)
    weights = 4 * (68 * 255 + 5 * 256 * 255 + 256 * 3)
    times, least = (3, 0.8) if stage == 3 else (2, 0.95)
    for ranks in (2, 4):
        _, told = job.train(ranks, "--shard", stage)
        exchanged = told["exchanged_bytes_per_step"] / (times * (ranks - 1) / ranks * weights)
        assert least < exchanged <= 1.05
        planned = job.plan("--ranks", ranks, "--shard", stage)
        assert told["exchanged_bytes_per_step"] == pytest.approx(
            planned["exchanged_bytes_per_step"], rel=1e-3)  # fmt: skip
        # After each step ranks tell each other whether one of them was stopped.
        messages = planned["exchanged_messages_per_step"] + ranks // 2
        assert told["exchanged_messages_per_step"] == messages


def test_small_tensors_share_messages(job: WideJob) -> None:
    """Twenty layers of 2 KiB each."""
    hidden = (layer("Dense", f"d{i}", units=24, activation="relu") for i in range(20))
    job.words = write_dense_network(job.folder, 40, 67, 3, "adam", *hidden)
    alone, _ = job.train(1)
    for ranks in (2, 4):
        digest, told = job.train(ranks)
        assert digest == alone
        assert told["exchanged_messages_per_step"] <= 4 * (ranks // 2)


def test_how_long_a_network_takes(job: WideJob) -> None:
    planned = [job.plan("--ranks", ranks, "--network", network)
               for network in ("10Gbit/s,30us", "1Gbit/s,30us", "1Gbit/s,1ms")
               for ranks in (2, 4)]  # fmt: skip
    seconds = [each["exchange_seconds_per_step"] for each in planned]
    efficiency = [each["efficiency"] for each in planned]
    assert seconds[0] < seconds[2] < seconds[4] and seconds[0] < seconds[1]
    assert 1 > efficiency[0] > efficiency[2] > efficiency[4] > 0
    sent = planned[2]["exchanged_bytes_per_step"]
    way = planned[4]["exchange_seconds_per_step"] - seconds[2]
    assert seconds[2] - way * 30e-6 / (1e-3 - 30e-6) == pytest.approx(8 * sent / 1e9, rel=1e-6)
    for each in planned:
        assert 0 < each["waited_seconds_per_step"] <= each["exchange_seconds_per_step"]
    # Kernels that are slow have most of the sums go on beside them.
    slow = job.plan("--ranks", 2, "--network", "10Gbit/s,30us", "--backend", "reference")
    assert slow["waited_seconds_per_step"] < 0.7 * slow["exchange_seconds_per_step"]
    assert job.plan("--ranks", 2)["exchange_seconds_per_step"] is None
    assert "exchanged_bytes_per_step" not in job.plan()


def test_up_to_4096_ranks(job: WideJob) -> None:
    """Each with as many samples as one of four: a step of four is that of the plan."""
    for stage in (0, 1, 3):
        planned = job.plan("--ranks", 4, "--network", "10Gbit/s,30us", "--shard", stage)
        scaling = {each["ranks"]: each for each in planned["scaling"]}
        assert list(scaling) == [2**n for n in range(13)]
        assert scaling[4]["batch"] == job.batch
        assert scaling[4]["waited_seconds_per_step"] == planned["waited_seconds_per_step"]
        assert scaling[4]["seconds_per_step"] == pytest.approx(
            planned["seconds_per_step"] + planned["waited_seconds_per_step"], rel=1e-6)  # fmt: skip
        assert scaling[1]["waited_seconds_per_step"] == 0
        efficiency = [each["efficiency"] for each in planned["scaling"]]
        assert efficiency == sorted(efficiency, reverse=True) and efficiency[0] == 1
        # What two send is what a plan for two tells, whose kernels have twice the samples.
        two = job.plan("--ranks", 2, "--network", "10Gbit/s,30us", "--shard", stage)
        ratio = scaling[2]["waited_seconds_per_step"] / two["waited_seconds_per_step"]
        assert 0.8 < ratio < 1.4


def test_ranks_that_are_not_equally_fast(job: WideJob) -> None:
    """The largest of n numbers from a normal distribution, on average: tables of order statistics
    (Harter, 1961)."""
    equal = job.plan("--ranks", 4, "--network", "10Gbit/s,30us")
    spread = job.plan("--ranks", 4, "--network", "10Gbit/s,30us,10%")
    largest = {2: 0.56419, 4: 1.02938, 8: 1.42360, 64: 2.3437, 1024: 3.2482}
    one = equal["scaling"][0]["seconds_per_step"]
    for before, after in zip(equal["scaling"], spread["scaling"]):
        longer = (after["seconds_per_step"] - before["seconds_per_step"]) / one
        if after["ranks"] in largest:
            assert longer == pytest.approx(0.1 * largest[after["ranks"]], rel=1e-3)
    assert spread["efficiency"] < equal["efficiency"]
    assert spread["slowest_share"] == pytest.approx(0.102938, rel=1e-3)
    assert equal["slowest_share"] is None
    words = job.command("--ranks", 4, "--network", "10Gbit/s,30us,10%")
    words.remove("--json")
    words[words.index("fit")] = "plan"
    said = subprocess.run(words, capture_output=True, text=True, timeout=120).stdout
    assert "the slowest rank computes 10 % longer" in said
    assert "4,096" in said


def test_each_rank_takes_less(plimsoll: Path, tmp_path: Path) -> None:
    job = WideJob(plimsoll, tmp_path, units=1331)
    slots = 2 * 4 * (67 * 1331 + 1331 * 1329 + 1329 * 3)
    digests, arenas, processes = set(), [], []
    for stage in (0, 1, 2, 3):
        digest, told = job.train(4, "--shard", stage)
        digests.add(digest)
        arenas.append(told["planned_arena_bytes"])
        processes.append(told["measured_process_bytes"])
        planned = job.plan("--ranks", 4, "--shard", stage)
        assert (planned["ranks"], planned["shard"]) == (4, stage)
        assert planned["planned_arena_bytes"] == arenas[-1]
    assert len(digests) == 1
    assert arenas[0] - arenas[1] > 0.6 * slots
    assert arenas[3] < arenas[2] <= arenas[1]
    assert processes[0] - processes[1] > 0.6 * slots


def test_the_limit_decides(plimsoll: Path, tmp_path: Path) -> None:
    """One rank of two has too little for all slots: both hold parts of them."""
    job = WideJob(plimsoll, tmp_path, units=1331)
    alone, _ = job.train(1)
    free, told = job.train(2)
    assert free == alone
    assert job.plan("--ranks", 2)["shard"] == 0
    tight = told["predicted_process_bytes"] - 8 * MEBIBYTE
    output = tmp_path / "tight.keras"
    more = ["--epochs", 2, "--lanes", 4, "--output", output, "--no-spill"]
    one = job.command(*more, "--memory", tight)
    two = job.command(*more, "--memory", tight + (64 << 20))
    words = [*under_mpirun(1), *one, ":", "-n", "1", *two]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert digest_of(output) == alone
    one.extend(["--shard", "0"])
    two.extend(["--shard", "0"])
    words = [*under_mpirun(1), *one, ":", "-n", "1", *two]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "does not fit" in done.stderr


def test_a_stage_fits_by_smaller_blocks(job: WideJob) -> None:
    """Samples take most: parts of weights need more than smaller blocks of whole ones."""
    layers = [layer("InputLayer", "x", batch_shape=[None, 64, 64, 3])]
    for i in range(10):
        layers.append(layer("Conv2D", f"c{i}", filters=24, kernel_size=[3, 3], padding="same",
                            activation="relu"))  # fmt: skip
    layers.append(layer("GlobalAveragePooling2D", "mean"))
    layers.append(layer("Dense", "classes", units=5, activation="softmax"))
    model = {"class_name": "Sequential", "config": {"name": "images", "layers": layers}}
    (job.folder / "images.json").write_text(json.dumps(model))
    words = [job.binary, "plan", job.folder / "images.json", "--batch", 64, "--optimizer", "adam",
             "--loss", "sparse_categorical_crossentropy", "--ranks", 2, "--parts", 2, "--threads",
             1, "--times", "none", "--plan-time", 0.5, "--memory", "52MiB", "--json"]  # fmt: skip
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["block_set"] > 0
    assert told["predicted_process_bytes"] <= 52 * MEBIBYTE


def test_a_stage_fits_by_a_file(plimsoll: Path, tmp_path: Path) -> None:
    """Below what any stage needs without one, and above what stage 1 needs with one."""
    job = WideJob(plimsoll, tmp_path, units=1331)
    limit = job.plan("--ranks", 2, "--shard", 3)["smallest_same_bits_bytes"] - 3 * MEBIBYTE
    told = job.plan("--ranks", 2, "--memory", limit)
    assert (told["shard"], told["block_set"]) == (1, 0)
    assert told["spill_bytes"] > 0
    assert told["predicted_process_bytes"] <= limit


def test_searches_of_other_stages_are_counted(plimsoll: Path, tmp_path: Path) -> None:
    job = WideJob(plimsoll, tmp_path, units=1331)
    alone, _ = job.train(1)
    named = job.train(2, "--shard", 3, "--no-spill")[1]["predicted_process_bytes"]
    # Stages 0 and 1 do not fit that.
    digest, told = job.train(2, "--no-spill", "--memory", named + 3 * MEBIBYTE)
    assert digest == alone
    assert named + MEBIBYTE // 2 < told["predicted_process_bytes"] <= named + 3 * MEBIBYTE


def test_a_run_goes_on_with_other_ranks_and_stages(job: WideJob) -> None:
    whole, _ = job.train(1)
    end = job.folder / "end.keras"
    kept = ["--checkpoint", job.folder / "kept", "--checkpoint-every", "1steps", "--epochs", 2]
    for ranks, stage, steps in ((4, 1, 1), (1, 0, 2), (2, 3, 3), (4, 0, 4), (4, 3, 5), (2, 2, 6)):
        resume = ["--resume"] if steps > 1 else ["--lanes", 4]
        done = job.run(ranks, "--shard", stage, "--steps", steps, *kept, *resume, "--output", end)
        assert done.returncode == 0, done.stderr
        assert steps == 1 or "continues bit for bit" in done.stderr
    assert digest_of(end) == whole


def test_the_best_epoch_of_all_ranks(job: WideJob) -> None:
    """Slots too are those of that epoch, wherever they lie."""
    best = job.folder / "best.keras"
    rule = ["--early-stopping", "patience=1,min_delta=100", "--keep-best", best]
    alone, _ = job.train(1, *rule)
    kept = digest_of(best)
    for stage, more in ((1, []), (3, ["--checkpoint", job.folder / "kept"])):
        best.unlink()
        assert job.train(4, "--shard", stage, *rule, *more)[0] == alone
        assert digest_of(best) == kept


def test_best_weights_that_one_rank_has_lost(job: WideJob) -> None:
    """All keep the last ones: parts of both would be no model."""
    last, end = job.folder / "last.keras", job.folder / "end.keras"
    run = ["--epochs", 150, "--lanes", 4, "--output"]
    assert job.run(1, *run, last).returncode == 0
    best = job.folder / "kept" / "best.ckpt"
    rule = ["--early-stopping", "patience=1000,min_delta=100", "--checkpoint", best.parent,
            "--checkpoint-every", "1000epochs", "--shard", 3]  # fmt: skip
    words = [*under_mpirun(2), *job.command(*run, end, *rule)]
    going = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not best.exists() and going.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        best.unlink()
        _, said = going.communicate(timeout=60)
    finally:
        going.kill()
    assert going.returncode == 0, said
    assert "are no longer there: the last ones are kept" in said
    assert digest_of(end) == digest_of(last)


def test_other_models_are_refused(job: WideJob) -> None:
    """One of them has nothing to hold in parts."""
    layers = [layer("InputLayer", "x", batch_shape=[None, 67]),
              layer("Dense", "classes", units=3, activation="softmax")]  # fmt: skip
    model = {"class_name": "Sequential", "config": {"name": "tiny", "layers": layers}}
    (job.folder / "tiny.json").write_text(json.dumps(model))
    wide = job.command("--lanes", 2)
    tiny = [str(job.folder / "tiny.json") if w.endswith("wide.json") else w for w in wide]
    for one, two in ((tiny, wide), (wide, tiny)):
        done = subprocess.run([*under_mpirun(1), *one, ":", "-n", "1", *two],
                              capture_output=True, text=True, timeout=120)  # fmt: skip
        assert done.returncode == 2
        told = re.search(DIFFER, done.stderr)
        assert told is not None and told[1] != told[2], done.stderr


def test_other_stages_are_refused(job: WideJob) -> None:
    one, two = (job.command("--shard", stage) for stage in (0, 1))
    done = subprocess.run([*under_mpirun(1), *one, ":", "-n", "1", *two],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode != 0
    assert "--shard: expected the same on all ranks, received" in done.stderr


def test_stages_and_ranks_that_there_are_not(job: WideJob) -> None:
    done = job.run(1, "--shard", "some")
    assert done.returncode == 2
    assert 'expected auto or a stage from 0 to 3, received "some"' in done.stderr
    output = job.folder / "plan.txt"
    refused: list[tuple[list[Any], str]] = [
        (["--ranks", 3], "--ranks: expected a power of two, received 3"),
        (["--shard", 3], "--shard: expected --ranks beside it, received stage 3"),
        (["--ranks", 2, "--output", output], "--output: expected none beside --ranks"),
        (["--network", "1Gbit/s,30us"], "--network: expected --ranks beside it"),
        (["--ranks", 2, "--network", "1Gbit/s"], "--network: expected a rate and the time"),
        (["--ranks", 2, "--network", "fast,30us"], '10Gbit/s,30us,5%; received "fast,30us"'),
        (["--ranks", 2, "--network", "1Gbit/s,1us,5"], 'received "1Gbit/s,1us,5"'),
        (["--ranks", 2, "--network", "1Gbit/s,infs"], 'received "1Gbit/s,infs"'),
        (["--ranks", 2, "--network", "1Gbit/s,1us,"], 'received "1Gbit/s,1us,"'),
        (["--ranks", 2, "--network", "1Gbit/s,1us,100%"], 'received "1Gbit/s,1us,100%"'),
        (["--ranks", 2, "--network", "1Gbit/s,1us,5%,1"], 'received "1Gbit/s,1us,5%,1"'),
    ]
    for more, said in refused:
        words = job.command(*more)
        words[words.index("fit")] = "plan"
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2
        assert said in done.stderr
    assert not output.exists()
    done = job.run(1, "--shard", 3, "--epochs", 1)
    assert done.returncode == 0
    assert "--shard 3: there is one process, which holds everything" in done.stderr
