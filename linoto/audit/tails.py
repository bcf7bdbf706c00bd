"""Are there rewards far from all others, what do they weigh, and what would a cap cost?

A promise that assumes sub-Gaussian noise says how often rewards may be far from their means. A log can show
that this is wrong. It can never show that it is right: what is rarer than its rows is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from linoto.audit.noise import MANY_PULLS, scatter_of
from linoto.audit.sentences import Centre
from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence
from linoto.core.hints import amount
from linoto.core.offline import Offline
from linoto.core.validation import exact, interval_text
from linoto.logs.many_tests import TEST_LEVEL
from linoto.logs.read import Log
from linoto.logs.rows import Rows

UNSEEN = 3.0  # events that a log with none of them cannot exclude, in as many rows, at 95 %
CAPPED = (0.001, 0.01)  # shares of rows that the proposed caps would change
HEAVY = (
    "tails are heavy: cap rewards before they are logged, and the cap is the end of a reward range; or take "
    "logarithms, and the promise is about those"
)
LOOKED_AT = 200  # rewards farthest from the model, whose weight in the fit is divided out


@dataclass(frozen=True, kw_only=True)
class Cap:
    """A limit for rewards, and what it costs."""

    limit: float
    rows: int  # that lie beyond it
    mean: float  # of the log with this cap


@dataclass(frozen=True, kw_only=True)
class Tails:
    """How far rewards are from the means of their arms, against what sub-Gaussian noise allows."""

    farthest: float  # distance of a reward from the mean of its own arm, in standard deviations of that arm
    distance: float  # the largest distance of a reward from the mean of its own arm, in units of reward
    expected: float  # that no reward exceeds in 99 of 100 logs of this length, if the noise is sub-Gaussian
    top_share: float | None  # of the sum of rewards, in the hundredth part of rows that earned most
    index: float | None  # Hill's: moments from this order on do not exist; None where there is no tail
    side: str  # "high" or "low": where the farthest reward is
    caps: tuple[Cap, ...]  # at that side; none where the rewards themselves are not known

    @property
    def heavy(self) -> bool:
        """Whether sub-Gaussian rewards would be this far away less than once in a hundred logs."""
        return self.farthest > self.expected


def find_tails(log: Log) -> Tails | None:
    """The tails of a log around the means of its arms; None where nothing is known of its noise."""
    offline = log.offline
    scales = noise_of_arms(log)
    if not scales.any():
        return None
    away = distances(log)
    above, below = np.divide(away, scales, out=np.zeros_like(away), where=scales > 0).max(axis=1)
    side = "high" if above >= below else "low"
    ends = None if log.ends is None else (log.ends.largest if side == "high" else -log.ends.smallest)
    return Tails(
        farthest=float(max(above, below)),
        distance=float(away.max()),
        expected=sqrt(2 * log_of(2 * offline.total / TEST_LEVEL)),
        top_share=share_of_top(log),
        index=None if ends is None else hill(ends),
        side=side,
        caps=() if ends is None else propose_caps(ends, offline, sign=1 if side == "high" else -1),
    )


def tails_around_model(rows: Rows) -> Tails | None:
    """The tails of rows with contexts, around their linear model; None where it leaves no noise to see.

    Least squares pull the fit of a row towards its reward: of noise with scale s, s sqrt(1 - h) is left,
    where h = x' (X'X)^-1 x is the leverage of the row. As for arms, where h is 1 / n, that is divided out. It
    is computed for the farthest rows only, so the farthest reward is at least this far.
    """
    rewards, offline = rows.rewards, rows.offline
    sums = rows.moments(np.arange(len(rows)))
    inverse = np.linalg.pinv(sums.gram, hermitian=True)
    left = rewards - rows.features.times(inverse @ sums.reward_vector)
    around, degrees = sums.residuals()
    if degrees == 0 or around <= 1e-20 * float(rewards @ rewards):
        return None
    far = np.argsort(-np.abs(left), kind="stable")[:LOOKED_AT]
    places, values = (part[far] for part in rows.features)
    leverage = np.einsum("ni,nij,nj->n", values, inverse[places[:, :, None], places[:, None, :]], values)
    kept = leverage < 1 - 1e-9
    away = np.where(kept, left[far] / np.sqrt(np.where(kept, 1 - leverage, 1.0)), 0.0)
    farthest = int(np.abs(away).argmax())
    side = "high" if away[farthest] >= 0 else "low"
    largest = np.sort(rewards if side == "high" else -rewards)[::-1][: max(len(rows) // 100 + 1, 10)]
    total = float(rewards.sum())
    top = float(np.sort(rewards)[::-1][: max(len(rows) // 100, 1)].sum()) / total if total > 0 else None
    return Tails(
        farthest=float(abs(away[farthest])) / scale_of(left, rows, far[farthest], sqrt(around / degrees)),
        distance=float(abs(away[farthest])),
        expected=sqrt(2 * log_of(2 * len(rows) / TEST_LEVEL)),
        top_share=None if rewards.min() < 0 else top,
        index=hill(largest),
        side=side,
        caps=propose_caps(largest, offline, sign=1 if side == "high" else -1),
    )


def scale_of(left: Floats, rows: Rows, row: int, pooled: float) -> float:
    """The standard deviation around the model of an item's rows if it has many, else that of all."""
    same = left[rows.arms == rows.arms[row]]
    own = float(np.sqrt((same**2).mean()))
    return own if same.size >= MANY_PULLS and own > 0 else pooled


