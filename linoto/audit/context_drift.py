"""Early and late rows in the light of their contexts: what other contexts explain is not drift.

One linear model is fitted to both halves. Arms are compared by what it leaves of their rewards
(`at_equal_contexts`); beyond that, what features are worth in either half is compared (`find_turned`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.offline import Offline
from linoto.logs.many_tests import holm
from linoto.logs.read import Log
from linoto.logs.row_features import Sparse, sparse_gram
from linoto.logs.rows import Rows
from linoto.logs.sums import sums_equal_squares

ROUNDING = 1e-9  # of what is compared: less is none
MOST_COMPARED = 3000  # features early and late, and arms: as many take seconds, and time grows with the cube
ENOUGH_LEFT = 0.01  # of what says how an arm changed, that contexts leave
TOO_MANY = f"features early and late, and arms, are more than {MOST_COMPARED:,}"
ROWS_NEEDED = "that takes the rows themselves, all of them and in the order of the log"
Halves = tuple[Offline, Offline]


class Turned(NamedTuple):
    """The comparison of what features are worth early and late, shifts of whole arms set apart."""

    features: Ints  # (q,) those that could be compared
    p: Floats  # (q,) of each, adjusted for their number (Holm)
    overall: float  # of all together

    @property
    def combined(self) -> float:
        """One p-value: half of the false alarms for single features, half for all together."""
        return float(min(2 * min(self.overall, self.p.min()), 1.0))

    def surest(self, level: float) -> Ints:
        """The features that changed at this level, the surest first."""
        order = np.argsort(self.p, kind="stable")
        return np.asarray(self.features[order][2 * self.p[order] < level])


class EqualContexts(NamedTuple):
    """The two halves of a log, as if arms had met the same contexts in both."""

    halves: Halves | None
    late: Bools | None = None  # (n,) of the rows; None where they are not known, or not in this order
    why: str = ""  # why there are no halves to compare


def late_rows(log: Log, rows: Rows | None) -> Bools | None:
    """(n,) which rows are of the late half; None where these are not all rows, in the order of the log."""
    if rows is None or len(rows) != log.offline.total:
        return None
    late = np.arange(len(rows)) >= log.early.total
    found = rows.take(~late).offline if log.early.total else Offline.empty(rows.k)
    same = np.array_equal(found.pulls, log.early.pulls)
    return late if same and np.allclose(found.reward_sums, log.early.reward_sums, rtol=1e-6) else None


def at_equal_contexts(log: Log, rows: Rows | None) -> EqualContexts:
    """What a model of both halves expects of an arm is moved from its half with the better contexts to the
    other."""
    late = late_rows(log, rows)
    sums, theta, inverse = features_by_arm(log, rows, late), *least_squares(log)
    if sums is None:
        return EqualContexts(None, late, f"where arms have no effect of their own, {ROWS_NEEDED}")
    early, after = log.early, log.late
    left = after.pulls - ((sums[1] @ inverse) * sums[1]).sum(axis=1)
    if (left <= ENOUGH_LEFT * early.pulls * after.pulls / np.maximum(log.offline.pulls, 1)).all():
        return EqualContexts(None, late, "what changed cannot be told from what other contexts earn")
    binary = sums_equal_squares(early) and sums_equal_squares(after)
    return EqualContexts((equal_clicks if binary else equal_means)(early, after, sums @ theta), late)


def features_by_arm(log: Log, rows: Rows | None, late: Bools | None) -> Floats | None:
    """(2, k, d) the features of the rows of each arm, added up, early and late; None: nobody knows."""
    place = log.recipe.slices.get((log.recipe.item,))
    if place is not None:
        return np.array([half.gram[place] for half in log.halves])
    if rows is None or late is None:
        return None
    return np.array([added_by_arm(rows, ~late), added_by_arm(rows, late)])


def least_squares(log: Log) -> tuple[Floats, Floats]:
    """(d,) the parameter that fits both halves best, and the inverse of X'X."""
    inverse = inverse_of(log.moments.gram)
    return inverse @ log.moments.reward_vector, inverse


def inverse_of(gram: Floats) -> Floats:
    """The pseudo-inverse, whatever the units of features are."""
    units = np.sqrt(np.where(np.diagonal(gram) > 0, np.diagonal(gram), 1.0))
    scaled = np.linalg.pinv(gram / np.outer(units, units), rcond=1e-10, hermitian=True)
    return np.asarray(scaled / np.outer(units, units))


def equal_means(early: Offline, late: Offline, expected: Floats) -> Halves:
    """Means are moved towards each other by the gap that is expected; the scatter stays as it is."""
    n, m = np.maximum(early.pulls, 1), np.maximum(late.pulls, 1)
    before, after = expected[0] / n, expected[1] / m
    gap = after - before
    gap[np.abs(gap) <= ROUNDING * (np.abs(before) + np.abs(after))] = 0.0
    return shifted(early, gap * m / (n + m)), shifted(late, -gap * n / (n + m))


def shifted(half: Offline, by: Floats) -> Offline:
    """The same with so much more in each reward of an arm."""
    sums, n = half.reward_sums, half.pulls
    squares = np.asarray(half.reward_squares) + 2 * by * sums + n * by**2
    return Offline(pulls=n, reward_sums=sums + n * by, reward_squares=squares)


