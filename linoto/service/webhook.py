"""Alarms for another program: posted, signed, and tried again, each at its own time; nothing waits for it.

An alarm is put into the outbox in the transaction of its event, and marked there when it was taken: a process
that dies loses none. One that dies between the two posts it again, with the same id.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import msgspec

from linoto.service.errors import Repeats, Unavailable
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import Clock, Loops
from linoto.service.loops.state import Alarm
from linoto.service.storage import outbox
from linoto.service.storage.connection import Connection
from linoto.service.storage.store import Store

logger = logging.getLogger("linoto.service")
SECRET = "LINOTO_WEBHOOK_SECRET"
SIGNATURE = "X-Linoto-Signature"  # "sha256=" and the HMAC of the body, in hexadecimal
TIMEOUT = 10.0  # seconds that a receiver may take to answer
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds between attempts, doubled each time
PATIENCE = 86_400.0  # seconds after which an alarm that is not taken is given up
AT_ONCE = 4  # alarms posted side by side: a receiver that is silent for one is asked for others too
MOST_WAITING = 1000  # alarms that are tried; further ones when some of these are done
LATER = (408, 429)  # of the statuses below 500, those that ask to be asked again


def signature(secret: str, body: bytes) -> str:
    """What a receiver that knows the secret computes again, and compares."""
    return "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()


def id_of(loop: Loop, alarm: Alarm) -> str:
    """The same each time an alarm is sent, so that a receiver can tell."""
    return "-".join([f"{loop.id}-{alarm.seq}-{alarm.kind}", *filter(None, [alarm.metric])])


def message_of(loop: Loop, alarm: Alarm) -> bytes:
    """An alarm as JSON."""
    message = {
        "id": id_of(loop, alarm),
        "loop": loop.name,
        "kind": alarm.kind,
        "at": alarm.at,
        "message": alarm.message,
        "mode": loop.state.mode,
    }
    if alarm.metric:
        message["metric"] = alarm.metric
    return msgspec.json.encode(message)


class KeepPost(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the alarm would be asked for elsewhere, and not told."""

    def redirect_request(self, *_: Any) -> None:
        """Nowhere: the redirect is an answer that does not take the alarm."""


class Webhook:
    """Posts what is in the outbox."""

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        clock: Clock = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        timeout: float = TIMEOUT,
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ValueError(f"webhook must be an http or https address, got {url!r}")
        if not secret:
            raise ValueError(f"the environment must hold a secret for the webhook in {SECRET}, got none")
        self.url, self.secret, self.timeout = url, secret, timeout
        self._clock, self._sleep = clock, sleep
        self._opener = urllib.request.build_opener(KeepPost)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._free = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done = set[str]()  # since the outbox was last asked: its answer may still name them
        self._repeats = Repeats()

    # -- the outbox

    def follow(self, loops: Loops) -> None:
        """Take every alarm from now on into the outbox."""
        loops.on_alarm, loops.after_alarms = self.keep, self.wake

    def catch_up(self, connection: Connection, loops: Iterable[Loop]) -> None:
        """Take the alarms of loops that were just read into the outbox, if nobody has answered them."""
        known = {str(loop.id): loop for loop in loops}
        unanswered = [(loop, alarm) for loop in known.values() for alarm in loop.open_alarms]
        for loop, alarm in unanswered:
            self.keep(connection, loop, alarm)
        outbox.forget(connection, known, [id_of(loop, alarm) for loop, alarm in unanswered])

    def keep(self, connection: Connection, loop: Loop, alarm: Alarm) -> None:
        """Take an alarm into the outbox, if it is not there."""
        outbox.put(connection, id_of(loop, alarm), self._clock(), message_of(loop, alarm))

    def wake(self) -> None:
        """There may be more in the outbox; from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._woken.set)

    @property
    def waiting(self) -> int:
        """Alarms that are being tried."""
        return len(self._tasks)

    # -- posting

    async def run(self, store: Store) -> None:
        """Post what is in the outbox until cancelled."""
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                self._woken.clear()
                known = not store.leads or await self._begin(store)
                again = store.shared or not known  # alarms of other servers wake nobody here
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), FIRST_PAUSE if again else None)
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _begin(self, store: Store) -> bool:
        """Begin to deliver what is new; whether that could be read."""
        self._done.clear()
        try:
            waiting = await asyncio.to_thread(store.read_database, outbox.waiting)
        except Unavailable as error:
            if self._repeats.is_new(str(error)):
                logger.error("alarms cannot be read", extra={"error": str(error)})
            return False
        for id, made_at, body in waiting:
            if id not in self._tasks and id not in self._done and len(self._tasks) < MOST_WAITING:
                self._tasks[id] = asyncio.create_task(self._deliver(store, id, made_at, body))
        return True

    async def _deliver(self, store: Store, id: str, made_at: float, body: bytes) -> None:
        """Try until it is taken, refused, or a day old; what was done is written before it is forgotten."""
        pause = FIRST_PAUSE
        while (error := await self._attempt(body)) is not None:
            refused = isinstance(error, HTTPError) and 400 <= error.code < 500 and error.code not in LATER
            told = {"id": id, "error": str(error)}
            if refused or self._clock() - made_at > PATIENCE:
                logger.error("an alarm was not delivered", extra=told)
                break
            logger.warning("the webhook did not take an alarm", extra=told)
            await self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        await self._finish(store, id, taken=error is None)
        del self._tasks[id]
        self._done.add(id)
        self._woken.set()

    async def _finish(self, store: Store, id: str, *, taken: bool) -> None:
        """One that was given up is tried again after a restart, if nobody has answered it by then."""
        at = self._clock()
        while True:
            try:
                await store.write(lambda connection: outbox.finish(connection, id, at if taken else None))
                return
            except Unavailable:  # logged where requests fail: only what is written again is at stake
                await self._sleep(FIRST_PAUSE)

    async def _attempt(self, body: bytes) -> Exception | None:
        """Post it once, in a thread that the end of the process does not wait for; what went wrong."""
        async with self._free:
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[Exception | None] = loop.create_future()

            def tell(error: Exception | None) -> None:
                if not answer.cancelled():
                    answer.set_result(error)

            def post() -> None:
                error = self._post(body)
                with suppress(RuntimeError):  # the event loop is closed
                    loop.call_soon_threadsafe(tell, error)

            threading.Thread(target=post, name="linoto-webhook", daemon=True).start()
            return await answer

    def _post(self, body: bytes) -> Exception | None:
        headers = {"content-type": "application/json", SIGNATURE: signature(self.secret, body)}
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
        try:
            with self._opener.open(request, timeout=self.timeout) as answer:
                answer.read(1)
        except HTTPError as error:  # every status but 2xx
            error.close()
            return error
        except (OSError, ValueError, HTTPException) as error:
            return error
        return None
