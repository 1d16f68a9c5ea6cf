"""Predictions of real files: through the built binary, and by Keras or the numbers beside them."""

import inspect
import json
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import numpy as np
import tensorflow as tf
from harness import float64_twin
from keras.src.legacy.saving.saving_utils import model_from_config

SAMPLES = 3
OLD_HARD_SIGMOID = "plimsoll>old_hard_sigmoid"


@keras.saving.register_keras_serializable("plimsoll")
def old_hard_sigmoid(x: Any) -> Any:
    """What Keras 1 and 2 called hard_sigmoid."""
    return keras.ops.clip(0.2 * x + 0.5, 0.0, 1.0)


def modern_layer(entry: dict[str, Any], old_gates: bool) -> dict[str, Any]:
    """A layer of Keras 2 in words that Keras 3 knows; initializers do not matter to predictions.

    Weights of that time expect gates of that time, those that Keras 3 draws its own.
    """
    config = {k: v for k, v in entry["config"].items() if not k.endswith("_initializer")}
    layer_class = getattr(keras.layers, entry["class_name"])
    known = set(inspect.signature(layer_class.__init__).parameters) | {
        "name", "trainable", "layer", "batch_input_shape", "batch_shape",
    }  # fmt: skip
    if "alpha" in config and entry["class_name"] == "LeakyReLU":
        config["negative_slope"] = config.pop("alpha")
    config = {k: v for k, v in config.items() if k in known}
    if config.get("axis") and isinstance(config["axis"], list) and len(config["axis"]) == 1:
        config["axis"] = config["axis"][0]
    if config.get("recurrent_activation") == "hard_sigmoid" and old_gates:
        config["recurrent_activation"] = OLD_HARD_SIGMOID
    if entry["class_name"] == "GRU":
        config.setdefault("reset_after", False)
    for key in ("layer", "backward_layer"):
        if config.get(key):
            inner = modern_layer(config[key], old_gates)
            if inner["config"].get("recurrent_activation") == OLD_HARD_SIGMOID:
                function = keras.saving.serialize_keras_object(old_hard_sigmoid)
                inner["config"]["recurrent_activation"] = function
            config[key] = {**inner, "module": "keras.layers", "registered_name": None}
    if entry["class_name"].startswith("SpatialDropout"):
        config = {key: config[key] for key in ("name", "rate") if key in config}
    return {**entry, "config": config}


def modern_model(document: Any, old_gates: bool) -> Any:
    """A model of Keras 2 in the words of Keras 3's reader of older files."""
    config = document["config"]
    if isinstance(config, list):
        config = {"name": "sequential", "layers": config}
    layers = [modern_layer(entry, old_gates) for entry in config["layers"]]
    shapes = [entry["config"].pop("batch_input_shape", None) for entry in layers[:1]]
    if document["class_name"] == "Sequential" and layers[0]["class_name"] != "InputLayer":
        layers.insert(0, {"class_name": "InputLayer", "config": {"batch_shape": shapes[0]}})
    elif shapes[0] is not None:
        layers[0]["config"]["batch_input_shape"] = shapes[0]
    class_name = "Functional" if document["class_name"] == "Model" else document["class_name"]
    return {"class_name": class_name, "config": {**config, "layers": layers}}


def open_in_keras(structure: Path, weights: Path | None) -> tuple[keras.Model | None, str]:
    """The model in the installed Keras, as it is or once put in its words, and which of these."""
    try:
        if weights is None:
            model = keras.saving.load_model(structure, compile=False)
            if not any("recurrent_activation" in str(layer.get_config()) for layer in model.layers):
                return model, "Keras"
    except Exception:
        pass
    try:
        if structure.suffix == ".json":
            document = json.loads(structure.read_text())
        elif zipfile.is_zipfile(structure):
            return keras.saving.load_model(structure, compile=False), "Keras"
        else:
            with h5py.File(structure) as file:
                document = json.loads(file.attrs["model_config"])
        draws = structure.suffix == ".json" and weights is None
        keras.utils.set_random_seed(7)
        model = model_from_config(modern_model(document, not draws))
        if draws:
            return model, "Keras, with weights that it drew"
        with tempfile.TemporaryDirectory() as folder:
            link = Path(folder) / "w.h5"
            link.symlink_to(weights or structure)
            model.load_weights(link)
        return model, "Keras, once in its words"
    except Exception as error:
        return None, str(error)


