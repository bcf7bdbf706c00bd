"""Numbers that look random, and are the same whenever they are asked for."""

from __future__ import annotations

from hashlib import blake2b


def seeded_uniform(*seed: object) -> float:
    """A number in [0, 1) that only depends on the seed."""
    return seeded_bits(seed) * 2.0**-53


def seed_of(name: str) -> int:
    """The seed of a demonstration, and of a loop of version 4 or older that was given none."""
    return seeded_bits(("loop", name))


def seeded_bits(seed: tuple[object, ...]) -> int:
    """53 bits that only depend on the seed."""
    return int.from_bytes(blake2b(repr(seed).encode(), digest_size=8).digest(), "big") >> 11
