"""Intervals for means of bounded rewards that hold at every n, for one click in a thousand as for half.

Six facts, each with its proof; rewards are scaled to [0, 1], limits are found by turning a test around, and
an upper limit is one minus the lower limit of one minus the rewards. alpha is (1 - level) / 2, for each side.

1. Independent 0/1 rewards, equal chances or not (`mean_from_total(binary=True)`): P(S >= s) is at most that
   of a binomial with the average chance wherever s - 1 is at least the mean (Hoeffding 1956, Theorem 5). So
   the limits of Clopper and Pearson (1934) hold for the average chance if alpha <= 1/4, with alpha / n where
   one reward is 1 (Bancal and Sekatski 2022, arXiv 2212.12558: nothing narrower holds).
2. Independent rewards in [0, 1], by their sum alone (`mean_from_total`): for a convex f, E f(S) is largest
   for 0/1 rewards with equal chances (Hoeffding 1956, Theorem 3, and 1963), and (S - t)+ / (s - t) is at
   least 1 where S >= s. So P(S >= s) <= min over t < s of E (B - t)+ / (s - t) for B binomial with the same
   mean: never more than the bound by relative entropy, nor than e P(B >= s) (Bentkus 2004).
3. Rewards with weights, row by row (`betting_interval`). If E[w (x - v) | past] <= 0 in every row, or rows
   are independent and these means sum to at most 0, then for each fixed bet b with 1 + b w (x - v) >= 0,
   E prod (1 + b w (x - v)) <= 1: a product of conditional means of at most 1, or the inequality of means.
   So has an average over bets, and by Markov it reaches 1 / alpha with probability at most alpha. (Waudby-
   Smith and Ramdas 2024 let bets learn from earlier rows; these are fixed by n and v, so that the order of
   rows does not matter.) It knows how rewards scatter.
4. Any arrival, at any time (`MeanSequence`). With conditional means m_i, which may depend on everything
   before them, prod (1 + b x_i) / (1 + b m_i) is a martingale for each b > 0, and log (1 + b m) is concave
   in m: at the average m of the m_i, prod (1 + b x_i) / (1 + b m)^n is never larger. So by Ville the average
   over bets reaches 1 / alpha at any n, ever, with probability at most alpha. Sums of log (1 + b x_i) are
   all it needs. Bets that suit the number of rewards and a guess, made before them (`guided_interval`), hold
   as well, and are sharper there.
5. The same by the sum S and the sum of squares Q (`mean_from_total(squares=...)`). For b > 0, let f(x) be
   log (1 + b (x - v)) or log (1 + b x), and p the parabola that meets f at 0 and touches it at c = Q / S.
   Then f(x) - p(x) = g(y) x (x - c)^2 / 6 for some y, with g > 0 the third derivative of f: p is nowhere
   above f on [0, 1]. The sum of p over rows depends on S and Q alone, and is that of f over S / c rewards of
   c and n - S / c of 0. So these win least of all rewards with this S and Q, and facts 3 and 4 hold with
   them: how rewards scatter is known from squares.
6. Rewards of which nobody said that they are 0/1, and which all came out as 0 or 1. Round each reward x_i to
   1 with probability x_i, else to 0: the y_i are independent, 0/1, have the means of the x_i, and are the x_i
   themselves where all of these are 0 or 1. So *all are 0 or 1, and fact 1 misses their mean* happens no more
   often than that fact 1 misses the mean of the y_i. With half of the error for this and half for *not all
   are, and fact 5 misses*, both together keep to the level, whatever the law of rewards is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, floor, lgamma, log, log1p, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.validation import as_floats, as_range, check_count, check_positive, exact, is_number

Limits = tuple[float, float]

CLOSE = 1e-4  # a limit is where the log of evidence is within this of its threshold, on the safe side
HIDDEN = 1e-4  # of how rewards of 0 and 1 scatter: what is less makes no difference
STUDENT = (12.706, 4.303, 3.182, 2.776)  # 97.5 % quantiles for 1, 2, 3, 4 degrees of freedom
START = 36.0  # log m / (1 - m) of the largest double below 1


def chance_of_at_least(count: int, n: int, p: float) -> float:
    """P(Binomial(n, p) >= count), for 0 < p < 1.

    >>> [round(chance_of_at_least(count, 3, 0.5), 9) for count in (0, 2, 3)]
    [1.0, 0.5, 0.125]
    """
    ways = (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) for k in range(count, n + 1))
    return sum(exp(way + k * log(p) + (n - k) * log1p(-p)) for k, way in enumerate(ways, start=count))


def student(dof: int) -> float:
    """The 97.5 % quantile of Student's t, to 0.2 % (Cornish-Fisher from the normal quantile)."""
    if dof <= len(STUDENT):
        return STUDENT[dof - 1]
    return 1.95996 + 2.37227 / dof + 2.82250 / dof**2 + 2.55585 / dof**3


