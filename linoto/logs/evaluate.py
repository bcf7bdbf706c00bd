"""What would another policy have earned? An answer from logged rows alone, with an interval around it.

`replay` (Li et al. 2011; by rejection where the logger was not uniform, Dudík et al. 2012), `ips` (Horvitz
and Thompson 1952), `snips` (Swaminathan and Joachims 2015) and `doubly_robust` (Dudík et al. 2011). All need
to know with which probability the logger chose what it chose. Rows that built a warm start cannot also judge
it: where there is one, rows carry ids, and an overlap is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats
from linoto.core.intervals import betting_interval
from linoto.core.offline import Offline, as_offline
from linoto.core.protocols import Agent, Policy
from linoto.core.validation import as_actions, as_arm, check_choice, check_count, check_seed
from linoto.logs.estimates import Estimate as Estimate
from linoto.logs.estimates import (
    Found,
    Target,
    Weighted,
    is_policy,
    needed_propensities,
    of_logged,
    per_arm,
)
from linoto.logs.estimates import Interval as Interval
from linoto.logs.rows import Rows, WarmStart, check_disjoint

METHODS = ("replay", "ips", "snips", "dr")


# -- methods ----------------------------------------------------------------------------------------------


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
    return ips_of(Weighted.of(rows, target, "ips", interval))


def ips_of(seen: Weighted) -> Estimate:
    """The same of rows seen from a target."""
    low, high = min(seen.limits[0], 0.0), max(seen.limits[1], 0.0)  # a row without weight earns 0
    terms, limits = seen.weights * seen.rows.rewards, (seen.ceiling * low, seen.ceiling * high)
    found = seen.mean_of(terms, limits, binary=seen.binary and seen.limits[0] == 0)
    return seen.estimate("ips", float(terms.mean()), seen.with_unknown(found, low, high))


def snips(
    rows: Rows,
    target: Target,
    *,
    warm_start: Rows | WarmStart | None = None,
    interval: Interval = Interval(),  # noqa: B008
) -> Estimate:
    """Self-normalised: weighted rewards over weights. A little bias, less noise, never out of range."""
    check_disjoint(rows, warm_start)
    return snips_of(Weighted.of(rows, target, "snips", interval))


def snips_of(seen: Weighted) -> Estimate:
    """The same of rows seen from a target.

    The ratio of a target that learns has no bets of its own: means differ from row to row. But the mean of
    w (r - c) is that of r less c, as weights are 1 on average, for any c that is known before: the mean of
    earlier rows.
    """
    interval, w, r, limits = seen.interval, seen.weights, seen.rows.rewards, seen.limits
    if interval.kind in ("bernstein", "hoeffding"):
        raise ValueError(f"interval must be auto or normal for snips, a ratio, got {interval.kind!r}")
    value = float(w @ r / w.sum())
    if not seen.bounded:
        # The delta method: the ratio moves like the mean of w (r - value) / mean(w).
        found = interval.around(value, w * (r - value) / w.mean(), inf)
    elif seen.before is not None:
        around = float(seen.before.rewards.mean())
        low, high = limits[0] - around, limits[1] - around
        ends = (around + seen.ceiling * low, around + seen.ceiling * high)
        found = seen.mean_of(around + w * (r - around), ends, centred=True)
        return seen.estimate("snips", value, seen.with_unknown(found, low, high))
    elif seen.binary:
        found = seen.mean_of(r[w > 0], limits, binary=True)
    else:
        options: dict[str, Any] = {"weights": w, "ceiling": seen.ceiling, "level": interval.level}
        found = Found(*betting_interval(r, reward_range=limits, **options), "betting")
    return seen.estimate("snips", value, seen.with_unknown(found, *limits, 1 - seen.unknown))


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
    by one row; as folds depend on each other, coverage is then measured (docs/evaluation.md), not proven.
    """
    check_disjoint(rows, warm_start)
    seen = Weighted.of(rows, target, "dr", interval)
    low, high = seen.limits
    if model is not None:
        predicted = np.clip(as_model(model, rows), low, high)
        expected, own = np.einsum("...k,...k->...", seen.target, predicted), of_logged(predicted, rows)
    elif interval.kind in ("auto", "normal"):
        expected, own, predicted = cross_fitted(rows, seen.target, folds)
    else:
        raise ValueError(
            f"model must be given for a {interval.kind} interval, got None: folds lean on each other"
        )
    return corrected(seen, expected, own, predicted, proven=model is not None)


