"""A request to decide, read and checked before anything changes."""

from __future__ import annotations

from collections.abc import Set
from math import inf
from typing import Any, NamedTuple

import numpy as np

from linoto.service.errors import Refused, invalid
from linoto.service.loops.context_practice import Practice
from linoto.service.loops.contexts import Question
from linoto.service.loops.events import Context, DecisionMade
from linoto.service.loops.loop import Loop

ONLY_WITH = {"context": "", "arms": ": the arms that may be played are `allowed`", "practice": ""}
ONLY_WITHOUT = {"allowed": ": the arms that may be played are `arms`"}


class DecisionRequest(NamedTuple):
    """What a loop is asked: arms by their index, and with contexts all that the answer depends on."""

    key: str | None
    proposal: int | None
    among: list[int] | None  # the arms that may be played; None: all
    question: Question | None

    def check(self, loop: Loop) -> None:
        """Refuse what cannot be decided now."""
        if self.proposal is not None and self.among is not None and self.proposal not in self.among:
            what = "allowed arms" if self.question is None else "arms of the decision"
            raise invalid(f"proposal must be among the {what}, got {loop.names[self.proposal]!r}")
        if loop.state.archived:
            raise Refused(409, "archived", f"loop {loop.name!r} is archived and decides no more")
        if self.question is None:
            check_present(loop, self.proposal, self.among)
        else:
            self.now(loop)
            check_proposal(loop, self.proposal, loop.contextual[1].removed())

    def now(self, loop: Loop) -> Question | None:
        """The question without the items that were removed."""
        return None if self.question is None else without(self.question, loop, inf)

    def same_as(self, event: DecisionMade, loop: Loop) -> DecisionMade:
        """The decision that the key got before, if it was asked for in the same way then."""
        question = None if self.question is None else without(self.question, loop, event.round)
        same = question is None or question.same_as(event.context, event.allowed, event.practice)
        if not same:
            raise Refused(
                409, "key_reused", f"key {event.key!r} was used with another context, arms or practice"
            )
        if (event.proposal, event.allowed) != (self.proposal, self.among):
            raise Refused(
                409, "key_reused", f"key {event.key!r} was used with another proposal or allowed set"
            )
        return event


def without(question: Question, loop: Loop, round: float) -> Question:
    """A question without the items that were gone by a round."""
    return question.without(loop.contextual[1].removed(round), loop.names)


def read_request(
    loop: Loop,
    *,
    key: str | None = None,
    proposal: str | None = None,
    allowed: list[str] | None = None,
    context: Context | None = None,
    arms: list[str] | None = None,
    practice: Practice | None = None,
) -> DecisionRequest:
    """The same as the loop knows it; refuses fields and arms that are not its own."""
    check_fields(loop, allowed=allowed, context=context, arms=arms, practice=practice)
    wanted = None if proposal is None else arm_of(loop, proposal)
    if loop.contexts is not None:
        question = loop.contexts.question(context, arms, practice)
        return DecisionRequest(key, wanted, question.among, question)
    among = None if allowed is None else sorted({arm_of(loop, arm) for arm in allowed})
    return DecisionRequest(key, wanted, among, None)


def arm_of(loop: Loop, name: str) -> int:
    """The index of an arm."""
    arm = loop.index.get(name)
    if arm is None:
        raise invalid(f"arm must be one of loop {loop.name!r}, got {name!r}")
    return arm


def check_present(loop: Loop, proposal: int | None, allowed: list[int] | None) -> None:
    """Refuse a proposal that was removed, and a choice among removed arms only."""
    present = loop.fixed_agent.present
    check_proposal(loop, proposal, set(np.flatnonzero(~present).tolist()))
    if allowed is not None and not present[allowed].any():
        raise invalid("allowed must hold an arm that is present, got only arms that were removed")


def check_proposal(loop: Loop, proposal: int | None, removed: Set[int]) -> None:
    """Refuse a proposal that was removed."""
    if proposal is not None and proposal in removed:
        raise invalid(
            f"proposal must be an arm that is present, got {loop.names[proposal]!r}, which was removed"
        )


def check_fields(loop: Loop, **given: Any) -> None:
    """Refuse what is only for a loop with contexts, or only for one without."""
    with_contexts = loop.contexts is not None
    for name, instead in ONLY_WITHOUT.items() if with_contexts else ONLY_WITH.items():
        if given[name] is not None:
            kind = "with" if with_contexts else "without"
            raise invalid(f"{name} must be left out in a loop {kind} contexts{instead}")