def equal_clicks(early: Offline, late: Offline, expected: Floats) -> Halves:
    """Of 0/1 rewards the rarer ones stay, and the pulls of an arm are shared as the rarer ones are expected.

    So a half with contexts that click twice as often counts as one with twice as many pulls.
    """
    halves = np.array([early.pulls, late.pulls]), np.array([early.reward_sums, late.reward_sums])
    pulls, rare = halves
    zeros = 2 * rare.sum(axis=0) > pulls.sum(axis=0)
    rare, hoped = np.where(zeros, pulls - rare, rare), np.where(zeros, pulls - expected, expected)
    hoped, total = np.maximum(hoped, 0.0), pulls.sum(axis=0)
    known = hoped.sum(axis=0) > ROUNDING * total
    share = np.where(known, hoped[0], pulls[0]) / np.where(known, hoped.sum(axis=0), np.maximum(total, 1))
    both = (pulls > 0).all(axis=0)
    first = np.clip(np.rint(total * share), np.maximum(rare[0], 1), total - np.maximum(rare[1], 1))
    first = np.where(both, first, pulls[0]).astype(np.int64)
    found = []
    for n, x in ((first, rare[0]), (total - first, rare[1])):
        ones = np.where(zeros, n - x, x)
        found.append(Offline(pulls=n, reward_sums=ones, reward_squares=ones))
    return found[0], found[1]


def are_too_many(log: Log) -> bool:
    """Whether features and arms are too many to compare what each is worth early and late."""
    return 2 * log.recipe.d + len(log.arms.names) > MOST_COMPARED


def find_turned(log: Log, rows: Rows, late: Bools) -> Turned | None:
    """Compare what features are worth in the two halves; None where they say nothing beyond arms.

    A score test: of the model in which every arm may have moved, what is left of rewards is added up over
    late rows, weighted with each feature. The variance of these sums is that of the rows themselves
    (White, 1980), so rows may differ in noise.
    """
    if are_too_many(log):
        return None
    whole, (_, later) = log.moments, log.halves
    d, known = log.recipe.d, slice(0, log.recipe.d + rows.k)
    arms_late = added_by_arm(rows, late)
    gram = joint(whole.gram, later.gram, arms_late, log.late.pulls)
    sums = np.concatenate([whole.reward_vector, log.late.reward_sums, later.reward_vector])
    inverse = inverse_of(gram[known, known])
    fitted = inverse @ sums[known]
    squares = (
        rows.rewards - rows.features.times(fitted[:d]) - np.where(late, fitted[d:][rows.arms], 0.0)
    ) ** 2
    beyond = np.hstack([-gram[d + rows.k :, known] @ inverse, np.eye(d)])
    left, scores = ((beyond @ gram) * beyond).sum(axis=1), beyond @ sums
    free = len(rows) - round(float((inverse * gram[known, known]).sum()))
    usual = np.maximum(rows.features.times(inverse_of(whole.gram) @ added(rows, squares)), 0.0)
    spreads = [
        beyond @ noise_of(rows, late, noise) @ beyond.T * len(rows) / max(free, 1)
        for noise in (squares, usual)
    ]
    told = left > 1e-8 * np.diagonal(later.gram)
    told &= np.minimum(*(np.diagonal(spread) for spread in spreads)) > 0
    if not told.any() or free < 1:
        return None
    return compared(np.flatnonzero(told), scores[told], *(spread[np.ix_(told, told)] for spread in spreads))


def noise_of(rows: Rows, late: Bools, squares: Floats) -> Floats:
    """The same sums as in `joint`, each row with its squared noise."""
    features = Sparse(rows.features.places, rows.features.values * np.sqrt(squares)[:, None])
    d, own = rows.known_recipe.d, np.bincount(rows.arms, weights=squares * late, minlength=rows.k)
    of_late = sparse_gram(features.of(late), d)
    return joint(
        of_late + sparse_gram(features.of(~late), d), of_late, added_by_arm(rows, late, squares), own
    )


def added(rows: Rows, weights: Floats) -> Floats:
    """(d,) the features of all rows, added up with weights."""
    every = np.ones(len(rows), dtype=np.bool_)
    return np.asarray(added_by_arm(rows, every, weights).sum(axis=0))


def joint(whole: Floats, late: Floats, arms: Floats, pulls: Floats | Ints) -> Floats:
    """Sums of products of the features, of the late rows of each arm, and of the features of late rows."""
    return np.block([[whole, arms.T, late], [arms, np.diag(pulls), arms], [late, arms.T, late]])


def added_by_arm(rows: Rows, chosen: Bools, weights: Floats | None = None) -> Floats:
    """(k, d) the features of some rows, added up by arm."""
    places, values = (part[chosen] for part in rows.features)
    if weights is not None:
        values = values * weights[chosen][:, None]
    d = rows.known_recipe.d
    cells = rows.arms[chosen][:, None] * d + places
    found = np.bincount(cells.ravel(), weights=values.ravel(), minlength=rows.k * d)
    return np.asarray(found.reshape(rows.k, d))


def compared(features: Ints, scores: Floats, seen: Floats, usual: Floats) -> Turned:
    """Each score against its spread; and the sum of their squares against what they have in common.

    The spread is the larger of two: `seen` is large where large rewards are in the sums, `usual` where they
    could have been and did not come.
    """
    from scipy.special import chdtrc, ndtr  # type: ignore[import-untyped]

    variance, scale = np.diagonal(usual), np.sqrt(np.diagonal(usual))
    alike = usual / np.outer(scale, scale)
    t = scores / np.sqrt(np.maximum(np.diagonal(seen), variance))
    freedom = features.size**2 / float((alike**2).sum())
    overall = float(chdtrc(freedom, float((t**2).mean()) * freedom))
    return Turned(features, holm(2 * ndtr(-np.abs(t))), overall)
