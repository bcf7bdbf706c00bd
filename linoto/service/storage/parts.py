"""Which server has which loops: a loop is in a part by its name, and a part has one server at a time."""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from dataclasses import dataclass
from hashlib import blake2b

PARTS = 128  # of every database: each is a lock, and what moves when a server comes or goes


def part_of(name: str) -> int:
    """The part that a loop is in, whether there is such a loop or not."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") % PARTS


@dataclass(frozen=True)
class View:
    """The servers of a database and what they have, as one of them last read it."""

    me: int
    servers: Mapping[int, str]  # the addresses of those that live
    owners: Mapping[int, int | None]  # who took a part last; None: it was released
    awake: Set[int]  # the servers whose session is known to be there
    leaving: Set[int] = frozenset()  # those that were told to stop, and let the others have what they have

    @property
    def share(self) -> int:
        """How many parts this server should have: as many as every other that stays, or one more."""
        if self.me in self.leaving:
            return 0
        staying = sorted(self.servers.keys() - self.leaving)
        rank, count = staying.index(self.me), len(staying)
        return PARTS // count + (rank < PARTS % count)

    @property
    def has_heirs(self) -> bool:
        """Whether others stay, and may have what this server has."""
        return bool(self.servers.keys() - self.leaving - {self.me})

    def free(self, held: Container[int]) -> list[int]:
        """Parts that nobody has; every server begins at another one, so that two rarely want the same."""
        start = PARTS * sorted(self.servers).index(self.me) // len(self.servers)
        found = [
            part
            for part, owner in sorted(self.owners.items())
            if part not in held and (owner is None or owner == self.me or owner not in self.servers)
        ]
        return [part for part in found if part >= start] + [part for part in found if part < start]

    @property
    def settled(self) -> bool:
        """Whether every part has a server that is surely there."""
        return all(owner in self.awake for owner in self.owners.values())

    def elsewhere(self, part: int) -> str | None:
        """The address of the other server that has a part, if one has."""
        owner = self.owners.get(part)
        return None if owner is None or owner == self.me else self.servers.get(owner)
