"""A policy learnt from logged rows: by doubly robust scores, or by pessimism.

With contexts x(c, a) are the features of arm a by the recipe of the rows; without, each arm is a feature of
its own. A policy is a parameter: it plays the arm on offer with the largest <theta, x>. Rewards are taken as
what they are beyond the least of them, in standard deviations: neither their unit nor their zero changes what
is played, and what little is known of is shrunk towards the least, not towards the mean.

"doubly robust" (Dudík et al. 2011; Athey and Wager 2021): every arm of every row has a score that is on
average what it earns there, s(c, a) = model(c, a) + [a played] w (y - model(c, a)) with w = 1 / propensity,
where the model is that of the other folds. The parameter is the one whose line is nearest to all scores. A
weight is at most `clip` (Ionides 2008: the square root of the number of rows); of what is cut off, the model
is believed.

"pessimistic": between two parameters, one for what rewards recommend (by least squares on what was played, or
as above) and one for what was done, whose line is nearest to 1 for the played arm and to 0 for the others.
Where between them is chosen by the largest lower bound of what the policy earns, by folds that it was not
learnt from, where what no row shows counts as the least reward: the mean of w (y - least) over all rows, 0 in
those where it plays another arm than was played, less so many standard errors (Thomas et al. 2015;
Swaminathan and Joachims 2015). On few rows that is near to what was done, on many near to what is best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.intervals import check_level
from linoto.core.learnt import LearntPolicy
from linoto.core.validation import check_choice, check_count, check_positive
from linoto.logs.fits import Fitted, fit_other_folds
from linoto.logs.plays import OneArm
from linoto.logs.row_features import gram_of
from linoto.logs.row_kinds import MOST_CELLS, ridge_estimate
from linoto.logs.rows import Rows
from linoto.logs.targets import (
    DOUBLY_ROBUST,
    GREEDY,
    LEARNING,
    PESSIMISTIC,
    choices_of,
    needed_propensities,
)

MODELS = ("least squares", DOUBLY_ROBUST)  # of rewards
IMITATIONS = (1.0, 0.9, 0.75, 0.5, 0.25, 0.0)  # shares of what was done; of equals the first is taken


def learn_policy(
    rows: Rows,
    *,
    method: str = PESSIMISTIC,
    ridge: float = 1.0,
    folds: int = 5,
    clip: float | None = None,
    level: float = 0.95,
) -> LearntPolicy:
    """The policy that logged rows recommend: by "doubly robust" scores, or a "pessimistic" one.

    Rows must have `propensities`, and none weighs more than `clip`, by default the square root of the number
    of rows. A pessimistic one has the largest lower bound (at a `level`) on what it earns, among policies
    between what was done and what rewards recommend: few rows leave it near to what was done. The `ridge`
    counts rows.

    What is learnt is a function of a context and the arms on offer, an explorer for any gate, and a target of
    `evaluate`, for other rows than these; `evaluate(rows, "pessimistic")` learns from earlier rows itself.

    >>> rows = Rows(arms=[0, 1] * 50, rewards=[0.0, 1.0] * 50, k=2, names=["A", "B"], propensities="uniform")
    >>> learn_policy(rows)({}, ["A", "B"])
    'B'
    """
    check_choice("method", method, LEARNING)
    check_positive("ridge", ridge)
    check_count("folds", folds)
    check_level(level)
    if clip is not None:
        check_positive("clip", clip)
    if len(rows) < 2 or folds < 2:
        raise ValueError(f"rows and folds must be at least two to learn from, got {min(len(rows), folds)}")
    known = rows.in_contexts()
    if max(len(rows), known.known_recipe.d) * max(known.k, known.known_recipe.d) > MOST_CELLS:
        raise ValueError(f"rows, arms and features must be at most {MOST_CELLS:,} in a table, got more")
    weights = 1 / needed_propensities(rows, "learning")
    most = sqrt(len(rows)) if clip is None else float(clip)
    kept = np.minimum(weights, most)
    sums = FoldSums.of(known, kept, ridge=ridge, folds=min(folds, len(rows)))
    mixture = Mixture(DOUBLY_ROBUST, 0.0) if method == DOUBLY_ROBUST else sums.most_surely(kept, level)
    return LearntPolicy(
        recipe=known.known_recipe,
        theta=tuple(mixture.of(sums.parameters(range(len(sums.parts)))).tolist()),
        method=method,
        model=mixture.model,
        imitation=mixture.imitation,
        rows=len(rows),
        clip=most,
        clipped=int((weights > most).sum()),
        built_by=rows.numbered().fingerprint,
    )


@dataclass(frozen=True)
class Mixture:
    """Of what rewards recommend, by a model, and what was done, with the share of the latter."""

    model: str
    imitation: float

    def of(self, parts: Floats) -> Floats:
        """The mixture of what belongs to least squares, to doubly robust scores and to what was done."""
        done, rewarding = parts[-1], parts[MODELS.index(self.model)]
        return np.asarray((1 - self.imitation) * rewarding + self.imitation * done)


@dataclass(frozen=True, kw_only=True, eq=False)
class FoldSums:
    """All that parameters need of each fold: sums over what was played, and over every arm on offer."""

    rows: Rows  # with rewards beyond the least one, in standard deviations
    ridge: float
    parts: Sequence[Ints]  # the positions of the rows of each fold
    played: Sequence[tuple[Floats, Floats]]  # of each fold: (d, d) X'X and (d,) X'y of what was played
    every: Sequence[tuple[Floats, Floats]]  # of every arm: X'X, and (d, 2) X's of scores and of what was done

    @classmethod
    def of(cls, rows: Rows, weights: Floats, *, ridge: float, folds: int) -> FoldSums:
        """Of rows in a recipe; row i is in fold i mod folds."""
        deviation = float(rows.rewards.std()) or 1.0
        known = replace(rows, rewards=(rows.rewards - rows.rewards.min()) / deviation)
        scores = doubly_robust_scores(known, weights, ridge, folds)
        parts = [np.arange(fold, len(rows), folds) for fold in range(folds)]
        return cls(
            rows=known,
            ridge=ridge,
            parts=parts,
            played=[known.sums(part) for part in parts],
            every=[sums_of_every_arm(known.take(part), scores[part]) for part in parts],
        )

    def parameters(self, folds: Sequence[int]) -> Floats:
        """(3, d) of some folds: what rewards recommend, by each model, and what was done."""
        d, k = self.rows.known_recipe.d, self.rows.k
        played, every = ([sums[fold] for fold in folds] for sums in (self.played, self.every))
        by_every_arm = ridge_estimate(every, self.ridge * k, d)  # of k arms one was played
        return np.vstack([ridge_estimate(played, self.ridge, d), by_every_arm.T])

    def most_surely(self, weights: Floats, level: float) -> Mixture:
        """The mixture with the largest lower bound on what it earns, by folds it was not learnt from."""
        earned = weights * self.rows.rewards
        deviations, tables = NormalDist().inv_cdf(level), self.scores_by_others()

        def least(mixture: Mixture) -> float:
            terms = earned * (self.rows.best(mixture.of(tables)) == self.rows.arms)
            return float(terms.mean() - deviations * terms.std(ddof=1) / sqrt(terms.size))

        return max((Mixture(model, share) for share in IMITATIONS for model in MODELS), key=least)

    def scores_by_others(self) -> Floats:
        """(3, n, k) what the parameters of the other folds say of every arm."""
        found = np.empty((3, len(self.rows), self.rows.k))
        for fold, part in enumerate(self.parts):
            rows, others = self.rows.take(part), [*range(fold), *range(fold + 1, len(self.parts))]
            for table, theta in zip(found, self.parameters(others), strict=True):
                table[part] = rows.scores(theta)
        return found


def doubly_robust_scores(rows: Rows, weights: Floats, ridge: float, folds: int) -> Floats:
    """(n, k) what each arm would have earned in each row, on average: by a model, and what was seen of it."""
    fitted = fit_other_folds(rows, folds=folds, ridge=ridge)
    scores = np.empty((len(rows), rows.k))
    for at, predicted in zip(fitted.parts, fitted.predicted, strict=True):
        scores[at] = predicted
    scores[np.arange(len(rows)), rows.arms] += weights * (rows.rewards - fitted.of_played())
    return scores


def sums_of_every_arm(rows: Rows, scores: Floats) -> tuple[Floats, Floats]:
    """Over every arm on offer in every row: (d, d) X'X, and (d, 2) X's of scores and of what was done."""
    d, done = rows.known_recipe.d, np.eye(rows.k)[rows.arms]
    gram, vectors = np.zeros((d, d)), np.zeros((d, 2))
    for part, features in rows.every_arm():
        offered = rows.on_offer(part).ravel()
        gram += gram_of(features.of(offered), d)
        for column, table in enumerate((scores[part], done[part])):
            vectors[:, column] += features.weighted_sum(table.ravel() * offered, d)
    return gram, vectors


def said_of_blocks(method: str, blocks: int, before: Rows) -> str:
    """From which rows it is learnt, where that is block by block."""
    return f"{method}, before each of {blocks - 1} blocks from all earlier rows; {len(before)} judge nothing"


def choices_by_block(rows: Rows, fitted: Fitted, method: str, ridge: float) -> OneArm:
    """What is played in each block after the first by what is learnt from all rows before it."""
    if method == GREEDY:
        return fitted.choices()
    first = len(rows) - len(fitted.rows)
    arms = [
        choices_of(
            learn_policy(rows.take(np.arange(first + part[0])), method=method, ridge=ridge),
            fitted.rows.take(part),
        ).arms
        for part in fitted.parts
    ]
    return OneArm(np.concatenate(arms), rows.k)
