"""Makes the recipe of a finding small: drops and simplifies whatever the finding does without."""

import copy
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from comparison import Verdict, compare
from model_draw import tensors_in
from model_recipe import Recipe

PLAIN_LOSS = {"class_name": "MeanSquaredError", "config": {}}
PLAIN_OPTIMIZER = {"class_name": "SGD", "config": {"learning_rate": 0.01}}


def renamed(value: Any, old: str, new: str) -> Any:
    """`value` with every tensor `old` (and further outputs of it) replaced by `new`."""
    if isinstance(value, str):
        return new if value == old or value.startswith(f"{old}:") else value
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: renamed(item, old, new) for key, item in value.items()}
    return value


def pruned(recipe: Recipe) -> Recipe:
    """Without nodes and inputs that no output needs."""
    needed = set(recipe["outputs"])
    nodes = []
    for node in reversed(recipe["nodes"]):
        if any(ref.split(":")[0] == node["name"] for ref in needed):
            nodes.append(node)
            needed |= {*node["in"], *tensors_in(node.get("call", {}))}
            needed.add(node.get("again", node["name"]))
    inputs = [spec for spec in recipe["inputs"] if spec["name"] in needed]
    return {**recipe, "inputs": inputs, "nodes": nodes[::-1]}


def without_node(recipe: Recipe, index: int, operand: str) -> Recipe:
    """The node's output is one of its inputs."""
    node = recipe["nodes"][index]
    rest = copy.deepcopy(recipe["nodes"][:index] + recipe["nodes"][index + 1 :])
    heir = None
    for other in rest:
        if other.get("again") == node["name"]:  # the next call makes the layer
            if heir is None:
                heir = other["name"]
                del other["again"]
                kept = ("config", "model", "trainable")
                other.update({key: node[key] for key in kept if key in node})
            else:
                other["again"] = heir
        for key in ("in", "call"):
            if key in other:
                other[key] = renamed(other[key], node["name"], operand)
    outputs = renamed(recipe["outputs"], node["name"], operand)
    return pruned({**recipe, "nodes": rest, "outputs": outputs})


def fewer_outputs(recipe: Recipe) -> Iterator[Recipe]:
    if len(recipe["outputs"]) < 2:
        return
    for index in range(len(recipe["outputs"])):
        small = copy.deepcopy(recipe)
        lists = [small["outputs"], small["targets"], small["compile"]["loss"]]
        lists.append(small["compile"]["metrics"])
        lists += [
            v for k, v in small["compile"].items() if k in ("loss_weights", "weighted_metrics")
        ]
        for each in lists:
            del each[index]
        yield pruned(small)


def fewer_nodes(recipe: Recipe) -> Iterator[Recipe]:
    for index in reversed(range(len(recipe["nodes"]))):
        for operand in dict.fromkeys(recipe["nodes"][index]["in"]):
            small = without_node(recipe, index, operand)
            if small["nodes"] and len(set(small["outputs"])) == len(small["outputs"]):
                yield small
        node = recipe["nodes"][index]
        if len(node["in"]) > 1:  # all of its operands one
            small = copy.deepcopy(recipe)
            small["nodes"][index]["in"] = [node["in"][0]] * len(node["in"])
            if small["nodes"][index]["in"] != node["in"]:
                yield pruned(small)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every entry of dictionaries and lists inside of `value`, with the way to it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key), item
        if isinstance(item, (dict, list)):
            yield from places(item, (*path, key))


def changed(recipe: Recipe, path: tuple[Any, ...], value: Any) -> Recipe:
    """A copy in which what is at `path` is `value`, or is not there where that is None."""
    small = copy.deepcopy(recipe)
    holder = small
    for key in path[:-1]:
        holder = holder[key]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return small


def fewer_inner_nodes(recipe: Recipe) -> Iterator[Recipe]:
    for path, item in list(places(recipe["nodes"], ("nodes",))):
        if path[-1] == "model":
            for small in fewer_nodes(item):
                yield changed(recipe, path, small)


