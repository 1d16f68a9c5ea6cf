"""As jax_graph.py, of a function that torch has traced: whether its value for a sample depends on
that sample alone.

The function is traced with tensors that have shapes and no values, with two numbers of samples,
both primes that no model has as a size. What differs in more than those sizes depends on how many
samples there are. Each value is free (has no axis of samples) or of rows: row i of its first axis
depends on sample i alone. Operations that are known lead from kinds to kinds; all others prove
nothing. Among those are all that write into their operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_FREE, _ROWS = "free", "rows"
_SAMPLES = (10007, 10009)

_ELEMENTWISE = frozenset(
    "_to_copy abs acos acosh add alias asin asinh atan atan2 atanh bitwise_and bitwise_not "
    "bitwise_or bitwise_xor ceil clamp clamp_max clamp_min clone cos cosh detach digamma div elu "
    "eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmod full_like ge gelu gt hardsigmoid "
    "hardswish hardtanh hypot isfinite isinf isnan le leaky_relu lgamma lift_fresh lift_fresh_copy "
    "log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor lt maximum "
    "minimum mish mul nan_to_num ne neg nextafter ones_like pow reciprocal relu remainder round "
    "rsqrt rsub sgn sigmoid sign silu sin sinh softplus sqrt square sub tan tanh trunc where xlogy "
    "zeros_like".split()
)
_REDUCTIONS = frozenset(
    "all amax amin any argmax argmin linalg_vector_norm logsumexp max mean min prod std sum "
    "var".split()
)
_ALONG_AN_AXIS = frozenset(
    "_log_softmax _softmax cumprod cumsum flip gather select slice sort squeeze topk "
    "unsqueeze".split()
)
_SHAPES = frozenset("_unsafe_view expand reshape view".split())  # whose second argument is sizes
_MADE = frozenset("arange eye full ones scalar_tensor zeros".split())  # from no tensor
_ALIKE = frozenset("full ones zeros".split())  # of those: the same in each place
_OTHERS = frozenset("addmm bmm cat mm permute stack t transpose".split())
_KNOWN = _ELEMENTWISE | _REDUCTIONS | _ALONG_AN_AXIS | _SHAPES | _MADE | _OTHERS


def _name(node: Any) -> str:
    """Of an operation, without its variant: "add"; of anything else, its target."""
    space, _, rest = str(node.target).partition(".")
    return rest.partition(".")[0] if space == "aten" else str(node.target)


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta["val"]
    one = value[0] if isinstance(value, (tuple, list)) else value
    return tuple(int(size) for size in getattr(one, "shape", ()))


def _argument(node: Any, name: str, default: Any = None) -> Any:
    """An argument of an operation by its name in torch's schema."""
    for at, one in enumerate(node.target._schema.arguments):
        if one.name == name:
            given = node.args[at] if at < len(node.args) else node.kwargs.get(name)
            return default if given is None else given
    return default


def _axes(node: Any, rank: int) -> list[int] | None:
    """The axes along which an operation works, of a tensor of so many; None: along all."""
    given = _argument(node, "dim", _argument(node, "dims"))
    if given is None or given == []:
        return None
    return [one % max(rank, 1) for one in (given if isinstance(given, (list, tuple)) else [given])]


