"""Play a policy in a world, and measure both regrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.features.moments import Moments, as_moments
from linoto.core.offline import Offline, as_offline
from linoto.core.playing import GivenRounds, Rounds, ask_in_rounds, rounds_in_python, segments
from linoto.core.protocols import (
    AnyAgent,
    Policy,
    PolicyForRounds,
    RoundAgent,
    starts_without_arms,
    takes_features,
)
from linoto.core.validation import as_floats, check_count, check_seed
from linoto.worlds.bandits import World
from linoto.worlds.contexts import BLOCK, ContextualBandit
from linoto.worlds.delays import Delayed, check_delay
from linoto.worlds.run import MetricRun, Run

BY_PRACTICE = (kernels.FROM_MIXTURE, kernels.FROM_CONTROL)
Draws = Mapping[str, Floats]  # (n,) what decides the values of each metric
MOST_PAID = 2**20  # rewards that are computed at a time: of rounds times arms


def simulate(
    policy: Policy,
    bandit: World | ContextualBandit,
    offline: Offline | Moments | None,
    *,
    horizon: int | None = None,
    seed: int = 0,
    noise: npt.ArrayLike | None = None,
    delay: int = 0,
) -> Run:
    """Play `horizon` rounds of a policy in a world, warm-started from a log.

    `seed` drives the world's noise and, independently, the policy. With `noise` (n,) given, reward t is
    `means[arm] + noise[t]` whatever the arm, and the horizon is n. Any object with `start(actions, offline,
    rng=...)`, whose agent has `select()` and `update(arm, reward)`, can be played.

    In a `ContextualBandit` the log is a `Moments` or None. The policy has `start(offline=log, d=...,
    rng=...)`, and its agent `decide(actions=..., practice=...)` and `update(decision, reward)`. Regret is
    against the best arm of each round, and `offline_regret` is the shortfall below practice in the same
    rounds.

    With a `delay` the reward of a round, and its values of metrics, are told so many rounds later: then the
    agent is asked round by round, which is slower.

    A world may have metrics besides the reward (`metrics=`, a world for each). A policy with guardrails is
    told those, and `run.metrics` says of each how much more there was of it than with practice.

    >>> from linoto import LinOtO, LinearBandit, Offline
    >>> bandit = LinearBandit(actions=[[1.0, 0.0], [0.6, 0.8]], theta=[0.5, 0.5])
    >>> run = simulate(LinOtO(), bandit, Offline(pulls=[9, 0], reward_sums=[4.5, 0.0]), horizon=100)
    >>> run.arms.size, bool(run.regret[-1] <= 20)
    (100, True)
    """
    check_seed(seed)
    check_delay(delay)
    if not hasattr(bandit, "draw") or not hasattr(bandit, "metrics"):
        raise ValueError(f"bandit must be a world such as a LinearBandit, got {type(bandit).__name__}")
    children = np.random.SeedSequence(seed).spawn(3 + len(bandit.metrics))
    world, own, contexts, *others = (np.random.default_rng(child) for child in children)
    draws = given_noise(noise, horizon)
    if draws is not None and bandit.metrics:
        raise ValueError("noise must be left out in a world with metrics, got some")
    if draws is None:
        check_count("horizon", horizon)
        draws = bandit.draw(int(horizon), world)  # type: ignore[arg-type]
    metrics: Mapping[str, World | ContextualBandit] = bandit.metrics
    besides = {
        name: metric.draw(draws.size, rng)
        for (name, metric), rng in zip(metrics.items(), others, strict=True)
    }
    told = [rail.name for rail in getattr(policy, "guardrails", ())]
    if isinstance(bandit, ContextualBandit):
        started = as_late(start_in_contexts(policy, bandit, offline, own), delay)
        return in_contexts(started, bandit, draws, contexts, besides, told, given=noise is not None)
    log = as_offline(offline, len(bandit.actions))
    agent = as_late(policy.start(bandit.actions, log, rng=own), delay)
    return among_arms(agent, bandit, log, draws, besides, told, given=noise is not None)


def as_late(agent: AnyAgent | RoundAgent, delay: int) -> Any:
    """The agent, which is told of a round after so many others."""
    return agent if delay == 0 else Delayed(agent, delay)


def given_noise(noise: npt.ArrayLike | None, horizon: int | None) -> Floats | None:
    """(n,) noise that is added whatever the world says, where it is given."""
    if noise is None:
        return None
    draws = as_floats("noise", noise, ndim=1)
    if horizon not in (None, draws.size):
        raise ValueError(f"horizon must be {draws.size}, the length of noise, got {horizon!r}")
    check_count("horizon", draws.size)
    return draws


# -- fixed arms -------------------------------------------------------------------------------------------


def among_arms(
    agent: AnyAgent,
    bandit: World,
    log: Offline,
    draws: Floats,
    besides: Draws,
    told: Sequence[str],
    *,
    given: bool,
) -> Run:
    """Play rounds that all have the same arms; the agent is `told` these metrics."""
    known = {name: besides[name] for name in told if name in besides}
    arms, explored, control, fallbacks = played(agent, bandit, draws, known, given=given)
    table, starts = bandit.segments
    now = segments(starts, 0, arms.size)  # (n,) the row of each round
    earned = table[now, arms]
    logged = table @ log.pulls / log.total if log.total else np.full(len(table), np.nan)  # mu_off, as it is
    return Run(
        arms=arms,
        explored=explored,
        rewards=earned + draws if given else bandit.pay(arms, draws, now),
        means=earned,
        regret=np.cumsum(table.max(axis=1)[now] - earned),
        offline_regret=np.cumsum(logged[now] - earned),
        control=control,
        practice_shortfall=np.cumsum(np.where(explored, table[now, fallbacks] - earned, 0.0)),
        metrics={
            name: more_than_log(bandit.metrics[name], own, log, arms, fallbacks, explored)
            for name, own in besides.items()
        },
    )


def more_than_log(
    metric: World, draws: Floats, log: Offline, arms: Ints, fallbacks: Ints, explored: Bools
) -> MetricRun:
    """How much more of a metric these plays had than the log's arms, and than their fallbacks."""
    means = metric.means
    usual = log.pulls @ means / log.total if log.total else float("nan")
    values = metric.pay(arms, draws)
    above, luck = (np.where(explored, values - means[other], 0.0) for other in (fallbacks, arms))
    return MetricRun(np.cumsum(means[arms] - usual), np.cumsum(above), np.cumsum(luck))


