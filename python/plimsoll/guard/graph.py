"""Whether a function's value for a sample depends on that sample alone: proved by its graph.

Each tensor of a traced function is one of three kinds: free (depends on no sample and has no axis
of samples), counted (depends on how many samples there are), or a tensor of rows: row i of its
first axis depends on sample i alone. Operations that are known lead from kinds to kinds; all others
prove nothing. What is not proved here may hold all the same.
"""

from __future__ import annotations

from typing import Any

_FREE, _COUNT, _ROWS = "free", "count", "rows"

_ELEMENTWISE = frozenset(
    "Abs Add AddN AddV2 BitwiseAnd Cast Ceil ClipByValue Cos Cosh DivNoNan Elu Equal Erf Exp "
    "Expm1 Floor FloorDiv Greater GreaterEqual Identity IsFinite IsInf IsNan LeakyRelu Less "
    "LessEqual Log Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum Mul MulNoNan Neg "
    "NotEqual OnesLike Pow RealDiv Reciprocal Relu Relu6 Rint Round Rsqrt Select SelectV2 Selu "
    "Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Square SquaredDifference StopGradient Sub Tan "
    "Tanh Xdivy Xlogy ZerosLike".split()
)
_REDUCTIONS = frozenset("All Any ArgMax ArgMin Max Mean Min Prod Sum".split())
_OF_LAST_AXIS = frozenset("LogSoftmax Softmax".split())
_OF_ROWS = frozenset("SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits".split())


def _rank(tensor: Any) -> int | None:
    rank: int | None = tensor.shape.rank
    return rank


def _constant(tensor: Any) -> Any:
    from tensorflow.python.framework.tensor_util import constant_value

    return constant_value(tensor)


# Operations that TensorFlow calls stateful, and whose state is a variable or ends with the call.
_PUT_BACK = frozenset(
    "Assert Case CheckNumerics CheckNumericsV2 If While StatefulPartitionedCall ReadVariableOp "
    "VarHandleOp VariableShape "
    "VarIsInitializedOp DestroyResourceOp LookupTableFindV2 LookupTableSizeV2 "
    "RngReadAndSkip RngSkip StatefulRandomBinomial StatefulStandardNormal "
    "StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt "
    "StatefulUniformInt".split()
)
_OF_VARIABLES = ("Assign", "ResourceGather", "ResourceScatter", "ResourceApply",
                 "ResourceSparseApply", "ResourceStridedSlice", "TensorArray")  # fmt: skip


