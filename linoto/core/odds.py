"""How likely an arm is: over practice's draw, the coin, and the explorer's own draws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from linoto.core import coins, kernels
from linoto.core.arrays import Bools
from linoto.core.explorers import Odds

if TYPE_CHECKING:
    from linoto.core.agent import LinearAgent


@dataclass(frozen=True)
class Redraws:
    """How many fresh draws of the explorer to look at, and where they come from."""

    count: int
    rng: np.random.Generator


def propensity(
    agent: LinearAgent, arm: int, allowed: Bools | None, proposal: int | None, redraws: Redraws | None
) -> float | None:
    """How likely `decide`, or `guard` of the proposal, plays this arm now; None where nobody can say."""
    thrown = int(agent._state.run[0]["thrown"])
    decision = agent.decide(allowed) if proposal is None else agent.guard(proposal, allowed)
    coin = agent.gate.throws_coin  # then every arm is affordable, or none, and practice is drawn as well
    if proposal is not None and not coin:
        return float(arm == decision.arm)
    mask = agent.present if allowed is None else allowed
    odds = Odds(
        played=decision.proposal if coin else decision.arm,
        fallback=decision.fallback,
        allowed=mask,
        affordable=mask if coin else (agent._state.arms[kernels.ROOM] > 0) & mask,
        best_affordable=coin or bool(agent._params[0]["reach"] == kernels.AFFORDABLE),
        redrawn=None if redraws is None else partial(redraw, agent, mask, redraws),
    )
    if coin:
        likely = coin_propensity(agent, odds, arm, sure=proposal is not None)
        agent._state.run["thrown"] = thrown  # nobody was shown the coin
        return likely
    if not odds.affordable.any():
        return float(arm == odds.fallback)
    return agent.rule.propensity(odds, arm)


def practice_propensity(agent: LinearAgent, arm: int, allowed: Bools) -> float:
    """How likely practice's draw is this arm: where a coin is thrown, the fallback is drawn."""
    if agent._params[0]["fallback"] != kernels.MIXTURE:
        return float(arm == agent._state.run[0]["fallback"])
    weights = agent._state.counts[kernels.LOGGED] * allowed
    return float(weights[arm] / weights.sum())


def redraw(agent: LinearAgent, mask: Bools, redraws: Redraws) -> list[int]:
    """The arms that fresh draws would have played; the state is as it was afterwards."""
    state, normals = agent._state, agent._state.vectors[kernels.NORMALS]
    run, drawn, scratch = state.run.copy(), normals.copy(), [kernels.SCORE, kernels.ROOM]
    rows, arms, present = state.arms[scratch].copy(), [], agent.present
    state.counts[kernels.ALLOWED], state.run["restricted"] = mask, 1
    chosen = "proposal" if agent.gate.throws_coin else "arm"  # what the explorer's draw decides
    for row in redraws.rng.standard_normal((redraws.count, normals.size)):
        normals[:], state.run["thrown"] = row, 0
        kernels.decide(agent._params, state, -1, *agent._parts)
        arms.append(int(state.run[0][chosen]))
    state.counts[kernels.ALLOWED] = present
    state.run[:], normals[:], state.arms[scratch] = run, drawn, rows
    return arms


def coin_propensity(agent: LinearAgent, odds: Odds, arm: int, *, sure: bool) -> float | None:
    """How likely this arm is played where a coin is thrown; `sure`: the proposal is no draw."""
    drawn = agent._params[0]["fallback"] == kernels.MIXTURE
    sure = sure or agent.rule.deterministic
    if agent._params[0]["loan"] > 0 and (drawn or not sure):  # then the share depends on both arms
        return vouched_propensity(agent, odds, arm) if sure else None
    practice = practice_propensity(agent, arm, odds.allowed)
    share = float(agent._state.run[0]["entry_share"])
    chosen = 0.0 if share == 1 else float(arm == odds.played) if sure else agent.rule.propensity(odds, arm)
    return None if chosen is None else coins.mixed_propensity(chosen, share, practice)


def vouched_propensity(agent: LinearAgent, odds: Odds, arm: int) -> float:
    """The same where the share of control rounds depends on the arm that practice draws."""
    state, likely = agent._state, 0.0
    weights = state.counts[kernels.LOGGED] * odds.allowed
    run, ends, present = state.run.copy(), np.cumsum(weights) / weights.sum(), agent.present
    state.counts[kernels.ALLOWED], state.run["restricted"] = odds.allowed, 1
    for other in np.flatnonzero(weights):
        chance = float(weights[other] / weights.sum())
        state.run["thrown"], state.run["practice_draw"] = 0, ends[other] - chance / 2
        kernels.decide(agent._params, state, odds.played, *agent._parts)
        share = float(state.run[0]["entry_share"])
        likely += chance * coins.mixed_propensity(float(arm == odds.played), share, float(arm == other))
    state.counts[kernels.ALLOWED], state.run[:] = present, run
    return likely
