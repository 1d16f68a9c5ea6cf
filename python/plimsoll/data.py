"""Data as Keras takes them, as the engine takes them.

Arrays are used in place where they are C-contiguous and of a type that the engine reads (float32,
float64, int8, uint8, int32, int64, bool); others are converted once, which is a copy that the
process holds. Everything else that can be iterated over is taken batch by batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plimsoll import _core, interrupts

_WIDER = {"float16": "float32", "uint16": "int32", "uint32": "int64", "int16": "int32",
          "uint64": "float64", "bfloat16": "float32", "bool": "uint8"}  # fmt: skip

_AS_IT_IS = {np.dtype(name) for name in ("float32", "float64", "int8", "uint8", "int32", "int64")}

BATCH = 32  # Keras's
Order = np.ndarray[Any, Any] | None  # of samples; None: as they come


def batch_size_of(rows: int, batch: int | None, steps: int | None) -> int:
    """Samples of a batch, where nobody or a number of steps says how arrays are cut."""
    return batch or (-(-rows // steps) if steps else BATCH)


def as_array(value: Any, what: str) -> np.ndarray[Any, Any]:
    """A C-contiguous array of a type that the engine reads; the same memory where it can be."""
    array = np.asarray(value)
    if array.dtype in _AS_IT_IS and array.flags.c_contiguous and array.ndim:
        return array
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise TypeError(f"{what}: expected numbers, received an array of {array.dtype}.")
    wider = _WIDER.get(array.dtype.name)
    if wider is not None:
        array = array.view("uint8") if array.dtype == np.bool_ else array.astype(wider)
    if array.dtype.byteorder not in "=|<":
        array = array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array)


def _is_array(value: Any) -> bool:
    if isinstance(value, (np.ndarray, list, tuple, dict)):
        return True
    if hasattr(value, "iloc"):  # pandas
        return True
    return hasattr(value, "__array__") and hasattr(value, "shape")


def is_iterated(x: Any) -> bool:
    """Whether `x` yields batches: a tf.data.Dataset, a PyDataset, a generator, a DataLoader."""
    return x is not None and not _is_array(x)


def _as_list(value: Any, names: list[str], what: str) -> list[np.ndarray[Any, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        missing = [name for name in names if name not in value]
        if missing:
            raise ValueError(f"{what}: expected arrays for {', '.join(names)}, received "
                             f"{', '.join(map(str, value))}.")  # fmt: skip
        return [as_array(value[name], f"{what}[{name!r}]") for name in names]
    if isinstance(value, (list, tuple)) and value and _is_array(value[0]) and (
        len(names) > 1 or isinstance(value, tuple) or hasattr(value[0], "shape")
    ) and len(value) == len(names):  # fmt: skip
        return [as_array(item, f"{what}[{i}]") for i, item in enumerate(value)]
    if len(names) > 1:
        received = len(value) if isinstance(value, (list, tuple)) else "one array"
        raise ValueError(f"{what}: expected {len(names)} arrays, for {', '.join(names)}, received "
                         f"{received}.")  # fmt: skip
    return [as_array(value, what)]


@dataclass
class Samples:
    """Arrays of one data set: one for each input, output and weighted output."""

    x: list[np.ndarray[Any, Any]]
    y: list[np.ndarray[Any, Any]] = field(default_factory=list)
    weights: list[np.ndarray[Any, Any]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return len(self.x[0]) if self.x else 0

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in [*self.x, *self.y, *self.weights])

    @property
    def weight_shapes(self) -> tuple[Any, ...]:
        """The shape of a sample in each of the weights."""
        return tuple(array.shape[1:] for array in self.weights)

    def arrays(self) -> _core.Arrays:
        return _core.Arrays(self.x, self.y, self.weights)

    def at(self, positions: np.ndarray[Any, Any]) -> Samples:
        def take(arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
            return [array[positions] for array in arrays]

        return Samples(take(self.x), take(self.y), take(self.weights))

    def part(self, begin: int, end: int) -> Samples:
        def cut(arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
            return [array[begin:end] for array in arrays]

        return Samples(cut(self.x), cut(self.y), cut(self.weights))


def weigh_classes(samples: Samples, class_weight: dict[int, float]) -> None:
    """Weights of classes as weights of samples, as Keras makes them of labels."""
    if samples.weights:
        raise ValueError("class_weight: expected no sample_weight beside it, received both.")
    if len(samples.y) != 1:
        raise ValueError("class_weight: expected a model of one output, received one of "
                         f"{len(samples.y)}.")  # fmt: skip
    labels = samples.y[0]
    if labels.ndim > 2 or (labels.ndim == 2 and labels.shape[-1] > 1 and labels.dtype.kind != "f"
                           and not (labels.sum(-1) == 1).all()):  # fmt: skip
        raise ValueError("class_weight: expected a class for each sample, as a number or one-hot, "
                         f"received labels of shape {labels.shape}.")  # fmt: skip
    if labels.ndim > 1 and labels.shape[-1] > 1:
        labels = labels.argmax(-1)
    labels = np.rint(labels.reshape(len(labels), -1)[:, 0]).astype("int64")
    weights = np.ones(len(labels), "float32")
    for number, weight in class_weight.items():
        if not isinstance(number, (int, np.integer)):
            raise ValueError(f"class_weight: expected class numbers, received {number!r}.")
        weights[labels == int(number)] = weight
    samples.weights = [weights]


def _counts(samples: Samples, inputs: list[str], outputs: list[str]) -> str:
    """How many samples each array has: "100 in x, 90 in y"."""
    told = []
    for what, arrays, names in (("x", samples.x, inputs), ("y", samples.y, outputs),
                                ("sample_weight", samples.weights, outputs)):  # fmt: skip
        for array, name in zip(arrays, names, strict=False):
            told.append(f"{len(array)} in {what}" + (f" ({name})" if len(arrays) > 1 else ""))
    return ", ".join(told)


def samples_of(
    engine: _core.Engine,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    outputs: list[str] | None = None,
) -> Samples:
    """Arrays by the model's inputs and outputs. Raises ValueError and TypeError."""
    names = engine.output_names if outputs is None else outputs
    samples = Samples(_as_list(x, engine.input_names, "x"))
    if y is not None:
        samples.y = _as_list(y, names, "y")
    if sample_weight is not None:
        samples.weights = _as_list(sample_weight, names if isinstance(sample_weight, (dict, list))
                                   else names[:1], "sample_weight")  # fmt: skip
        if len(samples.weights) == 1 and len(names) > 1:
            samples.weights = samples.weights * len(names)
    if len({len(array) for array in [*samples.x, *samples.y, *samples.weights]}) > 1:
        raise ValueError(
            "data: expected as many samples in each array, received "
            f"{_counts(samples, engine.input_names, names)}."
        )
    if samples.rows == 0:
        raise ValueError("x: expected samples, received none.")
    if class_weight:
        weigh_classes(samples, class_weight)
    return samples


