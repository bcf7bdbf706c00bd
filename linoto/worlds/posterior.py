"""Which average rewards could have written a log: draws from their posterior."""

from __future__ import annotations

from math import lgamma, sqrt
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.offline import Offline
from linoto.core.one_hot import find_one_hot
from linoto.worlds.reward_laws import RewardLaw

SPREADS = np.geomspace(1 / 64, 8, 28)  # how much arms may differ, in units of `usual_spread`
LEVELS = np.linspace(-4, 4, 17)  # where their common level may lie, in standard errors of log odds
CENTRE = 1 / 3  # of the usual spread: the prior's median
# Of the variance between arms, what features with a level leave out: half of it, or all. Logged arms are
# often the good ones, which are alike, and then features seem to explain them. With shares down to 0 the
# worlds believed it, and 29 % of flights problems earned less than was foretold (docs/preview.md).
OWN_SHARES = (0.5, 1.0)
MANY = 1e4  # standard deviations: a prior that says nothing about the level
# How well whoever chose the logged arms knew which are good: the correlation of what was believed with what
# is true. Chosen for being good, anything from nothing to everything may have been known.
LoggedArms = Literal["good", "random", "best"]  # how they were chosen: for being good, at random, as the best
KNOWN: dict[LoggedArms, tuple[float, ...]] = {
    "good": (0.0, 1 / 3, 2 / 3, 1.0),
    "random": (0.0,),
    "best": (1.0,),
}
LOGGED_ARMS = tuple(KNOWN)

log_gamma = np.frompyfunc(lgamma, 1, 1)


class Choice(NamedTuple):
    """What choosing arms makes of them, in units of the spread between all: see `choices`."""

    logged: float  # standard deviation between logged arms
    untried: float  # between the others
    apart: float  # how far the others are below, on average


EVERY = Choice(1.0, 1.0, 0.0)


class Draws(NamedTuple):
    """What could have written the log, and the standard deviation between average rewards in each."""

    values: Floats  # (worlds, k) average rewards of arms, or (worlds, d) parameters of a linear model
    spreads: Floats  # (worlds,)


def draw_means(
    actions: Floats,
    offline: Offline,
    law: RewardLaw,
    *,
    worlds: int,
    rng: np.random.Generator,
    prior: float | None = None,
    logged_arms: LoggedArms = "random",
) -> Draws:
    """Average rewards of all arms, drawn from their posterior.

    How much arms differ is drawn too, from what the log leaves possible: few rewards do not tell it.
    `prior` fixes it instead. `logged_arms` says how they were chosen, one of LOGGED_ARMS.
    """
    cases = spread_cases(offline, law, prior, logged_arms)
    alone = are_unrelated(actions)
    if alone and law.limits is not None:
        found = draw_shares(offline, law, cases, worlds, rng)
    else:
        found = draw_normal(actions, offline, law, cases, worlds, rng, alone=alone)
    return capped(found, offline) if logged_arms == "best" else found


class Case(NamedTuple):
    """How much arms differ, and how the logged ones were chosen among them."""

    logged: float  # standard deviation between logged arms: what the log tells
    choice: Choice
    weight: float  # log of the prior

    @property
    def spread(self) -> float:
        """The standard deviation between all arms."""
        return self.logged / self.choice.logged


def spread_cases(
    offline: Offline, law: RewardLaw, prior: float | None, logged_arms: LoggedArms
) -> list[Case]:
    """Everything that may be: a grid of what the log tells, times how well the arms were known."""
    usual = usual_spread(offline, law)
    found = []
    for choice in choices(int((offline.pulls > 0).sum()), offline.pulls.size, logged_arms):
        for logged in (SPREADS * usual if prior is None else np.array([prior * choice.logged])).tolist():
            found.append(Case(logged, choice, float(log_prior(logged / choice.logged, usual))))
    return found


def log_prior(spread: Any, usual: float) -> Any:
    """The logarithm of the density of a spread: half-Cauchy (Gelman, 2006), on a grid even in logarithms."""
    return np.log(spread) - np.log1p((spread / (CENTRE * usual)) ** 2)


def choices(logged: int, k: int, logged_arms: LoggedArms) -> list[Choice]:
    """What is possible of so many logged arms of k that were chosen in this way.

    If the q of k arms with the largest scores are logged, and scores have the correlation r with normal
    means, then with z the point that a share f = q / k of a normal law exceeds, and phi its density there:
    logged means are r phi / f above the average and the others r phi / (1 - f) below it, and their variances
    are smaller by the factors 1 - r^2 a (a - z) with a = phi / f, and 1 - r^2 b (b + z) with b = phi / (1 -
    f).
    """
    if not 0 < logged < k:
        return [EVERY]
    share = logged / k
    z = NormalDist().inv_cdf(1 - share)
    above, below = (NormalDist().pdf(z) / part for part in (share, 1 - share))
    return [
        Choice(
            logged=sqrt(1 - r**2 * above * (above - z)),
            untried=sqrt(1 - r**2 * below * (below + z)),
            apart=r * (above + below),
        )
        for r in KNOWN[logged_arms]
    ]


