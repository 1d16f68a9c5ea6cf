"""`tf.data.Dataset.from_tensor_slices` of large arrays, without a copy of them.

TensorFlow copies an array into a tensor, and the array is there beside it. Here the tensor has the
array's own pages: a file in memory, which the array sees too. Where the program writes to the
array later the kernel gives it a page of its own, so the tensor keeps what the array held when the
dataset was made, also when the array is changed, used again or deleted. When the tensor goes first
the pages become the array's own again. Only arrays are taken whose memory is NumPy's own, made
where arrays are counted, and lies as TensorFlow needs it; of others TensorFlow makes its copy.
"""

from __future__ import annotations

import os

from plimsoll import asked

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

_LEAST = 32 << 20  # bytes; smaller arrays have no pages of their own
_ALIGNED = 64
_KINDS = "fiu"
_HANDLER = "plimsoll"  # which hears when an array goes
_MARK = "_plimsoll_refers"


def _handler_of(array: Any) -> str | None:
    import numpy

    core: Any = getattr(numpy, "_core", None) or numpy.core
    name: str | None = core.multiarray.get_handler_name(array)
    return name


def _root(array: Any) -> Any:
    """The array whose memory it is; None: it is not one of NumPy's alone."""
    import numpy

    root = array
    while type(root.base) is numpy.ndarray:
        root = root.base
    is_own = root.base is None and root.flags.owndata and type(root) is numpy.ndarray
    return root if is_own and _handler_of(root) == _HANDLER else None


def _is_fit(array: Any) -> bool:
    import numpy

    return (
        type(array) is numpy.ndarray
        and array.nbytes >= _LEAST
        and array.ndim > 0
        and array.flags.c_contiguous
        and array.dtype.isnative
        and array.dtype.kind in _KINDS
        and array.dtype.itemsize <= 8
        and array.ctypes.data % _ALIGNED == 0
    )


def referred(array: Any) -> Any:
    """A tensor that refers to it; None: it has to be copied."""
    if not _is_fit(array):
        return None
    root = _root(array)
    if root is None:
        return None
    import mmap
    import weakref

    import numpy
    import tensorflow

    from plimsoll import _arrays

    begin = array.ctypes.data
    try:
        shared = _arrays.share(root.ctypes.data, begin, array.nbytes)
    except OSError:
        return None
    if shared is None:
        return None
    file, name = shared
    head = begin % mmap.PAGESIZE
    try:
        # All pages are there at once, so that they count as the process's.
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        pages = mmap.mmap(file, head + array.nbytes, flags)
    except OSError:
        _arrays.give_back(name)
        return None
    finally:
        os.close(file)
    # Where the tensor goes before the array, what is left is the array's alone.
    weakref.finalize(pages, _arrays.give_back, name).atexit = False
    kept = numpy.frombuffer(pages, array.dtype, array.size, head).reshape(array.shape)
    return tensorflow.experimental.dlpack.from_dlpack(kept.__dlpack__())


def _with_tensors(data: Any) -> Any:
    """Arrays in tuples and dicts; a list is one tensor to TensorFlow."""
    if type(data) is tuple:
        return tuple(_with_tensors(one) for one in data)
    if type(data) is dict:
        return {name: _with_tensors(one) for name, one in data.items()}
    tensor = referred(data)
    return data if tensor is None else tensor


def watch(tensorflow: Any) -> None:
    """Begins with a TensorFlow that has been loaded."""
    dataset = tensorflow.data.Dataset
    own = dataset.from_tensor_slices
    if getattr(own, _MARK, False):
        return
    import functools

    @functools.wraps(own)
    def from_tensor_slices(tensors: Any, name: Any = None) -> Any:
        what = asked.current
        if what is not None and what.limit is not None and tensorflow.executing_eagerly():
            tensors = _with_tensors(tensors)
        return own(tensors, name=name)

    setattr(from_tensor_slices, _MARK, True)
    dataset.from_tensor_slices = staticmethod(from_tensor_slices)
