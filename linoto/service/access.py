"""Who may do what: tokens with roles, of which the database knows only digests."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from litestar import Request
from litestar.datastructures import State

from linoto.service import sql
from linoto.service.errors import Refused
from linoto.service.sql import Connection

ROLES = ("reader", "writer", "admin")  # each may do what those before it may
LOOPBACK = ("127.0.0.1", "localhost", "::1")
Headers = Mapping[bytes, bytes]
AnyRequest = Request[Any, Any, State]


def digest(token: str) -> bytes:
    """What is stored of a token; it has 256 random bits, so a plain hash is enough."""
    return sha256(token.encode()).digest()


def create_token(connection: Connection, name: str, role: str, at: float) -> str:
    """A new token, told once."""
    if role not in ROLES:
        raise ValueError(f"role must be one of {', '.join(ROLES)}, got {role!r}")
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise ValueError(f"name must be 1 to 64 printable characters, got {name!r}")
    token = f"linoto_{secrets.token_urlsafe(32)}"
    try:
        sql.insert_token(connection, name, role, digest(token), at)
    except sqlite3.IntegrityError:
        raise ValueError(f"name must be new, got {name!r}, which has a token: revoke it first") from None
    return token


class Caller(NamedTuple):
    """Who asks, and what for they may."""

    name: str
    role: str


@dataclass
class Access:
    """The tokens as last read. Without any, everybody on this machine may do everything.

    That is so only while nobody else can reach it: `local` is False once it is bound wider.
    """

    tokens: dict[bytes, tuple[str, str]] = field(default_factory=dict)  # digest -> (name, role)

    local: bool = True

    def refresh(self, connection: Connection) -> None:
        """Read the tokens again, for those made or revoked beside us."""
        self.tokens = {row[2]: (row[0], row[1]) for row in sql.all_tokens(connection)}

    def identify(self, headers: Headers) -> Caller:
        """Who is asking."""
        if self.local and not self.tokens:
            check_local(headers)
            return Caller("local", "admin")
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        found = self.tokens.get(sha256(token.strip()).digest()) if scheme.lower() == b"bearer" else None
        if found is None:
            raise Refused(401, "unauthorized", "a valid token is needed: Authorization: Bearer TOKEN")
        return Caller(*found)


def check_local(headers: Headers) -> None:
    """Keep web pages of other sites from using a browser on this machine to get in."""
    host = headers.get(b"host", b"").decode("latin-1")
    if hostname(host) not in LOOPBACK:
        raise Refused(403, "forbidden", f"without tokens only this machine is served, got host {host!r}")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and origin not in (f"http://{host}", f"https://{host}"):
        raise Refused(403, "forbidden", f"requests from pages of other sites are refused, got {origin!r}")


def hostname(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def needs(role: str) -> Callable[[AnyRequest], Awaitable[None]]:
    """Let this role and those above it pass, and bodies only as JSON; before the body is read.

    A hook, and not a guard: the framework copies the whole handler for every call of a guard.
    """
    rank = ROLES.index(role)

    async def check(request: AnyRequest) -> None:
        headers = dict(request.scope["headers"])
        caller = request.app.state.access.identify(headers)
        if ROLES.index(caller.role) < rank:
            raise Refused(403, "forbidden", f"this needs the role {role}, {caller.name!r} is a {caller.role}")
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if request.scope["method"] in ("POST", "PUT", "PATCH") and kind != b"application/json":
            raise Refused(
                415, "not_json", f"content-type must be application/json, got {kind.decode('latin-1')!r}"
            )
        request.scope["user"] = caller

    return check