def corrected(seen: Weighted, expected: Floats, own: Floats, predicted: Floats, *, proven: bool) -> Estimate:
    """What a model expects (n,) of the target, corrected by the rewards beyond what it says (n,) of the
    logged arms; (k,) or (n, k) its predictions."""
    low, high = seen.limits
    terms = expected + seen.weights * (seen.rows.rewards - own)
    if seen.bounded:
        ends = np.repeat([[low], [high]], seen.rows.k, axis=1)  # (2, k) a model that learns may say anything
        limits = limits_of_terms(seen, ends if seen.learns else predicted)
    else:
        limits = (0.0, (high - low) * (1 + 2 * seen.ceiling))  # textbooks' width
    found = seen.with_unknown(seen.mean_of(terms, limits, centred=True), low - high, high - low)
    return seen.estimate("dr", float(terms.mean()), found, used=len(seen.rows), proven=proven)


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
    draws = rejection.random(len(rows))
    if is_policy(target):
        if interval.kind == "bernstein":
            raise ValueError("interval must not be bernstein for a policy that learns, got 'bernstein'")
        offline = Offline.empty(rows.k) if warm_start is None else warm_start.offline
        seen, kept = replayed(start_for_replay(target, actions, offline, rows.k, own), rows, draws, interval)
    else:
        seen = Weighted.of(rows, target, "replay", interval)
        kept = draws * seen.surely_kept < seen.weights
    rewards, limits = rows.rewards[kept], seen.limits
    if rewards.size == 0:
        raise ValueError("rows must leave at least one to judge by, got 0")
    found = seen.mean_of(rewards, limits, binary=bool(np.isin(rows.rewards, limits).all()))
    found = seen.with_unknown(found, *limits, 1 - seen.unknown)
    return seen.estimate("replay", float(rewards.mean()), found, kept=kept)


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


def start_for_replay(
    policy: Policy, actions: npt.ArrayLike | None, offline: Offline, k: int, rng: np.random.Generator
) -> Agent:
    """A policy at work on these arms."""
    if actions is None:
        raise ValueError("actions must be given to replay a policy, got None")
    arms = as_actions(actions)
    if len(arms) != k:
        raise ValueError(f"actions must have one row for each of the {k} arms, got {len(arms)}")
    return policy.start(arms, as_offline(offline, k), rng=rng)


def replayed(agent: Agent, rows: Rows, draws: Floats, interval: Interval) -> tuple[Weighted, Bools]:
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
    seen = Weighted(
        rows=rows,
        target=played,
        weights=weights,
        ceilings=np.full(rows.k, 1 / least),
        unknown=0.0,
        interval=interval,
        limits=interval.limits(rows.rewards),
        learns=True,
    )
    return seen, kept


def as_model(model: npt.ArrayLike, rows: Rows) -> Floats:
    """(k,) or (n, k) predicted rewards."""
    return per_arm("model", model, rows)


def limits_of_terms(seen: Weighted, predicted: Floats) -> tuple[float, float]:
    """Where terms of doubly robust lie: predicted + w (r - predicted), with predictions (k,) or (n, k)."""
    low, high = seen.limits
    least, most = (end(predicted.reshape(-1, seen.rows.k), axis=0) for end in (np.min, np.max))
    return (
        float(least.min() - (seen.ceilings * (most - low)).max()),
        float(most.max() + (seen.ceilings * (high - least)).max()),
    )


def cross_fitted(rows: Rows, target: Floats, folds: int) -> tuple[Floats, Floats, Floats]:
    """(n,) what the other folds predict of the target, and of the logged arm; (folds, k) all predictions."""
    check_count("folds", folds)
    if not 2 <= folds <= len(rows):
        raise ValueError(f"folds must be in [2, {len(rows)}], got {folds}")
    fold = np.arange(len(rows)) % folds
    expected, own = np.empty((2, len(rows)))
    predicted = np.empty((folds, rows.k))
    for held_out in range(folds):
        mine = fold == held_out
        rest = rows.take(~mine).offline
        means = predicted[held_out] = (rest.reward_sums + rest.reference) / (rest.pulls + 1)
        expected[mine] = (target if target.ndim == 1 else target[mine]) @ means
        own[mine] = means[rows.arms[mine]]
    return expected, own, predicted