def check_level(level: Any) -> None:
    """Refuse anything but a number in (0, 1)."""
    if not is_number(level) or not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level!r}")


def scaled(rewards: npt.ArrayLike, limits: Limits) -> Floats:
    """(n,) rewards of a range as numbers in [0, 1]."""
    values, (low, high) = as_floats("rewards", rewards, ndim=1), limits
    if values.size and (values.min() < low or values.max() > high):
        found = f"[{exact(values.min())}, {exact(values.max())}]"
        raise ValueError(f"rewards must be in reward_range {(low, high)}, got {found}")
    return np.asarray((values - low) / (high - low))


def lower_limit(evidence: Callable[[float], float], center: float) -> float:
    """The largest mean below `center` that is surely refuted, or 0.

    `evidence` is above 0 where a mean is refuted and falls as the mean grows. Illinois' regula falsi, on the
    scale of log m / (1 - m): both very small and very large means are found in a dozen steps.
    """
    upper = START if center >= 1 else min(log(center / (1 - center)), START)
    above, step = -1.0, 0.05
    while (below := shifted(evidence, upper - step)) <= 0:
        upper, above, step = upper - step, below, 2 * step
        if upper < -2 * START:
            return 0.0
    lower, side = upper - step, 0
    for _ in range(100):
        point = (lower * above - upper * below) / (above - below)
        found = shifted(evidence, point)
        if abs(found) < CLOSE or not lower < point < upper:
            break
        if found > 0:
            lower, below, above = point, found, above / 2 if side > 0 else above
            side = 1
        else:
            upper, above, below = point, found, below / 2 if side < 0 else below
            side = -1
    return share(point if abs(found) < CLOSE else lower)


def shifted(evidence: Callable[[float], float], point: float) -> float:
    """Evidence beyond CLOSE, so that a root of it is refuted; kept in reach of a straight line."""
    return min(max(evidence(share(point)) - CLOSE, -50.0), 50.0)


def share(point: float) -> float:
    """m of log m / (1 - m)."""
    return 1 / (1 + exp(-point))


def log_mean_exp(logs: Floats, log_weights: Floats | float) -> float:
    """log of a weighted average of exp."""
    terms = logs + log_weights
    top = float(terms.max())
    return top + log(float(np.exp(terms - top).sum()))


# -- from a sum -------------------------------------------------------------------------------------------


def mean_from_total(
    total: float,
    n: int,
    *,
    squares: float | None = None,
    reward_range: Limits = (0.0, 1.0),
    level: float = 0.95,
    binary: bool = False,
    adaptive: bool = False,
) -> Limits:
    """An interval for the average mean of n independent rewards that sum to `total`; they may have different
    means. With the sum of their `squares` it knows how rewards scatter: give it wherever it is known.

    Assumes that every reward lies in `reward_range`, is one of its two ends where `binary`, and that n and
    the means were fixed before the rewards were seen; then it holds with probability `level` or more at every
    n (facts 1 and 2; binary: for levels from 0.5). Binary it is Clopper and Pearson's, otherwise at most 1.2
    times as wide for the same sum. With `squares`, rewards that all came out as ends of the range get Clopper
    and Pearson's with half of the error, for nobody said that they had to be; others get 1.6 to 2.7 times
    Student's interval from a thousand rows on (facts 5 and 6). `adaptive` where earlier rewards may have
    decided what was played next, or when to stop: nothing but the range is assumed then (fact 4), for at most
    twice the width.

    >>> [round(end, 5) for end in mean_from_total(44, 8000, binary=True)]
    [0.004, 0.00738]
    >>> [round(end, 5) for end in mean_from_total(44, 8000)]
    [0.0038, 0.00768]
    >>> [round(end, 5) for end in mean_from_total(500, 1000, squares=252.5)]  # a half each, give or take 0.05
    [0.49153, 0.50847]
    """
    low, high = as_range(reward_range)
    check_count("n", n)
    check_level(level)
    sum_of_shares = (total - n * low) / (high - low)
    if not -1e-9 * n <= sum_of_shares <= n * (1 + 1e-9):
        raise ValueError(f"total must be the sum of {n} rewards in {(low, high)}, got {total!r}")
    if adaptive:
        stream = MeanSequence.from_total(total, n, squares=squares, reward_range=(low, high))
        return stream.interval(level)
    known = None if squares is None or binary else scaled_squares(total, squares, n, (low, high))
    alpha = (1 - level) / (2 if known is None else 4)
    if known is not None and squares is not None:
        hidden = lost_in_rounding(squares, n, low) / (high - low) ** 2
        binary = at_ends(sum_of_shares, known, n, hidden)
    successes = min(max(round(sum_of_shares) if binary else sum_of_shares, 0.0), float(n))
    if binary or known is None:
        least, most = (limit_from_total(s, n, alpha, binary) for s in (successes, n - successes))
    else:
        least, most = (limit_from_squares(s, q, n, alpha) for s, q in both_sides(successes, known, n))
    return low + (high - low) * least, high - (high - low) * most


