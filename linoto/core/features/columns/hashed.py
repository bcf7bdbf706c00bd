"""Words of which there are too many to have a feature each."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import md5
from typing import Any, ClassVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.cells import is_missing, level_of
from linoto.core.features.columns.column import Cell, Column, Held
from linoto.core.validation import check_count


@dataclass(frozen=True, kw_only=True)
class Hashed(Column):
    """A column of words that share `size` features: a hash says which one a word has.

    Nothing is learned, so a word that the log did not have is not new, and memory does not grow with words.
    Words that fall on the same feature cannot be told apart. Without a value all features are 0.

    >>> Hashed(name="zip", size=4).vector("0150").tolist()
    [0.0, 1.0, 0.0, 0.0]
    """

    size: int = 64

    kind: ClassVar[str] = "hashed"
    leveled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(f"size of {self.name!r}", self.size)

    @property
    def holds(self) -> Held:
        """What its field is."""
        return "text"

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its features."""
        return tuple(f"{self.name}#{place}" for place in range(self.size))

    @property
    def expected(self) -> str:
        """What a value must be, for messages."""
        return "a word"

    def vector(self, value: Any) -> Floats:
        """(w,) the features of a value."""
        if isinstance(value, dict | list | tuple | set):
            raise ValueError(f"{self.reads[0]!r} must be {self.expected}, got a {type(value).__name__}")
        vector = np.zeros(self.size)
        if not is_missing(value):
            vector[hash_of(level_of(value)) % self.size] = 1.0
        return vector

    def read_sql(self, cell: Cell) -> str:
        """A word; an empty one is none."""
        return f"nullif({cell.level}, '')"

    def features_sql(self, value: str) -> tuple[str, ...]:
        """The place that the hash of a word has."""
        place = f"CAST(md5_number_upper({value}) % {self.size} AS INTEGER)"
        return (f"CASE WHEN {value} IS NULL THEN -1 ELSE {place} END",)

    def part(self, label: str) -> str:
        """The column: a place means nothing to people."""
        return self.name

    def shown(self, label: str, value: Any) -> str:
        """The word itself."""
        return f"{self.name}={value}"


def hash_of(text: str) -> int:
    """64 bits of a text, the same in every process, on every machine, and in DuckDB (`md5_number_upper`)."""
    digest = md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "little")
