"""Which average rewards could have written a log: draws from their posterior."""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple

import numpy as np

from linoto.core.kernels import Floats, Ints
from linoto.core.offline import Offline
from linoto.core.units import find_units
from linoto.worlds.reward_laws import RewardLaw

SPREADS = np.geomspace(1 / 64, 8, 28)  # how much arms may differ, in units of `usual_spread`
LEVELS = np.linspace(-4, 4, 17)  # where their common level may lie, in standard errors of log odds
CENTRE = 1 / 3  # of the usual spread: the prior's median
# Of the variance between arms, what features with a level leave out: half of it, or all. Logged arms are
# often the good ones, which are alike, and then features seem to explain them. With shares down to 0 the
# worlds believed it, and 29 % of flights problems earned less than was foretold (docs/preview.md).
OWN_SHARES = (0.5, 1.0)
MANY = 1e4  # standard deviations: a prior that says nothing about the level

log_gamma = np.frompyfunc(lgamma, 1, 1)


class Draws(NamedTuple):
    """Average rewards that could have written the log, and the standard deviation between arms in each."""

    means: Floats  # (worlds, k)
    spreads: Floats  # (worlds,)


def draw_means(
    actions: Floats,
    offline: Offline,
    law: RewardLaw,
    *,
    worlds: int,
    rng: np.random.Generator,
    prior: float | None = None,
) -> Draws:
    """Average rewards of all arms, drawn from their posterior.

    How much arms differ is drawn too, from what the log leaves possible: few rewards do not tell it.
    `prior` fixes it instead.
    """
    usual = usual_spread(offline, law)
    spreads = SPREADS * usual if prior is None else np.array([prior])
    weights = np.log(spreads) - np.log1p((spreads / (CENTRE * usual)) ** 2)  # half-Cauchy, Gelman (2006)
    alone = are_unrelated(actions)
    if alone and law.limits is not None:
        return draw_shares(offline, law, spreads, weights, worlds, rng)
    level = alone or have_level(actions)
    shares = (1.0,) if alone else OWN_SHARES if level else (0.0,)
    fits = [
        fit_normal(actions, offline, law, spread=spread, own=own, level=level)
        for spread in spreads.tolist()
        for own in shares
    ]
    evidence = np.array([fit.evidence for fit in fits])
    chosen = choose(np.repeat(weights, len(shares)) + evidence, worlds, rng)
    means = np.array([fits[i].draw(rng) for i in chosen])
    limited = means if law.limits is None else np.clip(means, *law.limits)
    return Draws(limited, np.repeat(spreads, len(shares))[chosen])


def usual_spread(offline: Offline, law: RewardLaw) -> float:
    """How much arms may well differ: as one reward scatters, or as far as the level is from a limit."""
    if law.limits is None or offline.total == 0:
        return law.noise
    low, high = law.limits
    least = min(law.variance / (high - low), high - low)  # where no reward, or every one, was at the limit
    return float(min(law.noise, max(offline.reference - low, least), max(high - offline.reference, least)))


def choose(log_weights: Floats, worlds: int, rng: np.random.Generator) -> Ints:
    """(worlds,) places, each as often as its weight says."""
    weights = np.exp(log_weights - log_weights.max())
    return rng.choice(weights.size, size=worlds, p=weights / weights.sum())


def are_unrelated(actions: Floats) -> bool:
    """Whether no arm says anything about another, as one-hot arms do."""
    k, d = actions.shape
    if d < k:
        return False
    units = find_units(actions)
    if units is not None:  # no array of k x k
        return bool(np.ptp(units.scales**2) <= 1e-9 * (units.scales**2).max())
    products = actions @ actions.T
    squares = np.diag(products).copy()
    np.fill_diagonal(products, 0.0)
    return bool(max(np.abs(products).max(), np.ptp(squares)) <= 1e-9 * squares.max())


def have_level(actions: Floats) -> bool:
    """Whether the features can say the same for every arm, as with an intercept."""
    ones = np.ones(len(actions))
    weights, *_ = np.linalg.lstsq(actions, ones, rcond=None)
    return bool(np.abs(actions @ weights - ones).max() < 1e-8)


# -- normal: arms around a level, by their features or each on its own ------------------------------------


