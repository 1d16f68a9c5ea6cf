"""Models and data of the workloads as files, made once in a folder and reused."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "parity"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

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
