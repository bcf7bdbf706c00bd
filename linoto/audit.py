"""What a log shows: its noise, lack of fit, drift, what it cannot tell, and what to assume of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, log, sqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

from linoto.certificates import Certificate
from linoto.confidence import Confidence
from linoto.data import Offline, as_actions, as_offline
from linoto.gates import Tolerance
from linoto.kernels import Floats, Ints
from linoto.logs import Log, Propensities
from linoto.policies import Gated
from linoto.theory import effective_dimension, spectrum

ALPHA = 0.01  # of each test that can change the verdict: its chance to raise a false alarm
LEVEL = 0.95  # of intervals that are only shown
MANY_PULLS = 30  # from which an arm's own standard deviation is worth a look
SHOWN = 8  # directions that are described


# -- noise ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The standard deviation of a reward around the mean of its arm, pooled over arms."""

    value: float
    low: float
    high: float
    degrees: int  # rewards beyond the first of each arm


def within_arms(offline: Offline) -> tuple[float, int]:
    """Sum of squares around the arms' own means, and its degrees of freedom."""
    if offline.reward_squares is None:
        raise ValueError("offline must know reward_squares for an audit, got None")
    seen = offline.pulls > 0
    pulls, sums = offline.pulls[seen], offline.reward_sums[seen]
    around = offline.reward_squares[seen] - sums**2 / pulls
    rounding = 1e-13 * offline.reward_squares[seen]  # what is left of equal rewards
    return float(np.where(around > rounding, around, 0.0).sum()), int((pulls - 1).sum())


def estimate_noise(offline: Offline, *, level: float = LEVEL) -> Noise | None:
    """Pooled standard deviation with its chi-square interval (exact for Gaussian rewards); None where no arm
    was pulled twice.

    >>> log = Offline.from_rows([0, 0, 1, 1], [1.0, 3.0, 0.0, 2.0], k=2)
    >>> round(estimate_noise(log).value, 3)
    1.414
    """
    from scipy.special import chdtri  # type: ignore[import-untyped]

    around, degrees = within_arms(offline)
    if degrees == 0:
        return None
    above, below = chdtri(degrees, (1 - level) / 2), chdtri(degrees, (1 + level) / 2)
    return Noise(
        value=sqrt(around / degrees),
        low=sqrt(around / above),
        high=sqrt(around / below),
        degrees=degrees,
    )


def arm_intervals(offline: Offline, *, level: float = LEVEL) -> tuple[Floats, Floats, Floats]:
    """(k,) means, lower and upper ends of each arm's own interval; NaN for arms without a pull.

    By Student's t, with the arm's own scatter from ten pulls on and the pooled one below.
    """
    from scipy.special import stdtrit

    seen = np.flatnonzero(offline.pulls > 0)
    n, mean, around = half_of(offline, seen)
    pooled, degrees = within_arms(offline)
    own = (n >= 10) & (around > 0)
    variance = np.where(own, around / np.maximum(n - 1, 1), pooled / max(degrees, 1))
    freedom = np.where(own, n - 1, max(degrees, 1))
    half = stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance / n)
    ends = np.full((3, offline.pulls.size), np.nan)
    ends[:, seen] = mean, mean - half, mean + half
    return ends[0], ends[1], ends[2]


# -- lack of fit ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LackOfFit:
    """Do the arms' means lie where a linear model puts them? An F test against the scatter within arms."""

    f: float
    p: float
    degrees: tuple[int, int]
    misfit: float  # root mean square over logged rows of what the model misses, noise taken out

    @property
    def rejected(self) -> bool:
        """Whether a linear model would look this wrong less than once in a hundred logs."""
        return self.p < ALPHA


def lack_of_fit(actions: npt.ArrayLike, offline: Offline) -> LackOfFit | None:
    """The F test of linearity from arms pulled more than once; None where the log leaves nothing to test.

    >>> log = Offline.from_rows([0, 0, 1, 1, 2, 2], [0.1, -0.1, 1.1, 0.9, 0.1, -0.1], k=3)
    >>> lack_of_fit([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], log).rejected
    True
    """
    from scipy.special import fdtrc

    arms = as_actions(actions)
    log = as_offline(offline, len(arms))
    seen = log.pulls > 0
    root = np.sqrt(log.pulls[seen])
    design, means = root[:, None] * arms[seen], log.reward_sums[seen] / root
    theta, rank = least_squares(design, means)
    between = int(seen.sum()) - rank
    around, within = within_arms(log)
    if between == 0 or within == 0:
        return None
    missed = float(((means - design @ theta) ** 2).sum())
    missed = missed if missed > 1e-20 * float((means**2).sum()) else 0.0
    if around == 0:
        f = inf if missed > 0 else 0.0
    else:
        f = (missed / between) / (around / within)
    excess = max(missed - between * around / within, 0.0)
    return LackOfFit(
        f=f,
        p=float(fdtrc(between, within, f)) if isfinite(f) else 0.0,
        degrees=(between, within),
        misfit=sqrt(excess / log.total),
    )


def least_squares(design: Floats, values: Floats) -> tuple[Floats, int]:
    """The shortest least-squares solution, and the rank."""
    theta, _, rank, _ = np.linalg.lstsq(design, values, rcond=1e-10)
    return np.asarray(theta, dtype=np.float64), int(rank)


# -- drift ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Drift:
    """Do arms earn late what they earned early? One test per arm, and one of all arms together."""

    arms: Ints  # (q,) the arms pulled in both halves
    early: Floats  # (q,) means
    late: Floats  # (q,)
    p: Floats  # (q,) of each arm, adjusted for their number (Holm)
    overall: float  # Fisher's combination of all arms
    early_reference: float  # mean rewards of the halves: they also change with what is pulled
    late_reference: float

    @property
    def moved(self) -> Ints:
        """The arms that changed, the surest first."""
        order = np.argsort(self.p, kind="stable")
        return np.asarray(self.arms[order][self.p[order] < ALPHA / 2])

    @property
    def rejected(self) -> bool:
        """Whether steady arms would look this unsteady less than once in a hundred logs: half the false
        alarms are spent on single arms, half on all together."""
        return bool(self.overall < ALPHA / 2 or self.moved.size)


def find_drift(early: Offline, late: Offline) -> Drift | None:
    """Compare two halves of a log arm by arm; None where no arm was pulled in both often enough.

    An arm with ten pulls in each half is held against its own scatter, any other against the pooled one: arms
    of 0/1 rewards differ in theirs.
    """
    from scipy.special import chdtrc, stdtr

    both = np.flatnonzero((early.pulls > 0) & (late.pulls > 0))
    halves = [half_of(half, both) for half in (early, late)]
    pooled, degrees = (sum(part) for part in zip(within_arms(early), within_arms(late), strict=True))
    if both.size == 0 or degrees == 0:
        return None
    (n, mean, around), (m, other, about) = halves
    own = (n >= 10) & (m >= 10) & (around + about > 0)
    variance = np.where(own, (around + about) / np.maximum(n + m - 2, 1), pooled / degrees)
    gap, error = np.abs(other - mean), np.sqrt(variance * (1 / n + 1 / m))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(gap <= 1e-12 * (np.abs(mean) + np.abs(other)), 0.0, gap / error)
    raw = np.clip(2 * stdtr(np.where(own, n + m - 2, degrees), -t), 1e-300, 1.0)
    return Drift(
        arms=both,
        early=mean,
        late=other,
        p=holm(raw),
        overall=float(chdtrc(2 * raw.size, -2 * np.log(raw).sum())),
        early_reference=early.reference,
        late_reference=late.reference,
    )


def half_of(half: Offline, arms: Ints) -> tuple[Floats, Floats, Floats]:
    """Pulls, means and sums of squares around them, of some arms."""
    n, sums = half.pulls[arms].astype(np.float64), half.reward_sums[arms]
    assert half.reward_squares is not None  # `within_arms` has refused the others
    return n, sums / n, np.maximum(half.reward_squares[arms] - sums**2 / n, 0.0)


