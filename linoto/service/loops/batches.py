"""Many requests to decide at once: how many, and which of them is refused."""

from __future__ import annotations

from linoto.service.errors import Refused, invalid
from linoto.service.loops.loop import Loop
from linoto.service.loops.recipe_spec import MOST_WORK

MOST_IN_BATCH = 1000


def most_in_batch(loop: Loop) -> int:
    """How many decisions of a loop nobody waits long for: a millisecond each, and 0.1 s of multiplications.

    The features of all of them are held in memory: 160 MB at the most.
    """
    agent = loop.agent
    draws = loop.spec.redraws if agent.rule.needs_redraws else 0
    k, d = len(loop.names), agent.d
    return min(MOST_IN_BATCH, max(1, MOST_WORK // loop.arms.work(agent, k, d, draws)))


def check_batch(loop: Loop, count: int) -> None:
    """Refuse a batch that would keep everybody else waiting."""
    most = most_in_batch(loop)
    if count > most:
        raise invalid(f"decisions must be at most {most} at once in loop {loop.name!r}, got {count}")


def in_place(place: int, refusal: Refused) -> Refused:
    """A refusal that names the request that it is about."""
    message = f"decisions[{place}]: {refusal.message}"
    return Refused(refusal.status, refusal.code, message, refusal.retry_after)
