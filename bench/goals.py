"""What each workload is to reach beside TensorFlow: the rows of the table, with their limits.

`speed` is the ratio to TensorFlow of the same precision in the same run, `mib` the most memory
(VmHWM); None: nothing was set. A row with a limit runs in a memory control group of that size.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    workload: str
    precision: str = "f32"
    limit: str | None = None
    speed: float | None = None
    mib: int | None = None


GOALS = [
    Goal("S0a", speed=2.0, mib=100),
    Goal("S0a", limit="64MiB", speed=1.8),
    Goal("S0a", "bf16", speed=1.5, mib=100),
    Goal("S0b"),
    Goal("S0c", speed=2.0, mib=100),
    Goal("S1a", speed=3.0, mib=44),
    Goal("S1b", speed=20.0, mib=28),
    Goal("S1c", speed=1.8, mib=140),
    Goal("S2", speed=2.5, mib=34),
    Goal("S4", speed=2.0, mib=36),
    Goal("S4L", speed=2.0, mib=48),
    Goal("S4s", speed=2.0, mib=36),
    Goal("S4b", speed=8.0, mib=32),
    Goal("ResNet50", speed=1.3),
    Goal("ResNet50", "bf16", speed=1.7),
    Goal("ResNet50", limit="1GiB", speed=1.1),
    Goal("ResNet50", limit="512MiB"),
    Goal("MobileNetV2", speed=1.8),
    Goal("MobileNetV2", limit="512MiB", speed=1.2),
    Goal("U-Net", speed=1.2),
    Goal("U-Net", "bf16", speed=1.4),
    Goal("U-Net", limit="512MiB", speed=1.0),
    Goal("GPT-small", speed=1.3),
    Goal("GPT-small", "bf16", speed=1.6),
    Goal("GPT-small", limit="448MiB", speed=1.0),
    Goal("GPT", speed=1.0),
    Goal("GPT", limit="512MiB"),
]
NAMES = list(dict.fromkeys(goal.workload for goal in GOALS))
UNSEEN = [
    "EfficientNetB0",
    "EfficientNetV2B0",
    "DenseNet121",
    "Xception",
    "InceptionV3",
    "NASNetMobile",
    "ConvNeXtTiny",
    "VGG16",
    "ResNet50V2",
    "MobileNetV3Large",
    "LSTM3",
    "WaveNet",
    "ViT-small",
    "BERT-small",
    "DCGAN",
    "LSTM-autoencoder",
]
DRAWN = [f"drawn-{number}" for number in range(20)]
PREDICTION = 1.5  # predict and evaluate, against compiled inference


def goals_of(name: str, limit: str | None, precisions: list[str]) -> list[Goal]:
    """A workload's rows, one at least for each precision; of one limit where that is named."""
    rows = []
    for precision in precisions:
        found = [g for g in GOALS if g.workload == name and g.precision == precision]
        if limit is not None:
            found = [g for g in found if g.limit == limit]
        rows += found or [Goal(name, precision, limit)]
    return rows
