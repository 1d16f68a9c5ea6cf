"""Trains a Keras model on Fashion-MNIST inside a memory limit of the whole process.

    python fashion_mnist.py --memory 1GiB --epochs 2

The images are those of Debian's package dataset-fashion-mnist. The limit counts everything that the
process holds: the interpreter, TensorFlow, the images, and what training takes.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import keras
import numpy as np
import numpy.typing as npt

import plimsoll

FOLDER = Path("/usr/share/datasets/fashion-mnist")
IMAGES_HEADER, LABELS_HEADER = 16, 8  # bytes of an IDX file in front of its values
CLASSES, SIDE = 10, 28


def read(part: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images of 28 × 28 pixels as they are stored, and their classes."""
    with gzip.open(FOLDER / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read()[IMAGES_HEADER:], np.uint8)
    with gzip.open(FOLDER / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[LABELS_HEADER:], np.uint8)
    return images.reshape(-1, SIDE, SIDE, 1), labels


def build() -> keras.Model:
    layers = keras.layers
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 1)),
        layers.Rescaling(1 / 255),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(CLASSES, activation="softmax"),
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", default="1GiB", help="of the whole process")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, help="train on the first so many images alone")
    options = parser.parse_args()
    x, y = read("train")
    x, y = x[: options.rows], y[: options.rows]
    model = build()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    print(plimsoll.plan(model, batch_size=128, memory=options.memory))
    try:
        plimsoll.fit(model, x, y, batch_size=128, epochs=options.epochs, memory=options.memory)
    except plimsoll.ResourceExhausted as error:
        raise SystemExit(str(error)) from error
    loss, accuracy = plimsoll.evaluate(model, *read("t10k"), batch_size=256, memory=options.memory)
    print(f"test loss {loss:.4f}, accuracy {accuracy:.4f}")
    model.save("fashion_mnist.keras")


if __name__ == "__main__":
    main()
