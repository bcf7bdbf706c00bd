"""How likely a log is by a linear model, whatever its noise and its ridge: which of two models it bears out.

Rewards are Gaussian around X theta, and theta has the variance noise^2 / ridge in every direction. With theta
integrated out, and with s the eigenvalues of X'X and c those parts of X'y along its axes, the log likelihood
at the noise that fits best is, but for a constant,

    -1/2 (n log((y'y - sum c^2 / (s + ridge)) / n) + sum log(1 + s / ridge)).

A feature that explains nothing costs its part of the last sum, so a larger model is not likelier by itself.
But rows whose noise is far larger than that of others look as if something explained it. They do so in one
half of a log and not in the other: what one half teaches must help to foretell the other one, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linoto.core.arrays import Bools, Floats
from linoto.core.diagonals import along_axes
from linoto.core.features.moments import ROUNDING, Moments

RIDGES: Floats = np.exp2(np.arange(-6.0, 13.0))
HIDDEN = 1e-10  # of squared rewards, below which what is left of them is rounding


def evidence(log: Moments, ridges: Floats = RIDGES) -> Floats:
    """(n,) the log likelihood for each ridge, at the noise that fits best, but for a constant."""
    return by_spectrum(log, *along_axes(log.gram, log.reward_vector), ridges)


def by_spectrum(log: Moments, spectrum: Floats, parts: Floats, ridges: Floats) -> Floats:
    """The same, where eigenvalues and the parts of X'y along their axes are known."""
    squares = log.reward_squares or 0.0
    spectrum, along = np.maximum(spectrum, 0.0), parts**2
    explained = (along / (spectrum + ridges[:, None])).sum(axis=1)
    noise = np.maximum(squares - explained, 1e-9 * squares + np.finfo(float).tiny) / log.count
    determinant = np.log1p(spectrum / ridges[:, None]).sum(axis=1)
    return np.asarray(-0.5 * (log.count * np.log(noise) + determinant))


def foretold_errors(halves: Sequence[Moments], ridges: Floats = RIDGES) -> Floats:
    """(n,) the squared errors for each ridge, when each of two halves is foretold by the other."""
    found = np.zeros(ridges.size)
    for known, asked in (halves, halves[::-1]):
        spectrum, axes = spectrum_of(known)
        thetas = (axes.T @ known.reward_vector / (spectrum + ridges[:, None])) @ axes.T
        products = np.einsum("rd,rd->r", thetas, thetas @ asked.gram - 2 * asked.reward_vector)
        found += (asked.reward_squares or 0.0) + products
    return found


def spectrum_of(log: Moments) -> tuple[Floats, Floats]:
    """The eigenvalues of X'X, and its axes."""
    spectrum, axes = np.linalg.eigh(log.gram)
    return np.maximum(spectrum, 0.0), axes


def beside(log: Moments, some: Bools) -> Moments:
    """The log by its other features, as far as these (d,) do not explain them or the rewards.

    So these have no prior: a log is as likely by a wider model that only has more of what they are. Rewards
    that differ by no more than rounding do not differ.
    """
    gram, vector = log.gram[np.ix_(some, some)], log.reward_vector[some]
    spectrum, axes = np.linalg.eigh(gram)
    kept = spectrum > ROUNDING * max(spectrum.max(initial=0.0), np.finfo(float).tiny)
    whitened = axes[:, kept] / np.sqrt(spectrum[kept])
    across, known = whitened.T @ log.gram[np.ix_(some, ~some)], whitened.T @ vector
    squares = (log.reward_squares or 0.0) - float(known @ known)
    differ = squares > HIDDEN * (log.reward_squares or 0.0)
    return Moments.unchecked(
        count=max(log.count - int(kept.sum()), 0),
        gram=log.gram[np.ix_(~some, ~some)] - across.T @ across,
        reward_vector=differ * (log.reward_vector[~some] - across.T @ known),
        reward_sum=0.0,
        reward_squares=differ * squares,
    )


def likeliest_ridge(log: Moments) -> float:
    """The power of two by which the log is the likeliest, of those that rewards to come can outweigh.

    A few rows of rare rewards show no difference between features, and are the likelier the larger the ridge
    is: that would hold every parameter at 0 for thousands of rewards. So it is at most what the log knows of
    the direction that it knows best.
    """
    spectrum, parts = along_axes(log.gram, log.reward_vector)
    ridges = RIDGES[max(spectrum.max(initial=0.0), RIDGES[0]) >= RIDGES]
    return float(ridges[by_spectrum(log, spectrum, parts, ridges).argmax()])
