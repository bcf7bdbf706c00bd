"""Columns of numbers whose value may be missing: they then have one more feature, which says so.

A missing value is nothing in the other features, which for a scaled number is the mean of the log, and for a
curve no place on it. What it means for the reward is learnt by the feature that is 1 only then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linoto.core.arrays import Bools, Floats
from linoto.core.cells import is_missing
from linoto.core.features.columns.column import MISSING, Column, Fault, text_literal

WORDS = ("", "na", "n/a", "nan", "null", "none", "<na>")  # of tables, for a number that is not there
IN_LOG = "read with missing='feature', such rows have a feature of their own"
IN_REQUEST = "it may be missing only where it was in rows of the log, read with missing='feature'"


@dataclass(frozen=True, kw_only=True)
class OptionalColumn(Column, ABC):
    """A column whose features are numbers; where it is `missing`, its value may be.

    What a kind says of values that are there, its `filled_...` methods say.

    >>> from linoto import Numeric
    >>> age = Numeric(name="age", mean=40.0, scale=10.0, missing=True)
    >>> age.labels, age.vector(55).tolist(), age.vector(None).tolist()
    (('age', 'age=(missing)'), [1.5, 0.0], [0.0, 1.0])
    """

    missing: bool = False  # whether a value may be missing, which then has a feature

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.missing, bool):
            raise ValueError(f"missing of {self.name!r} must be True or False, got {self.missing!r}")

    # -- of values that are there

    @property
    @abstractmethod
    def filled_labels(self) -> tuple[str, ...]:
        """The names of the features of numbers."""

    @property
    @abstractmethod
    def filled_expected(self) -> str:
        """What a value that is there must be, for messages."""

    @abstractmethod
    def filled_vector(self, value: Any) -> Floats:
        """Their features."""

    @abstractmethod
    def filled_sql(self, value: str) -> tuple[str, ...]:
        """The same in SQL."""

    @abstractmethod
    def filled_faults(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """What can be wrong with a value, the first of which is that there is none."""

    @abstractmethod
    def is_filled_sql(self, value: str) -> str:
        """Whether a value is there, in SQL."""

    def filled_learns(self, value: str) -> tuple[str, ...]:
        """The numbers whose spread must be known."""
        return (value,)

    def filled_possible(self, rows: int, rng: np.random.Generator) -> Floats:
        """(n, w) features that span all that those of numbers can be."""
        return rng.normal(size=(rows, len(self.filled_labels)))

    # -- of all values

    def lacks(self, value: Any) -> bool:
        """Whether a value is missing, and may be."""
        return self.missing and is_absent(value)

    @property
    def missing_label(self) -> str:
        """The name of the feature of a missing value."""
        return f"{self.name}={MISSING}"

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its features."""
        return (*self.filled_labels, self.missing_label) if self.missing else self.filled_labels

    @property
    def expected(self) -> str:
        """What a value must be, for messages."""
        return f"{self.filled_expected} or None" if self.missing else self.filled_expected

    def vector(self, value: Any) -> Floats:
        """(w,) the features of a value."""
        if not self.missing:
            return self.filled_vector(value)
        found = np.zeros(len(self.labels))
        if self.lacks(value):
            found[-1] = 1.0
        else:
            found[:-1] = self.filled_vector(value)
        return found

    def with_missing(self, found: Floats, lacking: Bools) -> Floats:
        """(n, w) the features of rows, of which some lack a value, from those of numbers."""
        if not self.missing:
            return found
        return np.column_stack([np.where(lacking[:, None], 0.0, found), lacking.astype(np.float64)])

    def features_sql(self, value: str) -> tuple[str, ...]:
        """(w,) the features of a value that was read."""
        found = self.filled_sql(value)
        if not self.missing:
            return found
        there = self.is_filled_sql(value)
        known = (f"CASE WHEN {there} THEN {sql} ELSE 0.0::DOUBLE END" for sql in found)
        return (*known, f"CASE WHEN {there} THEN 0.0::DOUBLE ELSE 1.0::DOUBLE END")

    def faults_sql(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """What can be wrong with the value of a field; it may be missing where that has a feature."""
        none, *others = self.filled_faults(value, given, field)
        if not self.missing:
            yield none._replace(message=f"{none.message}: {IN_LOG}")
            yield from others
            return
        for fault in others:
            test = f"CASE WHEN NOT ({fault.test}) THEN FALSE ELSE NOT {absent_sql(given)} END"
            yield fault._replace(test=test)

    def learns_sql(self, value: str) -> tuple[str, ...]:
        """The numbers whose spread it must know; NULL where there is none."""
        found = self.filled_learns(value)
        if not self.missing:
            return found
        return tuple(f"CASE WHEN {self.is_filled_sql(value)} THEN {sql} END" for sql in found)

    def possible(self, rows: int, rng: np.random.Generator) -> Floats:
        """(n, w) features that span all that its features can be: of values, and of none."""
        found = self.filled_possible(rows, rng)
        return self.with_missing(found, rng.random(rows) < 0.5) if self.missing else found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, as before there were missing values where it takes none."""
        found = super().to_dict()
        return found if self.missing else {name: value for name, value in found.items() if name != "missing"}


def is_absent(value: Any) -> bool:
    """Whether a value says that there is no number, as tables do.

    >>> is_absent(None), is_absent(float("nan")), is_absent("NA"), is_absent(" "), is_absent(0)
    (True, True, True, True, False)
    """
    return value.strip(" ").lower() in WORDS if isinstance(value, str) else is_missing(value)


def absent_sql(given: str) -> str:
    """The same of a value as it was given, in SQL."""
    words = ", ".join(map(text_literal, WORDS))
    return f"({given} IS NULL OR lower(trim(CAST({given} AS VARCHAR))) IN ({words}))"
