"""The parts of a log, as those who sum it get them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from linoto.core.features.columns import Column
from linoto.engines import Engine
from linoto.logs.arms import ArmTable
from linoto.logs.queries import RowRange
from linoto.logs.tables import Connection


class LogParts(NamedTuple):
    """The parts of a log, and who sums them."""

    connection: Connection
    parts: Sequence[RowRange]
    arms: ArmTable
    item: str | None  # the column of what was played
    cut: float | None  # between early and late; None: the order of rows says it
    engine: Engine
    source: str  # as messages call it
    most_levels: int  # of a column that are counted
    rows: int  # that can be used

    def reading(self, context: Sequence[Column]) -> LogParts:
        """The same rows with other columns of the same fields."""
        parts = [part._replace(columns=part.columns._replace(context=tuple(context))) for part in self.parts]
        return self._replace(parts=parts)
