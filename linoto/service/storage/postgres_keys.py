"""Which keys are surely new, known in memory: nobody waits for the network to hear that a key got nothing.

A loop is written to by one session, which has the lock of its part. From the moment that this session has it,
every key that is used is used here. So a set that has all keys of the database since then, and all that were
used here, misses none; it may have keys that were never kept, or are forgotten by now, which are looked up as
if there were no set. With the session the sets go.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256

import numpy as np
import psycopg

from linoto.service.storage import postgres_sql as own_sql
from linoto.service.storage.connection import Row
from linoto.service.storage.places import Address
from linoto.service.storage.postgres_sessions import Raw, open_session

BITS, PROBES = 16, 8  # for each key at the least: of 10,000 new keys 6 are taken for used ones
SMALLEST, LARGEST = 2**17, 2**27  # bits of a set: 16 kB for 8,192 keys, 16 MB for 8 million
ROOM = 2**29  # bits of all sets: 64 MB
PAGE = 5000  # decisions that are read at once
PAUSE = 1.0  # seconds after a scan that failed


class UsedKeys:
    """A Bloom filter: what is not in it was never added."""

    def __init__(self, expected: int) -> None:
        self.size = size_for(expected)
        self.count = 0
        self._bits = bytearray(self.size // 8)

    @property
    def is_full(self) -> bool:
        """Whether it takes too many new keys for used ones."""
        return self.count * BITS > self.size

    def add(self, key: str) -> None:
        """One more key."""
        place, step = hashed(key)
        bits, mask = self._bits, self.size - 1
        for _ in range(PROBES):
            place &= mask
            bits[place >> 3] |= 1 << (place & 7)
            place += step
        self.count += 1

    def add_hashes(self, hashes: bytes) -> None:
        """Many keys, by the hashes that the database makes of them."""
        found = np.frombuffer(hashes, ">u8").astype(np.uint64)
        place, step = found >> np.uint64(32), found & np.uint64(0xFFFFFFFF) | np.uint64(1)
        bits = np.frombuffer(self._bits, np.uint8)
        for _ in range(PROBES):
            place &= np.uint64(self.size - 1)
            bit = np.uint8(1) << (place & np.uint64(7)).astype(np.uint8)
            np.bitwise_or.at(bits, place >> np.uint64(3), bit)
            place += step
        self.count += len(found)

    def fold(self) -> None:
        """Make it as small as a set of its keys alone: taken modulo half the size, places are the same."""
        while self.size > size_for(self.count):
            self.size //= 2
            halves = np.frombuffer(self._bits, np.uint8).reshape(2, -1)
            self._bits = bytearray(halves[0] | halves[1])

    def __contains__(self, key: str) -> bool:
        place, step = hashed(key)
        bits, mask = self._bits, self.size - 1
        for _ in range(PROBES):
            place &= mask
            if not bits[place >> 3] & 1 << (place & 7):
                return False
            place += step
        return True


def size_for(keys: int) -> int:
    """Bits of a set that as many more keys make full, if that is not too large."""
    return min(1 << (max(2 * BITS * keys, SMALLEST) - 1).bit_length(), LARGEST)


def hashed(key: str) -> tuple[int, int]:
    """Where the bits of a key begin, and how far they are apart: as `own_sql.KEY_HASHES` has it."""
    bits = int.from_bytes(sha256(key.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return bits >> 32, bits & 0xFFFFFFFF | 1


class Scan(threading.Thread):
    """Reads the keys of one loop, in a session of its own; what is used meanwhile is kept beside it."""

    def __init__(self, address: Address, name: str, loop: int, server: Row) -> None:
        super().__init__(name="linoto-keys", daemon=True)
        self.address, self.loop_name, self.loop, self.server = address, name, loop, server
        self.used: UsedKeys | None = None  # when all were read
        self.arrived: list[str] = []
        self.too_many = self.ended = False
        self.stopped = threading.Event()

    def run(self) -> None:
        """To the end, unless it is stopped, or the database cannot be read."""
        try:
            with closing(open_session(self.address, readonly=False, hasty=True)) as raw:
                if raw.execute(own_sql.WHICH_SERVER.encode()).fetchone() == self.server:
                    self._read(raw)
        except (psycopg.Error, OSError):
            pass  # it is tried again
        finally:
            self.ended = True

    def _read(self, raw: Raw) -> None:
        first, last = raw.execute(own_sql.NUMBERS.encode(), (self.loop,)).fetchone() or (0, 0)
        used, number, rows = UsedKeys(last - first + 1), first - 1, PAGE
        while rows == PAGE and not self.stopped.is_set():
            page = raw.execute(own_sql.KEY_HASHES.encode(), (self.loop, number, PAGE)).fetchone()
            hashes, number, rows = page or (None, None, 0)
            used.add_hashes(hashes or b"")
            if used.is_full:
                self.too_many = True
                return
        used.fold()  # most decisions may have no key
        if not self.stopped.is_set():
            self.used = used


class NewKeys:
    """The sets of the loops that a session writes to; all but `find_new` in the turn of a transaction."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._scan: Scan | None = None  # one at a time: the next lookup of another loop asks again
        self.forget()

    def forget(self) -> None:
        """The session is another one, or something is not as it must be."""
        self._stop()
        self._used: dict[str, tuple[int, UsedKeys]] = {}
        self._by_loop: dict[int, UsedKeys] = {}
        self._without: dict[str, bool] = {}  # loops that found no room, or (False) have too many keys
        self._not_before = 0.0

    def keep(self, is_here: Callable[[str], bool]) -> None:
        """Others may write to the rest from now on."""
        if self._scan is not None and not is_here(self._scan.loop_name):
            self._stop()
        gone = [name for name in self._used if not is_here(name)]
        for name in gone:
            self._drop(name)
        for name, crowded in list(self._without.items()):
            if not is_here(name) or (crowded and gone):
                del self._without[name]

    def _stop(self) -> None:
        if self._scan is not None:
            self._scan.stopped.set()
            self._scan = None

    def _drop(self, name: str) -> None:
        loop, _ = self._used.pop(name)
        del self._by_loop[loop]

    def find_new(self, name: str, key: str) -> int | None:
        """The loop of this name, if this key has surely got nothing there."""
        loop, used = self._used.get(name, (None, None))
        return None if used is None or key in used else loop

    def add(self, loop: int, key: str) -> None:
        """A key is used from now on, even if that is undone."""
        used = self._by_loop.get(loop)
        if used is not None:
            used.add(key)
        if self._scan is not None and self._scan.loop == loop:
            self._scan.arrived.append(key)

    def wants(self, name: str) -> bool:
        """Whether the keys of a loop should be read now."""
        known = self._used.get(name)
        missing = name not in self._without if known is None else known[1].is_full
        return missing and self._scan is None and time.monotonic() >= self._not_before

    def scan(self, name: str, loop: int, server: Row) -> None:
        """Read the keys of a loop that this session writes to; from now on those that come are noted."""
        self._scan = Scan(self.address, name, loop, server)
        try:
            self._scan.start()
        except RuntimeError:  # no more threads can be started: it is tried again
            self._scan = None
            self._not_before = time.monotonic() + PAUSE

    def settle(self) -> None:
        """Use what was read meanwhile."""
        scan = self._scan
        if scan is None or not scan.ended:
            return
        self._scan = None
        if scan.used is None and not scan.too_many:
            self._not_before = time.monotonic() + PAUSE
            return
        name = scan.loop_name
        if name in self._used:
            self._drop(name)
        if scan.used is None or scan.used.size + sum(each.size for each in self._by_loop.values()) > ROOM:
            self._without[name] = not scan.too_many
            return
        for key in scan.arrived:
            scan.used.add(key)
        self._used[name] = scan.loop, scan.used
        self._by_loop[scan.loop] = scan.used
