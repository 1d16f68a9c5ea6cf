"""As graph.py, of a function that JAX has traced: whether its value for a sample depends on that
sample alone.

A jaxpr has sizes, not open axes: a number of samples that went into a number of the graph cannot be
told from any other. So the function is traced with two numbers of samples, both primes that no
model has as a size. What differs in more than those sizes depends on how many samples there are.
Each value is free (has no axis of samples) or of rows: row i of its first axis depends on sample i
alone. Primitives that are known lead from kinds to kinds; all others prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_FREE, _ROWS = "free", "rows"
_SAMPLES = (10007, 10009)

_ELEMENTWISE = frozenset(
    "abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp "
    "convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 "
    "floor ge gt integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg "
    "nextafter not or pow reduce_precision rem round rsqrt select_n sign sin sinh sqrt square "
    "stop_gradient sub tan tanh xor".split()
)
_REDUCTIONS = frozenset(
    "argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum "
    "reduce_xor".split()
)
_ALONG_AN_AXIS = frozenset("cumsum cumprod cummax cummin cumlogsumexp".split())
_FROM_NOTHING = frozenset(  # of free values something free
    "broadcast_in_dim concatenate dot_general dynamic_slice expand_dims iota pad reshape rev slice "
    "squeeze transpose".split()
)


def _inner(equation: Any) -> Any:
    """The function that an equation calls, its inputs being the equation's; None: it calls none."""
    if equation.primitive.name not in (
        "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call",
        "custom_vjp_call_jaxpr", "remat", "remat2", "checkpoint",
    ):  # fmt: skip
        return None
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if name in equation.params:
            return equation.params[name]
    return None


