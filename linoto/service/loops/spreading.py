"""Loops of a database that several servers share: taken, read and given up by parts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from linoto.service.errors import Repeats, Unavailable
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import Damage, Loops, try_to
from linoto.service.loops.records import recover
from linoto.service.storage import sql
from linoto.service.storage.connection import Connection, InUseError, Row
from linoto.service.storage.parts import part_of
from linoto.service.storage.store import Store

logger = logging.getLogger("linoto.service")
STEP = 0.05  # seconds between two looks at what should be here
TOGETHER = 8  # snapshots that are written together, so that nobody waits long for them
MOVED = 16  # parts that are read together, or given up: others take them before the next ones go
Check = Callable[[Iterable[Loop]], None]
Adopted = Callable[[Connection, Iterable[Loop]], None]


class Spread:
    """What this server has: parts that it holds in the database, and those of them whose loops are in memory.

    A part that is free is taken by a server that has fewer than its share, and one with more than its share
    gives the rest up. So few move when a server comes or goes, and nobody has to agree on more than a lock.
    """

    def __init__(self, loops: Loops, store: Store, check: Check, adopted: Adopted) -> None:
        self.loops, self.store = loops, store
        self.check, self.adopted = check, adopted  # before loops are served, and afterwards
        self.served: set[int] = set()  # parts whose loops are in memory, and answer
        self.parts_taken = self.loops_taken = self.loops_given_up = 0  # since this server has begun
        self._leaving: set[int] = set()  # parts that were given up in memory, and not yet in the database
        self._fresh: set[str] = set()  # loops that were read, and not yet given to `adopted`
        self._begun = False  # from then on a clock that cannot be right must not end the server: others go on
        self._repeats = Repeats()
        loops.serves = lambda name: part_of(name) in self.served

    async def begin(self) -> None:
        """Join the other servers, and take and read what is free, until every loop has a server."""
        await asyncio.to_thread(self.store.join)
        await self.step()
        while self.store.view is None or not self.store.view.settled or self.store.held != self.served:
            if self.store.is_replaced:
                raise InUseError("another server has taken over what this one was about to read")
            await asyncio.sleep(STEP)
            await self.step()
        if self.count_servers() == 1:
            self.loops.check_some_are_read()
        self._begun = True

    def count_servers(self) -> int:
        """How many share the database."""
        return 0 if self.store.view is None else len(self.store.view.servers)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(STEP)
            await self.step()

    async def hand_over(self, seconds: float, hurry: asyncio.Event) -> None:
        """Let the others have all loops while requests are still passed on; no longer than that."""
        clock, store = asyncio.get_running_loop().time, self.store
        end = clock() + seconds
        if not self._has_heirs():
            return
        try:
            await store.retire()
        except Unavailable as error:
            logger.error("loops cannot be handed over", extra={"error": str(error)})
            return
        while store.held and self._has_heirs() and clock() < end and not hurry.is_set():
            await asyncio.sleep(STEP)

    def _has_heirs(self) -> bool:
        return self.store.view is not None and self.store.view.has_heirs

    async def step(self) -> None:
        """Take, read and give up what is due; what the database refuses is tried again."""
        try:
            if not self.store.is_owned():
                await self.store.regain()
            elif self._leaving:
                await self._give_up()
            else:
                await self._read(sorted(self.store.held - self.served))
                await self._balance()
                await self._settle()
        except Unavailable as error:
            if self._repeats.is_new(str(error)):
                logger.error("loops cannot be spread", extra={"error": str(error)})

    async def _balance(self) -> None:
        view = self.store.view
        if view is None or self.store.held != self.served:
            return
        missing = view.share - len(self.served)
        free = view.free(self.served)
        stray = [part for part, owner in view.owners.items() if owner == view.me and part in free]
        if missing <= 0 and stray:  # taken by a commit whose answer was lost: nobody else may have them
            await self.store.give_up(stray)
        elif missing < 0 and not free:  # what was given up before has been taken
            await self._release(sorted(self.served)[missing:][:MOVED])
        elif missing > 0 and free:
            await self._read(await self.store.take(free[:missing]))

    async def _read(self, parts: list[int]) -> None:
        """Read the loops of parts that are held: what others have written to them is all committed."""
        for start in range(0, len(parts), MOVED):
            await self._read_some(parts[start : start + MOVED])

    async def _read_some(self, parts: list[int]) -> None:
        loops, store = self.loops, self.store
        damaged = dict[str, Damage]()

        def read(connection: Connection) -> list[Loop]:
            rows = rows_of(connection, set(parts))
            found = [try_to(partial(recover, connection, row), row, damaged) for row in rows]
            return [loop for loop in found if loop is not None]

        found = await asyncio.to_thread(store.read_where_written, read)
        for loop in found:
            if self._begun:
                row = (loop.id, loop.name, None, loop.created_at)
                try_to(partial(self.check, [loop]), row, damaged)
            else:
                self.check([loop])
        found = [loop for loop in found if loop.name not in damaged]

        def adopt() -> None:
            if set(parts) <= self.served or not store.held >= set(parts):
                return  # a batch may run again: what happened to a loop since it was found is not undone
            loops.adopt(found)
            loops.damaged |= damaged
            self.served |= set(parts)
            self.parts_taken += len(parts)
            self.loops_taken += len(found) + len(damaged)
            self._fresh |= {loop.name for loop in found}

        await store.read_memory(adopt)
        logger.info("loops taken", extra={"parts": len(parts), "loops": len(found)})

    async def _settle(self) -> None:
        """What an earlier version has left to be done for a loop, and who else wants to know of it."""
        fresh = set(self._fresh)
        if fresh:
            await self.store.write(lambda connection: self._tell(connection, fresh))
            self._fresh -= fresh

    def _tell(self, connection: Connection, names: Iterable[str]) -> None:
        here = [self.loops.by_name[name] for name in names if name in self.loops.by_name]
        self.loops.settle(connection, here)
        self.adopted(connection, here)

    async def _release(self, parts: list[int]) -> None:
        """Leave a snapshot of every loop of these parts, then forget them, then let others have them."""
        names = self._names(parts)
        for start in range(0, len(names), TOGETHER):
            await self.store.write(partial(self._save, names=names[start : start + TOGETHER]))
        await self.store.read_memory(lambda: self._forget(parts))
        await self._give_up()
        logger.info("loops given up", extra={"parts": len(parts), "loops": len(names)})

    def _names(self, parts: Iterable[int]) -> list[str]:
        wanted = set(parts)
        return [name for name in list(self.loops.by_name) if part_of(name) in wanted]

    def _save(self, connection: Connection, names: Iterable[str]) -> None:
        for name in names:
            if name in self.loops.by_name:
                self.loops.save(connection, self.loops.by_name[name])

    def _forget(self, parts: list[int]) -> None:
        """From now on nothing happens to their loops here; what did is committed when this was answered."""
        here = len(self.loops.by_name) + len(self.loops.damaged)
        for name in self._names(parts):
            del self.loops.by_name[name]
        for name in [name for name in self.loops.damaged if part_of(name) in parts]:
            del self.loops.damaged[name]
        self.loops_given_up += here - len(self.loops.by_name) - len(self.loops.damaged)
        self.served -= set(parts)
        self._leaving |= set(parts)

    async def _give_up(self) -> None:
        await self.store.give_up(sorted(self._leaving))
        self._leaving.clear()


def rows_of(connection: Connection, parts: set[int]) -> list[Row]:
    """The rows of the loops of these parts."""
    wanted = [id for id, name in sql.loop_names(connection) if part_of(name) in parts]
    rows = [sql.one_loop(connection, id) for id in wanted]
    return [row for row in rows if row is not None]
