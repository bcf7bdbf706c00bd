"""The live numbers of many loops: computed again only where something happened, a few at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from linoto.service.loops import views
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import Loops
from linoto.service.storage.store import Store

SLICE = 0.005  # seconds of computing, after which requests get their turn


class Shown(NamedTuple):
    """The numbers of a loop after some event, and the same as JSON."""

    loop: Loop
    seq: int
    view: views.LoopView
    body: bytes


class LiveViews:
    """What `views.loop_view` says of every loop, kept until its next event."""

    def __init__(self, loops: Loops, store: Store) -> None:
        self.loops, self.store = loops, store
        self._shown: dict[str, Shown] = {}

    async def of(self, names: Iterable[str]) -> list[Shown]:
        """The numbers of these loops, each of a moment since the call; without those that are gone."""
        waiting, found = list(names)[::-1], list[Shown]()
        while waiting:
            await self.store.read_memory(lambda: self._show_some(waiting, found))
        return found

    async def lines(self, names: Iterable[str]) -> list[views.LoopLine]:
        """These loops in a line each, all of the same moment; without those that are gone."""
        found = (self.loops.by_name.get(name) for name in names)
        return await self.store.read_memory(
            lambda: [views.loop_line(loop) for loop in found if loop is not None]
        )

    def _show_some(self, waiting: list[str], found: list[Shown]) -> None:
        end = time.perf_counter() + SLICE
        while waiting:
            loop = self.loops.by_name.get(waiting.pop())
            if loop is None:  # the transaction that made it was undone
                continue
            shown = self._shown.get(loop.name)
            if shown is None or shown.loop is not loop or shown.seq != loop.state.seq:
                view = views.loop_view(loop)
                shown = Shown(loop, loop.state.seq, view, msgspec.json.encode(view))
                self._shown[loop.name] = shown
            found.append(shown)
            if time.perf_counter() > end:
                return


def search(loops: Loops, text: str | None, may_see: Callable[[str], bool] = lambda _: True) -> list[str]:
    """The names of the loops with this text in their name or description, oldest first."""
    wanted = "" if text is None else text.casefold()
    return [
        name
        for name, loop in loops.by_name.items()
        if may_see(name) and (wanted in name.casefold() or wanted in loop.spec.description.casefold())
    ]


def page_of(names: list[str], after: str | None, limit: int | None) -> list[str]:
    """At most so many names, from the one after `after` on."""
    start = names.index(after) + 1 if after in names else 0
    return names[start:] if limit is None else names[start : start + limit]
