"""Many requests to decide at once: how many, and which of them is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from linoto.service.errors import Refused, invalid
from linoto.service.loops.context_spec import MOST_WORK
from linoto.service.loops.loop import Loop

MOST_IN_BATCH = 1000
LEAST_WIDTH = 10  # features that an arm counts as, so that many arms with few features stay small too


def most_in_batch(loop: Loop) -> int:
    """How many decisions of a loop nobody waits long for: a millisecond each, and 0.1 s of multiplications.

    The features of all of them are held in memory: 160 MB at the most.
    """
    agent = loop.agent
    draws = loop.spec.redraws if agent.rule.needs_redraws else 0
    k, d = len(loop.names), agent.d
    work = k * d + d * (k + d) * draws
    if not loop.contexts.stay:
        work = k * d * max(d * (1 + draws), LEAST_WIDTH)
    return min(MOST_IN_BATCH, max(1, MOST_WORK // work))


def check_batch(loop: Loop, count: int) -> None:
    """Refuse a batch that would keep everybody else waiting."""
    most = most_in_batch(loop)
    if count > most:
        raise invalid(f"decisions must be at most {most} at once in loop {loop.name!r}, got {count}")


@contextmanager
def in_place(place: int) -> Iterator[None]:
    """Let a refusal name the request that it is about."""
    try:
        yield
    except Refused as refusal:
        message = f"decisions[{place}]: {refusal.message}"
        raise Refused(refusal.status, refusal.code, message, refusal.retry_after) from refusal
