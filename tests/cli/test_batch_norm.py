"""--batch-norm: part of the model, kept in what is written, never chosen by itself."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

USAGE, DOES_NOT_FIT, MODEL = 2, 3, 4
GROUPS = ["--batch-norm", "slice:4"]


def layer(class_name: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


def write_model(path: Path, normalizes: bool = True) -> str:
    filters = {"filters": 32, "kernel_size": [3, 3], "padding": "same", "use_bias": False}
    layers = [layer("InputLayer", "image", batch_shape=[None, 32, 32, 3])]
    for i in range(4):
        layers.append(layer("Conv2D", f"filters{i}", **filters))
        if normalizes:
            layers.append(layer("BatchNormalization", f"norm{i}"))
        layers.append(layer("ReLU", f"relu{i}"))
    layers.append(layer("GlobalAveragePooling2D", "mean"))
    layers.append(layer("Dense", "classes", units=4, activation="softmax"))
    config = {"name": "net", "layers": layers}
    path.write_text(json.dumps({"class_name": "Sequential", "config": config}))
    return str(path)


class Job:
    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        rng = np.random.default_rng(3)
        np.save(folder / "x.npy", rng.normal(size=(72, 32, 32, 3)).astype("float32"))
        np.save(folder / "y.npy", rng.integers(0, 4, 72))
        self.model = write_model(folder / "model.json")
        self.data = ["--data", str(folder / "x.npy"), "--labels", str(folder / "y.npy")]
        self.training = ["--optimizer", "sgd", "--loss", "sparse_categorical_crossentropy"]

    def run(self, *words: Any) -> subprocess.CompletedProcess[str]:
        command = [str(word) for word in (self.binary, *words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def done(self, *words: Any) -> subprocess.CompletedProcess[str]:
        result = self.run(*words)
        assert result.returncode == 0, result.stderr
        return result

    def fit(
        self, model: Any, output: str, *words: Any, epochs: int = 1
    ) -> subprocess.CompletedProcess[str]:
        return self.run("fit", model, *self.data, "--epochs", epochs, "--no-shuffle",
                        "--output", self.folder / output, *words)  # fmt: skip

    def bytes_of(self, output: str) -> bytes:
        return (self.folder / output).read_bytes()


@pytest.fixture
def job(plimsoll: Path, tmp_path: Path) -> Job:
    return Job(plimsoll, tmp_path)


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_a_written_model_goes_on_as_it_was_trained(job: Job, ending: str) -> None:
    first = job.fit(job.model, f"a.{ending}", *job.training, *GROUPS)
    assert first.returncode == 0, first.stderr
    assert "slice:4, statistics of groups of 4 samples" in first.stderr + first.stdout
    written = job.folder / f"a.{ending}"
    assert "batch normalization: slice:4 in training" in job.done("show", written).stdout
    again = job.fit(written, f"b.{ending}")
    assert "slice:4" in again.stderr + again.stdout
    job.fit(written, f"c.{ending}", *GROUPS)
    job.fit(written, f"full.{ending}", "--batch-norm", "full")
    assert job.bytes_of(f"b.{ending}") == job.bytes_of(f"c.{ending}")
    assert job.bytes_of(f"b.{ending}") != job.bytes_of(f"full.{ending}")
    assert "batch normalization" not in job.done("show", job.folder / f"full.{ending}").stdout
    job.done("convert", written, job.folder / "other.keras")
    assert "slice:4" in job.done("show", job.folder / "other.keras").stdout


def test_what_is_printed_before_a_run(job: Job) -> None:
    plan = ["plan", job.model, *job.training, "--batch", 24]
    assert "batch normalization" not in job.done(*plan).stdout
    assert "groups of 4 samples, part of the model" in job.done(*plan, *GROUPS).stdout
    whole = job.done(*plan, "--batch-norm", "slice:24").stdout
    assert "the whole batch is one group: the same as full" in whole
    plain = write_model(job.folder / "plain.json", normalizes=False)
    assert "no layer" in job.done("plan", plain, *job.training, *GROUPS).stdout
    answer = json.loads(job.done(*plan, *GROUPS, "--json").stdout)
    assert (answer["batch_norm"], answer["batch_norm_group"]) == ("slice:4", 4)
    answer = json.loads(job.done(*plan, "--json").stdout)
    assert (answer["batch_norm"], answer["batch_norm_group"]) == ("full", 0)


def test_wrong_words_are_refused(job: Job) -> None:
    for word in ("slices:4", "slice:0", "slice:", "4"):
        refused = job.run("plan", job.model, *job.training, "--batch-norm", word)
        assert refused.returncode == USAGE, word
        assert "expected full, or slice:N" in refused.stderr
    assert 'Did you mean "slice"?' in job.run(
        "plan", job.model, *job.training, "--batch-norm", "slices:4"
    ).stderr  # fmt: skip


def test_a_damaged_word_in_a_file_is_refused(job: Job) -> None:
    assert job.fit(job.model, "a.keras", *job.training, *GROUPS).returncode == 0
    whole = job.bytes_of("a.keras")
    assert whole.count(b"slice:4") == 1
    (job.folder / "b.keras").write_bytes(whole.replace(b"slice:4", b"slyce:4"))
    refused = job.run("show", job.folder / "b.keras")
    assert refused.returncode == MODEL


def test_checkpoints_name_the_groups(job: Job) -> None:
    kept = ["--checkpoint", job.folder / "kept", "--batch", 24]
    assert job.fit(job.model, "a.keras", *job.training, *GROUPS, *kept).returncode == 0
    other = job.fit(job.model, "b.keras", *job.training, *kept, "--resume")
    assert other.returncode == USAGE
    assert "--batch-norm slice:4, received full" in other.stderr
    same = job.fit(job.model, "b.keras", *job.training, *GROUPS, *kept, "--resume", epochs=2)
    assert same.returncode == 0, same.stderr
    assert "continues bit for bit" in same.stderr


def test_a_plan_of_other_groups_is_refused(job: Job) -> None:
    plan = ["plan", job.model, *job.training, "--batch", 24]
    job.done(*plan, *GROUPS, "--output", job.folder / "plan.txt")
    refused = job.run(*plan, "--batch-norm", "slice:8", "--plan", job.folder / "plan.txt")
    assert refused.returncode == USAGE
    job.done(*plan, *GROUPS, "--plan", job.folder / "plan.txt")


def test_groups_are_a_remedy_that_holds(job: Job) -> None:
    plan = ["plan", job.model, *job.training, "--batch", 64, "--plan-time", "0.1", "--no-spill"]
    plan += ["--backend", "reference", "--json"]
    free = json.loads(job.done(*plan).stdout)
    limit = free["smallest_feasible_bytes"] - 2**20
    refused = job.run(*plan, "--memory", limit)
    assert refused.returncode == DOES_NOT_FIT
    ways = {way["change"]: way for way in json.loads(refused.stdout)["ways_out"]}
    groups = [change for change in ways if change.startswith("--batch-norm")]
    assert len(groups) == 1, list(ways)
    way = ways[groups[0]]
    assert way["effect"].startswith("a different model")
    assert way["seconds_per_step"] > 0
    taken = json.loads(job.done(*plan, "--memory", limit, *groups[0].split()).stdout)
    assert taken["answer"] == "fits"
    assert taken["predicted_process_bytes"] <= limit
