"""Small problems, and the settings of property tests, that several test files share."""

from __future__ import annotations

import numpy as np
from hypothesis import settings

from linoto import LinearBandit, Offline, logged_pulls, sphere_bandit

# The same examples every time; no deadline, because the first one may have to compile.
LAWS = settings(derandomize=True, deadline=None, max_examples=30, database=None)


def problem(
    seed: int, *, k: int = 20, d: int = 5, m: int = 60, arms: int = 8, noise: float = 1.0
) -> tuple[LinearBandit, Offline]:
    """A world on the unit sphere and a log of m pulls of a few arms: rank-deficient if fewer than d."""
    rng = np.random.default_rng(seed)
    bandit = sphere_bandit(k=k, d=d, rng=rng, noise=noise)
    return bandit, bandit.log(logged_pulls(bandit, m=m, arms=arms, rng=rng), rng)


def bernoulli_problem(seed: int, *, k: int = 8, d: int = 3, m: int = 40) -> tuple[LinearBandit, Offline]:
    """A world of clicks: nonnegative actions and a parameter that keep every mean inside [0, 1]."""
    rng = np.random.default_rng(seed)
    bandit = LinearBandit(actions=rng.random((k, d)) / d, theta=rng.random(d), rewards="bernoulli")
    return bandit, bandit.log(logged_pulls(bandit, m=m, arms=4, rng=rng), rng)
