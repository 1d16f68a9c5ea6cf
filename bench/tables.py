"""Rows as a Markdown table, a column for what their mode has."""

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value * 1e6:.1f} µs" if value < 1e-3 else f"{value:.4g} s"


def milliseconds(value: float) -> str:
    return f"{value * 1e3:.3g}"


def mib(value: float | None) -> str:
    return "–" if value is None else f"{value / 2**20:.1f}"


def times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} ×"


def side(answer: dict[str, Any] | None) -> str:
    """Least and median time and peak of one side."""
    if answer is None:
        return "–"
    if "refused" in answer:
        return "refused"
    least, middle = seconds(answer["least_seconds"]), seconds(answer["median_seconds"])
    return f"{least} · {middle} · {mib(answer['peak_bytes'])}"


def goal(row: Row) -> str:
    parts = []
    if row["goal"]["speed"]:
        parts.append(f"≥ {row['goal']['speed']:g} ×")
    if row["goal"]["mib"]:
        parts.append(f"≤ {row['goal']['mib']} MiB")
    return ", ".join(parts) or "–"


def losses(row: Row) -> str:
    """How far from each peer's, and how far TensorFlow's are from themselves."""
    found = row.get("losses")
    if not found:
        return "–"
    words = [
        f"{'agree' if each['agree'] else 'DIFFER'}: {each['difference']:.1e}"
        for each in found.values()
    ]
    return f"{'; '.join(words)} (floor {next(iter(found.values()))['floor']:.1e})"


def verdict(row: Row) -> str:
    refused = row.get("plimsoll", {}).get("refused")
    return f"refused: {refused}" if refused else row["verdict"]


Column = tuple[str, Callable[[Row], str]]


def compared(peers: list[str]) -> list[Column]:
    columns: list[Column] = [("Plimsoll: least · median · MiB", lambda r: side(r["plimsoll"]))]
    for peer in peers:
        columns.append((f"{peer}: the same", lambda r, p=peer: side(r["peers"].get(p))))
        columns.append(("ratio", lambda r, p=peer: times(r["ratios"].get(p))))
    return [*columns, ("goal", goal)]


def of_networks(mode: str, name: Column, peak: Column, time: Column, last: Column) -> list[Column]:
    """Networks free and at limits."""
    plan: Column = ("plan", lambda r: r["what"])
    size: Column = ("limit MiB", lambda r: mib(r["limit_bytes"]))
    guess: Column = ("estimated / measured", lambda r: r["estimate"])
    if mode == "drawn":
        slow: Column = ("below 40 % of their limits, of the step", lambda r: r.get("slow") or "–")
        return [name, plan, size, peak, time, guess, slow, last]
    theirs: Column = ("TensorFlow", lambda r: seconds(r["tensorflow_seconds"]))
    speed: Column = ("ratio", lambda r: times(r["speed"]))
    return [name, plan, size, peak, time, theirs, speed, guess, last]


def of_operators() -> list[Column]:
    """Calls, or calls of one operator, beside TensorFlow's."""

    def theirs(row: Row) -> str:
        hot, cold = row["tensorflow_seconds"], row["tensorflow_cold_seconds"]
        return "none" if hot is None else f"{milliseconds(hot)} · {milliseconds(cold)}"

    def ratio(row: Row) -> str:
        return "–" if row["ratio"] is None else f"{row['ratio']:.2f} · {times(row['cold_ratio'])}"

    return [
        ("operator", lambda r: r["operator"]),
        ("of the step", lambda r: f"{r['share']:.1%}"),
        ("of its limit", lambda r: f"{r['of_limit']:.0%}"),
        ("ms", lambda r: milliseconds(r["seconds"])),
        ("TensorFlow ms: in caches · past them", theirs),
        ("ratio", ratio),
        ("not compared", lambda r: r["beside"] or "–"),
    ]


