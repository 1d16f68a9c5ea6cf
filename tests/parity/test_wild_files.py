"""Real model files of many hands, walked as a whole: what loads, what is refused and why.

Reads an index of files from PLIMSOLL_TEST_DATA (wild/index.jsonl: one JSON object a line with file,
kind, layers, expect). A file is expected to load when every layer it names is one that Plimsoll
has, and to be refused by name otherwise.
"""

import collections
import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

DATA = os.environ.get("PLIMSOLL_TEST_DATA")
WILD = Path(DATA) / "wild" if DATA else Path("/nonexistent")
pytestmark = pytest.mark.skipif(
    not (WILD / "index.jsonl").is_file(),
    reason="PLIMSOLL_TEST_DATA does not name a folder with wild/index.jsonl",
)

# Names of Keras 1, and what is read as another layer.
ALIASES = {
    "Convolution1D": "Conv1D", "Convolution2D": "Conv2D", "TimeDistributedDense": "Dense",
    "ThresholdedReLU": "ReLU", "Merge": "Concatenate", "Model": "", "Sequential": "",
    "Functional": "",
}  # fmt: skip
# What a file says that Plimsoll refuses although it has the layers: flag of the index → reason.
KNOWN_REFUSALS = {"channels_first": '"channels_first"', "constraint": "constraint"}
# Files that use an option of a known layer that is not trained yet: part of the name → reason.
KNOWN_FILES = {
    # Attention on values of rank 2: samples of a batch would look at each other.
    "keras__weights__keras-attention": "expected rank 3",
    # Its second Cropping3D takes two positions off of one.
    "tfkeras__cnn3d_22@": "expected something left of",
    "tfkeras__convlstm2d_16@": "expected an LSTM, GRU, SimpleRNN or RNN",
    "tfkeras__convlstm2d_26@": "expected an LSTM, GRU, SimpleRNN or RNN",
}
# Differences up to this share of the largest number are those of the order of additions.
ROUNDING = 2e-6


@dataclass
class Answer:
    """What a file was expected to do and what it did."""

    row: dict[str, Any]
    verdict: str
    missing: list[str] = field(default_factory=list)  # layers that this build does not have
    weights: Path | None = None
    shapes: str = ""

    @property
    def loads(self) -> bool:
        return self.verdict == "ok"

    @property
    def name(self) -> str:
        return Path(self.row["file"]).name


def index() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (WILD / "index.jsonl").read_text().splitlines()]


def stem_of(row: dict[str, Any]) -> str:
    """The file's path in its repository, "__" for slashes, without its ending."""
    return row["file"].split("@@")[1].rsplit("@", 1)[0]


def structure_of(row: dict[str, Any]) -> dict[str, Any]:
    """The structure beside a file of weights: as JSON or as a whole model; empty where none is."""
    stem = stem_of(row)
    folder = stem.rsplit("__", 1)[0] + "__"
    wanted = [stem.replace("_weights", "_config"), stem.replace("_weights", "_model")]
    wanted += [folder + "modelConfig", folder + "model", folder + "dropout__modelConfig"]
    wanted.append(folder.replace("Checkpoints", "Model") + "model")
    others = [r for r in index() if r["kind"] in ("keras_json", "h5_full")]
    for name in wanted:
        for other in others:
            if other["repo"] == row["repo"] and stem_of(other) == name:
                return other
    return {}


def open_sizes(document: Any) -> str:
    """Shapes for inputs that leave a size open: "12x3;12".

    In place of each stands 12, or as many steps as another input of the model has.
    """
    shapes: list[list[int | None]] = []

    def visit(layers: list[Any]) -> None:
        for position, layer in enumerate(layers):
            config = layer.get("config", {})
            shape = config.get("batch_shape") or config.get("batch_input_shape")
            if shape and (layer["class_name"] == "InputLayer" or position == 0):
                shapes.append(shape[1:])

    config = document.get("config", document) if isinstance(document, dict) else document
    visit(config if isinstance(config, list) else config.get("layers", []))
    steps = next((shape[0] for shape in shapes if shape and shape[0] is not None), 12)
    return ";".join("x".join(str(steps if n is None else n) for n in shape) for shape in shapes)


