"""A batch of arrays, of NumPy's or of another library's that are as those: whether it can be cut,
and how its arrays lie in what Keras calls its data.
"""

from __future__ import annotations

from typing import Any

Arrays = list[Any]


def arrays_of(data: Any) -> tuple[Arrays, str]:
    """The arrays of a batch, and why it cannot be cut."""
    import numpy as np
    from keras import tree

    leaves = [one for one in tree.flatten(data) if one is not None]
    if not all(hasattr(one, "shape") and hasattr(one, "__array__") for one in leaves) or any(
        getattr(one, "is_sparse", False) for one in leaves
    ):
        return leaves, "its data is sparse or ragged"
    if any(getattr(one, "dtype", None) == np.dtype(object) for one in leaves):
        return leaves, "its data is of Python's objects"
    if not leaves or any(len(one.shape) == 0 for one in leaves):
        return leaves, "its data has no axis of samples"
    if len({int(one.shape[0]) for one in leaves}) != 1:
        return leaves, "the arrays of a batch have different lengths"
    return leaves, ""


class ArrayPacking:
    """How the arrays of a batch lie in what Keras calls its data."""

    def __init__(self, data: Any) -> None:
        from keras import tree

        self._tree = tree
        self._structure = tree.map_structure(lambda one: one is not None, data)
        self.key = repr((self._structure, [
            (tuple(one.shape[1:]), str(one.dtype)) for one in tree.flatten(data) if one is not None
        ]))  # fmt: skip

    def packed(self, arrays: Arrays) -> Any:
        own = iter(arrays)
        return self._tree.map_structure(lambda is_there: next(own) if is_there else None,
                                        self._structure)  # fmt: skip

    def unpacked(self, arrays: Arrays) -> tuple[Any, Any, Any]:
        """x, y and weights of samples, as Keras's steps take them out of its data."""
        from keras.src.trainers.data_adapters import data_adapter_utils

        found: tuple[Any, Any, Any] = data_adapter_utils.unpack_x_y_sample_weight(
            self.packed(arrays)
        )
        return found
