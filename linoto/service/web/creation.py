"""Making loops, which may take seconds: in threads of their own, and each name once at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")
MAKERS = 2  # requests that read, and the refresh of tokens, must never queue behind new loops


class LoopCreation:
    """Threads for new loops, and a lock for each name."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAKERS, thread_name_prefix="linoto-creation")
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}  # by name, with how many hold or await it

    async def run(self, work: Callable[[], T]) -> T:
        """Do it in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncIterator[None]:
        """One at a time for each name."""
        lock, waiting = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._locks.pop(name)
            if waiting > 1:
                self._locks[name] = lock, waiting - 1
