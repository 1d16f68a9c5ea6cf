"""What the prediction of a process's memory is held against.

It is never below what was resident: that is the promise. The kernel's mark of that (VmHWM) is kept
by counters of which each processor has up to 31 pages to itself, and may lie above by those
(peak_uncertainty in base/process_memory.h). How far the prediction may be above has an allowance
for what equal runs differ by, and for what bounds of parts are above the parts
(docs/design/0021-accounted-memory.md).
"""

import os
from typing import Any

# Anonymous pages and those of files.
UNCERTAIN = 2 * 31 * os.sysconf("SC_PAGE_SIZE") * min(os.sysconf("SC_NPROCESSORS_ONLN"), 16)

SHARE = 1.02
# 4 MiB, and 5 of what making the first kernels may touch of the vendor's library: the bound is for
# the kinds that touch most.
SLACK = 9 * 2**20
# A layer's kernels are allowed for as the largest of their kind take, which most do not.
SLACK_A_LAYER = 32 * 2**10

# What networks of hundreds of layers may be above: kernels are allowed for at block and tail, and
# the search for phases in full, of which a run may have neither.
DEEP, DEEP_SHARE = 200, 1.65


def share_of(layers: int) -> float:
    return DEEP_SHARE if layers >= DEEP else SHARE


def slack_of(layers: int) -> int:
    return SLACK + SLACK_A_LAYER * layers


def holds(run: dict[str, Any], share: float = SHARE, slack: int = SLACK) -> None:
    """Fails where the run's report says that its prediction was passed, or was far too high."""
    predicted, measured = run["predicted_process_bytes"], run["measured_process_bytes"]
    assert measured <= predicted + UNCERTAIN, (predicted, measured)
    assert predicted <= measured * share + slack, (predicted, measured)
