"""The service as one process: the web server is embedded, so nothing outlives it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from litestar import Litestar

from linoto.client.endpoint import check_url
from linoto.core.warm_up import warm_up_usual
from linoto.service import traffic
from linoto.service.backups import Backups
from linoto.service.errors import Refused, Repeats, Unavailable
from linoto.service.log_lines import SERVING, LogFormat, log_to_stderr
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import SLICE, SNAPSHOT_EVERY, Clock, Loops
from linoto.service.loops.spreading import Spread
from linoto.service.maintenance import PG_DUMP
from linoto.service.sockets import open_socket
from linoto.service.storage import database
from linoto.service.storage.clocks import since_boot
from linoto.service.storage.connection import AwayError, Connection, InUseError
from linoto.service.storage.log_files import open_folder
from linoto.service.storage.places import Address, Place
from linoto.service.storage.store import BUSY_TIMEOUT, Store
from linoto.service.tls import Tls, tls_of
from linoto.service.web.access import LOOPBACK, Access
from linoto.service.web.access_log import with_access_log
from linoto.service.web.app import make_app
from linoto.service.web.limits import Limits
from linoto.service.web.listener import Listener
from linoto.service.web.loading import AWAY, STANDING_BY, Loading, StandingBy
from linoto.service.web.peers import Peers
from linoto.service.web.request_ids import WithIds
from linoto.service.web.shared import Shared
from linoto.service.web.tracing import Traced, make_tracer, trace_writes
from linoto.service.webhook import SECRET, Webhook

logger = logging.getLogger("linoto.service")
REPEATS = Repeats()
TICK = 1.0  # seconds between two checks for what is due
LOOK = 0.2  # seconds between two looks at who owns the database
REST = 2.0  # times as long as closing some took, in which requests have the service to themselves


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a database is served."""

    host: str = "127.0.0.1"
    port: int = 8080  # 0: any that is free
    logs: Path | None = None  # the folder that new loops may read their logs from
    demo: bool = False
    pace: float = 1.0  # of the demo's traffic: tests make it faster
    log_format: LogFormat = "auto"
    snapshot_every: int = SNAPSHOT_EVERY
    access_log: bool = False  # a line for every request
    traces: bool = False  # spans for every request, by OpenTelemetry
    rate: float | None = None  # requests per second of each caller
    webhook: str | None = None  # where alarms are posted
    webhook_secret: str | None = None  # what they are signed with; None: as the environment says
    limits: Limits = field(default_factory=Limits)  # of connections
    accept_clock: bool = False  # also where every open decision is over by it
    tls_cert: Path | None = None  # certificate chain, in PEM; read again on SIGHUP
    tls_key: Path | None = None  # its key
    advertise: str | None = None  # where other servers of the same database reach this one
    backups: Path | None = None  # the folder for backups
    backup_every: float | None = None  # seconds between two
    backups_kept: int = 7
    drain: float = 10.0  # seconds that requests may take which are under way when it is told to stop
    warnings: tuple[str, ...] = ()  # what is to be said about these settings


@dataclass
class Service:
    """A database and everything in it, ready to be served."""

    store: Store
    loops: Loops
    access: Access
    logs: Path | None = None  # the folder that new loops may read their logs from
    webhook: Webhook | None = None  # where alarms are posted
    accept_clock: bool = True  # also where every open decision is over by it
    spread: Spread | None = None  # which loops are here, where other servers have some of them

    def check_clock(self, loops: Iterable[Loop]) -> None:
        """Refuse loops of which the clock says that all is over, unless it is known to be right."""
        if not self.accept_clock:
            self.loops.check_clock(loops)

    def adopted(self, connection: Connection, loops: Iterable[Loop]) -> None:
        """Loops were read: their alarms are posted."""
        if self.webhook is not None:
            self.webhook.catch_up(connection, loops)

    @cached_property
    def app(self) -> Litestar:
        """What answers by HTTP: making it takes ten times as long as opening a small database."""
        return make_app(self.loops, self.store, self.access, self.logs)

    def close(self, *, snapshots: bool = True) -> None:
        """Leave a snapshot of every loop, which only makes the next start quicker, and the database."""
        try:
            if snapshots:
                self.store.write_sync(self.loops.save_all)
        except Unavailable as error:
            logger.error("no snapshot at the end", extra={"error": str(error)})
        finally:
            self.store.close()
            self.loops.close()


def steady_clock(wall: Clock = time.time, steady: Clock = since_boot) -> Clock:
    """The time of day at the start, and from then on a steady clock: setting the time changes nothing."""
    began = wall() - steady()
    return lambda: began + steady()