def _all(jaxpr: Any) -> Iterator[Any]:
    """Equations, those of functions within too."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        within = [one for value in equation.params.values()
                  for one in (value if isinstance(value, (list, tuple)) else [value])
                  if hasattr(one, "eqns") or hasattr(one, "jaxpr")]  # fmt: skip
        if not within:
            yield equation
        for one in within:
            yield from _all(one)


def _constants(traced: Any) -> list[Any]:
    """Arrays that a traced function has in itself, functions within it too."""
    found = list(traced.consts)
    for equation in traced.jaxpr.eqns:
        for one in equation.params.values():
            if hasattr(one, "consts"):
                found += _constants(one)
    return found


def acts(jaxpr: Any) -> str:
    """The first primitive that does what no value of a variable puts back; empty: none does."""
    return next((one.primitive.name for one in _all(jaxpr) if one.effects), "")


class _Kinds:
    """What is known of the values of one jaxpr that is given `rows` samples."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._of: dict[Any, str] = {}

    def _kind(self, atom: Any) -> str:
        return _FREE if hasattr(atom, "val") else self._of[atom]

    def _is_long(self, shape: Any) -> bool:
        return bool(shape) and shape[0] == self._rows

    def follow(self, jaxpr: Any, kinds: list[str]) -> tuple[list[str], str]:
        """The kinds of the outputs, for those of the inputs; and why nothing is proved."""
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        for one in inner.constvars:
            self._of[one] = _FREE
        for one, kind in zip(inner.invars, kinds, strict=True):
            self._of[one] = kind
        for equation in inner.eqns:
            given = [self._kind(one) for one in equation.invars]
            called = _inner(equation)
            if called is not None:
                found, why = self.follow(called, given)
                if why:
                    return [], why
            else:
                one_kind = self._one(equation, given)
                if one_kind is None:
                    return [], f"its {equation.primitive.name} may put samples together"
                found = [one_kind] * len(equation.outvars)
            for one, kind in zip(equation.outvars, found):
                self._of[one] = kind
        return [self._kind(one) for one in inner.outvars], ""

    def _one(self, equation: Any, kinds: list[str]) -> str | None:
        name = equation.primitive.name
        shapes = [tuple(one.aval.shape) for one in equation.invars]
        shape = tuple(equation.outvars[0].aval.shape)
        if equation.effects:
            return None
        if name in _ELEMENTWISE:
            return self._elementwise(kinds, shapes, shape)
        if name == "broadcast_in_dim":
            return self._spread(equation, kinds[0], shapes[0], shape)
        if _ROWS not in kinds:
            return _FREE if self._stays_free(equation, name) else None
        if kinds[0] != _ROWS:
            return None
        return self._of_rows(equation, name, kinds, shapes, shape)

    def _elementwise(self, kinds: list[str], shapes: list[Any], shape: Any) -> str | None:
        """Rows stay rows where they stand side by side; what is free is spread over them."""
        if _ROWS not in kinds:
            return None if self._rows in shape else _FREE
        for kind, own in zip(kinds, shapes):
            if own != () and len(own) != len(shape):
                return None
            if own != () and (own[0] != 1 if kind == _FREE else not self._is_long(own)):
                return None
        return _ROWS

    def _spread(self, equation: Any, kind: str, given: Any, shape: Any) -> str | None:
        dims = tuple(equation.params["broadcast_dimensions"])
        if kind == _ROWS:
            return _ROWS if dims[:1] == (0,) and self._is_long(shape) else None
        if not self._is_long(shape):
            return None if self._rows in shape else _FREE
        if 0 in dims and given[dims.index(0)] != 1:
            return None
        return _ROWS  # the same for all samples

    def _stays_free(self, equation: Any, name: str) -> bool:
        """Whether a free value comes of free ones: nothing drawn, and no place along the rows."""
        known = name in _FROM_NOTHING | _REDUCTIONS | _ALONG_AN_AXIS
        return known and not any(self._rows in one.aval.shape for one in equation.outvars)

    def _of_rows(
        self, equation: Any, name: str, kinds: list[str], shapes: list[Any], shape: Any
    ) -> str | None:
        """The first operand is of rows."""
        params, long = equation.params, self._is_long(shape)
        if name in _REDUCTIONS:
            return _ROWS if 0 not in params["axes"] else None
        if name in _ALONG_AN_AXIS:
            return _ROWS if params["axis"] != 0 else None
        if name == "sort":
            return _ROWS if params["dimension"] != 0 and set(kinds) == {_ROWS} else None
        if name in ("reshape", "squeeze", "expand_dims"):
            return _ROWS if long and self._is_long(shapes[0]) else None
        if name == "transpose":
            return _ROWS if params["permutation"][0] == 0 else None
        if name == "rev":
            return _ROWS if 0 not in params["dimensions"] else None
        if name == "slice":
            starts, strides = params["start_indices"], params["strides"]
            whole = starts[0] == 0 and (strides is None or strides[0] == 1)
            return _ROWS if whole and long else None
        if name == "concatenate":
            return _ROWS if params["dimension"] != 0 and set(kinds) == {_ROWS} else None
        if name == "dot_general":
            return self._product(params["dimension_numbers"], kinds)
        return None

    @staticmethod
    def _product(dimensions: Any, kinds: list[str]) -> str | None:
        """Rows times a matrix, or row by row."""
        (left, _), (left_batch, right_batch) = dimensions
        if kinds[1] == _FREE:
            return _ROWS if 0 not in left and not left_batch else None
        both = tuple(left_batch[:1]) == (0,) and tuple(right_batch[:1]) == (0,)
        return _ROWS if both else None


def why_not(function: Callable[..., Any], shapes: list[tuple[Any, ...]], dtype: str) -> str:
    """Why it is not proved that a function's value has a row for each sample; empty: it is.

    shapes: of its arguments, which are all tensors of rows.
    """
    import jax
    import numpy as np

    texts, constants, kinds = [], [], list[str]()
    for rows in _SAMPLES:
        given = [jax.ShapeDtypeStruct((rows, *shape[1:]), dtype) for shape in shapes]
        traced = jax.make_jaxpr(function)(*given)
        # A size is followed by a comma or a bracket, a number of the graph by its type or a point.
        texts.append(re.sub(rf"(?<![\d.]){rows}(?![\d.:])", "N", str(traced)))
        constants.append([np.asarray(one) for one in _constants(traced)])
        if len(traced.jaxpr.outvars) != 1:
            return "it does not return a value for each sample"
        kinds, why = _Kinds(rows).follow(traced, [_ROWS] * len(given))
        if why:
            return why
    if texts[0] != texts[1] or not all(
        np.array_equal(one, other) for one, other in zip(*constants, strict=True)
    ):
        return "its graph depends on how many samples there are"
    return "" if kinds == [_ROWS] else "it does not return a value for each sample"
