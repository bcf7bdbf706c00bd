"""Sums of a log by arm: the same rows give the same bits on every run, whatever the number of threads.

A log is cut into fixed ranges of rows, each is summed by one thread, and the sums are added in order. (Left
to its own threads, DuckDB adds floats in a different order each time.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.names import Names
from linoto.core.offline import Offline
from linoto.engines import Engine, Track, tracked
from linoto.logs.parts import ask_parts
from linoto.logs.queries import (
    Columns,
    ResultColumns,
    RowRange,
    count_bad_rows,
    count_unknown_ids,
    introduce_arms,
    refuse_bad_row,
    sum_by_arm,
)
from linoto.logs.tables import Connection, StagedFile, refuse_rejected

PART = 2**22  # rows of a part: beside them the 5 ms that a query costs before its first row do not count
FEWEST_ENDS, MOST_ENDS = 10, 10_000  # rewards that are kept at either end of a log


class RewardEnds(NamedTuple):
    """The rewards that decide how heavy tails are: a hundredth of the rows at either end, and one; and the
    ends of each arm."""

    smallest: Floats  # rising
    largest: Floats  # falling
    lowest: Floats  # (k,) of each arm; inf where it was never pulled
    highest: Floats  # (k,) of each arm; -inf where it was never pulled


def kept_ends(rows: int) -> int:
    """How many rewards are kept at either end of so many."""
    return min(max(rows // 100 + 1, FEWEST_ENDS), MOST_ENDS)


@dataclass(frozen=True, kw_only=True, eq=False)
class Propensities:
    """How likely the logged arms were, as the log says itself."""

    low: float
    high: float
    inverse: Floats  # (k,) sums of 1 / propensity over the pulls of each arm
    inverse_squares: Floats  # (k,)

    def __add__(self, other: Propensities) -> Propensities:
        return Propensities(
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            inverse=self.inverse + other.inverse,
            inverse_squares=self.inverse_squares + other.inverse_squares,
        )


class SumOptions(NamedTuple):
    """What every part needs to know."""

    ids: Names
    cut: float | None  # rows with a time at or after it are late; None: each part knows
    skip_bad: bool
    part: int = PART  # rows that are summed at a time


def sums_equal_squares(offline: Offline) -> bool:
    """Whether rewards look like 0 and 1, each of which equals its square."""
    squares = offline.reward_squares
    return squares is not None and bool(np.array_equal(offline.reward_sums, squares))


@dataclass(frozen=True, kw_only=True, eq=False)
class ArmSums:
    """What some rows add up to, arm by arm. Sums add; one order of adding gives one result."""

    early: Offline
    late: Offline
    propensities: Propensities
    rows: int
    bad: Counter[str]
    unknown: Counter[str]

    @property
    def binary(self) -> bool:
        """Whether rewards look like 0 and 1."""
        return sums_equal_squares(self.early) and sums_equal_squares(self.late)

    @classmethod
    def start(cls, k: int, *, malformed: int) -> ArmSums:
        """No rows but the malformed ones."""
        early = late = Offline.empty(k)
        none = Propensities(low=np.inf, high=-np.inf, inverse=np.zeros(k), inverse_squares=np.zeros(k))
        bad = Counter({"malformed row": malformed})
        return cls(early=early, late=late, propensities=none, rows=malformed, bad=bad, unknown=Counter())

    def __add__(self, other: ArmSums) -> ArmSums:
        return ArmSums(**{name: getattr(self, name) + getattr(other, name) for name in vars(self)})


def cut_parts(
    files: Sequence[StagedFile], columns: Columns, *, size: int, halves: bool, good_only: bool = False
) -> list[RowRange]:
    """Ranges of so many rows, also cut in the middle of the whole log where rows decide what is early."""
    middle = sum(file.rows for file in files) // 2 if halves else None
    parts, before = [], 0
    for file in files:
        edges = {*range(0, file.rows, size), file.rows}
        if middle is not None and 0 < middle - before < file.rows:
            edges.add(middle - before)
        for first, end in pairwise(sorted(edges)):
            late = middle is not None and before + first >= middle
            parts.append(RowRange(file, columns, first, end, late, good_only))
        before += file.rows
    return parts


def sum_files(
    connection: Connection,
    files: Sequence[StagedFile],
    columns: Columns,
    options: SumOptions,
    engine: Engine,
    track: Track | None,
) -> ArmSums:
    """The sums of all files, added in the order of their rows."""
    parts = cut_parts(files, columns, size=options.part, halves=options.cut is None)
    introduce = partial(introduce_arms, ids=options.ids)
    found = ask_parts(connection, engine, parts, partial(sum_part, options=options), introduce)
    start = ArmSums.start(len(options.ids), malformed=sum(file.rejected for file in files))
    sums = reduce(add, tracked(found, track, total=len(parts)), start)
    if not options.skip_bad:
        refuse_rejected(files)
    return sums


def sum_part(connection: Connection, rows: RowRange, options: SumOptions) -> ArmSums:
    """The sums of a part. Only where they show that something is wrong are rows looked at one by one."""
    size, bad, unknown = rows.end - rows.first, Counter[str](), Counter[str]()
    found = sum_by_arm(connection, rows, options.cut)
    if not is_clean(found, size):
        if not options.skip_bad:
            refuse_bad_row(connection, rows, options.ids)
        bad, unknown = count_bad_rows(connection, rows), count_unknown_ids(connection, rows)
        found = sum_by_arm(connection, rows._replace(good_only=True), options.cut)
        if not is_clean(found, size - bad.total()):
            refuse_sums(found, rows)
    early, late, propensities = by_arm(found, len(options.ids))
    return ArmSums(early=early, late=late, propensities=propensities, rows=size, bad=bad, unknown=unknown)


def by_arm(found: ResultColumns, k: int) -> tuple[Offline, Offline, Propensities]:
    """Early and late sums and those of propensities; an id written in several ways is found as often."""
    halves, inverse, low, high = np.zeros((2, 3, k)), np.zeros((2, k)), np.inf, -np.inf
    late, arms = found["late"].astype(np.int64), found["arm"]
    for place, name in enumerate(("pulls", "sum", "square")):
        np.add.at(halves[:, place], (late, arms), found[name])
    if "weighed" in found and arms.size:
        for place, name in enumerate(("inverse", "inverse_square")):
            np.add.at(inverse[place], arms, found[name])
        low, high = float(found["low"].min()), float(found["high"].max())
    early_sums, late_sums = (Offline(pulls=n, reward_sums=x, reward_squares=xx) for n, x, xx in halves)
    propensities = Propensities(low=low, high=high, inverse=inverse[0], inverse_squares=inverse[1])
    return early_sums, late_sums, propensities


def refuse_sums(found: ResultColumns, rows: RowRange) -> None:
    """Name the column whose rows are fine one by one, but not together."""
    name, columns = rows.file.name, rows.columns
    if np.isfinite(found["square"]).all():
        raise ValueError(f"{name}, column {columns.propensity!r}: propensities are too small to be inverted")
    raise ValueError(f"{name}, column {columns.reward!r}: rewards are too large to be squared and summed")


def is_clean(found: ResultColumns, size: int) -> bool:
    """Whether these sums can only come from good rows."""
    if any(np.ma.is_masked(column) for column in found.values()):
        return False
    if found["pulls"].sum() != size or (found["arm"] < 0).any() or not np.isfinite(found["square"]).all():
        return False
    if any(found[name].sum() != size for name in ("timed", "sure") if name in found):
        return False
    if "weighed" not in found or not size:
        return True
    probable = (found["low"] > 0).all() and (found["high"] <= 1).all()
    return bool(found["weighed"].sum() == size and probable and np.isfinite(found["inverse_square"]).all())
