"""What a preview knows of a log: which worlds could have written it, and what is promised on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.certificates import LOG, Certificate
from linoto.core.confidence import Confidence
from linoto.core.default_gate import default_gate_in_rounds
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.gates import Gate, Tolerance
from linoto.core.guardrail import Guardrail
from linoto.core.offline import Offline, as_offline
from linoto.core.one_hot import find_one_hot
from linoto.core.playing import GivenRounds
from linoto.core.protocols import ComposedPolicy
from linoto.core.validation import (
    as_actions,
    check_choice,
    check_count,
    check_nonnegative,
    check_positive,
    check_seed,
)
from linoto.worlds.bandits import World
from linoto.worlds.contexts import ContextualBandit, PooledRounds
from linoto.worlds.logged_rounds import (
    LoggedRounds,
    PracticeInLog,
    RowsOfLog,
    draw_parameters,
    plays_shares,
    rounds_of_moments,
    rounds_of_rows,
)
from linoto.worlds.moving import moving_world
from linoto.worlds.posterior import (
    LOGGED_ARMS,
    SPREADS,
    LoggedArms,
    are_unrelated,
    choices,
    draw_means,
    have_level,
    log_prior,
    usual_spread,
)
from linoto.worlds.reward_laws import ENOUGH, RewardLaw, around_model, measure_law, measured_variances

MOST_OWN = 0.5  # of the variance that a model leaves: as much as effects that no feature shows may make
OWN = (1.0, 2.0)  # what features do not show of arms in a round, as multiples of what they do (deviations)


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Which worlds are drawn, and how many: the options of a preview."""

    worlds: int
    horizon: int
    prior: float | None = None  # the standard deviation between average rewards; None: the log says it
    logged_arms: LoggedArms = "good"  # how those of the log were chosen
    drift: float = 0.0  # how far an average reward moves until the last round (standard deviation)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("worlds", "horizon"):
            check_count(name, getattr(self, name))
        check_seed(self.seed)
        check_nonnegative("drift", self.drift)
        if self.prior is not None:
            check_positive("prior", self.prior)
        check_choice("logged_arms", self.logged_arms, LOGGED_ARMS)

    @property
    def rng(self) -> np.random.Generator:
        """Draws what is plausible."""
        return np.random.default_rng([self.seed, 0])

    @property
    def seeds(self) -> list[int]:
        """(worlds,) of the noise and of the policy's own draws."""
        state = np.random.SeedSequence([self.seed, 1]).generate_state(self.worlds, np.uint64)
        found: list[int] = state.tolist()
        return found


class DrawnWorlds(NamedTuple):
    """Worlds that could have written a log."""

    worlds: Sequence[World | ContextualBandit]
    spread: Floats  # (worlds,) standard deviation between the average rewards that each was drawn with
    seeds: Sequence[int]  # of the noise and of the policy's own draws

    def beside(self, other: DrawnWorlds) -> DrawnWorlds:
        """These worlds and then others, to be played together."""
        return DrawnWorlds([*self.worlds, *other.worlds], self.spread, [*self.seeds, *other.seeds])


@dataclass(frozen=True, kw_only=True, eq=False)
class LogOfArms:
    """A log of arms that every round has."""

    actions: Floats  # (k, d)
    log: Offline  # what `simulate` starts a policy from
    metrics: tuple[PlausibleMetric, ...] = ()
    rounds_from = ""  # where contexts come from, in words: there are none
    by_shares = False  # practice is the log's mixture, whatever was known of the arms when it was chosen
    usual_choice: ClassVar[LoggedArms] = "good"  # no chance of a row tells why some arms were never tried

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

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.actions.shape[1])

    @property
    def moments(self) -> Moments:
        """The log by its features."""
        return Moments.of_arms(self.actions, self.log)

    @property
    def raw_features(self) -> Floats:
        """(k, d) what is known of arms in the units in which it came."""
        return self.actions

    def default_gate(self, confidence: Confidence) -> Gate:
        """What is previewed where no policy is given."""
        return Tolerance(epsilon=0.1)

    def compared_with(self, policy: ComposedPolicy) -> str:
        """What its promise is about."""
        composed = policy.composed()
        return composed.gate.compared_with(composed.resolved_fallback())

    def law(self, confidence: Confidence) -> RewardLaw:
        """How rewards scatter."""
        return measure_law(self.log, confidence)

    def certificate(self, policy: ComposedPolicy) -> Certificate:
        """What the policy promises."""
        return policy.certificate(self.actions, self.log)

    def prospects(self, world: Any, horizon: int) -> tuple[int, float]:
        """The best arm of a world, and how much more it earns in so many rounds than the log does."""
        table, starts = world.segments
        lengths = np.diff(np.minimum(np.append(starts, horizon), horizon))
        means = table[0] if len(table) == 1 else lengths @ table / horizon
        logged = self.log.pulls @ means / self.log.total if self.log.total else float("nan")
        return int(means.argmax()), horizon * float(means.max() - logged)

    def within_rounds(self, worlds: Sequence[Any]) -> Floats | None:
        """(worlds,) how much the arms of one round differ; None where every round has the same arms."""
        return None

    def draw(self, law: RewardLaw, asked: Drawing) -> DrawnWorlds:
        """Worlds drawn from the log's posterior; with a drift the same ones, whose means then move."""
        means, spread = draw_means(
            self.actions,
            self.log,
            law,
            worlds=asked.worlds,
            rng=asked.rng,
            prior=asked.prior,
            logged_arms=asked.logged_arms,
        )
        moves = np.random.default_rng([asked.seed, 2])
        drawn: list[World] = [
            moving_world(law, self.actions, row, size=asked.drift, horizon=asked.horizon, rng=moves)
            if asked.drift
            else law.world(self.actions, row)
            for row in means
        ]
        return DrawnWorlds(with_metrics(drawn, self.metrics, asked), spread, asked.seeds)


