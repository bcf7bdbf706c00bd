"""The live numbers of many loops: computed again only where something happened, a few at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

import msgspec

from linoto.service.errors import Refused
from linoto.service.loops import views
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import Loops
from linoto.service.storage.store import Store

SLICE = 0.005  # seconds of computing, after which requests get their turn
TOGETHER = 10  # loops whose numbers are computed at once
REST = 2.0  # times as long as some of many took, in which requests have the service to themselves


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
        self._turn = asyncio.Lock()  # of those who read many: one at a time, or they are all there is
        self.computed = 0  # how often numbers had to be computed

    async def of(self, names: Iterable[str]) -> list[Shown]:
        """The numbers of these loops, each of a moment since the call; without those that are gone."""
        waiting, found = list(names)[::-1], list[Shown]()
        if len(waiting) <= TOGETHER:
            await self.store.read_memory(lambda: self._show_some(waiting, found))
            return found
        async with self._turn:
            while waiting:
                seconds = await self.store.read_memory(lambda: self._show_some(waiting, found))
                await asyncio.sleep(REST * seconds)
        return found

    async def lines(self, names: Iterable[str]) -> list[views.LoopLine]:
        """These loops in a line each, all of the same moment; without those that are gone."""
        return await self.store.read_memory(
            lambda: [line for line in map(self._line, names) if line is not None]
        )

    def _line(self, name: str) -> views.LoopLine | None:
        loop, damage = self.loops.by_name.get(name), self.loops.damaged.get(name)
        if loop is not None:
            return views.loop_line(loop)
        return None if damage is None else views.damaged_line(damage)

    def _show_some(self, waiting: list[str], found: list[Shown]) -> float:
        """Some of those that wait, and how long that took."""
        began = time.perf_counter()
        if len(self._shown) > len(self.loops.by_name):  # some have moved to another server
            self._shown = {name: shown for name, shown in self._shown.items() if name in self.loops.by_name}
        while waiting and time.perf_counter() < began + SLICE:
            names = [waiting.pop() for _ in range(min(len(waiting), TOGETHER))]
            some = [self.loops.by_name[name] for name in names if name in self.loops.by_name]
            changed = [loop for loop in some if not self._is_shown(loop)]
            self.computed += len(changed)
            for loop, view in zip(changed, views.loop_views(changed), strict=True):
                self._shown[loop.name] = Shown(loop, loop.state.seq, view, msgspec.json.encode(view))
            found += [self._shown[loop.name] for loop in some]
        return time.perf_counter() - began

    def _is_shown(self, loop: Loop) -> bool:
        """Whether nothing has happened since it was last shown; after a rollback it is another loop."""
        shown = self._shown.get(loop.name)
        return shown is not None and shown.loop is loop and shown.seq == loop.state.seq


def search(loops: Loops, text: str | None, may_see: Callable[[str], bool] = lambda _: True) -> list[str]:
    """The names of the loops with this text in their name or description, oldest first."""
    wanted = "" if text is None else text.casefold()
    return [
        name
        for name, loop in loops.by_name.items()
        if may_see(name) and (wanted in name.casefold() or wanted in loop.spec.description.casefold())
    ]


def with_damaged(
    loops: Loops, names: list[str], text: str | None, may_see: Callable[[str], bool]
) -> list[str]:
    """These names, and those of loops that cannot be read and have this text in their name; oldest first."""
    wanted = "" if text is None else text.casefold()
    found = [name for name in loops.damaged if may_see(name) and wanted in name.casefold()]
    return sorted([*names, *found], key=lambda name: loops.created_at(name)) if found else names


def page_after(loops: Loops, names: list[str], place: str, limit: int | None) -> list[str]:
    """At most so many names of loops here that come after a place among those of all servers.

    The place is the time and the name of a loop, or "" for the beginning.
    """
    at, _, name = place.partition(" ")
    try:
        after = (float(at), name) if at else (-inf, "")
    except ValueError:
        raise Refused(400, "bad_request", f"a place must be a time and a name, got {place!r}") from None
    known = sorted((loops.created_at(name), name) for name in names)
    return [name for at, name in known if (at, name) > after][:limit]


def page_of(names: list[str], after: str | None, limit: int | None) -> list[str]:
    """At most so many names, from the one after `after` on."""
    start = names.index(after) + 1 if after in names else 0
    return names[start:] if limit is None else names[start : start + limit]
