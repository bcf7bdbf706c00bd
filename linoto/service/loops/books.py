"""The books of a loop, in the order of its decisions, whatever order rewards come in.

What is tested or bounded at any time is a product, or a sum, over decisions; its proof runs in their order
(docs/service.md, "The order of decisions"). So every decision has a place in the books from the start, open,
and its reward goes there when it comes. `closed` is all up to the last decision before the oldest open one:
what it says is exact, but for lost rewards. From there on decisions stand on pages. If many are open,
neighbouring pages are merged, so what is kept is bounded: then `closed` ends too early, by a thirtieth of the
most that was waiting or less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct, field

from linoto.service.loops.lift import Draw, LiftSums

MOST_PAGES = 64  # then neighbours are merged


class Page(Struct, array_like=True):
    """Decisions that follow each other."""

    first: int  # number of the first one
    decisions: int = 0
    open: int = 0
    plays: int = 0  # that the promise is about
    known: int = 0  # of these, with a reward that is known
    rewards: float = 0.0  # their sum
    played: list[float] = field(default_factory=list)  # (d,) summed features of plays, if they are watched
    coin: list[float] = field(default_factory=list)  # what the books of a coin grow by
    lift: LiftSums | None = None

    def absorb(self, other: Page) -> None:
        """The next page becomes a part of this one."""
        self.decisions += other.decisions
        self.open += other.open
        self.plays += other.plays
        self.known += other.known
        self.rewards += other.rewards
        self.played = total(self.played, other.played)
        self.coin = total(self.coin, other.coin)
        if other.lift is not None:
            self.lift = self.lift or LiftSums()
            self.lift.absorb(other.lift)


class Entry(Struct, frozen=True, gc=False):
    """What of a decision is entered."""

    number: int
    counted: bool  # whether the promise is about it
    action: Sequence[float] = ()  # where features are watched
    draw: Draw | None = None  # where it could have been drawn for the control group


class Books(Struct):
    """Everything up to the oldest open decision, and the pages since."""

    closed: Page = field(default_factory=lambda: Page(0))
    pages: list[Page] = field(default_factory=list)  # the first of them has an open decision
    size: int = 1  # decisions on a page
    heard: int = 0  # rewards of decisions that the lift is about, as they came: their mean is the next centre
    heard_rewards: float = 0.0

    def open(self, entry: Entry, coin: Sequence[float] = ()) -> None:
        """A decision whose reward is to come; `coin` is what it adds to the books of a coin."""
        page = self._page_for(entry.number)
        page.decisions += 1
        page.open += 1
        if entry.counted:
            page.plays += 1
            page.played = total(page.played, entry.action) if entry.action else page.played
        if coin:
            page.coin = total(page.coin, coin)
        if entry.draw is not None:
            page.lift = page.lift or LiftSums()
            page.lift.open(entry.draw)

    def close(self, entry: Entry, reward: float | None, coin: Sequence[float] = ()) -> bool:
        """Its reward, None if it is lost; whether `closed` has grown by it."""
        page = self._page_of(entry.number)
        page.open -= 1
        if reward is not None:
            self._enter(page, entry, reward)
        if entry.draw is not None and page.lift is not None:
            page.lift.close(entry.draw, reward)
        if coin:
            page.coin = total(page.coin, coin)
        before = self.closed.decisions
        while self.pages and self.pages[0].open == 0:
            self.closed.absorb(self.pages.pop(0))
        return self.closed.decisions > before

    def _enter(self, page: Page, entry: Entry, reward: float) -> None:
        if entry.counted:
            page.known += 1
            page.rewards += reward
        if entry.draw is not None:
            self.heard += 1
            self.heard_rewards += reward

    def centre(self, start: float) -> float:
        """About what a decision earns, by the rewards so far: fixed at the next decision."""
        return (self.heard_rewards + start) / (self.heard + 1)

    def all_lifts(self, waiting: list[Draw]) -> LiftSums | None:
        """The lift over all decisions, those at their worst that are `waiting` for a reward."""
        found = LiftSums()
        for page in (self.closed, *self.pages):
            if page.lift is not None:
                found.absorb(page.lift)
        found.with_open(waiting)
        return found if found.decisions else None

    def spread(self, places: Sequence[int], width: int) -> None:
        """New features, in the sums of every page."""
        for page in (self.closed, *self.pages):
            page.played = spread(page.played, places, width)

    def _page_for(self, number: int) -> Page:
        if self.pages and self.pages[-1].decisions < self.size:
            return self.pages[-1]
        if len(self.pages) < MOST_PAGES // 4:
            self.size = max(1, self.size // 2)
        if len(self.pages) == MOST_PAGES:
            self._merge()
        self.pages.append(Page(number))
        return self.pages[-1]

    def _page_of(self, number: int) -> Page:
        if len(self.pages) == 1 or number < self.pages[1].first:  # rewards that come in order
            return self.pages[0]
        return self.pages[bisect_right(self.pages, number, key=lambda page: page.first) - 1]

    def _merge(self) -> None:
        merged: list[Page] = []
        for page in self.pages:
            if merged and merged[-1].decisions + page.decisions <= 2 * self.size:
                merged[-1].absorb(page)
            else:
                merged.append(page)
        self.pages, self.size = merged, 2 * self.size


def total(sums: list[float], added: Sequence[float]) -> list[float]:
    """The sums with these added; none at all are zeros."""
    if not added:
        return sums
    return [x + y for x, y in zip(sums, added, strict=True)] if sums else list(added)


def spread(sums: list[float], places: Sequence[int], width: int) -> list[float]:
    """(width,) sums of features with those there were at these places; none at all stay none."""
    longer = [0.0] * width
    for place, value in zip(places, sums, strict=bool(sums)):
        longer[place] = value
    return longer if sums else sums