@dataclass(frozen=True, kw_only=True, eq=False)
class LogOfRounds:
    """A log whose rounds bring their own arms, and rounds like those."""

    recipe: Recipe
    log: Moments
    rounds: LoggedRounds
    of_rows: bool  # they are rows of the log; else only its sums are left
    randomised: bool = False  # every item was played, at random
    by_shares: bool = False  # as practice does that plays the log's own shares, whoever asks
    metrics: tuple[PlausibleMetric, ...] = ()
    features_alone = False

    @property
    def usual_choice(self) -> LoggedArms:
        """How what was played is taken to have been chosen: where a coin did it, by nothing that it earns."""
        return "random" if self.randomised else "good"

    @property
    def has_untried(self) -> bool:
        """Whether somebody could have chosen something else in a round, for what it earns."""
        return not self.randomised and self.rounds.ends.size < self.rounds.items.size

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
        gate: Gate = composed.composed_for_rounds().gate
        return gate

    @property
    def d(self) -> int:
        """The number of features."""
        return self.recipe.d

    @property
    def moments(self) -> Moments:
        """The log by its features."""
        return self.log

    @property
    def raw_features(self) -> Floats:
        """(k, w) the same; a context is scaled by its recipe."""
        return self.recipe.raw_features

    def default_gate(self, confidence: Confidence) -> Gate:
        """What is previewed where no policy is given."""
        return default_gate_in_rounds(self.log, confidence)

    def compared_with(self, policy: ComposedPolicy) -> str:
        """What its promise is about: with contexts always what was done in the same rounds."""
        return LOG

    def law(self, confidence: Confidence) -> RewardLaw:
        """How rewards scatter around the linear model: what it explains is no noise.

        Where all are the same there is nothing to explain, and it is as assumed.
        """
        law = measure_law(self.whole, confidence)
        (around, freedom), (total, _) = self.log.residuals(), self.whole.within_arms()
        if freedom < ENOUGH or total == 0:
            return law
        return around_model(law, around / freedom, self.log.reference)

    def certificate(self, policy: ComposedPolicy) -> Certificate:
        """What the policy promises."""
        starting: Any = policy
        found: Certificate = starting.certificate(offline=self.log, features=self.recipe)
        return found

    def prospects(self, world: Any, horizon: int) -> tuple[int, float]:
        """The item that is best in most rounds, and how much more the best of each round earns in all."""
        best, more = self.rounds.prospects(world.pool.means)
        return best, horizon * more

    def within_rounds(self, worlds: Sequence[Any]) -> Floats | None:
        """(worlds,) how much the arms of one round differ: a standard deviation, over all rounds."""
        return np.array([self.rounds.spread_within(world.pool.means) for world in worlds])

    def draw(self, law: RewardLaw, asked: Drawing) -> DrawnWorlds:
        """Worlds with parameters from the posterior of the log's linear model, and rounds like the log's."""
        if asked.drift:
            raise ValueError(
                f"drift must be 0 for a log with contexts, got {asked.drift}: leave it out, worlds with "
                "contexts stand still"
            )
        rng, (total, _) = asked.rng, measured_variances(self.whole, law.variance)
        usual = usual_spread(self.whole, law._replace(variance=total))  # the model may explain most of it
        spreads = SPREADS * usual if asked.prior is None else np.array([float(asked.prior)])
        thetas, spread = draw_parameters(
            self.recipe, self.log, law, spreads, log_prior(spreads, usual), worlds=asked.worlds, rng=rng
        )
        drawn = [self.world(law, theta, asked.logged_arms, rng) for theta in thetas]
        return DrawnWorlds(with_metrics(drawn, self.metrics, asked), spread, asked.seeds)

    def world(
        self, law: RewardLaw, theta: Floats, logged_arms: LoggedArms, rng: np.random.Generator
    ) -> PooledRounds:
        """The rounds with what this parameter says of their arms, and what no feature shows of them."""
        means, rounds = self.rounds.actions @ theta, self.rounds
        offered = max(round(rounds.items.size / rounds.ends.size), 1)
        ways = choices(1, offered, logged_arms)
        own = rng.choice(OWN) * rounds.spread_within(means)
        if not law.event:  # of events nobody can tell, of others that is a part of what the model leaves
            own = min(own, MOST_OWN**0.5 * law.noise)
            law = law.quieter(own**2)
        means = rounds.chosen(means, ways[rng.integers(len(ways))], own, law.limits, rng)
        if logged_arms == "best":
            means = rounds.capped(means)
        pool = GivenRounds(rounds.ends, rounds.actions, rounds.weights, means)
        chances = np.full(rounds.ends.size, 1 / rounds.ends.size)
        parts: dict[str, Any] = {"pool": pool, "chances": chances, "features": self.recipe}
        if law.shares is None:
            return PooledRounds(**parts, noise=law.noise)
        parts["reward_range"] = law.range
        if law.event:
            return PooledRounds(**parts, rewards="bernoulli")
        return PooledRounds(**parts, rewards="beta", share=float(law.shares[0]))


