"""Alarms for another program: posted, signed, and tried again, in a thread that nothing waits for."""

from __future__ import annotations

import hmac
import logging
import queue
import threading
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from linoto.service.loops.loop import Loop
from linoto.service.loops.state import Alarm

logger = logging.getLogger("linoto.service")
SECRET = "LINOTO_WEBHOOK_SECRET"
SIGNATURE = "X-Linoto-Signature"  # "sha256=" and the HMAC of the body, in hexadecimal
TIMEOUT = 10.0  # seconds that a receiver may take to answer
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds between attempts, doubled each time
ATTEMPTS = 20  # about an hour
MOST_WAITING = 1000  # alarms; more are only logged


def signature(secret: str, body: bytes) -> str:
    """What a receiver that knows the secret computes again, and compares."""
    return "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()


def message_of(loop: Loop, alarm: Alarm) -> bytes:
    """An alarm as JSON. The id is the same each time it is sent, so that a receiver can tell."""
    message = {
        "id": f"{loop.id}-{alarm.seq}-{alarm.kind}",
        "loop": loop.name,
        "kind": alarm.kind,
        "at": alarm.at,
        "message": alarm.message,
        "mode": loop.state.mode,
    }
    return msgspec.json.encode(message)


class Webhook:
    """Posts alarms one after the other, from a thread of its own."""

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        wait: Callable[[float], bool] | None = None,
        attempts: int = ATTEMPTS,
        timeout: float = TIMEOUT,
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ValueError(f"webhook must be an http or https address, got {url!r}")
        if not secret:
            raise ValueError(f"the environment must hold a secret for the webhook in {SECRET}, got none")
        self.url, self.secret, self.attempts, self.timeout = url, secret, attempts, timeout
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait  # seconds; True to stop
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="linoto-webhook", daemon=True)
        self._thread.start()

    def send(self, loop: Loop, alarm: Alarm) -> None:
        """Send an alarm soon; never waits, never fails."""
        try:
            self._waiting.put_nowait(message_of(loop, alarm))
        except queue.Full:
            logger.error("too many alarms wait for the webhook", extra={"loop": loop.name})

    def close(self) -> None:
        """Stop; what is not delivered is sent again at the next start, unless it is answered by then."""
        self._stopping.set()
        with suppress(queue.Full):  # then the thread looks at `_stopping` soon enough
            self._waiting.put_nowait(None)
        self._thread.join(self.timeout + 1)

    def _run(self) -> None:
        while not self._stopping.is_set():
            body = self._waiting.get()
            if body is not None:
                self._deliver(body)

    def _deliver(self, body: bytes) -> None:
        """Try until it is taken."""
        pause, error = FIRST_PAUSE, ""
        for attempt in range(self.attempts):
            if attempt and self._wait(pause):
                return
            pause = min(2 * pause if attempt else pause, LONGEST_PAUSE)
            try:
                self._post(body)
                return
            except (OSError, ValueError) as failure:  # also every status but 2xx
                error = str(failure)
                logger.warning("the webhook did not take an alarm", extra={"error": error})
        logger.error("an alarm was not delivered", extra={"error": error})

    def _post(self, body: bytes) -> None:
        headers = {"content-type": "application/json", SIGNATURE: signature(self.secret, body)}
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=self.timeout) as answer:
            answer.read(1)