def scaled_squares(total: float, squares: float, n: int, limits: Limits) -> float:
    """The sum of squares of rewards scaled to [0, 1], with what rounding may have taken from it."""
    low, high = limits
    rounding = lost_in_rounding(squares, n, low)
    found = (squares - 2 * low * total + n * low**2 + rounding) / (high - low) ** 2
    least = ((total - n * low) / (high - low)) ** 2 / n
    if found < least * (1 - 1e-9) - 1e-9:
        raise ValueError(
            f"squares must be at least total**2 / n, {exact(total**2 / n)}, got {exact(squares)}"
        )
    return max(found, least)


def lost_in_rounding(squares: float, n: int, low: float) -> float:
    """What rounding may take from the sum of squares of distances to the low end of a range."""
    return (1e-13 + 1e-15 * sqrt(n)) * squares if low else 0.0


def at_ends(total: float, squares: float, n: int, hidden: float) -> bool:
    """Whether rewards in [0, 1] are all 0 or 1: only there is x (1 - x) zero.

    Where a range begins far from 0 for its width, rounding hides some of that. It is not known then, unless
    what is hidden is too little to matter: a ten-thousandth of how 0 and 1 scatter. More than the smaller of
    both sums there cannot be.
    """
    fewer = max(min(total, n - total), 0.0)
    return total - squares <= 1e-9 * min(total, n - total) and min(hidden, fewer) <= HIDDEN * max(fewer, 1.0)


def both_sides(total: float, squares: float, n: int) -> Iterator[tuple[float, float]]:
    """Sum and squares of rewards x in [0, 1], and of 1 - x, whose lower limit gives the upper one of x."""
    yield total, min(squares, total)
    yield n - total, min(max(n - 2 * total + squares, (n - total) ** 2 / n), n - total)


@lru_cache(maxsize=1024)
def limit_from_squares(total: float, squares: float, n: int, alpha: float) -> float:
    """The lower limit of a mean of rewards in [0, 1], by fact 5."""
    if total <= 0:
        return 0.0
    value = squares / total
    counts = np.array([n - total / value, total / value])
    return limit_by_bets(np.array([0.0, value]), np.ones(2), counts, 1.0, alpha)


@lru_cache(maxsize=1024)  # a certificate is asked for again and again, its log stays
def limit_from_total(total: float, n: int, alpha: float, binary: bool) -> float:
    """The lower limit of a mean of rewards in [0, 1]."""
    if total <= 0:
        return 0.0
    window = 12 * sqrt(total * max(1 - total / n, 0.0)) + 40  # beyond it a binomial has no weight to speak of
    counts = np.arange(max(floor(total - window), 0), min(ceil(total + window), n) + 1)
    first = int(counts[0])
    ratios = np.log((n - counts[:-1]) / (counts[:-1] + 1.0))  # of neighbouring binomial coefficients
    start = lgamma(n + 1) - lgamma(first + 1) - lgamma(n - first + 1)
    coefficients = start + np.concatenate(([0.0], np.cumsum(ratios)))
    hinges = counts[counts < total]  # t

    def evidence(mean: float) -> float:
        chances = np.exp(coefficients + counts * log(mean) + (n - counts) * log1p(-mean))
        tails = np.cumsum(chances[::-1])[::-1]  # P(B >= k)
        if binary and total >= 2:
            bound = tails[hinges.size]
        else:
            excess = np.cumsum(tails[::-1])[::-1]  # excess[i + 1] is E (B - counts[i])+
            excess = np.append(excess, 0.0)[1 : hinges.size + 1]
            bound = (excess / (total - hinges)).min()
        return log(alpha) - log(max(float(bound), 1e-300))

    return lower_limit(evidence, total / n)


