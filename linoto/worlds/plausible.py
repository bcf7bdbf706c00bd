"""What a preview knows of a log: which worlds could have written it, and what is promised on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.gates import Gate
from linoto.core.offline import Offline, as_offline
from linoto.core.one_hot import find_one_hot
from linoto.core.playing import GivenRounds
from linoto.core.protocols import ComposedPolicy
from linoto.core.validation import as_actions, check_choice, check_positive
from linoto.worlds.bandits import World
from linoto.worlds.contexts import ContextualBandit, PooledRounds
from linoto.worlds.logged_rounds import (
    LoggedRounds,
    RowsOfLog,
    draw_parameters,
    rounds_of_moments,
    rounds_of_rows,
)
from linoto.worlds.moving import moving_world
from linoto.worlds.posterior import (
    CENTRE,
    LOGGED_ARMS,
    SPREADS,
    LoggedArms,
    are_unrelated,
    choices,
    draw_means,
    have_level,
    usual_spread,
)
from linoto.worlds.reward_laws import RewardLaw, measure_law

OWN = (1.0, 2.0)  # what features do not show of arms in a round, as multiples of what they do (deviations)


class DrawnWorlds(NamedTuple):
    """Worlds that could have written a log."""

    worlds: Sequence[World | ContextualBandit]
    spread: Floats  # (worlds,) standard deviation between the average rewards that each was drawn with
    seeds: Sequence[int]  # of the noise and of the policy's own draws

    def beside(self, other: DrawnWorlds) -> DrawnWorlds:
        """These worlds and then others, to be played together."""
        return DrawnWorlds([*self.worlds, *other.worlds], self.spread, [*self.seeds, *other.seeds])


class Plausible(Protocol):
    """A log, whichever kind it is, as a preview needs it."""

    @property
    def log(self) -> Any: ...  # what `simulate` starts a policy from
    @property
    def whole(self) -> Offline: ...  # what was earned in how many rows
    @property
    def has_untried(self) -> bool: ...  # whether how logged arms were chosen matters
    @property
    def features_alone(self) -> bool: ...  # nothing is an arm's own
    @property
    def rounds_from(self) -> str: ...  # where contexts come from, in words; "": there are none
    @property
    def cost(self) -> int: ...  # multiplications of a play, about

    def gate_of(self, policy: ComposedPolicy) -> Gate: ...
    def law(self, confidence: Confidence) -> RewardLaw: ...
    def certificate(self, policy: ComposedPolicy) -> Certificate: ...
    def prospects(self, world: Any, horizon: int) -> tuple[int, float]: ...
    def draw(
        self,
        law: RewardLaw,
        *,
        worlds: int,
        prior: float | None,
        logged_arms: LoggedArms,
        drift: float,
        horizon: int,
        seed: int,
    ) -> DrawnWorlds: ...


def plausible(
    log: Any,
    offline: Offline | None,
    *,
    rows: RowsOfLog | None = None,
    practice: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Plausible:
    """What is known of an arm set and its log, or of a log that was read: with contexts or without."""
    if isinstance(log, LogOfArms | LogOfRounds):
        return log
    if getattr(log, "contexts", None) is not None:
        rng = np.random.default_rng([seed, 3])
        found = (
            rounds_of_moments(log.recipe, log.moments, practice, rng)
            if rows is None
            else rounds_of_rows(rows, practice, rng)
        )
        return LogOfRounds(recipe=log.recipe, log=log.moments, rounds=found, of_rows=rows is not None)
    if rows is not None or practice is not None:
        raise ValueError("rows and practice are for a log with contexts, got one of fixed arms")
    if offline is None:
        if not hasattr(log, "offline"):
            raise ValueError("offline must be given beside actions, or a log that linoto.load read, got none")
        log, offline = log.arms.actions, log.offline
    arms = as_actions(log)
    return LogOfArms(actions=arms, log=as_offline(offline, len(arms)))


@dataclass(frozen=True, kw_only=True, eq=False)
class LogOfArms:
    """A log of arms that every round has."""

    actions: Floats  # (k, d)
    log: Offline
    rounds_from = ""

    @property
    def whole(self) -> Offline:
        """The log by arm."""
        return self.log

    @property
    def has_untried(self) -> bool:
        """Whether some arms were logged and others were not."""
        return bool(0 < np.count_nonzero(self.log.pulls) < len(self.actions))

    @property
    def features_alone(self) -> bool:
        """Whether untried arms are known by their features, and by nothing else."""
        return not (are_unrelated(self.actions) or have_level(self.actions))

    @property
    def cost(self) -> int:
        """Among k arms with d features about d (d + k); one-hot arms cost less."""
        k, d = self.actions.shape
        return int(20 * k if find_one_hot(self.actions) is not None else d * (d + k))

    def gate_of(self, policy: ComposedPolicy) -> Gate:
        """What the policy compares by."""
        return policy.composed().gate

    def law(self, confidence: Confidence) -> RewardLaw:
        """How rewards scatter."""
        return measure_law(self.log, confidence)

    def certificate(self, policy: ComposedPolicy) -> Certificate:
        """What the policy promises."""
        return policy.certificate(self.actions, self.log)

    def prospects(self, world: World, horizon: int) -> tuple[int, float]:
        """The best arm of a world, and how much more it earns in so many rounds than the log does."""
        table, starts = world.segments
        lengths = np.diff(np.minimum(np.append(starts, horizon), horizon))
        means = table[0] if len(table) == 1 else lengths @ table / horizon
        logged = self.log.pulls @ means / self.log.total if self.log.total else float("nan")
        return int(means.argmax()), horizon * float(means.max() - logged)

    def draw(
        self,
        law: RewardLaw,
        *,
        worlds: int,
        prior: float | None,
        logged_arms: LoggedArms,
        drift: float,
        horizon: int,
        seed: int,
    ) -> DrawnWorlds:
        """Worlds drawn from the log's posterior; with a drift the same ones, whose means then move."""
        check_prior(prior, logged_arms)
        known = {"prior": prior, "logged_arms": logged_arms, "rng": np.random.default_rng([seed, 0])}
        means, spread = draw_means(self.actions, self.log, law, worlds=worlds, **known)  # type: ignore[arg-type]
        moves = np.random.default_rng([seed, 2])
        drawn: list[World] = [
            moving_world(law, self.actions, row, size=drift, horizon=horizon, rng=moves)
            if drift
            else law.world(self.actions, row)
            for row in means
        ]
        return DrawnWorlds(drawn, spread, seeds_of(seed, worlds))


