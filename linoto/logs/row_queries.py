"""The rows of a log as SQL, and what can be wrong with one of them.

Parquet's statistics leave NaN out, and DuckDB believes them: a comparison, or `isnan` in a filter, may be
answered without a look at the values. `isfinite` looks, so every fault that NaN could be is found by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from linoto.logs.tables import ROW_NUMBER, Piece, as_number, as_text, as_time, quoted, scan
from linoto.logs.values import nearest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

KEPT_UNKNOWN = 100  # ids that are listed, most frequent first


class Columns(NamedTuple):
    """Which column means what."""

    action: str
    reward: str
    propensity: str | None = None
    time: str | None = None
    id: str | None = None  # what tells rows apart, where somebody asks

    def given(self) -> dict[str, str]:
        """The names in use, by role."""
        return {role: name for role, name in self._asdict().items() if name is not None}


# -- rows -------------------------------------------------------------------------------------------------


def introduce_arms(connection: Connection, ids: Sequence[str]) -> None:
    """Tell a database which arms there are."""
    connection.execute(
        "CREATE TABLE known AS SELECT unnest(?::VARCHAR[]) AS id, unnest(range(?)) AS arm",
        [list(ids), len(ids)],
    )


def select_rows(piece: Piece, columns: Columns, within: range | None = None) -> str:
    """action, reward, propensity and time of a piece or of some rows of it, under these names."""
    parts = [f"{quoted(columns.action)} AS action", f"{as_number(piece, columns.reward)} AS reward"]
    if columns.propensity is not None:
        parts.append(f"{as_number(piece, columns.propensity)} AS propensity")
    if columns.time is not None:
        parts.append(f"{as_time(piece, columns.time)} AS time")
    for role, name in columns.given().items():
        parts.append(f"{quoted(name)} AS {role}_given")
    some = ""
    if within is not None and within != range(piece.rows):
        some = f" WHERE {ROW_NUMBER} >= {within.start} AND {ROW_NUMBER} < {within.stop}"
    return f"SELECT {ROW_NUMBER} AS row, {', '.join(parts)} FROM {scan(piece.path)}{some}"


def judge_rows(rows: str, piece: Piece, columns: Columns) -> str:
    """The same rows with the arm of each and the kind of fault it has, NULL where there is none."""
    faults = ["WHEN action IS NULL THEN 'missing action'", "WHEN known.id IS NULL THEN 'unknown arm'"]
    infinite, nan = ("isinf(reward)", "reward is infinite"), ("NOT isfinite(reward)", "reward is NaN")
    faults += faults_of("reward", infinite, nan, ("NOT isfinite(reward * reward)", "reward too large"))
    if columns.propensity is not None:
        outside = "NOT isfinite(propensity) OR propensity <= 0 OR propensity > 1"
        small = ("NOT isfinite(1 / propensity / propensity)", "propensity too small")
        faults += faults_of("propensity", (outside, "propensity outside (0, 1]"), small)
    if columns.time is not None:
        faults += faults_of("time", ("NOT isfinite(time)", "time is not finite"))
    if columns.id is not None:
        faults.append(f"WHEN {as_text('id_given', piece, columns.id)} IS NULL THEN 'missing id'")
    return f"""SELECT judged.*, known.arm AS arm, CASE {" ".join(faults)} END AS kind FROM ({rows}) AS judged
        LEFT JOIN known ON known.id = {as_text("action", piece, columns.action)}"""


def faults_of(role: str, *wrong: tuple[str, str]) -> list[str]:
    """A value that is missing, one that is no number, and those that are wrong: how to tell, and a name."""
    return [
        f"WHEN {role}_given IS NULL THEN 'missing {role}'",
        f"WHEN {role} IS NULL THEN '{role} not understood'",
        *(f"WHEN {test} THEN '{name}'" for test, name in wrong),
    ]


# -- faults -----------------------------------------------------------------------------------------------


def refuse_first(
    connection: Connection, checked: str, piece: Piece, columns: Columns, ids: Sequence[str]
) -> None:
    """Name the first bad row of a piece, its column and what it holds."""
    given = columns.given()
    shown = ", ".join(f"CAST({role}_given AS VARCHAR)" for role in given)
    found = connection.execute(
        f"SELECT row, kind, {shown} FROM ({checked}) WHERE kind IS NOT NULL ORDER BY row LIMIT 1"
    ).fetchall()
    if not found:
        return
    row, kind, *values = found[0]
    rejected = piece.first_rejected
    if rejected is not None and rejected[0] <= row:
        row, text = rejected
        raise ValueError(f"{piece.name}, row {row + 1}: {text}")
    role = next((role for role in given if role in kind.split()), "action")
    value = dict(zip(given, values, strict=True))[role]
    raise ValueError(f"{piece.name}, row {row + 1}, column {given[role]!r}: {explain(kind, value, ids)}")


def explain(kind: str, value: str | None, ids: Sequence[str]) -> str:
    """What is wrong with a value, and what was expected."""
    if kind.startswith("missing"):
        return f"the {kind.removeprefix('missing ')} is missing"
    if kind == "unknown arm":
        return f"there is no arm {value!r} among the {len(ids)} arms{nearest(str(value), ids)}"
    if kind == "reward too large":
        return f"the reward is too large to be squared, got {value}"
    if kind == "propensity too small":
        return f"the propensity is too small for 1 / propensity^2, got {value}"
    if kind.startswith("propensity outside"):
        return f"the propensity must be in (0, 1], got {value}"
    if kind.startswith("time"):
        return f"the time must be a finite number or a date, got {value!r}"
    return f"the {kind.split()[0]} must be a finite number, got {value!r}"


def count_kinds(connection: Connection, checked: str) -> Counter[str]:
    """Rows of each kind of fault."""
    return Counter(
        dict(
            connection.execute(
                f"SELECT kind, count(*) FROM ({checked}) WHERE kind IS NOT NULL GROUP BY kind"
            ).fetchall()
        )
    )


def count_unknown(connection: Connection, checked: str) -> Counter[str]:
    """Rows of the most frequent ids that no arm has."""
    return Counter(
        dict(
            connection.execute(
                f"""SELECT CAST(action AS VARCHAR) AS name, count(*) AS n FROM ({checked})
                WHERE kind = 'unknown arm' GROUP BY name ORDER BY n DESC, name LIMIT {KEPT_UNKNOWN}"""
            ).fetchall()
        )
    )
