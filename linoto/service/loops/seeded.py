"""Numbers that look random, and are the same whenever they are asked for."""

from __future__ import annotations

from hashlib import blake2b


def seeded_uniform(*seed: object) -> float:
    """A number in [0, 1) that only depends on the seed."""
    digest = blake2b(repr(seed).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53
