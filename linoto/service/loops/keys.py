"""Every draw of a loop as a keyed hash of what it is for and of its number: nothing is left in a generator.

The key of an epoch comes from the secret of the database, the loop and the epoch. So whoever has the
database (another start, a replay, a machine that takes the loop over) draws the same, and nobody else can
tell what will be drawn. Where a loop was given a seed, its key comes from that: whoever knows the seed knows
every draw.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from linoto.core.coins import KEY_BYTES, KeyedCoins

EPOCH_BYTES = 5  # of the name of an epoch: two restores have the same one once in a million million


class LoopKey:
    """The key of one epoch of a loop, which nothing shows."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def of_secret(cls, secret: bytes, loop: int, name: str, epoch: str, again: int = 0) -> LoopKey:
        """That of a loop in this database; `again` is how often its rounds were drawn anew."""
        return cls(keyed(secret, "loop", loop, name, epoch, again))

    @classmethod
    def of_seed(cls, seed: int, name: str, epoch: str, again: int = 0) -> LoopKey:
        """That of a loop that was given a seed: the same in every database."""
        return cls(keyed(b"", "seed", seed, name, epoch, again))

    def __repr__(self) -> str:
        return "<key of a loop>"

    def coins(self) -> KeyedCoins:
        """The coin and practice's draw of every round."""
        return KeyedCoins(keyed(self._key, "coin"))

    def draws(self, number: int, into: np.random.Generator | None = None) -> np.random.Generator:
        """What the explorer draws from for a decision; a generator that is given is set to it."""
        return self._generator("explorer", number, into)

    def redraws(self, number: int, into: np.random.Generator | None = None) -> np.random.Generator:
        """What the propensity of a decision is estimated with."""
        return self._generator("redraws", number, into)

    def control_group(self, number: int) -> float:
        """A number in [0, 1): whether a decision is one of the control group."""
        return self._uniform("holdback", number)

    def practice(self, number: int) -> float:
        """A number in [0, 1): what practice plays in a decision of the control group, where it draws."""
        return self._uniform("practice", number)

    def _uniform(self, use: str, number: int) -> float:
        return (int.from_bytes(keyed(self._key, use, number)[:8], "big") >> 11) * 2.0**-53

    def _generator(self, use: str, number: int, into: np.random.Generator | None) -> np.random.Generator:
        bits = keyed(self._key, use, number)
        place, step = int.from_bytes(bits[:16], "big"), int.from_bytes(bits[16:], "big") | 1
        found = np.random.Generator(np.random.PCG64(0)) if into is None else into  # an eighth of the time
        state = {"state": place, "inc": step}
        found.bit_generator.state = {"bit_generator": "PCG64", "state": state, "has_uint32": 0, "uinteger": 0}
        return found


def keyed(key: bytes, *parts: object) -> bytes:
    """A hash of these parts that nobody can compute without the key."""
    return blake2b(repr(parts).encode(), key=key, digest_size=KEY_BYTES).digest()
