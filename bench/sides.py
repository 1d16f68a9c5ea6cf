"""Plimsoll and its peers on one workload: each call is one process, each answer plain numbers.

An answer holds `seconds` (of a step or batch: the median within the run), `peak_bytes` (VmHWM) and
`losses` of the first steps; or `refused`, the message of a side that does not do it.
"""

import json
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from materials import BINARY, ROOT
from processes import Run, run

HERE = Path(__file__).resolve().parent
KEPT_LOSSES = 8
PYTORCH = Path(os.environ.get("PLIMSOLL_DEPS", ROOT / ".deps")) / "pytorch/bin/python"


class Failed(Exception):
    """A process ended badly: its command, exit code and messages."""


def checked(done: Run, command: list[str]) -> Run:
    if not done.ok:
        raise Failed(f"{' '.join(command)}: exit {done.exit_code}\n{done.errors[-2000:]}")
    return done


@cache
def refusal(arguments: tuple[str, ...], precision: str, limit: str | None) -> str | None:
    """Why Plimsoll does not do it with these data, in its own words; None: it does."""
    command = [str(BINARY), "plan", *arguments, "--precision", precision, "--json"]
    if limit:
        command += ["--memory", limit]
    done = run(command)
    if done.exit_code in (2, 3, 4):
        return done.errors.splitlines()[0].removeprefix("plimsoll: ") if done.errors else "refused"
    checked(done, command)
    answer = done.result()
    return None if answer["answer"] == "fits" else f"{answer['answer']}: {answer['reason']}"


def plimsoll_steps(
    arguments: list[str], steps: int, precision: str, limit: str | None, prefix: str
) -> dict[str, Any]:
    reason = refusal(tuple(arguments), precision, limit)
    if reason:
        return {"refused": reason}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        command = [
            str(BINARY), "fit", *arguments, "--epochs", "1000000", "--steps", str(steps),
            "--no-shuffle", "--precision", precision, "--json", "--log", str(log), "--log-steps",
        ]  # fmt: skip
        if limit:
            command += ["--memory", limit]
        done = checked(run(command, limit, prefix), command)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    result = done.result()
    return {
        "seconds": result["seconds_per_step"],
        "peak_bytes": done.peak_bytes,
        "process_bytes": result["measured_process_bytes"],
        "predicted_process_bytes": result["predicted_process_bytes"],
        "block_set": result["block_set"],
        "kernel_set": result["kernel_set"],
        "oom_kills": done.group.get("oom_kills"),
        "losses": [line["loss"] for line in lines if "step" in line][:KEPT_LOSSES],
    }


def plimsoll_passes(
    program: str, arguments: list[str], batch: int, files: tuple[str, str], prefix: str
) -> dict[str, Any]:
    """Predictions or evaluation of the samples in `files`."""
    command = [
        str(BINARY), "bench", arguments[0], "--program", program, "--batch", str(batch),
        "--data", files[0], "--labels", files[1], "--json",
    ]  # fmt: skip
    done = checked(run(command, prefix=prefix), command)
    return {"seconds": done.result()["seconds_per_step"], "peak_bytes": done.peak_bytes}


def plimsoll_predictions(arguments: list[str], batch: int, data: str, output: Path) -> None:
    command = [
        str(BINARY), "predict", arguments[0], "--data", data, "--batch", str(batch),
        "--output", str(output),
    ]  # fmt: skip
    checked(run(command), command)


def peer_command(peer: str, model: str = "") -> list[str]:
    """A peer's program: TensorFlow's runs in this environment, PyTorch's in one of its own."""
    if peer == "tensorflow":
        return [sys.executable, str(HERE / "keras_peer.py")]
    import torch_files

    if model:
        torch_files.write(model)
    return [str(PYTORCH), str(HERE / "torch_peer.py")]


def peer(
    base: list[str], program: str, arguments: list[str], files: tuple[str, str], batch: int,
    count: int, precision: str, prefix: str, *more: str,
) -> dict[str, Any]:  # fmt: skip
    command = [*base, program, arguments[0], *files, str(batch), str(count)]
    command += ["--precision", precision, *more]
    done = run(command, prefix=prefix)
    if done.exit_code == 4:
        return {"refused": done.errors.splitlines()[-1]}
    return checked(done, command).result()
