"""Numbers that look random, and are the same whenever they are asked for."""

from __future__ import annotations

from hashlib import blake2b


def chance(*what: object) -> float:
    """A number in [0, 1) that belongs to `what`."""
    digest = blake2b(repr(what).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53
