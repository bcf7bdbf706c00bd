"""The service as one process: the web server is embedded, so nothing outlives it."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from granian.constants import Interfaces
from granian.server.embed import Server
from litestar import Litestar

from linoto.service.access import LOOPBACK, Access
from linoto.service.app import make_app
from linoto.service.errors import Unavailable
from linoto.service.loops import SNAPSHOT_EVERY, Clock, Loops
from linoto.service.store import Store

logger = logging.getLogger("linoto.service")
TICK = 1.0  # seconds between looks for what is due
PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@dataclass
class Service:
    """A database and everything in it, ready to be served."""

    store: Store
    loops: Loops
    access: Access
    app: Litestar

    def close(self) -> None:
        """Leave a snapshot of every loop, and the database."""
        try:
            self.store.call(self.loops.save_all)
        except Unavailable as error:
            logger.error("no snapshot at the end", extra={"error": str(error)})
        self.store.close()


def open_service(path: Path, *, clock: Clock = time.time, snapshot_every: int = SNAPSHOT_EVERY) -> Service:
    """Own the database, read every loop back, and make the application."""
    loops, access = Loops(clock, snapshot_every), Access()
    store = Store(path, on_commit=loops.committed, on_rollback=loops.rolled_back)
    try:
        store.call(loops.load)
        store.call(access.refresh)
    except BaseException:
        store.close()
        raise
    return Service(store, loops, access, make_app(loops, store, access))


def check_address(host: str, port: int, access: Access) -> int:
    """The port to serve on; refuses one in use, and anything but loopback without tokens."""
    if host not in LOOPBACK and not access.tokens:
        raise ValueError(
            f"host must be 127.0.0.1 while there are no tokens, got {host}: see `linoto token create`"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:  # the server would share a port with another, silently
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(f"cannot serve on {host}:{port}: {error.strerror}") from error
        return int(probe.getsockname()[1])


async def tick(service: Service) -> None:
    """Close what is due, and notice tokens that were made or revoked."""
    while True:
        await asyncio.sleep(TICK)
        try:
            while await service.store.ask(service.loops.close_all_due):
                pass  # a few at a time, so that requests can come between
            await service.store.ask(service.access.refresh)
        except Unavailable as error:
            logger.error("tick failed", extra={"error": str(error)})


async def serve(service: Service, host: str, port: int, started: Callable[[int], None]) -> None:
    """Serve until SIGTERM or SIGINT; `started` is told the port."""
    host = "127.0.0.1" if host == "localhost" else host
    port = check_address(host, port, service.access)
    service.access.local = host in LOOPBACK
    server = Server(
        service.app,
        address=host,
        port=port,
        interface=Interfaces.ASGINL,
        websockets=False,
        backlog=1024,
        log_enabled=False,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    server.on_startup(lambda: started(port))
    ticking = asyncio.create_task(tick(service))
    try:
        await server.serve()
    finally:
        ticking.cancel()
        await service.store.drain()


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message and whatever was given as `extra`."""
        line: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        line.update((key, value) for key, value in vars(record).items() if key not in PLAIN)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr() -> None:
    """Structured logs of the service, and nothing of the libraries below warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger("linoto")
    root.handlers, root.propagate = [handler], False
    root.setLevel(logging.INFO)


def run(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    clock: Clock = time.time,
    snapshot_every: int = SNAPSHOT_EVERY,
) -> None:
    """Serve a database until told to stop."""
    log_to_stderr()
    service = open_service(path, clock=clock, snapshot_every=snapshot_every)
    logger.info("recovered", extra={"db": str(path), "loops": len(service.loops.by_name)})

    def started(actual: int) -> None:
        logger.info("serving", extra={"url": f"http://{host}:{actual}", "db": str(path)})

    try:
        asyncio.run(serve(service, host, port, started))
    finally:
        service.close()
        logger.info("stopped", extra={"db": str(path)})
