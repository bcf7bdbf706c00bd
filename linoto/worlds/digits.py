"""Handwritten digits as a world with contexts: a round is an image, an arm is a digit, the right one earns 1.

Practice is a simple classifier that was taught with a few images: the nearest centroid. The features of an
image are a constant and its first principal components, in the place of the arm. The images are those of
`digits.md`: UCI's optical recognition of handwritten digits, CC BY 4.0.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.worlds.bandits import read_only
from linoto.worlds.contexts import ContextualBandit, nearest_centroid

DIGITS = 10
COMPONENTS = 12  # of an image, besides the constant: a linear model is then right in 90 of 100 images
TAUGHT = 60  # images from which practice learnt
BOUND = 3.0
"""Of |theta|. The parameter of least squares over all images has length 2.86."""


class Images(NamedTuple):
    """The table: every image, its features, and what was written."""

    pixels: Floats  # (n, 64) from 0 to 1
    features: Floats  # (n, 13) of length 1 on average
    written: Ints  # (n,)


def data_file() -> Path:
    """Where the images are."""
    return Path(str(files("linoto.worlds") / "digits.csv"))


@cache
def load() -> Images:
    """The images that come with the package.

    >>> load().features.shape
    (1797, 13)
    """
    with data_file().open(encoding="utf-8", newline="") as file:
        rows = [
            (int(row["digit"]), [int(shade, 17) for shade in row["pixels"]]) for row in csv.DictReader(file)
        ]
    written, pixels = np.array([row[0] for row in rows]), np.array([row[1] for row in rows]) / 16
    return Images(read_only(pixels), read_only(features_of(pixels)), read_only(written))


def features_of(pixels: Floats) -> Floats:
    """(n, 1 + COMPONENTS) a constant and the principal components, whose largest weight is positive."""
    around = pixels - pixels.mean(axis=0)
    axes = np.linalg.eigh(around.T @ around)[1][:, : -COMPONENTS - 1 : -1]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.sign(axes[largest, np.arange(COMPONENTS)])
    rows = np.column_stack([np.ones(len(pixels)), around @ axes])
    return np.asarray(rows / np.linalg.norm(rows, axis=1).mean())


def digits(
    rng: np.random.Generator, *, taught: int = TAUGHT, turn: int | None = None, turning: int = DIGITS
) -> ContextualBandit:
    """The world of images; `rng` draws those from which practice learnt.

    From round `turn` on the right arm is the next digit, of the first `turning` ones. Practice knows that, no
    log does.
    """
    images = load()
    weights = nearest_centroid(images.pixels, images.written, DIGITS, taught, rng)
    now = ContextualBandit.from_table(images.features, images.written, practice=weights)
    if turn is None:
        return now
    following = np.arange(DIGITS)
    following[:turning] = np.roll(following[:turning], -1)
    turned = np.empty_like(weights)
    turned[:, following] = weights
    right = following[images.written]
    return now.until(turn, ContextualBandit.from_table(images.features, right, practice=turned))
