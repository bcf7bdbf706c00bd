"""Worlds to play in: linear bandits, instances as in the paper's experiments, and logs drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.certificates import Certificate
from linoto.core.offline import Offline
from linoto.core.one_hot import find_one_hot
from linoto.core.protocols import PolicyWithPromise
from linoto.core.validation import (
    as_actions,
    as_counts,
    as_floats,
    as_generator,
    as_range,
    check_choice,
    check_count,
    check_nonnegative,
    exact,
)
from linoto.worlds.beta_rewards import beta_rewards


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Shared by the bandits below: arms, and how rewards scatter around their means."""

    actions: Floats  # (k, d)
    noise: float = 1.0  # standard deviation of Gaussian rewards
    rewards: Literal["gaussian", "bernoulli", "beta"] = "gaussian"
    reward_range: tuple[float, float] = (0.0, 1.0)  # the two Bernoulli rewards, or the range of Beta ones
    # (k,) noise of an arm in units of `noise`; the step between its two values; or, of Beta rewards, their
    # variance as a share of the largest that rewards with this mean can have in the range
    spread: Floats | None = None
    metrics: Mapping[str, World] = field(default_factory=dict)  # what the same plays have besides, by name

    means: ClassVar[Any]  # (k,) mean reward of each arm

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", read_only(as_actions(self.actions)))
        check_nonnegative("noise", self.noise)
        check_choice("rewards", self.rewards, ("gaussian", "bernoulli", "beta"))
        object.__setattr__(self, "reward_range", as_range(self.reward_range))
        if self.spread is not None:
            object.__setattr__(self, "spread", read_only(as_floats("spread", self.spread, ndim=1)))
            if self.spread.size != len(self.actions) or not (self.spread >= 0).all():
                raise ValueError(f"spread must be {len(self.actions)} numbers >= 0, one for each arm")
        for name, metric in self.metrics.items():
            if len(metric.segments[1]) > 1 or len(metric.actions) != len(self.actions):
                raise ValueError(f"metrics must be worlds of the same arms that stand still, got {name!r}")
        if self.rewards == "beta" and (self.spread is None or self.spread.max() > 1):
            raise ValueError("spread must be given for Beta rewards, as shares from 0 to 1 of a variance")

    @property
    def steps(self) -> Floats:
        """(k,) what noise is multiplied by, or how far the two values of Bernoulli rewards are apart."""
        if self.spread is not None:
            return self.spread
        low, high = self.reward_range
        return np.full(len(self.actions), high - low if self.rewards == "bernoulli" else 1.0)

    def check_means(self, name: str) -> None:
        """Refuse means that rewards of two values or of a range cannot have."""
        low, high = self.reward_range
        least, most = self.segments[0].min(), self.segments[0].max()
        if self.rewards != "gaussian" and not (low <= least and most <= high):
            raise ValueError(
                f"{name} must give means in [{low:g}, {high:g}] for {self.rewards.capitalize()} rewards, "
                f"got [{exact(least)}, {exact(most)}]"
            )
        steps = self.steps
        if self.rewards == "bernoulli" and ((self.segments[0] - low > steps) | (steps > high - low)).any():
            raise ValueError(f"spread must reach above every mean and stay inside [{low:g}, {high:g}]")

    @property
    def segments(self) -> tuple[Floats, Ints]:
        """(n, k) means, and the round from which each row holds: one row where the means never move."""
        return self.means[None, :], np.zeros(1, np.int64)

    @property
    def best(self) -> int:
        """The arm with the largest mean."""
        return int(self.means.argmax())

    def draw(self, rounds: int, rng: np.random.Generator) -> Floats:
        """(rounds,) what decides the rewards: additive noise, or uniforms for the others."""
        if self.rewards != "gaussian":
            return rng.random(rounds)
        return self.noise * rng.standard_normal(rounds)

    def pay(self, arms: Ints, draws: Floats, segments: Ints | None = None) -> Floats:
        """The rewards of these arms, given what decides them, in the first or in these segments."""
        table, _ = self.segments
        rows = np.zeros(arms.size, np.int64) if segments is None else segments
        if self.rewards == "beta":
            kinds, place = np.unique(rows * len(self.actions) + arms, return_inverse=True)
            every = beta_rewards(
                table.ravel()[kinds], self.steps[kinds % len(self.actions)], self.reward_range
            )
            return every.paid(place, draws)
        means, steps = table[rows, arms], self.steps[arms]
        if self.rewards == "gaussian":
            return np.asarray(means + steps * draws)
        low, _ = self.reward_range
        return np.where(draws * steps < means - low, low + steps, low)

    def payer(self, means: Floats) -> Callable[[Floats], Floats]:
        """(rounds, k) what every arm would pay by these draws (rounds,), where these are the means."""
        steps, low = self.steps, self.reward_range[0]
        if self.rewards == "beta":
            return beta_rewards(means, steps, self.reward_range).table
        if self.rewards == "gaussian":
            return lambda draws: means + steps * draws[:, None]
        return lambda draws: np.where(draws[:, None] * steps < means - low, low + steps, low)

    def certificate(self, policy: PolicyWithPromise, offline: Offline) -> Certificate:
        """What a policy promises here before its first round."""
        return policy.certificate(self.actions, offline)

    def log(self, pulls: npt.ArrayLike, rng: int | np.random.Generator) -> Offline:
        """A log with these pulls per arm (k,), its rewards drawn from this world."""
        counts = as_counts("pulls", pulls)
        if counts.size != len(self.actions):
            raise ValueError(
                f"pulls must have one entry for each of the {len(self.actions)} arms, got {counts.size}"
            )
        arms = np.repeat(np.arange(counts.size), counts)
        return Offline.from_rows(arms, self.pay(arms, self.draw(arms.size, as_generator(rng))), k=counts.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearBandit(World):
    """A world in which arm a pays <theta, a> on average.

    >>> bandit = LinearBandit(actions=[[1.0, 0.0], [0.6, 0.8]], theta=[0.5, 0.5])
    >>> bandit.means.tolist(), bandit.best
    ([0.5, 0.7], 1)
    """

    theta: Floats  # (d,)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "theta", read_only(as_floats("theta", self.theta, ndim=1)))
        if self.theta.size != self.actions.shape[1]:
            raise ValueError(
                f"theta must have {self.actions.shape[1]} entries like actions, got {self.theta.size}"
            )
        self.check_means("theta")

    @property
    def means(self) -> Floats:
        """(k,) mean reward of each arm."""
        units = find_one_hot(self.actions)
        return np.asarray(
            self.actions @ self.theta if units is None else units.scales * self.theta[units.places]
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Bandit(World):
    """A world with any means at all: what a linear model may be wrong about.

    >>> Bandit(actions=[[0.5], [1.0]], means=[0.5, 0.0]).best
    0
    """

    means: Floats  # type: ignore[misc]  # (k,)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "means", read_only(as_floats("means", self.means, ndim=1)))
        if self.means.size != len(self.actions):
            raise ValueError(
                f"means must have {len(self.actions)} entries like actions, got {self.means.size}"
            )
        self.check_means("means")


@dataclass(frozen=True, kw_only=True, eq=False)
class DriftingBandit(World):
    """A world whose means move: row i of `table` holds from round `starts[i]` on, counted from 0.

    `means`, and a log drawn from it, are those of the first row.

    >>> world = DriftingBandit(actions=[[1.0], [0.5]], table=[[0.6, 0.7], [0.8, 0.7]], starts=[0, 1000])
    >>> world.means.tolist()
    [0.6, 0.7]
    """

    table: Floats  # (segments, k)
    starts: Ints  # (segments,) the first is 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "table", read_only(as_floats("table", self.table, ndim=2)))
        object.__setattr__(self, "starts", read_only(as_counts("starts", self.starts)))
        rows = len(self.actions)
        if self.table.shape != (self.starts.size, rows):
            raise ValueError(
                f"table must have a row for each of the {self.starts.size} starts and a column for each of "
                f"the {rows} arms, got shape {self.table.shape}"
            )
        if self.starts.size == 0 or self.starts[0] != 0 or (np.diff(self.starts) <= 0).any():
            raise ValueError(f"starts must begin with 0 and increase, got {self.starts.tolist()}")
        self.check_means("table")

    @property
    def means(self) -> Floats:
        """(k,) mean reward of each arm in the first segment."""
        return np.asarray(self.table[0])

    @property
    def segments(self) -> tuple[Floats, Ints]:
        """The table and its starts."""
        return self.table, self.starts


def read_only(array: Any) -> Any:
    """The array, which nobody can change any more."""
    array.flags.writeable = False
    return array


def on_sphere(n: int, d: int, rng: np.random.Generator) -> Floats:
    """(n, d) points drawn uniformly from the unit sphere."""
    points = rng.standard_normal((n, d))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def sphere_bandit(
    *, k: int = 100, d: int = 20, rng: int | np.random.Generator, noise: float = 1.0
) -> LinearBandit:
    """The paper's instances: k actions and the parameter uniform on the unit sphere, Gaussian rewards."""
    for name, value in (("k", k), ("d", d)):
        check_count(name, value)
    generator = as_generator(rng)
    actions, (theta,) = on_sphere(k, d, generator), on_sphere(1, d, generator)
    return LinearBandit(actions=actions, theta=theta, noise=noise)


def logged_pulls(
    bandit: World,
    *,
    m: int = 100,
    arms: int = 10,
    include_best: bool = False,
    rng: int | np.random.Generator,
) -> Ints:
    """(k,) the paper's offline design: m pulls spread evenly over a few arms, the best one among them or not.

    The arms are drawn without replacement from all but the best; with `include_best` the best takes one of
    the places, so that m and the number of logged arms stay the same. What does not divide goes to the first.
    """
    check_count("m", m)
    check_count("arms", arms)
    k = len(bandit.actions)
    others = np.delete(np.arange(k), bandit.best)
    if arms > len(others) + include_best:
        raise ValueError(f"arms must be at most {len(others) + include_best} here, got {arms}")
    chosen = as_generator(rng).choice(others, size=arms - include_best, replace=False)
    if include_best:
        chosen = np.append(bandit.best, chosen)
    pulls = np.zeros(k, dtype=np.int64)
    pulls[chosen] = m // arms
    pulls[chosen[: m % arms]] += 1
    return pulls
