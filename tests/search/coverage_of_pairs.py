"""Which (layer, option), (layer, value of an option) and pairs of neighbours a search has met.

What is possible comes from the tables that are drawn from and, for options, from the reference page
of supported layers, so that what the tables lack is seen too.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from layer_choices import CHOICES, ELEMENTWISE

Recipe = dict[str, Any]

PAGE = Path(__file__).parents[2] / "docs/reference/supported-layers.md"
# Layers whose input and output have the ranks of the table; what a layer does to a rank.
FLATTENS, REPEATS = ("Flatten",), ("RepeatVector",)
# What is never drawn, and why: an index of the input, or what only a file holds.
UNDRAWN = {
    ("InputLayer", "batch_shape"): "each model has it",
    ("Operation", "operation"): "drawn as an operator",
    ("CustomScaleLayer", "scale"): "a layer of keras.applications alone",
    ("LayerScale", "init_values"): "a layer of keras.applications alone",
    ("LayerScale", "projection_dim"): "a layer of keras.applications alone",
}


def documented_options() -> set[tuple[str, str]]:
    """(layer, option) as the reference page lists them."""
    pairs = set()
    for line in PAGE.read_text().split("## Layers that are refused")[0].splitlines():
        cells = line.split(" | ")
        if line.startswith("| ") and len(cells) > 1 and re.match(r"\| [A-Z]\w+$", cells[0]):
            for option in re.findall(r"`(\w+)", line.partition(" | ")[2]):
                pairs.add((cells[0][2:], option))
    return pairs - set(UNDRAWN)


def value_class(value: Any) -> str:
    """Values that are alike in kind count as one."""
    if isinstance(value, dict):
        return str(value.get("class_name") or value.get("layer"))
    if isinstance(value, list):
        return f"list of {len(value)}"
    if isinstance(value, bool) or isinstance(value, str) or value is None:
        return str(value)
    return "negative" if value < 0 else "zero" if value == 0 else "number"


def all_nodes(model: Recipe) -> Iterator[Recipe]:
    """Nodes of a recipe, those of models and wrappers inside of it too."""
    for node in model["nodes"]:
        yield node
        yield from inner_nodes(node)


def inner_nodes(node: Recipe) -> Iterator[Recipe]:
    if "model" in node:
        yield from all_nodes(node["model"])
    for value in node.get("config", {}).values():
        if isinstance(value, dict) and "layer" in value:
            yield value
            yield from inner_nodes(value)


def label(node: Recipe) -> str:
    return f"ops.{node['config']['op']}" if node["layer"] == "Operator" else node["layer"]


def neighbours(model: Recipe) -> Iterator[tuple[str, str]]:
    """(layer, the layer that takes its output) of a recipe and the models in it."""
    by_name = {node["name"]: node for node in model["nodes"]}
    for node in model["nodes"]:
        for ref in node["in"]:
            maker = by_name.get(ref.split(":")[0])
            if maker is not None:
                yield label(maker), label(node)
        if "model" in node:
            yield from neighbours(node["model"])


def ranks_after(layer: str, rank: int) -> tuple[int, ...]:
    """Ranks that the output of a layer may have, for an input of one that it takes."""
    if layer in FLATTENS:
        return (1,)
    if layer in REPEATS:
        return (2,)
    if layer.startswith("Global") or layer in ("LSTM", "GRU", "SimpleRNN"):
        return (1, rank)
    if layer == "Reshape":
        return (1, 2, 3)
    return (rank,)


def possible_neighbours() -> set[tuple[str, str]]:
    """Pairs of layers of which the first gives a rank that the second takes."""
    ranks = {name: choice.ranks for name, choice in CHOICES.items()}
    ranks |= {name: (1, 2, 3) for name in ELEMENTWISE}
    ranks |= {"Concatenate": (1, 2, 3), "Attention": (2,), "Bidirectional": (2,)}
    ranks |= {"TimeDistributed": (2, 3), "Dot": (1, 2)}
    pairs = set()
    for first, takes in ranks.items():
        gives = {after for rank in takes for after in ranks_after(first, rank)}
        pairs |= {(first, second) for second in ranks if gives & set(ranks[second])}
    return pairs


def report(recipes: list[Recipe]) -> str:
    """The coverage of a search, in words."""
    options, values, pairs = set(), set(), set()
    for recipe in recipes:
        for node in all_nodes(recipe):
            for key, value in {**node.get("config", {}), **node.get("call", {})}.items():
                options.add((node["layer"], key))
                values.add((node["layer"], key, value_class(value)))
        pairs |= set(neighbours(recipe))
    known = documented_options()
    possible = possible_neighbours()
    missing = sorted(known - options)
    lines = [
        f"(layer, option): {len(known & options)} of {len(known)}, "
        f"{100 * len(known & options) / len(known):.1f} %; values by kind: {len(values)}",
        f"neighbours: {len(possible & pairs)} of {len(possible)}, "
        f"{100 * len(possible & pairs) / len(possible):.1f} %; "
        f"with operators and wrappers {len(pairs)}",
    ]
    if missing:
        named = ", ".join(f"{layer}.{option}" for layer, option in missing)
        lines.append(f"options not met: {named}")
    return "\n".join(lines)
