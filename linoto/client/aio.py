"""The asyncio twin of `linoto.Client`: the same methods, awaited; the same requests, repeated as safely.

It speaks HTTP over asyncio's own streams, so that only the standard library is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from linoto.client import calls
from linoto.client.answers import Patience, is_good
from linoto.client.calls import Call, describe
from linoto.client.endpoint import Endpoint
from linoto.client.files import WholeFile
from linoto.client.streams import Streams

P = ParamSpec("P")
T = TypeVar("T")


def asking(
    operation: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The method that asks for this operation."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._answer(operation(*args, **kwargs))

    describe(method, operation)
    return method


class AsyncClient:
    """Talks to one service from one event loop, with as many requests under way as you like.

    They share at most `connections` connections; the others wait their turn. A request that is cancelled
    may have been done or not: asking with the same key tells.

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
        retries: int = 6,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        connections: int = 64,
    ) -> None:
        self._streams = Streams(Endpoint(url, token, timeout, retries), connections=connections)
        self._sleep = sleep

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._streams.endpoint.url

    create = asking(calls.create)
    loops = asking(calls.loops)
    loop = asking(calls.loop)
    spec = asking(calls.spec)
    change = asking(calls.change)
    archive = asking(calls.archive)

    decide = asking(calls.decide)
    reward = asking(calls.reward)
    rewards = asking(calls.rewards)

    arms = asking(calls.arms)
    decisions = asking(calls.decisions)
    explain = asking(calls.explain)
    history = asking(calls.history)
    report = asking(calls.report)

    async def export(self, loop: str, path: str | Path, *, pending: bool = False) -> Path:
        """Decisions and rewards as a Parquet file, a log that `linoto audit` reads; all of it or none."""
        file = WholeFile(path)
        try:
            await self._answer(calls.export(loop, file, pending=pending))
            return await asyncio.to_thread(file.keep)  # until it is on disk, which can take a while
        finally:
            file.discard()

    async def close(self) -> None:
        """Let go of the connections; nothing can be asked afterwards."""
        await self._streams.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self.close()

    async def _answer(self, call: Call[T]) -> T:
        endpoint = self._streams.endpoint
        patience = Patience(endpoint.url, retries=endpoint.retries)
        while True:
            try:
                answer = await self._streams.send(call)
            except OSError as error:
                pause = patience.lost(error)
            else:
                if is_good(answer.status):
                    return call.result(answer)
                pause = patience.refused(answer)
            await self._sleep(pause)

    async def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        """Anything at all, answered as it comes."""
        data = None if body is None else calls.plain(body)
        return await self._answer(Call(method=method, path=path, body=data, read=bytes))
