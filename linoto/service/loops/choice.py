"""Which arm is played in each mode, and with which probability it was."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from linoto.core.codec import finite
from linoto.core.decisions import Decision
from linoto.service.loops.events import DecisionMade
from linoto.service.loops.loop import Loop
from linoto.service.loops.readings import left_at_most
from linoto.service.loops.restores import is_spent, is_unsure, lacks_room
from linoto.service.loops.rooms import room_left
from linoto.service.loops.spec import FixedAgent


def make_decision(
    loop: Loop, *, key: str | None, proposal: int | None, allowed: list[int] | None, expires_at: float
) -> DecisionMade:
    """The next decision of a loop: the control group's, the policy's, or the fallback."""
    agent, state, number = loop.fixed_agent, loop.state, loop.state.decided + 1
    explores = state.mode == "live" and left_at_most(loop) >= 0
    safe = not explores or is_spent(loop)  # said before the coin is thrown
    live = agent.decide(allowed, safe=safe) if proposal is None else agent.guard(proposal, allowed, safe=safe)
    room = room_left(loop, live.budget)
    closed = is_spent(loop) or lacks_room(loop, room)
    live = safe_decision(agent, live) if closed else live
    served = live if explores else safe_decision(agent, live)
    control = control_decision(loop, live, allowed)
    held_back = control is not None and loop.draws.holdback(number) < state.holdback
    played = control if control is not None and held_back else served
    likely = served_propensity(loop, played.arm, served, allowed, proposal, live=explores, closed=closed)
    if control is not None and likely is not None:
        likely = (1 - state.holdback) * likely + state.holdback * (played.arm == control.arm)
    lcb, ucb = agent.interval(played.arm)
    return DecisionMade(
        number=number,
        arm=played.arm,
        mode=played.mode,
        source=played.source,
        round=played.round,
        group="holdback" if held_back or played.source == "control" else played.mode,
        counted=not held_back or agent.counts_control,
        control_chance=state.holdback if control is not None and state.mode == "live" else None,
        favourite=live.proposal,
        fallback=live.fallback,
        budget=finite(room),
        loop_mode=state.mode,
        live_arm=live.arm,
        live_mode=live.mode,
        propensity=likely,
        lcb=finite(lcb),
        ucb=finite(ucb),
        version=state.learned,
        expires_at=expires_at,
        key=key,
        proposal=proposal,
        allowed=allowed,
        control_share=played.control_share,
        centre=played.centre,
        tried=tried_by(agent, played, allowed),
        lift_centre=lift_centre(loop) if control is not None and state.mode == "live" else None,
    )


def tried_by(agent: FixedAgent, played: Decision, allowed: list[int] | None) -> float:
    """How likely the safe choice would have been another arm: a mixture is played in its proportions."""
    if played.mode != "explore":
        return 0.0
    if agent.gate.throws_coin or agent.fallback_source != "mixture":
        return float(played.arm != played.fallback)
    logged = agent.offline.pulls * agent.present
    return 1.0 - float(logged[played.arm] / (logged.sum() if allowed is None else logged[allowed].sum()))


def lift_centre(loop: Loop) -> float | None:
    """About what a decision earns now; None where there is no log to begin from."""
    if loop.reference is None:
        return None
    low, high = loop.limits or (-inf, inf)
    return min(max(loop.state.books.centre(loop.reference), low), high)


def safe_decision(agent: FixedAgent, live: Decision) -> Decision:
    """The fallback of the decision just made, with the source it is counted under."""
    return agent.play_safe(live)


def control_decision(loop: Loop, live: Decision, allowed: list[int] | None) -> Decision | None:
    """The next arm of the logging mixture, where there is a control group and the arm is allowed."""
    if loop.state.holdback == 0 or loop.state.mode == "safe-only":
        return None
    agent = loop.fixed_agent
    arm = agent.next_mixture_arm(None if agent.counts_control else loop.state.uncounted)
    if arm < 0 or (allowed is not None and arm not in allowed):  # no logged arm is left, or none allowed
        return None
    return replace(live, arm=arm, mode="safe", source="mixture")


def served_propensity(
    loop: Loop,
    arm: int,
    served: Decision,
    allowed: list[int] | None,
    proposal: int | None,
    *,
    live: bool,
    closed: bool,
) -> float | None:
    """How likely this arm is served now; None where that would take redraws and there are none.

    `live`: the policy decides. `closed`: the room that the gate sees is less than what a restore has lost.
    """
    agent = loop.fixed_agent
    if live and is_unsure(loop, proposal):
        return None
    live = live and not closed
    if agent.gate.throws_coin and not live:
        return agent.practice_propensity(arm, allowed)
    if not agent.gate.throws_coin and (agent.rule.deterministic or proposal is not None or not live):
        return float(arm == served.arm)
    if proposal is not None or not agent.rule.needs_redraws:
        return agent.propensity(arm, allowed, proposal=proposal, redraws=0)
    rng = loop.draws.redraws(loop.state.decided + 1)
    return agent.propensity(arm, allowed, redraws=loop.spec.redraws, rng=rng)
