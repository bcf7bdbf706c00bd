"""Moments: how long after a fixed one they are, and where in a day or a week."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from math import isfinite, pi
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.cells import is_missing
from linoto.core.features.columns.column import Cell, Fault, Held, number_literal, text_literal
from linoto.core.features.columns.numeric import NumberColumn
from linoto.core.features.columns.optional import IN_REQUEST, is_absent
from linoto.core.features.columns.scaled import ScaledColumn
from linoto.core.validation import check_choice, check_count, check_positive

DAY = 86400.0
UNITS = {"minutes": 60.0, "hours": 3600.0, "days": DAY, "weeks": 7 * DAY, "years": 365.2425 * DAY}
PERIODS = {"hour": 3600.0, "day": DAY, "week": 7 * DAY, "year": 365.2425 * DAY}
ZONE = r"(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)"
CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
DATE = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ T]{CLOCK}{ZONE}?)?"  # what Python and DuckDB read alike
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = -62135596800.0, 253402300799.0  # seconds: the years 1 to 9999, as Python has them
MOST_HARMONICS = 12


@dataclass(frozen=True, kw_only=True)
class TimeColumn(NumberColumn, ABC):
    """A column whose value is a moment: a date, a date with a time, or seconds since 1970.

    Text is read as ISO 8601 (2026-05-31, 2026-05-31T12:30Z, 2026-05-31 12:30:00+02:00). What has no time zone
    is UTC.
    """

    @property
    def holds(self) -> Held:
        """What its field is."""
        return "time"

    @property
    def filled_expected(self) -> str:
        """What a value must be, for messages."""
        return "a date such as 2026-05-31 or 2026-05-31T12:30:00Z, or seconds since 1970"

    def number(self, value: Any) -> float:
        """A value of its field in seconds since 1970."""
        seconds = None if is_missing(value) else seconds_of(value)
        if seconds is None or not FIRST <= seconds <= LAST:
            hint = f": {IN_REQUEST}" if is_absent(value) else ""
            raise ValueError(f"{self.reads[0]!r} must be {self.expected}, got {value!r}{hint}")
        return seconds

    def read_sql(self, cell: Cell) -> str:
        """The same."""
        readable = f"regexp_full_match({cell.level}, {text_literal(DATE)})"
        return f"CASE WHEN {readable} OR TRY_CAST({cell.level} AS DOUBLE) IS NOT NULL THEN {cell.time} END"

    def filled_faults(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """A moment must be there, in the years that there are."""
        *others, finite = super().filled_faults(value, given, field)
        ends = f"{value} BETWEEN {number_literal(FIRST)} AND {number_literal(LAST)}"
        yield from others
        yield finite._replace(test=f"NOT (isfinite({value}) AND {ends})")

    def cell(self, value: Any) -> Any:
        """The value of a field as a log has it."""
        return None if is_absent(value) else EPOCH + timedelta(seconds=self.number(value))


@dataclass(frozen=True, kw_only=True)
class Since(ScaledColumn, TimeColumn):
    """How long a moment lies after a fixed one: its feature is (units since origin - mean) / scale.

    It grows as long as time goes on: what is learned of it is a trend that is taken to continue.

    >>> Since(name="time", origin="2026-01-01", mean=0.0, scale=1.0).vector("2026-01-02T12:00Z").tolist()
    [1.5]
    """

    origin: str = "1970-01-01"
    unit: str = "days"

    kind: ClassVar[str] = "since"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(f"unit of {self.name!r}", self.unit, tuple(UNITS))
        if not is_date(self.origin):
            must = f"origin of {self.name!r} must be a date such as 2026-05-31"
            raise ValueError(f"{must}, got {self.origin!r}")

    @property
    def start(self) -> float:
        """The origin, in seconds since 1970."""
        return seconds_of(self.origin) or 0.0

    @property
    def filled_labels(self) -> tuple[str, ...]:
        """The name of its one feature."""
        return (f"{self.name} in {self.unit}",)

    def shown(self, label: str, value: Any) -> str:
        """A moment as people read it: with how far from the usual ones it is."""
        if self.lacks(value):
            return self.missing_label
        if self.mean is None:
            return f"{self.name}={value}"
        gap = (self.number(value) - self.start) / UNITS[self.unit] - self.mean
        size, side = f"{abs(gap):.3g} {self.unit}", "later" if gap > 0 else "earlier"
        return f"{self.name}={value} ({size} {side} than usual)"

    def measured(self, numbers: Floats) -> Floats:
        """(n,) units since the origin."""
        return (numbers - self.start) / UNITS[self.unit]

    def filled_learns(self, value: str) -> tuple[str, ...]:
        """Units since the origin."""
        return (f"(({value} - {number_literal(self.start)}) / {number_literal(UNITS[self.unit])})",)


@dataclass(frozen=True, kw_only=True)
class Cycle(TimeColumn):
    """Where something that comes round is: cosine and sine of its angle, so that its end is near its start.

    `period` is "hour", "day", "week" or "year" for moments, such as the time of day in UTC (in another time
    zone it is the same curve, shifted, which the model learns), or for numbers the number after which they
    start again, such as 24 for hours. With more `harmonics` the curve may bend more often.

    >>> Cycle(name="hour", period=24).vector(6).round(3).tolist()
    [0.0, 1.0]
    """

    period: float | str = "day"
    harmonics: int = 1

    kind: ClassVar[str] = "cycle"

    def __post_init__(self) -> None:
        super().__post_init__()
        name = f"period of {self.name!r}"
        if isinstance(self.period, str):
            check_choice(name, self.period, tuple(PERIODS))
        else:
            check_positive(name, self.period)
        check_count(f"harmonics of {self.name!r}", self.harmonics)
        if self.harmonics > MOST_HARMONICS:
            must = f"harmonics of {self.name!r} must be at most {MOST_HARMONICS}"
            raise ValueError(f"{must}, got {self.harmonics}")

    @property
    def timed(self) -> bool:
        """Whether its values are moments."""
        return isinstance(self.period, str)

    @property
    def length(self) -> float:
        """The period as a number: of moments in seconds."""
        return PERIODS[self.period] if isinstance(self.period, str) else float(self.period)

    @property
    def holds(self) -> Held:
        """What its field is."""
        return "time" if self.timed else "number"

    @property
    def filled_expected(self) -> str:
        """What a value must be, for messages."""
        return super().filled_expected if self.timed else "a finite number"

    @property
    def filled_labels(self) -> tuple[str, ...]:
        """The names of its features."""
        times = ["", *(f"{k} × " for k in range(2, self.harmonics + 1))]
        return tuple(f"{wave} {k}{self.name}" for k in times for wave in ("cos", "sin"))

    def number(self, value: Any) -> float:
        """A value of its field as a number: of moments in seconds."""
        return super().number(value) if self.timed else NumberColumn.number(self, value)

    def read_sql(self, cell: Cell) -> str:
        """The same."""
        return super().read_sql(cell) if self.timed else cell.number

    def filled_faults(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """A moment, or a finite number."""
        if self.timed:
            return super().filled_faults(value, given, field)
        return NumberColumn.filled_faults(self, value, given, field)

    def cell(self, value: Any) -> Any:
        """The value of a field as a log has it."""
        return super().cell(value) if self.timed else NumberColumn.cell(self, value)

    def of_numbers(self, numbers: Floats) -> Floats:
        """(n, w) cosines and sines."""
        angles = (numbers - np.floor(numbers / self.length) * self.length) * (2.0 * pi / self.length)
        waves = (wave(angles * k) for k in range(1, self.harmonics + 1) for wave in (np.cos, np.sin))
        return np.column_stack([*waves])

    def filled_sql(self, value: str) -> tuple[str, ...]:
        """The same."""
        length, turn = number_literal(self.length), number_literal(2.0 * pi / self.length)
        angle = f"(({value} - floor({value} / {length}) * {length}) * {turn})"
        times = [number_literal(float(k)) for k in range(1, self.harmonics + 1)]
        return tuple(f"{wave}({angle} * {k})" for k in times for wave in ("cos", "sin"))


def is_date(value: Any) -> bool:
    """Whether a value is the text of a moment."""
    return isinstance(value, str) and re.fullmatch(DATE, value) is not None and seconds_of(value) is not None


def seconds_of(value: Any) -> float | None:
    """A moment in seconds since 1970, to the microsecond; None for anything else."""
    if isinstance(value, str) and re.fullmatch(DATE, value):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / 1e6
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    try:
        seconds = float(value) if isinstance(value, Real | str) and not isinstance(value, bool) else None
    except ValueError:
        return None
    return seconds if seconds is None or isfinite(seconds) else None
