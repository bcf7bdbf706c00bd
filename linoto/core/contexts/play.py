"""Rounds with contexts in a known world: compiled where the explorer is, else asked one by one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Ints
from linoto.core.contexts.agent import ContextualAgent
from linoto.core.contexts.protocols import AgentInContexts
from linoto.core.contexts.rounds import as_weights
from linoto.core.decisions import SOURCES_IN_ROUNDS as SOURCES
from linoto.core.plain_play import Rounds
from linoto.core.validation import as_arm
from linoto.core.warm_up import warm_up_context_loop


def play_rounds(
    agent: ContextualAgent,
    ends: Ints,  # (n,) where the arms of each round end
    actions: Floats,  # (arms, d) those of all rounds, one below the other
    weights: Floats,  # (arms,) practice's
    means: Floats,  # (arms,)
    draws: Floats,  # (n,)
    bernoulli: bool,
) -> Rounds:
    """What a linear agent plays in these rounds, compiled: the same bits as asking it round by round."""
    warm_up_context_loop(agent._coin)
    most, d = int(np.diff(ends, prepend=0).max()), agent.d
    agent._state = kernels.with_arms(agent._state, np.zeros((d, most)))
    coins = agent._coins.rows(agent.rounds + 2, ends.size)
    randoms: Floats = np.empty((ends.size, 0))
    if agent.rule.draws == kernels.NORMAL_DRAWS:
        randoms = agent._rng.standard_normal((ends.size, d))
    elif agent.rule.draws == kernels.SCORE_DRAWS:
        randoms = agent._rng.random((ends.size, 1))
    played = Rounds(*np.empty((3, ends.size), dtype=np.int64))
    table = ends, actions, normalised(ends, weights), means, draws, bernoulli
    scratch = np.empty((2, d * most))
    kernels.context_play(agent._params, agent._state, *table, randoms, coins, scratch, *played, agent._coin)
    return played


def normalised(ends: Ints, weights: Floats) -> Floats:
    """The weights as an agent that is asked reads them: each round divided by its sum, bit for bit."""
    begins, found = np.append(0, ends[:-1]), weights.copy()
    drawn = np.flatnonzero(np.maximum.reduceat(weights, begins) != 1.0)  # else practice is one arm
    for t in drawn.tolist():
        found[begins[t] : ends[t]] = as_weights(weights[begins[t] : ends[t]])
    return found


def rounds_in_python(
    agent: AgentInContexts, rounds: Iterable[tuple[Floats, Floats, Floats]], draws: Floats, bernoulli: bool
) -> Rounds:
    """The same for any agent: it is asked with `decide(actions=..., practice=...)`, and told by `update`.

    A decision must have an `arm`; where it has a `source` and a `fallback` as ours have, they are kept.
    """
    played = Rounds(*np.full((3, draws.size), [[0], [kernels.FROM_EXPLORER], [-1]], dtype=np.int64))
    for t, ((actions, weights, means), draw) in enumerate(zip(rounds, draws.tolist(), strict=True)):
        decision = agent.decide(actions=actions, practice=weights)
        arm = as_arm(decision.arm, len(actions), "the arm of a decision")
        fallback = getattr(decision, "fallback", None)
        played.arms[t], played.fallbacks[t] = arm, -1 if fallback is None else fallback
        played.sources[t] = SOURCES.index(getattr(decision, "source", "explorer"))
        mean = float(means[arm])
        agent.update(decision, float(draw < mean) if bernoulli else mean + draw)
    return played
