"""The arms of a log that no file lists: the distinct values of its action column, each an arm of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from linoto.core.cells import WHOLE_NUMBER, has_controls, in_one_spacing, number_of, text_of
from linoto.core.hints import shortened_list
from linoto.logs.arms import ArmTable
from linoto.logs.notation import looks_like_compact_dates, looks_like_dates
from linoto.logs.queries import distinct_ids, distinct_texts
from linoto.logs.tables import Connection, StagedFile
from linoto.logs.value_sql import is_date

MOST_ARMS = 1000  # distinct values from which on a column is no list of choices
MOST_TEXTS = 100_000  # distinct texts that are compared with each other, of a file
MOST_MEASURED = 20  # distinct numbers with decimals from which on they are a measurement
FEWEST_ROWS = 2  # of each value on average, where there are more than ten values
MISSING_WORDS = ("na", "n/a", "#n/a", "<na>", "nan", "nat", "null")
WAY_OUT = "name the column of what was chosen, or list the arms in a file of their own (arms)"


class FoundArms(NamedTuple):
    """The arms that a column names, and what was noticed."""

    arms: ArmTable
    notes: tuple[str, ...]


def check_arms(arms: ArmTable | None) -> None:
    """Refuse anything but a table of arms, or none."""
    if arms is not None and not isinstance(arms, ArmTable):
        raise ValueError(f"arms must be a linoto.ArmTable or None, got {type(arms).__name__}")


def find_arms(
    connection: Connection, files: Sequence[StagedFile], column: str, where: str, *, skip_bad: bool = False
) -> FoundArms:
    """The distinct values of a column as arms without features; a column that is none of arms is refused."""
    place = f"{where}, column {column!r}"
    found: set[str] = set()
    for file in files:
        if is_date(file.types[column]):
            raise ValueError(f"{place}: must name arms, got dates: {WAY_OUT}")
        found |= set(distinct_ids(connection, file, column, MOST_ARMS + 1))
    return arms_named(found, sum(file.rows for file in files), column, where, skip_bad=skip_bad)


def arms_named(names: set[str], rows: int, column: str, where: str, *, skip_bad: bool = False) -> FoundArms:
    """The same from the values themselves, of so many rows."""
    place = f"{where}, column {column!r}"
    missing = {name for name in names if name.strip().lower() in MISSING_WORDS or not name.strip()}
    if missing and not skip_bad:
        raise ValueError(
            f"{place}: must name an arm in every row, got {min(missing)!r}: leave such rows out (skip_bad, "
            "where), or list the arms in a file of their own (arms) if it is one"
        )
    odd = set(filter(has_controls, names))
    if odd and not skip_bad:
        raise ValueError(
            f"{place}: must name arms without control characters or line ends, got {min(odd)!r}: write them "
            "in one line, or leave such rows out (skip_bad, where)"
        )
    kept = sorted(names - missing - odd, key=in_order)
    if not kept:
        raise ValueError(f"{place}: must name at least one arm, got no value at all")
    refuse_other_columns(kept, rows, place)
    refuse_odd_spaces(kept, place)
    return FoundArms(ArmTable.one_hot(kept, column), notes_on(kept, column))


def in_order(name: str) -> tuple[bool, float, str]:
    """Numbers by their size, before words by their letters."""
    number = number_of(name)
    return (False, number, name) if number is not None and number == number else (True, 0.0, name)


def refuse_other_columns(names: Sequence[str], rows: int, place: str) -> None:
    """Refuse dates, measurements, and what nearly every row has a value of its own of."""
    if looks_like_dates(names) or looks_like_compact_dates(names):
        raise ValueError(f"{place}: must name arms, got dates such as {names[0]!r}: {WAY_OUT}")
    if len(names) > MOST_ARMS:
        raise ValueError(f"{place}: must name arms, got more than {MOST_ARMS:,} different values: {WAY_OUT}")
    measured = [name for name in names if re.fullmatch(r"[+-]?\d*\.\d+(e[+-]?\d+)?", name.strip().lower())]
    if len(measured) > MOST_MEASURED and 2 * len(measured) > len(names):
        raise ValueError(
            f"{place}: must name arms, got {len(names):,} different numbers such as {measured[0]}: {WAY_OUT}"
        )
    if len(names) > 10 and len(names) * FEWEST_ROWS > rows:
        raise ValueError(
            f"{place}: must name arms, got {len(names):,} different values in {rows:,} rows: {WAY_OUT}"
        )


def refuse_odd_spaces(names: Sequence[str], place: str) -> None:
    """Refuse two names that look the same: one of them would be an arm that nobody knows of."""
    seen: dict[str, str] = {}
    for name in names:
        plain = in_one_spacing(name)
        if plain in seen:
            raise ValueError(
                f"{place}: must name arms, got {seen[plain]!r} and {name!r}, which differ in spaces only: "
                "write them in one way, or list the arms in a file of their own (arms)"
            )
        seen[plain] = name


def notes_on(names: Sequence[str], column: str) -> tuple[str, ...]:
    """What the arms are, and which of them may be one."""
    which = f"they are the {len(names):,} different values" if len(names) > 1 else "the only one is the value"
    notes = [f"no file lists the arms: {which} of {column!r}"]
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.casefold(), []).append(name)
    several = [" and ".join(map(repr, some)) for some in alike.values() if len(some) > 1]
    if several:
        notes.append(f"some arms differ in upper and lower case only: {shortened_list(several)}")
    return tuple(notes)


def notes_on_texts(
    connection: Connection, files: Sequence[StagedFile], column: str, arms: Sequence[str]
) -> tuple[str, ...]:
    """That some texts are taken for one arm. No file is read where no arm is a whole number."""
    if not any(re.fullmatch(WHOLE_NUMBER, name) for name in arms):
        return ()
    texts = {text for file in files for text in distinct_texts(connection, file, column, MOST_TEXTS)}
    written: dict[str, list[str]] = {}
    for text in sorted(texts):
        written.setdefault(text_of(text), []).append(text)
    for arm, (one, *others) in written.items():
        if others and arm in arms:
            why = "a whole number is the same with .0 and without"
            return (f"{one!r} and {others[0]!r} of {column!r} are taken for one arm, {arm!r}: {why}",)
    return ()