def read_document(row: dict[str, Any]) -> Any:
    import zipfile

    import h5py

    path = WILD / row["file"]
    if row["kind"] == "h5_full":
        with h5py.File(path) as file:
            return json.loads(file.attrs["model_config"])
    if row["kind"] == "keras_v3":
        return json.loads(zipfile.ZipFile(path).read("config.json"))
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def survey(build_dir: Path) -> list[Answer]:
    tool = build_dir / "bin" / "plimsoll_model_tool"
    known = set(subprocess.run([tool, "layers"], capture_output=True, text=True).stdout.split())
    answers, lines = [], []
    for row in index():
        if row["expect"] not in ("accept", "load weights", "refuse politely"):
            continue
        answer = Answer(row, "")
        structure = structure_of(row) if row["kind"] == "h5_weights" else row
        path = WILD / row["file"]
        if structure and structure is not row:
            answer.weights, path = path, WILD / structure["file"]
        document = read_document(structure) if structure else {}
        if isinstance(document, (dict, list)) and structure and row["expect"] != "refuse politely":
            answer.shapes = open_sizes(document)
        layers = [ALIASES.get(name, name) for name in structure.get("layers") or {}]
        answer.missing = sorted(name for name in layers if name and name not in known)
        answers.append(answer)
        lines.append(f"{path}\t{answer.weights or ''}\t{answer.shapes}")
    done = subprocess.run(
        [tool, "survey"], input="\n".join(lines), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"crashed: {done.returncode} {done.stderr[-2000:]}"
    verdicts = done.stdout.splitlines()
    assert len(verdicts) == len(answers), "one verdict for each file"
    for answer, verdict in zip(answers, verdicts):
        answer.verdict = verdict
    return answers


def reason_class(answer: Answer) -> str:
    """A refusal without the names that are only its own."""
    words = answer.verdict.split(": ", 2)[-1].replace(str(WILD), "")
    return words.split("] ", 1)[-1][:90]


def is_without_structure(answer: Answer) -> bool:
    """Weights whose model is in no file of the corpus."""
    return answer.row["kind"] == "h5_weights" and answer.weights is None


def print_table(answers: list[Answer]) -> None:
    rows: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for answer in answers:
        key = (answer.row["kind"], answer.row["expect"])
        outcome = "loads" if answer.loads else "refused"
        if answer.missing and not answer.loads:
            outcome = "layer not here"
        elif is_without_structure(answer):
            outcome = "no structure"
        rows[key][outcome] += 1
    print(
        f"\n{'kind':<12} {'marked':<16} {'files':>5} {'in scope':>8} {'load':>5} {'of these':>8} "
        f"{'layer not here':>15} {'no structure':>13} refused"
    )
    for (kind, expect), counts in sorted(rows.items()):
        scope = counts["loads"] + counts["refused"]
        share = f"{100 * counts['loads'] / scope:.1f} %" if scope else "–"
        print(
            f"{kind:<12} {expect:<16} {sum(counts.values()):>5} {scope:>8} {counts['loads']:>5} "
            f"{share:>8} {counts['layer not here']:>15} {counts['no structure']:>13} "
            f"{counts['refused']:>7}"
        )
    reasons = collections.Counter(reason_class(a) for a in answers if not a.loads)
    for reason, count in reasons.most_common(60):
        print(f"{count:>5} {reason}")


def test_weights_of_another_model_are_refused(build_dir: Path) -> None:
    tool = build_dir / "bin" / "plimsoll_model_tool"
    structure = next(r for r in index() if stem_of(r).endswith("batchnorm__modelConfig"))
    others = [r for r in index() if r["kind"] == "h5_weights" and "batchnorm" not in r["file"]]
    lines = [f"{WILD / structure['file']}\t{WILD / r['file']}\t" for r in others]
    done = subprocess.run([tool, "survey"], input="\n".join(lines), capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == len(others) > 0
    for verdict in done.stdout.splitlines():
        assert "The weights belong to another model" in verdict, verdict


def test_files_load_or_are_refused_by_name(survey: list[Answer]) -> None:
    print_table(survey)
    wrong = []
    for answer in survey:
        if is_without_structure(answer):
            if "weights without their model" not in answer.verdict:
                wrong.append(f"{answer.name}: {answer.verdict}")
            continue
        should = answer.row["expect"] != "refuse politely" and not answer.missing
        flags = [f for f in answer.row.get("flags") or [] if f in KNOWN_REFUSALS]
        if any(KNOWN_REFUSALS[flag] in answer.verdict for flag in flags):
            continue
        if any(k in answer.name and v in answer.verdict for k, v in KNOWN_FILES.items()):
            continue
        if answer.loads != should:
            wrong.append(f"{answer.name}: {answer.verdict}")
        if answer.missing and not any(name in answer.verdict for name in answer.missing):
            wrong.append(f"{answer.name}: none of {answer.missing} is named in {answer.verdict}")
    assert not wrong, "\n".join(wrong)
    scope = [a for a in survey if a.row["expect"] != "refuse politely" and not a.missing]
    scope = [a for a in scope if not is_without_structure(a)]
    loaded = sum(a.loads for a in scope)
    print(f"{loaded} of {len(scope)} files whose layers are here load")
    assert loaded >= 0.98 * len(scope)


def layers_of(document: Any) -> list[dict[str, Any]]:
    """The layers of a model, those of models inside of it not among them."""
    config = document.get("config", document) if isinstance(document, dict) else document
    return config if isinstance(config, list) else config.get("layers", [])


def input_names(document: Any) -> list[str]:
    """As the file lists them; a model that names none has one."""
    layers = layers_of(document)
    names = [e["config"]["name"] for e in layers if e["class_name"] == "InputLayer"]
    return names or ["input"]


def embedding_bounds(document: Any) -> list[int]:
    """For each input, below which integers every Embedding is safe that it may feed; 0: none.

    Of several inputs, one feeds the layers that are called on it; a single one feeds all.
    """

    def bounds_in(value: Any) -> list[int]:
        if isinstance(value, list):
            return [bound for item in value for bound in bounds_in(item)]
        if not isinstance(value, dict):
            return []
        own = value.get("class_name") == "Embedding"
        inside = [bound for item in value.values() for bound in bounds_in(item)]
        return inside + ([int(value["config"]["input_dim"])] if own else [])

    names = input_names(document)
    if len(names) == 1:
        return [min(bounds_in(document), default=0)]
    layers = layers_of(document)
    fed = [
        [e for e in layers if f'"{name}"' in json.dumps(e.get("inbound_nodes", []))]
        for name in names
    ]
    return [min(bounds_in(entries), default=0) for entries in fed]


def compare(answer: Answer, binary: Path, folder: Path) -> tuple[str, str]:
    """Which oracle a file's predictions were compared with, and what was wrong (empty: nothing)."""
    import wild_predictions as wp

    path = WILD / answer.row["file"]
    row = structure_of(answer.row) if answer.weights is not None else answer.row
    structure, weights = WILD / row["file"], answer.weights
    document = read_document(row)
    names = input_names(document)
    golden, model = wp.golden_beside(path), None
    if golden is not None:
        oracle, (given, want) = "numbers beside it", golden
        inputs = dict(zip(names, given, strict=True))
    else:
        shapes = [[int(n) for n in s.split("x")] for s in answer.shapes.split(";") if s]
        drawn = wp.random_inputs(shapes, embedding_bounds(document))
        inputs = dict(zip(names, drawn, strict=True))
        model, oracle = wp.open_in_keras(structure, weights)
        if model is None:
            oracle, want = f"none: {oracle[:80]}", None
        else:
            try:
                want = wp.keras_predictions(model, inputs)
            except ValueError as error:  # it does not take what its own file says it takes
                oracle, want = f"none: {str(error)[:80]}", None
    if row["kind"] == "keras_json" and weights is None:
        if model is None:
            return oracle, ""  # nobody has weights for it
        weights = folder / "drawn.weights.h5"
        model.save_weights(weights)
    got, failure = wp.predict(binary, structure, weights, answer.shapes, inputs)
    if got is None:
        return oracle, f"{answer.name}: {failure}"
    if want is None:
        return oracle, ""
    several = (
        f", {len(inputs)} inputs and {len(want)} outputs" if len(inputs) + len(want) > 2 else ""
    )
    error, ours, theirs = wp.relative_errors(got, want), 0.0, 0.0
    in_float64 = model is not None and error > ROUNDING
    if in_float64:
        exact = wp.exact_predictions(model, inputs)
        in_float64 = exact is not None
    if in_float64:
        ours, theirs = wp.relative_errors(got, exact), wp.relative_errors(want, exact)
    # Drawn weights may cancel in the last layer; those of a trained model do not.
    if not error <= 1e-5 + (theirs if "drew" in oracle else 0.0):
        return oracle, f"{answer.name}: {oracle}: relative error {error:.2e}"
    if ours > max(ROUNDING, 2 * theirs):
        return oracle, f"{answer.name}: off by {ours:.2e}, Keras by {theirs:.2e}"
    return oracle + (", and in float64" if in_float64 else "") + several, ""


def test_predictions_are_those_of_keras(
    survey: list[Answer], plimsoll: Path, tmp_path: Path
) -> None:
    counts: collections.Counter[str] = collections.Counter()
    wrong = []
    for answer in survey:
        if not answer.loads or answer.row["expect"] == "refuse politely":
            continue
        if is_without_structure(answer):
            continue
        oracle, failure = compare(answer, plimsoll, tmp_path)
        counts[oracle] += 1
        if failure:
            wrong.append(failure)
    for oracle, count in counts.most_common():
        print(f"{count:>5} compared with: {oracle}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
