"""The larger networks that are measured, with random data: whole ones, as people train them."""

from collections.abc import Callable

import keras
import numpy as np
import unseen_networks
from harness import Case
from test_networks import unet
from test_transformer import transformer

BATCHES = {"ResNet50": 32, "MobileNetV2": 32, "U-Net": 8, "GPT-small": 8, "GPT": 2}
BATCHES |= unseen_networks.BATCHES
COUNT = 3  # batches


def images(build: Callable[[], keras.Model], batch: int, side: int = 224) -> Case:
    rng = np.random.default_rng(11)
    x = rng.random((COUNT * batch, side, side, 3), dtype="float32")
    y = rng.integers(0, 1000, COUNT * batch).astype("int32")
    return Case(build, x, y, "sparse_categorical_crossentropy")


def pixels(batch: int) -> Case:
    rng = np.random.default_rng(12)
    x = rng.random((COUNT * batch, 256, 256, 3), dtype="float32")
    y = rng.integers(0, 2, (COUNT * batch, 256, 256, 1)).astype("float32")
    return Case(lambda: unet(256, 32), x, y, "binary_crossentropy")


def text(batch: int, *sizes: int) -> Case:
    rng = np.random.default_rng(4)
    tokens = rng.integers(0, sizes[-1], (COUNT * batch, sizes[-2] + 1)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Case(lambda: transformer(*sizes), tokens[:, :-1], tokens[:, 1:], loss)


def network(name: str) -> tuple[Case, int]:
    batch = BATCHES[name]
    if name in unseen_networks.BATCHES:
        return unseen_networks.network(name)
    applications = keras.applications
    if name == "ResNet50":
        case = images(lambda: applications.ResNet50(weights=None), batch)
    elif name == "MobileNetV2":
        case = images(lambda: applications.MobileNetV2(weights=None), batch)
    elif name == "U-Net":
        case = pixels(batch)
    elif name == "GPT-small":
        case = text(batch, 6, 384, 6, 256, 8192)
    else:
        case = text(batch, 12, 768, 12, 256, 50257)
    return case, batch
