"""Draws a recipe from a seed: a plain integer gives the same recipe in every process.

Layers are called in Keras as they are drawn, which tells shapes and refuses what cannot be; a draw
that Keras refuses is drawn again.
"""

import json
import random
from typing import Any

import keras
from layer_choices import CHOICES, ELEMENTWISE, EMBEDDING, UNARY_OPERATORS, Choice
from model_recipe import COMPARE, Recipe, call_node, make_input
from training_choices import draw_loss, draw_metrics, draw_optimizer

MOST_ELEMENTS, MOST_SIZE = 360, 12
OPTION_SHARE, LEAF_SHARE = 0.22, 0.8
# How often a node is of a kind.
KINDS = {
    "layer": 62, "merge": 10, "concatenate": 2, "dot": 2, "attention": 3, "operator": 8, "again": 3,
    "model": 5, "time": 5, "both_ways": 4, "states": 3,
}  # fmt: skip
RECURRENT = ("GRU", "LSTM", "SimpleRNN")


class Drawing:
    """A model that is being drawn."""

    def __init__(self, rng: random.Random, prefix: str = "n") -> None:
        self.rng = rng
        self.prefix = prefix
        self.inputs: list[Recipe] = []
        self.nodes: list[Recipe] = []
        self.tensors: dict[str, Any] = {}
        self.layers: dict[str, Any] = {}
        self.unused: list[str] = []
        self.sequential = False

    # What there is to draw from

    def shape(self, ref: str) -> tuple[int, ...]:
        return tuple(self.tensors[ref].shape[1:])

    def masked(self, ref: str) -> bool:
        return getattr(self.tensors[ref], "_keras_mask", None) is not None

    def refs(self, ranks: tuple[int, ...], dtype: str = "float32") -> list[str]:
        return [
            ref
            for ref, tensor in self.tensors.items()
            if len(tensor.shape) - 1 in ranks and tensor.dtype == dtype
        ]

    def pick(self, refs: list[str]) -> str | None:
        """Mostly one that nothing has used, and the newest of those."""
        if self.sequential:
            return next((r for r in refs if r in self.unused), None)
        leaves = [ref for ref in refs if ref in self.unused]
        if leaves and self.rng.random() < LEAF_SHARE:
            return leaves[-1] if self.rng.random() < 0.6 else self.rng.choice(leaves)
        return self.rng.choice(refs) if refs else None

    def name(self) -> str:
        return f"{self.prefix}{len(self.nodes) + 1}"

    # Adding

    def add_input(self, shape: tuple[int, ...], values: str) -> str:
        spec = {"name": f"x{len(self.inputs)}", "shape": list(shape), "values": values}
        if self.prefix != "n":
            spec["name"] = f"{self.prefix}x{len(self.inputs)}"
        self.inputs.append(spec)
        self.tensors[spec["name"]] = make_input(spec)
        self.unused.append(spec["name"])
        return spec["name"]

    def fits(self, tensor: Any) -> bool:
        elements = 1
        for size in tensor.shape[1:]:
            if size is None or size < 1 or size > MOST_SIZE:
                return False
            elements *= size
        return 1 <= len(tensor.shape) - 1 <= 4 and elements <= MOST_ELEMENTS

    def add(self, layer: str, inputs: list[str], config: Recipe, **more: Any) -> str | None:
        """The name of a new node's first output, or None where Keras refuses it."""
        node = {"name": self.name(), "layer": layer, "in": inputs}
        if config or layer == "Operator":
            node["config"] = config
        node.update({key: value for key, value in more.items() if value})
        tensors, layers = dict(self.tensors), dict(self.layers)
        try:
            call_node(node, tensors, layers)
            new = {ref: tensors[ref] for ref in tensors if ref not in self.tensors}
            good = all(self.fits(tensor) for tensor in new.values())
        except Exception:  # whatever Keras says of it: it is not a model
            good = False
        if not good:
            return None
        self.tensors, self.layers = tensors, layers
        self.nodes.append(node)
        used = {*inputs, *tensors_in(node.get("call", {}))}
        self.unused = [ref for ref in self.unused if ref not in used] + list(new)
        return node["name"]

    def options(self, choice: Choice, shape: tuple[int, ...]) -> Recipe:
        config = {key: draw(self.rng, shape) for key, draw in choice.must.items()}
        share = min(OPTION_SHARE, 3 / max(1, len(choice.may)))
        for key, draw in choice.may.items():
            if self.rng.random() < share:
                config[key] = draw(self.rng, shape)
        return config

    def frozen(self) -> Recipe:
        return {"trainable": False} if self.rng.random() < 0.04 else {}

    # Kinds of nodes

    def draw_layer(self) -> str | None:
        name = self.rng.choice(sorted(CHOICES))
        choice = CHOICES[name]
        ref = self.pick(self.refs(choice.ranks))
        if ref is None:
            return None
        if name == "Softmax" and self.masked(ref) and self.rng.random() < 0.9:
            return None  # which Keras 3.15 does not compute
        config = self.options(choice, self.shape(ref))
        if name in RECURRENT and self.sequential:
            config.pop("return_state", None)
        config.update(self.frozen())
        call = {key: d(self.rng, ()) for key, d in choice.call.items() if self.rng.random() < 0.2}
        inputs = [ref]
        if name == "MultiHeadAttention":
            if self.sequential:
                return None
            inputs, call = self.attended(ref, call)
        elif name in RECURRENT and self.rng.random() < 0.15 and not self.sequential:
            flags = [r for r in self.refs((1,), "bool") if self.shape(r) == self.shape(ref)[:1]]
            if flags:
                call["mask"] = {"tensor": self.rng.choice(flags)}
        return self.add(name, inputs, config, call=call)

    def attended(self, query: str, call: Recipe) -> tuple[list[str], Recipe]:
        """Multi-head attention takes its value, and perhaps a key, by name."""
        rank = len(self.shape(query))
        value = query if self.rng.random() < 0.6 else self.pick(self.refs((rank,)))
        call = {**call, "value": {"tensor": value}}
        if self.rng.random() < 0.2:
            call["key"] = {"tensor": value}
        return [query], call

    def partner(self, ref: str) -> str:
        """A value that combines with another by elements; a new branch where there is none."""
        alike = [r for r in self.refs((len(self.shape(ref)),)) if self.shape(r) == self.shape(ref)]
        if self.masked(ref) and self.rng.random() < 0.3:  # one operand whose mask has ended
            shape = {"target_shape": list(self.shape(ref))}
            branch = self.add("Dense", [ref], {"units": self.shape(ref)[-1]})
            return (branch and self.add("Reshape", [branch], shape)) or ref
        if self.rng.random() < 0.6:
            return self.rng.choice(alike)
        units = self.shape(ref)[-1] if self.rng.random() < 0.7 else 1
        return self.add("Dense", [ref], {"units": units}) or ref

    def draw_merge(self) -> str | None:
        ref = self.pick(self.refs((1, 2, 3)))
        if ref is None:
            return None
        parts = [ref, self.partner(ref)]
        if self.rng.random() < 0.25:
            parts.append(self.partner(ref))
        self.rng.shuffle(parts)
        name = self.rng.choice(ELEMENTWISE)
        return self.add(name, parts[:2] if name == "Subtract" else parts, {})

    def draw_concatenate(self) -> str | None:
        ref = self.pick(self.refs((1, 2, 3)))
        if ref is None:
            return None
        rank = len(self.shape(ref))
        parts = [ref, self.partner(ref), *([self.partner(ref)] if self.rng.random() < 0.2 else [])]
        axis = self.rng.randint(1, rank)
        return self.add("Concatenate", parts, self.rng.choice([{}, {"axis": axis}]))

    def draw_dot(self) -> str | None:
        ref = self.pick(self.refs((1, 2)))
        if ref is None:
            return None
        rank = len(self.shape(ref))
        axes: Any = self.rng.randint(1, rank)
        if self.rng.random() < 0.3:
            axes = [self.rng.randint(1, rank), self.rng.randint(1, rank)]
        config = {"axes": axes, **({"normalize": True} if self.rng.random() < 0.3 else {})}
        return self.add("Dot", [ref, self.partner(ref)], config)

    def draw_attention(self) -> str | None:
        query = self.pick(self.refs((2,)))
        if query is None:
            return None
        same = [r for r in self.refs((2,)) if self.shape(r)[1] == self.shape(query)[1]]
        value = self.rng.choice([query, self.rng.choice(same)])
        config: Recipe = {}
        if self.rng.random() < 0.3:
            config["use_scale"] = True
        if self.rng.random() < 0.1:
            config["score_mode"] = "concat"
        if self.rng.random() < 0.1:
            config.update({"dropout": 0.0, "seed": self.rng.randint(1, 9)})
        call = {"use_causal_mask": True} if self.rng.random() < 0.2 else {}
        if self.rng.random() < 0.05:
            call["return_attention_scores"] = True
        keys = [r for r in same if self.shape(r)[0] == self.shape(value)[0]]
        inputs = [query, value, *([self.rng.choice(keys)] if self.rng.random() < 0.25 else [])]
        name = "Attention" if self.rng.random() < 0.93 else "AdditiveAttention"
        return self.add(name, inputs, config, call=call)

    def draw_operator(self) -> str | None:
        ref = self.pick(self.refs((1, 2, 3)))
        if ref is None:
            return None
        inputs, config = draw_operation(self, ref)
        return self.add("Operator", inputs, config)

    def draw_again(self) -> str | None:
        """A layer's second call, with a value of the shape of its first."""
        made = [n for n in self.nodes if n["layer"] != "Operator" and len(n["in"]) == 1]
        if not made:
            return None
        first = self.rng.choice(made)
        shape = self.shape(first["in"][0])
        dtype = self.tensors[first["in"][0]].dtype
        alike = [r for r in self.refs((len(shape),), dtype) if self.shape(r) == shape]
        ref = self.rng.choice(alike)
        call = {k: v for k, v in first.get("call", {}).items() if k == "training"}
        more = {"again": first.get("again", first["name"]), "call": call}
        return self.add(first["layer"], [ref], {}, **more)

    def inner(self, shape: tuple[int, ...], count: int, chain: bool) -> Recipe | None:
        """A model of a few nodes on a value of `shape`."""
        drawing = Drawing(self.rng, f"{self.name()}_")
        drawing.sequential = chain
        drawing.add_input(shape, "floats")
        drawing.draw_nodes(count)
        if not drawing.nodes:
            return None
        outputs = [drawing.unused[-1]]
        if outputs[0] in [spec["name"] for spec in drawing.inputs]:
            return None
        if not chain and len(drawing.unused) > 1 and self.rng.random() < 0.3:
            outputs.insert(0, drawing.unused[-2])
        return drawing.recipe(outputs)

    def draw_model(self) -> str | None:
        ref = self.pick(self.refs((1, 2, 3)))
        if ref is None or self.prefix.count("_") > 1:
            return None
        chain = self.rng.random() < 0.5
        model = self.inner(self.shape(ref), self.rng.randint(1, 4), chain)
        if model is None:
            return None
        kind = "Sequential" if chain else "Functional"
        return self.add(kind, [ref], {}, model=model, **self.frozen())

    def draw_time(self) -> str | None:
        """TimeDistributed of a layer, now and then of a model."""
        ref = self.pick(self.refs((2, 3)))
        if ref is None:
            return None
        shape = self.shape(ref)[1:]
        if self.rng.random() < 0.15:
            model = self.inner(shape, self.rng.randint(1, 3), True)
            if model is None:
                return None
            return self.add(
                "TimeDistributed", [ref], {"layer": {"layer": "Sequential", "model": model}}
            )
        names = [name for name in sorted(CHOICES) if len(shape) in CHOICES[name].ranks]
        name = self.rng.choice([n for n in names if n != "MultiHeadAttention"])
        config = self.options(CHOICES[name], shape)
        config.pop("return_state", None)
        return self.add("TimeDistributed", [ref], {"layer": {"layer": name, "config": config}})

    def draw_both_ways(self) -> str | None:
        ref = self.pick(self.refs((2,)))
        if ref is None:
            return None
        name = self.rng.choice(RECURRENT)
        config = self.options(CHOICES[name], self.shape(ref))
        if self.sequential or self.rng.random() < 0.7:
            config.pop("return_state", None)
        options: Recipe = {"layer": {"layer": name, "config": config}}
        if self.rng.random() < 0.6:
            options["merge_mode"] = self.rng.choice(["sum", "mul", "ave", "concat"])
        if self.rng.random() < 0.2:
            back = {**config, "go_backwards": not config.get("go_backwards", False)}
            options["backward_layer"] = {
                "layer": self.rng.choice([name, name, "GRU"]),
                "config": back,
            }
        return self.add("Bidirectional", [ref], options)

    def draw_states(self) -> str | None:
        """A recurrent layer that begins where another ended."""
        ref = self.pick(self.refs((2,)))
        if ref is None or self.sequential:
            return None
        name = self.rng.choice(RECURRENT)
        units = self.rng.randint(1, 4)
        config = {"units": units, "return_state": True}
        first = self.add(
            name, [ref], {**config, **self.rng.choice([{}, {"return_sequences": True}])}
        )
        if first is None:
            return None
        states = [{"tensor": f"{first}:{k}"} for k in range(1, 3 if name == "LSTM" else 2)]
        call = {"initial_state": states}
        other = self.rng.choice(self.refs((2,)))
        return self.add(name, [other], {"units": units}, call=call)

    def draw_embedding(self) -> str | None:
        tokens = [ref for ref in self.refs((1, 2), "int32") if ref in self.unused]
        if not tokens:
            return None
        spec = next(s for s in self.inputs if s["name"] == tokens[0])
        config = {"input_dim": int(spec["values"].split()[1]), "output_dim": self.rng.randint(1, 5)}
        for key, draw in EMBEDDING.items():
            if self.rng.random() < (0.6 if key == "mask_zero" else 0.15):
                config[key] = draw(self.rng, ())
        return self.add("Embedding", [tokens[0]], config)

    def draw_nodes(self, count: int) -> None:
        """About so many nodes; tries a few times where Keras refuses."""
        kinds, weights = list(KINDS), list(KINDS.values())
        for _ in range(count):
            for _ in range(12):
                if self.draw_embedding() is not None:
                    break
                kind = self.rng.choices(kinds, weights)[0]
                one_input = kind in ("layer", "time", "both_ways")
                if (one_input or not self.sequential) and getattr(self, f"draw_{kind}")():
                    break

    def recipe(self, outputs: list[str]) -> Recipe:
        """What the outputs need, and nothing else."""
        needed = set(outputs)
        nodes = []
        for node in reversed(self.nodes):
            own = {r for r in self.tensors if r.split(":")[0] == node["name"]}
            if own & needed:
                nodes.append(node)
                needed |= {*node["in"], *tensors_in(node.get("call", {}))}
                if "again" in node:
                    needed.add(node["again"])
        inputs = [spec for spec in self.inputs if spec["name"] in needed]
        return {"inputs": inputs, "nodes": nodes[::-1], "outputs": outputs}