# -- from rows --------------------------------------------------------------------------------------------

CAP = 0.9  # of the largest bet that could not lose everything
DOUBLINGS = np.arange(10.0)  # bets beyond the one that fits 0/1 rewards, each for a quarter of the variance
LOG_SHARES = (DOUBLINGS + 1) * -log(2)  # of the stake on each: 1/2, 1/4, ...


def betting_interval(
    rewards: npt.ArrayLike,
    *,
    reward_range: Limits = (0.0, 1.0),
    level: float = 0.95,
    weights: npt.ArrayLike | None = None,
    ceiling: float = 1.0,
) -> Limits:
    """An interval for the v with E[w (x - v)] = 0: the mean of rewards x, or with weights w the ratio
    E[w x] / E[w].

    Assumes that every reward lies in `reward_range`, every weight in [0, ceiling], both said before looking,
    and in every row E[w (x - v) | earlier rows] = 0, or rows that are independent and sum to that. Then it
    holds with probability `level` or more at every n, in whatever order rows are given (fact 3).

    >>> low, high = betting_interval([0.0] * 990 + [0.2] * 10)
    >>> 0 < low < 0.002 < high < 0.01
    True
    """
    limits = as_range(reward_range)
    check_level(level)
    check_positive("ceiling", ceiling)
    x = scaled(rewards, limits)
    check_count("number of rewards", x.size)
    y = np.ones_like(x) if weights is None else as_floats("weights", weights, ndim=1) / ceiling
    if y.shape != x.shape or y.min() < 0 or y.max() > 1 + 1e-12:
        raise ValueError(f"weights must be {x.size} numbers in [0, {ceiling:g}], got others")
    pairs, counts = np.unique(x + 1j * y, return_counts=True)  # clicks have few different ones
    x, y, alpha = pairs.real, pairs.imag, (1 - level) / 2
    least, most = (limit_by_bets(part, y, counts, ceiling, alpha) for part in (x, 1 - x))
    low, high = limits
    return low + (high - low) * least, high - (high - low) * most


def limit_by_bets(x: Floats, y: Floats, counts: Any, ceiling: float, alpha: float) -> float:
    """The lower limit, from different rewards x and weights y in [0, 1] and how often each pair was seen."""
    total = float(counts @ (y * x))
    if total <= 0:
        return 0.0
    rows = float(counts.sum()) / ceiling  # what y sums to on average, as E w = 1

    def evidence(mean: float) -> float:
        # The variance of y (x - mean) is at most mean (1 - mean) rows / n, as for 0/1 rewards; often less.
        bets = sqrt(2 * log(1 / alpha) / (rows * mean * (1 - mean))) * 2**DOUBLINGS
        gains = y * (x - mean)
        logs = [float(counts @ np.log1p(bet * gains)) for bet in np.minimum(bets, CAP / mean)]
        return log_mean_exp(np.array(logs), LOG_SHARES) + log(alpha)

    return lower_limit(evidence, min(total / float(counts @ y), 1.0))


# -- from a stream ----------------------------------------------------------------------------------------

