"""How far the estimate can be from the truth where each arm has a model of its own: a radius for each model.

With k arms of p features each, V has k blocks V_b, and each model's own confidence set has the radius

    beta_b = noise sqrt(2 log(k/delta) + log det V_b - p log ridge) + sqrt(ridge) bound.

An action that holds features of several of them is away by sqrt(sum beta_b^2) of its width, at the most.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

from linoto.core.arrays import Floats
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.layout import FACTOR, PLACE, State

LARGE = 1e100  # a product whose logarithm is taken before it grows further


@inner
def growth_of_block(p: Any, s: State, begin: int, end: int) -> float:
    """log det of a block of V, less that of the ridge: R has its roots on the diagonal."""
    factor, found, product = s.square[FACTOR], 0.0, 1.0
    for i in range(begin, end):
        product *= factor[i, i] * factor[i, i] / p.ridge
        if product > LARGE:
            found += log(product)
            product = 1.0
    return float(max(found + log(product), 0.0))


@inner
def own_radius(p: Any, s: State, arm: int) -> float:
    """The radius for one action: of all models of which it has features."""
    own, d, column = s.run[0].own_features, s.vectors.shape[1], s.actions[:, arm]
    first = int(s.arms[PLACE, arm])
    level, squares = 2.0 * (p.level + log(d / own)), 0.0
    for block in range(first // own, d // own):
        begin = block * own
        if begin >= first + column.size:
            break
        for i in range(max(begin, first), min(begin + own, first + column.size)):
            if column[i - first] != 0.0:
                radius = p.noise * sqrt(level + growth_of_block(p, s, begin, begin + own)) + p.bias
                squares += radius * radius
                break
    return sqrt(squares)


@compiled
def own_radii(params: Any, s: State, out: Floats) -> None:
    """The same of every arm."""
    for a in range(out.size):
        out[a] = own_radius(params[0], s, a)
