"""Which arm is played in each mode, and with which probability it would have been."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.decisions import Decision, NoSafeArm, as_mask
from linoto.core.kernels import Bools
from linoto.service.loops import inside
from linoto.service.loops.chance import chance
from linoto.service.loops.messages import Group, Mode


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is played, what live mode would have played, and how likely the played arm was."""

    decision: Decision
    live: Decision
    group: Group
    counted: bool  # whether the agent counts the play
    compared: bool  # whether it could have been drawn for the control group
    propensity: float | None


def choose(
    agent: Any,
    *,
    mode: Mode,
    holdback: float,
    held: list[int],  # (k,) control plays that the agent does not count
    proposal: int | None,
    allowed: list[int] | None,
    seed: int,
    number: int,
    redraws: int,
) -> Choice:
    """The play of this decision: control group, live rule, or fallback."""
    live = live_decision(agent, proposal, allowed)
    served = live if mode == "live" else safe_decision(agent, live)
    control = None
    if holdback > 0 and mode != "safe-only":
        control = control_decision(agent, live, held, allowed)
    held_back = control is not None and chance(seed, number) < holdback
    played = control if held_back and control is not None else served
    if mode == "live":
        likely = probability(agent, played.arm, live, proposal, allowed, (seed, number), redraws)
    else:
        likely = float(played.arm == served.arm)
    if control is not None and likely is not None:
        likely = (1 - holdback) * likely + holdback * (played.arm == control.arm)
    group: Group = "holdback" if held_back else played.mode
    counted = not held_back or counts_mixture(agent)
    return Choice(
        decision=played,
        live=live,
        group=group,
        counted=counted,
        compared=control is not None,
        propensity=likely,
    )


def live_decision(agent: Any, proposal: int | None, allowed: list[int] | None) -> Decision:
    """The policy's own decision, or its answer to a proposal, within the allowed arms."""
    decision: Decision = agent.decide(allowed) if proposal is None else agent.guard(proposal, allowed)
    return decision


def safe_decision(agent: Any, live: Decision) -> Decision:
    """The fallback of the decision just made, with the source it is counted under."""
    if live.mode == "safe":
        return live
    if live.fallback is None:
        raise NoSafeArm("allowed must hold an arm that is safe to play, got none: the fallback is not in it")
    source: Any = inside.fallback_source(agent)
    return replace(live, arm=live.fallback, mode="safe", source=source)


def control_decision(
    agent: Any, live: Decision, held: list[int], allowed: list[int] | None
) -> Decision | None:
    """The next arm of the logging mixture, unless it is not allowed."""
    logged, counted = inside.mixture_counts(agent)
    mixed = counted + np.array(held, dtype=np.int64)
    behind = logged * (int(mixed.sum()) + 1) - int(logged.sum()) * mixed
    arm = int(np.where(logged > 0, behind, np.iinfo(np.int64).min).argmax())
    if allowed is not None and arm not in allowed:
        return None
    return replace(live, arm=arm, mode="safe", source="mixture")


def counts_mixture(agent: Any) -> bool:
    """Whether the agent's promise knows mixture plays: a Tolerance's does, others would be charged."""
    return bool(inside.parameter(agent, "gate") == kernels.TOLERANCE)


def probability(
    agent: Any,
    arm: int,
    live: Decision,
    proposal: int | None,
    allowed: list[int] | None,
    seed: tuple[int, int],
    redraws: int,
) -> float | None:
    """How likely the live rule plays this arm now; None where that would take redraws and there are none."""
    explorer = inside.parameter(agent, "explorer")
    if proposal is not None or explorer not in (kernels.THOMPSON, kernels.GIVEN):
        return float(arm == live.arm)
    mask = np.ones(agent.k, np.bool_) if allowed is None else as_mask(allowed, agent.k)
    affordable = inside.affordable_arms(agent) & mask
    if not affordable.any():
        return float(arm == live.fallback)
    if explorer == kernels.GIVEN:
        return uniform_probability(agent, arm, live, mask, affordable)
    return redrawn_probability(agent, arm, live, mask, seed, redraws) if redraws else None


def uniform_probability(agent: Any, arm: int, live: Decision, mask: Bools, affordable: Bools) -> float:
    """Exact: one in n, and for the fallback also all proposals that the gate turns down."""
    if inside.parameter(agent, "reach") == kernels.AFFORDABLE or live.fallback is None:
        return float(affordable[arm]) / int(affordable.sum())  # without a fallback, refusals are not served
    refused = int(mask.sum()) - int(affordable.sum())
    ways = int(affordable[arm]) + (refused if arm == live.fallback else 0)
    return ways / int(mask.sum())


def redrawn_probability(
    agent: Any, arm: int, live: Decision, mask: Bools, seed: tuple[int, int], redraws: int
) -> float:
    """The share of fresh draws, and of the one that decided, in which this arm is played."""
    linear = inside.core(agent)
    normals = linear._state.vectors[kernels.NORMALS]
    drawn = normals.copy()
    fresh = np.random.default_rng(seed).standard_normal((redraws, normals.size))
    hits = int(arm == live.arm)
    with inside.only(agent, mask):
        for row in fresh:
            normals[:] = row
            hits += kernels.decide(linear._params, linear._state, -1) == arm
        normals[:] = drawn
    return hits / (redraws + 1)
