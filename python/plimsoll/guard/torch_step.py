"""Keras's training step on torch in two halves: gradients of a part, and one update.

As step.py, which says what share each term has. torch adds each part's gradient to what the weights
hold as their `grad`, where Keras's step looks for it. All that a part changes beside that is held
(TorchState) and put back where memory runs out: seeds, moving statistics, metrics, the buffers of
torch's modules, and torch's own random numbers, from which Dropout draws where no seed is named.

A part draws from seeds of its own: the first word of each seed is changed by the number of the
part. After a batch in parts seeds are what they are after the first part, which has drawn as often
as a whole batch does. torch's own random numbers go on from part to part.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from plimsoll.guard import proof as guard_proof
from plimsoll.guard.batches import ArrayPacking, Arrays
from plimsoll.guard.step import changing
from plimsoll.guard.weighed import Traced, losses_of, moving_statistics, seeds_of, total_of

_SPREADS = 0x1E3779B9  # odd: another number for each part
_WORD = 0x7FFFFFFF


def _module_of_device() -> Any:
    """Of torch, what belongs to the device that Keras computes on; None: a processor."""
    import torch
    from keras.src.backend.torch.core import get_device

    kind = torch.device(get_device()).type
    return None if kind == "cpu" else getattr(torch, kind, None)


def release() -> None:
    """Gives a device's blocks back that torch keeps for tensors to come."""
    module = _module_of_device()
    if hasattr(module, "empty_cache"):
        module.empty_cache()


def _generators() -> list[tuple[Callable[[], Any], Callable[[Any], None]]]:
    """Of torch's own random numbers: what reads their state, and what sets it."""
    import torch

    modules = [torch, _module_of_device()]
    return [(one.get_rng_state, one.set_rng_state)
            for one in modules if hasattr(one, "get_rng_state")]  # fmt: skip


def buffers_of(model: Any) -> list[tuple[Any, str]]:
    """What torch's modules within the model keep beside weights: each module, and a name in it."""
    modules = {id(one): one for layer in guard_proof.layers_of(model) for one in layer.modules()}
    return [(module, name) for module in modules.values()
            for name, one in module._buffers.items() if one is not None]  # fmt: skip


class TorchState:
    """Values of Keras's variables, of buffers, and of torch's own random numbers."""

    def __init__(self, variables: Iterable[Any], buffers: Iterable[tuple[Any, str]] = ()) -> None:
        own = {id(one): one for one in variables if one._value is not None}
        self._held = [(one, one._value.detach().clone()) for one in own.values()]
        self._buffers = [
            (module, name, module._buffers[name], module._buffers[name].detach().clone())
            for module, name in buffers
        ]
        self._random = [(put, get()) for get, put in _generators()]

    def restore(self) -> None:
        import torch

        with torch.no_grad():
            for variable, value in self._held:
                variable._value.copy_(value)
            for module, name, tensor, value in self._buffers:
                module._buffers[name] = tensor
                tensor.copy_(value)
        for put, state in self._random:
            put(state)

    def changed(self, among: set[int]) -> str:
        """The first of the variables (by id), or of the buffers, that is not as it was."""
        import torch

        for variable, value in self._held:
            if id(variable) in among and not torch.equal(variable._value, value):
                return str(variable.path)
        for module, name, _, value in self._buffers:
            if not torch.equal(module._buffers[name], value):
                return f"{name} of a {type(module).__name__} of torch"
        return ""


class Weights:
    """A batch's weights of samples: Keras's losses on torch multiply them by masks in place."""

    def __init__(self, weights: Iterable[Any]) -> None:
        self._held = [(one, copied(one)) for one in weights]

    def restore(self) -> None:
        for own, value in self._held:
            if not bool((own == value).all()):
                own[...] = value


def copied(array: Any) -> Any:
    """Of torch's or of NumPy's."""
    return array.clone() if hasattr(array, "clone") else array.copy()


class Kept:
    """Weights and the optimizer's variables, in the memory of the process."""

    def __init__(self, variables: Iterable[Any]) -> None:
        self._held = [(one, one._value.detach().to("cpu", copy=True)) for one in variables]

    def restore(self) -> None:
        import torch

        with torch.no_grad():
            for variable, value in self._held:
                variable._value.copy_(value)


