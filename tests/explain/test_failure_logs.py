"""Failure logs made from the grammar of their messages: what is said of them is true."""

import collections
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import allocator_logs
import host_logs
import jax_logs
import limit_logs
import log_dressing
import tensorflow_logs
import torch_logs
from failure_logs import FAMILIES, FIELDS, Failure

LOGS = 1600
# Importing them made their families known.
MAKERS = (tensorflow_logs, allocator_logs, torch_logs, jax_logs, host_logs, limit_logs)


def lowered(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def judge(failure: Failure, answer: dict[str, Any]) -> dict[str, bool]:
    """Which of the asked fields are right."""
    right = {"verdict": answer["verdict"] == failure.verdict}
    expected = None if failure.resource == "none" else failure.resource
    right["resource"] = answer["resource"] == expected
    for name in FIELDS:
        truth = failure.truth.get(name)
        if truth is ...:
            continue
        got = answer[name]
        if name == "bytes" and truth is not None and got is not None:
            right[name] = abs(got - truth) <= 1
        else:
            right[name] = lowered(got) == lowered(truth)
    if failure.cause:
        right["cause_label"] = answer["cause_label"] in failure.cause
    return right


class Log:
    def __init__(self, index: int) -> None:
        rng = random.Random(index)
        names = list(FAMILIES)
        self.family = names[index % len(names)]
        self.failure = FAMILIES[self.family](rng)
        prefixes, changes = list(log_dressing.PREFIXES), list(log_dressing.CHANGES)
        self.prefix, self.change = rng.choice(prefixes), rng.choice(["", "", *changes])
        lines = [part for line in self.failure.lines for part in line.split("\n")]
        if self.failure.whole and self.change in ("glued", "returned", "spread", "repeated"):
            self.change = ""
        early = self.change in ("glued", "returned", "spread", "repeated")
        change = log_dressing.CHANGES[self.change]
        if early:
            lines = change(rng, lines)
        before, after = rng.choice(log_dressing.BEFORE), rng.choice(log_dressing.AFTER)
        lines = log_dressing.PREFIXES[self.prefix](rng, [*before, *lines, *after])
        if not early:
            lines = change(rng, lines)
        self.text = rng.choice(["\n", "\n", "\r\n"]).join(lines) + rng.choice(["\n", ""])


def explain(plimsoll: Path, folder: Path, texts: list[str]) -> list[dict[str, Any]]:
    """The answers of one run to many logs."""
    names = []
    for index, text in enumerate(texts):
        names.append(f"{index}.log")
        (folder / names[-1]).write_text(text, newline="")
    answers = []
    for start in range(0, len(names), 400):
        done = subprocess.run(
            [plimsoll, "explain", "--json", *names[start : start + 400]],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        decoder, at = json.JSONDecoder(), 0
        while at < len(done.stdout):
            answer, at = decoder.raw_decode(done.stdout, at)
            at = len(done.stdout) - len(done.stdout[at:].lstrip())
            answers.append(answer)
    assert len(answers) == len(texts)
    return answers


def test_the_truth_is_told(plimsoll: Path, tmp_path: Path) -> None:
    logs = [Log(index) for index in range(LOGS)]
    answers = explain(plimsoll, tmp_path, [log.text for log in logs])
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    wrong = collections.Counter()
    for log, answer in zip(logs, answers):
        for name, right in judge(log.failure, answer).items():
            counts[name][0] += right
            counts[name][1] += 1
            if not right:
                wrong[f"{name}: {log.family}"] += 1
                wrong[f"{name}: {log.prefix} {log.change}"] += 1
    for name, (right, asked) in counts.items():
        print(f"{name:<14} {right:>5} of {asked:>5}  {100 * right / asked:.2f} %")
    for what, times in wrong.most_common(40):
        print(f"    wrong {times:>3} x {what}")
    for name, (right, asked) in counts.items():
        assert right >= 0.99 * asked, name
