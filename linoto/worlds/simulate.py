"""Play a policy in a world, and measure both regrets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.features.moments import Moments
from linoto.core.offline import Offline, as_offline
from linoto.core.playing import rounds_in_python, segments
from linoto.core.protocols import AnyAgent, Policy
from linoto.core.validation import as_floats, check_count, check_seed
from linoto.worlds.bandits import World
from linoto.worlds.beta_rewards import beta_rewards
from linoto.worlds.contexts import ContextualBandit
from linoto.worlds.run import Run
from linoto.worlds.simulate_contexts import simulate_contextual

MOST_PAID = 2**20  # rewards that are computed at a time: of rounds times arms


def simulate(
    policy: Policy,
    bandit: World | ContextualBandit,
    offline: Offline | Moments | None,
    *,
    horizon: int | None = None,
    seed: int = 0,
    noise: npt.ArrayLike | None = None,
) -> Run:
    """Play `horizon` rounds of a policy in a world, warm-started from a log.

    `seed` drives the world's noise and, independently, the policy. With `noise` (n,) given, reward t is
    `means[arm] + noise[t]` whatever the arm, and the horizon is n. Any object with `start(actions, offline,
    rng=...)`, whose agent has `select()` and `update(arm, reward)`, can be played.

    In a `ContextualBandit` the log is a `Moments` or None. The policy has `start(offline=log, d=...,
    rng=...)`, and its agent `decide(actions=..., practice=...)` and `update(decision, reward)`. Regret is
    against the best arm of each round, and `offline_regret` is the shortfall below practice in the same
    rounds.

    >>> from linoto import LinOtO, LinearBandit, Offline
    >>> bandit = LinearBandit(actions=[[1.0, 0.0], [0.6, 0.8]], theta=[0.5, 0.5])
    >>> run = simulate(LinOtO(), bandit, Offline(pulls=[9, 0], reward_sums=[4.5, 0.0]), horizon=100)
    >>> run.arms.size, bool(run.regret[-1] <= 20)
    (100, True)
    """
    check_seed(seed)
    world, own, contexts = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3))
    bernoulli = bandit.rewards == "bernoulli"
    if noise is not None:
        draws, bernoulli = as_floats("noise", noise, ndim=1), False
        if horizon not in (None, draws.size):
            raise ValueError(f"horizon must be {draws.size}, the length of noise, got {horizon!r}")
        check_count("horizon", draws.size)
    else:
        check_count("horizon", horizon)
        draws = bandit.draw(int(horizon), world)  # type: ignore[arg-type]
    if isinstance(bandit, ContextualBandit):
        return simulate_contextual(policy, bandit, offline, draws, bernoulli, own=own, contexts=contexts)
    log = as_offline(offline, len(bandit.actions))
    agent = policy.start(bandit.actions, log, rng=own)
    arms, explored, control, fallbacks = played(agent, bandit, draws, given=noise is not None)
    table, starts = bandit.segments
    now = segments(starts, 0, arms.size)  # (n,) the row of each round
    earned = table[now, arms]
    logged = table @ log.pulls / log.total if log.total else np.full(len(table), np.nan)  # mu_off, as it is
    return Run(
        arms=arms,
        explored=explored,
        rewards=bandit.pay(arms, draws, now) if noise is None else earned + draws,
        means=earned,
        regret=np.cumsum(table.max(axis=1)[now] - earned),
        offline_regret=np.cumsum(logged[now] - earned),
        control=control,
        practice_shortfall=np.cumsum(np.where(explored, table[now, fallbacks] - earned, 0.0)),
    )


def played(agent: AnyAgent, bandit: World, draws: Floats, *, given: bool) -> tuple[Ints, Bools, Bools, Ints]:
    """The arms, which were explored, which were control rounds, and the fallbacks (else, the arms).

    `given` draws are noise that is added whatever the world says.
    """
    if bandit.rewards == "beta" and not given:
        parts = [
            played_parts(agent, table, np.zeros(len(table)), starts=np.arange(len(table)))
            for table in reward_tables(bandit, draws)
        ]
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
        every = beta_rewards(means, bandit.steps, bandit.reward_range)
        for first in range(start, end, block):
            yield every.table(draws[first : min(first + block, end)])


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
