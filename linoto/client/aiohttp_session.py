"""Sends the requests of `AsyncClient`, over aiohttp."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from linoto.client.endpoint import CLOSED, Endpoint
from linoto.client.exchange import Request, no_answer

T = TypeVar("T")
LARGE = 2**20  # bytes; of a larger body that is plain bytes, aiohttp warns


class LargeBody(aiohttp.BytesIOPayload):
    """A body written at once: where a later piece fails, a refusal that has come meanwhile is lost."""

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write all of it."""
        await writer.write(self._value.getvalue())


class SharedSession:
    """An aiohttp session that many requests use; once retired, it closes after the last of them."""

    def __init__(self, session: aiohttp.ClientSession, sockets: WeakSet[socket.socket]) -> None:
        self._session, self._sockets = session, sockets
        self._users, self._retired = 0, False

    async def __aenter__(self) -> aiohttp.ClientSession:
        self._users += 1
        return self._session

    async def __aexit__(self, *reason: object) -> None:
        self._users -= 1
        if self._retired:
            await self.retire()

    async def retire(self) -> None:
        """Close it, now or after its last request."""
        self._retired = True
        if self._users == 0:
            await self._session.close()
            await give_up_sending(self._sockets)


async def give_up_sending(sockets: WeakSet[socket.socket]) -> None:
    """End connections that are closed but for a body which nobody reads: they would wait for ever."""
    waiting = [each for each in sockets if each.fileno() >= 0]
    for each in waiting:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    if waiting:
        for _ in range(2):  # the event loop sees that they ended, and lets go of them
            await asyncio.sleep(0)


class Sessions:
    """Connections of one event loop to one server, each in use while it has one of the slots."""

    def __init__(self, endpoint: Endpoint, slots: asyncio.Semaphore) -> None:
        self.endpoint = endpoint
        self._tls = endpoint.tls()
        self._slots = slots
        self._loop: asyncio.AbstractEventLoop | None = None
        self._current: SharedSession | None = None
        self._closed = False

    async def send(self, request: Request[T], heard: Callable[[Mapping[str, str]], None]) -> T:
        """Send a request once; `heard` gets the head of a good answer; ConnectionError without one."""
        self._check()
        shared = self._current or self._open()
        try:
            async with shared as session, self._slots, asyncio.timeout(self.endpoint.timeout) as deadline:
                return await self._exchange(session, request, deadline, heard)
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            await self._retire(shared)  # after a restart, its waiting connections are lost too
            raise no_answer(self.endpoint.url, error) from error

    async def close(self) -> None:
        """Close the connections after the last answer; requests under way still get theirs."""
        self._closed = True
        if self._current is not None:
            await self._retire(self._current)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        if self._closed:
            raise RuntimeError(CLOSED)
        if self._loop not in (None, loop):
            raise RuntimeError("the client must stay in one event loop, got another: make one for each")
        self._loop = loop

    def _open(self) -> SharedSession:
        sockets = WeakSet[socket.socket]()

        def connect(address: tuple[Any, ...]) -> socket.socket:
            made = socket.socket(*address[:3])
            sockets.add(made)
            return made

        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                socket_factory=connect,
                keepalive_timeout=self.endpoint.idle,
                ssl=True if self._tls is None else self._tls,
            ),
            headers=self.endpoint.headers,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._current = SharedSession(session, sockets)
        return self._current

    async def _retire(self, shared: SharedSession) -> None:
        if self._current is shared:
            self._current = None
        await shared.retire()

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        request: Request[T],
        deadline: asyncio.Timeout,
        heard: Callable[[Mapping[str, str]], None],
    ) -> T:
        body = request.body
        async with session.request(
            request.method,
            URL(self.endpoint.url + request.path, encoded=True),
            data=LargeBody(io.BytesIO(body)) if body and len(body) > LARGE else body,
            headers=None if body is None else request.headers,
            allow_redirects=False,
        ) as response:
            sink = request.sink(response.status, response.headers)
            while chunk := await response.content.readany():
                sink.write(chunk)
                if not response.content.at_eof():
                    deadline.reschedule(asyncio.get_running_loop().time() + self.endpoint.timeout)
        result = request.result(response.status, response.headers, sink)
        heard(response.headers)
        return result
