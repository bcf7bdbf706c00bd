"""Servers on one PostgreSQL database: each says that it lives, and sees who else does."""

from __future__ import annotations

import threading
from contextlib import suppress

import psycopg

from linoto.service.storage import postgres_sql as own_sql
from linoto.service.storage.clocks import since_boot
from linoto.service.storage.parts import View
from linoto.service.storage.places import Address
from linoto.service.storage.postgres_sessions import Raw, open_session

LEASE, BEAT = 3.0, 0.5  # seconds that a server may be silent for, and between two signs of life
LOOK = 0.1  # seconds between two looks at the others


class Lease(threading.Thread):
    """Says that a server lives, in a session of its own; knows until when that holds, and who else lives."""

    def __init__(self, address: Address, number: int, *, shared: bool) -> None:
        super().__init__(name="linoto-lease", daemon=True)
        self.address, self.number, self.shared = address, number, shared
        self.until, self.replaced, self.leads = since_boot() + LEASE, False, False
        self.view: View | None = None
        self._raw: Raw | None = None
        self._locked: set[int] = set()  # servers whose lock this session has seen
        self._missed: set[int] = set()  # those of them that lacked it at the last look
        self._said = self._since = 0.0  # when it was last said, and since when without a gap
        self._end = threading.Event()

    def begin(self) -> None:
        """Look once, and go on in the background."""
        self._beat()
        self.start()

    def run(self) -> None:
        """Until it is told to end, or another server has taken over."""
        while not self.replaced and not self._end.wait(LOOK):
            try:
                self._beat()
            except psycopg.errors.LockNotAvailable:
                continue  # the server is there, and nobody else can say that he is the owner either
            except (psycopg.Error, OSError):
                self.until, self.leads = 0.0, False  # there may be another owner when it can be reached again
        if self._raw is not None:
            self._raw.close()

    def _beat(self) -> None:
        """Say that this server lives, if that is due, and look at the others."""
        if self._raw is None or self._raw.closed:
            self._raw = open_session(self.address, readonly=False, hasty=True)
            self._locked, self._missed, self._said, self.leads = set(), set(), 0.0, False
        sent = since_boot()
        if sent - self._said > BEAT - LOOK / 2:
            if sent - self._said > LEASE:
                self._since = sent
            self.replaced = self._raw.execute(own_sql.BEAT.encode(), (self.number,)).rowcount == 0
            self.until, self._said = sent + (0.0 if self.replaced else LEASE), sent
            self._raw.execute(own_sql.BEAT_FOR_OTHERS.encode())
            if self.shared and not self.replaced:
                self._forget_silent(self._raw, sent)
        if self.shared and not self.replaced:
            self._look(self._raw)

    def _forget_silent(self, raw: Raw, sent: float) -> None:
        """Wait no longer for servers that are silent; where the database was away, all of them are."""
        if sent - self._since > LEASE:
            raw.execute(own_sql.FORGET_SILENT.encode(), (LEASE, self.number))
        with suppress(psycopg.errors.InsufficientPrivilege):  # it has another role: its own beat tells it
            raw.execute(own_sql.END_FORGOTTEN.encode())

    def _look(self, raw: Raw) -> None:
        """Forget servers that are silent, and those whose locks this very session has seen, and sees no more.

        The latter need not be waited for: who lives knows at once that its session has ended. Two looks,
        because it may have another one soon. A session that is as new as a database which comes back has seen
        no lock, so that after a failover all servers find what they had.
        """
        found = raw.execute(own_sql.LIVING.encode()).fetchall()
        missed = {number for number, _, has_lock, _ in found if not has_lock and number in self._locked}
        if gone := missed & self._missed:
            raw.execute(own_sql.END_GONE.encode(), (sorted(gone),))
            found = raw.execute(own_sql.LIVING.encode()).fetchall()
        self._locked |= {number for number, _, has_lock, _ in found if has_lock}
        self._missed = missed - gone
        servers = {number: url for number, url, _, _ in found}
        if self.number not in servers:
            return  # the next sign of life tells that others have forgotten this one
        owners = dict(raw.execute(own_sql.OWNERS.encode()).fetchall())
        if not self.leads:
            self.leads = raw.execute(own_sql.TRY_TO_LEAD.encode()).fetchone() == (True,)
        awake = frozenset(number for number, _, has_lock, _ in found if has_lock)
        leaving = frozenset(number for number, _, _, leaves in found if leaves)
        self.view = View(self.number, servers, owners, awake, leaving)

    def end(self) -> None:
        """No more signs."""
        self._end.set()
        if self.ident is not None:
            self.join()


class Candidate:
    """A server that waits until a database can be had: while PostgreSQL is away, or somebody has it alone."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._raw: Raw | None = None

    def is_free(self) -> bool:
        """Whether it can be had now; the session of a silent owner is ended, so that it can be soon."""
        try:
            if self._raw is None or self._raw.closed:
                self._raw = open_session(self.address, readonly=False)
            raw = self._raw
            if raw.execute(own_sql.TRY_SHARED.encode()).fetchone() == (True,):
                raw.execute(own_sql.UNLOCK_SHARED.encode())
                return True
            raw.execute(own_sql.END_SILENT.encode(), (LEASE,))
        except (psycopg.Error, OSError):
            return False
        return False

    def close(self) -> None:
        """End its session."""
        if self._raw is not None:
            self._raw.close()