class NormalFit(NamedTuple):
    """The posterior of average rewards for one spread between arms."""

    evidence: float  # log probability of the log, up to a constant
    design: Floats  # (k, p) level and features
    root: Floats  # (p, p) Cholesky factor of the precision of the weights
    half: Floats  # (p,) root @ half is the right-hand side
    logged: Floats  # (k,) average logged reward, 0 where there is none
    share: Floats  # (k,) of an arm's own average in its mean, beside the design's
    left: Floats  # (k,) standard deviation that remains

    def draw(self, rng: np.random.Generator) -> Floats:
        """(k,) average rewards."""
        weights = np.linalg.solve(self.root.T, self.half + rng.standard_normal(self.half.size))
        means = self.design @ weights
        own = self.share * (self.logged - means)
        return np.asarray(means + own + self.left * rng.standard_normal(means.size))


def fit_normal(
    actions: Floats, offline: Offline, law: RewardLaw, *, spread: float, own: float, level: bool
) -> NormalFit:
    """Weighted ridge regression of the arms' averages, with the evidence for this spread.

    A share `own` of the variance between arms is each arm's own, the rest comes from its features.
    """
    k, pulls = len(actions), np.maximum(offline.pulls, 1)
    seen = offline.pulls > 0
    averages = np.where(seen, offline.reward_sums / pulls, 0.0)
    # The variance of an arm is never said to be less than that of all: few rows of a heavy tail look calm.
    error = np.maximum(law.variances, law.variance) / pulls
    apart = own * spread**2
    parts = []
    if own < 1:
        precision = (actions**2).sum(axis=1).mean() / ((1 - own) * spread**2)
        parts.append((actions, np.full(actions.shape[1], precision)))
    if level:
        width = law.noise if not seen.any() else MANY * (law.noise + np.abs(averages).max())
        parts.insert(0, (np.ones((k, 1)), np.array([width**-2])))
    design = np.column_stack([columns for columns, _ in parts])
    prior = np.concatenate([known for _, known in parts])
    weight = np.where(seen, 1 / (error + apart), 0.0)
    root = np.linalg.cholesky(design.T @ (weight[:, None] * design) + np.diag(prior))
    half = np.linalg.solve(root, design.T @ (weight * averages))
    log_det = np.log(prior).sum() + np.log(weight[seen]).sum() - 2 * np.log(np.diag(root)).sum()
    return NormalFit(
        evidence=float(log_det + half @ half - weight @ averages**2) / 2,
        design=design,
        root=np.asarray(root, dtype=np.float64),
        half=half,
        logged=averages,
        share=apart * weight,
        left=np.sqrt(np.where(seen, apart * error * weight, apart)),
    )


# -- beta: unrelated arms between two limits --------------------------------------------------------------


def draw_shares(
    offline: Offline, law: RewardLaw, spreads: Floats, weights: Floats, worlds: int, rng: np.random.Generator
) -> Draws:
    """Average rewards of unrelated arms from beta distributions, over a grid of their level and spread.

    Rewards of another variance than clicks would have count for as many clicks as are equally uncertain.
    """
    assert law.limits is not None
    low, high = law.limits
    hits = np.maximum(offline.reward_sums - low * offline.pulls, 0.0) / (high - low)
    level = float(hits.sum() + 0.5) / (offline.total + 1)
    worth = level * (1 - level) * (high - low) ** 2 / law.variance
    hits, rows = worth * hits, worth * offline.pulls
    misses = np.maximum(rows - hits, 0.0)
    seen = offline.pulls > 0
    shapes, found = [], []
    for spread, weight in zip(spreads / (high - low), weights, strict=True):
        error = np.sqrt(level * (1 - level) / (rows.sum() + 1) + spread**2 / max(seen.sum(), 1))
        step = min(error / (level * (1 - level)), 1.0)  # in log odds
        centres = 1 / (1 + (1 - level) / level * np.exp(-LEVELS * step))
        strength = np.maximum(centres * (1 - centres) / spread**2 - 1, 0.05)
        ones, zeros = (centres * strength)[:, None], ((1 - centres) * strength)[:, None]
        evidence = log_beta(ones + hits[seen], zeros + misses[seen]) - log_beta(ones, zeros)
        flat = np.log(centres * (1 - centres) * step)  # the grid is even in log odds, the prior in the level
        shapes.append(np.column_stack([ones, zeros, np.full(centres.size, spread)]))
        found.append(evidence.sum(axis=1) + flat + weight)
    chosen = choose(np.concatenate(found), worlds, rng)
    ones, zeros, spread = np.concatenate(shapes)[chosen].T
    drawn = rng.beta(ones[:, None] + hits, zeros[:, None] + misses)
    return Draws(low + (high - low) * drawn, (high - low) * spread)


def log_beta(a: Floats, b: Floats) -> Floats:
    """The logarithm of the beta function."""
    return np.asarray(log_gamma(a) + log_gamma(b) - log_gamma(a + b), dtype=np.float64)
