"""A client for programs with threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar

from linoto.client.endpoint import IDLE_SECONDS
from linoto.client.exchange import Request
from linoto.client.files import atomic_file, flush_to_disk
from linoto.client.operations import Operations, Returns, export_request
from linoto.client.responses import ServiceError
from linoto.client.servers import Attempts, Servers

T = TypeVar("T")


class Client(Returns, Operations):
    """Talks to one service, from any number of threads.

    Where several servers share a database, give all their addresses: `Client(["http://a", "http://b"])` asks
    the one that has the loop, and another one when that does not answer.

    `timeout` is in seconds until an answer begins, or goes on. What may pass (no answer, 429, 503) is sent
    again, after pauses that double up to a second or for as long as the service says, until `deadline`
    seconds have passed; or, if you give it, `retries` times. So the service can be restarted meanwhile. A
    connection that was not used for `idle` seconds is not used again: a proxy may have closed its end.

    >>> client = Client("http://127.0.0.1:8080", token="...")
    >>> client.url
    'http://127.0.0.1:8080'

    With a service at `url`:

    >>> def visit(url):
    ...     with Client(url) as client:
    ...         decision = client.decide("banner", key="visit-17")
    ...         client.reward("banner", decision.decision_id, 1.0)
    ...         return decision.arm
    """

    def __init__(
        self,
        url: str | Sequence[str] = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        timeout: float = 10.0,
        deadline: float = 30.0,
        retries: int | None = None,
        idle: float = IDLE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            from linoto.client.urllib3_pool import Pool
        except ModuleNotFoundError as error:
            raise ImportError(f'Client needs {error.name}: pip install "linoto[client]"') from None
        self._servers = Servers(
            url, token=token, timeout=timeout, deadline=deadline, retries=retries, idle=idle
        )
        self._pools = [Pool(endpoint) for endpoint in self._servers.endpoints]
        self._sleep = sleep

    @property
    def url(self) -> str:
        """Where the service is; the first address where several were given."""
        return self._servers.endpoints[0].url

    def export(self, loop: str, path: str | Path, *, pending: bool = False) -> Path:
        """Decisions and rewards as a Parquet file, a log that `linoto audit` reads; all of it or none."""
        with atomic_file(path) as file:
            self._send(export_request(loop, file, pending=pending))
            flush_to_disk(file)
        return Path(path)

    def close(self) -> None:
        """Close the connections; nothing can be sent afterwards."""
        for pool in self._pools:
            pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _send(self, request: Request[T]) -> T:
        attempts = Attempts(self._servers, request)
        while True:
            try:
                return self._pools[attempts.place].send(request, attempts.heard)
            except (ConnectionError, ServiceError) as error:
                pause = attempts.pause_after(error)
            self._sleep(pause)
