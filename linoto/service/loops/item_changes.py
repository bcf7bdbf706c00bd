"""Items of a loop with contexts that come and go: what that does to agent, counts and practice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linoto.core.agent import Agent
from linoto.service.errors import invalid
from linoto.service.loops.context_spec import check_redraws, check_size
from linoto.service.loops.contexts import LoopContexts
from linoto.service.loops.events import ArmsChanged
from linoto.service.loops.spec import MOST_FEATURES
from linoto.service.loops.state import ArmsChange, LoopState, RewardTotals

if TYPE_CHECKING:
    from linoto.service.loops.loop import Loop

Added = list[tuple[str, list[float] | None]]


def check_growth(loop: Loop, added: Added) -> None:
    """Refuse items with which a loop with contexts could not go on deciding."""
    agent, contexts = loop.contextual
    try:
        larger = contexts.recipe.with_items(*split(added))
    except ValueError as error:
        raise invalid(str(error)) from error
    check_size(larger, MOST_FEATURES)
    check_redraws(loop.spec.redraws, agent.rule, len(larger.items), larger.d)


def change_items(loop: Loop, event: ArmsChanged, at: float) -> None:
    """Apply a change to the agent and the state; one that cannot work is refused before anything changes."""
    (agent, contexts), state = loop.contextual, loop.state
    if event.added:
        add_items(agent, state, event.added)
    else:
        remove_items(agent, contexts, event)
    text, left = agent.change_texts[-1], contexts.after(agent).practice_left
    if left is not None and left != contexts.practice_left:
        text = f"{text}: practice is what is left of it, {100 * left:.3g} % of its weight"
    state.arm_changes.append(ArmsChange(at=at, by=event.by, decisions=state.decided, text=text))


def add_items(agent: Agent, state: LoopState, added: Added) -> None:
    """New items, with counts that begin at 0; sums of features have 0 where features are new."""
    names, values = split(added)
    agent.add_arms(names, values=values)
    for counts in (state.plays, state.uncounted):
        counts.extend([0] * len(names))
    state.items.extend(RewardTotals() for _ in names)
    places = agent.changes[-1].places
    if state.played and places:
        longer = [0.0] * agent.d
        for place, total in zip(places, state.played, strict=True):
            longer[place] = total
        state.played = longer
    if places:
        state.books.spread(places, agent.d)


def remove_items(agent: Agent, contexts: LoopContexts, event: ArmsChanged) -> None:
    """Items that go; practice keeps one of its own."""
    if event.fallback is not None:
        raise ValueError("fallback must be None in a loop with contexts: practice is what is safe")
    contexts.check_left(event.removed)
    agent.remove_arms([contexts.recipe.items[item] for item in event.removed])


def split(added: Added) -> tuple[list[str], list[list[float]] | None]:
    """The names of new items, and what is known of each; None where nothing is said of any."""
    names, values = [name for name, _ in added], [row or [] for _, row in added]
    return names, values if any(values) else None
