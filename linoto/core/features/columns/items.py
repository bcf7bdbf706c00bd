"""What is known of every item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from linoto.core.features.columns.column import check_name


@dataclass(frozen=True, kw_only=True)
class ItemColumn:
    """What is known of every item: the features of one column, one row for each item."""

    name: str
    labels: tuple[str, ...]  # (w,)
    values: tuple[tuple[float, ...], ...]  # (k, w)

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "values", tuple(tuple(map(float, row)) for row in self.values))
        if not self.labels or any(len(row) != len(self.labels) for row in self.values):
            raise ValueError(f"values of {self.name!r} must have one number for each label in every row")
        if not np.isfinite(self.values).all():
            raise ValueError(f"values of {self.name!r} must be finite, got one that is not")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"kind": "item", **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ItemColumn:
        """What `to_dict` wrote."""
        return cls(name=data["name"], labels=data["labels"], values=data["values"])