def played(
    agent: AnyAgent, bandit: World, draws: Floats, told: Draws, *, given: bool
) -> tuple[Ints, Bools, Bools, Ints]:
    """The arms, which were explored, which were control rounds, and the fallbacks (else, the arms).

    `given` draws are noise that is added whatever the world says; `told` are those of metrics that the agent
    is told.
    """
    if (bandit.rewards == "beta" or told) and not given:
        payers = {name: bandit.metrics[name].payer(bandit.metrics[name].means) for name in told}
        parts, first = [], 0
        for table in reward_tables(bandit, draws):
            rounds, nothing = slice(first, first + len(table)), np.zeros(len(table))
            metrics = {name: (payers[name](own[rounds]), nothing) for name, own in told.items()}
            more: dict[str, Any] = {"metrics": metrics} if metrics else {}
            parts.append(played_parts(agent, table, nothing, starts=np.arange(len(table)), **more))
            first = rounds.stop
        arms, explored, control, fallbacks = (np.concatenate(part) for part in zip(*parts, strict=True))
        return arms, explored, control, fallbacks
    table, starts = bandit.segments
    world: dict[str, Any] = {
        "bernoulli": bandit.rewards == "bernoulli" and not given,
        "reward_range": bandit.reward_range,
        "spread": None if given else bandit.spread,
    }
    if starts.size > 1:
        return played_parts(agent, table, draws, **world, starts=starts)
    return played_parts(agent, table[0], draws, **world)


