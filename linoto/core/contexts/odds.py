"""How likely an arm was: over practice's draw, the coin, and the explorer's own draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from linoto.core import coins, kernels
from linoto.core.arrays import Bools, Floats
from linoto.core.contexts.rounds import Round
from linoto.core.explorers import Odds

if TYPE_CHECKING:
    from linoto.core.contexts.agent import ContextualAgent


def propensity(
    agent: ContextualAgent,
    arm: int,
    asked: Round,
    wanted: int | None,
    redraws: int,
    rng: np.random.Generator,
) -> float | None:
    """How likely `decide`, or `guard` of `wanted`, plays this arm now; None where nobody can say."""
    kept, thrown = agent._thrown, int(agent._state.run[0]["thrown"])
    decision = agent._answer(wanted, asked)
    if kept is not None and not agent.gate.throws_coin:
        agent._thrown = None  # what stands is practice's draw, and nothing is kept of its round
        decision = agent._answer(wanted, asked)
    agent._thrown = kept  # nobody was shown the coin, nor practice's draw
    state, params = agent._state, agent._params[0]
    run, practice = state.run[0], float(asked.weights[arm])
    if agent.gate.throws_coin:
        state.run["thrown"] = thrown
        share = float(run["entry_share"]) if decision.control_share is None else decision.control_share
        fixed = wanted is not None or agent.rule.deterministic
        if params["loan"] > 0 and not (fixed and asked.peak == 1.0):
            return None  # then the share depends on both draws
        if wanted is not None:
            return coins.mixed_propensity(float(arm == wanted), share, practice)
        proposed = chances(agent, asked, decision.proposal, None, redraws, rng)
        return None if proposed is None else coins.mixed_propensity(float(proposed[arm]), share, practice)
    pessimistic = run["fallback_source"] == kernels.FROM_LCB
    safe = float(arm == run["fallback"]) if pessimistic else practice
    affordable = np.array(state.arms[kernels.ROOM, : asked.offered] > 0)
    if wanted is not None:
        return float(arm == wanted) if affordable[wanted] else safe
    if not affordable.any():
        return safe
    if params["reach"] == kernels.AFFORDABLE:
        played = chances(agent, asked, decision.arm or 0, affordable, redraws, rng)
        return None if played is None else float(played[arm])
    proposed = chances(agent, asked, decision.proposal, None, redraws, rng)
    if proposed is None:
        return None
    refused = float(proposed[~affordable].sum())
    return float(proposed[arm] * affordable[arm]) + refused * safe


def chances(
    agent: ContextualAgent,
    asked: Round,
    drawn: int,
    affordable: Bools | None,
    redraws: int,
    rng: np.random.Generator,
) -> Floats | None:
    """(k,) how likely the explorer takes each arm, of all or of the affordable ones; it took `drawn`."""
    others: list[int] = []
    if agent.rule.needs_redraws and redraws:
        others = redraw(agent, asked, "proposal" if affordable is None else "arm", redraws, rng)
    every = np.ones(asked.offered, np.bool_)
    odds = Odds(
        played=drawn,
        fallback=None,
        allowed=every,
        affordable=every if affordable is None else affordable,
        best_affordable=True,
        redrawn=(lambda: others) if redraws else None,
    )
    found = [agent.rule.propensity(odds, arm) for arm in range(asked.offered)]
    return None if found[0] is None else np.array(found, np.float64)


def redraw(
    agent: ContextualAgent, asked: Round, chosen: str, redraws: int, rng: np.random.Generator
) -> list[int]:
    """What fresh draws would have proposed, or played; the state is as it was afterwards."""
    state, normals = agent._state, agent._state.vectors[kernels.NORMALS]
    run, drawn, arms = state.run.copy(), normals.copy(), []
    for row in rng.standard_normal((redraws, normals.size)):
        normals[:], state.run["thrown"] = row, 0
        agent._ask(asked, -1)
        arms.append(int(state.run[0][chosen]))
    state.run[:], normals[:] = run, drawn
    return arms
