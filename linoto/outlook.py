"""What would happen if we deployed this? Play it in worlds that the log finds plausible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.bandits import Bandit
from linoto.certificates import Certificate
from linoto.confidence import Confidence
from linoto.data import Offline, as_actions, as_floats, as_offline, check_count, check_positive
from linoto.gates import Budget, Tolerance
from linoto.kernels import Floats
from linoto.policies import Gated, LinOtO
from linoto.simulation import simulate

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
ALPHAS = (1e-4, 1e-2, 1.0, 10.0, 100.0, 1000.0)
Tracker = Callable[[Iterable[Any], int], Iterable[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Outlook:
    """One value of the knob: its promise, and what happened in each plausible world."""

    knob: float
    certificate: Certificate
    regret: Floats  # (worlds,) R_n
    worst_loss: Floats  # (worlds,) max over t of R_t^off, the deepest point below the log
    final_loss: Floats  # (worlds,) R_n^off; negative is a gain
    explored: Floats  # (worlds,) share of exploring rounds
    first_explored: Floats  # (worlds,) round of the first exploration; NaN if never

    def row(self, horizon: int) -> dict[str, float | None]:
        """Means over worlds, and the 90 % quantile of the loss."""
        with np.errstate(all="ignore"):
            first = (
                float(np.nanmedian(self.first_explored)) if np.isfinite(self.first_explored).any() else None
            )
        return {
            "knob": self.knob,
            "guaranteed_loss": self.certificate.loss(horizon),
            "worst_loss_mean": float(self.worst_loss.mean()),
            "worst_loss_90": float(np.quantile(self.worst_loss, 0.9)),
            "gain_mean": float(-self.final_loss.mean()),
            "gain_10": float(np.quantile(-self.final_loss, 0.1)),
            "gain_90": float(np.quantile(-self.final_loss, 0.9)),
            "regret_mean": float(self.regret.mean()),
            "explored": float(self.explored.mean()),
            "first_explored": first,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Preview:
    """The trade-off between regret and loss below the log, over a grid of the knob."""

    knob: str  # "epsilon" or "alpha"
    horizon: int
    worlds: int
    prior: float
    outlooks: tuple[Outlook, ...]

    def table(self) -> list[dict[str, float | None]]:
        """One row per value of the knob."""
        return [outlook.row(self.horizon) for outlook in self.outlooks]

    def recommend(self, limit: float) -> Outlook | None:
        """The value that earns most among those whose loss stays within the limit in nine worlds of ten."""
        check_positive("limit", limit)
        fits = [outlook for outlook in self.outlooks if np.quantile(outlook.worst_loss, 0.9) <= limit]
        return min(fits, key=lambda outlook: float(outlook.regret.mean()), default=None)

    def guaranteed(self, limit: float) -> Outlook | None:
        """The value that earns most among those whose *promise* is within the limit."""
        check_positive("limit", limit)
        fits = [
            o
            for o in self.outlooks
            if o.certificate.holds and (o.certificate.loss(self.horizon) or 0.0) <= limit
        ]
        return min(fits, key=lambda outlook: float(outlook.regret.mean()), default=None)


def preview(
    actions: npt.ArrayLike,
    offline: Offline,
    *,
    policy: Any = None,
    grid: Sequence[float] | None = None,
    horizon: int = 5000,
    worlds: int = 30,
    prior: float | None = None,
    seed: int = 0,
    jobs: int = 1,
    track: Tracker | None = None,
) -> Preview:
    """Play a policy, from the real log, in worlds drawn from the log's posterior.

    Worlds are drawn from N(theta, noise^2 V^-1) with the prior N(0, prior^2 / d I); `prior` is how long the
    true parameter may be (the policy's `bound` unless given). It matters: where the log says nothing, the
    prior says everything. The grid is of epsilon for a Tolerance, of alpha for a Budget.

    >>> import numpy as np
    >>> log = Offline(pulls=[40, 40, 0], reward_sums=[20.0, 8.0, 0.0])
    >>> result = preview(np.eye(3), log, grid=[0.05, 0.2], horizon=200, worlds=4)
    >>> [outlook.knob for outlook in result.outlooks]
    [0.05, 0.2]
    """
    arms = as_actions(actions)
    log = as_offline(offline, len(arms))
    chosen = Gated() if policy is None else policy
    knob, values = knob_of(chosen, grid)
    check_count("horizon", horizon)
    check_count("worlds", worlds)
    check_count("jobs", jobs)
    confidence = chosen.composed().confidence or Confidence()
    reach = confidence.bound if prior is None else prior
    check_positive("prior", reach)
    bandits = draw_worlds(arms, log, confidence, reach, worlds, np.random.default_rng([seed, 0]))
    cells = [(value, world) for value in values for world in range(worlds)]

    def play(cell: tuple[float, int]) -> tuple[float, ...]:
        value, world = cell
        run = simulate(with_knob(chosen, knob, value), bandits[world], log, horizon=horizon, seed=world)
        first = float(run.explored.argmax() + 1) if run.explored.any() else float("nan")
        below = run.offline_regret
        return float(run.regret[-1]), float(below.max()), float(below[-1]), float(run.explored.mean()), first

    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(play, cells)
        rows = np.array(list(track(results, len(cells)) if track else results))
    return Preview(
        knob=knob,
        horizon=horizon,
        worlds=worlds,
        prior=float(reach),
        outlooks=tuple(
            outlook_of(
                value,
                with_knob(chosen, knob, value).certificate(arms, log),
                rows[i * worlds : (i + 1) * worlds],
            )
            for i, value in enumerate(values)
        ),
    )


def outlook_of(value: float, certificate: Certificate, rows: Floats) -> Outlook:
    """Columns of results as an Outlook."""
    regret, worst, final, explored, first = rows.T
    return Outlook(
        knob=value,
        certificate=certificate,
        regret=regret,
        worst_loss=worst,
        final_loss=final,
        explored=explored,
        first_explored=first,
    )


def knob_of(policy: Any, grid: Sequence[float] | None) -> tuple[str, list[float]]:
    """Which setting is turned, and its values in rising order."""
    gate = policy.composed().gate if hasattr(policy, "composed") else None
    if not isinstance(gate, Budget | Tolerance):
        raise ValueError(f"policy must have a Budget or Tolerance gate, got {policy!r}")
    default = EPSILONS if isinstance(gate, Tolerance) else ALPHAS
    values = as_floats("grid", default if grid is None else grid, ndim=1)
    if values.size == 0 or (values < 0).any():
        raise ValueError(f"grid must hold numbers >= 0, got {values.tolist()}")
    return ("epsilon" if isinstance(gate, Tolerance) else "alpha"), np.unique(values).tolist()


def with_knob(policy: Any, knob: str, value: float) -> Any:
    """The policy with its knob turned."""
    if isinstance(policy, LinOtO):
        return replace(policy, alpha=value)
    return replace(policy, gate=replace(policy.gate, **{knob: value}))


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
