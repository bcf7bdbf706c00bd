"""A client for programs with threads, over the standard library's HTTP."""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from linoto.client import calls
from linoto.client.answers import Answer, Patience, is_good
from linoto.client.calls import PIECE, Call, describe
from linoto.client.endpoint import KEPT, Endpoint
from linoto.client.files import WholeFile

P = ParamSpec("P")
T = TypeVar("T")
LOST = (http.client.HTTPException, OSError)  # the answer is lost, and with it whether it was done


def asking(operation: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """The method that asks for this operation."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._answer(operation(*args, **kwargs))

    describe(method, operation)
    return method


class Client:
    """Talks to one service, from any number of threads.

    `timeout` is in seconds until an answer begins, or goes on. What may pass (no answer, 429, 503) is asked
    up to `retries` times again, after pauses that double or for as long as the service says.

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
        retries: int = 6,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connections = Connections(Endpoint(url, token, timeout, retries))
        self._sleep = sleep

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._connections.endpoint.url

    create = asking(calls.create)
    loops = asking(calls.loops)
    loop = asking(calls.loop)
    spec = asking(calls.spec)
    change = asking(calls.change)
    archive = asking(calls.archive)

    decide = asking(calls.decide)
    reward = asking(calls.reward)
    rewards = asking(calls.rewards)

    arms = asking(calls.arms)
    decisions = asking(calls.decisions)
    explain = asking(calls.explain)
    history = asking(calls.history)
    report = asking(calls.report)

    def export(self, loop: str, path: str | Path, *, pending: bool = False) -> Path:
        """Decisions and rewards as a Parquet file, a log that `linoto audit` reads; all of it or none."""
        file = WholeFile(path)
        try:
            self._answer(calls.export(loop, file, pending=pending))
            return file.keep()
        finally:
            file.discard()

    def close(self) -> None:
        """Let go of the connections; nothing can be asked afterwards."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _answer(self, call: Call[T]) -> T:
        endpoint = self._connections.endpoint
        patience = Patience(endpoint.url, retries=endpoint.retries)
        while True:
            try:
                answer = self._connections.send(call)
            except LOST as error:
                pause = patience.lost(error)
            else:
                if is_good(answer.status):
                    return call.result(answer)
                pause = patience.refused(answer)
            self._sleep(pause)

    def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        """Anything at all, answered as it comes."""
        data = None if body is None else calls.plain(body)
        return self._answer(Call(method=method, path=path, body=data, read=bytes))


class Connections:
    """Connections to one service that wait for their next request; safe to share among threads."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._tls = endpoint.tls()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []  # since when, the latest last
        self._closed = False

    def send(self, call: Call[Any]) -> Answer:
        """Send a request once."""
        connection = self._take()
        try:
            self._request(connection, call)
            with connection.getresponse() as response:
                answer = receive(response, call)
        except BaseException as error:
            connection.close()
            if isinstance(error, LOST):
                self._drop()  # the others have met the same end, where the service was started anew
            raise
        self._idle.append((time.monotonic(), connection))
        if self._closed:
            self._drop()
        return answer

    def close(self) -> None:
        """Close those that wait now, and the others when their answer is there."""
        self._closed = True
        self._drop()

    def _take(self) -> http.client.HTTPConnection:
        if self._closed:
            raise RuntimeError("the client must be open to be asked, got one that was closed")
        try:
            since, connection = self._idle.pop()
        except IndexError:
            return self._connect()
        if time.monotonic() - since < KEPT:
            return connection
        connection.close()
        self._drop()  # all others have waited longer
        return self._connect()

    def _request(self, connection: http.client.HTTPConnection, call: Call[Any]) -> None:
        path, headers = self.endpoint.path + call.path, self.endpoint.headers(call)
        if connection.sock is None:
            connection.connect()
        with suppress(BrokenPipeError, ConnectionResetError):  # too large is refused before it is read
            connection.request(call.method, path, body=call.body, headers=headers)

    def _connect(self) -> http.client.HTTPConnection:
        host, port, timeout = self.endpoint.host, self.endpoint.port, self.endpoint.timeout
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)

    def _drop(self) -> None:
        while True:
            try:
                self._idle.pop()[1].close()
            except IndexError:
                return


def receive(response: http.client.HTTPResponse, call: Call[Any]) -> Answer:
    """Read an answer to its end."""
    memory = io.BytesIO()
    sink = call.sink(response.status, memory)
    while piece := response.read(PIECE):
        sink.write(piece)
    if response.length != 0 and not response.chunked:  # http.client is content with what is cut off
        raise http.client.IncompleteRead(b"", response.length)
    return Answer(
        status=response.status, body=memory.getvalue(), retry_after=response.getheader("retry-after")
    )