BETS = 2.0 ** np.arange(-12, 8)  # (20,) b: for two clicks up to about a hundred million


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanSequence:
    """An interval for the mean of a stream that may be read at any time and as often as one likes.

    Assumes only that every reward lies in `reward_range`. With probability `level` or more, at every n at
    once, the average of the first n conditional means (each given everything before it) is inside, however
    actions were chosen, whenever one stopped and whatever the means did in between (fact 4). Parts of a
    stream, and streams side by side, merge with `+`.

    >>> stream = MeanSequence.of([0.0] * 300, reward_range=(0, 1))
    >>> [round(end, 3) for end in (stream + MeanSequence.of([1.0], reward_range=(0, 1))).interval()]
    [0.0, 0.027]
    """

    reward_range: Limits
    count: int
    logs: Floats  # (2, 20) sums of log (1 + b x), and of log (1 + b (1 - x)) for the upper limit

    @classmethod
    def of(cls, rewards: npt.ArrayLike, *, reward_range: Limits) -> MeanSequence:
        """Of these rewards."""
        limits = as_range(reward_range)
        x = scaled(rewards, limits)
        logs = [[np.log1p(bet * part).sum() for bet in BETS] for part in (x, 1 - x)]
        return cls(reward_range=limits, count=x.size, logs=np.array(logs))

    @classmethod
    def from_total(
        cls, total: float, n: int, *, reward_range: Limits, squares: float | None = None
    ) -> MeanSequence:
        """Of n rewards of which only the sum is known: log (1 + b x) >= x log (1 + b) for x in [0, 1]; with
        the sum of squares, by fact 5.
        """
        limits = as_range(reward_range)
        x = min(max((total - n * limits[0]) / (limits[1] - limits[0]), 0.0), float(n))
        if squares is None or n == 0:
            return cls(reward_range=limits, count=n, logs=np.outer([x, n - x], np.log1p(BETS)))
        sides = both_sides(x, scaled_squares(total, squares, n, limits), n)
        logs = [s * np.log1p(BETS * q / s) * s / q if s > 0 else np.zeros_like(BETS) for s, q in sides]
        return cls(reward_range=limits, count=n, logs=np.array(logs))

    def __add__(self, other: MeanSequence) -> MeanSequence:
        if not isinstance(other, MeanSequence):
            return NotImplemented
        if self.reward_range != other.reward_range:
            raise ValueError(
                f"streams must have the same reward_range, got {self.reward_range} and {other.reward_range}"
            )
        return MeanSequence(
            reward_range=self.reward_range, count=self.count + other.count, logs=self.logs + other.logs
        )

    def interval(self, level: float = 0.95) -> Limits:
        """Where the mean of the stream lies, the whole range before its first reward."""
        check_level(level)
        alpha, (low, high) = (1 - level) / 2, self.reward_range
        least, most = (self.limit(logs, alpha) for logs in self.logs)
        return low + (high - low) * least, high - (high - low) * most

    def limit(self, logs: Floats, alpha: float) -> float:
        """The lower limit of the mean of what these logs were summed over."""

        def evidence(mean: float) -> float:
            return log_mean_exp(logs - self.count * np.log1p(BETS * mean), -log(BETS.size)) + log(alpha)

        return lower_limit(evidence, 1.0) if self.count else 0.0


# -- from rows that depend on earlier ones ----------------------------------------------------------------

STEPS = np.arange(-8.0, 9.0)  # doublings around the bet that suits the guess
STEP_SHARES = np.log(1 / 3) - log(2) * np.abs(STEPS)  # of the stake on each: 1/3, and half for each step away


def guided_interval(
    rewards: npt.ArrayLike, *, guess: float, spread: float, reward_range: Limits, level: float = 0.95
) -> Limits:
    """An interval for the average of the conditional means of rewards, each given all earlier ones.

    Assumes that every reward lies in `reward_range`; `guess`, about their mean, and `spread`, about their
    standard deviation, were said before the first of them, and only the width depends on how good they are
    (fact 4).

    >>> half = [0.0, 1.0] * 200
    >>> [round(end, 2) for end in guided_interval(half, guess=0.5, spread=0.5, reward_range=(0, 1))]
    [0.42, 0.58]
    """
    low, high = as_range(reward_range)
    check_level(level)
    check_positive("spread", spread)
    x = scaled(rewards, (low, high))
    check_count("number of rewards", x.size)
    mean = min(max((guess - low) / (high - low), 0.0), 1.0)
    alpha, width = (1 - level) / 2, spread / (high - low)
    least, most = (limit_by_guess(*side, width, alpha) for side in ((x, mean), (1 - x, 1 - mean)))
    return low + (high - low) * least, high - (high - low) * most


def limit_by_guess(x: Floats, guess: float, spread: float, alpha: float) -> float:
    """The lower limit of the average mean of x in [0, 1], whose mean and deviation are about so."""
    fraction = sqrt(2 * log(1 / alpha) / x.size) / spread  # of the best bet on x - mean
    fraction = min(fraction, CAP / max(guess, 1e-300))
    bets = fraction / (1 - fraction * guess) * 2.0**STEPS  # on 1 + b x over 1 + b mean it is this much more
    logs = np.array([np.log1p(bet * x).sum() for bet in bets])

    def evidence(mean: float) -> float:
        return log_mean_exp(logs - x.size * np.log1p(bets * mean), STEP_SHARES) + log(alpha)

    return lower_limit(evidence, 1.0)
