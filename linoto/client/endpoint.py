"""Where the service is and how it is spoken to: checked once, when a client is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from linoto.client.calls import Call

if TYPE_CHECKING:
    import ssl

KEPT = 15.0  # seconds an unused connection is kept: the service gives up its end after 30


@dataclass(frozen=True)
class Endpoint:
    """One service, and the patience to have with it.

    >>> endpoint = Endpoint("https://shop.example/bandits/", None, 10.0, 6)
    >>> endpoint.url, endpoint.secure, endpoint.host, endpoint.port, endpoint.path
    ('https://shop.example/bandits', True, 'shop.example', 443, '/bandits')
    """

    url: str
    token: str | None = field(repr=False)
    timeout: float
    retries: int
    secure: bool = field(init=False)
    host: str = field(init=False)
    port: int = field(init=False)
    path: str = field(init=False)  # before that of every request

    def __post_init__(self) -> None:
        if self.token is not None and not is_visible(self.token):
            raise ValueError("token must be one word of visible ASCII characters, got something else")
        if not (isfinite(self.timeout) and self.timeout > 0):
            raise ValueError(f"timeout must be a positive number of seconds, got {self.timeout!r}")
        if self.retries < 0:
            raise ValueError(f"retries must be a whole number >= 0, got {self.retries!r}")
        secure, host, port, path = parsed(self.url)
        values = {"url": self.url.rstrip("/"), "secure": secure, "host": host, "port": port, "path": path}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def authority(self) -> str:
        """Host and port, as requests name them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    def tls(self) -> ssl.SSLContext | None:
        """What a secure connection is checked by; made once, because it reads every known certificate."""
        if not self.secure:
            return None
        import ssl

        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    def headers(self, call: Call[Any]) -> dict[str, str]:
        """What goes before the body of a request."""
        headers = {"accept": "application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        if call.body is not None:
            headers["content-type"] = "application/json"
        return headers


def parsed(url: str) -> tuple[bool, str, int, str]:
    """Whether it is secure, host, port, and path; refuses what a request cannot be sent to."""
    wrong = ValueError(f"url must be like http://127.0.0.1:8080, got {url!r}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    odd = parts.username is not None or parts.query or parts.fragment or not is_visible(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or odd:
        raise wrong
    secure = parts.scheme == "https"
    return secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/")


def is_visible(text: str) -> bool:
    """Whether text can stand in the head of a request: no spaces, line ends or other scripts."""
    return bool(text) and all("!" <= character <= "~" for character in text)
