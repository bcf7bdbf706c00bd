"""A client for programs with threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

from linoto.client.endpoint import IDLE_SECONDS, Endpoint
from linoto.client.exchange import Request, Retries
from linoto.client.files import atomic_file, flush_to_disk
from linoto.client.operations import Operations, Returns, export_request
from linoto.client.responses import ServiceError

T = TypeVar("T")


class Client(Returns, Operations):
    """Talks to one service, from any number of threads.

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
        url: str = "http://127.0.0.1:8080",
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
        self._endpoint = Endpoint(
            url, token=token, timeout=timeout, deadline=deadline, retries=retries, idle=idle
        )
        self._pool = Pool(self._endpoint)
        self._sleep = sleep

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._endpoint.url

    def export(self, loop: str, path: str | Path, *, pending: bool = False) -> Path:
        """Decisions and rewards as a Parquet file, a log that `linoto audit` reads; all of it or none."""
        with atomic_file(path) as file:
            self._send(export_request(loop, file, pending=pending))
            flush_to_disk(file)
        return Path(path)

    def close(self) -> None:
        """Close the connections; nothing can be sent afterwards."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _send(self, request: Request[T]) -> T:
        retries = Retries(self._endpoint.retries, self._endpoint.deadline)
        while True:
            try:
                return self._pool.send(request)
            except (ConnectionError, ServiceError) as error:
                pause = retries.pause_after(error)
            self._sleep(pause)
