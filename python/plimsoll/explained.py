"""What is left of a failure, explained: the command `plimsoll explain` on a text.

The program reads the text in a process of its own; nothing of the text is executed or unpickled.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plimsoll import _program
from plimsoll.answers import PlanAnswer, framed
from plimsoll.errors import ResourceExhausted
from plimsoll.options import MIB

MOST_TEXT = 64 * MIB  # bytes that are read of a text, its last ones
_ANSWERS = (0, *range(10, 19))  # exit codes of `plimsoll explain` that come with an answer


@dataclass(frozen=True)
class Remedy:
    """What would do. saves: bytes, None where the text does not tell; code: for the program."""

    action: str
    arithmetic: str | None
    code: str | None
    saves: int | None


class Explanation:
    """What ran out, why, and what to do; print it, or let a notebook show it.

    verdict: "failure", "warning" or "no_failure". resource: what ran out; framework: whose message
    it was; cause_label: one of docs/reference/explain.md; cause: in words. None: the text does not
    tell. confidence: of the cause, 0 to 1. remedies: the most useful first. details: everything
    that `plimsoll explain --json` prints. left_out: bytes at the begin of the text that were not
    read. plan: what a step of the given model takes; without one plan_refused says why.
    """

    def __init__(self, details: dict[str, Any], text: str, page: str, left_out: int) -> None:
        self.details = details
        self.verdict: str = details["verdict"]
        self.resource: str | None = details["resource"]
        self.framework: str | None = details["framework"]
        self.cause_label: str = details["cause_label"]
        self.cause: str | None = details["cause"]
        self.confidence = float(details["confidence"])
        self.remedies = [
            Remedy(one["action"], one["arithmetic"], one["code"], one["saves_bytes"])
            for one in details["advice"]
        ]
        self.left_out = left_out
        self.plan: PlanAnswer | None = None
        self.plan_refused = ""
        self._plan_of = ""
        self._text, self._page = text, page

    def add_plan(self, model: Any, batch_size: int, options: dict[str, Any]) -> None:
        """What `plimsoll.plan` says of a model; what it refuses is part of the answer."""
        from plimsoll import calls

        self._plan_of = f"{getattr(model, 'name', type(model).__name__)}, batches of {batch_size}"
        try:
            self.plan = calls.plan(model, batch_size, **options)
        except (ValueError, MemoryError) as error:  # Refused and ResourceExhausted among them
            self.plan_refused = str(error)

    def _beside(self) -> list[str]:
        """What is said in front of the answer and after it."""
        if not self.left_out:
            return []
        return [f"the first {self.left_out} bytes of the text were left out"]

    def __str__(self) -> str:
        parts = [*self._beside(), self._text.rstrip()]
        if self._plan_of:
            parts.append(f"plan of {self._plan_of}\n{self.plan or self.plan_refused}".rstrip())
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The pages of `plimsoll explain --html` and of the plan, each in a frame."""
        import html

        parts = [f"<p>{html.escape(line)}</p>" for line in self._beside()]
        parts.append(framed(self._page))
        if self._plan_of:
            parts.append(f"<p>plan of {html.escape(self._plan_of)}</p>")
            parts.append(
                self.plan._repr_html_() if self.plan else f"<p>{html.escape(self.plan_refused)}</p>"
            )
        return "\n".join(parts)

    def _repr_markdown_(self) -> str:
        lines = [f"**{_marked(self._text.partition(chr(10))[0])}**"]
        lines += [_marked(line) for line in self._beside()]
        if self.cause:
            lines.append(_marked(self.cause))
        for number, remedy in enumerate(self.remedies, 1):
            sum_ = f" ({_marked(remedy.arithmetic)})" if remedy.arithmetic else ""
            code = "\n".join(f"    {line}" for line in ["", *(remedy.code or "").splitlines()])
            lines.append(f"{number}. {_marked(remedy.action)}{sum_}\n{code}".rstrip())
        if self._plan_of:
            told = str(self.plan or self.plan_refused).splitlines()
            lines.append(f"plan of {_marked(self._plan_of)}")
            lines.append("\n".join(f"    {line}" for line in told))
        return "\n\n".join(lines)


def _marked(text: str) -> str:
    """Plain text, none of whose characters Markdown takes for a mark, nor a browser for a tag."""
    return "".join(f"\\{one}" if one in r"\`*_[]<>#|$&" else one for one in text)


# As ResourceExhausted has them: what would do, what it takes, and the argument or the command.
_OWN_REMEDY = re.compile(r"^  \d+\. (.+?)(?: \(([^()]*)\))?\n     (.+)$", re.MULTILINE)


def _of_own(error: ResourceExhausted, details: dict[str, Any], left_out: int) -> Explanation:
    """What Plimsoll itself has raised is the explanation, with remedies that were planned."""
    import html

    text = str(error)
    page = f"<!doctype html><pre>{html.escape(text)}</pre>"
    answer = Explanation(details, text, page, left_out)
    answer.cause = text.partition("\nwhy: ")[2].strip() or answer.cause
    answer.remedies = [Remedy(action, takes or None, code.strip(), None)
                       for action, takes, code in _OWN_REMEDY.findall(text)]  # fmt: skip
    return answer


def _text_of(what: BaseException | str) -> tuple[bytes, int]:
    """The last bytes of a text, and how many there are in front of them."""
    if isinstance(what, BaseException):
        what = "".join(traceback.format_exception(what))
    elif not isinstance(what, str):
        raise TypeError(
            f"explain: expected an exception or a text, received {type(what).__name__}."
        )
    if not what.strip():
        raise ValueError("explain: expected a text, received an empty one.")
    written = what.encode(errors="replace")
    return written[-MOST_TEXT:], max(len(written) - MOST_TEXT, 0)


def _run(text: bytes, *options: str) -> str:
    command = [str(_program.find()), "explain", *options, "-"]
    done = subprocess.run(command, input=text, capture_output=True)
    if done.returncode == 5:
        raise ValueError(f"explain: {done.stderr.decode(errors='replace').strip()}")
    if done.returncode not in _ANSWERS:
        raise RuntimeError(
            f"explain: expected an answer of {' '.join(command)}, received exit code "
            f"{done.returncode}: {done.stderr.decode(errors='replace').strip()}"
        )
    return done.stdout.decode(errors="replace")


def explain(
    exception_or_text: BaseException | str,
    model: Any = None,
    batch_size: int | None = None,
    **options: Any,
) -> Explanation:
    """What ran out, why and what to do, by an exception or by what a program printed.

    Of an exception its traceback is read too; of a text the last 64 MiB. ResourceExhausted says
    itself why and what would do. With a compiled Keras model the answer has what `plan` says of it,
    for `batch_size` (without one: that of the text, else 32; of ResourceExhausted there is no plan
    then) and options as in `plan`.

    Raises ValueError for what is no text, FileNotFoundError where the program is missing.
    """
    text, left_out = _text_of(exception_or_text)
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
        page = Path(folder) / "page.html"
        details = json.loads(_run(text, "--json", "--html", str(page)))
        if isinstance(exception_or_text, ResourceExhausted):
            answer = _of_own(exception_or_text, details, left_out)
            model = model if batch_size else None
        else:
            answer = Explanation(details, _run(text), page.read_text("utf-8", "replace"), left_out)
    if model is not None:
        answer.add_plan(model, batch_size or details["batch"] or 32, options)
    return answer
