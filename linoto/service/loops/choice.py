"""Which arm is played in each mode, with which probability it was, and why."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

from linoto.core.codec import finite
from linoto.core.decisions import Decision, NoSafeArm
from linoto.service.errors import invalid
from linoto.service.loops.events import DecisionMade
from linoto.service.loops.loop import Loop
from linoto.service.loops.questions import ControlPlay, Question
from linoto.service.loops.readings import left_at_most
from linoto.service.loops.restores import is_spent, is_unsure, lacks_room, shut_guardrails
from linoto.service.loops.rooms import room_left
from linoto.service.loops.spec import LoopAgent


def control_play(loop: Loop, question: Question, served: Decision) -> ControlPlay | None:
    """What the control group of a loop would play in its next decision."""
    uncounted = None if loop.counts_control else loop.state.uncounted
    draw = partial(loop.draws.practice, loop.state.decided + 1)
    return question.control_play(loop.agent, served, uncounted, draw)


def make_decision(
    loop: Loop, question: Question, *, key: str | None, proposal: int | None, expires_at: float
) -> tuple[DecisionMade, Decision]:
    """The next decision of a loop, and as its agent has it: the control group's, the policy's, or safe."""
    agent, state, number = loop.agent, loop.state, loop.state.decided + 1
    left, restored = left_at_most(loop), bool(state.epochs)
    spent = restored and is_spent(loop)
    explores = state.mode == "live" and left >= 0
    live, asked = ask(agent, question, proposal, safe=not explores or spent)  # said before a coin is thrown
    shut = shut_guardrails(loop) if loop.metrics and live.control_share is None else []
    room = room_left(loop, live.budget, left)
    closed = spent or (restored and lacks_room(loop, room))
    live = agent.play_safe(live) if closed else live
    served = live if explores else agent.play_safe(live)
    has_control = state.holdback > 0 and state.mode != "safe-only"
    control = control_play(loop, question, served) if has_control else None
    in_control = control is not None and loop.draws.control_group(number) < state.holdback
    played = control.decision if control is not None and in_control else served
    explored = asked if explores and not closed else None
    unsure = restored and explores and is_unsure(loop, proposal)
    likely = None if unsure else propensity_of(loop, played.arm, served, question, proposal, explored)
    if control is not None and likely is not None:
        likely = (1 - state.holdback) * likely + state.holdback * control.weights.get(played.arm, 0.0)
    compared = control is not None and state.mode == "live"
    lcb, ucb = agent.bounds(played)
    gain, because = question.explained(agent, played)
    arm, favourite, live_arm, fallback = question.arms_of(played, live)
    event = DecisionMade(
        number=number,
        arm=arm,
        mode=played.mode,
        source=played.source,
        round=played.round,
        group="holdback" if in_control or played.source == "control" else played.mode,
        counted=not in_control or loop.counts_control,
        control_chance=state.holdback if compared else None,
        favourite=favourite,
        fallback=fallback,
        budget=finite(room),
        loop_mode=state.mode,
        live_arm=live_arm,
        live_mode=live.mode,
        propensity=likely,
        lcb=finite(lcb),
        ucb=finite(ucb),
        version=state.learned,
        expires_at=expires_at,
        key=key,
        proposal=proposal,
        allowed=question.allowed,
        control_share=played.control_share,
        centre=played.centre,
        centres=None if played.centres is None else list(played.centres),
        shut=shut,
        tried=question.chance_of_another(agent, played) if played.mode == "explore" else 0.0,
        lift_centre=lift_centre(loop) if compared else None,
        context=question.context,
        practice=question.practice,
        action=None if played.action is None else list(played.action),
        practice_action=None if played.practice is None else list(played.practice),
        gain=gain,
        because=because,
    )
    return event, played


def ask(
    agent: LoopAgent, question: Question, proposal: int | None, *, safe: bool
) -> tuple[Decision, dict[str, Any]]:
    """What live mode would play, and how it was asked; a question that the agent refuses changes nothing."""
    try:
        asked = question.checked(agent)
        if proposal is None:
            return agent.decide(**asked, safe=safe), asked
        return agent.guard(question.place(proposal), **asked, safe=safe), asked
    except NoSafeArm:
        raise
    except ValueError as error:
        raise invalid(str(error)) from error


def lift_centre(loop: Loop) -> float | None:
    """About what a decision earns now; None where there is no log to begin from."""
    if loop.first_centre is None:
        return None
    low, high = loop.limits or (-inf, inf)
    return min(max(loop.state.books.centre(loop.first_centre), low), high)


# -- how likely, and why


def propensity_of(
    loop: Loop,
    arm: int,
    served: Decision,
    question: Question,
    proposal: int | None,
    asked: dict[str, Any] | None,
) -> float | None:
    """How likely this arm is served now; None where that would take redraws and there are none.

    `asked` is the question as the policy was asked; None: it does not decide, or has no room besides what a
    restore has lost.
    """
    agent = loop.agent
    sure = agent.rule.deterministic or proposal is not None
    if asked is None:
        return question.safe_chance(agent, arm, served)
    if sure and not agent.gate.throws_coin and question.weights is None:
        return float(arm == served.arm)
    draws = agent.rule.needs_redraws and proposal is None
    costly = draws or (proposal is None and loop.arms.has_costly_propensities(agent))
    if costly and not loop.spec.redraws and served.mode == "explore" and not agent.gate.throws_coin:
        return None  # as the agent says, which would look at every arm before
    known: dict[str, Any] = {"decided": served} if agent.gate.throws_coin else {}
    return agent.propensity(
        arm,
        proposal=None if proposal is None else question.place(proposal),
        redraws=loop.spec.redraws if draws else 0,
        rng=loop.draws.redraws(loop.state.decided + 1, into=loop.redraws) if draws else None,
        **known,
        **asked,
    )
