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

from linoto.core.certificates import Certificate
from linoto.core.codec import finite
from linoto.core.confidence import Confidence
from linoto.core.gates import GATES
from linoto.core.kernels import Floats, Ints
from linoto.core.notebook import html_table
from linoto.core.offline import Offline, as_offline
from linoto.core.policies import Gated
from linoto.core.protocols import ComposedPolicy, Policy
from linoto.core.snapshots import to_dict
from linoto.core.validation import as_actions, as_floats, check_count, check_positive, check_seed, one_of
from linoto.engines import THREADS, Engine, Track, map_cells, tracked
from linoto.worlds.bandits import Bandit
from linoto.worlds.simulate import simulate


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
    prior: float
    seed: int
    points: tuple[GridPoint, ...]
    best: Ints  # (worlds,) the best arm of each world
    headroom: Floats  # (worlds,) how much more than the log the best arm earns, in all rounds together

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
        """The value that earns most among those whose loss stays within the limit in nine worlds of ten."""
        check_positive("limit", limit)
        fits = [point for point in self.points if np.quantile(point.worst_loss, 0.9) <= limit]
        return min(fits, key=lambda point: float(point.regret.mean()), default=None)

    def guaranteed(self, limit: float) -> GridPoint | None:
        """The value that earns most among those whose *promise* is within the limit."""
        check_positive("limit", limit)
        fits = [
            point
            for point in self.points
            if point.certificate.holds and (point.certificate.loss(self.horizon) or 0.0) <= limit
        ]
        return min(fits, key=lambda point: float(point.regret.mean()), default=None)


def quantile(values: Floats, q: float) -> float | None:
    """A quantile of the numbers among these; None if there are none."""
    known = values[~np.isnan(values)]
    return float(np.quantile(known, q)) if known.size else None


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

    Worlds are drawn from N(theta, noise^2 V^-1) with the prior N(0, prior^2 / d I); `prior` is how long the
    true parameter may be (the policy's `bound` unless given). It matters: where the log says nothing, the
    prior says everything. The grid is of the budget or of epsilon for a Tolerance, of alpha for a Budget.

    >>> import numpy as np
    >>> log = Offline(pulls=[40, 40, 0], reward_sums=[20.0, 8.0, 0.0])
    >>> result = preview(np.eye(3), log, grid=[0.05, 0.2], horizon=200, worlds=4)
    >>> [point.value for point in result.points]
    [0.05, 0.2]
    """
    arms = as_actions(actions)
    log = as_offline(offline, len(arms))
    chosen: ComposedPolicy = Gated() if policy is None else policy
    check_count("horizon", horizon)
    parameter = parameter_of(chosen)
    tried = as_floats("grid", grid_of(chosen, log, horizon) if grid is None else grid, ndim=1)
    if tried.size == 0 or (tried < 0).any():
        raise ValueError(f"grid must hold numbers >= 0, got {tried.tolist()}")
    values = np.unique(tried).tolist()
    check_count("worlds", worlds)
    check_seed(seed)
    confidence = chosen.composed().assumed
    reach = confidence.bound if prior is None else prior
    check_positive("prior", reach)
    bandits = draw_worlds(arms, log, confidence, reach, worlds, np.random.default_rng([seed, 0]))
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
        prior=float(reach),
        seed=seed,
        best=np.array([bandit.best for bandit in bandits]),
        headroom=np.array([horizon * headroom(bandit, log) for bandit in bandits]),
        points=tuple(
            grid_point(value, variant.certificate(arms, log), part)
            for value, variant, part in zip(values, variants, np.split(rows, len(values)), strict=True)
        ),
    )


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
    return str(gate.varied)


def grid_of(policy: ComposedPolicy, log: Offline, horizon: int) -> list[float]:
    """The values that are tried where none are given: shares of what the log earns."""
    gated = policy.composed()
    return list(gated.gate.grid(earned_per_round(log, gated.assumed), horizon))


def earned_per_round(log: Offline, confidence: Confidence) -> float:
    """What the log earns per round; how much rewards scatter, where that cannot be told from 0."""
    squares, freedom = log.within_arms()
    noise = sqrt(squares / freedom) if squares else confidence.scale
    if abs(log.reference) > 2 * noise / sqrt(max(log.total, 1)):
        return abs(log.reference)
    return noise


def epsilon_for(
    policy: ComposedPolicy, actions: Floats, offline: Offline, *, limit: float, horizon: int
) -> float | None:
    """The largest tolerance, to two digits, whose promise over the horizon is within the limit.

    None for another gate, without a promise, or if what is lost once already exceeds the limit.
    """
    check_positive("limit", limit)
    if policy.composed().gate.varied != "epsilon":
        return None
    certificate = policy.with_parameter("epsilon", 1.0).certificate(actions, offline)  # linear in epsilon
    if certificate.constant is None or not certificate.per_round:
        return None
    most = (limit - certificate.constant) / (horizon * certificate.per_round)
    if most <= 0:
        return None
    unit = 10.0 ** (floor(log10(most)) - 1)
    return float(f"{floor(most / unit * (1 + 1e-12)) * unit:.2g}")


def draw_worlds(
    actions: Floats,
    offline: Offline,
    confidence: Confidence,
    prior: float,
    worlds: int,
    rng: np.random.Generator,
) -> list[Bandit]:
    """Linear worlds from the posterior; means are kept inside the reward range where there is one."""
    d = actions.shape[1]
    noise = confidence.scale
    precision = actions.T @ (offline.pulls[:, None] * actions) + noise**2 * d / prior**2 * np.eye(d)
    center = np.linalg.solve(precision, actions.T @ offline.reward_sums)
    root = np.linalg.cholesky(precision)
    thetas = center + noise * np.linalg.solve(root.T, rng.standard_normal((d, worlds))).T
    return [world_of(actions, theta, confidence) for theta in thetas]


def world_of(actions: Floats, theta: Floats, confidence: Confidence) -> Bandit:
    """One world: Gaussian rewards, or two-point ones at the ends of the range where rewards are bounded."""
    limits = confidence.reward_range
    means = actions @ theta if limits is None else np.clip(actions @ theta, *limits)
    if confidence.noise == "bounded" and limits is not None:
        return Bandit(actions=actions, means=means, rewards="bernoulli", reward_range=limits)
    return Bandit(actions=actions, means=means, noise=confidence.scale)
