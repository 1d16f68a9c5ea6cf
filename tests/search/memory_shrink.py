"""Makes a failing recipe small: fewer options, fewer layers, plainer data, halved sizes."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

from memory_forms import FORMS
from memory_recipe import Recipe, layer_name, without_layer
from memory_run import Outcome, Runner

MIB = 2**20


def gap(outcome: Outcome) -> float:
    """By how much the promise was missed, in bytes; 0 where it is not a matter of bytes."""
    numbers = outcome.numbers
    if not numbers.get("predicted") or not numbers.get("measured"):
        return 0
    return abs(numbers["measured"] - numbers["predicted"])


def shrink(runner: Runner, recipe: Recipe, outcome: Outcome, tries: int = 80,
           seconds: float = 150) -> tuple[Recipe, Outcome]:  # fmt: skip
    """The smallest recipe found that fails alike, and its outcome.

    Alike is the same kind of finding, missed by half as much at least: a smaller failure of another
    cause does not take the place of a large one.
    """
    until = time.monotonic() + seconds
    best, failed = recipe, outcome
    wanted = gap(outcome) / 2
    left = tries

    def fails(candidate: Recipe) -> bool:
        nonlocal left, best, failed
        if left <= 0 or time.monotonic() > until:
            return False
        left -= 1
        try:
            result = runner.run(candidate)
        except Exception:  # no recipe of ours: a shape that its layer does not take
            return False
        if result.finding != outcome.finding or gap(result) < wanted:
            return False
        best, failed = candidate, result
        return True

    changed = True
    while changed and left > 0 and time.monotonic() < until:
        changed = False
        for step in STEPS:
            changed = _exhaust(step, lambda: best, fails) or changed
    return best, failed


def _exhaust(step: Callable[[Recipe], Iterator[Recipe]], current: Callable[[], Recipe],
             fails: Callable[[Recipe], bool]) -> bool:  # fmt: skip
    """Tries what a step offers; after a success it offers anew from the smaller recipe."""
    any_success = False
    success = True
    while success:
        success = False
        for candidate in step(current()):
            if fails(candidate):
                success = any_success = True
                break
    return any_success


def _changed(recipe: Recipe, **values: Any) -> Recipe:
    return {**copy.deepcopy(recipe), **values}


def fewer_options(recipe: Recipe) -> Iterator[Recipe]:
    options = recipe["options"]
    if not options:
        return
    yield _changed(recipe, options={})
    if len(options) > 3:
        names = list(options)
        for kept in (names[: len(names) // 2], names[len(names) // 2 :]):
            yield _changed(recipe, options={name: options[name] for name in kept})
    for name in options:
        yield _changed(
            recipe, options={other: options[other] for other in options if other != name}
        )


def fewer_layers(recipe: Recipe) -> Iterator[Recipe]:
    count = len(recipe["layers"])
    size = count // 2
    while size > 1:
        for begin in range(0, count - size + 1, size):
            smaller = recipe
            for index in reversed(range(begin, begin + size)):
                smaller = without_layer(smaller, index)
            yield smaller
        size //= 2 if count < 40 else 4
    if count < 40:
        for index in reversed(range(count)):
            yield without_layer(recipe, index)


def plainer(recipe: Recipe) -> Iterator[Recipe]:
    if recipe["nest"]:
        yield _changed(recipe, nest=0)
        yield _changed(recipe, nest=recipe["nest"] // 2)
    if recipe["name_length"]:
        yield _changed(recipe, name_length=0)
        if recipe["name_length"] > 2 * len(layer_name(recipe, 0)) // 2:
            yield _changed(recipe, name_length=recipe["name_length"] // 2)
    if recipe["command"] != "fit":
        yield _changed(recipe, command="fit")
    if recipe["limit"] != "predicted":
        yield _changed(recipe, limit="predicted")
    if recipe["loss"] != "mse" and FORMS[recipe["data"]["form"]].labels in ("any", "flat"):
        yield _changed(recipe, loss="mse")


def plainer_data(recipe: Recipe) -> Iterator[Recipe]:
    data = recipe["data"]
    if FORMS[data["form"]].labels in ("any", "flat") and data["form"] != "npy":
        npy = {"form": "npy", "rows": data["rows"], "dtype": data.get("dtype", "float32")}
        yield _changed(recipe, data=npy)
    if data.get("dtype", "float32") != "float32" and not data["form"].startswith("idx"):
        yield _changed(recipe, data={**data, "dtype": "float32"})


def halved_sizes(recipe: Recipe) -> Iterator[Recipe]:
    for key in ("batch",):
        if recipe[key] > 1:
            yield _changed(recipe, **{key: 1})
            yield _changed(recipe, **{key: recipe[key] // 2})
    data = recipe["data"]
    for key, value in data.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < 2
            or key in ("row", "columns")
        ):
            continue
        yield _changed(recipe, data={**data, key: value // 2})
    for i, layer in enumerate(recipe["layers"]):
        if len(recipe["layers"]) > 12:
            break
        for path, value in _numbers(layer["options"]):
            smaller = copy.deepcopy(recipe)
            place: Any = smaller["layers"][i]["options"]
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value // 2
            yield smaller
    if "dtype" in data or "kind" in data:
        for i, shape in enumerate(recipe["inputs"]):
            for axis, length in enumerate(shape):
                if length > 1:
                    smaller = copy.deepcopy(recipe)
                    smaller["inputs"][i][axis] = length // 2
                    yield smaller


def _numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Whole numbers from 2 on in options, and where they stand."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
        yield path, value
    for key, item in items:
        yield from _numbers(item, (*path, key))


STEPS = (fewer_options, plainer, plainer_data, fewer_layers, halved_sizes)
