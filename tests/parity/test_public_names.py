"""Every public name of Keras is read by us, or stands in a table here with the reason.

A name that is new in Keras fails until somebody says what becomes of it; so does one that is listed
as lacking and is supported by now.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest
from harness import ROOT, run_plimsoll
from keras import ops

PAGE = (ROOT / "docs/reference/supported-layers.md").read_text()  # written from the registries

BASE = "a base of other classes, or Python code of the program's own"
FRAMEWORK = "code of another framework, which no file holds"

LACKING: dict[str, dict[str, str]] = {
    "Layers": {
        BASE: "InputSpec Lambda Layer Pipeline Wrapper",
        FRAMEWORK: "FlaxLayer JaxLayer TFSMLayer TorchModuleWrapper",
        "its name is GroupQueryAttention, in files too": "GroupedQueryAttention",
        "they stand in RNN alone": "GRUCell LSTMCell SimpleRNNCell StackedRNNCells",
        "its chains of layers are drawn once, by Python, as the program is traced": "AugMix",
        "it changes boxes and no image": "MaxNumBoundingBoxes",
        "in a model Keras puts the first image of a batch in all places": "RandomElasticTransform",
    },
    "Losses": {BASE: "Loss"},
    "Metrics": {
        BASE: "Metric MeanMetricWrapper",
        "in compile() they take the labels for values": "Mean Sum",
    },
    "Optimizers": {
        BASE: "Optimizer",
        "what others are put in": "MultiOptimizer OptimizerMap",
    },
    "Initializers": {BASE: "Initializer"},
    "Regularizers": {BASE: "Regularizer"},
    "Constraints": {BASE: "Constraint"},
    "Activations": {
        "no activations": "deserialize get serialize",
        "it takes arguments, which no layer gives one; it is read between layers": "threshold",
    },
}
MODULES: dict[str, ModuleType] = {
    "Layers": keras.layers, "Losses": keras.losses, "Metrics": keras.metrics,
    "Optimizers": keras.optimizers, "Initializers": keras.initializers,
    "Regularizers": keras.regularizers, "Constraints": keras.constraints,
    "Activations": keras.activations,
}  # fmt: skip

LACKING_OPERATORS: dict[str, str] = {
    "it takes functions, which are Python code that no file holds": """
    associative_scan cond custom_gradient fori_loop jvp map scan switch vectorize vectorized_map
    while_loop
    """,
    "its answer is a Python value of the program's own": """
    convert_to_numpy dtype is_tensor ndim shape size
    """,
    "it puts samples of a batch together, or numbers them": """
    allclose argpartition broadcast_to corrcoef correlate diag diagflat flipud histogram kron
    lstsq meshgrid nonzero outer psnr ravel scatter scatter_update segment_max segment_min
    segment_prod segment_sum unique vdot vsplit vstack
    """,
    "Keras takes it of batches of a known size alone": "rearrange",
    "it has as many numbers as the largest of the batch says": "bincount",
    "its results have another axis before the batch's": "ctc_decode",
    "complex numbers": "eig polar view_as_complex view_as_real",
    "on TensorFlow Keras's own takes no batch of matrices": "lu_factor",
    "between layers Keras's own exchanges its options and fails": "conv_transpose",
}

X: Any = keras.Input((4, 4))
LINE: Any = np.ones(4, "float32")


def normalized(call: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: call(X, LINE, LINE, axis=-1)


# What Keras writes in other words where it is called: constants, other operators. Each is tried.
WRITTEN: dict[str, Callable[[], Any]] = {
    "arange": lambda: X + ops.arange(4, dtype="float32"),
    "array": lambda: X + ops.array(LINE),
    "bartlett": lambda: X * ops.bartlett(4),
    "batch_normalization": lambda: ops.batch_normalization(X, LINE, LINE, -1),
    "blackman": lambda: X * ops.blackman(4),
    "conj": lambda: ops.conj(X),
    "empty": lambda: X + 0.0 * ops.empty((1, 4)),
    "eye": lambda: X * ops.eye(4),
    "full": lambda: X * ops.full((1, 4), 2.0),
    "geomspace": lambda: X * ops.geomspace(1.0, 8.0, 4),
    "hamming": lambda: X * ops.hamming(4),
    "hanning": lambda: X * ops.hanning(4),
    "hard_swish": lambda: ops.hard_swish(X),
    "kaiser": lambda: X * ops.kaiser(4, 3.0),
    "layer_normalization": normalized(ops.layer_normalization),
    "linspace": lambda: X * ops.linspace(0.0, 1.0, 4),
    "logspace": lambda: X * ops.logspace(0.0, 1.0, 4),
    "ones": lambda: X * ops.ones((1, 4)),
    "rms_normalization": lambda: ops.rms_normalization(X, LINE),
    "swish": lambda: ops.swish(X),
    "tri": lambda: X * ops.tri(4),
    "zeros": lambda: X + ops.zeros((1, 4)),
}


def section(title: str) -> str:
    start = PAGE.index(f"## {title}\n")
    end = PAGE.find("\n## ", start + 3)
    return PAGE[start : end if end > 0 else None]


def listed(title: str) -> set[str]:
    """Names in a table of the page, or in its list of activations."""
    if title == "Activations":
        return set(re.findall(r"[a-z]\w+", section(title)))
    return set(re.findall(r"^\| ([A-Z]\w+) \|", section(title), re.MULTILINE))


def public(title: str) -> Iterator[str]:
    """Each class once, under its own name; activations are functions."""
    for value in set(filter(callable, vars(MODULES[title]).values())):
        if inspect.isclass(value) != (title == "Activations"):
            yield value.__name__


def operators() -> Iterator[str]:
    return (n for n, f in vars(keras.ops).items() if callable(f) and not n.startswith("_"))


def assert_told(names: Iterator[str], read: set[str], lacking: list[str]) -> None:
    found = set(names)
    assert sorted(found - read - set(lacking)) == [], "neither read nor in the table"
    assert sorted(set(lacking) & read) == [], "in the table, and read by now: take them out"
    assert sorted(set(lacking) - found) == [], "in the table, and not in this Keras"
    assert len(lacking) == len(set(lacking)), "named twice"


def words(table: dict[str, str]) -> list[str]:
    return [word for names in table.values() for word in names.split()]


@pytest.mark.parametrize("title", MODULES)
def test_classes_are_read_or_told(title: str) -> None:
    assert_told(public(title), listed(title), words(LACKING[title]))


def test_operators_are_read_or_told() -> None:
    """An operator is Keras's class of it: `expand_dims` is ExpandDims."""
    title = "Operators of keras.ops between layers"
    known = {name.lower() for name in re.findall(r"[A-Z]\w+", section(title).split("\n\n")[1])}
    read = {name for name in operators() if name.replace("_", "") in known}
    assert_told(operators(), read | set(WRITTEN), words(LACKING_OPERATORS))
    assert sorted(read & set(WRITTEN)) == [], "an operator of its own by now"


