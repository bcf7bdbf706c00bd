"""What a preview keeps of a policy that was played in worlds, one column for each measure."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import inf, isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.certificates import LOG, Certificate
from linoto.core.codec import finite
from linoto.core.guardrail import Guardrail
from linoto.core.intervals import student
from linoto.core.protocols import ComposedPolicy
from linoto.engines import Engine, Track, map_cells, tracked
from linoto.worlds.bandits import World
from linoto.worlds.contexts import ContextualBandit
from linoto.worlds.plausible import DrawnWorlds, Plausible
from linoto.worlds.run import Run
from linoto.worlds.simulate import simulate
from linoto.worlds.violations import metric_excess, metric_loss, promised_shortfall

NOTHING = 1e-9  # what rounding leaves of no gain, beside what can be gained or lost
FEW = 10  # worlds, from which on one may speak of nine of ten
COLUMNS = ("regret", "worst_loss", "final_loss", "explored", "first_explored", "excess", "control")


class MetricPoint(NamedTuple):
    """What became of a guardrail in each plausible world, as losses: of complaints, how many more."""

    guardrail: Guardrail
    worst_loss: Floats  # (worlds,) the largest that was ever lost, from 0: as the promise counts it
    final_loss: Floats  # (worlds,) on average at the end, against the log or practice; negative is a gain
    excess: Floats  # (worlds,) how far above its promise what it counts ever was

    def part(self, some: slice) -> MetricPoint:
        """The same in some of the worlds."""
        return MetricPoint(self.guardrail, *(column[some] for column in self[1:]))

    def broken_in(self, horizon: int) -> int:
        """In how many worlds more was lost than promised, in any round."""
        return int((self.excess > self.nothing + NOTHING * self.guardrail.loss(horizon)).sum())

    @property
    def nothing(self) -> float:
        """What rounding leaves of no loss, in the units of these values."""
        return NOTHING * self.guardrail.width

    def row(self, horizon: int) -> dict[str, float | None]:
        """What may be lost, and what was; gains and losses as the guardrail turns them."""
        return {
            "guaranteed_loss": self.guardrail.loss(horizon),
            "worst_loss_90": quantile(self.worst_loss, 0.9),
            "worst_loss_max": float(self.worst_loss.max()),
            "gain_mean": -float(self.final_loss.mean()),
            "broken_in": self.broken_in(horizon),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class GridPoint:
    """One value of the parameter: its promise, and what happened in each plausible world."""

    value: float  # of the parameter
    certificate: Certificate
    regret: Floats  # (worlds,) R_n
    worst_loss: Floats  # (worlds,) the largest shortfall below the log as it earns now (R_t^off), from 0
    final_loss: Floats  # (worlds,) R_n^off; negative is a gain
    explored: Floats  # (worlds,) share of exploring rounds
    first_explored: Floats  # (worlds,) round of the first exploration; NaN if never
    excess: Floats  # (worlds,) how far above the promise what it counts ever was; NaN without a promise
    control: Floats  # (worlds,) share of control rounds
    metrics: tuple[MetricPoint, ...] = ()

    @property
    def mean_gain(self) -> float:
        """What is gained at the end, on average over the worlds."""
        return -float(self.final_loss.mean())

    @property
    def scale(self) -> float:
        """What one round, or all that was lost, can be worth, in the units of these rewards."""
        low, high = self.certificate.reward_range
        width = high - low if isfinite(high - low) else 0.0
        return max(width, float(self.regret.max()), float(self.worst_loss.max()))

    @property
    def nothing(self) -> float:
        """What rounding leaves of no gain, in the units of these rewards."""
        return NOTHING * self.scale

    @property
    def chance(self) -> float:
        """What the choice of worlds alone may make of nothing: half of the 95 % interval of the mean gain.

        One world tells nothing of it.
        """
        n = self.final_loss.size
        return student(n - 1) * float(self.final_loss.std(ddof=1)) / sqrt(n) if n > 1 else inf

    def broken_in(self, horizon: int) -> int:
        """In how many worlds more was lost than promised, in any round; 0 without a promise."""
        rounding = self.nothing + NOTHING * (self.certificate.loss(horizon) or 0.0)
        return int((self.excess > rounding).sum())

    def most_broken(self, horizon: int) -> int:
        """The same of the reward or of a metric that is promised, whichever was broken in more worlds."""
        promised = {rail.name for rail in self.certificate.guardrails}
        metrics = (metric for metric in self.metrics if metric.guardrail.name in promised)
        return max([self.broken_in(horizon), *(metric.broken_in(horizon) for metric in metrics)])

    def part(self, some: slice) -> GridPoint:
        """The same in some of the worlds."""
        metrics = tuple(metric.part(some) for metric in self.metrics)
        return replace(self, metrics=metrics, **{name: getattr(self, name)[some] for name in COLUMNS})

    def row(self, horizon: int) -> dict[str, float | None]:
        """Means over worlds, and quantiles: between `_10` and `_90` lie eight worlds of ten."""
        gain = -self.final_loss
        return {
            "knob": self.value,
            "guaranteed_loss": self.certificate.loss(horizon),
            "worst_loss_mean": float(self.worst_loss.mean()),
            "worst_loss_10": quantile(self.worst_loss, 0.1),
            "worst_loss_50": quantile(self.worst_loss, 0.5),
            "worst_loss_90": quantile(self.worst_loss, 0.9),
            "worst_loss_max": float(self.worst_loss.max()),
            "gain_mean": float(gain.mean()),
            "gain_10": quantile(gain, 0.1),
            "gain_90": quantile(gain, 0.9),
            "regret_mean": float(self.regret.mean()),
            "regret_10": quantile(self.regret, 0.1),
            "regret_90": quantile(self.regret, 0.9),
            "explored": float(self.explored.mean()),
            "explored_10": quantile(self.explored, 0.1),
            "explored_90": quantile(self.explored, 0.9),
            "first_explored": quantile(self.first_explored, 0.5),
            "first_explored_10": quantile(self.first_explored, 0.1),
            "first_explored_90": quantile(self.first_explored, 0.9),
            "never_explored": float(np.isnan(self.first_explored).mean()),
            "control": float(self.control.mean()),
        }

    def to_dict(self, horizon: int) -> dict[str, Any]:
        """Plain JSON data: the summary, the promise, and every world."""
        return {
            "summary": self.row(horizon),
            "certificate": self.certificate.to_dict(rounds=horizon),
            "worlds": {name: [finite(value) for value in getattr(self, name).tolist()] for name in COLUMNS},
            **self.metric_rows(horizon),
        }

    def metric_rows(self, horizon: int) -> dict[str, Any]:
        """What became of each guardrail, if there are any."""
        rows = {metric.guardrail.name: metric.row(horizon) for metric in self.metrics}
        return {"metrics": rows} if rows else {}


def worlds_shown(of_ten: int, worlds: int) -> str:
    """What lies between two quantiles, in words: fewer than ten worlds are all of them."""
    if worlds < FEW:
        return "the one world" if worlds == 1 else f"all {worlds} worlds"
    return f"{of_ten} worlds of 10"


def quantile(values: Floats, q: float) -> float | None:
    """What a new number is below with probability q, as far as these tell; None if there are none.

    NumPy's usual quantile lies too far inside: of 30 worlds, it puts 75 % of new ones into eight of ten.
    """
    known = values[~np.isnan(values)]
    return float(np.quantile(known, q, method="weibull")) if known.size else None


def play_worlds(
    policies: Sequence[ComposedPolicy],
    drawn: DrawnWorlds,
    known: Plausible,
    *,
    horizon: int,
    values: Sequence[float],
    delay: int = 0,
    limit: Certificate | None = None,
    engine: Engine,
    track: Track | None,
) -> tuple[GridPoint, ...]:
    """Play each policy in each world; `limit` is what one that promises nothing is held against."""
    certificates = [known.certificate(policy) for policy in policies]
    judged = [
        (policy, own if own.holds or limit is None else limit)
        for policy, own in zip(policies, certificates, strict=True)
    ]
    plays = [(*one, *world) for one, world in product(judged, zip(drawn.worlds, drawn.seeds, strict=True))]
    rails = [stated_in(policies[0], metric.guardrail) for metric in known.metrics]
    play = partial(summarise, log=known.log, horizon=horizon, delay=delay, guardrails=rails)
    with closing(map_cells(play, plays, engine=engine)) as results:
        rows = np.array(list(tracked(results, track, total=len(plays))))
    parts = np.split(rows, len(policies))
    return tuple(
        GridPoint(
            value=value,
            certificate=certificate,
            **dict(zip(COLUMNS, part.T[: len(COLUMNS)], strict=True)),
            metrics=tuple(
                MetricPoint(rail, *three)
                for rail, three in zip(rails, np.split(part.T[len(COLUMNS) :], len(rails)), strict=True)
            )
            if rails
            else (),
        )
        for value, certificate, part in zip(values, certificates, parts, strict=True)
    )


def stated_in(policy: ComposedPolicy, rail: Guardrail) -> Guardrail:
    """A guardrail with what the policy promises of it, if it knows it."""
    return next((own for own in getattr(policy, "guardrails", ()) if own.name == rail.name), rail)


def summarise(
    play: tuple[ComposedPolicy, Certificate, World | ContextualBandit, int],
    *,
    log: Any,
    horizon: int,
    delay: int = 0,
    guardrails: Sequence[Guardrail] = (),
) -> tuple[float, ...]:
    """Simulate a policy in a world: what a GridPoint keeps of it, in the order of its columns, and then of
    each metric what a MetricPoint does."""
    policy, certificate, world, seed = play
    run = simulate(policy, world, log, horizon=horizon, seed=seed, delay=delay)
    first = float(run.explored.argmax() + 1) if run.explored.any() else float("nan")
    below = run.offline_regret
    counted = promised_shortfall(policy, certificate, world, run)
    return (
        float(run.regret[-1]),
        max(0.0, float(below.max())),
        float(below[-1]),
        float(run.explored.mean()),
        first,
        certificate.excess(counted),
        float(run.control.mean()),
        *(value for rail in guardrails for value in lost_of(rail, certificate, run)),
    )


def lost_of(rail: Guardrail, certificate: Certificate, run: Run) -> tuple[float, float, float]:
    """The largest loss of a metric, the last, and how far what is promised was ever exceeded."""
    metric = run.metrics[rail.name]
    came = -rail.turn * metric.in_explored  # below practice in the same rounds, as it came
    lost = metric_loss(rail, certificate, run) if certificate.against == LOG else came
    most, last = lost.max(), -rail.turn * metric.more[-1]
    return max(0.0, float(most)), float(last), metric_excess(rail, certificate, run)
