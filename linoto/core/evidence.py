"""How likely a log is by a linear model, whatever its noise and its ridge: which of two models it bears out.

Rewards are Gaussian around X theta, and theta has the variance noise^2 / ridge in every direction. With theta
integrated out, and with s the eigenvalues of X'X and c those parts of X'y along its axes, the log likelihood
at the noise that fits best is, but for a constant,

    -1/2 (n log((y'y - sum c^2 / (s + ridge)) / n) + sum log(1 + s / ridge)).

A feature that explains nothing costs its part of the last sum, so a larger model is not likelier by itself.
"""

from __future__ import annotations

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.features.moments import Moments

RIDGES: Floats = np.exp2(np.arange(-6.0, 13.0))
HIDDEN = 1e-10  # of squared rewards, below which what is around their mean is rounding


def evidence(
    log: Moments, ridges: Floats = RIDGES, ones: Floats | None = None, to: Floats | None = None
) -> Floats:
    """(n,) the log likelihood for each ridge, at the noise that fits best, but for a constant.

    With `ones` (d,), the parameter of a model that expects 1 in every row, rewards count from their mean:
    then their zero does not matter, as their unit never does. Rewards that differ by no more than rounding
    are as likely by every model. With `to` (d, d), features are what it makes of the log's, which leaves
    `ones` as it is.
    """
    mean = 0.0 if ones is None else log.reference
    vector = log.reward_vector if ones is None else log.reward_vector - mean * (log.gram @ ones)
    squares = (log.reward_squares or 0.0) - log.count * mean**2
    if squares < HIDDEN * (log.reward_squares or 0.0):
        return np.zeros(ridges.size)
    gram = log.gram if to is None else to @ log.gram @ to.T
    vector = vector if to is None else to @ vector
    spectrum, axes = np.linalg.eigh(gram)
    spectrum, along = np.maximum(spectrum, 0.0), (axes.T @ vector) ** 2
    explained = (along / (spectrum + ridges[:, None])).sum(axis=1)
    noise = np.maximum(squares - explained, 1e-9 * squares + np.finfo(float).tiny) / log.count
    determinant = np.log1p(spectrum / ridges[:, None]).sum(axis=1)
    return np.asarray(-0.5 * (log.count * np.log(noise) + determinant))


def likeliest_ridge(log: Moments) -> float:
    """The power of two by which the log is the likeliest."""
    return float(RIDGES[evidence(log).argmax()])
