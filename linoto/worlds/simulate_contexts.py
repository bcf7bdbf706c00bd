"""Play a policy in a world with contexts, and measure what it lost below the best arms and below practice."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.features.moments import as_moments
from linoto.core.playing import GivenRounds, Rounds, ask_in_rounds
from linoto.core.protocols import Policy, PolicyForRounds, RoundAgent, starts_without_arms
from linoto.worlds.contexts import BLOCK, ContextualBandit
from linoto.worlds.run import Run

BY_PRACTICE = (kernels.FROM_MIXTURE, kernels.FROM_CONTROL)


def simulate_contextual(
    policy: Policy | PolicyForRounds,
    bandit: ContextualBandit,
    offline: Any,
    draws: Floats,  # (n,) what decides the rewards
    bernoulli: bool,
    *,
    own: np.random.Generator,  # the policy's
    contexts: np.random.Generator,  # the world's: every policy meets the same rounds
) -> Run:
    """What `simulate` does in a world with contexts."""
    if not starts_without_arms(policy):
        raise ValueError(f"policy must start without arms where rounds bring them, got {policy!r}")
    log = as_moments(offline, bandit.d)
    agent = cast("PolicyForRounds", policy).start(offline=log, d=bandit.d, rng=own)
    parts = []
    for first in range(0, draws.size, BLOCK):
        now = draws[first : first + BLOCK]
        drawn = bandit.rounds(now.size, contexts, first)
        played = play_block(agent, drawn, now, bernoulli)
        parts.append((played, *compared(played, drawn, drawn_practice(agent))))
    plays, *columns = zip(*parts, strict=True)
    arms, sources, _ = (np.concatenate(column) for column in zip(*plays, strict=True))
    earned, regret, behind = (np.concatenate(column) for column in columns)
    rewards = (draws < earned).astype(np.float64) if bernoulli else earned + draws
    return Run(
        arms=arms,
        explored=sources == kernels.FROM_EXPLORER,
        rewards=rewards,
        means=earned,
        regret=np.cumsum(regret),
        offline_regret=np.cumsum(behind),
        control=sources == kernels.FROM_CONTROL,
        practice_shortfall=np.cumsum(behind),
    )


def play_block(agent: RoundAgent, drawn: GivenRounds, draws: Floats, bernoulli: bool) -> Rounds:
    """Some rounds, compiled where the agent can."""
    play = getattr(agent, "play_rounds", None)
    if play is None:
        return ask_in_rounds(agent, drawn.each(), draws, bernoulli)
    rounds: Rounds = play(draws=draws, bernoulli=bernoulli, **drawn._asdict())
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