def columns_of(mode: str, peers: list[str]) -> list[Column]:
    name: Column = ("workload", lambda r: r["workload"])
    last: Column = ("verdict", verdict)
    peak: Column = ("peak MiB", lambda r: mib(r.get("peak_bytes")))
    time: Column = ("time", lambda r: seconds(r.get("seconds")))
    if mode == "train":
        limit: Column = ("limit", lambda r: r["limit"] or "none")
        how: Column = ("precision", lambda r: r["precision"])
        return [name, limit, how, *compared(peers), ("losses", losses), last]
    if mode == "predict":
        what: Column = ("program", lambda r: f"{r['program']}, batch {r['batch']}")
        return [name, what, *compared(peers), last]
    if mode == "batch":
        growth: Column = ("against half", lambda r: times(r.get("growth")))
        return [name, ("batch", lambda r: str(r.get("batch", "–"))), time, growth, peak, last]
    if mode == "limit":
        limit = ("limit MiB", lambda r: mib(r["limit_bytes"]))
        rise: Column = ("against less", lambda r: times(r["rise"]))
        return [name, limit, time, rise, peak, last]
    if mode == "disk":
        return [
            name,
            ("page cache", lambda r: rates([c["rate"] for c in r["cached"]])),
            (f"disk, in a group of {64} MiB", lambda r: rates([c["rate"] for c in r["cold"]])),
            ("the disk alone", lambda r: rates(r["disk_rates"])),
            ("bound by", lambda r: r["bound"]),
            ("share", lambda r: f"{r['share']:.2f}"),
            last,
        ]
    if mode == "start":
        beside: Column = ("Keras", lambda r: seconds(r.get("keras_seconds")))
        ratio: Column = ("ratio", lambda r: times(r.get("ratio")))
        return [name, ("until", lambda r: r["what"]), time, peak, beside, ratio, last]
    if mode == "kernels":
        fastest: Column = ("at the fastest extents", lambda r: seconds(r["best_seconds"]))
        share: Column = ("share", lambda r: f"{r['share']:.3f}")
        return [name, ("at the boxes", time[1]), fastest, share, ("most lost by", most_lost), last]
    if mode == "watch":
        alone: Column = ("alone", lambda r: seconds(r["alone_seconds"]))
        least: Column = ("ratio", lambda r: f"{r['ratio']:.4f}")
        middle: Column = ("of medians", lambda r: f"{r['median_ratio']:.4f}")
        return [name, ("watched", time[1]), alone, least, middle, ("watcher", peak[1]), last]
    if mode == "live":
        span: Column = ("limits MiB", lambda r: f"{mib(r['least_bytes'])}–{mib(r['most_bytes'])}")
        held: Column = ("held", lambda r: f"{r['held']} of {r['limits']}")
        peak: Column = ("free peak", lambda r: mib(r["free_peak_bytes"]))
        apart: Column = ("from Keras", lambda r: f"{r['apart']:.2g}")
        own: Column = ("Keras from itself", lambda r: f"{r['own']:.2g}")
        return [name, span, held, peak, apart, own, last]
    if mode == "live_speed":
        keras: Column = ("Keras", lambda r: seconds(r["keras_seconds"]))
        line: Column = ("command line", lambda r: seconds(r.get("line_seconds")))
        speed: Column = ("ratio", lambda r: times(r["keras_seconds"] / r["seconds"]))
        theirs: Column = ("Keras MiB", lambda r: mib(r.get("keras_peak_bytes")))
        ours: Column = ("MiB", lambda r: mib(r.get("peak_bytes")))
        live: Column = ("live", lambda r: seconds(r["seconds"]))
        what = ("what", lambda r: r["what"])
        return [name, what, live, line, keras, speed, ours, theirs, last]
    if mode == "ranks":
        whole: Column = ("one process", lambda r: seconds(r["alone_seconds"]))
        threads: Column = ("ratio", lambda r: times(r["of_threads"]))
        theirs = ("PyTorch", lambda r: seconds(r["pytorch_seconds"]))
        speed = ("ratio", lambda r: times(r["of_pytorch"]))
        waited: Column = ("of it waited", lambda r: seconds(r["waited_seconds"]))
        sent: Column = ("sent MB", lambda r: f"{r['exchanged_bytes'] / 1e6:.1f}")
        many: Column = ("ranks", lambda r: f"{r['ranks']} of a thread")
        return [name, many, time, waited, whole, threads, theirs, speed, sent, peak, last]
    if mode in ("unseen", "drawn"):
        return of_networks(mode, name, peak, time, last)
    if mode == "operators":
        return [name, *of_operators(), last]
    return [name, last]


def most_lost(row: Row) -> str:
    """The node that loses most of the step by its box."""
    node = row["most_lost"]
    lost = node["seconds"] - node["best_seconds"]
    if lost <= 0:
        return "none"
    extents = f"{node['box']} samples a call, fastest {node['fastest']}"
    return f"{node['name']}: {seconds(lost)} ({extents})"


def rates(values: list[float]) -> str:
    return f"{max(values) / 1e6:.0f} MB/s"


def markdown(mode: str, rows: list[Row], peers: list[str]) -> str:
    columns = columns_of(mode, peers)
    lines = ["| " + " | ".join(head for head, _ in columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        cells = [cell(row) if is_whole(row) else "–" for _, cell in columns]
        cells[0], cells[-1] = row["workload"], verdict(row)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def is_whole(row: Row) -> bool:
    """Whether it holds figures, not just a verdict."""
    return len(row) > 3