@dataclass(frozen=True, kw_only=True, eq=False)
class LogOfRounds:
    """A log whose rounds bring their own arms, and rounds like those."""

    recipe: Recipe
    log: Moments
    rounds: LoggedRounds
    of_rows: bool  # they are rows of the log; else only its sums are left
    features_alone = False

    @property
    def has_untried(self) -> bool:
        """Whether a round could have played something else."""
        return self.rounds.ends.size < self.rounds.items.size

    @property
    def rounds_from(self) -> str:
        """What the rounds of the worlds are, in words."""
        if self.of_rows:
            return "rounds are drawn from the rows of the log, with what each offered"
        return (
            "rounds are drawn by the sums of the log, as its rows are not at hand: numbers are normal around "
            "the averages of the item that was played, categories are drawn on their own, and every item is "
            "offered"
        )

    @property
    def whole(self) -> Offline:
        """All rows as those of one arm."""
        squares = self.log.reward_squares
        return Offline(
            pulls=np.array([self.log.count]),
            reward_sums=np.array([self.log.reward_sum]),
            reward_squares=None if squares is None else np.array([squares]),
        )

    @property
    def cost(self) -> int:
        """Arms that are new in every round cost about three times as much as fixed ones."""
        k, d = len(self.recipe.items), self.recipe.d
        return 3 * d * (d + k)

    def gate_of(self, policy: ComposedPolicy) -> Gate:
        """What the policy compares by."""
        composed: Any = policy
        gate: Gate = composed.composed_in_rounds().gate
        return gate

    def law(self, confidence: Confidence) -> RewardLaw:
        """How rewards scatter: normal ones around the linear model."""
        law = measure_law(self.whole, confidence)
        around, freedom = self.log.residuals()
        if law.shares is not None or freedom < 10 or around == 0:
            return law
        return law._replace(variance=around / freedom, variances=np.array([around / freedom]))

    def certificate(self, policy: ComposedPolicy) -> Certificate:
        """What the policy promises."""
        starting: Any = policy
        found: Certificate = starting.certificate(offline=self.log, d=self.recipe.d)
        return found

    def prospects(self, world: PooledRounds, horizon: int) -> tuple[int, float]:
        """The item that is best in most rounds, and how much more the best of each round earns in all."""
        best, more = self.rounds.prospects(world.pool.means)
        return best, horizon * more

    def draw(
        self,
        law: RewardLaw,
        *,
        worlds: int,
        prior: float | None,
        logged_arms: LoggedArms,
        drift: float,
        horizon: int,
        seed: int,
    ) -> DrawnWorlds:
        """Worlds with parameters from the posterior of the log's linear model, and rounds like the log's."""
        check_prior(prior, logged_arms)
        if drift:
            raise ValueError(f"drift must be 0 for a log with contexts, got {drift}")
        usual = usual_spread(self.whole, law)
        spreads = SPREADS * usual if prior is None else np.array([float(prior)])
        weights = np.log(spreads) - np.log1p((spreads / (CENTRE * usual)) ** 2)  # half-Cauchy, as fixed arms
        rng = np.random.default_rng([seed, 0])
        found = draw_parameters(self.recipe, self.log, law, spreads, weights, worlds=worlds, rng=rng)
        drawn = [self.world(law, theta, logged_arms, rng) for theta in found.thetas]
        return DrawnWorlds(drawn, found.spreads, seeds_of(seed, worlds))

    def world(
        self, law: RewardLaw, theta: Floats, logged_arms: LoggedArms, rng: np.random.Generator
    ) -> PooledRounds:
        """The rounds with what this parameter says of their arms, and what no feature shows of them."""
        means, rounds = self.rounds.actions @ theta, self.rounds
        offered = max(round(rounds.items.size / rounds.ends.size), 1)
        ways = choices(1, offered, logged_arms)
        own = rng.choice(OWN) * rounds.spread_within(means)
        means = rounds.chosen(means, ways[rng.integers(len(ways))], own, law.limits, rng)
        if logged_arms == "best":
            means = rounds.capped(means)
        pool = GivenRounds(rounds.ends, rounds.actions, rounds.weights, means)
        parts: dict[str, Any] = {"pool": pool, "chances": np.full(rounds.ends.size, 1 / rounds.ends.size)}
        if law.shares is None:
            return PooledRounds(**parts, noise=law.noise)
        parts["reward_range"] = law.range
        if law.event:
            return PooledRounds(**parts, rewards="bernoulli")
        return PooledRounds(**parts, rewards="beta", share=float(law.shares[0]))


def check_prior(prior: float | None, logged_arms: LoggedArms) -> None:
    """Refuse a prior that cannot be, and a way of choosing arms that nobody knows."""
    if prior is not None:
        check_positive("prior", prior)
    check_choice("logged_arms", logged_arms, LOGGED_ARMS)


def seeds_of(seed: int, worlds: int) -> list[int]:
    """(worlds,) of the noise and of the policy's own draws."""
    found: list[int] = np.random.SeedSequence([seed, 1]).generate_state(worlds, np.uint64).tolist()
    return found