def farthest_reasons(tails: Tails | None, scale: float, log: Log, centre: Centre) -> tuple[str, ...]:
    """A reward so far from where it belongs that noise of this scale does not allow it."""
    if tails is None or tails.distance <= tails.expected * scale:
        return ()
    return (
        f"some reward is {amount(tails.distance)} from {centre.reward}, and a noise of "
        f"{amount(scale)} allows {amount(tails.expected * scale)} in {log.offline.total:,} rows",
    )


def unstated_reasons(confidence: Confidence, log: Log, centre: Centre) -> tuple[str, ...]:
    """That the noise is a guess, and what a promise on it survives."""
    rows, limits = f"{log.offline.total:,}", confidence.reward_range
    said = "nobody said how large or small a reward can be"
    if limits is not None:
        low, high = (exact(end) for end in log.extent)
        said = f"rewards from {low} to {high} are outside the stated range {interval_text(limits)}"
    survives = loss_survived(confidence.scale, log.offline.total)
    return (
        f"{said}: the noise of {amount(confidence.scale)} is a "
        f"guess from {rows} rows, and what is rarer than that is not in them. State a reward range (and cap "
        "what leaves it, in the log too), or the noise if you know it",
        f"with that guess the promise survives a loss of {amount(survives)} below {centre.below} "
        f"in 3 of {rows} rounds: one that is larger, or comes more often, can break it",
    )


def tails_facts(tails: Tails | None, log: Log, centre: Centre) -> Iterator[tuple[str, str]]:
    """How far rewards are from where they belong, and what caps would cost."""
    if tails is None:
        if centre.no_tails:
            yield "tails", centre.no_tails
        return
    top = "" if tails.top_share is None else f"; the top 1 % of rows earn {tails.top_share:.0%} of all"
    index = f"; tail index {tails.index:.2g}" if tails.heavy and tails.index is not None else ""
    text = (
        f"the farthest reward is {tails.farthest:.3g} standard deviations of its own arm from "
        f"{centre.short}, and sub-Gaussian noise allows {tails.expected:.3g}{top}{index}"
    )
    yield "tails", f"{'heavy' if tails.heavy else 'no sign of heavy ones'}: {text}"
    mean = log.offline.reference
    for cap in tails.caps if tails.heavy else ():
        cost = f"changes {cap.rows:,} rows, and the mean from {amount(mean)} to {amount(cap.mean)}"
        yield "possible cap", f"{amount(cap.limit)}: {cost}"


