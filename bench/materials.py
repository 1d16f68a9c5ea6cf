"""Models and data of the workloads as files, made once in a folder and reused."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "parity"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

STEPS = {"ResNet50": 5, "MobileNetV2": 5, "U-Net": 5, "GPT-small": 8, "GPT": 4, "S0c": 60}
STEPS |= {"DCGAN": 20, "LSTM-autoencoder": 20, "LSTM3": 8, "WaveNet": 6, "BERT-small": 10}
STEPS |= {"S0a": 8, "S0b": 20, "S1a": 100, "S1b": 2000, "S1c": 24, "S2": 200}
DEFAULT_STEPS = 300
UNSEEN_STEPS = 4
BINARY = Path(os.environ.get("PLIMSOLL_BUILD", ROOT / "build/release")) / "bin/plimsoll"
FASHION = Path("/usr/share/datasets/fashion-mnist")


def prepare(name: str, folder: Path) -> list[str]:
    """Command-line arguments (model, data, labels, batch) of a workload; writes what is missing."""
    if name == "fashion":
        return [
            str(ROOT / "examples/fashion_mnist.json"),
            "--data", str(FASHION / "train-images-idx3-ubyte.gz"),
            "--labels", str(FASHION / "train-labels-idx1-ubyte.gz"),
            "--batch", "64", "--optimizer", "adam",
            "--loss", "sparse_categorical_crossentropy", "--metrics", "accuracy",
        ]  # fmt: skip
    place = folder / name
    arguments = [
        str(place / "model.keras"),
        "--data", str(place / "x.npy"), "--labels", str(place / "y.npy"),
    ]  # fmt: skip
    from networks import BATCHES
    from workloads import WORKLOADS

    batch = BATCHES[name] if name in BATCHES else WORKLOADS[name][-1]
    if not (place / "done").exists():
        import keras
        from harness import save_case, shaken_weights
        from networks import network
        from workloads import workload

        place.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(7)
        case, _ = network(name) if name in BATCHES else workload(name)
        save_case(place, case, shaken_weights(case.build()), keras.optimizers.Adam(0.001))
        (place / "done").touch()
    return [*arguments, "--batch", str(batch)]


def steps_of(name: str, quick: bool) -> int:
    from unseen_networks import BATCHES

    steps = STEPS.get(name, UNSEEN_STEPS if name in BATCHES else DEFAULT_STEPS)
    return max(3, min(steps // 4, 40)) if quick else steps


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def samples(arguments: list[str], count: int) -> tuple[str, str]:
    """Files with the first samples and labels of a workload; written where they are missing."""
    import numpy as np

    names = []
    for name in ("--data", "--labels"):
        whole = Path(option(arguments, name))
        part = whole.with_name(f"{whole.stem}-{count}.npy")
        if not part.exists():
            np.save(part, np.load(whole, mmap_mode="r")[:count])
        names.append(str(part))
    return names[0], names[1]


def warm(*paths: str) -> None:
    """Reads files into page cache, outside of any group."""
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass
