"""What would another policy have earned? An answer from logged rows alone, with an interval around it.

`replay` (Li et al. 2011; by rejection where the logger was not uniform, Dudík et al. 2012), `ips` (Horvitz
and Thompson 1952), `snips` (Swaminathan and Joachims 2015) and `doubly_robust` (Dudík et al. 2011). All need
to know with which probability the logger chose what it chose. Rows that built a warm start cannot also judge
it: where there is one, rows carry ids, and an overlap is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, log, sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.core.kernels import Bools, Floats
from linoto.core.offline import Offline, as_offline
from linoto.core.validation import (
    as_actions,
    as_arm,
    as_floats,
    as_range,
    check_choice,
    check_count,
    check_seed,
    is_number,
)
from linoto.logs.rows import Rows, WarmStart, check_disjoint

METHODS = ("replay", "ips", "snips", "dr")
KINDS = ("normal", "bernstein", "hoeffding")
Target = Any  # an arm, (k,) or (n, k) probabilities, or for replay a policy


# -- estimates --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What the target earns per round according to one method, and how much the log could say about it."""

    method: str
    value: float
    low: float
    high: float
    level: float
    interval: str  # its kind
    rows: int
    used: int  # rows that count: accepted ones, or those with a weight
    effective: float  # (sum w)^2 / sum w^2: so many rows logged by the target itself would say as much
    largest_weight: float
    mean_weight: float  # 1 on average where the propensities are right
    weights_fit: bool  # whether it is within five standard errors of 1
    unseen: float  # share of the target on arms that no row shows

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Which interval, and how surely it covers.

    "normal" is the value ± z standard errors: right in the limit of many rows. "bernstein" (the empirical
    bound of Maurer and Pontil 2009, Theorem 4, on both sides) and "hoeffding" (with Azuma) hold for any
    number of rows; they need to know where single rewards lie, and that no propensity is below the least one
    seen.
    """

    kind: Literal["normal", "bernstein", "hoeffding"] = "normal"
    level: float = 0.95
    reward_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        if not is_number(self.level) or not 0 < self.level < 1:
            raise ValueError(f"level must be in (0, 1), got {self.level!r}")
        if self.reward_range is not None:
            object.__setattr__(self, "reward_range", as_range(self.reward_range))
        elif self.kind != "normal":
            raise ValueError(f"reward_range must be given for a {self.kind} interval, got None")

    def limits(self, rewards: Floats) -> tuple[float, float]:
        """Where single rewards lie, these among them."""
        low, high = self.reward_range or (-inf, inf)
        if rewards.min() < low or rewards.max() > high:
            found = f"[{rewards.min():g}, {rewards.max():g}]"
            raise ValueError(f"rewards must be in reward_range {(low, high)}, got {found}")
        return low, high

    def half_width(self, terms: Floats, width: float) -> float:
        """Half the interval around the mean of terms (n,) that lie within `width` of each other."""
        if self.kind == "normal":
            return self.normal_half_width(terms)
        error, n, miss = standard_error(terms), terms.size, 1 - self.level
        if self.kind == "hoeffding":
            return width * sqrt(log(2 / miss) / (2 * n))
        return sqrt(2 * log(4 / miss)) * error + 7 * width * log(4 / miss) / (3 * (n - 1))

    def normal_half_width(self, terms: Floats) -> float:
        """z standard errors of the mean of terms (n,), whatever they lie between."""
        return NormalDist().inv_cdf((1 + self.level) / 2) * standard_error(terms)


def standard_error(terms: Floats) -> float:
    """Of the mean of terms (n,)."""
    if terms.size < 2:
        raise ValueError(f"rows must leave at least two to judge by, got {terms.size}")
    return float(terms.std(ddof=1)) / sqrt(terms.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted:
    """Rows seen from a target."""

    rows: Rows
    target: Floats  # (k,) or (n, k) probabilities
    weights: Floats  # (n,) target over propensity of the logged arm
    ceiling: float  # the largest weight any row could have, if no propensity is below the least one seen

    @classmethod
    def of(cls, rows: Rows, target: Target, method: str) -> Weighted:
        """Refuse what the method cannot do without."""
        propensities = needed_propensities(rows, method)
        probabilities = as_target(target, rows, method)
        weights = of_logged(probabilities, rows) / propensities
        if not weights.any():
            raise ValueError("rows must show at least one arm that the target plays, got none")
        ceiling = float(probabilities.max() / propensities.min())
        return cls(rows=rows, target=probabilities, weights=weights, ceiling=ceiling)

    def estimate(self, method: str, value: float, half: float, used: int, interval: Interval) -> Estimate:
        """An estimate with what a reader needs to judge it."""
        w = self.weights
        unseen = np.bincount(self.rows.arms, minlength=self.rows.k) == 0
        return Estimate(
            method=method,
            value=value,
            low=value - half,
            high=value + half,
            level=interval.level,
            interval=interval.kind,
            rows=len(self.rows),
            used=used,
            effective=float(w.sum() ** 2 / (w**2).sum()),
            largest_weight=float(w.max()),
            mean_weight=float(w.mean()),
            weights_fit=bool(abs(w.mean() - 1) <= 5 * w.std() / sqrt(w.size) + 1e-9),
            unseen=float(self.target[..., unseen].sum(axis=-1).mean()),
        )


def ips(
    rows: Rows,
    target: Target,
    *,
    warm_start: Rows | WarmStart | None = None,
    interval: Interval = Interval(),  # noqa: B008 - frozen, so safe to share
) -> Estimate:
    """Inverse propensity scoring, the mean of weight times reward: unbiased, loud where weights are large.

    >>> rows = Rows(arms=[0, 0, 1, 1], rewards=[1.0, 0.0, 1.0, 1.0], k=2, propensities="uniform")
    >>> ips(rows, [0.25, 0.75]).value
    0.875
    """
    check_disjoint(rows, warm_start)
    seen = Weighted.of(rows, target, "ips")
    low, high = interval.limits(rows.rewards)
    terms = seen.weights * rows.rewards
    half = interval.half_width(terms, seen.ceiling * (max(high, 0.0) - min(low, 0.0)))
    return seen.estimate("ips", float(terms.mean()), half, int(np.count_nonzero(seen.weights)), interval)


def snips(
    rows: Rows,
    target: Target,
    *,
    warm_start: Rows | WarmStart | None = None,
    interval: Interval = Interval(),  # noqa: B008
) -> Estimate:
    """Self-normalised: weighted rewards over weights. A little bias, less noise, never out of range."""
    if interval.kind != "normal":
        raise ValueError(f"interval must be normal for snips, which is a ratio, got {interval.kind!r}")
    check_disjoint(rows, warm_start)
    seen = Weighted.of(rows, target, "snips")
    w = seen.weights
    value = float(w @ rows.rewards / w.sum())
    # The delta method: the ratio moves like the mean of w (r - value) / mean(w).
    half = interval.normal_half_width(w * (rows.rewards - value) / w.mean())
    return seen.estimate("snips", value, half, int(np.count_nonzero(w)), interval)


def doubly_robust(
    rows: Rows,
    target: Target,
    *,
    model: npt.ArrayLike | None = None,
    folds: int = 5,
    warm_start: Rows | WarmStart | None = None,
    interval: Interval = Interval(),  # noqa: B008
) -> Estimate:
    """A model's answer, corrected by weighted residuals: right if the model or the propensities are.

    `model` is each arm's predicted reward, (k,) or (n, k), made without these rows. Without one, each arm's
    mean reward is taken from the other folds (row i is in fold i mod folds), shrunk towards the mean of all
    by one row.
    """
    check_disjoint(rows, warm_start)
    seen = Weighted.of(rows, target, "dr")
    low, high = interval.limits(rows.rewards)
    if model is not None:
        predicted = np.clip(as_model(model, rows), low, high)
        expected, own = np.einsum("...k,...k->...", seen.target, predicted), of_logged(predicted, rows)
    elif interval.kind == "normal":
        expected, own = cross_fitted(rows, seen.target, folds)
    else:
        raise ValueError(
            f"model must be given for a {interval.kind} interval, got None: folds lean on each other"
        )
    terms = expected + seen.weights * (rows.rewards - own)
    half = interval.half_width(terms, (high - low) * (1 + 2 * seen.ceiling))
    return seen.estimate("dr", float(terms.mean()), half, len(rows), interval)


def replay(
    rows: Rows,
    target: Target,
    *,
    actions: npt.ArrayLike | None = None,
    warm_start: Rows | WarmStart | None = None,
    seed: int = 0,
    interval: Interval = Interval(),  # noqa: B008
) -> Estimate:
    """The mean reward of the rows in which the target would have done what the logger did.

    Rows are kept by rejection so that those kept look as if the target had logged them: all that agree where
    the logger was uniform, fewer where it was not. The target may be a policy, which then learns from the
    rows that are kept, starting from the warm start; the interval is then about the mean rewards of the arms
    that it played. `seed` drives the rejection and the policy.
    """
    check_disjoint(rows, warm_start)
    check_seed(seed)
    rejection, own = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    low, high = interval.limits(rows.rewards)
    draws = rejection.random(len(rows))
    if is_policy(target):
        if interval.kind == "bernstein":
            raise ValueError("interval must be normal or hoeffding for a policy that learns, got 'bernstein'")
        offline = Offline.empty(rows.k) if warm_start is None else warm_start.offline
        seen, kept = replayed(start(target, actions, offline, rows.k, own), rows, draws)
    else:
        seen = Weighted.of(rows, target, "replay")
        kept = draws * seen.weights.max() < seen.weights
    rewards = rows.rewards[kept]
    half = interval.half_width(rewards, high - low)
    found = seen.estimate("replay", float(rewards.mean()), half, rewards.size, interval)
    return replace(found, effective=float(rewards.size))


def evaluate(
    rows: Rows,
    target: Target,
    *,
    methods: Sequence[str] = METHODS,
    actions: npt.ArrayLike | None = None,
    model: npt.ArrayLike | None = None,
    warm_start: Rows | WarmStart | None = None,
    seed: int = 0,
    interval: Interval = Interval(),  # noqa: B008
) -> list[Estimate]:
    """Several methods at once, in the order asked for."""
    for method in methods:
        check_choice("methods", method, METHODS)
    shared: dict[str, Any] = {"warm_start": warm_start, "interval": interval}
    calls = {
        "replay": lambda: replay(rows, target, actions=actions, seed=seed, **shared),
        "ips": lambda: ips(rows, target, **shared),
        "snips": lambda: snips(rows, target, **shared),
        "dr": lambda: doubly_robust(rows, target, model=model, **shared),
    }
    return [calls[method]() for method in methods]


# -- pieces -----------------------------------------------------------------------------------------------


def is_policy(target: Target) -> bool:
    """Whether a target learns as it goes."""
    return callable(getattr(target, "start", None))


def start(
    policy: Any, actions: npt.ArrayLike | None, offline: Offline, k: int, rng: np.random.Generator
) -> Any:
    """A policy at work on these arms."""
    if actions is None:
        raise ValueError("actions must be given to replay a policy, got None")
    arms = as_actions(actions)
    if len(arms) != k:
        raise ValueError(f"actions must have one row for each of the {k} arms, got {len(arms)}")
    return policy.start(arms, as_offline(offline, k), rng=rng)


def replayed(agent: Any, rows: Rows, draws: Floats) -> tuple[Weighted, Bools]:
    """The rows seen from a learning agent, and (n,) which it keeps.

    Whatever the agent asks for, a row is kept with the same probability, the least propensity: how many are
    kept says nothing about their rewards.
    """
    propensities = needed_propensities(rows, "replay")
    least = float(propensities.min())
    kept = np.zeros(len(rows), dtype=np.bool_)
    weights = np.zeros(len(rows))
    ask = agent.decide if hasattr(agent, "decide") else agent.select
    choice = ask()
    for i, (arm, reward) in enumerate(zip(rows.arms.tolist(), rows.rewards.tolist(), strict=True)):
        if arm != as_arm(getattr(choice, "arm", choice), rows.k):
            continue
        weights[i] = 1 / propensities[i]
        if draws[i] * propensities[i] < least:
            kept[i] = True
            agent.update(choice, reward)
            choice = ask()
    wanted = as_arm(getattr(choice, "arm", choice), rows.k)
    if wanted not in rows.arms:
        raise ValueError(
            f"rows must show every arm that the policy plays, got none of {rows.name(wanted)}, "
            f"which it waits for after {kept.sum()} rounds"
        )
    played = np.bincount(rows.arms[kept], minlength=rows.k) / max(int(kept.sum()), 1)
    return Weighted(rows=rows, target=played, weights=weights, ceiling=1 / least), kept


def needed_propensities(rows: Rows, method: str) -> Floats:
    """(n,) the propensities, without which no method works."""
    if rows.propensities is None:
        raise ValueError(
            f"propensities must be given for {method}, got None: with which probability was each row's arm "
            "chosen? ('uniform' where every arm was as likely)"
        )
    return np.asarray(rows.propensities)


def as_target(target: Target, rows: Rows, method: str) -> Floats:
    """(k,) or (n, k) the target's probabilities."""
    if is_policy(target):
        raise ValueError(f"target must be an arm or probabilities for {method}: a policy needs replay")
    if isinstance(target, int | np.integer):
        target = np.eye(rows.k)[as_arm(target, rows.k, "target")]
    probabilities = per_arm("target", target, rows)
    wrong = (probabilities < 0).any() or (abs(probabilities.sum(axis=-1) - 1) > 1e-6).any()
    if wrong:
        raise ValueError("target must be probabilities that sum to 1, got some that do not")
    return probabilities


def as_model(model: npt.ArrayLike, rows: Rows) -> Floats:
    """(k,) or (n, k) predicted rewards."""
    return per_arm("model", model, rows)


def per_arm(name: str, value: Any, rows: Rows) -> Floats:
    """(k,) values of arms, or (n, k) where they differ from row to row."""
    per_row = np.ndim(value) == 2
    array = as_floats(name, value, ndim=2 if per_row else 1)
    shape = (len(rows), rows.k) if per_row else (rows.k,)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def of_logged(values: Floats, rows: Rows) -> Floats:
    """(n,) the entries of (k,) or (n, k) values that belong to the logged arms."""
    return np.asarray(values[rows.arms] if values.ndim == 1 else values[np.arange(len(rows)), rows.arms])


def cross_fitted(rows: Rows, target: Floats, folds: int) -> tuple[Floats, Floats]:
    """(n,) what the other folds predict of the target, and of the logged arm."""
    check_count("folds", folds)
    if not 2 <= folds <= len(rows):
        raise ValueError(f"folds must be in [2, {len(rows)}], got {folds}")
    fold = np.arange(len(rows)) % folds
    expected, own = np.empty((2, len(rows)))
    for held_out in range(folds):
        mine = fold == held_out
        rest = rows.take(~mine).offline
        means = (rest.reward_sums + rest.reference) / (rest.pulls + 1)
        expected[mine] = (target if target.ndim == 1 else target[mine]) @ means
        own[mine] = means[rows.arms[mine]]
    return expected, own