def tensors_in(value: Any) -> list[str]:
    """Names of the tensors in a call's arguments."""
    if isinstance(value, dict):
        if set(value) == {"tensor"}:
            return [value["tensor"]]
        return [name for item in value.values() for name in tensors_in(item)]
    if isinstance(value, list):
        return [name for item in value for name in tensors_in(item)]
    return []


def draw_operation(drawing: Drawing, ref: str) -> tuple[list[str], Recipe]:
    """An operator on a value: the operands and the node's configuration."""
    rng, shape = drawing.rng, drawing.shape(ref)
    kind = rng.choice(["unary", "unary", "number", "number", "pair", "compare", "reduce", "item",
                       "shape", "join"])  # fmt: skip
    if kind == "unary":
        return [ref], {"op": rng.choice(UNARY_OPERATORS)}
    if kind == "number":
        op = rng.choice(["add", "subtract", "multiply", "divide", "maximum", "minimum"])
        config = {"op": op, "number": round(rng.uniform(-2, 2), 2)}
        if op in ("add", "subtract", "multiply") and rng.random() < 0.4:
            config["swapped"] = True
        return [ref], config
    if kind == "pair":
        op = rng.choice(["add", "subtract", "multiply", "maximum", "minimum", "matmul"])
        return [ref, drawing.partner(ref)], {"op": op}
    if kind == "compare":
        op = rng.choice(COMPARE)
        if rng.random() < 0.5:
            return [ref, drawing.partner(ref)], {"op": op}
        return [ref], {"op": op, "number": rng.choice([0.0, 0.5])}
    axis = rng.randint(1, len(shape))
    if kind == "reduce":
        op = rng.choice(["mean", "sum", "mean", "sum", "max"])
        axes: Any = axis if rng.random() < 0.6 else sorted(rng.sample(range(1, len(shape) + 1), 1))
        return [ref], {"op": op, "axis": axes, "keepdims": rng.random() < 0.5}
    if kind == "item":
        index = [rng.choice([[None, None], [rng.randint(0, 1), None], [None, -1], [None, None, 2]])
                 for _ in shape[:axis]]  # fmt: skip
        if len(shape) > 1 and rng.random() < 0.5:
            index[-1] = rng.choice([0, -1])
        return [ref], {"op": "getitem", "index": index}
    if kind == "join":
        parts = [ref, drawing.partner(ref)]
        return parts, {"op": rng.choice(["concatenate", "stack"]), "axis": axis}
    order = list(range(1, len(shape) + 1))
    rng.shuffle(order)
    elements = 1
    for size in shape:
        elements *= size
    return [ref], rng.choice(
        [
            {"op": "transpose", "axes": [0, *order]},
            {"op": "reshape", "shape": [elements]},
            {"op": "reshape", "shape": [*shape[:-1], 1, shape[-1]]},
            {"op": "expand_dims", "axis": axis},
            {"op": "squeeze", "axis": axis},
            {"op": "flip", "axis": axis},
        ]
    )


