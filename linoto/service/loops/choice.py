"""Which arm is played in each mode, with which probability it was, and why."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np

from linoto.core.codec import finite
from linoto.core.decisions import Decision, NoSafeArm
from linoto.service.errors import invalid
from linoto.service.loops.contexts import Question
from linoto.service.loops.events import Contribution, DecisionMade
from linoto.service.loops.loop import Loop
from linoto.service.loops.readings import left_at_most
from linoto.service.loops.restores import is_spent, is_unsure, lacks_room
from linoto.service.loops.rooms import room_left
from linoto.service.loops.spec import LoopAgent


def make_decision(
    loop: Loop, question: Question, *, key: str | None, proposal: int | None, expires_at: float
) -> DecisionMade:
    """The next decision of a loop: the control group's, the policy's, or what is safe."""
    agent, state, number = loop.agent, loop.state, loop.state.decided + 1
    explores, spent = state.mode == "live" and left_at_most(loop) >= 0, is_spent(loop)
    live = ask(agent, question, proposal, safe=not explores or spent)  # said before the coin is thrown
    room = room_left(loop, live.budget)
    closed = spent or lacks_room(loop, room)
    live = agent.play_safe(live) if closed else live
    served = live if explores else agent.play_safe(live)
    group = control_group(loop, served, question)
    held_back = group is not None and loop.draws.holdback(number) < state.holdback
    played = group.decision if group is not None and held_back else served
    likely = None
    if not (explores and is_unsure(loop, proposal)):
        likely = propensity_of(loop, played.arm, served, question, proposal, explores and not closed)
    if group is not None and likely is not None:
        likely = (1 - state.holdback) * likely + state.holdback * group.chance(played.arm)
    compared = group is not None and state.mode == "live"
    lcb, ucb = agent.bounds(played)
    gain, because = explained(loop, played, question)
    return DecisionMade(
        number=number,
        arm=question.item(played.arm),
        mode=played.mode,
        source=played.source,
        round=played.round,
        group="holdback" if held_back or played.source == "control" else played.mode,
        counted=not held_back or loop.counts_control,
        control_chance=state.holdback if compared else None,
        favourite=question.item(live.proposal),
        fallback=None if live.fallback is None else question.item(live.fallback),
        budget=finite(room),
        loop_mode=state.mode,
        live_arm=question.item(live.arm),
        live_mode=live.mode,
        propensity=likely,
        lcb=finite(lcb),
        ucb=finite(ucb),
        version=state.learned,
        expires_at=expires_at,
        key=key,
        proposal=proposal,
        allowed=question.among,
        control_share=played.control_share,
        centre=played.centre,
        tried=tried_by(agent, played, question),
        lift_centre=lift_centre(loop) if compared else None,
        context=question.context,
        practice=question.practice,
        action=None if played.action is None else list(played.action),
        practice_action=None if played.practice is None else list(played.practice),
        gain=gain,
        because=because,
    )


def ask(agent: LoopAgent, question: Question, proposal: int | None, *, safe: bool) -> Decision:
    """What live mode would play; a question that the agent refuses changes nothing."""
    wanted = question.place(proposal)
    try:
        if wanted is None:
            return agent.decide(**question.asked, safe=safe)
        return agent.guard(wanted, **question.asked, safe=safe)
    except NoSafeArm:
        raise
    except ValueError as error:
        raise invalid(str(error)) from error


def tried_by(agent: LoopAgent, played: Decision, question: Question) -> float:
    """How likely the safe choice would have been another arm: a mixture is played in its proportions."""
    if played.mode != "explore":
        return 0.0
    if question.weights is not None:  # practice's draw is not shown unless a coin is thrown
        drawn = played.fallback is None
        return 1.0 - float(question.weights[played.arm]) if drawn else float(played.arm != played.fallback)
    if question.actions is not None or agent.gate.throws_coin or agent.fallback_source != "mixture":
        return float(played.arm != played.fallback)
    logged = agent.offline.pulls * agent.present
    among = slice(None) if question.among is None else question.among
    return 1.0 - float(logged[played.arm] / logged[among].sum())


# -- the control group


class ControlGroup(NamedTuple):
    """What a decision plays that is drawn for the control group: as practice does."""

    decision: Decision
    weights: dict[int, float]  # how likely each arm is

    def chance(self, arm: int) -> float:
        """How likely an arm is in this group."""
        return self.weights.get(arm, 0.0)


def control_group(loop: Loop, served: Decision, question: Question) -> ControlGroup | None:
    """That of the next decision; None where there is none, or it could not play what practice does."""
    if loop.state.holdback == 0 or loop.state.mode == "safe-only":
        return None
    if question.actions is None:
        return next_of_mixture(loop, served, question)
    if question.weights is None:
        return None
    weights = {place: weight for place, weight in enumerate(question.weights.tolist()) if weight > 0}
    if served.source == "practice":  # its draw is known already, and stands
        return ControlGroup(served, weights)
    arms, shares = list(weights), np.cumsum(list(weights.values()))
    drawn = loop.draws.practice(loop.state.decided + 1) * shares[-1]
    arm = arms[int(np.searchsorted(shares, drawn, side="right"))]
    action = tuple(question.actions[arm].tolist())
    return ControlGroup(replace(served, arm=arm, mode="safe", source="practice", action=action), weights)


def next_of_mixture(loop: Loop, served: Decision, question: Question) -> ControlGroup | None:
    """The next arm of the logging mixture, where it is allowed."""
    arm = loop.agent.next_mixture_arm(None if loop.counts_control else loop.state.uncounted)
    if arm < 0 or (question.among is not None and arm not in question.among):  # no logged arm is left
        return None
    return ControlGroup(replace(served, arm=arm, mode="safe", source="mixture"), {arm: 1.0})


def lift_centre(loop: Loop) -> float | None:
    """About what a decision earns now; None where there is no log to begin from."""
    if loop.first_centre is None:
        return None
    low, high = loop.limits or (-inf, inf)
    return min(max(loop.state.books.centre(loop.first_centre), low), high)


# -- how likely, and why


def propensity_of(
    loop: Loop, arm: int, served: Decision, question: Question, proposal: int | None, explores: bool
) -> float | None:
    """How likely this arm is served now; None where that would take redraws and there are none.

    `explores`: the policy decides, and has room besides what a restore has lost.
    """
    agent = loop.agent
    sure = agent.rule.deterministic or proposal is not None
    if not explores:
        if question.weights is not None and served.source != "lcb":
            return float(question.weights[arm])
        if agent.gate.throws_coin and question.actions is None:
            return agent.practice_propensity(arm, question.among)
        return float(arm == served.arm)
    if sure and not agent.gate.throws_coin and question.weights is None:
        return float(arm == served.arm)
    draws = agent.rule.needs_redraws and proposal is None
    return agent.propensity(
        arm,
        proposal=question.place(proposal),
        redraws=loop.spec.redraws if draws else 0,
        rng=loop.draws.redraws(loop.state.decided + 1) if draws else None,
        **question.asked,
    )


def explained(loop: Loop, played: Decision, question: Question) -> tuple[float | None, list[Contribution]]:
    """How much more than practice is expected of what is played, and which parts of the context say so.

    Where nobody says what practice does, it is compared with the average of the arms.
    """
    if question.actions is None or question.context is None or played.by_practice:
        return None, []
    other = question.actions.mean(axis=0) if played.practice is None else np.array(played.practice)
    theta, difference = loop.agent.theta, np.array(played.action) - other
    return float(theta @ difference), loop.contexts.because(theta, difference, question.context)
