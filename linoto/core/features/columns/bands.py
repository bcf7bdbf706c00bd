"""A number by the band that it lies in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.cells import is_missing, number_of, text_of
from linoto.core.features.columns.column import Cell, Column, Fault, Found, Learns, number_literal
from linoto.core.features.columns.numeric import rising
from linoto.core.validation import check_count, is_number


@dataclass(frozen=True, kw_only=True)
class Bands(Column):
    """A number cut at edges: one feature for each band. An edge belongs to the band above it.

    `edges` are numbers that rise, or how many there are to be: then they are quantiles of the log, so that
    all bands have about as many rows. A number may be infinite. Without a value all features are 0.

    >>> age = Bands(name="age", edges=(18, 65))
    >>> age.labels
    ('age<18', 'age 18 to 65', 'age>=65')
    >>> age.vector(18).tolist(), age.vector(None).tolist()
    ([0.0, 1.0, 0.0], [0.0, 0.0, 0.0])
    """

    edges: int | tuple[float, ...] = 4

    kind: ClassVar[str] = "bands"
    leveled: ClassVar[bool] = True
    learns: ClassVar[Learns] = "quantiles"

    def __post_init__(self) -> None:
        super().__post_init__()
        name = f"edges of {self.name!r}"
        if is_number(self.edges):
            check_count(name, self.edges)
        else:
            object.__setattr__(self, "edges", rising(name, self.edges, least=1))

    @property
    def draft(self) -> bool:
        """Whether its edges are to be those of a log."""
        return isinstance(self.edges, int)

    @property
    def known(self) -> tuple[float, ...]:
        """The edges, once they are known."""
        return () if isinstance(self.edges, int) else self.edges

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its bands."""
        words = [text_of(edge) for edge in self.known]
        inner = (f"{self.name} {low} to {high}" for low, high in pairwise(words))
        return (f"{self.name}<{words[0]}", *inner, f"{self.name}>={words[-1]}") if words else ()

    @property
    def expected(self) -> str:
        """What a value must be, for messages."""
        return "a number or None"

    def code(self, value: Any) -> int:
        """Which band a value lies in; -1: it is missing."""
        if is_missing(value):
            return -1
        number = number_of(value)
        if number is None:
            raise ValueError(f"{self.reads[0]!r} must be {self.expected}, got {value!r}")
        return -1 if number != number else int(np.searchsorted(self.known, number, side="right"))

    def vector(self, value: Any) -> Floats:
        """(w,) the features of a value."""
        vector, code = np.zeros(len(self.labels)), self.code(value)
        if code >= 0:
            vector[code] = 1.0
        return vector

    def read_sql(self, cell: Cell) -> str:
        """A number."""
        return cell.number

    def features_sql(self, value: str) -> tuple[str, ...]:
        """How many edges are not above the number; -1 where it is missing."""
        above = " + ".join(f"CAST({value} >= {number_literal(edge)} AS INTEGER)" for edge in self.known)
        return (f"CASE WHEN isfinite({value}) OR isinf({value}) THEN {above} ELSE -1 END",)

    def faults_sql(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """What is there must be a number."""
        test = f"{value} IS NULL AND nullif(CAST({given} AS VARCHAR), '') IS NOT NULL"
        yield Fault(f"{field} not understood", test, "the value must be a number, got {value!r}{hint}")

    def learns_sql(self, value: str) -> tuple[str, ...]:
        """The finite numbers."""
        return (f"CASE WHEN isfinite({value}) THEN {value} END",)

    def learned(self, found: Found, *, min_count: int) -> Bands:
        """With edges at quantiles of the log."""
        assert isinstance(found, tuple) and isinstance(self.edges, int)
        shares = np.linspace(0.0, 1.0, self.edges + 2)[1:-1]
        edges = tuple(edge for edge in found[0].quantiles(shares) if edge > found[0].low)
        return replace(self, edges=edges or (found[0].ends[1],))