def draw_inputs(drawing: Drawing) -> None:
    rng = drawing.rng
    for _ in range(rng.choices([1, 2, 3], [70, 22, 8])[0]):
        steps = rng.randint(1, 9)
        kind = rng.choices(
            ["vector", "sequence", "padded", "tokens", "image", "volume"], [13, 25, 15, 19, 28, 6]
        )[0]
        if kind == "vector":
            drawing.add_input((rng.randint(1, 9),), "floats")
        elif kind == "sequence":
            drawing.add_input((steps, rng.randint(1, 5)), "floats")
        elif kind == "padded":
            ref = drawing.add_input((steps, rng.randint(1, 4)), "padded")
            if rng.random() < 0.75:
                drawing.add("Masking", [ref], {})
        elif kind == "tokens":
            zeros = " zeros" if rng.random() < 0.7 else ""
            drawing.add_input((steps,), f"tokens {rng.randint(3, 9)}{zeros}")
        elif kind == "image":
            drawing.add_input((rng.randint(2, 7), rng.randint(1, 6), rng.randint(1, 4)), "floats")
        else:
            sizes = (rng.randint(1, 5), rng.randint(1, 4), rng.randint(2, 4))
            drawing.add_input((*sizes, rng.randint(1, 3)), "floats")
    sequences = drawing.refs((2,))
    if sequences and rng.random() < 0.08:
        draw_given_mask(drawing, rng.choice(sequences))


