"""Sends the requests of `Client`, over urllib3."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ClosedPoolError, HTTPError

from linoto.client.endpoint import CLOSED, Endpoint
from linoto.client.exchange import Request, no_answer

T = TypeVar("T")
KEPT = 256  # connections at most that wait for the next request; further ones are closed after use


class FreshConnection(HTTPConnection):
    """A connection that is not used again after a long pause."""

    def __init__(self, *args: Any, idle: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._idle, self._used = idle, 0.0

    def request(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request."""
        self._used = time.monotonic()
        return super().request(*args, **kwargs)

    @property
    def is_connected(self) -> bool:
        """Whether the next request may use it."""
        return time.monotonic() - self._used < self._idle and super().is_connected


class SecureConnection(FreshConnection, HTTPSConnection):
    """The same over TLS."""


class Pool:
    """Connections to one service, safe to share among threads."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        tls = endpoint.tls()
        options: dict[str, Any] = {} if tls is None else {"ssl_context": tls}
        self._pool = urllib3.connection_from_url(endpoint.url, maxsize=KEPT, idle=endpoint.idle, **options)
        self._pool.ConnectionCls = FreshConnection if tls is None else SecureConnection

    def send(self, request: Request[T], heard: Callable[[Mapping[str, str]], None]) -> T:
        """Send a request once; `heard` gets the head of a good answer; ConnectionError without one."""
        try:
            return self._exchange(request, heard)
        except ClosedPoolError:
            raise RuntimeError(CLOSED) from None
        except (HTTPError, ConnectionError) as error:
            raise no_answer(self.endpoint.url, error) from error

    def close(self) -> None:
        """Close the unused connections now, the others after their answer."""
        self._pool.close()

    def _exchange(self, request: Request[T], heard: Callable[[Mapping[str, str]], None]) -> T:
        with self._pool.urlopen(
            request.method,
            self.endpoint.path + request.path,
            body=request.body,
            headers=self.endpoint.headers
            if request.body is None
            else self.endpoint.headers | request.headers,
            timeout=self.endpoint.timeout,
            retries=False,
            preload_content=False,
            decode_content=False,
        ) as response:
            sink = request.sink(response.status, response.headers)
            for chunk in response.stream():
                sink.write(chunk)
        result = request.result(response.status, response.headers, sink)
        heard(response.headers)
        return result