def capped(found: Draws, offline: Offline) -> Draws:
    """The same worlds, where no arm that the log never tried is better than the worst that it did."""
    seen = offline.pulls > 0
    if not seen.any():
        return found
    worst = found.values[:, seen].min(axis=1, keepdims=True)
    return Draws(np.where(seen, found.values, np.minimum(found.values, worst)), found.spreads)


def draw_normal(
    actions: Floats,
    offline: Offline,
    law: RewardLaw,
    cases: list[Case],
    worlds: int,
    rng: np.random.Generator,
    *,
    alone: bool,
) -> Draws:
    """Average rewards from normal posteriors, by features where there are some."""
    level = alone or have_level(actions)
    shares = (1.0,) if alone else OWN_SHARES if level else (0.0,)
    fits = {
        (spread, own): fit_normal(actions, offline, law, spread=spread, own=own, level=level)
        for spread in dict.fromkeys(case.logged for case in cases)
        for own in shares
    }
    known = [(case, own, fits[case.logged, own]) for case in cases for own in shares]
    chosen = choose(np.array([case.weight + fit.evidence for case, _, fit in known]), worlds, rng)
    means = np.array([fit.draw(rng, case, own) for case, own, fit in (known[i] for i in chosen)])
    limited = means if law.limits is None else np.clip(means, *law.limits)
    return Draws(limited, np.array([known[i][0].spread for i in chosen]))


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
    units = find_one_hot(actions)
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
    seen: Bools  # (k,) arms that the log tried

    def draw(self, rng: np.random.Generator, case: Case, own: float) -> Floats:
        """(k,) average rewards; of what is an arm's own, untried ones have less."""
        weights = np.linalg.solve(self.root.T, self.half + rng.standard_normal(self.half.size))
        means = self.design @ weights
        around = self.share * (self.logged - means) + self.left * rng.standard_normal(means.size)
        _, narrowed, below = case.choice
        narrowed, below = narrowed / case.choice.logged, own * below * case.spread
        return np.asarray(means + np.where(self.seen, around, narrowed * around - below))


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
        seen=seen,
    )


# -- beta: unrelated arms between two limits --------------------------------------------------------------


def draw_shares(
    offline: Offline, law: RewardLaw, cases: list[Case], worlds: int, rng: np.random.Generator
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
    evidence: dict[float, tuple[Floats, Floats]] = {}
    for spread in dict.fromkeys(case.logged / (high - low) for case in cases):
        error = np.sqrt(level * (1 - level) / (rows.sum() + 1) + spread**2 / max(seen.sum(), 1))
        step = min(error / (level * (1 - level)), 1.0)  # in log odds
        centres = 1 / (1 + (1 - level) / level * np.exp(-LEVELS * step))
        ones, zeros = (part[:, None] for part in beta_shapes(centres, spread))
        found = log_beta(ones + hits[seen], zeros + misses[seen]) - log_beta(ones, zeros)
        flat = np.log(centres * (1 - centres) * step)  # the grid is even in log odds, the prior in the level
        evidence[spread] = centres, found.sum(axis=1) + flat
    known = [(case, *evidence[case.logged / (high - low)]) for case in cases]
    chosen = choose(np.concatenate([case.weight + found for case, _, found in known]), worlds, rng)
    means = np.empty((worlds, rows.size))
    for world, place in enumerate(chosen):
        case, centres, _ = known[place // LEVELS.size]
        centre = centres[place % LEVELS.size]
        ones, zeros = beta_shapes(centre, case.logged / (high - low))
        lower = below_odds(centre, case.choice.apart * case.spread / (high - low))
        narrow = (
            case.choice.untried * case.spread / (high - low) * lower * (1 - lower) / centre / (1 - centre)
        )
        others, rest = beta_shapes(lower, narrow)
        means[world] = rng.beta(np.where(seen, ones + hits, others), np.where(seen, zeros + misses, rest))
    spreads = np.array([known[place // LEVELS.size][0].spread for place in chosen])
    return Draws(low + (high - low) * means, spreads)


def beta_shapes(centre: Any, spread: Any) -> tuple[Any, Any]:
    """Both shapes of a Beta law with this mean and standard deviation, as far as there is one."""
    strength = np.maximum(centre * (1 - centre) / spread**2 - 1, 0.05)
    return centre * strength, (1 - centre) * strength


def below_odds(centre: float, distance: float) -> float:
    """A share that is so far below another where shares are near it, and never below 0."""
    return float(1 / (1 + (1 - centre) / centre * np.exp(min(distance / (centre * (1 - centre)), 30.0))))


def log_beta(a: Floats, b: Floats) -> Floats:
    """The logarithm of the beta function."""
    return np.asarray(log_gamma(a) + log_gamma(b) - log_gamma(a + b), dtype=np.float64)
