"""A request to decide, read and checked before anything changes."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from linoto.service.errors import Refused, invalid
from linoto.service.loops.events import Context, DecisionMade
from linoto.service.loops.loop import Loop
from linoto.service.loops.practice_weights import Practice
from linoto.service.loops.questions import Question

NO_NULL = "key must not have the character U+0000, which PostgreSQL cannot keep"


class DecisionRequest(NamedTuple):
    """What a loop is asked: all that the answer depends on."""

    key: str | None
    proposal: int | None
    question: Question

    def check(self, loop: Loop) -> None:
        """Refuse what cannot be decided now, or not be kept on every engine."""
        if self.key is not None and "\0" in self.key:
            raise invalid(f"{NO_NULL}, got {self.key!r}")
        allowed = self.question.allowed
        if self.proposal is not None and allowed is not None and self.proposal not in allowed:
            raise invalid(
                f"proposal must be among the arms of the decision, got {loop.names[self.proposal]!r}"
            )
        if loop.state.archived:
            raise Refused(409, "archived", f"loop {loop.name!r} is archived and decides no more")
        if self.proposal is not None and self.proposal in loop.arms.removed():
            raise invalid(
                f"proposal must be an arm that is present, got {loop.names[self.proposal]!r}, which was "
                "removed"
            )
        self.now(loop)

    def now(self, loop: Loop, round: float = inf) -> Question:
        """The question without the arms that were gone by a round; without it, now."""
        removed = loop.arms.removed(round)
        return self.question.without(removed, loop.names) if removed else self.question

    def same_as(self, event: DecisionMade, loop: Loop) -> DecisionMade:
        """The decision that the key got before, if it was asked for in the same way then."""
        if event.proposal != self.proposal or not self.now(loop, event.round).same_as(event):
            raise Refused(
                409,
                "key_reused",
                f"key {event.key!r} was used with another proposal, context, practice or choice of arms",
            )
        return event


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
    if allowed is None and arms is None and context is None and practice is None and proposal is None:
        return DecisionRequest(key, None, loop.arms.question(None, None, None))
    if allowed is not None and arms is not None:
        raise invalid("arms must be given once, as arms or as allowed, got both")
    question = loop.arms.question(context, allowed if arms is None else arms, practice)
    return DecisionRequest(key, None if proposal is None else arm_of(loop, proposal), question)


def arm_of(loop: Loop, name: str) -> int:
    """The index of an arm."""
    arm = loop.index.get(name)
    if arm is None:
        raise invalid(f"arm must be one of loop {loop.name!r}, got {name!r}")
    return arm
