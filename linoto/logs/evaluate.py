"""What would another policy have earned? An answer from logged rows alone, with an interval around it.

`replay` (Li et al. 2011; by rejection where the logger was not uniform, Dudík et al. 2012), `ips` (Horvitz
and Thompson 1952), `snips` (Swaminathan and Joachims 2015) and `doubly_robust` (Dudík et al. 2011). All need
to know with which probability the logger chose what it chose. Rows that built a warm start cannot also judge
it: where there is one, rows carry ids, and an overlap is refused.

Where rows have contexts, a target may look at them, and the model of doubly robust is linear in the features
of their recipe. A target that is learnt from rows is judged as it would have gone: each block of rows judges
what the blocks before it teach.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.agent import Agent
from linoto.core.arrays import Bools, Floats
from linoto.core.guardrail import Guardrail
from linoto.core.intervals import Limits, betting_interval
from linoto.core.validation import check_choice, check_count, check_seed, exact
from linoto.logs.estimates import Estimate as Estimate
from linoto.logs.estimates import Found, Weighted
from linoto.logs.estimates import Interval as Interval
from linoto.logs.fits import Fitted, fit_earlier_blocks, fit_other_folds
from linoto.logs.gains import check_baseline, gains_over
from linoto.logs.learning import choices_by_block, said_of_blocks
from linoto.logs.odd_weights import dr_if_weights_fit, of_metric, only_if_weights_fit, weights_of_1
from linoto.logs.plays import Plays, Shares
from linoto.logs.row_kinds import Practice, RowsOfArms, kind_of
from linoto.logs.rows import Rows, WarmStart, check_disjoint
from linoto.logs.targets import (
    GREEDY,
    Target,
    agent_of,
    as_plays,
    check_not_taught_by,
    is_learnt,
    is_policy,
    needed_propensities,
    per_arm,
    taught,
)
from linoto.logs.targets import Word as Word

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
    coins = seen.alike and seen.limits[0] == 0 and bool(np.isin(seen.rows.rewards, seen.limits).all())
    found = seen.mean_of(terms, limits, plain=coins)
    return only_if_weights_fit(seen.estimate("ips", float(terms.mean()), seen.with_unknown(found, low, high)))


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
        return weights_of_1(seen.estimate("snips", value, seen.with_unknown(found, low, high)))
    elif seen.alike:
        found = seen.mean_of(r[w > 0], limits, plain=True)
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
    ridge: float = 1.0,
    warm_start: Rows | WarmStart | None = None,
    interval: Interval = Interval(),  # noqa: B008
) -> Estimate:
    """A model's answer, corrected by weighted residuals: right if the model or the propensities are.

    `model` is each arm's predicted reward, (k,) or (n, k), made without these rows. Without one it is fitted
    for each row on the other folds (row i is in fold i mod folds): the mean of each arm, shrunk towards the
    mean of all by one row, or with contexts a linear model with a `ridge`; as folds depend on each other,
    coverage is then measured (docs/evaluation.md), not proven.
    """
    check_disjoint(rows, warm_start)
    seen = Weighted.of(rows, target, "dr", interval)
    if model is not None:
        known = Fitted(rows=rows, parts=[np.arange(len(rows))], predicted=[per_arm("model", model, rows)])
        return corrected(seen, known, proven=True)
    if interval.kind not in ("auto", "normal"):
        raise ValueError(
            f"model must be given for a {interval.kind} interval, got None: folds lean on each other"
        )
    return corrected(seen, fit_other_folds(rows, folds=folds, ridge=ridge), proven=False)


def corrected(seen: Weighted, fitted: Fitted, *, proven: bool) -> Estimate:
    """What a model expects of the target, corrected by the rewards beyond what it says of the logged arms."""
    low, high = seen.limits
    model = fitted.clipped(low, high)
    terms = model.corrected(seen.target, seen.weights)
    if seen.bounded:
        some = np.full(seen.rows.k, low), np.full(seen.rows.k, high)  # a model that learns may say anything
        limits = limits_of_terms(seen, *(some if seen.learns else model.ends))
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
    practice: Practice = None,
    seed: int = 0,
    interval: Interval = Interval(),  # noqa: B008
) -> Estimate:
    """The mean reward of the rows in which the target would have done what the logger did.

    Rows are kept by rejection so that those kept look as if the target had logged them: all that agree where
    the logger was uniform, fewer where it was not. The target may be a policy, which then learns from the
    rows that are kept, starting from the warm start; the interval is then about the mean rewards of the arms
    that it played. With contexts it is asked in the context of each row; one that plays what is done today
    needs that said as `practice`, weights of arms by name or a function of a context and the arms on offer.
    `seed` drives the rejection and the policy.
    """
    return kept_mean(*replay_rows(rows, target, actions, warm_start, seed, interval, practice))


def replay_rows(
    rows: Rows,
    target: Target,
    actions: npt.ArrayLike | None,
    warm_start: Any,
    seed: int,
    interval: Interval,
    practice: Practice,
) -> tuple[Weighted, Bools]:
    """The rows seen from a target, and (n,) which of them look as if it had logged them."""
    check_disjoint(rows, warm_start)
    check_seed(seed)
    rejection, own = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    draws = rejection.random(len(rows))
    if is_policy(target):
        check_not_taught_by(rows, target)
        if interval.kind == "bernstein":
            raise ValueError("interval must not be bernstein for a policy that learns, got 'bernstein'")
        told = told_metrics(rows, target)
        asking = kind_of(rows, practice)
        agent = asking.start(target, actions, warm_start, own)
        return replayed(asking, agent, draws, interval, told)
    seen = Weighted.of(rows, target, "replay", interval)
    return seen, draws * seen.surely_kept < seen.weights


def kept_mean(seen: Weighted, kept: Bools) -> Estimate:
    """The mean of the rows that a replay kept."""
    rewards, limits = seen.rows.rewards[kept], seen.limits
    if rewards.size == 0:
        raise ValueError("rows must leave at least one to judge by, got 0")
    found = seen.mean_of(rewards, limits, plain=True)
    found = seen.with_unknown(found, *limits, 1 - seen.unknown)
    return seen.estimate("replay", float(rewards.mean()), found, kept=kept)


def evaluate(
    rows: Rows,
    target: Target,
    *,
    methods: Sequence[str] | None = None,
    actions: npt.ArrayLike | None = None,
    model: npt.ArrayLike | None = None,
    folds: int = 5,
    ridge: float = 1.0,
    warm_start: Rows | WarmStart | None = None,
    practice: Practice = None,
    seed: int = 0,
    interval: Interval = Interval(),  # noqa: B008
    guardrails: Sequence[Guardrail] = (),
    baseline: Target | None = None,
) -> list[Estimate]:
    """What a target would have earned per round, by several methods in the order asked for.

    The target is an arm by its number or its name, weights of arms by name, probabilities (k,) or (n, k), a
    function of a context and the arms on offer that returns an arm or weights, a running agent, of which a
    copy is asked in every row, with draws and coins by `seed`, and does not learn, a policy that learns as it
    plays, what `learn_policy` learnt from other rows, or a way to learn: "greedy", "doubly robust" or
    "pessimistic" (where an arm is called so, `Word("greedy")`). Without `methods` all are taken that the
    target can have: of a policy that learns as it plays that is replay.

    A way to learn plays in each of so many blocks (`folds`) what is learnt from all earlier ones: greedy, the
    best arm by their model. It is what would have happened if the policy had been learnt anew before each
    block, and then trusted. The value is the average of these policies over the rows after the first block,
    which has no earlier ones. Rows must be in the order in which they were logged (`time=`), or in one that
    has nothing to do with what they say.

    Metrics that rows have besides the reward (`rows.metrics`) are estimated too, each in estimates of its own
    whose `metric` is its name, from the rows that have a value. Those of `guardrails`, or of the policy's
    own, have intervals by their ranges. A policy with guardrails is told the values of the rows it plays.

    With contexts, a policy or an agent that plays what is done today needs that said as `practice`: weights
    of arms by name, or a function of a context and the arms on offer, such as what `learn_policy` learnt from
    other rows. Rows say how likely what they played was, and not what would be played in their place.

    With a `baseline`, which is "logged" (what the rows show) or any target but a policy that learns as it
    plays, estimates follow of what the target earns beyond it, by ips and dr; their `beyond` says what. Every
    row judges both, so a difference is surer than two intervals side by side. Where one of both is learnt
    from earlier rows it is about the rows after the first block.

    All rest on the propensities of rows: `linoto.logs.doubts.doubts_of` says what speaks against those.
    """
    if not isinstance(rows, Rows):
        raise ValueError(f"rows must be a linoto.Rows, as read_rows returns, got {type(rows).__name__}")
    if not isinstance(interval, Interval):
        raise ValueError(
            "interval must be an Interval of linoto.logs.evaluate, such as Interval(level=0.9), "
            f"got {interval!r}"
        )
    if methods is not None and (isinstance(methods, str) or not isinstance(methods, Collection)):
        raise ValueError(f"methods must be some of {', '.join(METHODS)} in a list, got {methods!r}")
    for method in methods or ():
        check_choice("methods", method, METHODS)
    intervals = intervals_of(rows, interval, (*getattr(target, "guardrails", ()), *guardrails))
    check_baseline(rows, target, baseline, methods, interval)
    learnt, plays, decides = taught(target), target, (agent_of(one) for one in (target, baseline))
    if practice is not None and not is_policy(target) and not any(decides):
        raise ValueError(
            f"practice must be None for a target that does not learn or decide, got {practice!r}"
        )
    check_seed(seed)
    same: dict[str, Any] = {"folds": folds, "ridge": ridge, "seed": seed}
    if is_learnt(target):
        judged = methods or METHODS[1:]
        found = evaluate_learnt(rows, target, judged, folds, ridge, warm_start, interval, intervals)
    elif is_policy(target):
        found = evaluate_policy(
            *(rows, target, methods or METHODS[:1], actions, warm_start),
            *(seed, interval, intervals, learnt, practice),
        )
    else:
        plays = as_plays(target, rows, "an evaluation", practice=practice, seed=seed)
        same["warm_start"] = warm_start
        found = evaluate_plays(rows, plays, methods or METHODS, actions, model, interval, intervals, same)
        found = [replace(estimate, learnt=learnt) for estimate in found]
        del same["warm_start"]
    if baseline is None:
        return found
    same |= {"model": model, "practice": practice, "interval": interval, "intervals": intervals}
    return [*found, *gains_over(rows, plays, baseline, methods=methods, learnt=learnt, **same)]


def evaluate_plays(
    rows: Rows,
    plays: Plays,
    methods: Sequence[str],
    actions: npt.ArrayLike | None,
    model: npt.ArrayLike | None,
    interval: Interval,
    intervals: Mapping[str, Interval],
    same: Mapping[str, Any],
) -> list[Estimate]:
    """What a target would have earned that was fixed before, and had of each metric."""
    estimates = each_method(rows, plays, methods, actions=actions, model=model, interval=interval, **same)
    found = [dr_if_weights_fit(estimate) for estimate in estimates]
    for metric, own in intervals.items():
        known = plays.take(np.isfinite(rows.metrics[metric]))
        estimates = each_method(rows.about(metric), known, methods, interval=own, **same)
        found += [of_metric(estimate, metric, rows) for estimate in estimates]
    return found


def each_method(
    rows: Rows,
    plays: Plays,
    methods: Sequence[str],
    *,
    folds: int,
    ridge: float,
    warm_start: Rows | WarmStart | None,
    seed: int,
    interval: Interval,
    actions: npt.ArrayLike | None = None,
    model: npt.ArrayLike | None = None,
) -> list[Estimate]:
    """What each of these methods says of what a target plays."""
    shared: dict[str, Any] = {"warm_start": warm_start, "interval": interval}
    calls: dict[str, Callable[[], Estimate]] = {
        "replay": lambda: replay(rows, plays, actions=actions, seed=seed, **shared),
        "ips": lambda: ips(rows, plays, **shared),
        "snips": lambda: snips(rows, plays, **shared),
        "dr": lambda: doubly_robust(rows, plays, model=model, folds=folds, ridge=ridge, **shared),
    }
    return [calls[method]() for method in methods]


def intervals_of(rows: Rows, interval: Interval, guardrails: Sequence[Guardrail]) -> dict[str, Interval]:
    """How each metric of the rows is bounded: by the range of its guardrail, where there is one."""
    ranges = {rail.name: rail.reward_range for rail in guardrails}
    for metric in ranges.keys() & rows.metrics.keys():
        check_range(metric, ranges[metric], rows.metrics[metric])
    return {metric: replace(interval, reward_range=ranges.get(metric)) for metric in rows.metrics}


def check_range(metric: str, limits: Limits, values: Floats) -> None:
    """Refuse a range of a guardrail that values leave."""
    known, (low, high) = values[np.isfinite(values)], limits
    if known.size and not low <= known.min() <= known.max() <= high:
        raise ValueError(
            f"guardrail {metric!r}: its range must hold every value, from {exact(known.min())} to "
            f"{exact(known.max())}, got {exact(low)}..{exact(high)}"
        )


def evaluate_policy(
    rows: Rows,
    policy: Target,
    methods: Sequence[str],
    actions: npt.ArrayLike | None,
    warm_start: Rows | WarmStart | None,
    seed: int,
    interval: Interval,
    intervals: Mapping[str, Interval],
    learnt: str,
    practice: Practice,
) -> list[Estimate]:
    """What a policy would have earned that learns as it plays, and had of each metric."""
    for method in methods:
        if method != "replay":
            as_plays(policy, rows, method)  # says why not
    seen, kept = replay_rows(rows, policy, actions, warm_start, seed, interval, practice)
    found = [kept_mean(seen, kept)]
    for metric, own in intervals.items():
        known = np.isfinite(rows.metrics[metric])
        found.append(of_metric(kept_mean(seen.about(metric, own), kept[known]), metric, rows))
    return [replace(estimate, learnt=learnt) for estimate in found]


def told_metrics(rows: Rows, policy: Target) -> dict[str, Floats]:
    """The values that a policy with guardrails is told."""
    names = [rail.name for rail in getattr(policy, "guardrails", ())]
    for name in names:
        if name not in rows.metrics:
            raise ValueError(f"rows must have the metric {name!r} of the policy's guardrail, got none")
    return {name: np.asarray(rows.metrics[name]) for name in names}


def evaluate_learnt(
    rows: Rows,
    target: str,
    methods: Sequence[str],
    blocks: int,
    ridge: float,
    warm_start: Rows | WarmStart | None,
    interval: Interval,
    intervals: Mapping[str, Interval],
) -> list[Estimate]:
    """What policies would have earned that are learnt from earlier blocks, and had of each metric."""
    check_disjoint(rows, warm_start)
    if "replay" in methods:
        raise ValueError(f"methods must be ips, snips or dr for a {target} target, got 'replay'")
    check_count("folds", blocks)
    least = blocks if target == GREEDY else 2 * blocks  # a row to learn from, or two
    if len(rows) < least:
        raise ValueError(
            f"rows must be at least {least} for a {target} target, which is learnt from earlier ones before "
            f"each of {blocks} blocks (folds), got {len(rows)}"
        )
    fitted, before = fit_earlier_blocks(rows, blocks=blocks, ridge=ridge)
    chosen = choices_by_block(rows, fitted, target, ridge)
    calls: dict[str, Callable[[Weighted], Estimate]] = {
        "ips": ips_of,
        "snips": snips_of,
        "dr": lambda seen: corrected(seen, fitted, proven=True),
    }
    if "dr" in methods and interval.kind not in ("auto", "normal"):
        raise ValueError(f"interval must be auto or normal for dr with a fitted model, got {interval.kind!r}")
    seen = [Weighted.of(fitted.rows, chosen, method, interval, before=before) for method in methods]
    said = said_of_blocks(target, blocks, before)
    found = [dr_if_weights_fit(calls[by](rows)) for by, rows in zip(methods, seen, strict=True)]
    del calls["dr"]  # its model is one of rewards
    for metric, own in intervals.items():
        some = [(by, part.about(metric, own)) for by, part in zip(methods, seen, strict=True) if by in calls]
        found += [of_metric(calls[by](part), metric, fitted.rows) for by, part in some]
    return [replace(estimate, learnt=said) for estimate in found]


# -- pieces -----------------------------------------------------------------------------------------------


def replayed(
    asking: RowsOfArms, agent: Agent, draws: Floats, interval: Interval, told: Mapping[str, Floats]
) -> tuple[Weighted, Bools]:
    """The rows seen from a learning agent, and (n,) which it keeps; it is `told` these metrics.

    Whatever the agent asks for, a row is kept with the same probability, the least propensity: how many are
    kept says nothing about their rewards. Where every row asks the same, it is asked again only after it has
    learned.
    """
    rows = asking.rows
    propensities = needed_propensities(rows, "replay")
    least = float(propensities.min())
    kept = np.zeros(len(rows), dtype=np.bool_)
    weights = np.zeros(len(rows))
    choice, wanted = asking.ask(agent, 0)
    for i, (arm, reward) in enumerate(zip(rows.arms.tolist(), rows.rewards.tolist(), strict=True)):
        if i and (kept[i - 1] or asking.varies):
            choice, wanted = asking.ask(agent, i)
        if arm != wanted:
            continue
        weights[i] = 1 / propensities[i]
        if draws[i] * propensities[i] < least:
            kept[i] = True
            values = {name: column[i] for name, column in told.items() if np.isfinite(column[i])}
            agent.update(asking.played(agent, i, choice), reward, **({"metrics": values} if values else {}))
    asking.check_end(agent, wanted, kept)
    played = np.bincount(rows.arms[kept], minlength=rows.k) / max(int(kept.sum()), 1)
    seen = Weighted(
        rows=rows,
        target=Shares(played),
        weights=weights,
        ceilings=np.full(rows.k, 1 / least),
        unknown=0.0,
        interval=interval,
        limits=interval.limits(rows.rewards),
        learns=True,
    )
    return seen, kept


def limits_of_terms(seen: Weighted, least: Floats, most: Floats) -> tuple[float, float]:
    """Where terms of doubly robust lie: predicted + w (r - predicted), for predictions between these."""
    low, high = seen.limits
    return (
        float(least.min() - (seen.ceilings * (most - low)).max()),
        float(most.max() + (seen.ceilings * (high - least)).max()),
    )