def draw_given_mask(drawing: Drawing, ref: str) -> None:
    """A recurrent layer that is called with a mask from an input of its own."""
    rng = drawing.rng
    mask = drawing.add_input(drawing.shape(ref)[:1], "flags")
    config: Recipe = {"units": rng.randint(1, 4)}
    if rng.random() < 0.6:
        config["return_sequences"] = True
    call = {"mask": {"tensor": mask}}
    drawing.add(rng.choice(RECURRENT), [ref], config, call=call)


def draw_outputs(drawing: Drawing) -> list[str]:
    """Mostly one output; leaves that are left over are joined or left out."""
    rng = drawing.rng
    names = [spec["name"] for spec in drawing.inputs]
    leaves = [r for r in drawing.unused if r not in names and drawing.tensors[r].dtype == "float32"]
    count = 1 if drawing.sequential else rng.choices([1, 2, 3], [75, 18, 7])[0]
    if len(leaves) > count and rng.random() < 0.5 and not drawing.sequential:
        flat = [
            r if len(drawing.shape(r)) == 1 else drawing.add("Flatten", [r], {}) for r in leaves
        ]
        joined = drawing.add("Concatenate", [r for r in flat if r], {}) if all(flat) else None
        leaves = [joined] if joined else leaves
    return leaves[-count:]


