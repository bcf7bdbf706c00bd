"""Who may do what: tokens with roles, of which the database knows only digests."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from litestar import Request
from litestar.datastructures import State

from linoto.service.errors import Refused, too_many
from linoto.service.storage import tokens
from linoto.service.storage.connection import Connection
from linoto.service.storage.store import Job

ROLES = ("viewer", "reader", "writer", "admin")  # each may do what those before it may
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LOCAL_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)  # a Host header
RATES = (0.001, 1e6)  # requests per second that a limit can be
SLACK = 1e-6  # seconds that sums of shares may be off
PREFIX = "linoto_"  # of every token
LOOKS = 4  # times a second that tokens are read because of one that is not known, all callers together
Headers = Mapping[bytes, bytes]
AnyRequest = Request[Any, Any, State]


def token_digest(token: str) -> bytes:
    """What is stored of a token; it has 256 random bits, so a plain hash is enough."""
    return sha256(token.encode()).digest()


def create_token(
    connection: Connection,
    name: str,
    role: str,
    at: float,
    rate: float | None = None,
    *,
    expires_at: float | None = None,
    loops: Sequence[str] | None = None,
) -> str:
    """A new token, shown once.

    `rate` is the requests per second it may make, if not the server's default; `loops` are the only ones it
    is for, if not all.
    """
    if role not in ROLES:
        raise ValueError(f"role must be one of {', '.join(ROLES)}, got {role!r}")
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise ValueError(f"name must be 1 to 64 printable characters, got {name!r}")
    check_rate(rate)
    if expires_at is not None and not expires_at > at:
        raise ValueError("a token must expire in the future, got a time that is over")
    token = f"{PREFIX}{secrets.token_urlsafe(32)}"
    if not tokens.insert_token(connection, (name, role, token_digest(token), at, rate)):
        raise ValueError(f"name must be new, got {name!r}, which has a token: revoke it first")
    tokens.put_limits(connection, name, expires_at, None if loops is None else json.dumps(sorted(set(loops))))
    return token


def rotate_token(connection: Connection, name: str, at: float, overlap: float) -> str:
    """A new token of this name, shown once; the one before it is valid for `overlap` seconds more.

    Both have the role and the limits that it had.
    """
    known = tokens.one_token(connection, name)
    if known is None:
        raise ValueError(f"there is no token {name!r}")
    _, role, _, _, rate, expires_at, loops = known
    if expires_at is not None and expires_at <= at:
        raise ValueError(f"the token {name!r} has expired: revoke it, and make a new one")
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    old, until = f"{name}{tokens.BEFORE}{stamp} {secrets.token_hex(2)})", at + overlap
    tokens.rename_token(connection, name, old)
    tokens.put_limits(connection, old, until if expires_at is None else min(until, expires_at), loops)
    some = None if loops is None else json.loads(loops)
    return create_token(connection, name, role, at, rate, expires_at=expires_at, loops=some)


def check_rate(rate: float | None) -> None:
    """Refuse a rate that cannot be a limit."""
    if rate is not None and not RATES[0] <= rate <= RATES[1]:
        raise ValueError(f"rate must be {RATES[0]} to {RATES[1]:.0f} requests per second, got {rate!r}")


class Caller(NamedTuple):
    """Who asks, in which role, and how many requests per second are allowed, if that is limited."""

    name: str
    role: str
    rate: float | None
    expires_at: float | None = None  # None: never
    loops: frozenset[str] | None = None  # None: all of them

    @property
    def sees_contexts(self) -> bool:
        """Whether it is shown who asked."""
        return self.role != "viewer"

    def may_see(self, loop: str) -> bool:
        """Whether a loop is one of those that the token is for."""
        return self.loops is None or loop in self.loops


@dataclass
class Access:
    """The tokens as last read. Until the first one is made, everybody on this machine may do everything.

    That is so only while nobody else can reach it: `local` is False once it is bound wider. After the last
    token is revoked, every request is refused.
    """

    tokens: dict[bytes, Caller] = field(default_factory=dict)  # by digest
    guarded: bool = False  # there are tokens, or there were
    local: bool = True
    rate: float | None = None  # requests per second of each caller whose token says nothing else
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    read: Callable[[Job[None]], None] | None = None  # runs a job on what is committed; may take a while
    _paid: dict[str, float] = field(default_factory=dict)  # until when each caller's requests are paid for
    _looking: asyncio.Task[None] | None = None  # reads the tokens
    _looked: float = 0.0  # until when looks are paid for

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def refresh(self, connection: Connection) -> None:
        """Read the tokens again: another process may have made or revoked some."""
        self.tokens = {
            digest: Caller(
                name,
                role,
                self.rate if rate is None else rate,
                expires_at,
                None if loops is None else frozenset(json.loads(loops)),
            )
            for name, role, digest, _, rate, expires_at, loops in tokens.all_tokens(connection)
        }
        self.guarded = tokens.had_tokens(connection)

    async def recognise(self, headers: Headers) -> Caller:
        """Who is asking; a token that is not known may have been made a moment ago."""
        try:
            return self.identify(headers)
        except Refused:
            await self._look_for(bearer(headers))
        return self.identify(headers)

    async def _look_for(self, token: bytes) -> None:
        """Read the tokens if this may be one that was just made, but no more often than `LOOKS` allows."""
        if self._is_unknown(token) and self._looking is not None:
            await asyncio.shield(self._looking)  # it may have begun before the token was made
        if not self._is_unknown(token):
            return
        if self._looking is None and self.read is not None and self._may_look():
            self._looking = asyncio.create_task(self._look(self.read))
        if self._looking is not None:
            await asyncio.shield(self._looking)  # others wait for it too

    async def _look(self, read: Callable[[Job[None]], None]) -> None:
        try:
            await asyncio.to_thread(read, self.refresh)
        finally:
            self._looking = None

    def _is_unknown(self, token: bytes) -> bool:
        """Whether this looks like a token of ours, and is none that is known."""
        return token.startswith(PREFIX.encode()) and sha256(token).digest() not in self.tokens

    def _may_look(self) -> bool:
        """Whether tokens may be read once more; if so, it is paid for: a bucket as that of a caller."""
        now = self.clock()
        paid = max(self._looked, now) + 1.0 / LOOKS
        if paid - now > 1.0 + SLACK:
            return False
        self._looked = paid
        return True

    def identify(self, headers: Headers) -> Caller:
        """Who is asking, by the tokens as last read."""
        if self.local and not self.guarded:
            check_local(headers)
            return Caller("local", "admin", self.rate)
        found = self.tokens.get(sha256(bearer(headers)).digest())
        if found is None:
            raise Refused(401, "unauthorized", "a valid token is needed: Authorization: Bearer TOKEN")
        if found.expires_at is not None and self.wall() >= found.expires_at:
            raise Refused(401, "unauthorized", f"the token {found.name!r} has expired: a new one is needed")
        return found

    def admit(self, caller: Caller) -> None:
        """Refuse a caller who asks more often than allowed; a second's worth may come at once.

        A bucket of `rate` requests, or of one, that fills at `rate`: kept as the time at which it is full.
        """
        rate = caller.rate
        if rate is None:
            return
        now, share = self.clock(), 1.0 / rate
        paid = max(self._paid.get(caller.name, now), now) + share
        wait = paid - now - max(1.0, share)
        if wait > SLACK:
            raise too_many(rate, wait)
        self._paid[caller.name] = paid


def bearer(headers: Headers) -> bytes:
    """The token of a request; empty where there is none."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def check_local(headers: Headers) -> None:
    """Keep web pages of other sites from using a browser on this machine to get in."""
    host = headers.get(b"host", b"").decode("latin-1")
    if LOCAL_HOST.fullmatch(host) is None:
        raise Refused(403, "forbidden", f"without tokens only this machine is served, got host {host!r}")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and origin not in (f"http://{host}", f"https://{host}"):
        raise Refused(403, "forbidden", f"requests from pages of other sites are refused, got {origin!r}")


def needs(role: str, takes: bytes = b"application/json") -> Callable[[AnyRequest], Awaitable[None]]:
    """Let this role and those above it pass, and bodies only as this type; before the body is read.

    A hook, and not a guard: the framework copies the whole handler for every call of a guard.
    """
    rank = ROLES.index(role)

    async def check(request: AnyRequest) -> None:
        headers = dict(request.scope["headers"])
        access: Access = request.app.state.access
        request.scope["user"] = caller = await access.recognise(headers)
        access.admit(caller)
        if ROLES.index(caller.role) < rank:
            raise Refused(403, "forbidden", f"this needs the role {role}, {caller.name!r} is a {caller.role}")
        loop = request.scope["path_params"].get("name")
        if isinstance(loop, str) and not caller.may_see(loop):
            raise Refused(403, "forbidden", f"the token {caller.name!r} is not for the loop {loop!r}")
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if request.scope["method"] in ("POST", "PUT", "PATCH") and kind != takes:
            got = f"content-type must be {takes.decode()}, got {kind.decode('latin-1')!r}"
            hint = "" if kind or takes != b"application/json" else ": send {} where there is nothing to say"
            raise Refused(415, "not_json", got + hint)

    return check
