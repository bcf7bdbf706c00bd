"""Arms of a loop that come and go: what that does to agent, counts and practice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linoto.service.errors import invalid
from linoto.service.loops.context_spec import check_size
from linoto.service.loops.events import ArmsChanged
from linoto.service.loops.references import reference_now
from linoto.service.loops.spec import MOST_FEATURES, check_redraws, new_features
from linoto.service.loops.state import AlarmState, ArmsChange, RewardTotals

if TYPE_CHECKING:
    from linoto.service.loops.loop import Loop

Added = list[tuple[str, list[float] | None]]


def check_growth(loop: Loop, added: Added) -> None:
    """Refuse arms with which a loop whose rounds bring them could not go on deciding."""
    if loop.contexts.stay:
        return
    try:
        larger = loop.contexts.recipe.with_items(*split(added))
    except ValueError as error:
        raise invalid(str(error)) from error
    check_size(larger, MOST_FEATURES)
    check_redraws(loop.spec.redraws, loop.agent, len(larger.items), larger.d)


def change_arms(loop: Loop, event: ArmsChanged, at: float) -> None:
    """Apply a change to the agent and the state; one that cannot work is refused before anything changes."""
    state = loop.state
    if event.added:
        add_arms(loop, event.added)
    else:
        remove_arms(loop, event)
    text = change_text(loop)
    state.arm_changes.append(ArmsChange(at=at, by=event.by, decisions=state.decided, text=text))
    if loop.contexts.stay and loop.agent.changes[-1].left:  # practice has lost an arm, and something is left
        state.references.append(reference_now(loop.agent, loop.first_certificate, state.counted.plays))
        state.uncounted = [0] * len(state.plays)
        state.drift = AlarmState()
        state.detector.reset()


def change_text(loop: Loop) -> str:
    """What the last change did to practice and to the promise."""
    text, before = loop.agent.amended(loop.first_certificate).changes[-1], loop.contexts.practice_left
    left = loop.contexts.after(loop.agent).practice_left
    if left is None or left == before:
        return text
    return f"{text}: practice is what is left of it, {100 * left:.3g} % of its weight"


def add_arms(loop: Loop, added: Added) -> None:
    """New arms, with counts that begin at 0; sums of features have 0 where features are new."""
    agent, state, (names, values) = loop.agent, loop.state, split(added)
    if loop.contexts.stay:
        agent.add_arms(new_features(agent, added), names=names)
    else:
        agent.add_arms(names, values=values)
        state.items.extend(RewardTotals() for _ in names)
        widen(loop, agent.changes[-1].places)
    for counts in (state.plays, state.uncounted):
        counts.extend([0] * len(names))


def widen(loop: Loop, places: tuple[int, ...]) -> None:
    """Sums of features after some have come: those from before have these places now."""
    state, d = loop.state, loop.agent.d
    if state.played and places:
        longer = [0.0] * d
        for place, total in zip(places, state.played, strict=True):
            longer[place] = total
        state.played = longer
    if places:
        state.books.spread(places, d)


def remove_arms(loop: Loop, event: ArmsChanged) -> None:
    """Arms that go; where rounds bring their own, practice keeps one."""
    if loop.contexts.stay:
        loop.agent.remove_arms(event.removed, fallback=event.fallback)
        return
    if event.fallback is not None:
        raise ValueError("fallback must be None in a loop with contexts: practice is what is safe")
    loop.contexts.check_left(event.removed)
    loop.agent.remove_arms([loop.names[item] for item in event.removed])


def split(added: Added) -> tuple[list[str], list[list[float]] | None]:
    """The names of new arms, and what is known of each; None where nothing is said of any."""
    names, values = [name for name, _ in added], [row or [] for _, row in added]
    return names, values if any(values) else None