class TorchStep:
    """The step of one model for batches of one kind."""

    acts = ""  # torch has no graph that would tell

    def __init__(self, model: Any, packing: ArrayPacking) -> None:
        self._model = weakref.ref(model)
        self.packing, self.traced = packing, Traced()
        self.gathers, self.is_looked_at = False, False
        self.buffers = buffers_of(model)
        self._moving = moving_statistics(model)
        self._seeds: list[tuple[Any, Any, Any]] = []  # with values before and after the first part
        compiled = model._compile_loss
        self._losses = max(1, len(compiled._flat_losses or [])) if compiled is not None else 1

    @property
    def model(self) -> Any:
        return self._model()

    @property
    def has_statistics(self) -> bool:
        return bool(self._moving)

    def draws(self) -> bool:
        return bool(seeds_of(self.model))

    def updated(self) -> list[Any]:
        """Weights and the optimizer's variables."""
        model = self.model
        return [*model.trainable_variables, *model.optimizer.variables]

    def versions(self) -> list[int]:
        """How often each of those was written."""
        return [one._value._version for one in self.updated()]

    def state(self) -> TorchState:
        """All that is changed before the update."""
        return TorchState(changing(self.model), self.buffers)

    def watched(self) -> set[int]:
        """Variables, by id, that should be as they were when a part is done."""
        model = self.model
        excused = {id(one) for one in [*self._moving, *seeds_of(model), *model.metrics_variables]}
        return {id(one) for one in model.non_trainable_variables} - excused

    def zero(self) -> None:
        """No gradients."""
        self.model.zero_grad()
        for one in self.model.trainable_variables:
            one._value.grad = None

    def look(self, arrays: Arrays) -> None:
        """What is learnt of one sample, whose traces are put back."""
        before = self.state()
        try:
            self.part([one[:1] for one in arrays], [1.0] * self._losses, 1.0, 0)
            self.is_looked_at = True
        finally:
            before.restore()
            self.zero()

    def weights_in(self, arrays: Arrays) -> Weights:
        """Of a batch, what its losses may write into."""
        from keras import tree

        given = tree.flatten(self.packing.unpacked(arrays)[2])
        return Weights(one for one in given if one is not None)

    def _forward(self, arrays: Arrays, training: bool) -> tuple[Any, Any, Any, Any]:
        """x, y, the predictions, and weights of samples for the losses alone."""
        from keras import tree

        x, y, weight = self.packing.unpacked(arrays)
        given = {"training": training} if self.model._call_has_training_arg else {}
        own = tree.map_structure(lambda one: None if one is None else copied(one), weight)
        return x, y, self.model(x, **given), own

    def _total(self, batch: tuple[Any, Any, Any, Any], rows: int, shares: list[float],
               share: float) -> tuple[Any, list[Any]]:  # fmt: skip
        _, y, y_pred, weight = batch
        return total_of(
            self.model, self.traced, batch, share,
            lambda: losses_of(self.model, self.traced, y, y_pred, weight, shares, float(rows)),
        )  # fmt: skip

    def part(
        self, arrays: Arrays, shares: list[float], share: float, number: int
    ) -> tuple[list[Any], list[list[Any]]]:
        """Adds the gradient of a part, which is the one of this number, to that of the weights.

        Returns summands (the loss, the losses, statistics, None where one does not change), and the
        predictions where they are gathered.
        """
        import torch
        from keras import tree

        self._begin_draws(number)
        before = [(one._value._version, one._value.detach().clone()) for one in self._moving]
        batch = self._forward(arrays, True)
        total, mine = self._total(batch, int(arrays[0].shape[0]), shares, share)
        self.model.optimizer.scale_loss(total).backward()
        with torch.no_grad():
            small = [total.detach()]
            small += [one.value.detach() * share_of for one, share_of in zip(mine, shares)]
            for variable, (version, value) in zip(self._moving, before):
                is_same = variable._value._version == version
                small.append(None if is_same else variable._value.detach() * share)
                if not is_same:
                    variable._value.copy_(value)
            _, y, y_pred, _ = batch
            self.traced.structure = tree.map_structure(lambda _: 0, y_pred)
            seen = [_with_mask(one) for one in tree.flatten(y_pred)]
            self._tell(y, self._as_predicted(seen), self.packing.unpacked(arrays)[2])
        self._end_draws(number)
        return small, seen if self.gathers else []

    def _begin_draws(self, number: int) -> None:
        import torch
        from keras.src.backend.common import global_state

        if number == 0:
            one = global_state.get_global_attribute("global_seed_generator")
            states = [*seeds_of(self.model), *([] if one is None else [one.state])]
            self._seeds = [(one, one._value.detach().clone(), None) for one in states]
            return
        with torch.no_grad():
            for variable, value, _ in self._seeds:
                salted = value.clone()
                salted[0] ^= number * _SPREADS & _WORD
                variable._value.copy_(salted)

    def _end_draws(self, number: int) -> None:
        import torch

        if number == 0:
            self._seeds = [(one, value, one._value.detach().clone())
                           for one, value, _ in self._seeds]  # fmt: skip
            return
        with torch.no_grad():
            for variable, _, after in self._seeds:
                variable._value.copy_(after)

    def _as_predicted(self, seen: list[list[Any]]) -> Any:
        """Predictions as the model gave them, from each tensor with its mask."""
        from keras import tree
        from keras.src import backend

        for tensor, *mask in seen:
            if mask:
                backend.set_keras_mask(tensor, mask[0])
        return tree.pack_sequence_as(self.traced.structure, [one[0] for one in seen])

    def _tell(self, y: Any, y_pred: Any, weight: Any) -> None:
        """Metrics, of a part; where they are not sums they are told of the batch."""
        from keras import tree

        compiled = self.model._compile_metrics
        self.gathers = not guard_proof.are_added(self.model, tree.flatten(y_pred))
        if not self.gathers and compiled is not None:
            compiled.update_state(y, y_pred, weight)

    def counts(self, arrays: Arrays) -> list[float]:
        """What each of the losses of a part is divided by."""
        import torch

        with torch.no_grad():
            batch = self._forward(arrays, False)
            ones = [1.0] * self._losses
            found = self._total(batch, int(arrays[0].shape[0]), ones, 1.0)[1]
            return [float(one.count) for one in found]

    @staticmethod
    def add(sums: list[Any], more: list[Any]) -> list[Any]:
        """Summands of two parts."""
        return [one if other is None else other if one is None else one + other
                for one, other in zip(sums, more)]  # fmt: skip

    def told(self, small: list[Any], rows: int, arrays: Arrays, seen: list[list[Any]]) -> Any:
        """Logs, once statistics are those of the batch and metrics have been told of all of it.

        seen: the gathered predictions, each with its mask.
        """
        import torch

        model, compiled = self.model, self.model._compile_loss
        count = len(small) - 1 - len(self._moving)
        with torch.no_grad():
            for variable, value in zip(self._moving, small[1 + count :]):
                if value is not None:
                    variable._value.copy_(value)
            model._loss_tracker.update_state(small[0], sample_weight=rows)
            if self.traced.tells_outputs and compiled is not None:
                for metric, value in zip(compiled.metrics, small[1 : 1 + count]):
                    metric.update_state(value, sample_weight=rows)
            if not self.gathers:
                return model.get_metrics_result()
            x, y, weight = self.packing.unpacked(arrays)
            return model.compute_metrics(x, y, self._as_predicted(seen), sample_weight=weight)

    def update(self) -> None:
        """The one update of the batch, as Keras's step does it."""
        import torch

        weights = self.model.trainable_weights[:]
        gradients = [one.value.grad for one in weights]
        with torch.no_grad():
            self.model.optimizer.apply(gradients, weights)

    def looking(self, training: bool) -> Callable[[Arrays], Any]:
        """Predictions, as NumPy's arrays."""
        import torch
        from keras import ops, tree

        def forward(arrays: Arrays) -> Any:
            with torch.no_grad():
                return tree.map_structure(ops.convert_to_numpy, self._forward(arrays, training)[2])

        return forward


def _with_mask(tensor: Any) -> list[Any]:
    """A tensor without its graph; and its mask, where it has one."""
    from keras.src import backend

    mask = backend.get_keras_mask(tensor)
    return [tensor.detach()] if mask is None else [tensor.detach(), mask.detach()]