class _Kinds:
    """What is known of the values of one graph that is given `rows` samples."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._of: dict[Any, str] = {}

    def _is_long(self, shape: Any) -> bool:
        return bool(shape) and shape[0] == self._rows

    def follow(self, graph: Any) -> tuple[str, str]:
        """The kind of its one output, and why nothing is proved."""
        for node in graph.nodes:
            if node.op == "placeholder":
                self._of[node] = _ROWS
            elif node.op == "get_attr":
                self._of[node] = _FREE
            elif node.op == "output":
                (found,) = node.args
                found = found[0] if isinstance(found, (list, tuple)) and len(found) == 1 else found
                kind = self._of.get(found) if hasattr(found, "op") else None
                is_one = kind == _ROWS and self._is_long(_shape(found))
                return kind or "", "" if is_one else "it does not return a value for each sample"
            else:
                kind = self._one(node)
                if kind is None:
                    return "", f"its {_name(node)} may put samples together"
                self._of[node] = kind
        return "", "it returns nothing"

    def _one(self, node: Any) -> str | None:
        name, operands = _name(node), node.all_input_nodes
        kinds, shapes = [self._of[one] for one in operands], [_shape(one) for one in operands]
        if "getitem" in name:
            return kinds[0]
        if name not in _KNOWN or str(node.target).partition(".")[0] != "aten":
            return None
        shape = _shape(node)
        if name in _MADE:
            if self._rows not in shape:
                return _FREE
            return _ROWS if name in _ALIKE and self._rows not in shape[1:] else None
        if name in _ELEMENTWISE or name == "expand":
            return self._side_by_side(kinds, shapes, shape)
        if _ROWS not in kinds:
            return None if self._rows in shape else _FREE
        return self._of_rows(node, name, kinds, shapes, shape)

    def _side_by_side(self, kinds: list[str], shapes: list[Any], shape: Any) -> str | None:
        """Rows stay rows where they stand side by side; what is free is spread over them."""
        if not self._is_long(shape):
            return None if _ROWS in kinds or self._rows in shape else _FREE
        for kind, own in zip(kinds, shapes):
            if kind == _ROWS and (len(own) != len(shape) or not self._is_long(own)):
                return None
            if kind == _FREE and len(own) == len(shape) and own[0] != 1:
                return None
        return _ROWS

    def _of_rows(
        self, node: Any, name: str, kinds: list[str], shapes: list[Any], shape: Any
    ) -> str | None:
        """One operand at least is of rows."""
        if not self._is_long(shape):
            return None
        if name in _SHAPES:
            return _ROWS if self._is_long(shapes[0]) else None
        if name in _REDUCTIONS or name in _ALONG_AN_AXIS:
            return self._along(node, name, kinds, shapes)
        if name in ("cat", "stack"):
            rank = len(shape)
            return _ROWS if set(kinds) == {_ROWS} and _argument(node, "dim", 0) % rank else None
        if name == "permute":
            return _ROWS if _argument(node, "dims")[0] == 0 else None
        if name == "transpose":
            axes = [_argument(node, one) % len(shape) for one in ("dim0", "dim1")]
            return _ROWS if 0 not in axes else None
        if name == "mm":
            return _ROWS if kinds == [_ROWS, _FREE] else None
        if name == "addmm":
            spreads = len(shapes[0]) < 2 or shapes[0][0] == 1
            return _ROWS if kinds == [_FREE, _ROWS, _FREE] and spreads else None
        if name == "bmm":
            return _ROWS if set(kinds) == {_ROWS} else None
        return None

    def _along(self, node: Any, name: str, kinds: list[str], shapes: list[Any]) -> str | None:
        """Along axes that are not that of samples, or all of its places."""
        if set(kinds) != {_ROWS}:
            return None
        if name == "slice":
            whole = (_argument(node, "start", 0), _argument(node, "step", 1)) == (0, 1)
            if whole and (_argument(node, "end") or 0) > max(_SAMPLES):
                return _ROWS
        added = 1 if name == "unsqueeze" else 0
        axes = _axes(node, len(shapes[0]) + added)
        if axes is None and name in ("slice", "sort", "topk", "select", "gather"):
            axes = [len(shapes[0]) - 1] if name in ("sort", "topk") else [0]
        if axes is None:
            return _ROWS if name == "squeeze" else None
        return _ROWS if 0 not in axes else None


def _plain(node: Any, rows: int) -> Any:
    """An operation with its arguments, where the number of samples may stand among sizes alone."""
    name = _name(node)

    def of(one: Any, is_size: bool = False) -> Any:
        if hasattr(one, "op"):
            return one.name
        if isinstance(one, (list, tuple)):
            sizes = is_size and bool(one) and one[0] == rows
            found = [of(each) for each in one]
            return ["samples", *found[1:]] if sizes else found
        return repr(one)

    sizes = {1} if name in _SHAPES else {0} if name in _ALIKE else set[int]()
    given = [of(one, at in sizes) for at, one in enumerate(node.args)]
    return node.op, str(node.target), given, {key: of(one) for key, one in node.kwargs.items()}


def _traced(function: Callable[..., Any], shapes: list[tuple[Any, ...]], dtype: Any) -> Any:
    """The graph of a function of two tensors that have no values."""
    import torch
    from keras.src.backend.torch.core import get_device
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    def called(true: Any, predicted: Any) -> Any:  # a method's own object would count as a tensor
        return function(true, predicted)

    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        given = [torch.empty(shape, dtype=dtype, device=get_device()) for shape in shapes]
        return make_fx(called, tracing_mode="fake", _allow_non_fake_inputs=True)(*given)


def why_not(function: Callable[..., Any], shapes: list[tuple[Any, ...]], dtype: str) -> str:
    """Why it is not proved that a function's value has a row for each sample; empty: it is.

    shapes: of its two arguments, which are tensors of rows.
    """
    import torch
    from keras.src.backend.torch.core import to_torch_dtype

    texts, constants = [], []
    for rows in _SAMPLES:
        traced = _traced(function, [(rows, *shape[1:]) for shape in shapes], to_torch_dtype(dtype))
        nodes = list(traced.graph.nodes)
        _, why = _Kinds(rows).follow(traced.graph)
        if why:
            return why
        texts.append([_plain(one, rows) for one in nodes])
        constants.append(
            [getattr(traced, str(one.target)) for one in nodes if one.op == "get_attr"]
        )
    if texts[0] != texts[1] or not all(
        torch.equal(one, other) for one, other in zip(*constants, strict=True)
    ):
        return "its graph depends on how many samples there are"
    return ""
