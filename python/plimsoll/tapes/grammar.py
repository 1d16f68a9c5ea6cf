"""Training steps of one's own: what they may consist of, read from their syntax tree.

A step is a straight line of statements: one tape around one call of a model and one loss, one
gradient, one step of an optimizer, updates of metrics. Each expression stands for one of few things
(`_Is`); whatever else is there is refused, with the statement that it stands in. Nothing is
executed. What a name stands for is said by `Names`: live objects (proof.py), or what a file's text
says of them (text.py).

    with tf.GradientTape() as tape:                        tape
        predictions = model(x, training=True)              prediction
        loss = loss_fn(y, predictions)                     loss
        loss += sum(model.losses)                          loss, with penalties
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    metric.update_state(y, predictions)
    return loss
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

# Functions of keras.losses that take labels as the losses of those classes do.
LOSS_FUNCTIONS = {
    "mean_squared_error": "MeanSquaredError",
    "mean_absolute_error": "MeanAbsoluteError",
    **dict.fromkeys(("mse", "MSE"), "MeanSquaredError"),
    **dict.fromkeys(("mae", "MAE"), "MeanAbsoluteError"),
    "binary_crossentropy": "BinaryCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
}
# Losses whose own mean is that of all their values, whatever these options are. Others leave values
# out of it: `ignore_class`, and Circle, which counts those above zero.
_SMOOTH = ("from_logits", "label_smoothing")
_PLAIN_MEANS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((
        "MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError",
        "MeanSquaredLogarithmicError", "CosineSimilarity", "LogCosh", "Hinge", "SquaredHinge",
        "CategoricalHinge", "KLDivergence", "Poisson"), ()),
    "Huber": ("delta",),
    "BinaryCrossentropy": _SMOOTH, "CategoricalCrossentropy": _SMOOTH,
    "BinaryFocalCrossentropy": (*_SMOOTH, "apply_class_balancing", "alpha", "gamma"),
    "CategoricalFocalCrossentropy": (*_SMOOTH, "alpha", "gamma"),
    "SparseCategoricalCrossentropy": ("from_logits",),
}  # fmt: skip
# An optimizer that a trace makes with other numbers than a first step that is no function's.
BUILT_OTHERWISE = "ScheduleFreeAdamW"


def not_a_plain_mean(name: str, options: dict[str, Any]) -> str:
    """What keeps the mean of a loss from being that of all its values; empty: nothing does.

    name: of a class of keras.losses; options: what it is made with.
    """
    if name not in _PLAIN_MEANS:
        return name
    usual = {"ignore_class": None, "axis": -1}
    others = [key for key, value in options.items() if key not in _PLAIN_MEANS[name]
              and not (key in usual and value == usual[key])]  # fmt: skip
    return ", ".join(f"{key}={options[key]!r}" for key in others)


class NotStandard(Exception):
    """A statement or expression that no standard step has."""

    def __init__(self, node: ast.AST | None, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


@dataclass(frozen=True)
class Role:
    """What a name stands for.

    kind: "tape", "mean", "add_n", "sum", "zip", "clip": functions; "model", "loss", "loss of each"
    (an object without a reduction), "loss function", "optimizer", "metric": `value` is the live
    object, or the text that names it.
    """

    kind: str
    value: Any = None

    def is_same(self, other: Role) -> bool:
        if isinstance(self.value, str):
            return self == other
        return self.kind == other.kind and self.value is other.value


class Names(Protocol):
    divides: bool  # whether a loss may be divided by something

    def role(self, node: ast.expr) -> Role | None:
        """The role of a name, or of names joined by dots."""

    def is_data(self, node: ast.expr) -> bool:
        """Whether it is what a step is called with."""

    def number(self, node: ast.expr) -> float | None:
        """What a name or constant is, where it is a plain number."""

    def same_variables(self, one: Role, other: Role) -> bool:
        """Whether two models train the same variables."""


@dataclass(frozen=True)
class _Is:
    """What an expression stands for.

    "data", "role", "tape", "prediction", "values" (a loss for each sample), "loss", "quotient" (of
    the loss and something), "losses" (the model's own), "penalty" (their sum), "variables",
    "gradients", "clipped" (gradients and their norm), "norm", "pairs", "nothing", "result".
    """

    kind: str
    of: Any = None


@dataclass
class Step:
    """A step that is proved standard; `answer` is what it returns.

    An answer is None, "loss", "prediction", "norm" (of gradients that are clipped), a metric's Role
    (its result), or a tuple, list or dict of answers.
    """

    model: Role | None = None
    x: ast.expr | None = None
    y: ast.expr | None = None
    training: bool = False
    loss: Role | None = None
    loss_options: dict[str, Any] = field(default_factory=dict)
    penalties: bool = False  # the model's own losses are added
    penalties_by: str = ""  # "sum" or "add_n"
    scale: ast.expr | None = None  # what the loss is divided by
    divides: bool = False  # gradients are those of the quotient
    clip: float | None = None  # the largest norm of all gradients together
    mixes: bool = False  # the loss is used both with and without them
    optimizer: Role | None = None
    in_loss: list[Role] = field(default_factory=list)  # metrics that the loss is given to
    metrics: list[Role] = field(default_factory=list)  # that predictions are given to
    answer: Any = None


class Reader:
    """Reads the statements of a step one by one; `finished` gives what they are together."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.step = Step()
        self.local: dict[str, _Is] = {}
        self._tape: _Is | None = None
        self._is_open = False
        self._is_over = False
        self._returns = False
        self._with_gradient = False  # gradients were taken
        self._applied = False
        self._uses: list[tuple[ast.AST, bool]] = []  # of the loss, with penalties or without

    def read(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self._is_over:
                raise NotStandard(statement, "nothing is expected after return")
            self.statement(statement)

    def finished(self) -> Step:
        for found, what in (
            (self._tape is not None, "a GradientTape"),
            (self.step.model is not None, "a model's call"),
            (self.step.loss is not None, "a loss"),
            (self._with_gradient, "gradients"),
            (self._applied, "a step of an optimizer"),
        ):
            if not found:
                raise NotStandard(None, f"{what} is expected, and there is none")
        self.step.mixes = any(with_ != self.step.penalties for _node, with_ in self._uses)
        return self.step

    # Statements.

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Pass) or _is_text(node):
            return
        if isinstance(node, ast.With):
            self._with(node)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(node.targets[0], self.value(node.value), node)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, self.value(node.value), node)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            both = self._sum(self.value(node.target), self.value(node.value), node)
            self._assign(node.target, both, node)
        elif isinstance(node, ast.Expr):
            found = self.value(node.value)
            if found.kind not in ("nothing", "result"):
                raise NotStandard(node, "a value that nothing is done with is not expected")
        elif isinstance(node, ast.Delete) and all(
            isinstance(target, ast.Name) and target.id in self.local
            and not self.names.is_data(target) for target in node.targets
        ):  # fmt: skip
            for target in node.targets:
                assert isinstance(target, ast.Name)
                del self.local[target.id]
        elif isinstance(node, ast.Return):
            self._returns = self._is_over = True
            self.step.answer = self._answer(node.value)
        else:
            raise NotStandard(node, "such a statement is not expected")

    def _assign(self, target: ast.expr, found: _Is, node: ast.stmt) -> None:
        if isinstance(target, ast.Tuple) and found.kind == "clipped" and len(target.elts) == 2:
            for one, kind in zip(target.elts, ("gradients", "norm")):
                self._assign(one, _Is(kind), node)
            return
        if not isinstance(target, ast.Name):
            raise NotStandard(node, "a plain name is expected on the left")
        if found.kind in ("nothing", "result"):
            raise NotStandard(node, "its value is not expected to be kept")
        self.local[target.id] = found

    def _with(self, node: ast.With) -> None:
        if self._tape is not None or len(node.items) != 1:
            raise NotStandard(node, "one GradientTape is expected")
        item = node.items[0]
        made, name = item.context_expr, item.optional_vars
        role = self.names.role(made.func) if isinstance(made, ast.Call) else None
        if role is None or role.kind != "tape" or not isinstance(made, ast.Call):
            raise NotStandard(node, "a GradientTape is expected")
        plain = [k for k in made.keywords if k.arg == "persistent"
                 and isinstance(k.value, ast.Constant)]  # fmt: skip
        if made.args or len(plain) != len(made.keywords) or not isinstance(name, ast.Name):
            raise NotStandard(node, "a GradientTape without further options is expected")
        self._tape = self.local[name.id] = _Is("tape")
        self._is_open = True
        for statement in node.body:
            if isinstance(statement, ast.Return):
                raise NotStandard(statement, "it is expected after the tape")
            self.statement(statement)
        self._is_open = False

    def _answer(self, node: ast.expr | None) -> Any:
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return None
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [self._answer(item) for item in node.elts]
            return tuple(items) if isinstance(node, ast.Tuple) else items
        if isinstance(node, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            if not all(isinstance(key, str) for key in keys):
                raise NotStandard(node, "texts are expected as keys")
            return dict(zip(keys, map(self._answer, node.values)))
        found = self.value(node)
        if found.kind == "loss":
            self._uses.append((node, found.of))
            return "loss"
        if found.kind in ("prediction", "norm"):
            return found.kind
        if found.kind == "result":
            return found.of
        raise NotStandard(node, "loss, predictions or a metric's result are expected")

    # Expressions.

    def value(self, node: ast.expr) -> _Is:
        if isinstance(node, ast.Name) and node.id in self.local:
            return self.local[node.id]
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._sum(self.value(node.left), self.value(node.right), node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and self.names.divides:
            return self._quotient(node)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            found = self.value(node.value)
            if found.kind == "clipped" and ast.unparse(node.slice) == "0":
                return _Is("gradients")
            raise NotStandard(node, "a part of it is not expected")
        if isinstance(node, ast.Attribute):
            owner = self._owner(node.value)
            if owner is not None and owner.kind == "role" and owner.of.kind == "model":
                if node.attr in ("trainable_variables", "trainable_weights"):
                    return _Is("variables", owner.of)
                if node.attr == "losses":
                    return _Is("losses", owner.of)
        if self.names.is_data(node):
            return _Is("data", node)
        role = self.names.role(node)
        if role is None:
            raise NotStandard(node, f"what {ast.unparse(node)} stands for is not known")
        return _Is("role", role)

    def _quotient(self, node: ast.BinOp) -> _Is:
        """A loss that is divided before gradients are taken, as where they are added up."""
        found = self.value(node.left)
        plain = isinstance(node.right, (ast.Constant, ast.Name))
        if found.kind != "loss" or self.step.scale is not None or not self._is_open or not plain:
            raise NotStandard(node, "a loss that is divided once, inside the tape, is expected")
        self.step.scale = node.right
        return _Is("quotient", found.of)

    def _owner(self, node: ast.expr) -> _Is | None:
        """What is before a dot; None: nothing that a step knows."""
        if isinstance(node, ast.Name) and node.id in self.local:
            return self.local[node.id]
        role = self.names.role(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        return None if role is None else _Is("role", role)

    def _sum(self, one: _Is, other: _Is, node: ast.AST) -> _Is:
        kinds = {one.kind: one, other.kind: other}
        if (set(kinds) != {"loss", "penalty"} or kinds["loss"].of or not self._is_open
                or self.step.scale is not None):  # fmt: skip
            raise NotStandard(node, "the only sum that is expected is the loss and "
                                    "sum(model.losses), inside the tape")  # fmt: skip
        return _Is("loss", True)

    def _call(self, node: ast.Call) -> _Is:
        if isinstance(node.func, ast.Attribute):
            owner = self._owner(node.func.value)
            if owner is not None and owner.kind != "role":
                return self._of_local(node, node.func.attr, owner)
            if owner is not None and owner.of.kind in ("optimizer", "metric", "model"):
                return self._method(node, node.func.attr, owner.of)
        callee = self._owner(node.func)
        if callee is None or callee.kind != "role":
            raise NotStandard(node, f"what {ast.unparse(node.func)} does is not known")
        role: Role = callee.of
        if role.kind == "model":
            return self._prediction(node, role)
        if role.kind in ("loss", "loss of each", "loss function"):
            return self._loss(node, role)
        if role.kind == "metric":
            return self._update(node, role)
        return self._of_function(node, role)

    def _of_local(self, node: ast.Call, method: str, owner: _Is) -> _Is:
        if owner.kind == "tape" and method == "gradient":
            return self._gradient(node)
        raise NotStandard(node, f"{method} of a {owner.kind} is not expected")

    def _method(self, node: ast.Call, method: str, role: Role) -> _Is:
        if role.kind == "optimizer" and method in ("apply_gradients", "apply"):
            return self._apply(node, method, role)
        if role.kind == "metric" and method == "update_state":
            return self._update(node, role)
        if role.kind == "metric" and method == "result" and self._returns:
            self._arguments(node, 0)
            return _Is("result", role)
        raise NotStandard(node, f"{method} of a {role.kind} is not expected here")

    def _arguments(self, node: ast.Call, count: int, *names: str) -> list[_Is]:
        """As many as expected, by place or by name."""
        if any(isinstance(one, ast.Starred) for one in node.args):
            raise NotStandard(node, "arguments are expected one by one")
        found = [self.value(one) for one in node.args]
        named = {word.arg: word.value for word in node.keywords}
        for name in names[len(found) :]:
            if name in named:
                found.append(self.value(named.pop(name)))
        if len(found) != count or named:
            raise NotStandard(node, f"{count} argument{'s are' if count != 1 else ' is'} expected")
        return found

    def _kinds(self, node: ast.Call, found: list[_Is], *kinds: str) -> None:
        for one, kind in zip(found, kinds):
            if one.kind != kind:
                raise NotStandard(node, f"expected {', '.join(kinds)}, received "
                                        f"{', '.join(one.kind for one in found)}")  # fmt: skip

    def _of_function(self, node: ast.Call, role: Role) -> _Is:
        if role.kind == "zip":
            found = self._arguments(node, 2)
            self._kinds(node, found, "gradients", "variables")
            return _Is("pairs", found[1].of)
        if role.kind == "clip":
            return self._clip(node)
        if role.kind not in ("mean", "sum", "add_n"):
            raise NotStandard(node, "such a call is not expected")
        found = self._arguments(node, 1)
        if role.kind == "mean":
            if found[0].kind not in ("values", "loss") or not self._is_open:
                raise NotStandard(node, "the mean of a loss is expected, inside the tape")
            return _Is("loss", False) if found[0].kind == "values" else found[0]
        self._kinds(node, found, "losses")
        self._is_of_model(node, found[0].of)
        self.step.penalties_by = role.kind
        return _Is("penalty")

    def _is_of_model(self, node: ast.AST, role: Role) -> None:
        if self.step.model is None or not role.is_same(self.step.model):
            raise NotStandard(node, "losses of the model that is called are expected, after it")
        if not self._is_open:
            raise NotStandard(node, "the model's losses are expected inside the tape")

    def _prediction(self, node: ast.Call, role: Role) -> _Is:
        if self.step.model is not None or not self._is_open:
            raise NotStandard(node, "one call of one model is expected, inside the tape")
        words = {word.arg: word.value for word in node.keywords}
        training = words.pop("training", ast.Constant(None))
        if len(node.args) != 1 or words or not (
            isinstance(training, ast.Constant) and training.value in (True, False, None)
        ):  # fmt: skip
            raise NotStandard(node, "the model is expected to be called as model(x, training=True)")
        found = self.value(node.args[0])
        self._kinds(node, [found], "data")
        self.step.model, self.step.x = role, found.of
        self.step.training = training.value is True
        return _Is("prediction")

    def _loss(self, node: ast.Call, role: Role) -> _Is:
        if self.step.loss is not None or not self._is_open:
            raise NotStandard(node, "one loss is expected, inside the tape")
        options = {}
        if role.kind == "loss function":
            options = {w.arg: w.value.value for w in node.keywords
                       if w.arg not in (None, "y_true", "y_pred")
                       and isinstance(w.value, ast.Constant)}  # fmt: skip
            name = getattr(role.value, "__name__", role.value)
            other = not_a_plain_mean(LOSS_FUNCTIONS[name], options)
            if other:
                raise NotStandard(node, "a loss whose mean is that over all samples is expected, "
                                        f"and not with {other}")  # fmt: skip
            node = ast.copy_location(
                ast.Call(node.func, node.args, [w for w in node.keywords if w.arg not in options]),
                node,
            )
        found = self._arguments(node, 2, "y_true", "y_pred")
        self._kinds(node, found, "data", "prediction")
        self.step.loss, self.step.y, self.step.loss_options = role, found[0].of, options
        return _Is("loss", False) if role.kind == "loss" else _Is("values")

    def _gradient(self, node: ast.Call) -> _Is:
        if self._is_open or self._with_gradient:
            raise NotStandard(node, "gradients are expected once, after the tape")
        found = self._arguments(node, 2, "target", "sources")
        self.step.divides = found[0].kind == "quotient"
        self._kinds(node, found, "quotient" if self.step.divides else "loss", "variables")
        self._trains_model(node, found[1].of)
        self.step.penalties = found[0].of
        self._with_gradient = True
        return _Is("gradients")

    def _clip(self, node: ast.Call) -> _Is:
        """As an optimizer with global_clipnorm does it."""
        names = ("t_list", "clip_norm")
        words = {word.arg: word.value for word in node.keywords}
        given = [
            *node.args,
            *(words.pop(name) for name in names[len(node.args) :] if name in words),
        ]
        norm = self.names.number(given[1]) if len(given) == 2 and not words else None
        if norm is None or norm <= 0 or self.value(given[0]).kind != "gradients":
            raise NotStandard(node, "gradients and a number are expected")
        if self.step.clip is not None or self._applied:
            raise NotStandard(node, "gradients are expected to be clipped once")
        self.step.clip = norm
        return _Is("clipped")

    def _trains_model(self, node: ast.Call, role: Role) -> None:
        assert self.step.model is not None
        if not self.names.same_variables(role, self.step.model):
            raise NotStandard(node, "the variables of the model that is called are expected, all "
                                    "of them")  # fmt: skip

    def _apply(self, node: ast.Call, method: str, role: Role) -> _Is:
        if self._is_open or self._applied:
            raise NotStandard(node, "one step of an optimizer is expected, after the tape")
        if method == "apply_gradients":
            found = self._arguments(node, 1, "grads_and_vars")
            self._kinds(node, found, "pairs")
            self._trains_model(node, found[0].of)
        else:
            count = len(node.args) + len(node.keywords)
            found = self._arguments(node, min(count, 2), "grads", "trainable_variables")
            self._kinds(node, found, "gradients", "variables")
            if not found:
                raise NotStandard(node, "gradients are expected")
            if len(found) == 2:
                self._trains_model(node, found[1].of)
        self.step.optimizer, self._applied = role, True
        return _Is("nothing")

    def _update(self, node: ast.Call, role: Role) -> _Is:
        if any(role.is_same(one) for one in [*self.step.metrics, *self.step.in_loss]):
            raise NotStandard(node, "a metric is expected to be updated once")
        if len(node.args) + len(node.keywords) == 1:
            found = self._arguments(node, 1, "values")
            self._kinds(node, found, "loss")
            self._uses.append((node, found[0].of))
            self.step.in_loss.append(role)
            return _Is("nothing")
        found = self._arguments(node, 2, "y_true", "y_pred")
        self._kinds(node, found, "data", "prediction")
        if self.step.y is None or ast.dump(found[0].of) != ast.dump(self.step.y):
            raise NotStandard(node, "the labels of the loss are expected, after it")
        self.step.metrics.append(role)
        return _Is("nothing")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