def split(samples: Samples, part: float) -> tuple[Samples, Samples]:
    """Keras's validation_split: the last part, before any shuffling."""
    at = int(samples.rows * (1.0 - part)) if 0 < part < 1 else 0
    if at == 0 or at == samples.rows:
        raise ValueError(f"validation_split: expected a part of the {samples.rows} samples, "
                         f"received {part}.")  # fmt: skip
    return samples.part(0, at), samples.part(at, samples.rows)


def batches_of(x: Any, shuffle: bool = False) -> tuple[Iterable[Any], int | None]:
    """What yields batches, once an epoch, and how many; None: not known.

    `shuffle`: as Keras does, of a PyDataset's batches alone.
    """
    count: int | None = None
    if hasattr(x, "cardinality"):
        known = int(x.cardinality())
        count = known if known >= 0 else None
    elif hasattr(x, "num_batches"):  # keras.utils.PyDataset
        count = x.num_batches
        return _Indexed(x, count, shuffle), count
    elif hasattr(x, "__len__"):
        count = len(x)
    return x, count


class ArrayBatches:
    """Arrays cut into batches, in another order each time; counted like a data set.

    `shared`: of an order, the one that all ranks take.
    """

    def __init__(
        self,
        samples: Samples,
        batch: int,
        shuffle: bool,
        shared: Callable[[Order], Order] | None = None,
    ) -> None:
        self._samples, self._batch, self._shared = samples, batch, shared
        self._orders = permutation(samples.rows, shuffle)

    def __len__(self) -> int:
        return -(-self._samples.rows // self._batch)

    def __iter__(self) -> Iterator[Samples]:
        order = next(self._orders)
        if self._shared is not None:
            order = self._shared(order)
        for begin in range(0, self._samples.rows, self._batch):
            end = min(begin + self._batch, self._samples.rows)
            if order is None:
                yield self._samples.part(begin, end)
            else:
                yield self._samples.at(order[begin:end])


def tell_epoch(batches: Any, method: str) -> None:
    """on_epoch_begin or on_epoch_end, where batches are those of a PyDataset that has it."""
    told = getattr(batches.dataset, method, None) if isinstance(batches, _Indexed) else None
    if told is not None:
        told()


class Epochs:
    """Which batches an epoch has, as Keras counts them.

    With `steps` an epoch goes on where the last one ended, and ends where the data end: three
    batches at two steps an epoch make epochs of 2, 1, 2, … steps.
    """

    def __init__(
        self, batches: Iterable[Any], count: int | None, steps: int | None, source: Any = None
    ) -> None:
        """`source`: what `batches` iterates over; None: itself."""
        self._batches, self.count, self.steps = batches, count, steps
        self._source = batches if source is None else source
        self._iterator: Iterator[Any] | None = None
        self._seen = 0

    def interrupt(self) -> None:
        """Ends the epoch as Keras does where one of its steps raises StopIteration.

        The next one begins anew, and where nobody knew how many there are that was the last.
        """
        self._iterator = None
        if self.count is None:
            self.count = self._seen

    def epoch(self, begin: Callable[[int], bool | None]) -> Iterator[Any]:
        """`begin` is told of each step before its batch is asked for; False: it is not."""
        if self._iterator is None or self.steps is None:
            self._iterator, self._seen = iter(self._batches), 0
        step = 0
        while self.steps is None or step < self.steps:
            if self.count is not None and self._seen >= self.count:
                break
            self._seen += 1
            if begin(step) is False:
                self.interrupt()
                return
            batch = next(self._iterator, None)
            if batch is None:
                self._iterator = None
                return
            yield batch
            step += 1
        if self.count is not None and self._seen >= self.count:
            self._iterator, self._seen = None, 0
            if hasattr(self._source, "cardinality"):
                # Keras makes an iterator here already, and a data set that shuffles counts them.
                following = iter(self._source)
                self._iterator = following if self._source is self._batches else None


class _Indexed:
    """A PyDataset's batches, shuffled as Keras does it."""

    def __init__(self, dataset: Any, count: int | None, shuffle: bool) -> None:
        self.dataset, self.count, self.shuffle = dataset, count, shuffle

    def __iter__(self) -> Iterator[Any]:
        if self.count is None:
            index = 0
            while True:
                yield self.dataset[index]
                index += 1
        order = list(range(self.count))
        if self.shuffle:
            random.shuffle(order)
        for index in order:
            yield self.dataset[index]


def unpacked(batch: Any) -> tuple[Any, Any, Any]:
    """x, y and weights of what an iteration yields."""
    if isinstance(batch, (tuple, list)):
        if len(batch) == 1:
            return batch[0], None, None
        if len(batch) == 2:
            return batch[0], batch[1], None
        if len(batch) == 3:
            return batch[0], batch[1], batch[2]
    return batch, None, None


def permutation(rows: int, shuffle: bool) -> Iterator[Order]:
    """The order of samples of each epoch: Keras's own, by its own adapter and seeds."""
    if not shuffle:
        while True:
            yield None
    from plimsoll.versions import keras_module

    keras = keras_module()
    if keras.backend.backend() == "tensorflow":
        from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

        adapter = ArrayDataAdapter(np.arange(rows, dtype="int64"), batch_size=rows, shuffle=True)
        dataset = adapter.get_tf_dataset()
        while True:
            with interrupts.put_off():
                for batch in dataset:  # of one batch
                    positions = batch[0] if isinstance(batch, tuple) else batch
                    order = np.ascontiguousarray(positions.numpy(), "int64")
            yield order
    generator = np.random.default_rng(np.random.randint(2**31))
    while True:
        yield generator.permutation(rows).astype("int64")