def open_service(
    path: Place,
    *,
    clock: Clock | None = None,
    snapshot_every: int = SNAPSHOT_EVERY,
    logs: Path | None = None,
    rate: float | None = None,
    load: bool = True,
    closing: float = SLICE,
    busy_timeout: float = BUSY_TIMEOUT,
    url: str = "",
) -> Service:
    """Own the database and read every loop back, unless that is done later.

    With an address it may be shared with other servers, which reach this one there.
    """
    warm_up_usual()  # once per machine it compiles, which no caller would wait for
    folder = None if logs is None else open_folder(logs)
    loops = Loops(clock or steady_clock(partial(database.now, path)), snapshot_every, closing)
    access = Access(rate=rate)
    store = Store(path, loops.committed, loops.rolled_back, busy_timeout=busy_timeout, url=url)
    try:
        if load:
            store.write_sync(loops.load)
        store.write_sync(access.refresh)
    except BaseException:
        store.close()
        raise
    access.read = store.read_where_written
    service = Service(store, loops, access, folder)
    if store.shared:
        service.spread = Spread(loops, store, service.check_clock, service.adopted)
    return service


def check_address(address: str, access: Access) -> None:
    """Refuse anything but loopback without tokens."""
    if address not in LOOPBACK and not access.tokens:
        raise ValueError(
            f"host must be 127.0.0.1 while there are no tokens, got {address}: see `linoto db token create`"
        )


async def refresh_tokens(service: Service, every: float = TICK) -> None:
    """Read tokens that another process made or revoked, however busy the service is."""
    repeats = Repeats()
    while True:
        await asyncio.sleep(every)
        try:
            await asyncio.to_thread(service.store.read_database, service.access.refresh)
        except Unavailable as error:
            if repeats.is_new(str(error)):
                logger.error("tokens cannot be read", extra={"error": str(error)})


async def watch_owner(service: Service, every: float = LOOK) -> None:
    """End where another server has taken over: whoever restarts this one lets it stand by."""
    while True:
        await asyncio.sleep(every)
        service.store.check_owned()


@cache
def practise() -> None:
    """Make an application once: what is loaded for the first one is there when it must be quick."""
    with TemporaryDirectory() as folder:
        service = open_service(Path(folder) / "practice.sqlite")
        try:
            _ = service.app
        finally:
            service.close()


async def stand_by(
    address: Address, settings: Settings, listening: socket.socket, tls: Tls | None, why: AwayError
) -> None:
    """Answer why the database cannot be had, until it can."""
    if REPEATS.is_new(str(why)):
        logger.info("standing by", extra={"db": str(address), "reason": str(why)})
    context = None if tls is None else tls.context
    app = StandingBy(STANDING_BY if isinstance(why, InUseError) else AWAY)
    listener = Listener(WithIds(app), listening.dup(), settings.limits, context)
    on_signals(lambda: os._exit(0))
    if not os.isatty(0):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    listener.start()
    watching, candidate = asyncio.create_task(listener.watch()), database.candidate(address)
    try:
        await asyncio.to_thread(practise)
        await asyncio.sleep(LOOK)
        while not await asyncio.to_thread(candidate.is_free):
            await asyncio.sleep(LOOK)
    finally:
        candidate.close()
        await listener.close(LOOK, asyncio.Event())
        watching.cancel()


async def tick(service: Service, every: float = TICK) -> None:
    """Close what is due in every loop, also when one of them fails, and none before all others had a turn."""
    while True:
        await asyncio.sleep(every)
        due = list(service.loops.by_name)
        while due:
            due = [name for name in due if await close_some(service, name)]


async def close_some(service: Service, name: str) -> bool:
    """Close some of what is due in a loop, and rest for longer than that took; whether more is due."""
    store, loops = service.store, service.loops
    try:
        if name not in loops.by_name or not loops.is_due(loops.get(name)):
            return False
        seconds = await store.write(lambda connection: seconds_to_close(loops, name, connection))
        await asyncio.sleep(REST * seconds)
        return True
    except Refused:
        return False  # the transaction that made the loop was undone
    except Unavailable as error:
        if REPEATS.is_new(str(error)):
            logger.error("nothing can be closed", extra={"loop": name, "error": str(error)})
    except Exception as error:  # a mistake in our code: requests to this loop answer 500 too
        logger.error("fault", exc_info=error, extra={"loop": name})
    return False


def seconds_to_close(loops: Loops, name: str, connection: Connection) -> float:
    """Close some of what is due in a loop: how long that took, without the wait for the disk."""
    began = time.perf_counter()
    loops.close_due(connection, loops.get(name), SLICE)
    return time.perf_counter() - began


