"""A batch as tensors, the parts that it is cut into, and their gradients put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plimsoll.guard.step import CutStep
from plimsoll.guard.weighed import Traced


def tensors_of(data: Any) -> tuple[Any, list[Any], str]:
    """A batch as tensors, the tensors alone, and why it cannot be cut."""
    import tensorflow as tf
    from keras import tree

    def converted(one: Any) -> Any:
        if one is None or isinstance(one, tf.experimental.Optional):
            return None
        plain = isinstance(one, (tf.RaggedTensor, tf.SparseTensor))
        return one if plain else tf.convert_to_tensor(one)

    data = tree.map_structure(converted, data)
    leaves = [one for one in tree.flatten(data) if one is not None]
    if not all(tf.is_tensor(one) and isinstance(one, tf.Tensor) for one in leaves):
        return data, leaves, "its data is sparse or ragged"
    if not leaves or any(one.shape.rank == 0 for one in leaves):
        return data, leaves, "its data has no axis of samples"
    if len({int(one.shape[0]) for one in leaves}) != 1:
        return data, leaves, "the tensors of a batch have different lengths"
    return data, leaves, ""


def again(data: Any, element: Any) -> Any:
    """An iterator of one batch that has been taken from another, of which Keras's function sees
    the same: where sizes are not known to it (`element`), they are not here."""
    import tensorflow as tf

    if element is None:
        return iter([data])

    try:
        opened = tf.data.Dataset.from_tensors(data)
        if opened.element_spec != element:
            variant = tf.data.experimental.to_variant(opened)
            opened = tf.data.experimental.from_variant(variant, element)
        return iter(opened)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return iter([data])


def each_batch(iterator: Any, most: int, run: Callable[[Any, Any], Any]) -> Any:
    """What the last of up to `most` batches of an iterator gave, as Keras's own functions take
    them; `run` is given what the iterator tells of a batch's sizes, too. Raises StopIteration where
    there is none."""
    element, logs = getattr(iterator, "element_spec", None), None
    for at in range(most):
        try:
            data = next(iterator)
        except StopIteration:
            if at == 0:
                raise
            break
        logs = run(data, element)
    return logs


def bytes_of(tensor: Any) -> int:
    return int(tensor.dtype.size) * int(tensor.shape.num_elements() or 0)


def ones(traced: Traced) -> list[float]:
    return [1.0] * max(1, len(traced.shares))


def shares_of(
    traced: Traced, sizes: list[int], batch: int, counts_of: Callable[[int], Any]
) -> list[list[float]]:
    """The share that each part has in each loss.

    sizes: samples of the parts. counts_of: of the part with a number, what each of the losses is
    divided by; asked where it has to be known.
    """
    kinds = [traced.shares[index] for index in sorted(traced.shares)]
    if len(sizes) == 1:
        return [ones(traced)]
    counts: list[Any] = [[0.0] * len(kinds)] * len(sizes)
    if "counted" in kinds:
        counts = [counts_of(at) for at in range(len(sizes))]
    found = []
    for size, own in zip(sizes, counts):
        row = []
        for index, kind in enumerate(kinds):
            total = sum(float(one[index]) for one in counts)
            counted = float(own[index]) / total if total else 0.0
            row.append({"rows": size / batch, "sum": 1.0, "counted": counted}[kind])
        found.append(row or [1.0])
    return found


def of_rows(step: CutStep, flat: list[Any]) -> list[Any]:
    """What of a part's gradients are rows of a table and which ones, pair by pair."""
    own, found = iter(flat), list[Any]()
    for kind in step.traced.kinds:
        if kind == "rows":
            found.append((next(own), next(own)))
        elif kind == "dense":
            next(own)
    return found


def merged(step: CutStep, dense: list[Any], sparse: list[list[Any]]) -> list[Any]:
    """Gradients of the whole batch as one part gives them; rows of tables one after the other."""
    import tensorflow as tf

    sums, tables = iter(dense), iter(zip(*sparse))
    flat = []
    for kind in step.traced.kinds:
        if kind == "dense":
            flat.append(next(sums))
        elif kind == "rows":
            flat += [tf.concat(list(one), 0) for one in zip(*next(tables))]
    return flat


def as_gradients(step: CutStep, flat: list[Any]) -> list[Any]:
    """As Keras's optimizer takes them."""
    import tensorflow as tf

    own, found = iter(flat), list[Any]()
    for kind, variable in zip(step.traced.kinds, step.weights):
        if kind == "none":
            found.append(None)
        elif kind == "dense":
            found.append(next(own))
        else:
            values, indices = next(own), next(own)
            found.append(tf.IndexedSlices(values, indices, tf.constant(variable.shape, tf.int64)))
    return found