class PlausibleMetric(NamedTuple):
    """A guardrail, and what a preview knows of the log of its metric."""

    guardrail: Guardrail
    known: Plausible

    def worlds(self, asked: Drawing) -> Sequence[World | ContextualBandit]:
        """Worlds of its values that could have written the log: within the range, and standing still.

        Nobody chose what was logged for this metric, so untried arms are like the others.
        """
        bounded = Confidence(noise="bounded", reward_range=self.guardrail.reward_range)
        return self.known.draw(self.known.law(bounded), asked).worlds


def with_metrics(
    worlds: Sequence[Any], metrics: Sequence[PlausibleMetric], asked: Drawing
) -> list[World | ContextualBandit]:
    """Worlds with one for each metric in them, drawn on its own."""
    if not metrics:
        return list(worlds)
    drawn = {}
    for place, metric in enumerate(metrics):
        own = np.random.SeedSequence([asked.seed, 4, place]).generate_state(1, np.uint32).item()
        how = replace(asked, seed=own, drift=0.0, prior=None, logged_arms="random")
        drawn[metric.guardrail.name] = metric.worlds(how)
    return [
        replace(world, metrics={name: found[place] for name, found in drawn.items()})
        for place, world in enumerate(worlds)
    ]


Plausible = LogOfArms | LogOfRounds
"""What a preview knows of a log, whichever kind it is."""


def plausible(
    log: Any,
    offline: Offline | None,
    *,
    rows: RowsOfLog | None = None,
    practice: PracticeInLog | None = None,
    seed: int = 0,
) -> Plausible:
    """What is known of an arm set and its log, or of a log that was read: with contexts or without."""
    if isinstance(log, LogOfArms | LogOfRounds):
        return log
    if getattr(log, "contexts", None) is not None:
        rng = np.random.default_rng([seed, 3])
        if rows is not None:
            log.recipe.check_same(rows.recipe)
        found = (
            rounds_of_moments(log.recipe, log.moments, practice, rng)
            if rows is None
            else rounds_of_rows(rows, practice, rng)
        )
        by_shares = plays_shares(practice, log.recipe, log.moments)
        return LogOfRounds(
            recipe=log.recipe,
            log=log.moments,
            rounds=found,
            of_rows=rows is not None,
            randomised=getattr(log, "randomised", False) or by_shares,
            by_shares=by_shares,
            metrics=tuple(
                PlausibleMetric(
                    rail,
                    LogOfRounds(
                        recipe=log.recipe,
                        log=log.metrics[rail.name].moments,
                        rounds=found,
                        of_rows=rows is not None,
                        randomised=True,
                    ),
                )
                for rail in known_guardrails(log)
            ),
        )
    if rows is not None or practice is not None:
        raise ValueError("rows and practice are for a log with contexts, got one of fixed arms")
    if offline is None:
        if not hasattr(log, "offline"):
            raise ValueError("offline must be given beside actions, or a log that linoto.load read, got none")
        arms = as_actions(log.arms.actions)
        metrics = tuple(
            PlausibleMetric(rail, LogOfArms(actions=arms, log=log.metrics[rail.name].offline))
            for rail in known_guardrails(log)
        )
        return LogOfArms(actions=arms, log=as_offline(log.offline, len(arms)), metrics=metrics)
    arms = as_actions(log)
    return LogOfArms(actions=arms, log=as_offline(offline, len(arms)))


def known_guardrails(log: Any) -> list[Guardrail]:
    """Those of which the log has values."""
    metrics = getattr(log, "metrics", {})
    return [rail for rail in getattr(log, "guardrails", ()) if rail.name in metrics]
