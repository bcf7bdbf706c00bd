"""What a log with contexts knows: which directions of its features, and more than the means of its items?"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from statistics import NormalDist

import numpy as np

from linoto.audit.adaptive import SHARE_LEVEL, share_p
from linoto.audit.assume import limits_of_rewards
from linoto.audit.coverage import SHOWN_DIRECTIONS, main_features
from linoto.audit.noise import LEVEL
from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.intervals import mean_from_total
from linoto.logs.estimates import count_events
from linoto.logs.fits import fit_other_folds, means_of
from linoto.logs.read import Log
from linoto.logs.rows import Rows

NOTHING = 1e-9  # of the largest eigenvalue: what is smaller is rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class ContextCoverage:
    """Which directions of the possible features the log has looked into."""

    eigenvalues: Floats  # of the logged design, ascending, one for each direction that features can have
    rank: int  # directions the log knows at all
    weak: int  # directions of which it says less than the ridge does
    ridge: float
    effective: float  # the sum of eigenvalue / (eigenvalue + ridge): so many features the log determines
    unseen: tuple[str, ...]  # features that are 0 in all rows
    weakest: tuple[tuple[str, ...], ...]  # what the least known directions are made of


def find_context_coverage(recipe: Recipe, moments: Moments, *, ridge: float) -> ContextCoverage:
    """The spectrum of X'X within what features can be: one-hot features have sums that never change."""
    possible = possible_rows(recipe)
    sizes, axes = np.linalg.eigh(possible.T @ possible)
    basis = axes[:, sizes > NOTHING * sizes[-1]]
    eigenvalues, directions = np.linalg.eigh(basis.T @ moments.gram @ basis)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    known = eigenvalues > NOTHING * eigenvalues[-1]
    weak = int((eigenvalues < ridge).sum())
    named = (main_features(basis @ directions[:, place]) for place in range(min(weak, SHOWN_DIRECTIONS)))
    return ContextCoverage(
        eigenvalues=np.where(known, eigenvalues, 0.0),
        rank=int(known.sum()),
        weak=weak,
        ridge=ridge,
        effective=float((eigenvalues / (eigenvalues + ridge)).sum()),
        unseen=tuple(
            name for name, size in zip(recipe.names, np.diag(moments.gram), strict=True) if size == 0
        ),
        weakest=tuple(tuple(recipe.names[feature] for feature in features) for features in named),
    )


def possible_rows(recipe: Recipe) -> Floats:
    """(n, d) features of made-up contexts and items that together span all there can be.

    Each feature is there once on purpose; all the rest of a row is drawn.
    """
    rng = np.random.default_rng(0)
    n = 3 * recipe.d
    levels = {column.name: len(column.labels) for column in recipe.context if column.leveled}
    if recipe.items:
        levels[recipe.item] = len(recipe.items)
    codes = {name: rng.integers(0, count, n) for name, count in levels.items()}
    for term, place in recipe.slices.items():
        leveled = [name for name in term if name in levels]
        shape = [levels[name] for name in leveled]
        cells = np.indices(shape).reshape(len(shape), prod(shape))
        for name, code in zip(leveled, cells, strict=True):
            codes[name][place.start : place.start + len(code)] = code[: place.stop - place.start]
    factors = {name: np.eye(levels[name])[code] for name, code in codes.items() if name != recipe.item}
    for name, matrix in recipe.item_matrices.items():
        factors[name] = matrix[codes[recipe.item]]
    for name, labels in recipe.labels.items():
        factors.setdefault(name, rng.normal(size=(n, len(labels))))
    return recipe.assemble(factors, n)


def find_mean_interval(log: Log, known: Confidence | None) -> tuple[float, float] | None:
    """Where the true mean of what was logged lies, however items were chosen; None without a range."""
    limits = limits_of_rewards(log, known)
    if known is None or limits is None:
        return None
    sums = log.moments
    return mean_from_total(
        sums.reward_sum,
        log.offline.total,
        squares=sums.reward_squares,
        reward_range=limits,
        level=1 - known.delta,
        adaptive=shares_changed(log),
    )


def shares_changed(log: Log) -> bool:
    """Whether items were played late in other shares than early: as in an audit of arms."""
    return share_p(log.early, log.late) < SHARE_LEVEL


@dataclass(frozen=True, kw_only=True)
class ContextGain:
    """How much less a linear model of the context misses held-out rewards by than the means of items do."""

    share: float  # of the squared misses of the means
    low: float
    high: float
    rows: int
    reason: str  # why there are too few events to say, or nothing


def find_gain(rows: Rows, *, folds: int = 5, ridge: float = 1.0) -> ContextGain:
    """Squared misses on rows that neither the model nor the means have seen, row by row."""
    fitted = fit_other_folds(rows, folds=folds, ridge=ridge)
    rewards, means = rows.rewards, np.empty(len(rows))
    for fold, mine in enumerate(fitted.parts):
        others = [part for place, part in enumerate(fitted.parts) if place != fold]
        means[mine] = means_of(rows, others)[rows.arms[mine]]
    before, after = (rewards - means) ** 2, (rewards - fitted.of_played()) ** 2
    _, reason = count_events(rewards, np.ones(len(rows)), "normal")
    if before.mean() == 0:
        return ContextGain(share=0.0, low=0.0, high=0.0, rows=len(rows), reason="means of items miss nothing")
    share = float(1 - after.mean() / before.mean())
    spread = (before - after - share * before) / before.mean()  # the delta method, for a ratio
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * float(spread.std(ddof=1)) / sqrt(len(rows))
    return ContextGain(share=share, low=share - half, high=share + half, rows=len(rows), reason=reason)