def add_head(drawing: Drawing, ref: str, head: str) -> str:
    """What makes the output one that the loss takes."""
    rng = drawing.rng
    if head == "any":
        return ref
    config = {"units": drawing.shape(ref)[-1], "activation": head}
    if rng.random() < 0.7:
        return drawing.add("Dense", [ref], config) or ref
    return drawing.add("Activation", [ref], {"activation": head}) or ref


def draw_training(drawing: Drawing, outputs: list[str]) -> tuple[list[str], Recipe]:
    """Heads, losses, metrics and an optimizer; the outputs that come of it."""
    rng = drawing.rng
    losses, targets, metrics, heads = [], [], [], []
    for ref in outputs:
        loss, kind, head = draw_loss(rng, drawing.shape(ref)[-1])
        if rng.random() < 0.03 and isinstance(loss, dict) and kind in ("one_hot", "flags"):
            axis = rng.randint(1, len(drawing.shape(ref)))
            loss["config"]["axis"] = axis
            kind = f"one_hot {axis}" if kind == "one_hot" else kind
        heads.append(add_head(drawing, ref, head))
        losses.append(loss)
        targets.append(kind)
        metrics.append(draw_metrics(rng, kind))
    optimizer = draw_optimizer(rng)
    if any(node["layer"] == "Embedding" for node in drawing.nodes):
        # Keras's variance of a row may be negative there.
        optimizer["config"].pop("centered", None)
    compiled: Recipe = {"optimizer": optimizer, "loss": losses, "metrics": metrics}
    if len(outputs) > 1 and rng.random() < 0.3:
        compiled["by_name"] = True
    if rng.random() < (0.2 if len(outputs) > 1 else 0.02):
        compiled["loss_weights"] = [round(rng.uniform(0.3, 2), 2) for _ in outputs]
    if rng.random() < 0.03:
        compiled["weighted_metrics"] = [draw_metrics(rng, kind) for kind in targets]
    return heads, {"targets": targets, "compile": compiled}