@pytest.mark.parametrize("name", WRITTEN)
def test_what_keras_writes_in_other_words_is_read(name: str, tmp_path: Path) -> None:
    model = keras.Model(X, WRITTEN[name]())
    model.save(tmp_path / "m.keras")
    x = np.random.default_rng(1).normal(size=(3, 4, 4)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    run_plimsoll("predict", tmp_path / "m.keras", "--data", tmp_path / "x.npy", "--output",
                 tmp_path / "y.npy")  # fmt: skip
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x), rtol=1e-5, atol=1e-6)


def test_schedules_are_read(tmp_path: Path) -> None:
    schedules = keras.optimizers.schedules
    arguments = {
        "CosineDecay": (0.1, 10), "CosineDecayRestarts": (0.1, 10),
        "ExponentialDecay": (0.1, 10, 0.9), "InverseTimeDecay": (0.1, 10, 0.9),
        "PiecewiseConstantDecay": ([10], [0.1, 0.01]), "PolynomialDecay": (0.1, 10),
    }  # fmt: skip
    kinds = {n for n, c in vars(schedules).items() if inspect.isclass(c)}
    assert kinds - {"LearningRateSchedule"} == set(arguments)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    for name, given in arguments.items():
        model.compile(keras.optimizers.SGD(getattr(schedules, name)(*given)), "mse")
        model.save(tmp_path / "m.keras")
        done = run_plimsoll("check", tmp_path / "m.keras", check=False)
        assert done.returncode == 0, (name, done.stdout, done.stderr)
