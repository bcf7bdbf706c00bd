"""The asyncio version of `linoto.Client`: the same methods, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self, TypeVar

from linoto.client.endpoint import IDLE_SECONDS, Endpoint
from linoto.client.exchange import Request, Retries
from linoto.client.files import atomic_file, flush_to_disk
from linoto.client.operations import IsAwaited, Operations, export_request
from linoto.client.responses import ServiceError

T = TypeVar("T")


class AsyncClient(IsAwaited, Operations):
    """Talks to one service from one event loop, with as many requests under way as you like.

    They share at most `connections` connections; the others wait for one. A request that is cancelled
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
        url: str = "http://127.0.0.1:8080",
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
        self._endpoint = Endpoint(
            url, token=token, timeout=timeout, deadline=deadline, retries=retries, idle=idle
        )
        self._sessions = Sessions(self._endpoint, connections=connections)
        self._sleep = sleep

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._endpoint.url

    async def export(self, loop: str, path: str | Path, *, pending: bool = False) -> Path:
        """Decisions and rewards as a Parquet file, a log that `linoto audit` reads; all of it or none."""
        with atomic_file(path) as file:
            await self._send(export_request(loop, file, pending=pending))
            await asyncio.to_thread(flush_to_disk, file)  # which can take a while
        return Path(path)

    async def close(self) -> None:
        """Close the connections; nothing can be sent afterwards."""
        await self._sessions.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self.close()

    async def _send(self, request: Request[T]) -> T:
        retries = Retries(self._endpoint.retries, self._endpoint.deadline)
        while True:
            try:
                return await self._sessions.send(request)
            except (ConnectionError, ServiceError) as error:
                pause = retries.pause_after(error)
            await self._sleep(pause)
