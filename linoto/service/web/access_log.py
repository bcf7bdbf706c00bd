"""One line of log per request, if asked for: caller, path, status and time."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from litestar import Litestar

logger = logging.getLogger("linoto.access")
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)  # seconds


class Latency:
    """How many requests took how long, for each class of status: "2xx", "4xx" and so on."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}  # up to each bound, and above the last
        self.seconds: dict[str, float] = {}

    def observe(self, status: int, seconds: float) -> None:
        """One more request."""
        kind = f"{status // 100}xx"
        counts = self.counts.setdefault(kind, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds


class AccessLog:
    """An application whose requests are logged and timed, but neither their headers nor their bodies."""

    def __init__(self, app: Any, clock: Callable[[], float] = time.perf_counter) -> None:
        self.app, self.clock, self.latency = app, clock, Latency()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request; its status is 0 if no answer was sent."""
        began, status = self.clock(), 0

        async def note_status(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, note_status)
        finally:
            self._log(scope, status, self.clock() - began)

    def _log(self, scope: Any, status: int, seconds: float) -> None:
        self.latency.observe(status, seconds)
        caller = scope.get("user")
        line = {"method": scope["method"], "path": scope["path"], "status": status}
        line |= {"ms": round(1000 * seconds, 3), "caller": None if caller is None else caller.name}
        line["id"] = scope.get("request_id")
        logger.info("request", extra=line)


def with_access_log(app: Litestar) -> AccessLog:
    """The application with a log of its requests, and with their times in its metrics."""
    wrapped = AccessLog(app)
    app.state["latency"] = wrapped.latency
    return wrapped
