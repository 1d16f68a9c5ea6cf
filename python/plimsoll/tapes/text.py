"""What the text of a script says of its training loops; nothing is executed.

A name is known where the file gives it a value once: by an import, a class of Keras's, or a
function of the file that returns a model.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from plimsoll.tapes.grammar import LOSS_FUNCTIONS, Role

_FUNCTIONS = {
    "tensorflow.GradientTape": "tape", "tensorflow.reduce_mean": "mean",
    "tensorflow.math.reduce_mean": "mean", "keras.ops.mean": "mean", "tensorflow.add_n": "add_n",
    "tensorflow.math.add_n": "add_n", "tensorflow.reduce_sum": "sum",
    "tensorflow.math.reduce_sum": "sum",
}  # fmt: skip
_MODELS = {"keras.Sequential", "keras.Model", "keras.models.Sequential", "keras.models.Model"}
_NONE = ("none", "None")  # what a loss without a reduction is made with


def blocks_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
    for handler in getattr(node, "handlers", []):
        yield handler.body


def _kind_of_loss(made: ast.Call) -> str:
    """By its reduction, which may be given by place; empty: what is given is not known."""
    given = [*made.args, *(word.value for word in made.keywords if word.arg == "reduction")]
    if any(word.arg is None for word in made.keywords) or not all(
        isinstance(one, ast.Constant) for one in given
    ):  # fmt: skip
        return ""
    none = [one for one in given if isinstance(one, ast.Constant) and str(one.value) in _NONE]
    return "loss of each" if none else "loss"


class Place:
    """Where a statement stands: its block, and what is around it."""

    def __init__(self, tree: ast.Module) -> None:
        self._around: dict[int, tuple[ast.AST, list[ast.stmt]]] = {}
        stack: list[ast.AST] = [tree]
        while stack:
            node = stack.pop()
            for block in blocks_of(node):
                for statement in block:
                    self._around[id(statement)] = (node, block)
                    stack.append(statement)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        return self._around[id(statement)][1]

    def around(self, statement: ast.AST) -> Iterator[ast.AST]:
        """From the nearest outwards."""
        while id(statement) in self._around:
            statement = self._around[id(statement)][0]
            yield statement

    def scope(self, statement: ast.AST) -> Any:
        """The function that it is in, or the module."""
        return next(one for one in self.around(statement)
                    if isinstance(one, (ast.FunctionDef, ast.Module, ast.ClassDef,
                                        ast.AsyncFunctionDef)))  # fmt: skip

    def is_before(self, one: ast.stmt, other: ast.stmt) -> bool:
        """Whether `one` has run whenever `other` does."""
        block = self.block(one)
        chain = [other, *self.around(other)]
        reached = [node for node in block if any(node is link for link in chain)]
        return bool(reached) and block.index(one) < block.index(reached[0])


class Text:
    """What names stand for, by the text alone."""

    divides = True

    def __init__(self, tree: ast.Module) -> None:
        self.imports: dict[str, str] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        # By scope, who gives a name a value; None: it is more than a plain assignment.
        self._values: dict[int, dict[str, list[ast.stmt | None]]] = {}
        self._visible: list[int] = [id(tree)]
        self._module = id(tree)
        self._read(tree, tree)

    def look_from(self, scopes: Sequence[ast.AST]) -> None:
        """Names are looked up as from these scopes, the innermost first."""
        self._visible = [id(one) for one in scopes if not isinstance(one, ast.ClassDef)]

    def names(self) -> set[str]:
        """All names of the file."""
        return {*self.imports, *(name for values in self._values.values() for name in values)}

    def _read(self, node: ast.AST, scope: ast.AST) -> None:
        values = self._values.setdefault(id(scope), {})
        for one in ast.iter_child_nodes(node):
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                values.setdefault(one.name, []).append(one)
                for decorator in one.decorator_list:
                    self._note(decorator, values)
                if isinstance(one, ast.FunctionDef):
                    self.functions[one.name] = one
                self._read(one, one)
                continue
            if isinstance(one, ast.arg):
                values.setdefault(one.arg, []).append(None)
            self._note(one, values)
            self._read(one, scope)

    def _note(self, node: ast.AST, values: dict[str, list[ast.stmt | None]]) -> None:
        def none(target: ast.AST | None) -> None:
            for name in ast.walk(target) if target is not None else ():
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    values.setdefault(name.id, []).append(None)

        if isinstance(node, ast.Import):
            for one in node.names:
                self.imports[one.asname or one.name.split(".")[0]] = (
                    one.name if one.asname else one.name.split(".")[0])  # fmt: skip
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                self.imports[one.asname or one.name] = f"{node.module}.{one.name}"
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(
            node.targets[0], ast.Name):  # fmt: skip
            values.setdefault(node.targets[0].id, []).append(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                none(target)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            values.setdefault(node.target.id, []).append(node)
        elif isinstance(node, (ast.AugAssign, ast.For, ast.comprehension, ast.NamedExpr)):
            none(node.target)
        elif isinstance(node, ast.withitem):
            none(node.optional_vars)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for written in node.names:  # it is written from elsewhere: what it holds is not known
                for scope in self._values.values():
                    scope.setdefault(written, []).extend([None, None])
        elif isinstance(node, ast.Delete):
            for name in ast.walk(node):
                if isinstance(name, ast.Name):
                    values.setdefault(name.id, []).append(None)

    def _found(self, name: str) -> list[ast.stmt | None]:
        for scope in self._visible:
            if name in self._values.get(scope, {}):
                return self._values[scope][name]
        return []

    def dotted(self, node: ast.expr) -> str:
        """The full name of something imported; empty: it is none."""
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value)
            full = f"{owner}.{node.attr}" if owner else ""
        elif isinstance(node, ast.Name) and not self._found(node.id):
            full = self.imports.get(node.id, "")
        else:
            return ""
        for long in ("tensorflow.keras", "keras.api", "tensorflow.compat.v2.keras"):
            if full == long or full.startswith(long + "."):
                return "keras" + full[len(long) :]
        return full

    def given(self, name: str) -> ast.stmt | None:
        """The one statement that gives a name its value."""
        found = self._found(name)
        return found[0] if len(found) == 1 else None

    def is_data(self, node: ast.expr) -> bool:
        """Whatever is no object of the loop's: names, parts and attributes of them."""
        if isinstance(node, ast.Subscript):
            return self.is_data(node.value)
        if isinstance(node, ast.Attribute):
            return self.role(node) is None and self.is_data(node.value)
        return isinstance(node, ast.Name) and self.role(node) is None and (
            bool(self._found(node.id)) and node.id not in self.functions)  # fmt: skip

    def number(self, node: ast.expr) -> float | None:
        return None  # a trainer clips as its optimizer does

    def same_variables(self, one: Role, other: Role) -> bool:
        return one == other

    def role(self, node: ast.expr) -> Role | None:
        full, text = self.dotted(node), ast.unparse(node)
        if full in _FUNCTIONS:
            return Role(_FUNCTIONS[full], full)
        if full.startswith("keras.losses.") and full.rpartition(".")[2] in LOSS_FUNCTIONS:
            return Role("loss function", full.rpartition(".")[2])
        if not isinstance(node, ast.Name):
            return None
        if text in ("sum", "zip") and not self._found(text) and text not in self.imports:
            return Role(text, text)
        statement = self.given(text)
        value = getattr(statement, "value", None)
        if value is None:
            return None
        if isinstance(value, (ast.Name, ast.Attribute)):
            role = self.role(value)
            return role if role is not None and role.kind == "loss function" else None
        kind = self._kind(value)
        return Role(kind, text) if kind else None

    def _kind(self, value: ast.expr) -> str:
        if not isinstance(value, ast.Call):
            return ""
        full = self.dotted(value.func)
        if full in _MODELS or self._gives_model(value.func):
            return "model"
        package, _, name = full.rpartition(".")
        if not name[:1].isupper():
            return "model" if full.startswith("keras.models.clone_model") else ""
        if package == "keras.losses":
            return _kind_of_loss(value)
        if package.startswith("keras.optimizers") and "LossScale" not in name:
            return "optimizer"
        if package == "keras.metrics":
            return "metric"
        return "model" if package.startswith("keras.applications") else ""

    def _gives_model(self, callee: ast.expr) -> bool:
        """Whether it is a function of the file that returns a model of Keras's."""
        if not isinstance(callee, ast.Name) or self.given(callee.id) is None:
            return False
        function = self.functions.get(callee.id)
        if function is None or function.decorator_list:
            return False
        returned = [one.value for one in ast.walk(function) if isinstance(one, ast.Return)]
        return bool(returned) and all(one is not None and self._is_model(one, function)
                                      for one in returned)  # fmt: skip

    def _is_model(self, value: ast.expr, function: ast.FunctionDef) -> bool:
        if isinstance(value, ast.Call):
            return self.dotted(value.func) in _MODELS
        made = [one for one in ast.walk(function) if isinstance(one, ast.Assign)
                and any(isinstance(t, ast.Name) and isinstance(value, ast.Name)
                        and t.id == value.id for t in one.targets)]  # fmt: skip
        return len(made) == 1 and isinstance(made[0].value, ast.Call) and (
            self.dotted(made[0].value.func) in _MODELS)  # fmt: skip


def tapes(tree: ast.Module, text: Text) -> list[ast.With]:
    """Tapes of training: something in the same function applies gradients."""
    place, found = Place(tree), []
    for node in ast.walk(tree):
        if not isinstance(node, ast.With):
            continue
        made = [text.dotted(item.context_expr.func) for item in node.items
                if isinstance(item.context_expr, ast.Call)]  # fmt: skip
        if "tensorflow.GradientTape" not in made:
            continue
        scope = place.scope(node)
        if any(isinstance(one, ast.Attribute) and one.attr in ("apply_gradients", "apply")
               for one in ast.walk(scope)):  # fmt: skip
            found.append(node)
    return sorted(found, key=lambda node: node.lineno)
