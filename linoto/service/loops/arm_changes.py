"""A change of the arms of a loop: what it does to agent, counts and practice."""

from __future__ import annotations

from linoto.service.loops.events import ArmsChanged
from linoto.service.loops.loop_data import LoopData
from linoto.service.loops.references import reference_now
from linoto.service.loops.state import AlarmState, ArmsChange


def change_arms(loop: LoopData, event: ArmsChanged, at: float) -> None:
    """Apply a change to the agent and the state; one that cannot work is refused before anything changes."""
    agent, state, arms = loop.agent, loop.state, loop.arms
    if event.added:
        arms.add(agent, state, event.added)
        for counts in (state.plays, state.uncounted):
            counts.extend([0] * len(event.added))
    else:
        arms.remove(agent, event)
    text = change_text(loop)
    state.arm_changes.append(ArmsChange(at=at, by=event.by, decisions=state.decided, text=text))
    if arms.practice_lost_an_arm(agent):
        state.references.append(reference_now(agent, loop.first_certificate, state.counted.plays))
        state.uncounted = [0] * len(state.plays)
        state.drift = AlarmState()
        state.detector.reset()


def change_text(loop: LoopData) -> str:
    """What the last change did to practice and to the promise."""
    text, before = loop.agent.amended(loop.first_certificate).changes[-1], loop.arms.practice_left
    left = loop.arms.after(loop.agent).practice_left
    if left is None or left == before:
        return text
    return f"{text}: practice is what is left of it, {100 * left:.3g} % of its weight"
