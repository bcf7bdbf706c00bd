"""Who gets a connection: a limited number, those who speak before those who are silent, 503 beyond."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from itertools import chain, islice
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from linoto.service.errors import Repeats
from linoto.service.sockets import BACKLOG
from linoto.service.web.connection import BUSY, IDLE, READING, SILENT, Connection
from linoto.service.web.limits import Limits
from linoto.service.web.messages import error_body

logger = logging.getLogger("linoto.service")
AT_ONCE = 64  # connections taken before requests get their turn
TURNED_AWAY = 64  # connections beyond the limit that are kept until their request was answered with 503
LOOKS = 64  # connections that are looked at to find one that is silent
SPARE_FILES = 16  # file descriptors kept free, to say 503 when there are none left
OTHER_FILES = 128  # file descriptors for the database, for its readers and for exports
PAUSE = 0.2  # seconds in which the last callers without a file descriptor may read their 503
NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
FULL = "the service has as many connections as it may: ask again"


class Listener:
    """Takes connections on a socket, closes those that take too long, and ends all of them at the end."""

    def __init__(
        self, app: Any, listening: socket.socket, limits: Limits, tls: ssl.SSLContext | None = None
    ) -> None:
        self.listening, self.limits, self.tls = listening, limits, tls
        self.state = ServerState()
        self.config = Config(
            app,
            interface="asgi3",
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
        )
        self.config.load()
        self.loop = asyncio.get_running_loop()
        self.most = affordable(limits.connections)
        self.waiting: dict[str, dict[Connection, None]] = {
            SILENT: {},
            READING: {},
            IDLE: {},
        }  # those that wait longest first
        self.turned_away: set[Connection] = set()
        self._spare: list[int] = []
        self._repeats = Repeats()
        self._joining: dict[asyncio.Task[Any], None] = {}  # oldest first

    def start(self) -> None:
        """Take connections from now on."""
        self.listening.setblocking(False)
        self.listening.listen(BACKLOG)
        self._take_spare_files()
        self.loop.add_reader(self.listening, self._accept)

    async def watch(self) -> None:
        """Close what takes too long, and tell the time."""
        limits = self.limits
        every = min(0.5, limits.head / 4, limits.body / 4, limits.idle / 4)
        while True:
            self.state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
            now = self.loop.time()
            for connection in [one for one in self.connections if one.deadline <= now]:
                connection.expire()
            await asyncio.sleep(every)

    async def close(self, drain: float, hurry: asyncio.Event) -> None:
        """Take no more, answer what was asked, for `drain` seconds at the most; then close the rest."""
        self.loop.remove_reader(self.listening)
        self.listening.close()
        for connection in list(self.connections):
            connection.shutdown()
        end = self.loop.time() + drain
        while self.connections and self.loop.time() < end and not hurry.is_set():
            await asyncio.sleep(0.01)
        if self.connections:
            logger.warning("requests were still incomplete", extra={"connections": len(self.connections)})
        for connection in list(self.connections):
            connection.refuse(503, "unavailable", "the service is stopping")
        for file in self._spare:
            os.close(file)

    @property
    def connections(self) -> set[Connection]:
        """All there are."""
        return self.state.connections  # type: ignore[return-value]

    # -- what connections say

    def came(self, connection: Connection) -> None:
        """One more; beyond the limit it takes the place of one that is silent, or is told 503."""
        if len(self.connections) - len(self.turned_away) > self.most and not self._make_room():
            if len(self.turned_away) >= TURNED_AWAY:
                connection.transport.abort()
                return
            self.turned_away.add(connection)
            connection.app = say_full
        self.waiting[SILENT][connection] = None

    def moved(self, connection: Connection, phase: str) -> None:
        """It speaks, or waits."""
        if connection.phase is not BUSY:
            self.waiting[connection.phase].pop(connection, None)
        connection.phase = phase
        if phase is not BUSY:
            self.waiting[phase][connection] = None

    def left(self, connection: Connection) -> None:
        """One less."""
        self.moved(connection, BUSY)
        self.turned_away.discard(connection)

    def _make_room(self) -> bool:
        """Close the one that has been silent for longest, or in the middle of a body, or else idle.

        Never one that speaks.
        """
        stalled = (one for one in islice(self.waiting[READING], LOOKS) if one.is_stalled())
        silent, idle = (islice(self.waiting[phase], LOOKS) for phase in (SILENT, IDLE))
        longest = next((one for one in chain(silent, stalled, idle) if not has_sent(one.transport)), None)
        if longest is None:
            return False
        if longest.phase is READING:
            longest.refuse(408, "timeout", "the body of the request took too long while others were waiting")
        else:
            longest.transport.abort()
        self.connections.discard(longest)
        self.left(longest)
        return True

    # -- accepting

    def _accept(self) -> None:
        """Take the connections that wait."""
        for _ in range(AT_ONCE):
            try:
                accepted, _ = self.listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_none(error)
                return
            accepted.setblocking(False)
            task = self.loop.create_task(self._join(accepted))
            self._joining[task] = None
            task.add_done_callback(self._joining.pop)
            if self.tls is not None and len(self._joining) > self.most:  # silent in their handshakes
                next(iter(self._joining)).cancel()

    async def _join(self, accepted: socket.socket) -> None:
        limit = None if self.tls is None else self.limits.head
        with suppress(OSError):  # it left at once, or speaks no TLS
            await self.loop.connect_accepted_socket(
                lambda: Connection(self), accepted, ssl=self.tls, ssl_handshake_timeout=limit
            )

    def _accept_none(self, error: OSError) -> None:
        """There is no file descriptor for a connection: say 503 with those kept for that, and make room."""
        if self._repeats.is_new(str(error)):
            logger.error("no connection can be taken", extra={"error": str(error)})
        self.loop.remove_reader(self.listening)
        for file in self._spare:
            os.close(file)
        refused = refuse_some(self.listening, len(self._spare)) if error.errno in NO_FILES else []
        self._spare = []
        self._make_room()
        self.loop.call_later(PAUSE, self._accept_again, refused)

    def _accept_again(self, refused: list[socket.socket]) -> None:
        for each in refused:
            with suppress(OSError):
                each.recv(65_536)  # closed with unread bytes, the answer could be lost on its way
            each.close()
        self._take_spare_files()
        if self.listening.fileno() >= 0:
            self.loop.add_reader(self.listening, self._accept)

    def _take_spare_files(self) -> None:
        with suppress(OSError):
            while len(self._spare) < SPARE_FILES:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def has_sent(transport: asyncio.BaseTransport) -> bool:
    """Whether there are bytes that we have not read yet: of many that come at once, some had no turn."""
    found = select.poll()
    found.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return any(event & select.POLLIN for _, event in found.poll(0))


def affordable(connections: int) -> int:
    """As many connections as asked for, or as the system's limit of file descriptors allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + TURNED_AWAY + SPARE_FILES + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < needed:
            fewer = max(1, connections - (needed - soft))
            logger.warning("fewer connections than asked for", extra={"connections": fewer, "files": soft})
            return fewer
    return connections


def refuse_some(listening: socket.socket, most: int) -> list[socket.socket]:
    """Take connections only to say 503; they are to be closed when that was read."""
    refused = []
    with suppress(OSError):
        for _ in range(most):
            accepted, _ = listening.accept()
            accepted.setblocking(False)
            refused.append(accepted)
            accepted.send(b"HTTP/1.1 503 Service Unavailable\r\n" + full_head() + FULL_BODY)
            accepted.shutdown(socket.SHUT_WR)
    return refused


FULL_BODY = error_body("busy", FULL)
FULL_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", b"%d" % len(FULL_BODY)),
    (b"retry-after", b"1"),
    (b"connection", b"close"),
]


def full_head() -> bytes:
    """The headers of that answer as bytes."""
    return b"".join(b"%b: %b\r\n" % header for header in FULL_HEADERS) + b"\r\n"


async def say_full(scope: Any, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    """The answer to every request on a connection beyond the limit."""
    await send({"type": "http.response.start", "status": 503, "headers": FULL_HEADERS})
    await send({"type": "http.response.body", "body": FULL_BODY, "more_body": False})
