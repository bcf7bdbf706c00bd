"""Logs that are read in small parts, so that threads could disagree about their order."""

from __future__ import annotations

from typing import Any

from linoto.engines import THREADS, Engine
from linoto.logs.arms import ArmTable
from linoto.logs.asked import asked_for
from linoto.logs.feature_sums import MOST_LEVELS
from linoto.logs.queries import Columns
from linoto.logs.read import Log, Reading
from linoto.logs.tables import source_name
from linoto.logs.where import open_rows


def read_in_parts(
    source: Any,
    size: int,
    *,
    reward: str,
    item: str | None = None,
    propensity: str | None = None,
    time: str | None = None,
    arms: ArmTable | None = None,
    skip_bad: bool = False,
    engine: Engine = THREADS,
    most_levels: int = MOST_LEVELS,
    **asked: Any,
) -> Log:
    """What `read_log` finds, in parts of so many rows."""
    wanted = asked_for(asked.pop("recipe", None), arms, **asked)
    columns = wanted.complete(Columns(reward=reward, item=item, propensity=propensity, time=time))
    reading = Reading(
        wanted,
        columns,
        source_name(source),
        skip_bad,
        engine,
        None,
        part=size,
        feature_part=size,
        most_levels=most_levels,
    )
    with open_rows(source, columns, None) as (connection, files, notes):
        return reading.read(connection, files, arms, notes)