def holm(p: Floats) -> Floats:
    """p-values adjusted for their number: below a level, no more false alarms than that level at all.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate((p.size - np.arange(p.size)) * p[order]), 1.0)
    return adjusted


# -- what the log cannot tell -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Coverage:
    """Which directions of the arm set the log has looked into."""

    eigenvalues: Floats  # of the logged design, ascending, one for each direction that the arms have
    rank: int  # directions the log knows
    unseen: Ints  # arms without a pull
    unknown: Ints  # arms whose action is not a combination of logged ones
    untested: Ints  # unseen arms the log judges by the model alone
    directions: tuple[tuple[int, ...], ...]  # features that make up each unknown direction, the largest first
    effective: int  # d_eff over as many rounds as the log has rows


def find_coverage(actions: npt.ArrayLike, offline: Offline, *, ridge: float, rounds: int) -> Coverage:
    """Rank, spectrum, and the arms and directions that are out of reach."""
    arms = as_actions(actions)
    if not arms.any():
        raise ValueError("actions must have a feature that is not 0, got none")
    log = as_offline(offline, len(arms))
    lengths = np.linalg.norm(arms, axis=1)
    known, span = row_basis(arms[log.pulls > 0]), row_basis(arms)
    outside = arms - (arms @ known.T) @ known
    away = np.linalg.norm(outside, axis=1)
    unseen = log.pulls == 0
    partly = away < (1 - 1e-8) * lengths  # the model carries something over from logged arms
    values = spectrum(arms @ span.T, log, ridge=ridge)  # what no arm has, no round can teach
    hidden = row_basis(outside, least=1e-8 * float(lengths.max()))
    return Coverage(
        eigenvalues=np.maximum(values - ridge, 0.0),
        rank=len(known),
        unseen=np.flatnonzero(unseen),
        unknown=np.flatnonzero(away > 1e-8 * lengths),
        untested=np.flatnonzero(unseen & partly),
        directions=tuple(main_features(direction) for direction in hidden[:SHOWN]),
        effective=effective_dimension(values, rounds=rounds, norm=float(lengths.max())),
    )


def row_basis(rows: Floats, *, least: float = 0.0) -> Floats:
    """(rank, d) an orthonormal basis of what the rows span, the largest direction first."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[sizes > max(1e-10 * float(sizes[0]), least)])


def main_features(direction: Floats) -> tuple[int, ...]:
    """The features that make up most of a direction, at most three."""
    order = np.argsort(-np.abs(direction), kind="stable")[:3]
    return tuple(int(i) for i in order if abs(direction[i]) > 0.3 * abs(direction[order[0]]))


# -- what to assume ---------------------------------------------------------------------------------------


def propose_bound(actions: npt.ArrayLike, offline: Offline, *, noise: float, delta: float = 0.05) -> float:
    """A length that the parameter should not exceed.

    Along directions in which the log holds at least as much as one pull of the longest action: the length of
    the least-squares parameter plus what noise can hide, with probability 1 - delta (Hsu, Kakade and Zhang).
    Other directions of the arm set are taken to be as long as these on average, which is a guess.
    """
    arms = as_actions(actions)
    log = as_offline(offline, len(arms))
    longest = float((arms**2).sum(axis=1).max())
    values, vectors = np.linalg.eigh(arms.T @ (log.pulls[:, None] * arms))
    known = values >= min(longest, float(values[-1])) * (1 - 1e-9)
    along = vectors[:, known].T @ (arms.T @ log.reward_sums) / values[known]
    spread = noise**2 / values[known]
    level = log_of(delta)
    hidden = spread.sum() + 2 * sqrt(level * float((spread**2).sum())) + 2 * level * float(spread.max())
    share = sqrt(np.linalg.matrix_rank(arms) / max(int(known.sum()), 1))
    return float((np.linalg.norm(along) + sqrt(hidden)) * max(share, 1.0)) or 1.0