class _Kinds:
    """What is known of the tensors of one graph."""

    def __init__(self) -> None:
        self._of: dict[int, str] = {}

    def put(self, tensor: Any, kind: str) -> None:
        self._of[id(tensor)] = kind

    def of(self, tensor: Any) -> str:
        return self._of[id(tensor)]

    def elementwise(self, op: Any) -> str | None:
        """Rows stay rows where they stand side by side; what has fewer axes is spread over them."""
        kinds = [self.of(one) for one in op.inputs]
        rank = _rank(op.outputs[0])
        if _ROWS not in kinds:
            return _COUNT if _COUNT in kinds else _FREE
        if _COUNT in kinds or rank is None:
            return None
        for tensor, kind in zip(op.inputs, kinds):
            own = _rank(tensor)
            if own is None or (kind == _ROWS and own != rank):
                return None
            if kind == _FREE and own == rank and tensor.shape[0] != 1:
                return None
        return _ROWS

    def over_axes(self, op: Any) -> str | None:
        """A sum and its like: over any axes but the first."""
        if self.of(op.inputs[0]) != _ROWS:
            return self.of(op.inputs[0])
        axes, rank = _constant(op.inputs[1]), _rank(op.inputs[0])
        if axes is None or rank is None:
            return None
        return None if 0 in {int(one) % rank for one in axes.reshape(-1)} else _ROWS

    def reshaped(self, op: Any) -> str | None:
        """An axis that is put in or left out after the first."""
        if self.of(op.inputs[0]) != _ROWS:
            return self.of(op.inputs[0])
        rank = _rank(op.inputs[0])
        if rank is None:
            return None
        if op.type == "ExpandDims":
            axis = _constant(op.inputs[1])
            return None if axis is None or int(axis.reshape(-1)[0]) % (rank + 1) == 0 else _ROWS
        dims = [int(one) % rank for one in op.get_attr("squeeze_dims")]
        return None if not dims or 0 in dims else _ROWS

    def taken(self, op: Any) -> str | None:
        """A slice: of the axes after the first, or one extent of a shape."""
        kind = self.of(op.inputs[0])
        begin, end, strides = (_constant(one) for one in op.inputs[1:4])
        if begin is None or end is None or strides is None:
            return None
        masks = {name: op.get_attr(f"{name}_mask")
                 for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}  # fmt: skip
        if kind == _ROWS:
            rank = _rank(op.inputs[0])
            if masks["new_axis"] or rank is None:
                return None
            if masks["ellipsis"] == 1:  # [..., 0]: the first axis is among those that it names
                return _ROWS if rank > len(begin) - 1 else None
            whole = masks["begin"] & masks["end"] & 1 and not masks["shrink_axis"] & 1
            return _ROWS if whole and not masks["ellipsis"] and int(strides[0]) == 1 else None
        if kind == _COUNT and op.inputs[0].op.type == "Shape" and masks["shrink_axis"] == 1:
            return _FREE if int(begin[0]) > 0 else _COUNT
        return kind

    def one_hot(self, op: Any) -> str | None:
        if any(self.of(one) != _FREE for one in op.inputs[1:]):
            return None
        kind = self.of(op.inputs[0])
        return None if kind == _ROWS and op.get_attr("axis") == 0 else kind

    def joined(self, op: Any) -> str | None:
        """Side by side, on any axis but the first."""
        *parts, axis = op.inputs
        kinds = {self.of(one) for one in parts}
        if _ROWS not in kinds:
            return _COUNT if _COUNT in kinds else _FREE
        where, rank = _constant(axis), _rank(op.outputs[0])
        if kinds != {_ROWS} or where is None or rank is None or int(where) % rank == 0:
            return None
        return _ROWS

    def product(self, op: Any) -> str | None:
        left, right = (self.of(one) for one in op.inputs)
        plain = _rank(op.inputs[0]) == 2 and not op.get_attr("transpose_a")
        return _ROWS if left == _ROWS and right == _FREE and plain else None

    def follow(self, op: Any) -> str | None:
        """The kind of what an operation makes; None: nothing is proved."""
        name = op.type
        if name in _ELEMENTWISE:
            return self.elementwise(op)
        if name in _REDUCTIONS:
            return self.over_axes(op)
        if name == "Shape":
            return _COUNT if self.of(op.inputs[0]) == _ROWS else self.of(op.inputs[0])
        if name in ("ExpandDims", "Squeeze"):
            return self.reshaped(op)
        if name in _OF_LAST_AXIS or name in _OF_ROWS:
            rank = _rank(op.inputs[0])
            kinds = {self.of(one) for one in op.inputs}
            return _ROWS if kinds == {_ROWS} and rank is not None and rank >= 2 else None
        ways = {"StridedSlice": self.taken, "OneHot": self.one_hot, "ConcatV2": self.joined,
                "MatMul": self.product}  # fmt: skip
        if name in ways and any(self.of(one) != _FREE for one in op.inputs):
            return ways[name](op)
        kinds = {self.of(one) for one in op.inputs}
        calls = any(one in name for one in ("Call", "If", "While", "Case", "Random", "PyFunc"))
        return _FREE if kinds <= {_FREE} and not calls else None


def acts(concrete: Any) -> str:
    """The first operation of a traced function that does what no value of a variable puts back.

    Such are draws whose seed is a kernel's own, printing, and functions of Python. Empty: none.
    """
    from tensorflow.python.framework import op_def_registry

    graph = concrete.graph.as_graph_def()
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    for name in dict.fromkeys(node.op for nodes in bodies for node in nodes):
        definition = op_def_registry.get(name)
        if definition is None or not definition.is_stateful or name in _PUT_BACK:
            continue
        if not name.startswith(_OF_VARIABLES):
            return str(name)
    return ""


def why_not(concrete: Any) -> str:
    """Why it is not proved that the output of a traced function has a row for each sample.

    All arguments of the function are tensors of rows. Empty where it is proved.
    """
    graph = concrete.graph
    captured = {id(inside) for _, inside in graph.captures}
    kinds = _Kinds()
    for op in graph.get_operations():
        if op.type in ("Placeholder", "Const"):
            ours = op.type == "Placeholder" and id(op.outputs[0]) not in captured
            kinds.put(op.outputs[0], _ROWS if ours else _FREE)
            continue
        if not op.outputs:
            continue  # an assertion
        kind = kinds.follow(op)
        if kind is None:
            return f"its {op.type} may put samples together"
        for tensor in op.outputs:
            kinds.put(tensor, kind)
    if len(concrete.outputs) != 1 or kinds.of(concrete.outputs[0]) != _ROWS:
        return "it does not return a value for each sample"
    return ""