async def serve(service: Service, settings: Settings, listening: socket.socket, tls: Tls | None) -> bool:
    """Serve until SIGTERM or SIGINT; whether requests were then waited for, which a second signal ends."""
    address, port = listening.getsockname()[:2]
    check_address(address, service.access)
    service.access.local = address in LOOPBACK
    loading = Loading(service.loops.by_name, service.store.is_owned, service.store.regain)
    app: Any = with_access_log(service.app) if settings.access_log else service.app
    if service.spread is not None:
        app = Shared(app, service.spread, Peers(settings.tls_cert), service.access)
    served = WithIds(traced(service, loading) if settings.traces else loading)
    listener = Listener(served, listening.dup(), settings.limits, None if tls is None else tls.context)
    listener.start()
    backups = backups_of(service.store.path, settings, service.loops.damaged)
    if tls is not None or not os.isatty(0):  # where there is a terminal, it was closed
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, read_again, tls, app)
    stop, hurry = asyncio.Event(), asyncio.Event()
    on_signals(lambda: os._exit(0))  # nothing was asked for yet, and a thread could not be stopped
    tasks = [run_in_background(listener.watch(), stop.set)]
    try:
        with database.noticing_absence(service.store.path):
            prepare(service, settings)
            if service.spread is None:
                await asyncio.to_thread(load, service, settings)  # compiled code lets others run meanwhile
            else:
                await service.spread.begin()
        loaded = {"db": str(service.store.path), "loops": len(service.loops.by_name)}
        logger.info("recovered", extra=loaded)
        listening.close()  # it was kept for whoever waits until the database can be read
        on_signals(lambda: hurry.set() if stop.is_set() else stop.set())
        loading.app = app
        host = f"[{address}]" if ":" in address else address
        announce(service, f"{'http' if tls is None else 'https'}://{host}:{port}")
        background = [tick(service), refresh_tokens(service), watch_owner(service)]
        if isinstance(app, Shared):
            background += [app.spread.run(), app.keep_peers()]
        if settings.demo:
            background.append(traffic.run_traffic(service.loops, service.store, pace=settings.pace))
        if service.webhook is not None:
            background.append(service.webhook.run(service.store))
        if backups is not None:
            background.append(backups.run())
        show_parts(service, listener, backups)
        tasks += [run_in_background(work, stop.set) for work in background]
        await stop.wait()
        if service.spread is not None and not any(task.done() for task in tasks):
            await service.spread.hand_over(settings.drain, hurry)
    finally:
        await listener.close(settings.drain, hurry)
        try:
            await stop_tasks(tasks)
        finally:
            if isinstance(app, Shared):
                await app.peers.keep(())
            if not hurry.is_set():
                await service.store.drain()
    return not hurry.is_set()


def traced(service: Service, app: Loading) -> Traced:
    """The application and its store, with spans."""
    tracer = make_tracer()
    trace_writes(service.store, tracer)
    return Traced(app, tracer)


def backups_of(path: Place, settings: Settings, damaged: Collection[str] = ()) -> Backups | None:
    """What makes backups, if they are asked for; while loops are damaged, none is deleted."""
    if (settings.backups is None) != (settings.backup_every is None):
        raise ValueError("backups and backup_every must be given together, got one of them")
    if settings.backups is None or settings.backup_every is None:
        return None
    if isinstance(path, Address):
        raise ValueError(f"backups must be of a file of SQLite: {PG_DUMP}")
    every, kept = settings.backup_every, settings.backups_kept
    return Backups(path, Path(settings.backups), every=every, kept=kept, damaged=damaged)


def show_parts(service: Service, listener: Listener, backups: Backups | None) -> None:
    """What parts of the server have to say in the metrics."""
    gauges = service.app.state.metrics.gauges
    damaged = service.loops.damaged
    gauges["linoto_loops_damaged"] = "loops that cannot be read, and are not served", lambda: len(damaged)
    gauges["linoto_connections"] = "open connections", lambda: len(listener.connections)
    webhook = service.webhook
    if webhook is not None:
        gauges["linoto_webhook_waiting"] = "alarms that are not delivered yet", lambda: webhook.waiting
    spread = service.spread
    if spread is not None:
        gauges["linoto_servers"] = "servers that share the database", spread.count_servers
        gauges["linoto_parts"] = (
            "parts of the database, of 128, whose loops are here",
            lambda: len(spread.served),
        )
        service.app.state.metrics.counters |= owner_changes(spread)
    if backups is not None:
        gauges["linoto_backup_age_seconds"] = "since the last backup was complete", backups.age


