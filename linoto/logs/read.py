"""Logs as statistics: pulls, reward sums and squares per arm, with every bad row named or counted.

The same rows give the same bits on every run, whatever the number of threads: a log is cut into fixed ranges
of rows, each is summed by one thread, and the sums are added in order. (Left to its own threads, DuckDB adds
floats in a different order each time.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from linoto.core.kernels import Floats, Ints
from linoto.core.offline import Offline
from linoto.engines import THREADS, Engine, Track, map_cells, tracked
from linoto.logs.arms import ArmTable
from linoto.logs.row_queries import (
    KEPT_UNKNOWN,
    Columns,
    count_kinds,
    count_unknown,
    introduce_arms,
    judge_rows,
    refuse_first,
    select_rows,
)
from linoto.logs.tables import (
    ROW_NUMBER,
    Piece,
    as_text,
    check_whole,
    connected,
    quoted,
    readable,
    scan,
    source_name,
    stage,
)
from linoto.logs.times import describe_cut, time_cut
from linoto.logs.values import check_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

PART = 2**22  # rows of a part: beside them the 5 ms that a query costs before its first row do not count


# -- what a log says --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Propensities:
    """How likely the logged arms were, as the log says itself."""

    low: float
    high: float
    inverse: Floats  # (k,) sums of 1 / propensity over the pulls of each arm
    inverse_squares: Floats  # (k,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Log:
    """A log as statistics, with everything that was noticed on the way."""

    arms: ArmTable
    early: Offline  # the first half, by time or by row
    late: Offline
    rows: int  # read, the bad ones included
    bad: dict[str, int] = field(default_factory=dict)  # dropped rows of each kind
    unknown: dict[str, int] = field(default_factory=dict)  # rows of the most frequent unknown ids
    extent: tuple[float, float]  # smallest and largest reward
    split: str = "row order"  # what early and late mean
    propensities: Propensities | None = None

    @property
    def offline(self) -> Offline:
        """The whole log, as policies take it."""
        return self.early + self.late


def read_arms(
    source: Any,
    *,
    id: str | None = None,
    intercept: bool = True,
    normalise: bool = False,
    categorical: Sequence[str] = (),
) -> ArmTable:
    """One row per arm: the id in the first column unless named, features in the others.

    Numbers are taken as they are, words are one-hot encoded, and the encoding is kept with the table.
    """
    where = source_name(source)
    with TemporaryDirectory(prefix="linoto-") as folder, connected() as connection:
        pieces = stage(connection, source, None, Path(folder))
        table: dict[str, list[Any]] = {name: [] for name in dict(pieces[0].types)}
        key = next(iter(table)) if id is None else id
        for piece in pieces:
            check_whole(piece)
            check_columns({name: name for name in table}, list(dict(piece.types)), piece.name)
            # Ids are written as those of a log are, by the same words of SQL: a FLOAT's 0.1 is 0.1 in both.
            columns = (as_text(quoted(name), piece, name) if name == key else quoted(name) for name in table)
            with readable(piece.name, piece.kind):
                rows = connection.execute(
                    f"SELECT {', '.join(columns)} FROM {scan(piece.path)} ORDER BY {ROW_NUMBER}"
                ).fetchall()
            for name, values in zip(table, zip(*rows, strict=True), strict=False):
                table[name] += values
    options = {"intercept": intercept, "normalise": normalise, "categorical": tuple(categorical)}
    return ArmTable.from_columns(table, id=id, where=where, **options)  # type: ignore[arg-type]


def read_log(
    source: Any,
    *,
    action: str,
    reward: str,
    arms: ArmTable,
    propensity: str | None = None,
    time: str | None = None,
    skip_bad: bool = False,
    engine: Engine = THREADS,
    track: Track | None = None,
) -> Log:
    """A log from files (a path, a glob, a list of paths) or from a pandas, polars or Arrow table.

    `action` holds the id of an arm, `reward` what it earned. The first bad row is a ValueError that names its
    row and column; with `skip_bad` such rows are dropped and counted. The threads of `engine` read, or the
    workers of a Dask cluster, who must then see the files and the folder for temporary ones; the statistics
    are the same bits for any of them. `track` is called after each part of the log.
    """
    if not isinstance(arms, ArmTable):
        raise ValueError(f"arms must be a linoto.ArmTable, got {type(arms).__name__}")
    columns = Columns(action=action, reward=reward, propensity=propensity, time=time)
    with TemporaryDirectory(prefix="linoto-") as folder, connected() as connection:
        pieces = stage(connection, source, columns.given(), Path(folder))
        cut = None if time is None else time_cut(connection, pieces, columns)
        plan = Plan(columns=columns, ids=arms.names, cut=cut, skip_bad=skip_bad)
        introduce_arms(connection, arms.names)
        parts = cut_parts(pieces, halves=time is None)
        reduce_one = (
            ReduceHere(connection, plan) if engine.kind == "threads" else partial(reduce_alone, plan=plan)
        )
        tally = Tally.empty(len(arms.names))
        sums = map_cells(reduce_one, parts, engine=engine)
        for found in tracked(sums, track, total=len(parts)):
            tally.add(found)
        for piece in pieces:
            tally.rows += piece.rejected
            tally.bad["malformed row"] += piece.rejected
            if not skip_bad:
                check_whole(piece)
        extent = find_extent(connection, pieces, columns, clean=not +tally.bad)
        split = "row order" if cut is None else describe_cut(connection, cut, pieces, str(time))
    if not tally.pulls.any():
        raise ValueError(f"{source_name(source)} must have at least one usable row, got none")
    return tally.as_log(arms, extent=extent, split=split, weighed=propensity is not None)


# -- parts and their sums ---------------------------------------------------------------------------------


class Part(NamedTuple):
    """A range of rows of a piece: what one thread sums."""

    piece: Piece
    first: int
    end: int
    late: bool


class Plan(NamedTuple):
    """What every part needs to know."""

    columns: Columns
    ids: tuple[str, ...]
    cut: float | None  # rows with a time at or after it are late; None: each part knows
    skip_bad: bool


@dataclass(kw_only=True, eq=False)
class Tally:
    """The sums of some rows, early [0] and late [1]. Tallies add; an order of adding gives one result."""

    pulls: Ints  # (2, k)
    sums: Floats  # (2, k)
    squares: Floats  # (2, k)
    inverse: Floats  # (k,) of propensities
    inverse_squares: Floats  # (k,)
    low: float = np.inf
    high: float = -np.inf
    rows: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    @classmethod
    def empty(cls, k: int) -> Tally:
        """No rows."""
        two = (2, k)
        return cls(
            pulls=np.zeros(two, np.int64),
            sums=np.zeros(two),
            squares=np.zeros(two),
            inverse=np.zeros(k),
            inverse_squares=np.zeros(k),
        )

    def add(self, other: Tally) -> None:
        """Count the rows of another one too."""
        for name in ("pulls", "sums", "squares", "inverse", "inverse_squares"):
            getattr(self, name)[:] += getattr(other, name)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.rows += other.rows
        self.bad += other.bad
        self.unknown += other.unknown

    def as_log(self, arms: ArmTable, *, extent: tuple[float, float], split: str, weighed: bool) -> Log:
        """What was counted, as the rest of the package reads it."""
        early, late = (
            Offline(pulls=self.pulls[half], reward_sums=self.sums[half], reward_squares=self.squares[half])
            for half in (0, 1)
        )
        propensities = Propensities(
            low=self.low, high=self.high, inverse=self.inverse, inverse_squares=self.inverse_squares
        )
        return Log(
            arms=arms,
            early=early,
            late=late,
            rows=self.rows,
            bad=dict(sorted((+self.bad).items())),
            unknown=dict(self.unknown.most_common(KEPT_UNKNOWN)),
            extent=extent,
            split=split,
            propensities=propensities if weighed else None,
        )


def cut_parts(pieces: Sequence[Piece], *, halves: bool) -> list[Part]:
    """Ranges of PART rows, also cut in the middle of the whole log where rows decide what is early."""
    middle = sum(piece.rows for piece in pieces) // 2 if halves else None
    parts, before = [], 0
    for piece in pieces:
        edges = {*range(0, piece.rows, PART), piece.rows}
        if middle is not None and 0 < middle - before < piece.rows:
            edges.add(middle - before)
        ordered = sorted(edges)
        for first, end in pairwise(ordered):
            parts.append(Part(piece, first, end, middle is not None and before + first >= middle))
        before += piece.rows
    return parts


class ReduceHere:
    """`reduce_part` on threads of this process, each with its own cursor of one database."""

    def __init__(self, connection: Connection, plan: Plan) -> None:
        self.connection, self.plan, self.own = connection, plan, local()

    def __call__(self, part: Part) -> Tally:
        if not hasattr(self.own, "cursor"):
            self.own.cursor = self.connection.cursor()
        return reduce_part(self.own.cursor, part, self.plan)


def reduce_alone(part: Part, plan: Plan) -> Tally:
    """`reduce_part` where nothing is open yet: for workers elsewhere."""
    with connected() as connection:
        introduce_arms(connection, plan.ids)
        return reduce_part(connection, part, plan)


def reduce_part(connection: Connection, part: Part, plan: Plan) -> Tally:
    """The sums of one part. Only where they show that something is wrong are rows looked at one by one."""
    tally, size = Tally.empty(len(plan.ids)), part.end - part.first
    tally.rows = size
    rows = select_rows(part.piece, plan.columns, range(part.first, part.end))
    with readable(part.piece.name, part.piece.kind):
        found = group_rows(connection, rows, part, plan)
        if is_clean(found, size):
            fill(tally, found)
            return tally
        checked = judge_rows(rows, part.piece, plan.columns)
        if not plan.skip_bad:
            refuse_first(connection, checked, part.piece, plan.columns, plan.ids)
        tally.bad = count_kinds(connection, checked)
        tally.unknown = count_unknown(connection, checked)
        found = group_rows(connection, f"SELECT * FROM ({checked}) WHERE kind IS NULL", part, plan)
    if not is_clean(found, size - tally.bad.total()):
        refuse_sums(found, part.piece.name, plan.columns)
    fill(tally, found)
    return tally


def refuse_sums(found: Found, where: str, columns: Columns) -> None:
    """Name the column whose rows are fine one by one, but not together."""
    if np.isfinite(found["square"]).all():
        raise ValueError(f"{where}, column {columns.propensity!r}: propensities are too small to be inverted")
    raise ValueError(f"{where}, column {columns.reward!r}: rewards are too large to be squared and summed")


Found = Mapping[str, Any]


def group_rows(connection: Connection, rows: str, part: Part, plan: Plan) -> Found:
    """The one group-by: pulls, reward sums and squares of each arm."""
    late = str(part.late).lower() if plan.cut is None else f"time >= {plan.cut!r}"
    extra = ""
    if plan.columns.propensity is not None:
        extra = """, sum(1 / propensity) AS inverse, sum(1 / propensity / propensity) AS inverse_square,
            min(propensity) AS low, max(propensity) AS high, count(propensity) AS weighed"""
    if plan.columns.time is not None:
        extra += ", count(*) FILTER (isfinite(time)) AS timed"
    return connection.execute(
        f"""SELECT coalesce(known.arm, -1) AS arm, sums.* EXCLUDE (action) FROM (
            SELECT action, {late} AS late, count(reward) AS pulls, sum(reward) AS sum,
            sum(reward * reward) AS square{extra}
            FROM ({rows}) GROUP BY action{", late" if plan.cut is not None else ""}
        ) AS sums LEFT JOIN known ON known.id = {as_text("action", part.piece, plan.columns.action)}"""
    ).fetchnumpy()


def is_clean(found: Found, size: int) -> bool:
    """Whether these sums can only come from good rows."""
    if any(np.ma.is_masked(column) for column in found.values()):
        return False
    if found["pulls"].sum() != size or (found["arm"] < 0).any() or not np.isfinite(found["square"]).all():
        return False
    if "timed" in found and found["timed"].sum() != size:
        return False
    if "weighed" not in found or not size:
        return True
    probable = (found["low"] > 0).all() and (found["high"] <= 1).all()
    return bool(found["weighed"].sum() == size and probable and np.isfinite(found["inverse_square"]).all())


def fill(tally: Tally, found: Found) -> None:
    """Put the sums of each arm in its place."""
    place = found["late"].astype(np.int64), found["arm"]
    np.add.at(tally.pulls, place, found["pulls"])
    np.add.at(tally.sums, place, found["sum"])
    np.add.at(tally.squares, place, found["square"])
    if "weighed" in found and len(found["arm"]):
        np.add.at(tally.inverse, found["arm"], found["inverse"])
        np.add.at(tally.inverse_squares, found["arm"], found["inverse_square"])
        tally.low, tally.high = float(found["low"].min()), float(found["high"].max())


def find_extent(
    connection: Connection, pieces: Sequence[Piece], columns: Columns, *, clean: bool
) -> tuple[float, float]:
    """The smallest and the largest reward; Parquet mostly knows them without being read."""
    low, high = np.inf, -np.inf
    for piece in pieces:
        rows = select_rows(piece, columns)
        if not clean:
            rows = f"SELECT * FROM ({judge_rows(rows, piece, columns)}) WHERE kind IS NULL"
        with readable(piece.name, piece.kind):
            found = connection.execute(f"SELECT min(reward), max(reward) FROM ({rows})").fetchall()[0]
        if found[0] is not None:
            low, high = min(low, found[0]), max(high, found[1])
    return float(low), float(high)
