"""What the columns of a log with contexts are like: levels, means, scales, and rows that cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import sqrt
from typing import NamedTuple

import numpy as np

from linoto.engines import Engine
from linoto.logs.context_queries import (
    ContextColumns,
    ContextRange,
    count_bad_rows,
    count_levels,
    introduce_items,
    refuse_bad_row,
    survey_numbers,
)
from linoto.logs.parts import ask_parts
from linoto.logs.sums import cut_spans
from linoto.logs.tables import Connection, StagedFile, refuse_rejected

PART = 2**19  # rows of a part: 20 columns of them are 84 MB, for each thread
NOTHING = (np.inf, -np.inf)  # the ends of no numbers at all
MOST_LEVELS = 100_000  # of a column that are counted at all


class Spread(NamedTuple):
    """How many numbers there are, their mean, and the sum of squares around it."""

    size: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def merged(self, other: Spread) -> Spread:
        """Of both (Chan, Golub and LeVeque 1983)."""
        size = self.size + other.size
        if not size:
            return self
        gap = other.mean - self.mean
        squares = self.squares + other.squares + gap**2 * self.size * other.size / size
        return Spread(size, self.mean + gap * other.size / size, squares)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return sqrt(self.squares / self.size)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What some rows have in their columns."""

    rows: int
    bad: Counter[str]
    levels: dict[str, Counter[str | None]]  # of each column that has some
    spreads: tuple[Spread, ...]  # of each column of numbers
    extent: tuple[float, float]  # of rewards
    likely: tuple[float, float]  # of propensities
    clean: tuple[bool, ...]  # which parts have no bad row

    @classmethod
    def start(cls, columns: ContextColumns, *, malformed: int) -> Survey:
        """No rows but the malformed ones."""
        return cls(
            rows=malformed,
            bad=Counter({"malformed row": malformed}),
            levels={name: Counter() for name in columns.keys},
            spreads=(Spread(),) * len(columns.numbers),
            extent=NOTHING,
            likely=NOTHING,
            clean=(),
        )

    @property
    def good(self) -> int:
        """Rows that can be used."""
        return self.rows - self.bad.total()

    def __add__(self, other: Survey) -> Survey:
        ends = {
            name: (min(mine[0], yours[0]), max(mine[1], yours[1]))
            for name, mine, yours in (
                ("extent", self.extent, other.extent),
                ("likely", self.likely, other.likely),
            )
        }
        return Survey(
            rows=self.rows + other.rows,
            bad=self.bad + other.bad,
            levels={name: counts + other.levels[name] for name, counts in self.levels.items()},
            spreads=tuple(a.merged(b) for a, b in zip(self.spreads, other.spreads, strict=True)),
            clean=self.clean + other.clean,
            **ends,
        )


class SurveyOptions(NamedTuple):
    """What every part needs to know."""

    columns: ContextColumns
    items: tuple[str, ...]  # the only ones there may be, if any are named
    skip_bad: bool


def survey_files(
    connection: Connection,
    files: Sequence[StagedFile],
    options: SurveyOptions,
    engine: Engine,
    *,
    halves: bool,
) -> tuple[Survey, list[ContextRange]]:
    """What the columns of all files are like, and the parts that were looked at."""
    spans = cut_spans(files, size=PART, halves=halves)
    parts = [ContextRange(span.file, options.columns, *span[1:], options.items) for span in spans]
    introduce_items(connection, options.items)
    introduce = partial(introduce_items, items=options.items)
    found = ask_parts(connection, engine, parts, partial(survey_part, options=options), introduce)
    start = Survey.start(options.columns, malformed=sum(file.rejected for file in files))
    survey = reduce(merge, found, start)
    if not options.skip_bad:
        refuse_rejected(files)
    kept = [part._replace(good_only=not clean) for part, clean in zip(parts, survey.clean, strict=True)]
    return survey, kept


def merge(one: Survey, other: Survey) -> Survey:
    """Both together, unless a column has too many levels."""
    both = one + other
    for name, counts in both.levels.items():
        check_levels(name, len(counts), both.rows)
    return both


def survey_part(connection: Connection, rows: ContextRange, options: SurveyOptions) -> Survey:
    """What a part is like; only where something is wrong are rows looked at one by one."""
    columns, bad, weighed = options.columns, Counter[str](), options.columns.propensity is not None
    found = survey_numbers(connection, rows)
    if found["good"][0] != found["rows"][0]:
        if not options.skip_bad:
            refuse_bad_row(connection, rows)
        bad = count_bad_rows(connection, rows)
        rows = rows._replace(good_only=True)
        found = survey_numbers(connection, rows)
    good = int(found["rows"][0])
    levels = {}
    for name, sql in columns.keys.items():
        check_levels(name, int(found[f"levels_{sql}"][0]), good)
        levels[name] = count_levels(connection, rows, sql)
    spreads = (
        Spread(good, float(found[f"mean{i}"][0]), good * float(found[f"variance{i}"][0]))
        for i in range(len(columns.numbers) if good else 0)
    )
    return Survey(
        rows=good + bad.total(),
        bad=bad,
        levels=levels,
        spreads=tuple(spreads) or (Spread(),) * len(columns.numbers),
        extent=(float(found["low"][0]), float(found["high"][0])) if good else NOTHING,
        likely=(float(found["least"][0]), float(found["most"][0])) if good and weighed else NOTHING,
        clean=(not rows.good_only,),
    )


def check_levels(name: str, count: int, rows: int) -> None:
    """Refuse a column with so many levels that even counting them would fill the memory."""
    if count > MOST_LEVELS:
        raise ValueError(
            f"column {name!r} must have at most {MOST_LEVELS:,} levels, got about {count:,} in {rows:,} "
            "rows: leave it out, or group or hash its values first"
        )
