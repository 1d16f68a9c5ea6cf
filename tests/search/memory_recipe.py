"""Hostile runs as plain data: drawn from a seed, written as Keras's JSON, held in files.

A recipe names everything that a run needs: inputs, layers, data and options. It is a dictionary, so
that it prints, parses and can be made smaller piece by piece:

    inputs   shapes of one sample
    layers   class, options, and the tensors that it takes: inputs first, then layers, by number
    outputs  tensors
    loss, values (data are whole numbers below it), nest, name_length
    data     form, rows and what else the form takes
    options  words of the command line by name: {"threads": ["--threads", "4"]}
"""

from __future__ import annotations

import copy
import json
import math
import random
from typing import Any

from memory_forms import FORMS, Form, draw_data
from memory_layers import KINDS, SHORT, STRETCHING, Draw, Shape, output_of, split
from memory_options import draw_options

Recipe = dict[str, Any]

# What one seed makes large; everything else stays modest, so that a run is cheap and its failure is
# of few causes.
PROFILES = ("plain", "long axis", "stretched", "wide", "deep", "nested", "long names", "vocabulary",
            "large blocks", "large records", "large images", "classes", "ports", "columns",
            "many rows")  # fmt: skip
PROFILE_FORMS = {
    "large blocks": ("hdf5_chunked", "hdf5_gzip", "npz_compressed", "npy_gz", "npy_fortran"),
    "large records": ("tfrecord", "tfrecord_gz", "stdin", "npy_folder", "npz_folder"),
    "large images": ("images_jpeg", "images_png", "images_flat", "masks"),
    "ports": ("named", "npz", "npz_compressed", "hdf5", "hdf5_chunked", "tfrecord", "npz_folder"),
    "columns": ("csv", "csv_gz", "tsv", "csv_categories", "series", "windows"),
    "classes": ("npy", "csv", "images_png", "text_words", "hdf5", "npz"),
    "vocabulary": ("npy", "text_words", "text_characters", "csv", "npz", "csv_categories"),
}
DEEP = ("Dense", "Activation", "Add", "LayerNormalization", "BatchNormalization", "Identity",
        "Multiply", "Dropout", "Concatenate", "ReLU", "Rescaling", "RMSNormalization")  # fmt: skip


def draw_recipe(seed: int, quick: bool = False) -> Recipe:
    """The run of that seed; `quick`: a tenth of the sizes."""
    rng = random.Random(f"memory {seed} {quick}")
    profile = rng.choice(PROFILES)
    long, wide = ("long axis", "stretched"), ("wide", "vocabulary", "classes")
    elements, weights, work = (
        (150_000, 300_000, 3_000_000) if quick else (2_000_000, 4_000_000, 60_000_000)
    )
    draw = Draw(rng, elements // (1 if profile in long else 40),
                weights if profile in wide else 60_000, work, profile == "stretched")  # fmt: skip
    form = FORMS[rng.choice(PROFILE_FORMS.get(profile, tuple(FORMS)))]
    recipe: Recipe = {"seed": seed, "profile": profile, "layers": [], "nest": 0, "name_length": 0}
    recipe["data"] = draw_data(draw, form, profile, quick)
    recipe["inputs"] = recipe["data"].pop("shapes")
    recipe["values"] = recipe["data"].pop("values")
    if profile == "nested":
        recipe["nest"] = draw.log(1, 15)
    if profile == "long names":
        recipe["name_length"] = draw.log(100, 3000 if quick else 20_000)
    _Network(recipe, draw, form, profile, quick).build()
    recipe.update(draw_options(draw, form, recipe, quick))
    return recipe


