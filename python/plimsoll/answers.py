"""What `plan` answers: a table to print, numbers to use, a chart in a notebook."""

from __future__ import annotations

import html
import json
from typing import Any

_FRAME_HEIGHT = 640  # pixels


def framed(page: str) -> str:
    """A page for a notebook; in a frame, from which its styles do not reach the notebook's."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-same-origin" '
        f'style="width:100%;height:{_FRAME_HEIGHT}px;border:0"></iframe>'
    )


class PlanAnswer:
    """A plan within a limit, or why there is none; sizes are in bytes.

    fits: whether there is a plan. held: what interpreter, framework and the program's arrays take
    beside the engine. details: everything that `plimsoll plan --json` prints.
    """

    def __init__(self, answer: dict[str, Any], held: int, reserve: int, memory: int | None) -> None:
        self.fits: bool = answer["fits"]
        self.held, self.reserve, self.memory = held, reserve, memory
        self.details: dict[str, Any] = json.loads(answer["json"])
        self._text: str = answer["text"]
        self._html: str = answer["html"]

    @property
    def predicted(self) -> int:
        """Bytes that the whole process will take at its peak."""
        return int(self.details["predicted_process_bytes"])

    def frontier(self) -> list[tuple[int, float, str]]:
        """Limits of the engine's share against seconds a step, by rising memory."""
        return [
            (int(point["process_bytes"]), float(point["seconds_per_step"]), str(point["strategy"]))
            for point in self.details["frontier"]
        ]

    def __str__(self) -> str:
        mib = 1 << 20
        lines = [f"interpreter, framework and arrays  {self.held / mib:9.1f} MiB"]
        if self.memory is not None:
            lines.append(f"reserve for their growth           {self.reserve / mib:9.1f} MiB")
        return "\n".join([*lines, "", self._text])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The page with chart and tables."""
        return framed(self._html)
