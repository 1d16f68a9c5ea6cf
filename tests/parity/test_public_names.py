"""Every public name of Keras is read by us, or stands in a table here with the reason.

A name that is new in Keras fails until somebody says what becomes of it; so does one that is listed
as lacking and is supported by now.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import keras
import pytest
from harness import ROOT, run_plimsoll

PAGE = (ROOT / "docs/reference/supported-layers.md").read_text()  # written from the registries

BASE = "a base of other classes, or Python code of the program's own"
FRAMEWORK = "code of another framework, which no file holds"
TEXT = "it works on data that is no numbers yet"
NOT_YET = "not done yet"

LACKING: dict[str, dict[str, str]] = {
    "Layers": {
        BASE: "InputSpec Lambda Layer Pipeline Wrapper",
        FRAMEWORK: "FlaxLayer JaxLayer TFSMLayer TorchModuleWrapper",
        TEXT: "HashedCrossing Hashing IntegerLookup StringLookup TextVectorization",
        "its name is GroupQueryAttention, in files too": "GroupedQueryAttention",
        "they stand in RNN alone": "GRUCell LSTMCell SimpleRNNCell StackedRNNCells",
        "its chains of layers are drawn once, by Python, as the program is traced": "AugMix",
        "it changes boxes and no image": "MaxNumBoundingBoxes",
        NOT_YET: """
            ContrastLimitedAdaptiveHistogramEqualization RandomElasticTransform
        """,
    },
    "Losses": {BASE: "Loss", "its labels are sequences of other lengths": "CTC"},
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
    "control flow and shapes of Python code, which a file of layers does not hold between them": """
    associative_scan cond convert_to_numpy custom_gradient dtype fori_loop is_tensor map ndim
    saturate_cast scan scatter scatter_update shape size slice slice_update switch
    vectorize vectorized_map while_loop
    """,
    "Keras writes it as reshape, transpose and reductions where it is called": """
    rearrange
    """,
    "it makes a constant, which stands in the file as one": """
    arange array bartlett blackman empty eye full geomspace hamming hanning kaiser linspace
    logspace ones tri zeros
    """,
    "it puts samples of a batch together, or numbers them": """
    allclose bincount corrcoef correlate diag diagflat flipud histogram kron meshgrid nonzero
    outer psnr ravel unique unravel_index vander vdot vsplit vstack
    """,
    "no kernels yet; factors of matrices that are told apart by signs and order alone": """
    eig eigh lu_factor matrix_rank pinv qr svd
    """,
    "it takes one matrix, which the batch would be an axis of": "lstsq",
    "it takes a function, which no file holds": "jvp",
    "no kernels yet; segments mix samples": """
    extract_sequences in_top_k istft segment_max segment_min segment_prod segment_sum
    view_as_complex view_as_real
    """,
    "no kernels yet; bits of floating-point numbers": "nextafter view",
    "there is a layer or a loss that does it": """
    binary_crossentropy categorical_crossentropy conv conv_transpose ctc_decode ctc_loss
    depthwise_conv fold polar separable_conv sparse_categorical_crossentropy unfold
    """,
    "its shape names the number of samples in a batch": "broadcast_to",
    "Keras on TensorFlow computes it for all samples of a batch together": "argpartition",
    "another name of one that is read, as which Keras writes it": """
    batch_normalization conj hard_swish layer_normalization rms_normalization swish
    """,
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
    assert_told(operators(), read, words(LACKING_OPERATORS))


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