class _Network:
    """Layers one after another, each led to the rank that it takes."""

    def __init__(self, recipe: Recipe, draw: Draw, form: Form, profile: str, quick: bool) -> None:
        self.recipe, self.draw, self.form = recipe, draw, form
        self.profile, self.quick = profile, quick
        self.shapes: list[Shape] = [list(shape) for shape in recipe["inputs"]]
        self.at = 0  # the tensor that the next layer takes

    @property
    def shape(self) -> Shape:
        return self.shapes[self.at]

    def add(self, kind: str, options: dict[str, Any] | None = None, *sources: int) -> int:
        taken = list(sources) or [self.at]
        if options is None:
            options = KINDS[kind].options(self.draw, self.shapes[taken[0]])
        self.recipe["layers"].append({"class": kind, "options": options, "from": taken})
        self.shapes.append(output_of(kind, options, [self.shapes[i] for i in taken]))
        self.at = len(self.shapes) - 1
        return self.at

    def build(self) -> None:
        draw = self.draw
        most = 2 if self.profile in ("long axis", "stretched", "vocabulary") else 5
        kinds = draw.random.sample(list(KINDS), draw.random.randint(1, most))
        if self.profile == "stretched":
            kinds.insert(0, draw.one_of(*STRETCHING))
        if self.profile == "long axis":
            kinds.insert(
                0, draw.one_of(*(k for k in KINDS if KINDS[k].rank == 2 and k not in SHORT))
            )
        if self.profile == "vocabulary" and "Embedding" not in kinds:
            kinds.append("Embedding")
        kinds.sort(key=lambda kind: kind != "Embedding")  # it takes the data themselves
        if self.profile == "deep":
            count = draw.log(30, 200 if self.quick else 3000)
            kinds += [draw.one_of(*DEEP[: draw.random.randint(1, len(DEEP))]) for _ in range(count)]
        for kind in kinds:
            self.place(kind)
        outputs = [self.at]
        if len(self.recipe["inputs"]) > 1:
            outputs = self.join(outputs)
        self.finish(outputs)

    def place(self, kind: str) -> None:
        """Adds a layer, and in front of it what leads to the shape that it takes."""
        takes = KINDS[kind]
        if kind == "TimeDistributed" and len(self.shape) < 2:
            self.lead(2)
        if kind == "Concatenate" and self.shape[-1] > (16 if self.profile == "deep" else 50_000):
            return
        if (
            kind in ("Dense", "LayerNormalization", "RMSNormalization")
            and self.profile == "deep"
            and self.shape[-1] > 16
        ):
            self.add("Dense", {"units": 8})
        self.lead(takes.rank)
        if kind in SHORT and self.shape[0] > (most := SHORT[kind] // (8 if self.quick else 1)):
            self.add("Cropping1D" if len(self.shape) == 2 else "Cropping2D", {
                "cropping": [0, self.shape[0] - most] if len(self.shape) == 2
                else [[0, self.shape[0] - most], [0, 0]]})  # fmt: skip
        if kind in ("LSTM", "GRU", "SimpleRNN", "Bidirectional") and self.shape[-1] > 512:
            self.add("Dense", {"units": 4})
        if kind == "Embedding":
            options = KINDS[kind].options(self.draw, self.shape)
            most = self.draw.weights // options["output_dim"]
            large = self.profile == "vocabulary"
            free = self.draw.log(max(1, most // 30), max(1, most)) if large else 1
            options["input_dim"] = max(self.recipe["values"], free)
            self.recipe["data"].pop("standardize", None)  # numbers stay those of places
            self.add(kind, options)
        elif takes.inputs == 2:
            self.add(kind, None, self.at, self.partner())
        else:
            self.add(kind)

    def partner(self) -> int:
        """Another tensor of this shape, or the same one."""
        equal = [i for i, shape in enumerate(self.shapes) if shape == self.shape]
        return self.draw.one_of(*equal[-3:])

    def lead(self, rank: int) -> None:
        if rank == 0 or len(self.shape) == rank:
            return
        if rank == 1:
            small = math.prod(self.shape) <= 200_000 or self.draw.often(0.3)
            pool = f"GlobalAveragePooling{len(self.shape) - 1}D"
            self.add("Flatten" if small or len(self.shape) > 3 else pool)
            return
        self.add("Reshape", {"target_shape": split(self.draw, math.prod(self.shape), rank)})

    def join(self, outputs: list[int]) -> list[int]:
        """Every input takes part: they are added up at one width, or have outputs of their own."""
        parts = []
        for i in range(1, len(self.recipe["inputs"])):
            self.at = i
            self.lead(1)
            parts.append(self.add("Dense", {"units": 3}))
        if self.draw.often(0.5) and self.form.labels == "any":
            return outputs + parts
        self.at = outputs[0]
        self.lead(1)
        joined = [self.add("Dense", {"units": 3}), *parts]
        return [self.add("Add", {}, *joined)]

    def finish(self, outputs: list[int]) -> None:
        """Outputs that the form of the data has labels for."""
        recipe, draw, labels = self.recipe, self.draw, self.form.labels
        recipe["loss"] = "mse"
        if len(outputs) > 1:
            recipe["outputs"] = outputs
            return
        self.at = outputs[0]
        classes = recipe["data"].get("classes", 0)
        if labels == "mask":
            self.image_of_classes(classes)
            recipe["loss"] = "sparse_categorical_crossentropy"
        elif (
            labels in ("class", "token")
            or labels != "row"
            and (draw.often(0.5) or self.profile == "classes")
        ):
            if labels == "any" or not classes:
                most = (100_000 if not self.quick else 10_000) if self.profile == "classes" else 10
                classes = draw.log(2, most)
                recipe["data"]["classes"] = classes
            self.narrow(draw.weights // classes)
            self.add("Dense", {"units": classes, "activation": "softmax"})
            recipe["loss"] = "sparse_categorical_crossentropy"
        elif labels == "number":
            self.lead(1)
            self.add("Dense", {"units": 1})
        elif labels == "row":
            self.narrow(10_000)
            self.add("Dense", {"units": recipe["data"]["row"]})
        elif labels == "flat" or math.prod(self.shape) * recipe["data"]["rows"] > 16_000_000:
            self.narrow(10_000)
        recipe["outputs"] = [self.at]

    def narrow(self, most: int) -> None:
        """A row of at most so many numbers."""
        self.lead(1)
        most = max(1, most)
        if self.shape[0] > most:
            self.add("Reshape", {"target_shape": [self.shape[0], 1]})
            self.add("Cropping1D", {"cropping": [0, self.shape[0] - most]})
            self.add("Flatten")

    def image_of_classes(self, classes: int) -> None:
        height, width = self.recipe["inputs"][0][:2]
        self.narrow(1000)
        self.add("Dense", {"units": 2})
        self.add("RepeatVector", {"n": height * width})
        self.add("Reshape", {"target_shape": [height, width, 2]})
        self.add("Conv2D", {"kernel_size": [1, 1], "filters": classes, "activation": "softmax"})


def tensor_shapes(recipe: Recipe) -> list[Shape]:
    shapes = [list(shape) for shape in recipe["inputs"]]
    for layer in recipe["layers"]:
        shapes.append(
            output_of(layer["class"], layer["options"], [shapes[i] for i in layer["from"]])
        )
    return shapes


def output_shapes(recipe: Recipe) -> list[Shape]:
    shapes = tensor_shapes(recipe)
    return [shapes[i] for i in recipe["outputs"]]


def input_names(recipe: Recipe) -> list[str]:
    return [f"input_{i}" for i in range(len(recipe["inputs"]))]


def output_names(recipe: Recipe) -> list[str]:
    return [tensor_name(recipe, i) for i in recipe["outputs"]]


def tensor_name(recipe: Recipe, tensor: int) -> str:
    inputs = len(recipe["inputs"])
    if tensor < inputs:
        return f"input_{tensor}"
    if recipe["nest"] and len(recipe["outputs"]) == 1:
        return f"nested_{recipe['nest']}"
    return layer_name(recipe, tensor - inputs)


def layer_name(recipe: Recipe, index: int) -> str:
    name = f"layer_{index}_"
    return name.ljust(recipe["name_length"], "n").rstrip("_")


def keras_json(recipe: Recipe) -> str:
    """The model as Keras 3 writes it, without what it may leave out."""
    inputs = len(recipe["inputs"])

    def name(tensor: int) -> str:
        return f"input_{tensor}" if tensor < inputs else layer_name(recipe, tensor - inputs)

    layers = [_input(i, shape) for i, shape in enumerate(recipe["inputs"])]
    for i, layer in enumerate(recipe["layers"]):
        config = {"name": layer_name(recipe, i), **layer["options"]}
        kind, module = layer["class"], "keras.layers"
        if kind == "Operation":
            kind, module = config.pop("operation"), "keras.src.ops.nn"
        tensors = [_tensor(name(source)) for source in layer["from"]]
        if layer["class"] == "MultiHeadAttention" or len(tensors) == 1:
            args = tensors
        else:
            args = [tensors]
        layers.append({"module": module, "class_name": kind, "config": config,
                       "name": config["name"],
                       "inbound_nodes": [{"args": args, "kwargs": {}}]})  # fmt: skip
    ends = [[name(tensor), 0, 0] for tensor in recipe["outputs"]]
    nest = recipe["nest"] if len(ends) == 1 else 0
    for depth in range(1, nest + 1):
        inner = _functional(f"nested_{depth}", layers, inputs, ends)
        calls = [_tensor(f"input_{i}") for i in range(inputs)]
        inner["inbound_nodes"] = [{"args": calls if inputs == 1 else [calls], "kwargs": {}}]
        layers = [_input(i, shape) for i, shape in enumerate(recipe["inputs"])] + [inner]
        ends = [[f"nested_{depth}", 0, 0]]
    return json.dumps(_functional("hostile", layers, inputs, ends))


def _input(index: int, shape: Shape) -> dict[str, Any]:
    name = f"input_{index}"
    config = {"name": name, "batch_shape": [None, *shape], "dtype": "float32"}
    return {"module": "keras.layers", "class_name": "InputLayer", "config": config, "name": name,
            "inbound_nodes": []}  # fmt: skip


def _tensor(name: str) -> dict[str, Any]:
    return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}


def _functional(name: str, layers: list[Any], inputs: int, ends: list[Any]) -> dict[str, Any]:
    starts = [[f"input_{i}", 0, 0] for i in range(inputs)]
    config = {"name": name, "layers": layers, "input_layers": starts, "output_layers": ends}
    return {"module": "keras.src.models.functional", "class_name": "Functional",
            "registered_name": "Functional", "name": name, "config": config}  # fmt: skip


def layer_kinds(recipe: Recipe) -> set[str]:
    """Classes of the recipe's layers, those inside of wrappers too."""
    kinds = set()
    for layer in recipe["layers"]:
        kinds.add(layer["class"])
        inner = layer["options"].get("layer")
        if inner:
            kinds.add(inner["class_name"])
    return kinds


def without_layer(recipe: Recipe, index: int) -> Recipe:
    """The recipe with that layer's users taking what it took."""
    smaller = copy.deepcopy(recipe)
    gone = len(recipe["inputs"]) + index
    source = recipe["layers"][index]["from"][0]
    del smaller["layers"][index]

    def place(tensor: int) -> int:
        tensor = source if tensor == gone else tensor
        return tensor - 1 if tensor > gone else tensor

    for layer in smaller["layers"]:
        layer["from"] = [place(tensor) for tensor in layer["from"]]
    smaller["outputs"] = [place(tensor) for tensor in recipe["outputs"]]
    return smaller
