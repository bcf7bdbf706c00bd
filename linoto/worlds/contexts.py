"""Worlds with contexts: every round brings its own arms, and what practice does in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Floats, Ints
from linoto.core.certificates import Certificate
from linoto.core.drivers.questions import as_weights
from linoto.core.features.moments import Moments
from linoto.core.playing import GivenRounds
from linoto.core.protocols import PolicyWithPromise
from linoto.core.validation import (
    as_floats,
    as_generator,
    check_choice,
    check_count,
    check_nonnegative,
    is_number,
)
from linoto.worlds.bandits import on_sphere, read_only
from linoto.worlds.beta_rewards import beta_rewards

BLOCK = 256  # rounds drawn at once: memory does not grow with the horizon


@dataclass(frozen=True, kw_only=True, eq=False)
class ContextualBandit:
    """A world whose rounds bring their own arms. Make one with `synthetic` or `from_table`.

    For another kind of world, override `d` and `rounds` in a subclass.

    >>> world = ContextualBandit.synthetic(k=3, d=4, rng=1)
    >>> actions, practice, means = world.round(rng=2)
    >>> actions.shape, practice.tolist(), means.round(2).tolist()
    ((3, 4), [0.0, 1.0, 0.0], [0.65, 0.12, 0.19])
    >>> world.log(50, rng=3).count
    50
    """

    noise: float = 1.0  # standard deviation of Gaussian rewards
    rewards: Literal["gaussian", "bernoulli", "beta"] = "gaussian"
    reward_range: tuple[float, float] = (0.0, 1.0)  # both values of Bernoulli rewards, the range of Beta ones
    share: float = 1.0  # of the largest variance that rewards of the range can have: that of Beta ones
    metrics: Mapping[str, ContextualBandit] = field(default_factory=dict)  # besides, in the same rounds

    def __post_init__(self) -> None:
        check_nonnegative("noise", self.noise)
        check_choice("rewards", self.rewards, ("gaussian", "bernoulli", "beta"))

    @staticmethod
    def synthetic(
        *,
        k: int = 10,
        d: int = 10,
        rng: int | np.random.Generator = 0,
        error: float = 1.0,
        weights: npt.ArrayLike | None = None,
        noise: float = 1.0,
        rewards: Literal["gaussian", "bernoulli"] = "gaussian",
    ) -> ContextualBandit:
        """A linear world: the parameter and k arms in every round uniform on the unit sphere.

        Practice plays the best arm for another parameter, which is the true one plus `error` in a random
        direction; or it draws an arm with `weights` (k,). For Bernoulli rewards the first feature is
        constant, so that means fill [0, 1].
        """
        check_count("k", k)
        check_count("d", d)
        check_nonnegative("error", error)
        if rewards == "bernoulli" and d < 2:
            raise ValueError(f"d must be at least 2 for Bernoulli rewards, got {d}")
        free = d - 1 if rewards == "bernoulli" else d
        theta, away = on_sphere(2, free, as_generator(rng))
        shares = None
        if weights is not None:
            shares = read_only(as_weights(as_floats("weights", weights, ndim=1)))
            if shares.size != k:
                raise ValueError(f"weights must have one entry for each of the {k} arms, got {shares.size}")
        guess = theta + error * away
        return LinearRounds(theta=theta, guess=guess, k=k, weights=shares, noise=noise, rewards=rewards)

    @staticmethod
    def from_table(
        features: npt.ArrayLike,
        labels: npt.ArrayLike | Sequence[Any],
        *,
        practice: npt.ArrayLike | None = None,
        taught: int = 60,
        rng: int | np.random.Generator = 0,
    ) -> ContextualBandit:
        """A classification table as a world: a round is a row, an arm is a label, and the right one earns 1.

        `features` (n, p) of a row are crossed with the arm (d = p times the number of labels), or given for
        every arm (n, k, d), in the order of the sorted labels. `practice` is what is done today: a label for
        each row (n,), or weights of the labels (n, k) or (k,). Without it, practice is the nearest centroid
        of `taught` rows that `rng` draws.

        >>> table = [[1.0, 0.2], [1.0, 0.9]]
        >>> world = ContextualBandit.from_table(table, ["no", "yes"], practice=["no", "no"])
        >>> world.d, world.names
        (4, ('no', 'yes'))
        """
        names, right = np.unique(np.asarray(labels), return_inverse=True)
        rows = as_features(features, right.size, names.size)
        if practice is None:
            check_count("taught", taught)
            chosen = nearest_centroid(rows, right, names.size, taught, as_generator(rng))
        else:
            chosen = as_practice_weights(practice, names, right.size)
        known = tuple(str(name) for name in names.tolist())
        return TableRounds(rows=rows, right=right, weights=chosen, names=known, rewards="bernoulli")

    @property
    def d(self) -> int:
        """The number of features."""
        raise TypeError(f"{type(self).__name__} must say how many features there are")

    @property
    def begins_with(self) -> dict[str, Any]:
        """What a policy is told of the rounds, as words of `start`."""
        return {"d": self.d}

    def certificate(self, policy: PolicyWithPromise, offline: Any) -> Certificate:
        """What a policy promises here before its first round."""
        starting: Any = policy
        found: Certificate = starting.certificate(offline=offline, **self.begins_with)
        return found

    def rounds(self, n: int, rng: np.random.Generator, first: int = 0) -> GivenRounds:
        """Draw n rounds, of which the first one has this number, counted from 0."""
        raise TypeError(f"{type(self).__name__} must say how rounds are drawn")

    def round(self, rng: int | np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """One round: its arms (k, d), with which weights (k,) practice plays them, and their means (k,)."""
        return next(self.rounds(1, as_generator(rng)).each())

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """(n,) what decides the rewards: additive noise, or uniforms for the others."""
        return self.noise * rng.standard_normal(n) if self.rewards == "gaussian" else rng.random(n)

    def pay(self, means: Floats, draws: Floats) -> Floats:
        """The rewards of plays with these means, given what decides them."""
        low, high = self.reward_range
        if self.rewards == "gaussian":
            return np.asarray(means + draws)
        if self.rewards == "bernoulli":
            return np.where(draws < (means - low) / (high - low), high, low)
        every = beta_rewards(means, np.full(means.size, self.share), self.reward_range)
        return every.paid(np.arange(means.size), draws)

    def log(self, m: int, rng: int | np.random.Generator, *, uniform: float = 0.0) -> Moments:
        """A log of m rounds of practice, in which a share `uniform` of the plays was drawn from all arms."""
        check_count("m", m)
        if not is_number(uniform) or not 0 <= uniform <= 1:
            raise ValueError(f"uniform must be in [0, 1], got {uniform!r}")
        generator, parts = as_generator(rng), []
        for first in range(0, m, BLOCK):
            n = min(BLOCK, m - first)
            drawn = self.rounds(n, generator)
            picks, coins = generator.random((2, n))
            arms = np.array(
                [
                    kernels.draw_arm(np.ones(weights.size) if coin < uniform else weights, pick)
                    for (_, weights, _), pick, coin in zip(drawn.each(), picks, coins, strict=True)
                ]
            )
            played = np.append(0, drawn.ends[:-1]) + arms
            rewards = self.pay(drawn.means[played], self.draw(n, generator))
            parts.append((drawn.actions[played], rewards))
        return Moments.from_blocks(parts)

    def until(self, round: int, then: ContextualBandit) -> ContextualBandit:
        """This world for so many rounds, and another one afterwards; a log of it is one of this world."""
        check_count("round", round)
        paid = {name: getattr(self, name) for name in ("noise", "rewards", "reward_range", "share")}
        for name, value in {"d": self.d, **paid}.items():
            if getattr(then, name) != value:
                raise ValueError(
                    f"then must be a ContextualBandit with {name} = {value!r}, got {getattr(then, name)!r}"
                )
        return ChangingRounds(before=self, after=then, turn=round, **paid)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearRounds(ContextualBandit):
    """A fresh set of arms in every round, which earn <theta, a> on average."""

    theta: Floats  # (d,), or (d - 1,) beside the constant feature of Bernoulli rewards
    guess: Floats  # what practice takes for theta
    k: int
    weights: Floats | None  # (k,) practice's, where it draws

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.theta.size) + (self.rewards == "bernoulli")

    def rounds(self, n: int, rng: np.random.Generator, first: int = 0) -> GivenRounds:
        """Draw n rounds."""
        actions = on_sphere(n * self.k, self.theta.size, rng)
        means, guesses = actions @ self.theta, actions @ self.guess
        if self.weights is None:
            weights = np.zeros((n, self.k))
            weights[np.arange(n), guesses.reshape(n, self.k).argmax(axis=1)] = 1.0
        else:
            weights = np.tile(self.weights, (n, 1))
        if self.rewards == "bernoulli":
            actions = np.column_stack([np.ones(n * self.k), actions]) / sqrt(2)
            means = (1 + means) / 2
        return GivenRounds(self.k * np.arange(1, n + 1), actions, weights.ravel(), means)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableRounds(ContextualBandit):
    """Rows of a classification table, drawn with replacement."""

    rows: Floats  # (n, p) features of a row, or (n, k, d) of each arm in it
    right: Ints  # (n,) the arm that earns 1
    weights: Floats  # (n, k) practice's
    names: tuple[str, ...]  # (k,) the labels

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.rows.shape[-1]) * (len(self.names) if self.rows.ndim == 2 else 1)

    def rounds(self, n: int, rng: np.random.Generator, first: int = 0) -> GivenRounds:
        """Draw n rounds."""
        k, chosen = len(self.names), rng.integers(len(self.rows), size=n)
        means = self.right[chosen, None] == np.arange(k)
        return GivenRounds(
            ends=k * np.arange(1, n + 1),
            actions=crossed(self.rows[chosen], k),
            weights=self.weights[chosen].ravel(),
            means=means.astype(np.float64).ravel(),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledRounds(ContextualBandit):
    """Rounds drawn from a finite pool of contexts, each with its own arms."""

    pool: GivenRounds
    chances: Floats  # (contexts,) how likely each is
    features: Any = None  # what made the arms of contexts: a policy starts with it, as its loop will

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.pool.actions.shape[1])

    @property
    def begins_with(self) -> dict[str, Any]:
        """What a policy is told of the rounds, as words of `start`."""
        return super().begins_with if self.features is None else {"features": self.features}

    def rounds(self, n: int, rng: np.random.Generator, first: int = 0) -> GivenRounds:
        """Draw n rounds."""
        contexts = rng.choice(self.chances.size, size=n, p=self.chances)
        ends, begins = self.pool.ends[contexts], np.append(0, self.pool.ends)[contexts]
        chosen = np.concatenate([np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)])
        return GivenRounds(np.cumsum(ends - begins), *(column[chosen] for column in self.pool[1:]))


@dataclass(frozen=True, kw_only=True, eq=False)
class ChangingRounds(ContextualBandit):
    """One world for some rounds, and then another."""

    before: ContextualBandit
    after: ContextualBandit
    turn: int  # the number of the first round of the other world, counted from 0

    @property
    def d(self) -> int:
        """The number of features."""
        return self.before.d

    @property
    def begins_with(self) -> dict[str, Any]:
        """What a policy is told of the rounds, as words of `start`."""
        return self.before.begins_with

    def rounds(self, n: int, rng: np.random.Generator, first: int = 0) -> GivenRounds:
        """Draw n rounds."""
        early = min(max(self.turn - first, 0), n)
        if early in (0, n):
            return (self.before if early else self.after).rounds(n, rng, first)
        parts = self.before.rounds(early, rng, first), self.after.rounds(n - early, rng, first + early)
        ends = np.append(parts[0].ends, parts[0].ends[-1] + parts[1].ends)
        return GivenRounds(ends, *(np.concatenate(columns) for columns in list(zip(*parts, strict=True))[1:]))


# -- tables -----------------------------------------------------------------------------------------------


def as_features(features: Any, n: int, k: int) -> Floats:
    """Features of n rows, or of k arms in each."""
    array = as_floats("features", features, ndim=np.ndim(features))
    if array.ndim not in (2, 3) or len(array) != n or array.shape[-1] == 0 or n == 0:
        raise ValueError(
            f"features must have a row for each of the {n} labels, (n, p) or (n, k, d), "
            f"got shape {array.shape}"
        )
    if array.ndim == 3 and array.shape[1] != k:
        raise ValueError(f"features must have {k} arms in every row like labels, got {array.shape[1]}")
    return np.asarray(read_only(array))


def crossed(rows: Floats, k: int) -> Floats:
    """(n k, d) the arms of each row: its features in the place of the arm, zeros elsewhere."""
    if rows.ndim == 3:
        return rows.reshape(-1, rows.shape[-1])
    n, p = rows.shape
    arms = np.zeros((n, k, k, p))
    arms[:, np.arange(k), np.arange(k)] = rows[:, None]
    return arms.reshape(n * k, k * p)


def as_practice_weights(practice: Any, names: npt.NDArray[Any], n: int) -> Floats:
    """(n, k) the weights of practice: given, the same in every row, or a label for each row."""
    k, given = names.size, np.asarray(practice)
    if given.shape == (n,) and np.isin(given, names).all():
        return one_hot_rows(np.searchsorted(names, given), k)
    if given.shape not in ((n, k), (k,)):
        raise ValueError(
            f"practice must be a known label for each of the {n} rows, or weights of the {k} labels, "
            f"(k,) or (n, k), got shape {given.shape}"
        )
    rows = as_floats("practice", given, ndim=given.ndim).reshape(-1, k)
    checked = np.array([as_weights(row) for row in rows])
    return np.ascontiguousarray(np.broadcast_to(checked, (n, k)))


def nearest_centroid(rows: Floats, right: Ints, k: int, taught: int, rng: np.random.Generator) -> Floats:
    """(n, k) what the nearest centroid of a few rows says; a label that is not among them is never played."""
    points = rows.reshape(len(rows), -1)
    few = rng.permutation(len(rows))[:taught]
    known = np.unique(right[few])
    centroids = np.array([points[few][right[few] == label].mean(axis=0) for label in known])
    distances = (centroids**2).sum(axis=1) - 2 * points @ centroids.T  # squared, less what all have in common
    return one_hot_rows(known[distances.argmin(axis=1)], k)


def one_hot_rows(arms: Any, k: int) -> Floats:
    """(n, k) 1 for the arm of each row."""
    return np.asarray(arms[:, None] == np.arange(k), dtype=np.float64)