def owner_changes(spread: Spread) -> dict[str, tuple[str, Callable[[], float]]]:
    """How often loops came here and left since the start."""
    return {
        "linoto_parts_taken": ("parts of the database that came to this server", lambda: spread.parts_taken),
        "linoto_loops_taken": ("loops that came to this server", lambda: spread.loops_taken),
        "linoto_loops_given_up": ("loops that left it for another server", lambda: spread.loops_given_up),
    }


def read_again(tls: Tls | None, app: Any) -> None:
    """Read the certificate again, if there is one: connections from others use it, and those to them."""
    if tls is None:
        logger.info("nothing to read again")
        return
    tls.reload()
    if isinstance(app, Shared):
        app.peers.reload()


def on_signals(stop: Callable[[], None]) -> None:
    """What is done when the process is told to stop."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


def prepare(service: Service, settings: Settings) -> None:
    """What must be known before loops are read."""
    service.accept_clock = settings.accept_clock or settings.demo
    if settings.webhook is not None:
        secret = settings.webhook_secret or os.environ.get(SECRET, "")
        service.webhook = Webhook(settings.webhook, secret)
        service.webhook.follow(service.loops)


def load(service: Service, settings: Settings) -> None:
    """Read every loop back, post their alarms, and make the loops of the demo."""
    loops = service.loops
    service.store.write_sync(loops.load)
    service.check_clock(loops.by_name.values())
    if service.webhook is not None:
        service.store.write_sync(lambda connection: service.adopted(connection, loops.by_name.values()))
    if settings.demo:
        traffic.create_loops(service.loops, service.store)


def announce(service: Service, url: str) -> None:
    """One line for people and one for programs, now that connections are taken."""
    logger.info(SERVING, extra={"url": url, "db": str(service.store.path)})
    gc.freeze()  # what is there now stays: to look for garbage in all of it takes a tenth of a second
    count = len(service.loops.by_name)
    loops = f"{count} loop{'' if count == 1 else 's'}"
    if service.loops.damaged:
        loops += f" (not {', '.join(service.loops.damaged)}: see the log)"
    with suppress(BrokenPipeError):  # nobody reads it: serve all the same
        print(f"linoto: serving {loops} of {service.store.path} at {url} (Ctrl-C stops)", flush=True)


def run_in_background(work: Coroutine[Any, Any, None], stop: Callable[[], None]) -> asyncio.Task[None]:
    """Work in the background of requests; if it fails, the server stops."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            stop()

    task = asyncio.create_task(work)
    task.add_done_callback(ended)
    return task


async def stop_tasks(tasks: list[asyncio.Task[None]]) -> None:
    """Stop the work in the background, and raise the error of one that failed."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):  # not CancelledError, which is a BaseException
            raise outcome


def run(
    path: Place, *, clock: Clock | None = None, listening: socket.socket | None = None, **options: Any
) -> None:
    """Serve a database until told to stop; the options are those of `Settings`.

    `listening` is where connections come, if it was opened before.
    """
    settings = Settings(**options)
    log_to_stderr(settings.log_format)
    for warning in settings.warnings:
        logger.warning(warning)
    tls = tls_of(settings.tls_cert, settings.tls_key)
    with listening or open_socket(settings.host, settings.port, {}) as opened:
        while True:
            try:
                serve_and_close(own(path, clock, settings, opened, tls), settings, opened, tls)
                return
            except AwayError as why:
                assert isinstance(path, Address)
                asyncio.run(stand_by(path, settings, opened, tls, why))


def address_of(listening: socket.socket, tls: Tls | None) -> str:
    """Where others reach a server that was not told its address: by the name of its machine, if need be."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"


def own(
    path: Place, clock: Clock | None, settings: Settings, listening: socket.socket, tls: Tls | None
) -> Service:
    """The service before its loops are read; only a demo needs all of a database on PostgreSQL for itself."""
    if settings.advertise is not None:
        check_url(settings.advertise)
    url = "" if settings.demo else (settings.advertise or address_of(listening, tls)).rstrip("/")
    with database.noticing_absence(path):
        return open_service(
            path,
            clock=clock,
            snapshot_every=settings.snapshot_every,
            logs=settings.logs,
            rate=settings.rate,
            load=False,
            url=url,
        )


def serve_and_close(service: Service, settings: Settings, listening: socket.socket, tls: Tls | None) -> None:
    """Serve, and leave the database as it should be found."""
    drained = False  # nor after a fault: who knows what still runs
    try:
        drained = asyncio.run(serve(service, settings, listening, tls))
    finally:
        service.close(snapshots=drained)
        logger.info("stopped", extra={"db": str(service.store.path)})