Arrays = list[np.ndarray]


def keras_predictions(model: keras.Model, inputs: dict[str, np.ndarray]) -> Arrays:
    """One array for each output."""
    answer = model.predict(inputs if len(inputs) > 1 else list(inputs.values())[0], verbose=0)
    return list(answer) if isinstance(answer, (list, tuple)) else [answer]


def exact_predictions(model: keras.Model, inputs: dict[str, np.ndarray]) -> Arrays | None:
    """What the model would answer if it computed in float64; None: TensorFlow cannot."""
    keras.config.set_floatx("float64")
    try:
        twin = float64_twin(model)
        twin.set_weights([w.astype("float64") for w in model.get_weights()])
        exact = {k: x.astype("float64") if x.dtype.kind == "f" else x for k, x in inputs.items()}
        return keras_predictions(twin, exact)
    except tf.errors.UnimplementedError:  # convolutions with channels first, on a processor
        return None
    finally:
        keras.config.set_floatx("float32")


def golden_beside(path: Path) -> tuple[Arrays, Arrays] | None:
    """Inputs and predictions that the file's authors stored next to it."""
    stem = path.name.rsplit("@", 1)[0]
    stem = stem.replace("_model", "").replace("_weights", "").replace("_config", "")
    for other in path.parent.parent.glob(f"keras_h5/{stem}_inputs_and_outputs@*.h5"):
        with h5py.File(other) as file:
            if "predictions" not in file or "inputs" not in file:
                return None
            inputs = [np.array(file["inputs"][name]) for name in sorted(file["inputs"])]
            outputs = (
                [np.array(item) for item in file["predictions"].values()]
                if isinstance(file["predictions"], h5py.Group)
                else [np.array(file["predictions"])]
            )
            return inputs, outputs
    return None


def random_inputs(shapes: list[list[int]], integers: list[int]) -> Arrays:
    """Samples for each input; integers below the bound that is given for it (0: no integers)."""
    rng = np.random.default_rng(5)
    return [
        rng.integers(0, bound, (SAMPLES, *shape)).astype("int32")
        if bound
        else rng.normal(0, 1, (SAMPLES, *shape)).astype("float32")
        for shape, bound in zip(shapes, integers)
    ]


def predict(
    binary: Path, structure: Path, weights: Path | None, shapes: str, inputs: dict[str, np.ndarray]
) -> tuple[Arrays | None, str]:
    """The binary's predictions on inputs by name, one array an output; or None and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "y.npy"
        words = [binary, "predict", structure, "--output", out, "--backend", "reference"]
        for index, (name, array) in enumerate(inputs.items()):
            path = Path(folder) / f"{index}.npy"
            np.save(path, array)
            words += ["--data", path if len(inputs) == 1 else f"{name}={path}"]
            words += ["--batch", str(len(array))] if index == 0 else []
        if weights is not None:
            words += ["--weights", weights]
        for shape in filter(None, shapes.split(";")):
            words += ["--input-shape", shape]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            return None, (done.stderr or f"exit {done.returncode}").strip()
        # "wrote 3 predictions to PATH", once for each output in the model's order
        paths = [line.split(" predictions to ")[1] for line in done.stderr.splitlines()
                 if " predictions to " in line]  # fmt: skip
        return [np.load(path) for path in paths], ""


def relative_errors(got: Arrays, want: Arrays) -> float:
    """The largest relative error of an output; infinite where there are more or fewer."""
    if len(got) != len(want):
        return float("inf")
    return max(relative_error(a, b) for a, b in zip(got, want))


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """‖got − want‖∞ over ‖want‖∞."""
    if got.size != want.size:
        return float("inf")
    largest = float(np.max(np.abs(want))) or 1.0
    return float(np.max(np.abs(got.ravel() - want.ravel()))) / largest
