"""What the books of a loop say: at the last decision before the oldest open one, and now.

Both are values of one path, or below it, so that one bound holds for both (docs/service.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from linoto.core.decisions import Decision
from linoto.service.loops.books import Entry
from linoto.service.loops.events import DecisionMade
from linoto.service.loops.ledgers import to_read
from linoto.service.loops.lift import Draw, LiftSums, Limits
from linoto.service.loops.loop_data import LoopData

IN_ORDER = 5  # the version of loops from which on all their books are in the order of decisions


def in_order(loop: LoopData) -> bool:
    """Whether the books of a loop hold all its decisions; before, only those with a centre for the lift."""
    return loop.spec.version >= IN_ORDER


def entry_of(loop: LoopData, event: DecisionMade) -> Entry | None:
    """What of a decision is entered; None: nothing."""
    draw = draw_of(loop, event)
    if loop.spec.version < IN_ORDER:
        return None if draw is None else Entry(event.number, False, draw=draw)
    action = () if loop.watch.model is None or event.action is None else event.action
    return Entry(event.number, event.counted, action, draw)


def draw_of(loop: LoopData, event: DecisionMade) -> Draw | None:
    """What the lift needs of a decision, where it is one of those that it is about."""
    if event.control_chance is None or event.lift_centre is None:
        return None
    return Draw(event.control_chance, event.group == "holdback", event.lift_centre, loop.limits)


def open_in_books(loop: LoopData, event: DecisionMade, play: Decision) -> None:
    """A decision is made: its reward is to come; `play` is the same as the agent knows it."""
    entry = entry_of(loop, event)
    coin = enter_coin(loop, play, None)
    if entry is not None:
        loop.state.books.open(entry, coin)


def close_in_books(loop: LoopData, decision: DecisionMade, play: Decision, reward: float | None) -> bool:
    """Its reward, None if it is lost; whether more is closed now of books that hold every decision."""
    entry = entry_of(loop, decision)
    coin = () if reward is None else enter_coin(loop, play, reward)
    return entry is not None and loop.state.books.close(entry, reward, coin) and in_order(loop)


def enter_coin(loop: LoopData, play: Decision, reward: float | None) -> Sequence[float]:
    """A play, or its reward, in the books of the coin: what these grow by."""
    ledger = None if play.control_share is None else loop.ledger
    return () if ledger is None else ledger.enter(play, reward)


# -- evidence


def promise_evidence(loop: LoopData, counted: bool, moved: bool) -> float:
    """log evidence that plays earned less than promised, after a reward (`counted`: of such a play)."""
    watch, totals, page = loop.watch, loop.state.counted, to_read(loop.state.books, moved)
    found = -inf if page is None else watch.promise(page.plays, page.known, page.rewards)
    if not counted or (in_order(loop) and not watch.scale.bounded and totals.plays > totals.closed):
        return found  # without a range there is no best that an open reward can be
    return max(found, watch.promise(totals.plays, *watch.known(totals)))


def model_evidence(loop: LoopData, moved: bool) -> float:
    """log evidence against what the model of the log says of plays in their contexts."""
    watch, totals, page = loop.watch, loop.state.counted, to_read(loop.state.books, moved)
    now = watch.model_drift(totals.plays, *watch.known(totals), loop.state.played)
    if page is None or page.plays == 0:
        return now
    return max(now, watch.model_drift(page.plays, page.known, page.rewards, page.played))


# -- what is left of the promise


def left_at_most(loop: LoopData) -> float:
    """How much may still be lost, at the most: open and lost rewards at their best, the log at its lowest.

    Below 0 the plays have earned less than promised, whatever is still to come: by chance, perhaps. It is
    below 0 too where those before the oldest open one have.
    """
    watch, state = loop.watch, loop.state
    if watch.per_round is None or state.promise_void:
        return inf
    page, counted = state.books.closed, state.counted
    if counted.plays == 0:
        return inf
    before = watch.left_at_most(page.plays, page.known, page.rewards)
    if not watch.scale.bounded and counted.plays > counted.closed:
        return before if before < 0 else inf  # an open reward has no best
    now = watch.left_at_most(counted.plays, *watch.known(counted))
    return min(before, now) if before < 0 else now


# -- the lift


def lift_of(loop: LoopData) -> tuple[LiftSums, Limits | None] | None:
    """The lift and its interval, over the closed part of the books or over all: whichever tells more.

    None where no decision has a centre. Without a range an open reward has no worst: then all decisions tell
    something only once none is open.
    """
    books, limits = loop.state.books, loop.limits
    draws = (draw_of(loop, event) for event in loop.pending.values())
    whole, closed = books.all_lifts([draw for draw in draws if draw]), books.closed.lift or LiftSums()
    if whole is None:
        return None
    exact = closed.interval(limits)
    if not books.pages or limits is None:
        return closed, exact
    hopeful = whole.interval(limits)
    if hopeful is None or (exact is not None and width(exact) < width(hopeful)):
        return closed, exact
    return whole, hopeful


def width(interval: Limits) -> float:
    """How wide it is."""
    return interval[1] - interval[0]