def takes_step_weights(shape: tuple[int, ...]) -> bool:
    """Whether Keras multiplies the losses of an output by one weight a step.

    keras.src.losses.loss.squeeze_or_expand_to_same_rank makes up for one axis, of 1. With more of
    them (B, steps) meets the last axes: an error, or, where there are as many or one, each sample
    multiplied by the weights of all."""
    return len(shape) == 2 or (len(shape) == 3 and shape[1] == 1)


def draw_weights(drawing: Drawing, outputs: list[str], recipe: Recipe) -> None:
    rng = drawing.rng
    if any(drawing.masked(r) for r in outputs) and rng.random() < 0.9:
        return  # Keras does not multiply a mask of steps by weights of samples
    # With more axes Keras wants a weight for each step, or multiplies the last axis by them.
    flat = all(len(drawing.shape(r)) == 1 for r in outputs)
    if flat and rng.random() < 0.25:
        recipe["weights"] = "sample"
    elif rng.random() < 0.04 and len(drawing.shape(outputs[0])) > 1 and len(outputs) == 1:
        if takes_step_weights(drawing.shape(outputs[0])):
            recipe["weights"] = "step"
    elif rng.random() < 0.5 and len(outputs) == 1 and len(drawing.shape(outputs[0])) == 1:
        if recipe["targets"][0].split()[0] in ("classes", "one_hot"):
            recipe["class_weights"] = {"0": 0.5, "1": round(rng.uniform(1, 3), 2)}


def share_names(value: Any) -> Any:
    """Every inner model with the names that its layers would have outside of it."""
    if isinstance(value, list):
        return [share_names(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: share_names(item) for key, item in value.items()}
    if "model" not in value:
        return value
    model = value["model"]
    prefix = model["inputs"][0]["name"].removesuffix("x0")

    def plain(item: Any) -> Any:
        if isinstance(item, str) and item.startswith(prefix):
            rest = item.removeprefix(prefix)
            return rest if rest.startswith("x") else f"n{rest}"
        if isinstance(item, list):
            return [plain(each) for each in item]
        if isinstance(item, dict):  # a model inside of this one has its own
            return {key: each if key == "model" else plain(each) for key, each in item.items()}
        return item

    return {**value, "model": plain(model)}


def draw_recipe(seed: int) -> Recipe:
    """The recipe of a seed."""
    keras.config.set_floatx("float32")
    keras.utils.clear_session(free_memory=False)
    rng = random.Random(seed)
    while True:
        drawing = Drawing(rng)
        draw_inputs(drawing)
        drawing.sequential = len(drawing.inputs) == 1 and rng.random() < 0.25
        drawing.draw_nodes(rng.randint(1, 9))
        outputs = draw_outputs(drawing)
        if not outputs:
            continue
        outputs, training = draw_training(drawing, outputs)
        if len(set(outputs)) < len(outputs):
            continue
        batch = rng.randint(2, 6)
        form = {"form": "keras", "batch": batch}
        # An HDF5 file with operators is one that Keras itself does not load.
        if rng.random() < 0.15 and "Operator" not in json.dumps(drawing.nodes):
            form["form"] = "h5"
        samples = batch + rng.randint(1, batch)
        recipe = {"seed": seed, **form, "samples": samples, **drawing.recipe(outputs), **training}
        if drawing.sequential:
            recipe["sequential"] = True
        draw_weights(drawing, outputs, recipe)
        return share_names(recipe) if rng.random() < 0.3 else recipe