def reward_tables(bandit: World, draws: Floats, *, at_a_time: int = MOST_PAID) -> Iterator[Floats]:
    """(rounds, k) what every arm would pay in the next rounds, a few at a time: for the compiled loop these
    are means that move in every round."""
    table, starts = bandit.segments
    ends = np.minimum(np.append(starts[1:], draws.size), draws.size)
    block = max(at_a_time // table.shape[1], 1)
    for means, start, end in zip(table, starts.tolist(), ends.tolist(), strict=True):
        paid = bandit.payer(means)
        for first in range(start, end, block):
            yield paid(draws[first : min(first + block, end)])


def played_parts(
    agent: AnyAgent, means: Floats, draws: Floats, **world: Any
) -> tuple[Ints, Bools, Bools, Ints]:
    """The same of some rounds in a world of these means."""
    compiled = hasattr(getattr(agent, "inner", agent), "play")  # an agent may wrap another
    if compiled and hasattr(agent, "play") and not hasattr(agent, "play_rounds"):
        arms, explored = agent.play(means, draws, **world)
        return arms, explored, np.zeros(arms.size, np.bool_), arms
    play = getattr(agent, "play_rounds", None) or partial(rounds_in_python, agent)
    rounds = play(means, draws, **world)
    known = np.where(rounds.fallbacks >= 0, rounds.fallbacks, rounds.arms)
    return rounds.arms, rounds.explored, rounds.sources == kernels.FROM_CONTROL, known


# -- rounds that bring their own arms ---------------------------------------------------------------------


def start_in_contexts(
    policy: Policy | PolicyForRounds, bandit: ContextualBandit, offline: Any, own: np.random.Generator
) -> RoundAgent:
    """An agent for the rounds of this world."""
    if not starts_without_arms(policy):
        raise ValueError(f"policy must start without arms where rounds bring them, got {policy!r}")
    log = as_moments(offline, bandit.d)
    known = bandit.begins_with if takes_features(policy) else {"d": bandit.d}
    return cast("PolicyForRounds", policy).start(offline=log, rng=own, **known)


def in_contexts(
    agent: RoundAgent,
    bandit: ContextualBandit,
    draws: Floats,
    contexts: np.random.Generator,  # the world's: every policy meets the same rounds
    besides: Draws,
    told: Sequence[str],
    *,
    given: bool,
) -> Run:
    """Play rounds that bring their own arms; what every arm would pay is computed before each block."""
    parts, more = [], {name: list[tuple[Floats, Floats, Floats]]() for name in besides}
    by_draw = drawn_practice(agent)
    for first in range(0, draws.size, BLOCK):
        now = draws[first : first + BLOCK]
        same = {name: deepcopy(contexts) for name in besides}  # the rounds of metrics are these
        drawn = bandit.rounds(now.size, contexts, first)
        sizes = np.diff(drawn.ends, prepend=0)
        every = np.repeat(now, sizes)
        paid = drawn.means + every if given else bandit.pay(drawn.means, every)
        values = {}
        for name, rng in same.items():
            metric = bandit.metrics[name]
            means = metric.rounds(now.size, rng, first).means
            values[name] = means, metric.pay(means, np.repeat(besides[name][first : first + BLOCK], sizes))
        known = {name: values[name][1] for name in told if name in values}
        rounds = play_block(agent, drawn._replace(means=paid), known)
        places = np.append(0, drawn.ends[:-1]) + rounds.arms
        parts.append((rounds, paid[places], *compared(rounds, drawn, by_draw)))
        for name, (means, came) in values.items():
            behind = compared(rounds, drawn._replace(means=means), by_draw)[2]
            luck = np.where(rounds.explored, (came - means)[places], 0.0)
            more[name].append((-behind, luck - behind, luck))
    plays, *columns = zip(*parts, strict=True)
    arms, sources, _ = (np.concatenate(column) for column in zip(*plays, strict=True))
    rewards, earned, regret, behind = (np.concatenate(column) for column in columns)
    return Run(
        arms=arms,
        explored=sources == kernels.FROM_EXPLORER,
        rewards=rewards,
        means=earned,
        regret=np.cumsum(regret),
        offline_regret=np.cumsum(behind),
        control=sources == kernels.FROM_CONTROL,
        practice_shortfall=np.cumsum(behind),
        metrics={
            name: MetricRun(*(np.cumsum(np.concatenate(column)) for column in zip(*found, strict=True)))
            for name, found in more.items()
        },
    )


def play_block(agent: RoundAgent, paying: GivenRounds, told: Mapping[str, Floats]) -> Rounds:
    """Some rounds with what each arm pays, and has of metrics, compiled where the agent can."""
    nothing = np.zeros(paying.ends.size)
    play = getattr(agent, "play_rounds", None)
    if play is None:
        return ask_in_rounds(agent, paying.each(), nothing, False)
    metrics = {name: (values, nothing) for name, values in told.items()}
    more: dict[str, Any] = {"metrics": metrics} if metrics else {}
    rounds: Rounds = play(draws=nothing, bernoulli=False, **paying._asdict(), **more)
    return rounds


def drawn_practice(agent: RoundAgent) -> bool:
    """Whether the agent compares with the arm that practice draws, as a Control gate does, or its average."""
    return bool(getattr(getattr(agent, "gate", None), "throws_coin", False))


def compared(played: Rounds, drawn: GivenRounds, by_draw: bool) -> tuple[Floats, Floats, Floats]:
    """(n,) the mean of what was played, and how much less it is than the best arm's and than practice's.

    A play of practice's own loses nothing below practice, whichever arm it drew.
    """
    begins = np.append(0, drawn.ends[:-1])
    earned = drawn.means[begins + played.arms]
    best = np.maximum.reduceat(drawn.means, begins)
    practice = np.add.reduceat(drawn.weights * drawn.means, begins)
    if by_draw:
        practice = drawn.means[begins + played.fallbacks]
    behind = np.where(np.isin(played.sources, BY_PRACTICE), 0.0, practice - earned)
    return earned, best - earned, behind
