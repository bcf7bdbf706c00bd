"""One connection: how long it may take, and how it is refused; parsing and answering are uvicorn's."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Protocol

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from linoto.service.web.limits import Limits
from linoto.service.web.messages import error_body
from linoto.service.web.request_ids import request_id

MOST_HEAD = 65_536  # bytes of the first line and the headers together
SLOWEST_BODY = 65_536  # bytes: each that many that have come give a body one more second
UNREAD = 2.0  # seconds that the rest of a body may take when the answer was sent before
SILENT, READING, BUSY, IDLE = "silent", "reading", "busy", "idle"
ONCE = (b"host", b"authorization", b"origin", b"content-type")  # headers that say who asks, and what comes
BAD = (400, "bad_request")
TOO_LARGE = (431, "too_large", f"the headers of a request must be at most {MOST_HEAD} bytes, got more")


class HeadRefused(Exception):  # noqa: N818 - an answer, not a fault
    """A head that is too long, or says two things at once; its arguments are those of `refuse`."""


class Host(Protocol):
    """Who has taken a connection, and hears what becomes of it."""

    config: Config
    state: ServerState
    limits: Limits
    loop: asyncio.AbstractEventLoop

    def came(self, connection: Connection) -> None: ...
    def moved(self, connection: Connection, phase: str) -> None: ...
    def left(self, connection: Connection) -> None: ...


class Connection(HttpToolsProtocol):
    """A connection with one deadline at a time: for a head, for a body, for the next request.

    It is `silent` until the head of its first request is complete, and again while it sends a body whose
    answer it has; `reading` while a body is not all here; `busy` while a request is answered; `idle` between
    two requests.
    """

    def __init__(self, listener: Host) -> None:
        super().__init__(listener.config, listener.state, {}, listener.loop)
        self.listener, self.limits = listener, listener.limits
        self.deadline = inf
        self.phase = SILENT
        self.head = 0  # bytes of the head as it is parsed
        self.pending = 0  # and as it came, while it is not complete
        self.heard = 0.0  # when a part of a body came last
        self.reading_head = False
        self.reading_body = False
        self.unsent = 0  # bytes of an answer, when it was last looked whether it is being read

    # -- what the transport says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody came."""
        super().connection_made(transport)
        self.deadline = self.loop.time() + self.limits.head
        self.listener.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody left."""
        super().connection_lost(exc)
        self.listener.left(self)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request, or of several."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            why = error.__context__
            told = (
                why.args
                if isinstance(why, HeadRefused)
                else (*BAD, "the request must be HTTP/1.1, got something else")
            )
            self.refuse(*told)
            return
        except httptools.HttpParserUpgrade:
            self.cycle.keep_alive = False  # answered as if it had not asked for another protocol
        if self.reading_head:
            self.pending += len(data)
            if self.pending > MOST_HEAD:
                self.refuse(*TOO_LARGE)
        elif self.reading_body and self.phase in (BUSY, READING):
            self.heard = self.loop.time()
            self.listener.moved(self, READING)

    def pause_writing(self) -> None:
        """The answer is not being read."""
        super().pause_writing()
        self.unsent = self.transport.get_write_buffer_size()
        self.deadline = self.loop.time() + self.limits.idle

    def resume_writing(self) -> None:
        """It is read again; maybe to its end, after which the next request is waited for."""
        super().resume_writing()
        self.deadline = inf if self.phase in (BUSY, READING) else self.loop.time() + self.limits.idle

    # -- what the parser says

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.reading_head, self.head, self.pending = True, 0, 0
        if self.phase is not BUSY:  # else it was sent before the last answer: nobody is waiting for it
            self.deadline = self.loop.time() + self.limits.head

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One more header."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self.head += size
        if self.head > MOST_HEAD:
            raise HeadRefused(*TOO_LARGE)

    def on_headers_complete(self) -> None:
        """A request to be answered; its body may still come."""
        names = [name for name, _ in self.headers if name in ONCE]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1).decode()
            raise HeadRefused(*BAD, f"the header {twice!r} must be given once, got it twice")
        self.reading_head, self.reading_body = False, True
        self.deadline = self.loop.time() + self.limits.body
        self.listener.moved(self, BUSY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self.deadline += len(body) / SLOWEST_BODY
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it is here: from now on it waits for us."""
        self.reading_body = False
        self.deadline = inf
        if self.phase is READING:
            self.listener.moved(self, BUSY)
        super().on_message_complete()
        if self.cycle.response_complete:
            self._rest()

    # -- what the application says

    def on_response_complete(self) -> None:
        """The answer was sent; where the body is not all here, nobody will read the rest of it."""
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self.deadline = self.loop.time() + self.limits.body if self.reading_body else inf
            self._start_asgi_task(*self.pipeline.pop())
        elif self.reading_body:
            self.deadline = self.loop.time() + UNREAD
            self.listener.moved(self, SILENT)
        else:
            self._rest()

    def _rest(self) -> None:
        self.deadline = self.loop.time() + self.limits.idle
        self.listener.moved(self, IDLE)

    # -- what the listener says

    def is_stalled(self) -> bool:
        """Whether it began a body and does not go on with it, so that others may have its place."""
        ours = self.flow.read_paused or self.pipeline  # we are answering, or did not read
        return not ours and self.loop.time() - self.heard >= self.limits.stall

    def expire(self) -> None:
        """The time is over."""
        if self.flow.write_paused and self.transport.get_write_buffer_size() < self.unsent:
            self.pause_writing()  # slowly, but it is being read
        elif self.flow.write_paused:
            self.transport.abort()
        elif self.flow.read_paused:  # it was us who did not read
            self.deadline = self.loop.time() + self.limits.body
        elif self.reading_body and self.phase in (BUSY, READING):
            self.refuse(408, "timeout", "the body of the request took too long")
        elif self.reading_head:
            self.refuse(408, "timeout", "the headers of the request took too long")
        else:
            self.transport.close()

    def refuse(self, status: int, code: str, message: str) -> None:
        """Answer without the application, and close."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        open_cycle = None if cycle is None or cycle.response_complete else cycle
        if open_cycle is not None and open_cycle.response_started:
            self.transport.abort()
            return
        id = request_id(self.headers or ())
        body = error_body(code, message, id)
        head = b"content-type: application/json\r\nconnection: close\r\nx-request-id: %s\r\n" % id.encode()
        head += b"content-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
        if open_cycle is not None:
            open_cycle.disconnected = True
            open_cycle.message_event.set()