def fewer_options(recipe: Recipe) -> Iterator[Recipe]:
    top = ["weights", "class_weights", "sequential"]
    for key in top:
        if key in recipe:
            yield changed(recipe, (key,), None)
    for key in ("by_name", "loss_weights", "weighted_metrics"):
        if key in recipe["compile"]:
            yield changed(recipe, ("compile", key), None)
    if recipe["form"] != "keras":
        yield {**recipe, "form": "keras"}
    none: list[Any] = [[] for _ in recipe["outputs"]]
    for key, value in (("metrics", none), ("optimizer", PLAIN_OPTIMIZER)):
        if recipe["compile"][key] != value:
            yield changed(recipe, ("compile", key), value)
    for index, loss in enumerate(recipe["compile"]["loss"]):
        if loss != PLAIN_LOSS:
            small = changed(recipe, ("compile", "loss", index), PLAIN_LOSS)
            yield changed(small, ("targets", index), "floats")
    holders = ("nodes", "compile")
    for path, _ in list(places({key: recipe[key] for key in holders})):
        if len(path) > 2 and path[-2] in ("config", "call"):
            yield changed(recipe, path, None)
        elif path[-1] in ("call", "trainable"):
            yield changed(recipe, path, None)
        elif path[-2:-1] in (("metrics",),) or "metrics" in path[-3:-1]:
            yield changed(recipe, path, None)


def smaller_numbers(recipe: Recipe) -> Iterator[Recipe]:
    for key, least in (("samples", recipe["batch"]), ("batch", 1)):
        for value in (least, recipe[key] - 1):
            if least <= value < recipe[key]:
                yield {**recipe, key: value}
    keys = {"inputs": recipe["inputs"], "nodes": recipe["nodes"]}
    for path, item in list(places(keys)):
        inside = "shape" in path or ("config" in path and path[-1] != "axis")
        if inside and isinstance(item, int) and not isinstance(item, bool) and item > 1:
            for value in dict.fromkeys((1, item // 2, item - 1)):
                if value < item:
                    yield changed(recipe, path, value)
        if path[-1] == "activation" and item not in ("linear", "tanh"):
            yield changed(recipe, path, "tanh")


STAGES: tuple[Callable[[Recipe], Iterator[Recipe]], ...] = (
    fewer_outputs, fewer_nodes, fewer_inner_nodes, fewer_options, smaller_numbers,
)  # fmt: skip


def shrink(recipe: Recipe, verdict: Verdict, minutes: float = 2) -> tuple[Recipe, Verdict]:
    """The smallest recipe found whose end is of the same kind, and that end."""
    until = time.monotonic() + 60 * minutes

    def ends_alike(small: Recipe) -> Verdict | None:
        try:
            other = compare(small, Path(folder) / "run")
        except Exception:  # a recipe that says nothing: not smaller but broken
            return None
        return other if alike(other, verdict) else None

    with tempfile.TemporaryDirectory() as folder:
        found = True
        while found:
            found = False
            for stage in STAGES:
                going = True
                while going:
                    going = False
                    for small in stage(recipe):
                        if time.monotonic() > until:
                            return recipe, verdict
                        ended = ends_alike(small)
                        if ended is not None:
                            recipe, verdict, going, found = small, ended, True, True
                            break
    return recipe, verdict


def alike(one: Verdict, other: Verdict) -> bool:
    if one.outcome != other.outcome:
        return False
    if one.outcome == "different":
        return structural(one.kind) == structural(other.kind)
    return re.sub(r"[^a-z ]", "", one.kind)[:60] == re.sub(r"[^a-z ]", "", other.kind)[:60]


def structural(kind: str) -> str:
    """A difference in what there is (slots, shapes) is another one than a difference in numbers."""
    return kind.split(":")[0] if ":" in kind else "numbers"


SCRIPT = '''"""{text}

Run with PLIMSOLL_BUILD set, in the repository: .deps/venv/bin/python {name}
"""

import json, sys, tempfile
from pathlib import Path

sys.path[:0] = ["tests/search", "tests/parity"]
from comparison import compare

RECIPE = json.loads(Path(__file__).with_suffix(".json").read_text())["recipe"]
folder = Path(tempfile.gettempdir()) / "plimsoll-{stem}"
print(compare(RECIPE, folder), "files in", folder)
'''


def write_finding(folder: Path, seed: int, recipe: Recipe, verdict: Verdict) -> Path:
    """The recipe as JSON and a script that runs it; compare() leaves model and data in a folder."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{verdict.outcome}-{seed}.json"
    text = verdict.text.splitlines()[0] if verdict.text else verdict.kind
    whole = {"seed": seed, "outcome": verdict.outcome, "text": text, "recipe": recipe}
    path.write_text(json.dumps(whole, indent=1) + "\n")
    script = path.with_suffix(".py")
    script.write_text(SCRIPT.format(text=text, name=script, stem=path.stem))
    return path
