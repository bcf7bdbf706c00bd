"""Which rounds await their reward, so that none is told twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

MOST_BYTES = 2**23  # 67 million rounds from the oldest open one on: what is older is lost


class OpenRounds:
    """The committed rounds whose reward has not come: one bit for each since the oldest of them.

    Rewards that come close what is open, and nothing is kept. Rewards that never come leave a bit for each
    later round, up to `most_bytes`: then the oldest rounds are given up, and their rewards refused.

    >>> rounds = OpenRounds()
    >>> rounds.open(3)
    >>> rounds.close(3), rounds.close(3)
    (True, False)
    """

    def __init__(self, *, known_from: int = 1, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.known_from = known_from  # an older version did not keep which rounds before were open
        self._first = 0  # the round of the first bit, a multiple of 8
        self._bits = bytearray()

    @classmethod
    def awaiting(cls, rounds: Iterable[int]) -> OpenRounds:
        """Those that are given, from the oldest on."""
        found = cls()
        for round in rounds:
            found.open(round)
        return found

    def __copy__(self) -> OpenRounds:
        found = OpenRounds(known_from=self.known_from, most_bytes=self.most_bytes)
        found._first, found._bits = self._first, self._bits.copy()
        return found

    def open(self, round: int) -> None:
        """A round is committed."""
        if not self._bits:
            self._first = round & -8
        place = (round - self._first) >> 3
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        self._bits[place] |= 1 << (round & 7)
        if len(self._bits) > self.most_bytes:
            self._forget(len(self._bits) - self.most_bytes)

    def awaits(self, round: int) -> bool:
        """Whether its reward may still come."""
        if 1 <= round < self.known_from:
            return True
        place = (round - self._first) >> 3
        return 0 <= place < len(self._bits) and bool(self._bits[place] & 1 << (round & 7))

    def close(self, round: int) -> bool:
        """Its reward comes, or never will: whether it was awaited."""
        if 1 <= round < self.known_from:
            return True
        place, bit = (round - self._first) >> 3, 1 << (round & 7)
        if not 0 <= place < len(self._bits) or not self._bits[place] & bit:
            return False
        self._bits[place] &= ~bit
        if place == 0 and not self._bits[0]:
            self._forget(1)
        return True

    def clear(self) -> None:
        """Nothing is awaited any more."""
        self._bits.clear()

    def save(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Write them into a snapshot; equal sets give equal bytes."""
        bits = bytes(self._bits.rstrip(b"\0"))
        header["open"] = [self.known_from, self._first if bits else 0]
        if bits:
            arrays["open"] = np.frombuffer(bits, dtype=np.uint8)

    @classmethod
    def of(cls, header: dict[str, Any], arrays: dict[str, Any], rounds: int) -> OpenRounds:
        """Those of a snapshot after so many rounds; before format 5 it did not say which they are."""
        if header["format"] < 5:
            return cls(known_from=rounds + 1)
        known_from, first = header["open"]
        found = cls(known_from=int(known_from))
        found._first, found._bits = (
            int(first),
            bytearray(arrays["open"].tobytes() if "open" in arrays else b""),
        )
        return found

    def _forget(self, least: int) -> None:
        """Drop the first bytes: so many, and those after them in which nothing is open."""
        dropped = least
        while dropped < len(self._bits) and not self._bits[dropped]:
            dropped += 1
        del self._bits[:dropped]
        self._first += 8 * dropped


def check_awaited(rounds: OpenRounds, round: int) -> None:
    """Refuse the reward of a round that is not open: it would be taken for that of another play."""
    if not rounds.awaits(round):
        raise ValueError(
            f"decision must be committed and await its reward, got one of round {round}, which does not: its "
            "reward was told before, or it was not played"
        )
