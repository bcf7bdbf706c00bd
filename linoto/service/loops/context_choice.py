"""Which arm is played in a context, with which probability it was, and why."""

from __future__ import annotations

import numpy as np

from linoto.core.agent import Agent
from linoto.core.codec import finite
from linoto.core.decisions import Decision
from linoto.service.errors import invalid
from linoto.service.loops.contexts import LoopContexts, Question
from linoto.service.loops.events import Contribution, DecisionMade
from linoto.service.loops.loop import Loop
from linoto.service.loops.restores import is_spent, is_unsure, lacks_room
from linoto.service.loops.rooms import room_left


def decide_in_context(
    loop: Loop, question: Question, *, key: str | None, proposal: int | None, expires_at: float
) -> DecisionMade:
    """The next decision of a loop with contexts: the policy's, or what is safe."""
    agent, contexts = loop.contextual
    state, items = loop.state, question.items
    live = ask(agent, question, proposal, safe=state.mode != "live" or is_spent(loop))
    room = room_left(loop, live.budget)
    closed = is_spent(loop) or lacks_room(loop, room)
    live = agent.play_safe(live) if closed else live
    played = live if state.mode == "live" else agent.play_safe(live)
    lcb, ucb = agent.bounds(played)
    gain, because = explained(agent, contexts, played, question)
    return DecisionMade(
        number=state.decided + 1,
        arm=items[played.arm or 0],
        mode=played.mode,
        source=played.source,
        round=played.round,
        group="holdback" if played.source == "control" else played.mode,
        counted=True,
        favourite=items[live.proposal],
        fallback=None if live.fallback is None else items[live.fallback],
        budget=finite(room),
        loop_mode=state.mode,
        live_arm=items[live.arm or 0],
        live_mode=live.mode,
        propensity=propensity_of(loop, played, question, proposal, closed=closed),
        lcb=finite(lcb),
        ucb=finite(ucb),
        version=state.learned,
        expires_at=expires_at,
        key=key,
        proposal=proposal,
        allowed=question.among,
        control_share=played.control_share,
        centre=played.centre,
        tried=tried_by(played, question),
        context=question.context,
        practice=question.practice,
        action=list(played.action or ()),
        practice_action=None if played.practice is None else list(played.practice),
        gain=gain,
        because=because,
    )


def ask(agent: Agent, question: Question, proposal: int | None, *, safe: bool) -> Decision:
    """What live mode would play; a question that the agent refuses changes nothing."""
    try:
        if proposal is None:
            return agent.decide(**question.asked(), safe=safe)
        return agent.guard(list(question.items).index(proposal), **question.asked(), safe=safe)
    except ValueError as error:
        raise invalid(str(error)) from error


def tried_by(played: Decision, question: Question) -> float:
    """How likely practice would have been another arm; its draw is not shown unless a coin is thrown."""
    if played.mode != "explore":
        return 0.0
    if played.fallback is None and question.weights is not None:
        return 1.0 - float(question.weights[played.arm or 0])
    return float(played.arm != played.fallback)


def propensity_of(
    loop: Loop, played: Decision, question: Question, proposal: int | None, *, closed: bool
) -> float | None:
    """How likely this arm is played now; None where that would take redraws and there are none."""
    agent, arm = loop.contextual[0], played.arm or 0
    live = loop.state.mode == "live"
    if live and is_unsure(loop, proposal):
        return None
    live = live and not closed
    if not live:
        weights = question.weights
        return 1.0 if weights is None or played.source == "lcb" else float(weights[arm])
    redraws = loop.spec.redraws if agent.rule.needs_redraws else 0
    rng = loop.draws.redraws(loop.state.decided + 1)
    place = None if proposal is None else list(question.items).index(proposal)
    return agent.propensity(arm, proposal=place, redraws=redraws, rng=rng, **question.asked())


def explained(
    agent: Agent, contexts: LoopContexts, played: Decision, question: Question
) -> tuple[float | None, list[Contribution]]:
    """How much more than practice is expected of what is played, and which parts of the context say so.

    Where nobody says what practice does, it is compared with the average of the arms.
    """
    if played.by_practice:
        return None, []
    other = question.actions.mean(axis=0) if played.practice is None else np.array(played.practice)
    theta, difference = agent.theta, np.array(played.action) - other
    return float(theta @ difference), contexts.because(theta, difference, question.context)
