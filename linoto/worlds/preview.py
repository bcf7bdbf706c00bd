"""What would happen if we deployed this? Play it in worlds that the log finds plausible."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import floor, log10, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.certificates import LOG, PRACTICE, Certificate
from linoto.core.codec import finite
from linoto.core.gates import GATES, Tolerance
from linoto.core.intervals import chance_of_at_least
from linoto.core.kernels import Floats, Ints
from linoto.core.notebook import html_table
from linoto.core.offline import Offline, as_offline
from linoto.core.policies import Gated
from linoto.core.protocols import ComposedPolicy, Policy
from linoto.core.snapshots import to_dict
from linoto.core.validation import as_actions, as_floats, check_count, check_positive, check_seed, one_of
from linoto.engines import THREADS, Engine, Track, map_cells, tracked
from linoto.worlds.bandits import Bandit
from linoto.worlds.posterior import draw_means
from linoto.worlds.reward_laws import RewardLaw, measure_law
from linoto.worlds.simulate import simulate

AS_GOOD = 0.05  # of the largest mean gain: what a smaller value may gain less and still be chosen
NOTHING = 1e-9  # what rounding leaves of no gain


@dataclass(frozen=True, kw_only=True, eq=False)
class GridPoint:
    """One value of the parameter: its promise, and what happened in each plausible world."""

    value: float  # of the parameter
    certificate: Certificate
    regret: Floats  # (worlds,) R_n
    worst_loss: Floats  # (worlds,) the largest shortfall below the log (R_t^off), from 0
    final_loss: Floats  # (worlds,) R_n^off; negative is a gain
    explored: Floats  # (worlds,) share of exploring rounds
    first_explored: Floats  # (worlds,) round of the first exploration; NaN if never

    @property
    def gains(self) -> bool:
        """Whether anything is gained on average, beyond what rounding leaves of nothing."""
        return bool(self.final_loss.mean() < -NOTHING)

    def broken_in(self, horizon: int) -> int:
        """In how many worlds more was lost than promised, up to rounding; 0 without a promise."""
        loss = self.certificate.loss(horizon)
        return 0 if loss is None else int((self.worst_loss > loss * (1 + 1e-9)).sum())

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
        }

    def to_dict(self, horizon: int) -> dict[str, Any]:
        """Plain JSON data: the summary, the promise, and every world."""
        return {
            "summary": self.row(horizon),
            "certificate": self.certificate.to_dict(rounds=horizon),
            "worlds": {
                name: [finite(value) for value in getattr(self, name).tolist()]
                for name in ("regret", "worst_loss", "final_loss", "explored", "first_explored")
            },
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Preview:
    """The trade-off between regret and the shortfall below the log, over a grid of the parameter."""

    policy: ComposedPolicy  # with the parameter as it came
    parameter: str  # "epsilon" or "alpha"
    horizon: int
    worlds: int
    prior: (
        float  # how much the arms' average rewards differ (standard deviation): given, or the mean of spread
    )
    seed: int
    points: tuple[GridPoint, ...]
    best: Ints  # (worlds,) the best arm of each world
    headroom: Floats  # (worlds,) how much more than the log the best arm earns, in all rounds together
    spread: Floats  # (worlds,) standard deviation between the arms' average rewards that each was drawn with
    earned: float  # by as many rounds of the log's average reward; NaN where it cannot be told from 0 or less

    def table(self) -> list[dict[str, float | None]]:
        """One row per value of the parameter."""
        return [point.row(self.horizon) for point in self.points]

    def to_dict(self, *, limit: float | None = None) -> dict[str, Any]:
        """Plain JSON data, with the values recommended for a limit on the loss if one is given."""
        data: dict[str, Any] = {
            "policy": to_dict(self.policy),
            "knob": self.parameter,
            "horizon": self.horizon,
            "worlds": self.worlds,
            "prior": self.prior,
            "spread": self.spread.tolist(),
            "earned": finite(self.earned),
            "broken_in": [point.broken_in(self.horizon) for point in self.points],
            "seed": self.seed,
            "best": self.best.tolist(),
            "headroom": [finite(value) for value in self.headroom.tolist()],
            "outlooks": [point.to_dict(self.horizon) for point in self.points],
        }
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
            "worst_loss_90": "largest shortfall below the log, 9 worlds of 10",
            "gain_mean": "mean gain at the end",
            "explored": "share of exploring rounds",
        }
        rows = [
            ["none" if row[name] is None else f"{row[name]:.3g}" for name in columns] for row in self.table()
        ]
        caption = f"{self.horizon:,} rounds in {self.worlds:,} plausible worlds"
        return html_table(rows, columns=list(columns.values()), caption=caption)

    def recommend(self, limit: float) -> GridPoint | None:
        """The best value among those whose loss stays within the limit in nine worlds of ten."""
        check_positive("limit", limit)
        fits = [point for point in self.points if (quantile(point.worst_loss, 0.9) or 0.0) <= limit]
        return smallest_of_best(fits)

    def guaranteed(self, limit: float) -> GridPoint | None:
        """The best value among those whose *promise* is within the limit."""
        check_positive("limit", limit)
        fits = [
            point
            for point in self.points
            if point.certificate.holds and (point.certificate.loss(self.horizon) or 0.0) <= limit
        ]
        return smallest_of_best(fits)

    def refuted(self) -> GridPoint | None:
        """The promise that most worlds break, if more do than chance explains in 99 of 100 previews."""
        most = max(self.points, key=lambda point: point.broken_in(self.horizon))
        count, delta = most.broken_in(self.horizon), most.certificate.delta
        # every value has a chance to alarm: Bonferroni
        return most if chance_of_at_least(count, self.worlds, delta) < 0.01 / len(self.points) else None

    def is_empty(self, point: GridPoint) -> bool:
        """Whether a promise allows as much as could be lost, or as much as the log earns: it says nothing."""
        loss, first = point.certificate.loss(self.horizon), point.certificate.says_something_from
        return loss is None or first is None or self.horizon < first or loss >= self.earned

    def least_useful(self) -> GridPoint | None:
        """The smallest promise with which something is gained on average; None: with none of them."""
        fits = [point for point in self.points if point.certificate.holds and point.gains]
        return min(fits, key=lambda point: point.certificate.loss(self.horizon) or 0.0, default=None)

    def worth_having(self, limit: float | None = None) -> list[GridPoint]:
        """The values that gain on average with a promise that says something, within a limit if given.

        None of them where the worlds refute the promises.
        """
        if self.refuted():
            return []
        return [
            point
            for point in self.points
            if not self.is_empty(point)
            and point.gains
            and (limit is None or (point.certificate.loss(self.horizon) or 0.0) <= limit)
        ]


def quantile(values: Floats, q: float) -> float | None:
    """What a new number is below with probability q, as far as these tell; None if there are none.

    NumPy's usual quantile lies too far inside: of 30 worlds, it puts 75 % of new ones into eight of ten.
    """
    known = values[~np.isnan(values)]
    return float(np.quantile(known, q, method="weibull")) if known.size else None


def smallest_of_best(points: Sequence[GridPoint]) -> GridPoint | None:
    """The smallest value whose mean gain is within 5 % of the largest: a larger one only promises less."""
    if not points:
        return None
    gains = [-float(point.final_loss.mean()) for point in points]
    enough = max(gains) - AS_GOOD * abs(max(gains)) - NOTHING
    fits = [point for point, gain in zip(points, gains, strict=True) if gain >= enough]
    return min(fits, key=lambda point: point.value)


def preview(
    actions: npt.ArrayLike,
    offline: Offline,
    *,
    policy: ComposedPolicy | None = None,
    grid: Sequence[float] | None = None,
    horizon: int = 5000,
    worlds: int = 30,
    prior: float | None = None,
    seed: int = 0,
    engine: Engine = THREADS,
    track: Track | None = None,
) -> Preview:
    """Play a policy, from the real log, in worlds drawn from the log's posterior.

    Average rewards come from their posterior, with rewards that scatter as the logged ones do. How much arms
    differ comes from the log too, unless `prior` says it, as a standard deviation in units of reward: where
    the log says nothing, it decides. The grid is of the budget or of epsilon for a Tolerance, of alpha for a
    Budget; unless given, it is made of shares of what the log earns.

    >>> import numpy as np
    >>> log = Offline(pulls=[40, 40, 0], reward_sums=[20.0, 8.0, 0.0])
    >>> result = preview(np.eye(3), log, grid=[0.05, 0.2], horizon=200, worlds=4)
    >>> [point.value for point in result.points]
    [0.05, 0.2]
    """
    arms = as_actions(actions)
    log = as_offline(offline, len(arms))
    chosen: ComposedPolicy = Gated(gate=Tolerance(epsilon=0.1)) if policy is None else policy
    check_count("horizon", horizon)
    parameter = parameter_of(chosen)
    values = as_grid(grid_of(chosen, log, horizon) if grid is None else grid)
    check_count("worlds", worlds)
    check_seed(seed)
    if prior is not None:
        check_positive("prior", prior)
    law = measure_law(log, chosen.composed().assumed)
    rng = np.random.default_rng([seed, 0])
    means, spread = draw_means(arms, log, law, worlds=worlds, rng=rng, prior=prior)
    bandits = [law.world(arms, row) for row in means]
    seeds = np.random.SeedSequence([seed, 1]).generate_state(worlds, np.uint64).tolist()
    variants = [chosen.with_parameter(parameter, value) for value in values]
    plays = [(variant, *world) for variant, world in product(variants, zip(bandits, seeds, strict=True))]
    with closing(map_cells(partial(summarise, log=log, horizon=horizon), plays, engine=engine)) as results:
        rows = np.array(list(tracked(results, track, total=len(plays))))
    return Preview(
        policy=chosen,
        parameter=parameter,
        horizon=horizon,
        worlds=worlds,
        prior=float(spread.mean()),
        seed=seed,
        best=np.array([bandit.best for bandit in bandits]),
        headroom=np.array([horizon * headroom(bandit, log) for bandit in bandits]),
        spread=spread,
        earned=horizon * log.reference if is_above_zero(log, law) else float("nan"),
        points=tuple(
            grid_point(value, variant.certificate(arms, log), part)
            for value, variant, part in zip(values, variants, np.split(rows, len(values)), strict=True)
        ),
    )


def as_grid(grid: Sequence[float]) -> list[float]:
    """The distinct values to try, in order."""
    tried = as_floats("grid", grid, ndim=1)
    if tried.size == 0 or (tried < 0).any():
        raise ValueError(f"grid must hold numbers >= 0, got {tried.tolist()}")
    values: list[float] = np.unique(tried).tolist()
    return values


def summarise(play: tuple[Policy, Bandit, int], *, log: Offline, horizon: int) -> tuple[float, ...]:
    """Simulate a policy in a world: what a GridPoint keeps of it, in the order of its columns."""
    policy, bandit, seed = play
    run = simulate(policy, bandit, log, horizon=horizon, seed=seed)
    first = float(run.explored.argmax() + 1) if run.explored.any() else float("nan")
    below = run.offline_regret
    worst = max(0.0, float(below.max()))
    return float(run.regret[-1]), worst, float(below[-1]), float(run.explored.mean()), first


def headroom(bandit: Bandit, log: Offline) -> float:
    """How much more the best arm earns a round than the log does; NaN without a log."""
    if log.total == 0:
        return float("nan")
    return float(bandit.means.max() - log.pulls @ bandit.means / log.total)


def grid_point(value: float, certificate: Certificate, rows: Floats) -> GridPoint:
    """Columns of results as a GridPoint."""
    regret, worst, final, explored, first = rows.T
    return GridPoint(
        value=value,
        certificate=certificate,
        regret=regret,
        worst_loss=worst,
        final_loss=final,
        explored=explored,
        first_explored=first,
    )


def parameter_of(policy: Policy) -> str:
    """The parameter that a preview varies."""
    gate = policy.composed().gate if isinstance(policy, ComposedPolicy) else None
    if gate is None or not gate.varied:
        known = one_of([gate for gate in GATES if gate.parameters])
        raise ValueError(f"policy must have a {known} gate, got {policy!r}")
    composed: Any = policy
    against = gate.compared_with(composed.composed().resolved_fallback())
    if against not in (LOG, PRACTICE):
        raise ValueError(
            f"policy must compare with the log or with practice in a preview, got one against {against}"
        )
    return str(gate.varied)


def grid_of(policy: ComposedPolicy, log: Offline, horizon: int) -> list[float]:
    """The values that are tried where none are given: shares of what the log earns."""
    parameter_of(policy)  # there must be one
    gated = policy.composed()
    return list(gated.gate.grid(earned_per_round(log, measure_law(log, gated.assumed)), horizon))


def earned_per_round(log: Offline, law: RewardLaw) -> float:
    """What the log earns per round; how much a reward scatters, where that cannot be told from 0 or less."""
    return log.reference if is_above_zero(log, law) else law.noise


def is_above_zero(log: Offline, law: RewardLaw) -> bool:
    """Whether the log earns more than nothing, by two standard errors."""
    return log.total > 0 and log.reference > 2 * law.noise / sqrt(log.total)


def value_for(
    policy: ComposedPolicy, actions: Floats, offline: Offline, *, limit: float, horizon: int
) -> float | None:
    """The largest budget or tolerance, to two digits, whose promise over the horizon is within the limit.

    None for another gate, without a promise, or if what is lost once already exceeds the limit.
    """
    check_positive("limit", limit)
    parameter = parameter_of(policy)
    if parameter == "alpha":  # its promise does not grow in proportion
        return None
    at_zero, at_one = (
        policy.with_parameter(parameter, value).certificate(actions, offline).loss(horizon)
        for value in (0.0, 1.0)
    )
    if at_zero is None or at_one is None or at_one <= at_zero or limit <= at_zero:
        return None
    most = (limit - at_zero) / (at_one - at_zero)
    unit = 10.0 ** (floor(log10(most)) - 1)
    return float(f"{floor(most / unit * (1 + 1e-12)) * unit:.2g}")
