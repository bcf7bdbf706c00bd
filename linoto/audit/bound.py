"""How long the parameter is, as far as a log can tell."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import numpy.typing as npt

from linoto.audit.directions import directions_of
from linoto.core.offline import Offline, as_offline
from linoto.core.validation import as_actions


def propose_bound(actions: npt.ArrayLike, offline: Offline, *, noise: float, delta: float = 0.05) -> float:
    """A length that the parameter should not exceed, in the coordinates of the actions as they are.

    Along the directions the log knows: the length of the least-squares parameter plus what noise can hide,
    with probability 1 - delta (Hsu, Kakade and Zhang, 2012). Other directions of the arm set are taken to be
    as long as these on average, which is a guess.
    """
    arms = as_actions(actions)
    offline, directions = as_offline(offline, len(arms)), directions_of(arms)
    line = directions.regress(offline)
    if line.rank == 0:
        return 1.0
    spread = (noise * line.widths) ** 2
    level = log(1 / delta)
    hidden = spread.sum() + 2 * sqrt(level * float((spread**2).sum())) + 2 * level * float(spread.max())
    whole = line.rank == min(arms.shape)  # then it is all that arms have, and nothing need be counted
    share = 1.0 if whole else sqrt(directions.count / line.rank)
    # without an intercept a fit may miss even the mean of the log
    least = abs(offline.reference) / directions.longest
    return max(float((np.linalg.norm(line.along) + sqrt(hidden)) * share), least)


def shortest_parameter(actions: npt.ArrayLike, offline: Offline, *, noise: float, delta: float) -> float:
    """A length that the parameter does not fall below, with probability 1 - delta.

    The shortest point of the ellipsoid around the least-squares parameter; its radius is that of Hsu, Kakade
    and Zhang (2012) for a noise of this sub-Gaussian scale.
    """
    from scipy.special import expit  # type: ignore[import-untyped]

    arms = as_actions(actions)
    line = directions_of(arms).regress(as_offline(offline, len(arms)))
    if line.rank == 0:
        return 0.0
    level, r = log(1 / delta), line.rank
    radius = noise**2 * (r + 2 * sqrt(level * r) + 2 * level)
    along, sizes = line.by_axes
    widths = sizes**2
    if float((along**2 / widths).sum()) <= radius:
        return 0.0
    low, high = -300.0, 300.0  # the shortest point is along / (1 + widths * 10^x) for some x
    while high - low > 1e-9:
        middle = (low + high) / 2
        kept = expit(-middle * log(10) - np.log(widths))
        if float((((1 - kept) * along) ** 2 / widths).sum()) > radius:
            high = middle
        else:
            low = middle
    return float(np.linalg.norm(kept * along))
