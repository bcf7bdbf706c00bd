"""The asyncio version of `linoto.Client`: the same methods, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar

from linoto.client.endpoint import IDLE_SECONDS
from linoto.client.exchange import Request
from linoto.client.files import atomic_file, flush_to_disk
from linoto.client.operations import IsAwaited, Operations, export_request
from linoto.client.responses import ServiceError
from linoto.client.servers import Attempts, Servers

T = TypeVar("T")


class AsyncClient(IsAwaited, Operations):
    """Talks to one service from one event loop, with as many requests under way as you like.

    Several addresses are of servers that share a database, as of a `Client`. They share at most
    `connections` connections; the others wait for one. A request that is cancelled
    may have been done or not: sending it again with the same key tells.

    With a service at `url`:

    >>> import asyncio
    >>> async def visits(url, keys):
    ...     async with AsyncClient(url) as client:
    ...         decisions = await asyncio.gather(*(client.decide("banner", key=key) for key in keys))
    ...         await client.rewards("banner", [(made.decision_id, 1.0) for made in decisions])
    ...         return [made.arm for made in decisions]
    """

    def __init__(
        self,
        url: str | Sequence[str] = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        timeout: float = 10.0,
        deadline: float = 30.0,
        retries: int | None = None,
        idle: float = IDLE_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        connections: int = 64,
    ) -> None:
        try:
            from linoto.client.aiohttp_session import Sessions
        except ModuleNotFoundError as error:
            raise ImportError(f'AsyncClient needs {error.name}: pip install "linoto[client]"') from None
        self._servers = Servers(
            url, token=token, timeout=timeout, deadline=deadline, retries=retries, idle=idle
        )
        if connections < 1:
            raise ValueError(f"connections must be a whole number >= 1, got {connections!r}")
        slots = asyncio.Semaphore(connections)
        self._sessions = [Sessions(endpoint, slots) for endpoint in self._servers.endpoints]
        self._sleep = sleep

    @property
    def url(self) -> str:
        """Where the service is; the first address where several were given."""
        return self._servers.endpoints[0].url

    async def export(self, loop: str, path: str | Path, *, pending: bool = False) -> Path:
        """Decisions and rewards as a Parquet file, a log that `linoto audit` reads; all of it or none."""
        with atomic_file(path) as file:
            await self._send(export_request(loop, file, pending=pending))
            await asyncio.to_thread(flush_to_disk, file)  # which can take a while
        return Path(path)

    async def close(self) -> None:
        """Close the connections; nothing can be sent afterwards."""
        for sessions in self._sessions:
            await sessions.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self.close()

    async def _send(self, request: Request[T]) -> T:
        attempts = Attempts(self._servers, request)
        while True:
            try:
                return await self._sessions[attempts.place].send(request, attempts.heard)
            except (ConnectionError, ServiceError) as error:
                pause = attempts.pause_after(error)
            await self._sleep(pause)