def log_of(value: float) -> float:
    """The logarithm of a number that is at least 1."""
    return log(max(value, 1.0))


def noise_of_arms(log: Log) -> Floats:
    """(q,) the standard deviation of each pulled arm: its own if it has many pulls, else that of all.

    Where nobody knows which arm the farthest reward is of, it is the largest for every arm.
    """
    scatter = scatter_of(log.offline)
    pooled = scatter.around.sum() / max(scatter.degrees, 1)
    own = scatter.around / np.maximum(scatter.pulls - 1, 1)
    found = np.sqrt(np.where(scatter.pulls >= MANY_PULLS, own, pooled))
    if log.ends is None and not log.binary:
        found = np.full_like(found, max(found.max(), sqrt(pooled)))
    return np.asarray(found)


def distances(log: Log) -> Floats:
    """(2, q) how far the largest and the smallest reward of each pulled arm are from its mean.

    A reward moves the mean of its n pulls towards itself: noise of scale s leaves s sqrt(1 - 1 / n) between
    them, so that is divided out. The only reward of an arm has no mean to be far from.
    """
    n, mean, *_ = scatter_of(log.offline)
    lowest, highest = ends_of_arms(log)
    left = np.sqrt(n / np.maximum(n - 1, 1))
    return np.asarray(np.maximum([left * (highest - mean), left * (mean - lowest)], 0.0))


def ends_of_arms(log: Log) -> tuple[Floats, Floats]:
    """(q,) the smallest and the largest reward of each pulled arm.

    Where only those of the log are known, each is given to the arm whose mean is nearest to it, and no other
    arm has any: some reward is at least as far away as that.
    """
    offline, seen = log.offline, log.offline.pulls > 0
    if log.ends is not None:
        return log.ends.lowest[seen], log.ends.highest[seen]
    if log.binary:
        sums = offline.reward_sums[seen]
        return (sums == offline.pulls[seen]).astype(np.float64), (sums > 0).astype(np.float64)
    means = scatter_of(offline).mean
    return (
        np.where(means == means.min(), log.extent[0], np.inf),
        np.where(means == means.max(), log.extent[1], -np.inf),
    )


def share_of_top(log: Log) -> float | None:
    """The part of the sum in a hundredth of the rows; None where rewards are negative or not known."""
    total = float(log.offline.reward_sums.sum())
    if log.ends is None or log.extent[0] < 0 or total <= 0:
        return None
    return float(log.ends.largest[: max(log.offline.total // 100, 1)].sum()) / total


def hill(ends: Floats) -> float | None:
    """Hill's estimate of the tail index from the farthest rewards, which must be above 0."""
    above = ends[ends > ends[-1]] if ends[-1] > 0 else ends[:0]
    return float(1 / np.log(above / ends[-1]).mean()) if above.size >= 10 else None


def propose_caps(ends: Floats, offline: Offline, *, sign: int) -> tuple[Cap, ...]:
    """Caps for the farthest rewards, with the mean of the log under each.

    A cap that the mean of an arm is beyond would take from that arm what it always earns: none is proposed.
    Nor is one at the farthest reward itself, where many rows have it: it would change none.
    """
    found, innermost = {}, float((sign * scatter_of(offline).mean).max())
    for share in CAPPED:
        beyond = int(share * offline.total)
        if 1 <= beyond < ends.size:
            limit = float(ends[beyond])
            if limit <= innermost or limit == ends[0]:
                continue
            cost = float((ends[:beyond] - limit).sum()) / offline.total
            rows = int((ends > limit).sum())
            found[limit] = Cap(limit=sign * limit, rows=rows, mean=offline.reference - sign * cost)
    return tuple(found.values())


def loss_survived(scale: float, rows: int) -> float:
    """How far below its mean sub-Gaussian noise lets a reward be in 3 of so many rows, and not more often.

    P(x <= mean - c) <= exp(-c^2 / (2 scale^2)), which is 3 / rows at this c.
    """
    return scale * sqrt(2 * log_of(rows / UNSEEN))
