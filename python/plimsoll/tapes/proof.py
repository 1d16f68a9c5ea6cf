"""Proves that a function is a standard training step, and finds the objects that it works on.

What is read is the syntax tree of the very code that would run: the file's text is compiled again
and must give the function's code. Names are looked up as Python would, without calling anything of
the program's.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from plimsoll.tapes.grammar import LOSS_FUNCTIONS, NotStandard, Reader, Role, Step


def subject(made: Any) -> tuple[Any, Any]:
    """The Python function that a tf.function is made of, and the object whose method it is."""
    inner = made.python_function
    for _ in range(4):
        if isinstance(inner, types.MethodType):
            return inner.__func__, getattr(inner.__self__, "target", inner.__self__)
        decorator = getattr(inner, "_tf_decorator", None)
        if decorator is None:
            break
        inner = decorator.decorated_target
    return inner, None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _is_same(one: Any, other: Any) -> bool:
    """Code that does the same, on the same lines."""
    if not isinstance(one, types.CodeType) or not isinstance(other, types.CodeType):
        return type(one) is type(other) and bool(one == other)
    for what in ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_name",
                 "co_flags", "co_firstlineno", "co_argcount", "co_kwonlyargcount"):  # fmt: skip
        if getattr(one, what) != getattr(other, what):
            return False
    if len(one.co_consts) != len(other.co_consts):
        return False
    return all(map(_is_same, one.co_consts, other.co_consts))


def tree_of(function: Any) -> ast.FunctionDef:
    """Raises NotStandard where it is not sure which text the function was made of."""
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        raise NotStandard(None, "expected a function, received another object")
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    if not text:
        raise NotStandard(None, "its source is not to be had")
    try:
        whole = compile(text, code.co_filename, "exec", dont_inherit=True)
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        raise NotStandard(None, "its source is not what runs") from None
    if not any(_is_same(one, code) for one in _codes(whole)):
        raise NotStandard(None, "its source is not what runs")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    raise NotStandard(None, "it is no plain function")


def _attribute(owner: Any, name: str) -> Any:
    """What an object holds; raises LookupError where a look would run code."""
    if isinstance(owner, types.ModuleType):
        return getattr(owner, name)
    if isinstance(owner, type):
        found = inspect.getattr_static(owner, name, None)
        if found is None or hasattr(type(found), "__get__"):
            raise LookupError(name)
        return found
    looks_up: Any = type(owner).__getattribute__
    if looks_up is not object.__getattribute__:
        raise LookupError(name)
    of_class = inspect.getattr_static(type(owner), name, None)
    if of_class is not None and hasattr(type(of_class), "__set__"):
        raise LookupError(name)
    held = getattr(owner, "__dict__", {})
    if name in held:
        return held[name]
    if of_class is None or hasattr(type(of_class), "__get__"):
        raise LookupError(name)
    return of_class


def role_of(value: Any) -> Role | None:
    """What a live object is in a step."""
    tensorflow: Any = sys.modules["tensorflow"]
    keras: Any = sys.modules["keras"]
    for kind, those in (
        ("tape", (tensorflow.GradientTape,)), ("zip", (zip,)), ("add_n", (tensorflow.add_n,)),
        ("mean", (tensorflow.reduce_mean, keras.ops.mean)),
        ("clip", (tensorflow.clip_by_global_norm,)),
        ("sum", (builtins.sum, tensorflow.reduce_sum)),
    ):  # fmt: skip
        if any(value is one for one in those):
            return Role(kind, value)
    if isinstance(value, keras.Model):
        return Role("model", value)
    if isinstance(value, keras.losses.Loss):
        each = getattr(value, "reduction", None) in (None, "none")
        return Role("loss of each" if each else "loss", value)
    if isinstance(value, keras.optimizers.Optimizer):
        return Role("optimizer", value)
    if isinstance(value, keras.metrics.Metric):
        return Role("metric", value)
    name = getattr(value, "__name__", "")
    if name in LOSS_FUNCTIONS and value is getattr(keras.losses, name):
        return Role("loss function", value)
    return None


class Live:
    """What a function's names stand for now."""

    divides = False

    def __init__(self, function: types.FunctionType, instance: Any) -> None:
        code = function.__code__
        self._globals = function.__globals__
        self._cells = dict(zip(code.co_freevars, function.__closure__ or ()))
        self._own = {*code.co_varnames, *code.co_cellvars}
        count = code.co_argcount + code.co_kwonlyargcount
        self.parameters = list(code.co_varnames[:count])
        self._bound: dict[str, Any] = {}
        if instance is not None and self.parameters:
            self._bound = {self.parameters.pop(0): instance}

    def is_data(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.parameters

    def _object(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Attribute):
            return _attribute(self._object(node.value), node.attr)
        if not isinstance(node, ast.Name):
            raise LookupError(ast.unparse(node))
        name = node.id
        if name in self._bound:
            return self._bound[name]
        if name in self._own:
            raise LookupError(name)
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:
                raise LookupError(name) from None
        if name in self._globals:
            return self._globals[name]
        return vars(builtins)[name]

    def role(self, node: ast.expr) -> Role | None:
        try:
            return role_of(self._object(node))
        except (LookupError, AttributeError):
            return None

    def number(self, node: ast.expr) -> float | None:
        try:
            value: Any = node.value if isinstance(node, ast.Constant) else self._object(node)
        except (LookupError, AttributeError):
            return None
        return float(value) if type(value) in (int, float) else None

    def same_variables(self, one: Role, other: Role) -> bool:
        if one.value is other.value:
            return True
        ours, theirs = one.value.trainable_variables, other.value.trainable_variables
        return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs))


def where(function: Any, error: NotStandard) -> str:
    """File and line of a statement that stands in the way, with its beginning."""
    file = function.__code__.co_filename if hasattr(function, "__code__") else ""
    near = os.path.relpath(file) if os.path.isabs(file) else file
    file = file if near.startswith("..") else near
    line = getattr(error.node, "lineno", None)
    if error.node is None or line is None:
        return error.reason
    text = ast.unparse(error.node).split("\n")[0]
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{file}:{line}: {text}: {error.reason}"


def read(tree: ast.FunctionDef, names: Live) -> Step:
    """The step, with the objects that names stand for now. Raises NotStandard."""
    reader = Reader(names)
    if tree.args.vararg is not None or tree.args.kwarg is not None:
        raise NotStandard(tree.args.vararg or tree.args.kwarg, "plain parameters are expected")
    reader.read(tree.body)
    return reader.finished()
