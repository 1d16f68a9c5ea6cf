"""What container engines and clusters say of a container that has ended, and what they do not."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

TEMPLATE = "$ docker inspect -f '{{.State.OOMKilled}}' trainer-worker-1\n"
FINE = '[{"State": {"OOMKilled": false, "ExitCode": 0}, "HostConfig": {"Memory": 1073741824}}, '
KILLED = '{"State": {"OOMKilled": true, "ExitCode": 137}, "HostConfig": {"Memory": 2147483648}}]\n'
USED = (
    "The node was low on resource: memory. "
    "Container {} was using {}, which exceeds its request of {}. "
)
SMALL, LARGE = USED.format("sidecar", "12Mi", "10Mi"), USED.format("main", "15Gi", "2Gi")


def explained(plimsoll: Path, log: str) -> dict[str, Any]:
    done = subprocess.run(
        [plimsoll, "explain", "-", "--json"], input=log, capture_output=True, text=True
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize(
    "log",
    [TEMPLATE + "false\n", FINE[:-2] + "]\n",
     "$ docker inspect --format 'OOMKilled={{.State.OOMKilled}} {{.State.ExitCode}}' a\n"
     "OOMKilled=false 1\n"],
    ids=["template", "document", "template with words"],
)  # fmt: skip
def test_a_container_that_was_not_killed(plimsoll: Path, log: str) -> None:
    assert explained(plimsoll, log)["resource"] != "host_memory"


@pytest.mark.parametrize("log", [TEMPLATE + "true\n", FINE + KILLED], ids=["template", "second"])
def test_a_container_that_was_killed(plimsoll: Path, log: str) -> None:
    told = explained(plimsoll, log)
    assert (told["verdict"], told["resource"]) == ("failure", "host_memory")
    if log.startswith("["):
        assert "--memory=4g" in json.dumps(told)  # twice the limit of that container


@pytest.mark.parametrize("log", [SMALL + LARGE, LARGE + SMALL], ids=["last", "first"])
def test_the_container_that_is_furthest_above_its_request(plimsoll: Path, log: str) -> None:
    text = json.dumps(explained(plimsoll, log))
    assert "15 GiB of 2 GiB" in text and "12 MiB" not in text


def test_a_request_of_nothing(plimsoll: Path) -> None:
    log = USED.format("main", "15Gi", "0").replace("its request of 0", "request is 0")
    assert "15 GiB of 0" in json.dumps(explained(plimsoll, log))


OOM = (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor "
    "with shape[128,64,224,224] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by "
    "allocator GPU_0_bfc\n"
)
PIP = "     ━━━━━━━━━━━━━━━━ 585.9/585.9 MB 1.2 MB/s\n"
TWO = '  File "/v/site-packages/keras/engine/training.py", line 1742, in fit\n'


@pytest.mark.parametrize(
    ("before", "is_three"),
    [(PIP + TWO, False), (PIP, None), ("12/100 ━━━━━━━━ 0:03 5ms/step - loss: 1.0\n", True)],
    ids=["of Keras 2", "of pip", "of Keras 3"],
)
def test_advice_is_that_of_the_keras_that_ran(
    plimsoll: Path, before: str, is_three: bool | None
) -> None:
    text = json.dumps(explained(plimsoll, before + OOM))
    assert ("Adam(..., gradient_accumulation_steps=2)" in text) == (is_three is True)
    assert ("Keras 2 adds no gradients up" in text) == (is_three is False)


@pytest.mark.parametrize(
    ("call", "code"),
    [("model.fit(train_ds, epochs=5)", "train_ds = ... .batch("),
     ("model.fit(train_gen, steps_per_epoch=100)", "train_gen = ...(..., batch_size="),
     ("x = scaler.fit(features)", "model.fit(x, y, batch_size=")],
)  # fmt: skip
def test_batches_are_halved_where_they_are_made(plimsoll: Path, call: str, code: str) -> None:
    log = f'  File "train.py", line 9, in <module>\n    {call}\n{OOM}'
    assert code in explained(plimsoll, log)["advice"][0]["code"]


def test_the_own_entry_of_a_list_is_large_enough(plimsoll: Path) -> None:
    """Of processes that are known by numbers of another namespace."""
    log = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. GPU 0 has a total "
        "capacity of 23.69 GiB of which 1.00 GiB is free. "
        "Process 4021 has 11.55 GiB memory in use. "
        "Process 4022 has 12.10 GiB memory in use. Of the allocated memory 11.40 GiB is allocated "
        "by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.\n"
    )
    others = explained(plimsoll, log)["amounts"]["others"]
    assert abs(others / 2**30 - 10.59) < 0.02
