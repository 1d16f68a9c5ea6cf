"""Gradients that a loop adds up before it applies them, by the text of its statements.

    sums = [tf.zeros_like(v) for v in model.trainable_variables]      begins (and begins anew)
    …
        sums = [a + g for a, g in zip(sums, gradients)]               adds
        if (step + 1) % 4 == 0:
            optimizer.apply_gradients(zip(sums, model.trainable_variables))

Statements are compared with patterns, in which names that they bind themselves are numbered.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from plimsoll.tapes.grammar import NotStandard, Role
from plimsoll.tapes.text import Place, Text, blocks_of

_ADDED = [f"[v0 + v1 for {pair} in zip({both})]" for pair in ("v0, v1", "v1, v0")
          for both in ("SUMS, GRADS", "GRADS, SUMS")]  # fmt: skip
_ADDS = {
    *(f"SUMS = {one}" for one in _ADDED),
    *(f"if SUMS is None:\n    SUMS = GRADS\nelse:\n    SUMS = {one}" for one in _ADDED),
    "for v0, v1 in zip(SUMS, GRADS):\n    v0.assign_add(v1)",
    *(f"for v0, v1 in enumerate(GRADS):\n    {one}"
      for one in ("SUMS[v0] += v1", "SUMS[v0] = SUMS[v0] + v1", "SUMS[v0].assign_add(v1)")),
    *(f"for v0 in range(len({of})):\n    {one}" for of in ("SUMS", "GRADS")
      for one in ("SUMS[v0] += GRADS[v0]", "SUMS[v0] = SUMS[v0] + GRADS[v0]")),
}  # fmt: skip
_ZEROS = ("tf.zeros_like(v0)", "tf.zeros(v0.shape)", "tf.Variable(tf.zeros_like(v0))",
          "tf.Variable(tf.zeros_like(v0), trainable=False)")  # fmt: skip
_VARIABLES = ("MODEL.trainable_variables", "MODEL.trainable_weights")
_BEGINS = {
    "SUMS = None", "for v0 in SUMS:\n    v0.assign(tf.zeros_like(v0))",
    "SUMS = [tf.zeros_like(v0) for v0 in SUMS]",
    *(f"SUMS = [{zero} for v0 in {those}]" for zero in _ZEROS for those in _VARIABLES),
}  # fmt: skip
_BUILTINS = {"zip", "range", "len", "enumerate"}


class _Numbered(ast.NodeTransformer):
    """Known names in capitals, all others numbered in the order in which they come."""

    def __init__(self, known: dict[str, str]) -> None:
        self._known, self._found = known, dict[str, str]()

    def visit_Name(self, node: ast.Name) -> ast.Name:
        name = self._known.get(node.id)
        if name is None and node.id in _BUILTINS:
            name = node.id
        if name is None:
            name = self._found.setdefault(node.id, f"v{len(self._found)}")
        return ast.copy_location(ast.Name(name, node.ctx), node)


def mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))


class Sums:
    """What is done with one name that gradients are added to."""

    def __init__(self, text: Text, place: Place, model: Role, optimizer: Role | None) -> None:
        self._text, self._place = text, place
        self._known = {str(model.value): "MODEL"}
        self._known |= {alias: "tf" for alias, full in text.imports.items() if full == "tensorflow"}
        self.optimizer = optimizer
        self.name = ""
        self.add: ast.stmt | None = None
        self.begins: list[ast.stmt] = []
        self.applies: list[ast.stmt] = []
        self.divides: list[ast.stmt] = []  # before they are applied
        self.divisor: ast.expr | None = None  # wherever they are applied
        self._divisors: dict[int, ast.expr] = {}  # by statements

    def _pattern(self, node: ast.AST, **more: str) -> str:
        names = {**self._known, **{value: key for key, value in more.items()}}
        copy = ast.parse(ast.unparse(node)).body[0]
        return ast.unparse(_Numbered(names).visit(copy))

    def is_add(self, node: ast.stmt, gradients: str) -> bool:
        """Whether it adds gradients to a name, which is this one's from now on."""
        for name in {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {gradients}:
            if self._pattern(node, SUMS=name, GRADS=gradients) in _ADDS:
                if self.add is not None:
                    raise NotStandard(node, "gradients are expected to be added up once")
                self.name, self.add = name, node
                return True
        return False

    def read(self, scope: ast.AST) -> None:
        """Whatever else the function does with the name. Raises NotStandard."""
        for node in self._statements(scope):
            if node is self.add:
                continue
            if self._pattern(node, SUMS=self.name) in _BEGINS:
                self.begins.append(node)
            elif not self._is_division(node) and not self._is_apply(node):
                raise NotStandard(node, f"what it does with {self.name} is not expected")
        if not self.applies or not self.begins:
            raise NotStandard(self.add, f"{self.name} is expected to begin and to be applied")
        for apply in self.applies:
            self._check_anew(apply)
        self._find_divisor()

    def _find_divisor(self) -> None:
        """The same for all steps, once for each: right before it, or within it."""
        found: list[str] = []
        used: list[ast.stmt] = []
        for apply in self.applies:
            block = self._place.block(apply)
            before = [one for one in block[: block.index(apply)] if mentions(one, self.name)]
            divides = [one for one in before[-1:] if any(one is other for other in self.divides)]
            used += divides
            own = [
                self._divisors[id(one)] for one in [*divides, apply] if id(one) in self._divisors
            ]
            if len(own) > 1:
                raise NotStandard(apply, "one divisor is expected")
            self.divisor = own[0] if own else None
            found.append(ast.unparse(own[0]) if own else "")
        if len(set(found)) > 1:
            raise NotStandard(self.applies[-1], "the same divisor is expected at every step")
        for divides_only in self.divides:
            if not any(divides_only is one for one in used):
                raise NotStandard(divides_only, "it is expected right before a step")

    def _statements(self, node: ast.AST) -> Iterator[ast.stmt]:
        """The smallest statements that mention the name, or that a pattern has as a whole."""
        for block in blocks_of(node):
            for one in block:
                if not mentions(one, self.name):
                    continue
                inner = list(blocks_of(one))
                if one is self.add or not inner or self._pattern(one, SUMS=self.name) in _BEGINS:
                    yield one
                    continue
                parts = [part for part in ast.iter_child_nodes(one)
                         if not isinstance(part, ast.stmt)]  # fmt: skip
                if any(mentions(part, self.name) for part in parts):
                    raise NotStandard(one, f"what it does with {self.name} is not expected")
                yield from self._statements(one)

    def _is_division(self, node: ast.stmt) -> bool:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.ListComp):
            return False
        divisor = self._divisor(node.value)
        if divisor is None or self._pattern(node.targets[0], SUMS=self.name) != "SUMS":
            return False
        self.divides.append(node)
        self._divisors[id(node)] = divisor
        return True

    def _divisor(self, node: ast.expr) -> ast.expr | None:
        """The k of [g / k for g in sums]."""
        if not isinstance(node, ast.ListComp) or not isinstance(node.elt, ast.BinOp):
            return None
        by = node.elt.right
        if not isinstance(node.elt.op, ast.Div) or not isinstance(by, (ast.Name, ast.Constant)):
            return None
        more = {"BY": by.id} if isinstance(by, ast.Name) else {}
        text = "BY" if more else ast.unparse(by)
        pattern = f"[v0 / {text} for v0 in SUMS]"
        return by if self._pattern(node, SUMS=self.name, **more) == pattern else None

    def _is_apply(self, node: ast.stmt) -> bool:
        call: Any = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return False
        role = self._text.role(call.func.value)
        if role is None or role.kind != "optimizer" or call.keywords:
            return False
        given = list(call.args)
        if call.func.attr == "apply_gradients" and len(given) == 1:
            inner = given[0]
            if not isinstance(inner, ast.Call) or ast.unparse(inner.func) != "zip":
                return False
            given = list(inner.args)
        elif call.func.attr != "apply":
            return False
        if len(given) != 2 or self._pattern(given[1]) not in _VARIABLES:
            return False
        divisor = self._divisor(given[0])
        if divisor is not None:
            self._divisors[id(node)] = divisor
        elif self._pattern(given[0], SUMS=self.name) != "SUMS":
            return False
        if self.optimizer is not None and role != self.optimizer:
            return False
        self.optimizer = role
        self.applies.append(node)
        return True

    def begins_after(self, apply: ast.stmt) -> ast.stmt | None:
        """What begins anew right after gradients were applied."""
        block = self._place.block(apply)
        following = [one for one in block[block.index(apply) + 1 :] if mentions(one, self.name)]
        found = following[0] if following else None
        return found if any(found is one for one in self.begins) else None

    def _check_anew(self, apply: ast.stmt) -> None:
        """A step of a trainer begins anew: what is applied here must not be added to any more."""
        if self.begins_after(apply) is not None:
            return
        assert self.add is not None
        outside = list(self._place.around(self.add))
        for around in [apply, *self._place.around(apply)]:
            repeats = isinstance(around, (ast.For, ast.While)) and any(
                around is one for one in outside)  # fmt: skip
            if repeats or not isinstance(around, ast.stmt):
                break
            block = self._place.block(around)
            if any(one is begin for one in block[: block.index(around)] for begin in self.begins):
                return
        loops = [one for one in self._place.around(apply) if isinstance(one, (ast.For, ast.While))]
        if any(one is loop for loop in loops for one in outside):
            raise NotStandard(apply, f"{self.name} is expected to begin anew after it")
