"""Training loops of a script, proved standard by its text and written with `plimsoll.Trainer`.

What the loop does with its gradients stays: applied on every batch, or added up over as many
batches as before, by the same divisor. Of the statements of a loop, those with the tape, gradients
and their sums are replaced; all others stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from plimsoll.tapes.grammar import BUILT_OTHERWISE, LOSS_FUNCTIONS, NotStandard, Reader, Role, Step
from plimsoll.tapes.sums import Sums, mentions
from plimsoll.tapes.text import Place, Text, blocks_of, tapes

_LOSSES = ("loss", "quotient")


@dataclass
class Loop:
    """One that is proved; its statements by what becomes of them."""

    tape: ast.With
    step: Step
    losses: dict[str, bool]  # names of the loss, and whether it is divided there
    hidden: set[str]  # names of what a trainer keeps to itself
    gone: list[ast.stmt] = field(default_factory=list)
    applies: list[ast.stmt] = field(default_factory=list)
    clears: list[ast.stmt] = field(default_factory=list)
    adds_up: bool = False
    divisor: ast.expr | None = None
    anchor: Any = None  # the trainer is made before this statement

    def handled(self) -> list[ast.stmt]:
        return [self.tape, *self.gone, *self.applies, *self.clears]


class Script:
    """Its text, its loops, and the text that it has with trainers. Raises SyntaxError."""

    def __init__(self, source: str, name: str) -> None:
        self.source, self.name = source, name
        self.tree = ast.parse(source, name)
        self.text, self.place = Text(self.tree), Place(self.tree)
        self.loops: list[Loop] = []
        self.refused: list[NotStandard] = []
        for tape in tapes(self.tree, self.text):
            try:
                self.loops.append(self._proved(tape))
            except NotStandard as error:
                error.node = error.node if hasattr(error.node, "lineno") else tape
                self.refused.append(error)
        self._check_all()

    # The proof.

    def _proved(self, tape: ast.With) -> Loop:
        self.text.look_from([one for one in self.place.around(tape)
                             if isinstance(one, (ast.FunctionDef, ast.Module))])  # fmt: skip
        reader = Reader(self.text)
        reader.statement(tape)
        block = self.place.block(tape)
        sums: Sums | None = None
        gone: list[ast.stmt] = []
        applies: list[ast.stmt] = []
        others: list[ast.stmt] = []  # that stay
        updated = len(reader.step.metrics)
        for statement in block[block.index(tape) + 1 :]:
            gradients = [n for n, v in reader.local.items() if v.kind == "gradients"]
            if reader.step.model is not None and sums is None and gradients:
                sums = Sums(self.text, self.place, reader.step.model, None)
                if not sums.is_add(statement, gradients[-1]):
                    sums = None
            if sums is not None and statement is sums.add:
                continue
            if sums is not None and mentions(statement, sums.name):
                continue  # read below
            if self._is_own(statement, reader):
                applied = reader.step.optimizer
                reader.statement(statement)
                if isinstance(statement, ast.Return):
                    _check_answer(statement, reader.step.answer)
                elif applied is not reader.step.optimizer:
                    applies.append(statement)
                else:
                    gone.append(statement)
                if len(reader.step.metrics) > updated and others:
                    # A trainer updates them at once: what others see of them would change.
                    raise NotStandard(others[0], "metrics are expected to be updated before it")
                updated = len(reader.step.metrics)
            else:
                others.append(statement)
        loop = self._loop(tape, reader, sums)
        loop.gone += gone
        loop.applies += applies
        self._check_around(loop)
        loop.anchor = self._anchor(loop)
        if sums is not None:
            self._read_begins(loop, sums)
        return loop

    def _is_own(self, statement: ast.stmt, reader: Reader) -> bool:
        """Whether it has to do with more of the step than its loss."""
        names = [name for name, value in reader.local.items() if value.kind not in _LOSSES]
        if any(mentions(statement, name) for name in names):
            return True
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return False
        callee = statement.value.func
        role = self.text.role(callee.value) if isinstance(callee, ast.Attribute) else None
        return role is not None and role.kind == "optimizer"

    def _loop(self, tape: ast.With, reader: Reader, sums: Sums | None) -> Loop:
        losses = {name: value for name, value in reader.local.items() if value.kind in _LOSSES}
        divided = {name: value.kind == "quotient" for name, value in losses.items()}
        if len(losses) > 2 or list(divided.values()).count(False) > 1 or len(
            set(value.of for value in losses.values())) > 1:  # fmt: skip
            raise NotStandard(tape, "one name is expected for the loss")
        hidden = {name for name, value in reader.local.items() if value.kind not in _LOSSES}
        divisor = reader.step.scale if reader.step.divides else None
        if sums is None:
            return Loop(tape, reader.finished(), divided, hidden, divisor=divisor)
        if reader.step.optimizer is not None:
            raise NotStandard(sums.add, "gradients are expected to be applied or added up, and "
                                        "both are done")  # fmt: skip
        assert sums.add is not None
        sums.read(self.place.scope(sums.add))
        reader.step.optimizer = sums.optimizer
        if reader.step.loss is None or reader.step.y is None:
            raise NotStandard(tape, "a model, a loss and gradients are expected")
        if divisor is not None and sums.divisor is not None:
            raise NotStandard(sums.add, "one divisor is expected")
        loop = Loop(tape, reader.step, divided, hidden | {sums.name}, adds_up=True)
        loop.divisor = divisor if divisor is not None else sums.divisor
        loop.gone += [sums.add, *sums.divides]
        loop.applies += sums.applies
        return loop

    def _read_begins(self, loop: Loop, sums: Sums) -> None:
        after = [sums.begins_after(apply) for apply in sums.applies]
        for begin in sums.begins:
            inside = any(isinstance(one, (ast.For, ast.While)) for one in self.place.around(begin))
            same = self.place.scope(begin) is self.place.scope(loop.anchor)
            if any(begin is one for one in after) or (
                not inside and same and self.place.is_before(begin, loop.anchor)
            ):
                loop.gone.append(begin)
            elif not same and self.place.is_before(begin, loop.anchor):
                raise NotStandard(begin, "it is expected beside the loop")
            else:
                loop.clears.append(begin)

    def _check_around(self, loop: Loop) -> None:
        step, source = loop.step, self.source
        for word in ("distribute", "mixed_", "floatx", "LossScale"):
            if word in source:
                raise NotStandard(loop.tape, f"a script without {word} is expected")
        if step.loss is not None and step.loss.kind == "loss of each":
            raise NotStandard(loop.tape, "a loss with a reduction of its own is expected")
        if step.loss is not None and step.loss.kind == "loss function" and (
            "mask_zero" in source or "Masking" in source
        ):  # fmt: skip
            raise NotStandard(loop.tape, "a loss that is a function knows of no masks")
        optimizers = source.count("optimizers.") - source.count("optimizers.SGD")
        if "Embedding" in source and optimizers and not loop.adds_up:
            raise NotStandard(loop.tape, "an Embedding's gradients are applied otherwise by this "
                                         "optimizer")  # fmt: skip
        if isinstance(loop.divisor, ast.Name) and self.text.given(loop.divisor.id) is None:
            raise NotStandard(loop.tape, f"{loop.divisor.id} is expected to stay what it is")
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Global, ast.Nonlocal)) and (
                {*loop.hidden, *loop.losses} & set(node.names)
            ):  # fmt: skip
                raise NotStandard(node, "names of the loop are expected to be its own")
        if step.penalties_by == "add_n" and "regularizer" not in source:
            raise NotStandard(loop.tape, "tf.add_n is expected to have something to add")
        scope = self.place.scope(loop.tape)
        if isinstance(scope, ast.FunctionDef) and scope.decorator_list:
            self._check_function(scope, loop)

    def _check_function(self, scope: ast.FunctionDef, loop: Loop) -> None:
        """Refuses what a tf.function, which becomes a plain one, may not hold."""
        if len(scope.decorator_list) != 1 or not self._is_tf_function(scope.decorator_list[0]):
            raise NotStandard(scope.decorator_list[0], "no decorator but tf.function is expected")
        if loop.step.optimizer is not None:
            made = getattr(self.text.given(str(loop.step.optimizer.value)), "value", None)
            if isinstance(made, ast.Call) and BUILT_OTHERWISE in self.text.dotted(made.func):
                raise NotStandard(made, f"a {BUILT_OTHERWISE} begins otherwise in a tf.function")
        handled = loop.handled()
        for statement in scope.body:
            text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            mine = any(statement is one for one in handled)
            if not mine and not text and not isinstance(statement, (ast.Return, ast.Pass)):
                raise NotStandard(statement, "in a tf.function nothing but the step is expected")
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and self._is_tf_function(node.func) and node.args:
                raise NotStandard(node, "tf.function is expected as a decorator")
            if not isinstance(node, ast.FunctionDef) or node is scope:
                continue
            if mentions(node, scope.name) and any(map(self._is_tf_function, node.decorator_list)):
                raise NotStandard(node, f"{scope.name} is expected to be called by no tf.function")

    def _is_tf_function(self, node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        return self.text.dotted(called) == "tensorflow.function"

    def _anchor(self, loop: Loop) -> Any:
        """The outermost function or loop before which everything is made."""
        step = loop.step
        needed = [role for role in (step.model, step.optimizer, step.loss, *step.metrics)
                  if role is not None and role.kind != "loss function"]  # fmt: skip
        around = [one for one in self.place.around(loop.tape)
                  if isinstance(one, (ast.FunctionDef, ast.For, ast.While))]  # fmt: skip
        for anchor in reversed(around):
            made = [self.text.given(str(role.value)) for role in needed]
            if all(one is not None and self.place.is_before(one, anchor) for one in made):
                return anchor
        raise NotStandard(loop.tape, "model, loss, metrics and optimizer are expected to be made "
                                     "before the loop")  # fmt: skip

    def _check_all(self) -> None:
        """What a trainer keeps to itself is used nowhere else."""
        handled = [one for loop in self.loops for one in loop.handled()]
        for loop in list(self.loops):
            used = self._used(self.place.scope(loop.tape), loop.hidden, handled)
            if used is not None:
                names = ", ".join(sorted(one for one in loop.hidden if mentions(used, one)))
                self.refused.append(NotStandard(used, f"it uses {names}, which a trainer keeps"))
                self.loops.remove(loop)

    def _used(self, node: ast.AST, names: set[str], handled: list[ast.stmt]) -> ast.stmt | None:
        for block in blocks_of(node):
            for one in block:
                if any(one is other for other in handled) or not any(
                    mentions(one, name) for name in names
                ):  # fmt: skip
                    continue
                if list(blocks_of(one)) and not any(
                    mentions(part, name) for part in ast.iter_child_nodes(one)
                    if not isinstance(part, ast.stmt) for name in names
                ):  # fmt: skip
                    found = self._used(one, names, handled)
                    if found is not None:
                        return found
                    continue
                return one
        return None

    # The text.

    def written(self) -> str:
        """The script with trainers in its loops; as it is where there are none."""
        if not self.loops:
            return self.source
        taken = self.text.names()
        edits: list[tuple[int, int, str]] = []
        for number, loop in enumerate(self.loops):
            name = next(one for one in _trainer_names(number) if one not in taken)
            taken.add(name)
            edits += self._edits(loop, name)
        if "plimsoll" not in self.text.imports:
            edits.append(self._import())
        text = self.source
        for begin, end, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
            text = text[:begin] + new + text[end:]
        ast.parse(text, self.name)
        return text

    def _at(self, line: int, column: int) -> int:
        """Where in the text: a column counts bytes of UTF-8."""
        lines = self.source.splitlines(keepends=True)
        own = lines[line - 1].encode()[:column].decode() if line <= len(lines) else ""
        return sum(map(len, lines[: line - 1])) + len(own)

    def _span(self, node: Any) -> tuple[int, int]:
        return (self._at(node.lineno, node.col_offset),
                self._at(node.end_lineno, node.end_col_offset))  # fmt: skip

    def _import(self) -> tuple[int, int, str]:
        first = min(loop.anchor.lineno for loop in self.loops)
        imports = [one for one in self.tree.body if isinstance(one, (ast.Import, ast.ImportFrom))]
        end = self._span([one for one in imports if one.lineno < first][-1])[1]
        return end, end, "\nimport plimsoll"

    def _edits(self, loop: Loop, name: str) -> Iterator[tuple[int, int, str]]:
        first = min([loop.anchor.lineno, *(one.lineno for one in
                     getattr(loop.anchor, "decorator_list", []))])  # fmt: skip
        at = self._at(first, loop.anchor.col_offset)
        indent = " " * loop.anchor.col_offset
        scope = self.place.scope(loop.tape)
        decorator = getattr(scope, "decorator_list", [])
        made = f"{name} = {self._made(loop)}\n{indent}"
        if decorator and scope is loop.anchor:
            yield at, self._at(scope.lineno, scope.col_offset), made
        else:
            yield at, at, made
            if decorator:
                yield (self._at(decorator[0].lineno, scope.col_offset),
                       self._at(scope.lineno, scope.col_offset), "")  # fmt: skip
        yield (*self._span(loop.tape), self._taped(loop, name))
        for one in loop.applies:
            yield (*self._span(one), _applied(loop, name))
        for one in loop.clears:
            yield (*self._span(one), f"{name}.clear()")
        for one in loop.gone:
            yield self._without(one, loop)

    def _without(self, node: ast.stmt, loop: Loop) -> tuple[int, int, str]:
        """Its lines go, where nothing else is on them and something else is in its block."""
        begin, end = self._span(node)
        start = self.source.rfind("\n", 0, begin) + 1
        stop = self.source.find("\n", end)
        stop = len(self.source) if stop < 0 else stop + 1
        rest = self.source[end:stop].strip()
        alone = not self.source[start:begin].strip() and (not rest or rest.startswith("#"))
        block = self.place.block(node)
        empty = all(any(one is gone for gone in loop.gone) for one in block)
        if not alone or (empty and node is block[0]):
            return begin, end, "pass"
        return start, stop, ""

    def _keras(self) -> str:
        for alias, full in self.text.imports.items():
            if full in ("keras", "tensorflow.keras"):
                return alias
        return next((f"{alias}.keras" for alias, full in self.text.imports.items()
                     if full == "tensorflow"), "")  # fmt: skip

    def _made(self, loop: Loop) -> str:
        """The trainer."""
        step = loop.step
        assert step.model is not None and step.optimizer is not None and step.loss is not None
        loss = str(step.loss.value)
        if step.loss.kind == "loss function":
            options = ", ".join(f"{key}={value!r}" for key, value in step.loss_options.items())
            loss = f"{self._keras()}.losses.{LOSS_FUNCTIONS[loss]}({options})"
        words = [str(step.model.value), str(step.optimizer.value), loss, 'reduce="sum"']
        if not step.penalties:
            words.append("losses=False")
        if not step.training:
            words.append("training=False")
        if step.metrics:
            words.append(f"updates=[{', '.join(str(role.value) for role in step.metrics)}]")
        return f"plimsoll.Trainer({', '.join(words)})"

    def _is_used(self, loop: Loop, name: str) -> bool:
        """Whether anything that stays has a name in it."""
        handled = loop.handled()
        return self._used(self.place.scope(loop.tape), {name}, handled) is not None

    def _taped(self, loop: Loop, name: str) -> str:
        step = loop.step
        assert step.x is not None and step.y is not None
        indent = "\n" + " " * loop.tape.col_offset
        call = f"{name}.accumulate({ast.unparse(step.x)}, {ast.unparse(step.y)})"
        alias = next((a for a, full in self.text.imports.items() if full == "tensorflow"), "")
        call = f"{alias}.constant({call})" if alias else call
        how = "added up over calls and applied as their sum" if loop.adds_up else (
            "applied on every batch")  # fmt: skip
        if loop.divisor is not None:
            by = ast.unparse(loop.divisor)
            how += (
                f", divided by {by}"
                if loop.adds_up
                else f", divided by {by}: they are not added up"
            )
        lines = [f"# As before, gradients are {how}."]
        whole = [one for one, divided in loop.losses.items() if not divided]
        parts = [one for one, divided in loop.losses.items() if divided]
        by = "" if step.scale is None else f" / {ast.unparse(step.scale)}"
        if whole:
            lines.append(f"{whole[0]} = {call}")
            parts = [one for one in parts if self._is_used(loop, one)]
        lines += [f"{one} = {whole[0] if whole else call}{by}" for one in parts]
        return indent.join(lines)


def _trainer_names(number: int) -> Iterator[str]:
    yield "trainer"
    yield "plimsoll_trainer"
    count = number + 2
    while True:
        yield f"trainer_{count}"
        count += 1


def _applied(loop: Loop, name: str) -> str:
    if loop.divisor is None:
        return f"{name}.apply()"
    by = ast.unparse(loop.divisor)
    return f"{name}.apply([None if g is None else g / {by} for g in {name}.gradients()])"


def _check_answer(statement: ast.stmt, answer: Any) -> None:
    stack = [answer]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            stack += one.values()
        elif isinstance(one, (list, tuple)):
            stack += one
        elif one is not None and one != "loss" and not isinstance(one, Role):
            raise NotStandard(statement, f"a trainer gives no {one}")
