"""Runs a recipe and says whether the promises held.

First without a limit, for the prediction and the measurement of a run that takes what it likes.
Then within a limit of exactly what was predicted, or of the smallest that the program says it can
keep, inside a control group of that size. Where no group can be made, what the program measures of
itself is held against the limit alone.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import prediction
from memory_data import Place, write_data
from memory_recipe import Recipe, keras_json

ROOT = Path(__file__).resolve().parents[2]
IN_CGROUP = ROOT / "tools" / "in_cgroup"
MIB = 2**20
REFUSED = {2: "usage", 3: "does not fit", 4: "model", 5: "data", 6: "file"}
VERY_DEEP = 1500  # layers
MOST_OF_ANY_RUN = 3 << 30  # a run that takes more harms the machine


@dataclass
class Outcome:
    """`finding` is "" where all promises held, `refusal` where the program did not run it."""

    finding: str = ""
    refusal: str = ""
    detail: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ending:
    code: int
    output: str
    errors: str
    seconds: float
    oom_kills: int | None = None
    timed_out: bool = False


class Runner:
    """Knows the program, and whether groups can be made here."""

    def __init__(self, program: Path, timeout: float = 60.0, groups: bool | None = None) -> None:
        self.program, self.timeout = program, timeout
        self.usual_timeout = timeout
        self.groups = can_make_groups() if groups is None else groups

    def run(self, recipe: Recipe, keep: Path | None = None) -> Outcome:
        # What is planned for thousands of layers takes as the square of their number.
        self.timeout = self.usual_timeout * (5 if len(recipe["layers"]) > VERY_DEEP else 1)
        folder = Path(tempfile.mkdtemp(prefix="plimsoll-search-", dir=keep))
        try:
            return _Trial(self, recipe, folder).run()
        finally:
            if keep is None:
                shutil.rmtree(folder, ignore_errors=True)

    def execute(self, words: list[str], stdin: Path | None, limit: int | None) -> Ending:
        """In a group of that size; without a limit in one that protects the machine."""
        report = None
        size = limit or MOST_OF_ANY_RUN
        if self.groups:
            handle, name = tempfile.mkstemp(prefix="plimsoll-search-")
            os.close(handle)
            report = Path(name)
            words = [str(IN_CGROUP), str(size), "--report", name, "--", *words]
        began = time.monotonic()
        with open(stdin or os.devnull, "rb") as source:
            process = subprocess.Popen(
                words, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True, preexec_fn=_bounded(self.timeout),
            )  # fmt: skip
            timed_out = False
            try:
                output, errors = process.communicate(timeout=self.timeout * 20)
            except subprocess.TimeoutExpired:
                timed_out = True
                _stop(process)
                output, errors = process.communicate()
        seconds = time.monotonic() - began
        timed_out = timed_out or process.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU)
        oom = None
        if report is not None:
            text = report.read_text()
            oom = json.loads(text)["oom_kills"] if text else None
            report.unlink()
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Ending(code, output.decode(errors="replace"), errors.decode(errors="replace"),
                      seconds, oom, timed_out)  # fmt: skip


def _bounded(seconds: float) -> Callable[[], None]:
    """Processor time, so that a busy machine makes no findings."""

    def apply() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))

    return apply


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM lets in_cgroup pass it on and remove its group; then the whole session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue


def can_make_groups() -> bool:
    done = subprocess.run([str(IN_CGROUP), "64MiB", "--", "true"], capture_output=True)
    return done.returncode == 0


class _Trial:
    def __init__(self, runner: Runner, recipe: Recipe, folder: Path) -> None:
        self.runner, self.recipe, self.folder = runner, recipe, folder
        self.seconds: dict[str, float] = {}
        self.stdin: Path | None = None

    def run(self) -> Outcome:
        recipe = self.recipe
        self.model = self.folder / "model.json"
        self.model.write_text(keras_json(recipe))
        place = Place(self.folder, recipe)
        self.data = write_data(place)
        if "-" in self.data:
            self.stdin = self.folder / "data.stream"
        self.extra: list[str] = []
        prepared = self.prepare(place)
        if prepared is not None:
            return prepared
        free = self.start(None)
        outcome = self.judge(free, None, "free")
        if outcome is not None:
            return outcome
        numbers = self.numbers_of(free)
        limit = self.limit_of(numbers)
        if isinstance(limit, Outcome):
            return limit
        held = self.start(limit)
        outcome = self.judge(held, limit, "held")
        if outcome is not None:
            outcome.numbers = {**outcome.numbers, "limit": limit, "free": numbers}
            return outcome
        return Outcome(numbers={**self.numbers_of(held), "limit": limit, "seconds": self.seconds})

    def words(self, command: str, limit: int | None, plan: bool = False) -> list[str]:
        recipe = self.recipe
        words = [str(self.runner.program), command, str(self.model), *self.data, "--json"]
        words += ["--batch", str(recipe["batch"])]
        if command != "predict":  # which takes no labels
            words += ["--loss", recipe["loss"]]
        if command == "predict" and "--labels" in words:
            kept: list[str] = []
            for word, before in zip(words, ["", *words]):
                if word != "--labels" and before != "--labels":
                    kept.append(word)
            words = kept
        for name, given in recipe["options"].items():
            if not plan or _for_plan(name):
                words += [word.replace("{folder}", str(self.folder)) for word in given]
        if "--plan-time" not in words:
            words += ["--plan-time", "0.1"]
        if command in ("fit", "plan") and "--optimizer" not in words:
            words += ["--optimizer", "sgd"]
        if command == "predict" and "--output" not in words:
            words += ["--output", str(self.folder / "p.npy")]
        if command == "fit" and "--epochs" not in words:
            words += ["--steps", str(recipe.get("steps", 3))]
        if "spill" not in "".join(recipe["options"]) or "spill" in recipe["options"]:
            words += ["--spill-dir", str(self.folder)]
        if limit is not None:
            words += ["--memory", str(limit)]
        return words + (self.extra if not plan else [])

    def prepare(self, place: Place) -> Outcome | None:
        """Files that options need, some of them written by a run before."""
        options = self.recipe["options"]
        if "validation" in options:
            named = write_data(place, "validation")
            renamed = {"--data": "--validation", "--labels": "--validation-labels"}
            kept = [renamed.get(word, word) for word in named]
            self.extra += _pairs(kept, renamed.values())
        if "sample weights" in options:
            weights = self.folder / "weights.npy"
            np.save(weights, np.linspace(0, 1, place.rows, dtype="float32"))
            self.extra += ["--sample-weights", str(weights)]
        if "saved weights" in options:
            saved = self.folder / "saved.weights.h5"
            before = [w for w in self.words("fit", None) if w != "--resume"]
            before = _without(before, "--output", "--checkpoint", "--checkpoint-every",
                              "--checkpoint-keep", "--tensorboard", "--histograms", "--epochs",
                              "--steps", "--optimizer")  # fmt: skip
            before += ["--optimizer", "sgd", "--output", str(saved), "--steps", "1"]
            ending = self.runner.execute(before, self.stdin, None)
            outcome = self.judge(ending, None, "saving weights", bound=False)
            if outcome is not None:
                return outcome
            self.extra += ["--weights", str(saved)]
        if "resumed" in options:
            folder = ["--checkpoint", str(self.folder / "resumed")]
            first = self.runner.execute(self.words("fit", None) + folder, self.stdin, None)
            outcome = self.judge(first, None, "before resuming")
            if outcome is not None:
                return outcome
            self.extra += [*folder, "--resume"]
        if "saved plan" in options:
            plan = self.folder / "plan.txt"
            words = [*self.words("plan", None, plan=True), *self.extra, "--output", str(plan)]
            ending = self.runner.execute(words, self.stdin, None)
            outcome = self.judge(ending, None, "saving a plan", bound=False)
            if outcome is not None:
                return outcome
            self.extra += ["--plan", str(plan)]
        return None

    def start(self, limit: int | None) -> Ending:
        for name in ("checkpoints", "best.keras", "events", "log.jsonl"):
            path = self.folder / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(
                missing_ok=True
            )
        words = self.words(self.recipe["command"], limit)
        (self.folder / "command.txt").write_text(" ".join(words) + "\n")
        ending = self.runner.execute(words, self.stdin, limit)
        self.seconds["free" if limit is None else "held"] = round(ending.seconds, 2)
        return ending

    def numbers_of(self, ending: Ending) -> dict[str, Any]:
        try:
            run = json.loads(ending.output)
        except ValueError:
            return {}
        untouched = run.get("planned_arena_bytes", 0) - run.get("measured_arena_bytes", 0)
        return {"predicted": run.get("predicted_process_bytes"),
                "measured": run.get("measured_process_bytes"),
                "untouched": max(0, untouched),
                "step_seconds": run.get("seconds_per_step")}  # fmt: skip

    def limit_of(self, numbers: dict[str, Any]) -> int | Outcome:
        """The limit to hold: what was predicted, or the smallest that the program names."""
        if self.recipe["limit"] == "predicted" and numbers.get("predicted"):
            return int(numbers["predicted"])
        if "saved plan" in self.recipe["options"]:
            return int(numbers["predicted"])
        asked = MIB
        for _ in range(3):
            ending = self.ask(asked)
            if ending.code == 0 and asked > MIB:
                return asked
            if ending.code != 3:
                outcome = self.judge(ending, None, "asking for the smallest limit", bound=False)
                return outcome or Outcome(finding="fits within 1 MiB", detail=ending.errors[-500:])
            smallest = told_smallest(ending)
            if smallest:
                return smallest
            # The lower bound alone is told, which may do.
            bounds = re.findall(r"[Bb]elow ([\d.]+) MiB", ending.errors)
            if not bounds:
                break
            asked = max(int((float(bounds[-1]) + 0.1) * MIB), asked + 1)
        return Outcome(finding="no smallest limit told", detail=ending.errors[-500:])

    def ask(self, limit: int) -> Ending:
        """What a run within the limit would need; `plan` says more than other commands."""
        if self.recipe["command"] == "fit":
            words = self.words("plan", limit, plan=True)
            words += _without(self.extra, "--resume", "--checkpoint")
        else:
            words = self.words(self.recipe["command"], limit)
        ending = self.runner.execute(words, self.stdin, None)
        self.seconds["planning"] = round(ending.seconds, 2)
        return ending

    def judge(
        self, ending: Ending, limit: int | None, stage: str, bound: bool = True
    ) -> Outcome | None:
        """None where the run ended well and within its promises."""
        told = re.sub(r"n{20,}", "n…", ending.errors + ending.output).strip()
        if ending.timed_out and self.recipe["command"] != "fit":
            # These go through all data, and there may be much: that is no fault.
            return Outcome(refusal="a pass takes long", detail=f"{stage}: {told[-300:]}")
        if ending.timed_out:
            return Outcome(
                "timeout", detail=f"{stage}: more than {self.runner.timeout:.0f} s\n{told[-300:]}"
            )
        if ending.oom_kills or ending.code == 137:
            if limit is None:
                return Outcome(refusal="takes more than the machine gives", detail=told[-300:])
            return Outcome("killed", detail=f"{stage}: {told[-300:]}")
        if ending.code == 70 or "internal error" in told.lower():
            return Outcome("internal error", detail=f"{stage}: {told[-600:]}")
        if ending.code > 128:
            return Outcome(f"signal {ending.code - 128}", detail=f"{stage}: {told[-600:]}")
        if ending.code == 3 and limit is not None and bound:
            return Outcome("its own limit is refused", detail=f"{stage}: {told[-800:]}")
        if ending.code in REFUSED:
            where = REFUSED[ending.code]
            return Outcome(refusal=f"{where}", detail=f"{stage}: {told[-500:]}")
        if ending.code != 0:
            return Outcome(f"exit code {ending.code}", detail=f"{stage}: {told[-600:]}")
        if not bound or self.recipe["command"] == "predict":
            return None
        numbers = self.numbers_of(ending)
        # A case that is kept may say how far its prediction is above, and why. A run that was
        # resumed after its last step takes what it likes less.
        layers = len(self.recipe["layers"])
        slack = self.recipe.get("above_mib", prediction.slack_of(layers) / MIB) * MIB
        slack = float("inf") if numbers.get("step_seconds") == 0 else slack
        share = prediction.share_of(layers)
        return compare(numbers, limit, stage, told, share, slack)


def told_smallest(ending: Ending) -> int | None:
    """The smallest limit in the answer of `plan`, or in the message of a refusal."""
    try:
        answer = json.loads(ending.output)
    except ValueError:
        # The remedy's size is rounded up, so that it is enough.
        sizes = re.findall(
            r"raise the limit[^\n(]* \([^\n]*\n[^\n]*--memory ([\d.]+)MiB", ending.errors
        )
        return int(float(sizes[-1]) * MIB) if sizes else None
    if answer.get("max_slowdown"):
        return min(in_time(answer))
    return answer["smallest_feasible_bytes"] or answer.get("smallest_spill_bytes")


def in_time(answer: dict[str, Any]) -> list[int]:
    """Limits whose plans take no longer than was allowed; other figures say nothing of time."""
    most = answer["max_slowdown"] * answer["frontier"][-1]["seconds_per_step"]
    return [point["process_bytes"] for point in answer["frontier"]
            if point["seconds_per_step"] <= most]  # fmt: skip


def compare(
    numbers: dict[str, Any], limit: int | None, stage: str, told: str,
    share: float = prediction.SHARE, slack: float = prediction.SLACK,
) -> Outcome | None:  # fmt: skip
    predicted, measured = numbers.get("predicted"), numbers.get("measured")
    if not predicted or not measured:
        return Outcome("no report", detail=f"{stage}: {told[-300:]}")
    sizes = f"{stage}: predicted {predicted / MIB:.1f} MiB, measured {measured / MIB:.1f} MiB"
    if limit is not None:
        sizes += f", limit {limit / MIB:.1f} MiB"
    if measured > predicted + prediction.UNCERTAIN:
        return Outcome("prediction passed", detail=sizes, numbers=numbers)
    if limit is not None and measured > limit + prediction.UNCERTAIN:
        return Outcome("limit passed", detail=sizes, numbers=numbers)
    # Of scratch a part may be left untouched: other tests look at that.
    if predicted > measured * share + slack + numbers.get("untouched", 0):
        return Outcome("prediction too high", detail=sizes, numbers=numbers)
    return None


def _for_plan(name: str) -> bool:
    kept = ("precision", "threads", "backend", "spill", "no", "batch", "max", "without", "seed",
            "usual", "validation", "class", "optimizer", "metrics", "accuracy")  # fmt: skip
    return name.split()[0] in kept


def _without(words: list[str], *options: str) -> list[str]:
    """Without these options and what belongs to them."""
    kept: list[str] = []
    skipping = False
    for word in words:
        if word.startswith("--"):
            skipping = word in options
        if not skipping:
            kept.append(word)
    return kept


def _pairs(words: list[str], options: Any) -> list[str]:
    """These options with their values alone."""
    kept: list[str] = []
    for i, word in enumerate(words):
        if word in options:
            kept += words[i : i + 2]
    return kept