def log_of(delta: float) -> float:
    """log(1 / delta)."""
    return log(1 / delta)


def is_binary(log: Log) -> bool:
    """Whether every reward is 0 or 1: then each equals its square, and only then."""
    offline = log.offline
    return (
        log.extent[0] >= 0
        and log.extent[1] <= 1
        and offline.reward_squares is not None
        and bool(np.array_equal(offline.reward_sums, offline.reward_squares))
    )


def propose_confidence(
    log: Log,
    *,
    noise: float | Literal["bounded"] | None,
    bound: float | None,
    reward_range: tuple[float, float] | None,
    delta: float,
) -> tuple[Confidence | None, dict[str, str]]:
    """What was given, and for the rest what the log suggests, with the reasons; None without any noise."""
    why: dict[str, str] = {}
    actions, offline = log.arms.actions, log.offline
    limits = reward_range
    if limits is None and is_binary(log):
        limits, why["reward_range"] = (0.0, 1.0), "every logged reward is 0 or 1"
    scale = noise
    if scale is None:
        scale, why["noise"] = propose_noise(log, limits)
    if scale is None:
        return None, why
    started = Confidence(delta=delta, noise=scale, reward_range=limits)
    if bound is not None:
        return replace(started, bound=bound), why
    length = propose_bound(actions, offline, noise=started.scale, delta=delta)
    why["bound"] = (
        "the length of the least-squares parameter and what noise can hide, "
        "along directions the log knows; others are assumed alike"
    )
    for _ in range(60):  # a radius that is too small for its own log would contradict itself
        proposed = replace(started, bound=length)
        if promise_of(log, proposed, epsilon=1.0)[0] is not None:
            break
        length *= 1.5
    return proposed, why


def propose_noise(
    log: Log, limits: tuple[float, float] | None
) -> tuple[float | Literal["bounded"] | None, str]:
    """The word bounded where no reward leaves the range; else the upper end of what is plausible."""
    if limits is not None and limits[0] <= log.extent[0] and log.extent[1] <= limits[1]:
        return "bounded", f"no logged reward is outside [{limits[0]:g}, {limits[1]:g}]"
    found = estimate_noise(log.offline)
    if found is None:
        return None, "no arm was pulled twice, so the log cannot tell"
    noisiest = max(noisiest_arm(log.offline), found.high)
    if noisiest == 0:
        return None, "rewards of an arm are always the same: say how much they may vary"
    why = (
        "upper end of the pooled estimate"
        if noisiest == found.high
        else "standard deviation of the noisiest arm"
    )
    return noisiest, why


def noisiest_arm(offline: Offline) -> float:
    """The largest standard deviation of an arm with many pulls."""
    often = np.flatnonzero(offline.pulls >= MANY_PULLS)
    if not often.size:
        return 0.0
    n, _, around = half_of(offline, often)
    return float(np.sqrt(around / (n - 1)).max())


def promise_of(log: Log, confidence: Confidence, *, epsilon: float) -> tuple[Certificate | None, str]:
    """The certificate of a tolerance, or why there is none."""
    policy = Gated(gate=Tolerance(epsilon=epsilon), confidence=confidence)
    try:
        found = policy.certificate(log.arms.actions, log.offline)
    except ValueError as error:
        return None, str(error)
    return (found, "") if found.holds else (None, found.theorem)


# -- propensities -----------------------------------------------------------------------------------------


def find_miscalibrated(propensities: Propensities, rows: int) -> Ints:
    """Arms whose propensities cannot be right: 1 / propensity over all rows must average 1 for each arm."""
    from scipy.special import ndtr

    mean = propensities.inverse / rows
    variance = np.maximum(propensities.inverse_squares / rows - mean**2, 0.0)
    pulled = propensities.inverse > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(np.abs(mean - 1) < 1e-12, 0.0, np.abs(mean - 1) / np.sqrt(variance / rows))
    p = holm(2 * ndtr(-z[pulled]))
    return np.asarray(np.flatnonzero(pulled)[p < ALPHA])
