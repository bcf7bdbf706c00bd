"""How far the estimate can be from the truth where each arm has a model of its own: a radius for each model.

With k arms of p features each, V has k blocks V_b, and each model's own confidence set has the radius

    beta_b = noise sqrt(2 log(k/delta) + log det V_b - p log ridge) + sqrt(ridge) bound.

An action that holds features of several of them is away by sqrt(sum beta_b^2) of its width, at the most. Arms
whose features were played together are one model from then on, of all their features.

Where arms share features besides, whose block S of R comes last, log det S - q log ridge is added to each:
that is V as an action of one arm knows it. By this an explorer may score. No theorem makes it a bound.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

from linoto.core.arrays import Floats
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.estimate import block_begin, block_end
from linoto.core.kernels.layout import GROWN, PLACE, State


@inner
def growth_of(p: Any, s: State, begin: int, end: int) -> float:
    """log det of a part of V, less that of the ridge."""
    grown, found = s.vectors[GROWN], 0.0
    for i in range(begin, end):
        found += grown[i]
    return float(max(found - (end - begin) * log(p.ridge), 0.0))


@inner
def model_of(s: State, feature: int) -> tuple[int, int]:
    """Where features that are learnt together with this one begin and end: those of an arm, or several."""
    own, border = s.run[0].own_features, s.run[0].border
    begin = feature // own * own
    end = begin + own
    while block_begin(s, begin) < begin:
        begin = block_begin(s, begin) // own * own
    while end < border and block_end(s, end - 1) > end:
        end = min((block_end(s, end - 1) + own - 1) // own * own, border)
    return begin, end


@inner
def own_radius(p: Any, s: State, arm: int) -> float:
    """The radius for one action: of all models of which it has features, each with what arms share."""
    own, d, border, column = s.run[0].own_features, s.vectors.shape[1], s.run[0].border, s.actions[:, arm]
    first = i = int(s.arms[PLACE, arm])
    last = first + column.size - (d - border)
    level, squares = 2.0 * (p.level + log(border / own)) + growth_of(p, s, border, d), 0.0
    while i < last:
        if column[i - first] == 0.0:
            i += 1
            continue
        begin, end = model_of(s, i)
        radius = p.noise * sqrt(level + growth_of(p, s, begin, end)) + p.bias
        squares += radius * radius
        i = end
    return sqrt(squares) if squares > 0.0 else p.noise * sqrt(level) + p.bias


@compiled
def own_radii(params: Any, s: State, out: Floats) -> None:
    """The same of every arm."""
    for a in range(out.size):
        out[a] = own_radius(params[0], s, a)
