"""Refreshes in slices: where there are many arms, no round computes all of them anew."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from math import ceil, log2

from linoto.core.within import within

FEATURES = 8  # for each slice: to compute its arms anew then takes about as long as a round
NOTICED = 2**22  # k d^2, from which on a refresh of all arms would be noticed
WIDE = 8  # d^2 / k, above which as many slices would cost more by their inversions than by their arms
LEAST = 2  # slices: already these spare that R is made anew from all arms
SLICED: ContextVar[bool] = ContextVar("SLICED", default=True)


def slicing(wanted: bool) -> AbstractContextManager[None]:
    """Whether states that are started in here have slices: what an older version stored goes on without."""
    return within(SLICED, wanted)


def slices_for(k: int, d: int) -> int:
    """How many slices k arms with d features have; 0: a refresh is of all of them.

    Each takes an inversion, d^3, and its share of the k d^2 of all arms: about as many slices as make both
    alike, a power of two, and none where an inversion alone is more.

    >>> slices_for(100, 20), slices_for(20_000, 20), slices_for(10_000, 200), slices_for(1_000, 500)
    (0, 4, 32, 2)
    """
    if not SLICED.get() or k * d * d < NOTICED or k < d:
        return 0
    return 1 << ceil(log2(max(min(d / FEATURES, k / d), LEAST)))


def is_wide(k: int, d: int) -> bool:
    """Whether there are so many features for each arm that slices are only for who keeps R anyway."""
    return d * d > WIDE * k
