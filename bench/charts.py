"""Charts as SVG that stand alone: ratios as bars, times as lines over batch or limit."""

import math
from html import escape
from typing import Any

Row = dict[str, Any]
COLORS = ["#1f6fb4", "#d9822b", "#2f9e6e", "#a34fb0", "#7a6a53", "#c23b4b"]
WIDTH = 760
FONT = 'font-family="sans-serif" font-size="12"'


def svg(height: float, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" {FONT}>'
    back = f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join([head, back, *parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, anchor: str = "start", color: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"'
    return f"<text {place}>{escape(words)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, color: str = "#bbb", wide: float = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{color}" stroke-width="{wide:g}"/>'


def bar_name(row: Row) -> str:
    words = [row["workload"]]
    if row.get("program"):
        words.append(f"{row['program']} {row['batch']}")
    if row.get("limit"):
        words.append(row["limit"])
    if row["precision"] != "f32":
        words.append(row["precision"])
    return ", ".join(words)


def ratios(rows: list[Row], peer: str) -> str:
    """How many times as fast as the peer, with a mark at each goal; a refused row says so."""
    left, right, height = 210.0, WIDTH - 90.0, 22.0
    found = [row["ratios"].get(peer) for row in rows]
    goals = [row["goal"]["speed"] or 0 for row in rows]
    most = max([1.0, *[f or 0 for f in found], *goals])

    def at(value: float) -> float:
        return left + (right - left) * math.log2(1 + value) / math.log2(1 + most)

    parts = [text(10, 20, f"Times as fast as {peer} (least time of a step)")]
    bottom = 34 + height * len(rows)
    for mark in [m for m in (0, 1, 2, 4, 8, 16, 32, 64) if m <= most]:
        parts += [
            line(at(mark), 30, at(mark), bottom),
            text(at(mark), bottom + 14, f"{mark}", "middle"),
        ]
    for i, (row, value, goal) in enumerate(zip(rows, found, goals)):
        y = 34 + height * i
        parts.append(text(left - 8, y + 15, bar_name(row), "end"))
        if value is None:
            refused = "refused" in row["plimsoll"]
            parts.append(
                text(left + 6, y + 15, "refused" if refused else "not measured", color="#a00")
            )
        else:
            color = COLORS[0] if value >= goal else COLORS[1]
            size = f'width="{at(value) - left:.1f}" height="{height - 6:.0f}"'
            parts.append(f'<rect x="{left}" y="{y + 2:.1f}" {size} fill="{color}"/>')
            parts.append(text(at(value) + 5, y + 15, f"{value:.2f} ×"))
        if goal:
            parts.append(line(at(goal), y, at(goal), y + height - 2, "#111", 2))
    parts.append(text(10, bottom + 32, "Black marks: what is to be reached; orange: below it."))
    return svg(bottom + 42, parts)


def ticks(low: float, high: float, base: float) -> list[float]:
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    return [base**i for i in range(first, last + 1)]


def curves(rows: list[Row], key: str, title: str, unit: float, base: float) -> str:
    """Seconds of a step over `key`, both in logarithms, a line for each workload."""
    rows = [row for row in rows if key in row and "seconds" in row]
    if not rows:
        return svg(40, [text(10, 20, title + ": nothing was measured")])
    names = list(dict.fromkeys(row["workload"] for row in rows))
    across = ticks(min(r[key] for r in rows) / unit, max(r[key] for r in rows) / unit, base)
    up = ticks(min(r["seconds"] for r in rows), max(r["seconds"] for r in rows), 10)
    left, right, top, bottom = 70.0, WIDTH - 150.0, 40.0, 400.0

    def x_at(value: float) -> float:
        whole = math.log(across[-1] / across[0]) or 1.0
        return left + (right - left) * math.log(value / unit / across[0]) / whole

    def y_at(value: float) -> float:
        whole = math.log(up[-1] / up[0]) or 1.0
        return bottom - (bottom - top) * math.log(value / up[0]) / whole

    parts = [text(10, 20, title)]
    for tick in across:
        parts += [line(x_at(tick * unit), top, x_at(tick * unit), bottom, "#e5e5e5"),
                  text(x_at(tick * unit), bottom + 16, f"{tick:g}", "middle")]  # fmt: skip
    for tick in up:
        parts += [line(left, y_at(tick), right, y_at(tick), "#e5e5e5"),
                  text(left - 6, y_at(tick) + 4, f"{tick:g} s", "end")]  # fmt: skip
    for i, name in enumerate(names):
        color = COLORS[i % len(COLORS)]
        own = sorted((row[key], row["seconds"]) for row in rows if row["workload"] == name)
        points = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in own)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        for x, y in own:
            parts.append(f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3" fill="{color}"/>')
        parts.append(text(right + 10, top + 16 * (i + 1), name, color=color))
    return svg(bottom + 30, parts)


def of_mode(mode: str, rows: list[Row], peers: list[str]) -> dict[str, str]:
    """Charts by the part of their files' names."""
    if mode in ("train", "predict"):
        whole = [row for row in rows if "ratios" in row]  # others have a verdict only: they failed
        return {peer: ratios(whole, peer) for peer in peers} if whole else {}
    if mode == "batch":
        return {"batch": curves(rows, "batch", "Seconds a step over the batch", 1, 2)}
    if mode == "limit":
        title = "Seconds a step over the limit (MiB)"
        return {"limit": curves(rows, "limit_bytes", title, 2**20, 2)}
    return {}
