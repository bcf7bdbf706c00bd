"""Several servers of one service: where a request is sent, and where it is sent next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from linoto.client.endpoint import Endpoint
from linoto.client.exchange import Request, Retries, may_pass_elsewhere
from linoto.client.responses import ServiceError

OWNER = "x-linoto-server"  # who has a loop, as its servers know each other


class Servers:
    """The addresses of one service, in the order in which they were given.

    A request about a loop goes to the server that has it, once an answer has named that; any other request,
    and one about a loop of which nothing is known, to the server that answered last. Only addresses that
    were given are used, so a token is sent to nobody else.
    """

    def __init__(self, urls: str | Sequence[str], **options: Any) -> None:
        given = [urls] if isinstance(urls, str) else list(urls)
        if not given:
            raise ValueError("url must be an address, or a list of at least one, got none")
        self.endpoints = [Endpoint(url, **options) for url in given]
        self._places = {endpoint.url: place for place, endpoint in enumerate(self.endpoints)}
        self._answered = 0  # who answered last
        self._owners: dict[str, int] = {}  # who has a loop, as far as answers named it

    def order(self, loop: str) -> list[int]:
        """Every server once, the one that should answer first."""
        first, count = self._owners.get(loop, self._answered), len(self.endpoints)
        return [(first + step) % count for step in range(count)]

    def heard(self, place: int, loop: str, headers: Mapping[str, str]) -> None:
        """A server answered: it lives, and may name the owner of the loop."""
        self._answered = place
        owner = self._places.get(headers.get(OWNER, ""))
        if loop and owner is not None:
            self._owners[loop] = owner

    def failed(self, loop: str) -> None:
        """Whoever had the loop may have it no more."""
        self._owners.pop(loop, None)


class Attempts:
    """Where one request is sent: to each server in turn, and again after a pause."""

    def __init__(self, servers: Servers, request: Request[Any]) -> None:
        endpoint = servers.endpoints[0]
        self._servers, self._loop = servers, request.loop
        self._retries = Retries(endpoint.retries, endpoint.deadline)
        self._left = servers.order(self._loop)

    @property
    def place(self) -> int:
        """The server that it is sent to now."""
        return self._left[0]

    def heard(self, headers: Mapping[str, str]) -> None:
        """The head of a good answer."""
        self._servers.heard(self.place, self._loop, headers)

    def pause_after(self, error: ConnectionError | ServiceError) -> float:
        """Seconds to wait after this error, none where another server is asked; raises it if it is final."""
        elsewhere = may_pass_elsewhere(error)
        if elsewhere:
            self._servers.failed(self._loop)
            self._left = self._left[1:]
        if elsewhere and self._left:
            return self._retries.no_pause_after(error)
        several = elsewhere and len(self._servers.endpoints) > 1
        self._left = self._left or self._servers.order(self._loop)
        return self._retries.pause_after(error, asked=not several)
