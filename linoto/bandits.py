"""Worlds to play in: linear bandits, instances as in the paper's experiments, and logs drawn from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from linoto.data import Offline, as_actions, as_counts, as_floats, check_count, check_nonnegative, choose
from linoto.kernels import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearBandit:
    """A world in which arm a pays <theta, a> on average.

    >>> bandit = LinearBandit(actions=[[1.0, 0.0], [0.6, 0.8]], theta=[0.5, 0.5])
    >>> bandit.means.tolist(), bandit.best
    ([0.5, 0.7], 1)
    """

    actions: Floats  # (k, d)
    theta: Floats  # (d,)
    noise: float = 1.0  # standard deviation of Gaussian rewards
    rewards: Literal["gaussian", "bernoulli"] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", as_actions(self.actions))
        object.__setattr__(self, "theta", as_floats("theta", self.theta, ndim=1))
        if self.theta.size != self.actions.shape[1]:
            raise ValueError(
                f"theta must have {self.actions.shape[1]} entries like actions, got {self.theta.size}"
            )
        check_nonnegative("noise", self.noise)
        choose("rewards", self.rewards, ("gaussian", "bernoulli"))
        if self.rewards == "bernoulli" and not ((self.means >= 0) & (self.means <= 1)).all():
            low, high = self.means.min(), self.means.max()
            raise ValueError(
                f"theta must give means in [0, 1] for Bernoulli rewards, got [{low:g}, {high:g}]"
            )

    @property
    def means(self) -> Floats:
        """(k,) mean reward of each arm."""
        return np.asarray(self.actions @ self.theta)

    @property
    def best(self) -> int:
        """The arm with the largest mean."""
        return int(self.means.argmax())

    def draw(self, rounds: int, rng: np.random.Generator) -> Floats:
        """(rounds,) what decides the rewards: additive noise, or uniforms for Bernoulli rewards."""
        if self.rewards == "bernoulli":
            return rng.random(rounds)
        return self.noise * rng.standard_normal(rounds)

    def log(self, pulls: npt.ArrayLike, rng: np.random.Generator) -> Offline:
        """A log with these pulls per arm (k,), its rewards drawn from this world."""
        counts = as_counts("pulls", pulls)
        if counts.size != len(self.actions):
            raise ValueError(
                f"pulls must have one entry for each of the {len(self.actions)} arms, got {counts.size}"
            )
        arms = np.repeat(np.arange(counts.size), counts)
        draws = self.draw(arms.size, rng)
        means = self.means[arms]
        rewards = (draws < means).astype(np.float64) if self.rewards == "bernoulli" else means + draws
        return Offline.from_rows(arms, rewards, k=counts.size)


def on_sphere(n: int, d: int, rng: np.random.Generator) -> Floats:
    """(n, d) points drawn uniformly from the unit sphere."""
    points = rng.standard_normal((n, d))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def sphere_bandit(*, k: int = 100, d: int = 20, rng: np.random.Generator, noise: float = 1.0) -> LinearBandit:
    """The paper's instances: k actions and the parameter uniform on the unit sphere, Gaussian rewards."""
    for name, value in (("k", k), ("d", d)):
        check_count(name, value)
    return LinearBandit(actions=on_sphere(k, d, rng), theta=on_sphere(1, d, rng)[0], noise=noise)


def logged_pulls(
    bandit: LinearBandit,
    *,
    m: int = 100,
    arms: int = 10,
    include_best: bool = False,
    rng: np.random.Generator,
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
    chosen = rng.choice(others, size=arms, replace=False)
    if include_best:
        chosen[0] = bandit.best
    pulls = np.zeros(k, dtype=np.int64)
    pulls[chosen] = m // arms
    pulls[chosen[: m % arms]] += 1
    return pulls
