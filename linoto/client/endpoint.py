"""The address of a service and the options of a client, checked once."""

from __future__ import annotations

import ssl
from math import isfinite
from urllib.parse import urlsplit

IDLE_SECONDS = 15.0  # an unused connection is closed after this; the service closes its end after 30
CLOSED = "the client must be open, got one that was closed"


class Endpoint:
    """One service, and how requests are sent to it.

    >>> endpoint = Endpoint("https://shop.example/bandits/", token=None, timeout=10.0)
    >>> endpoint.url, endpoint.path
    ('https://shop.example/bandits', '/bandits')
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        timeout: float,
        deadline: float = 30.0,
        retries: int | None = None,
        idle: float = IDLE_SECONDS,
    ) -> None:
        if token is not None and not is_visible(token):
            raise ValueError("token must be one word of visible ASCII characters, got something else")
        for name, seconds in (("timeout", timeout), ("deadline", deadline), ("idle", idle)):
            if not (isfinite(seconds) and seconds > 0):
                raise ValueError(f"{name} must be a positive number of seconds, got {seconds!r}")
        if retries is not None and retries < 0:
            raise ValueError(f"retries must be a whole number >= 0, got {retries!r}")
        check_url(url)
        self.url, self.timeout, self.idle = url.rstrip("/"), timeout, idle
        self.deadline, self.retries = deadline, retries
        self.path = urlsplit(self.url).path  # comes before the path of every request
        self.headers = {"accept": "application/json", "accept-encoding": "identity"}
        if token is not None:
            self.headers["authorization"] = f"Bearer {token}"

    def tls(self) -> ssl.SSLContext | None:
        """What a secure connection is checked with; made once, because it reads every known certificate."""
        return ssl.create_default_context() if urlsplit(self.url).scheme == "https" else None


def check_url(url: str) -> None:
    """Refuse a URL that no request can be sent to."""
    wrong = ValueError(f"url must be like http://127.0.0.1:8080, got {url!r}")
    try:
        parts = urlsplit(url)
        complete = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is not a number, or a bracket is missing
        raise wrong from None
    if not complete or parts.username is not None or parts.query or parts.fragment or not is_visible(url):
        raise wrong


def is_visible(text: str) -> bool:
    """Whether text fits into the head of a request: no spaces, line ends or other scripts."""
    return bool(text) and all("!" <= character <= "~" for character in text)
