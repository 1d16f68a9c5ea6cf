"""Which pairs of layer, form of data and option were run together."""

from __future__ import annotations

from itertools import product

from memory_forms import FORMS
from memory_layers import KINDS
from memory_options import COMMANDS, OPTIONS, legal
from memory_recipe import Recipe, layer_kinds


def possible() -> dict[str, set[tuple[str, str]]]:
    """The pairs that the program promises to run."""

    def allowed(form: str, option: str) -> bool:
        return any(
            legal(option, FORMS[form], command, sparse, 1)
            for command in COMMANDS
            for sparse in _losses(FORMS[form].labels)
        )

    return {
        "layer × form": set(product(KINDS, FORMS)),
        "layer × option": set(product(KINDS, OPTIONS)),
        "form × option": {pair for pair in product(FORMS, OPTIONS) if allowed(*pair)},
    }


def _losses(labels: str) -> tuple[bool, ...]:
    """Whether labels may be classes, and whether they may be something else."""
    if labels in ("mask", "class", "token"):
        return (True,)
    return (False,) if labels == "row" else (True, False)


class Coverage:
    def __init__(self) -> None:
        self.possible = possible()
        self.seen: dict[str, set[tuple[str, str]]] = {name: set() for name in self.possible}

    def add(self, recipe: Recipe) -> None:
        kinds, form, options = layer_kinds(recipe), recipe["data"]["form"], recipe["options"]
        for name, pairs in (("layer × form", product(kinds, [form])),
                            ("layer × option", product(kinds, options)),
                            ("form × option", product([form], options))):  # fmt: skip
            self.seen[name] |= set(pairs) & self.possible[name]

    def part(self) -> float:
        seen = sum(map(len, self.seen.values()))
        return seen / sum(map(len, self.possible.values()))

    def text(self) -> str:
        lines = [f"pairs covered: {100 * self.part():.1f} %"]
        for name, pairs in self.possible.items():
            missing = sorted(pairs - self.seen[name])
            examples = "; ".join(" with ".join(pair) for pair in missing[:3])
            line = f"  {name}: {len(self.seen[name])} of {len(pairs)}"
            lines.append(line + (f" (not: {examples} …)" if missing else ""))
        return "\n".join(lines)
