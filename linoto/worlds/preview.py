"""What would happen if we deployed this? Play it in worlds that the log finds plausible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor, inf, isnan, log10
from typing import Any

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.certificates import LOG, PRACTICE
from linoto.core.codec import finite
from linoto.core.confidence import Confidence
from linoto.core.gates import GATES, Control, Gate
from linoto.core.hints import counted
from linoto.core.intervals import chance_of_at_least
from linoto.core.notebook import html_table
from linoto.core.offline import Offline
from linoto.core.policies import Gated
from linoto.core.protocols import ComposedPolicy, Policy
from linoto.core.snapshots import to_dict
from linoto.core.usual_confidence import with_usual_confidence
from linoto.core.validation import as_floats, check_nonnegative, check_positive, one_of
from linoto.core.verdicts import HORIZON, is_blind, surely_earned, why_worthless
from linoto.engines import THREADS, Engine, Track
from linoto.worlds.delays import check_delay
from linoto.worlds.logged_rounds import PracticeInLog, RowsOfLog
from linoto.worlds.outcomes import (
    FEW,
    GridPoint,
    play_worlds,
    quantile,
    worlds_shown,
)
from linoto.worlds.plausible import Drawing, Plausible, plausible
from linoto.worlds.posterior import LoggedArms

AS_GOOD = 0.05  # of the largest mean gain: what a smaller value may gain less and still be chosen
BESIDE = ("worst_loss_90", "worst_loss_max", "gain_mean", "gain_10", "gain_90")  # with no better arm
USUAL_WORLDS = 30
ASKED_COST = 60_000  # the same of a round that is asked for by itself
MOST_WORK = 20_000_000_000  # multiplications in all worlds: about a minute of one core
STAKE = 10.0  # times the mean gain: what a promise may allow to lose and still be worth having
WORTH = 0.001  # of what the log earns: nobody changes anything for a smaller gain


@dataclass(frozen=True, kw_only=True, eq=False)
class Preview:
    """The trade-off between regret and the shortfall below the log, over a grid of the parameter."""

    policy: ComposedPolicy  # with the parameter as it came
    parameter: str  # "epsilon" or "alpha"
    horizon: int
    worlds: int
    prior: float  # standard deviation of the arms' average rewards: given, or the mean of spread
    logged_arms: LoggedArms  # how they were chosen, as far as the worlds know: "good", "random" or "best"
    features_alone: bool  # nothing is an arm's own: untried ones are drawn by their features
    drift: float  # how far an average reward moves until the last round (standard deviation); 0: not at all
    seed: int
    points: tuple[GridPoint, ...]
    no_better: tuple[GridPoint, ...] | None  # the same if no untried arm is better than the worst logged one
    best: Ints  # (worlds,) the best arm of each world
    headroom: Floats  # (worlds,) how much more than the log the best arm earns, in all rounds together
    spread: Floats  # (worlds,) standard deviation between the average rewards that each was drawn with
    earned: float  # by as many rounds of the log's average reward; below 0 a cost, NaN where nobody can tell
    event: float = 0.0  # what one reward of two possible ones is worth, as a click; 0 where others exist
    rounds_from: str = ""  # what the rounds of a log with contexts are drawn from, in words; "": fixed arms
    least_misfit: float = 0.0  # of the linear model, that the log could have shown; 0: nothing rests on it
    unguarded: tuple[GridPoint, ...] = ()  # the same policy without its guardrails, where it has some
    delay: int = 0  # rounds after which a reward, and values of guardrails, are known
    within: Floats | None = None  # (worlds,) standard deviation between the arms of a round; None: arms stay
    by_shares: bool = False  # practice plays the log's own shares, whoever asks

    @property
    def contradiction(self) -> str:
        """How the choice of what was played contradicts practice, if it does."""
        if not self.by_shares or self.logged_arms == "random":
            return ""
        return (
            f"practice plays the shares of the log, whoever asks, which contradicts logged_arms "
            f"{self.logged_arms!r}: there somebody chose for each round, and practice earns less here than "
            "the log did; say random, or leave it out"
        )

    @property
    def baseline(self) -> str:
        """What losses and gains are counted against."""
        return "current practice" if self.drift or self.rounds_from else "the log"

    @property
    def if_no_better(self) -> str:
        """What the second kind of worlds is about, as a part of a sentence."""
        if self.rounds_from:
            return "if no arm is better than the one that the log played in its round"
        return "if no untried arm is better than the worst logged one"

    def table(self) -> list[dict[str, float | None]]:
        """One row per value of the parameter; `no_better_...` where no untried arm beats the worst logged.

        `shortfall_90` and `shortfall_max` are what a reader may rely on: see `shortfalls`.
        """
        rows = [point.row(self.horizon) for point in self.points]
        for row, point in zip(rows, self.points, strict=True):
            other = self.beside(point)
            found = {} if other is None else other.row(self.horizon)
            row |= {f"no_better_{name}": found.get(name) for name in BESIDE}
            row |= {"shortfall_90": self.shortfall(point), "shortfall_max": self.shortfall(point, 1.0)}
        return rows

    def metric_table(self, name: str) -> list[dict[str, float | None]]:
        """What each value of the parameter does to a metric, with its guardrail and `unguarded_...` without.

        Losses and gains are as the guardrail turns them: of complaints a loss is how many more there were.
        """
        rows = []
        for place, point in enumerate(self.points):
            metric = next(metric for metric in point.metrics if metric.guardrail.name == name)
            row = {"knob": point.value, **metric.row(self.horizon)}
            if self.unguarded:
                other = next(each for each in self.unguarded[place].metrics if each.guardrail.name == name)
                row |= {f"unguarded_{what}": value for what, value in other.row(self.horizon).items()}
                row["unguarded_reward_gain_mean"] = self.unguarded[place].mean_gain
            rows.append(row)
        return rows

    def beside(self, point: GridPoint) -> GridPoint | None:
        """The same value in worlds where no untried arm is better than the worst logged one, if played."""
        return next((other for other in self.no_better or () if other.value == point.value), None)

    @property
    def least_gain(self) -> float:
        """What nobody would notice: 0.1 % of what the log earns, and less than one click."""
        return max(self.event, WORTH * self.size)

    @property
    def nothing(self) -> float:
        """What rounding leaves of no gain, in the units of these rewards."""
        return max(point.nothing for point in self.points)

    @property
    def size(self) -> float:
        """The rewards, or the costs, of as many rounds of the log; 0 where they may be either."""
        return 0.0 if isnan(self.earned) else abs(self.earned)

    @property
    def covers_both(self) -> bool:
        """Whether shortfalls are those of both kinds of worlds: logged arms that were believed good may have
        been the best, and nobody knows."""
        return self.no_better is not None and self.logged_arms == "good" and not self.features_alone

    def shortfall(self, point: GridPoint, q: float = 0.9) -> float:
        """What the shortfall of a new world is below with probability q, however the logged arms were chosen.

        Worlds where somebody knew the best arms are a part of those where they were believed good: the
        quantile of all of them is exceeded far more often there. So the larger of both is taken.
        """
        other = self.beside(point) if self.covers_both else None
        found = (quantile(each.worst_loss, q) for each in (point, other) if each is not None)
        return max(value or 0.0 for value in found)

    def to_dict(self, *, limit: float | None = None) -> dict[str, Any]:
        """Plain JSON data, with the values recommended for a limit on the loss if one is given."""
        data: dict[str, Any] = {
            "policy": to_dict(self.policy),
            "knob": self.parameter,
            "horizon": self.horizon,
            "worlds": self.worlds,
            "prior": self.prior,
            "logged_arms": self.logged_arms,
            "drift": self.drift,
            "rounds_from": self.rounds_from,
            "least_gain": self.least_gain,
            "least_misfit": self.least_misfit,
            "spread": self.spread.tolist(),
            "within": None if self.within is None else self.within.tolist(),
            "earned": finite(self.earned),
            "broken_in": [point.broken_in(self.horizon) for point in self.points],
            "seed": self.seed,
            "best": self.best.tolist(),
            "headroom": [finite(value) for value in self.headroom.tolist()],
            "outlooks": [point.to_dict(self.horizon) for point in self.points],
            "no_better": None
            if self.no_better is None
            else [point.to_dict(self.horizon) for point in self.no_better],
        }
        if self.delay:
            data["delay"] = self.delay
        if self.contradiction:
            data["contradiction"] = self.contradiction
        if self.points[0].metrics:
            names = [metric.guardrail.name for metric in self.points[0].metrics]
            data["metrics"] = {name: self.metric_table(name) for name in names}
        if limit is not None:
            seen, promised = self.recommend(limit), self.guaranteed(limit)
            data["limit"] = limit
            data["recommended"] = {
                "seen": None if seen is None else seen.value,
                "guaranteed": None if promised is None else promised.value,
            }
        return data

    def _repr_html_(self) -> str:
        columns = {
            "knob": self.parameter,
            "guaranteed_loss": "promised to lose at most",
            "shortfall_90": f"largest shortfall below {self.baseline}, {worlds_shown(9, self.worlds)}",
            "gain_mean": "mean gain at the end",
            "explored": "share of exploring rounds",
        }
        if self.no_better is not None and not self.covers_both:
            columns["no_better_worst_loss_90"] = f"largest shortfall, {self.if_no_better}"
        if self.no_better is not None:
            columns["no_better_gain_mean"] = f"mean gain, {self.if_no_better}"
        rows = [
            ["none" if row[name] is None else f"{row[name]:.3g}" for name in columns] for row in self.table()
        ]
        moving = f" that move by {self.drift:.3g}" if self.drift else ""
        late = f", rewards {counted(self.delay, 'round')} late" if self.delay else ""
        caption = f"{self.horizon:,} rounds in {self.worlds:,} plausible worlds{moving}{late}"
        return html_table(rows, columns=list(columns.values()), caption=caption)

    def recommend(self, limit: float) -> GridPoint | None:
        """The best value worth having whose loss stays within the limit in nine worlds of ten."""
        check_positive("limit", limit)
        fits = [point for point in self.worth_having() if self.shortfall(point) <= limit]
        return smallest_of_best(fits)

    def guaranteed(self, limit: float) -> GridPoint | None:
        """The best value worth having whose *promise* is within the limit."""
        check_positive("limit", limit)
        return smallest_of_best(self.worth_having(limit))

    def refuted(self) -> GridPoint | None:
        """The promise that most worlds break, if more do than chance explains in 99 of 100 previews."""
        most = max(self.points, key=lambda point: point.most_broken(self.horizon))
        count, delta = most.most_broken(self.horizon), most.certificate.delta
        # every value has a chance to alarm: Bonferroni
        return most if chance_of_at_least(count, self.worlds, delta) < 0.01 / len(self.points) else None

    def is_empty(self, point: GridPoint) -> bool:
        """Whether a promise is worth nothing over the horizon, by the rule of every verdict."""
        earned = 0.0 if isnan(self.earned) else self.earned / self.horizon
        return bool(why_worthless(point.certificate, earned=earned, horizon=self.horizon))

    def is_dear(self, point: GridPoint) -> bool:
        """Whether far more may be lost than is gained on average: nobody stakes ten for one."""
        return (point.certificate.loss(self.horizon) or 0.0) > STAKE * point.mean_gain

    def too_dear(self) -> GridPoint | None:
        """The promise that allows to lose least for what it gains, where all that gain are too dear."""
        fits = [point for point in self.points if self.gains(point) and not self.is_empty(point)]
        if not all(map(self.is_dear, fits)):
            return None
        return max(fits, key=lambda p: p.mean_gain / (p.certificate.loss(self.horizon) or inf), default=None)

    def is_blind(self, point: GridPoint) -> bool:
        """Whether a promise breaks with a misfit that the log could not have shown."""
        return is_blind(point.certificate, least_misfit=self.least_misfit, horizon=self.horizon)

    def gains(self, point: GridPoint) -> bool:
        """Whether what is gained on average is more than chance makes of nothing, and enough to notice."""
        return point.mean_gain > max(point.nothing, point.chance, self.least_gain)

    def least_useful(self) -> GridPoint | None:
        """The smallest promise with which something is gained on average; None: with none of them."""
        fits = [point for point in self.points if point.certificate.holds and point.mean_gain > point.nothing]
        return smallest_promise(fits, self.horizon)

    def worth_having(self, limit: float | None = None, *, blindly: bool = False) -> list[GridPoint]:
        """The values that gain on average with a promise that says something, within a limit if given, does
        not stake too much for that gain, and rests on nothing that the log could not have contradicted,
        unless that is allowed.

        None of them where the worlds refute the promises.
        """
        if self.refuted():
            return []
        return [
            point
            for point in self.points
            if not self.is_empty(point)
            and self.gains(point)
            and not self.is_dear(point)
            and (blindly or not self.is_blind(point))
            and (limit is None or (point.certificate.loss(self.horizon) or 0.0) <= limit)
        ]


def smallest_promise(points: Sequence[GridPoint], horizon: int) -> GridPoint | None:
    """The value that allows to lose least; None without any."""
    return min(points, key=lambda point: point.certificate.loss(horizon) or 0.0, default=None)


def smallest_of_best(points: Sequence[GridPoint]) -> GridPoint | None:
    """The smallest value whose mean gain is within 5 % of the largest: a larger one only promises less."""
    if not points:
        return None
    gains = [point.mean_gain for point in points]
    enough = max(gains) - AS_GOOD * abs(max(gains)) - max(point.nothing for point in points)
    fits = [point for point, gain in zip(points, gains, strict=True) if gain >= enough]
    return min(fits, key=lambda point: point.value)


def preview(
    log: Any,
    offline: Offline | None = None,
    *,
    policy: ComposedPolicy | None = None,
    grid: Sequence[float] | None = None,
    horizon: int = HORIZON,
    worlds: int | None = None,
    prior: float | None = None,
    logged_arms: LoggedArms | None = None,
    drift: float = 0.0,
    delay: int = 0,
    least_misfit: float = 0.0,
    rows: RowsOfLog | None = None,
    practice: PracticeInLog | None = None,
    seed: int = 0,
    engine: Engine = THREADS,
    track: Track | None = None,
) -> Preview:
    """Play a policy, from the real log, in worlds drawn from the log's posterior.

    The log is one that was read (`read_log`, `load`), with contexts or without, or an arm set (k, d) with an
    `Offline` beside it. Average rewards come from their posterior, and scatter as the logged ones do. How
    much arms differ comes from the log too, unless `prior` says it, as a standard deviation. The grid is of
    the budget or of epsilon for a Tolerance or a Control gate, of alpha for a Budget; unless given, it is
    made of shares of what the log earns. There are 30 `worlds` unless given, or fewer, at least 10, where
    many features would make that slow.

    `logged_arms` says how the logged arms were chosen, which no log tells: because somebody believed that
    they are "good", so that untried ones are worse on average (the default); at "random" (the default where
    rounds differ and rows state their chances, or `practice` plays every item in its share of the log); or
    as the "best" of all, so that no untried one is better than the worst of them: that is played too
    (`no_better`, None where every arm was tried).

    With `drift`, the means wander after the log, by so much until the end of the horizon (a standard
    deviation). Losses and gains are then against current practice: what the log's arms earn *now*, in the
    log's shares. `preview_gates` plays other gates in the same worlds.

    With a `delay` rewards come so many rounds late, as do the values of guardrails: worlds are then played
    round by round, which is slower.

    With contexts the worlds draw their rounds from the log's `rows` (`read_rows`), or from what its sums say
    of them, and losses and gains are against practice in the same rounds: what each row played (with sums
    alone: items in the log's shares), or `practice`: weights of items, or what `learn_policy` learnt.
    `least_misfit` is what an audit says of the features (`load(...).least_misfit`): a promise that breaks
    with a smaller misfit is not recommended.

    Metrics that the log has as guardrails (`read_log(guardrails=...)`) are in every world, whatever the
    policy promises of them: `point.metrics` says of each what was lost and gained.

    >>> import numpy as np
    >>> log = Offline(pulls=[40, 40, 0], reward_sums=[20.0, 8.0, 0.0])
    >>> result = preview(np.eye(3), log, grid=[0.05, 0.2], horizon=200, worlds=4)
    >>> [point.value for point in result.points]
    [0.05, 0.2]
    """
    check_nonnegative("least_misfit", least_misfit)
    check_delay(delay)
    known = plausible(log, offline, rows=rows, practice=practice, seed=seed)
    how = known.usual_choice if logged_arms is None else logged_arms
    count = USUAL_WORLDS if worlds is None else worlds
    asked = Drawing(worlds=count, horizon=horizon, prior=prior, logged_arms=how, drift=drift, seed=seed)
    chosen = usual_policy(known, log) if policy is None else policy
    values = as_grid(usual_grid(chosen, known, horizon) if grid is None else grid)
    if worlds is None:
        cost = known.cost if delay == 0 else max(known.cost, ASKED_COST)
        work = cost * len(values) * horizon * (1 + plays_no_better(known, asked))
        asked = replace(asked, worlds=usual_worlds(work))
    found = play_grid(known, chosen, asked, values, delay=delay, engine=engine, track=track)
    return replace(found, least_misfit=float(least_misfit))


def play_grid(
    known: Plausible,
    chosen: ComposedPolicy,
    asked: Drawing,
    values: Sequence[float],
    *,
    delay: int = 0,
    engine: Engine,
    track: Track | None,
) -> Preview:
    """Play every value in worlds that the log finds plausible, and gather what came of it."""
    two = plays_no_better(known, asked)
    parameter, horizon = parameter_of(chosen, known), asked.horizon
    law = known.law(chosen.composed().assumed)
    drawn = known.draw(law, asked)
    prospects = [known.prospects(world, horizon) for world in drawn.worlds]
    within = known.within_rounds(drawn.worlds)
    if two:
        drawn = drawn.beside(known.draw(law, replace(asked, logged_arms="best")))
    variants = [chosen.with_parameter(parameter, value) for value in values]
    guarded: Any = variants if known.metrics and getattr(chosen, "guardrails", ()) else []
    bare = [replace(policy, guardrails=()) for policy in guarded]
    tried = [*values, *values[: len(bare)]]
    points = play_worlds(
        [*variants, *bare],
        drawn,
        known,
        horizon=horizon,
        values=tried,
        delay=delay,
        engine=engine,
        track=track,
    )
    points, unguarded = points[: len(values)], points[len(values) :]
    return Preview(
        policy=chosen,
        parameter=parameter,
        horizon=horizon,
        worlds=asked.worlds,
        prior=float(drawn.spread.mean()),
        logged_arms=asked.logged_arms,
        features_alone=known.features_alone,
        rounds_from=known.rounds_from,
        drift=float(asked.drift),
        seed=asked.seed,
        best=np.array([arm for arm, _ in prospects]),
        headroom=np.array([more for _, more in prospects]),
        spread=drawn.spread,
        earned=horizon * surely_earned(known.whole, chosen.composed().assumed) or float("nan"),
        event=law.event,
        points=tuple(point.part(slice(asked.worlds)) for point in points),
        unguarded=tuple(point.part(slice(asked.worlds)) for point in unguarded),
        no_better=tuple(point.part(slice(asked.worlds, None)) for point in points) if two else None,
        delay=delay,
        within=within,
        by_shares=known.by_shares,
    )


def usual_policy(known: Plausible, log: Any) -> ComposedPolicy:
    """What is previewed where no policy is given: Gated, with what an audit found of the rewards."""
    confidence = getattr(log, "confidence", None) or Confidence()
    gate: Gate = known.default_gate(confidence)
    rails = tuple(metric.guardrail for metric in known.metrics)
    if rails and gate.why_no_guardrails(confidence, rails) is not None:
        gate = Control().usual(confidence)
    policy = Gated(gate=gate, confidence=confidence, guardrails=rails)
    recipe = getattr(known, "recipe", None)
    return with_usual_confidence(policy, known.d, lambda: known.moments, known.raw_features, recipe)


def plays_no_better(known: Plausible, asked: Drawing) -> bool:
    """Whether worlds in which no untried arm is better than the worst logged one are played, too."""
    return known.has_untried and asked.logged_arms != "best"


def usual_worlds(work: int) -> int:
    """30 worlds, or fewer where so many multiplications in each would take more than about a minute."""
    return int(min(max(MOST_WORK // work, FEW), USUAL_WORLDS))


def as_grid(grid: Sequence[float]) -> list[float]:
    """The distinct values to try, in order."""
    tried = as_floats("grid", grid, ndim=1)
    if tried.size == 0 or (tried < 0).any():
        raise ValueError(f"grid must hold numbers >= 0, got {tried.tolist()}")
    values: list[float] = np.unique(tried).tolist()
    return values


def parameter_of(policy: Policy, known: Plausible) -> str:
    """The parameter that a preview varies."""
    gate = known.gate_of(policy) if isinstance(policy, ComposedPolicy) else None
    if gate is None or not gate.varied:
        names = one_of([gate for gate in GATES if gate.parameters])
        raise ValueError(f"policy must have a {names} gate, got {policy!r}")
    against = known.compared_with(policy)  # type: ignore[arg-type]
    if against not in (LOG, PRACTICE):
        raise ValueError(
            f"policy must compare with the log or with practice in a preview, got one against {against}"
        )
    return str(gate.varied)


def usual_grid(policy: ComposedPolicy, known: Plausible, horizon: int) -> list[float]:
    """The values that are tried where none are given: shares of what the log earns that a gate can have."""
    parameter = parameter_of(policy, known)
    confidence = policy.composed().assumed
    # how much a reward scatters, where the log may earn or lose
    scale = abs(surely_earned(known.whole, confidence)) or known.law(confidence).noise
    values = known.gate_of(policy).grid(scale, horizon)
    return [v for v in values if can_start(policy.with_parameter(parameter, v), known)] or list(values)


def can_start(policy: ComposedPolicy, known: Plausible) -> bool:
    """Whether its gate can ever open: a Control gate needs the budget of one round."""
    try:
        known.certificate(policy)
    except ValueError:
        return False
    return True


def value_for(policy: ComposedPolicy, known: Plausible, *, limit: float, horizon: int) -> float | None:
    """The largest budget or tolerance, to two digits, whose promise over the horizon is within the limit.

    None for another gate, without a promise, or if what is lost once already exceeds the limit.
    """
    check_positive("limit", limit)
    parameter = parameter_of(policy, known)
    if parameter == "alpha":  # its promise does not grow in proportion
        return None
    least = 0.0 if can_start(policy.with_parameter(parameter, 0.0), known) else limit  # for Control a round's
    if least and not can_start(policy.with_parameter(parameter, least), known):
        return None
    low, high = (
        known.certificate(policy.with_parameter(parameter, value)).loss(horizon)
        for value in (least, least + 1.0)
    )
    if low is None or high is None or high <= low:
        return None
    most = least + (limit - low) / (high - low)  # the promise is a line
    if most <= 0:
        return None
    unit = 10.0 ** (floor(log10(most)) - 1)
    found = float(f"{floor(most / unit * (1 + 1e-12)) * unit:.2g}")
    return found if can_start(policy.with_parameter(parameter, found), known) else None
