"""HTTP/1.1 over asyncio streams: as much of it as a client of one service needs."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Any

from linoto.client.answers import Answer
from linoto.client.calls import PIECE, Call
from linoto.client.endpoint import KEPT, Endpoint

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Take = Callable[[bytes], None]


class Streams:
    """Connections of one event loop to one service, at most `connections` of them at a time."""

    def __init__(self, endpoint: Endpoint, *, connections: int) -> None:
        if connections < 1:
            raise ValueError(f"connections must be a whole number >= 1, got {connections!r}")
        self.endpoint = endpoint
        self._tls = endpoint.tls()
        self._slots = asyncio.Semaphore(connections)
        self._idle: list[tuple[float, Stream]] = []  # since when, the latest last
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def send(self, call: Call[Any]) -> Answer:
        """Send a request once; an OSError if its answer is lost, and with it whether it was done."""
        self._check()
        request = request_of(self.endpoint, call)
        try:
            async with self._slots, asyncio.timeout(self.endpoint.timeout) as deadline:
                return await self._exchange(request, call, deadline)
        except EOFError as error:
            self._drop()  # the others have met the same end, where the service was started anew
            raise ConnectionError("the connection was closed before the end of the answer") from error
        except OSError:
            self._drop()
            raise
        except (asyncio.LimitOverrunError, ValueError) as error:
            raise ConnectionError(f"the answer was not as HTTP has it: {error}") from error

    async def close(self) -> None:
        """Close those that wait now, and the others when their answer is there."""
        self._closed = True
        self._drop()
        await asyncio.sleep(0)  # the event loop closes them on its next turn

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        if self._closed:
            raise RuntimeError("the client must be open to be asked, got one that was closed")
        if self._loop not in (None, loop):
            raise RuntimeError("the client must stay in one event loop, got another: make one for each")
        self._loop = loop

    async def _exchange(self, request: bytes, call: Call[Any], deadline: asyncio.Timeout) -> Answer:
        reader, writer = self._waiting() or await asyncio.open_connection(
            self.endpoint.host, self.endpoint.port, ssl=self._tls
        )
        clock, again = asyncio.get_running_loop().time, False

        def progress() -> None:
            deadline.reschedule(clock() + self.endpoint.timeout)

        try:
            writer.write(request)  # not drained: what is too large is refused before it is read
            answer, again = await receive(reader, call, progress)
            again = again and not writer.transport.get_write_buffer_size()
            return answer
        finally:  # a request that was cancelled leaves its answer in the connection, so nobody may have it
            if again and not self._closed:
                self._idle.append((clock(), (reader, writer)))
            else:
                writer.transport.abort()

    def _waiting(self) -> Stream | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            since, (reader, writer) = self._idle.pop()
            if now - since < KEPT and not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.transport.abort()
        return None

    def _drop(self) -> None:
        while self._idle:
            _, (_, writer) = self._idle.pop()
            writer.transport.abort()


def request_of(endpoint: Endpoint, call: Call[Any]) -> bytes:
    """A request as it goes over the wire."""
    headers = {"host": endpoint.authority, "accept-encoding": "identity", **endpoint.headers(call)}
    if call.body is not None:
        headers["content-length"] = str(len(call.body))
    lines = [f"{call.method} {endpoint.path}{call.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (call.body or b"")


async def receive(
    reader: asyncio.StreamReader, call: Call[Any], progress: Callable[[], None]
) -> tuple[Answer, bool]:
    """Read an answer to its end; whether another can follow on the same connection."""
    version, status, headers = await read_head(reader)
    memory = io.BytesIO()
    sink = call.sink(status, memory)

    def take(piece: bytes) -> None:
        progress()
        sink.write(piece)  # at most 64 KB, into the page cache: less work than handing it to a thread

    await copy_body(reader, headers, take)
    again = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
    return Answer(status=status, body=memory.getvalue(), retry_after=headers.get("retry-after")), again


async def read_head(reader: asyncio.StreamReader) -> tuple[str, int, dict[str, str]]:
    """Version, status and headers of an answer, after any that are only provisional."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        version, status = first.split()[:2]
        if not version.startswith("HTTP/1."):
            raise ValueError(f"version must be HTTP/1, got {version!r}")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if int(status) >= 200:
            return version, int(status), headers


async def copy_body(reader: asyncio.StreamReader, headers: dict[str, str], take: Take) -> None:
    """Hand on a body, in pieces, to the end that it names: without one, what is cut off looks whole."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            await copy(reader, size, take)
            await reader.readexactly(2)  # the end of its last line
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass  # headers after the body, of which none matters
        return
    if "content-length" not in headers:
        raise ValueError("an answer must say where it ends")
    await copy(reader, int(headers["content-length"]), take)


async def copy(reader: asyncio.StreamReader, size: int, take: Take) -> None:
    """Hand on so many bytes, in pieces."""
    if size < 0:
        raise ValueError(f"size must be >= 0, got {size}")
    while size > 0:
        piece = await reader.read(min(size, PIECE))
        if not piece:
            raise EOFError
        take(piece)
        size -= len(piece)
