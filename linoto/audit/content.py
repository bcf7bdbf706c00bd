"""Is there enough in a log to judge it by: rows that are not bad, arms to choose from, events?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from linoto.audit.sentences import names_of
from linoto.core.validation import exact
from linoto.logs.estimates import LEAST_EVENTS
from linoto.logs.read import Log

DROPPED = 0.01  # share of bad rows from which what is left may be a selection


def dropped_share(log: Log) -> float:
    """How many of the rows were bad."""
    return sum(log.bad.values()) / max(log.rows, 1)


def dropped_reasons(log: Log) -> Iterator[str]:
    """That so many rows are bad that the others may be a selection."""
    if (dropped := dropped_share(log)) > DROPPED:
        yield f"{dropped:.1%} of the rows are bad: what is left may not be like what was lost"


def dropped_notes(log: Log) -> Iterator[str]:
    """That a few are."""
    if 0 < dropped_share(log) <= DROPPED:
        lost = sum(log.bad.values())
        yield f"bad rows were dropped ({lost:,}): which ones should not depend on the reward"


def nothing_tested(log: Log, *, untested: str) -> Iterator[str]:
    """Why nothing speaks against the log: nothing could. `untested`: why neither linearity nor drift was."""
    if len(log.arms.names) == 1:
        yield "there is one arm only, so there is nothing to decide: add the arms that could be played"
    elif log.extent[0] == log.extent[1]:
        yield f"every reward is {exact(log.extent[0])}, so nothing could be tested: more rows would help"
    elif untested:
        yield (
            "neither linearity nor drift could be tested, so nothing is known for or against this log "
            f"({untested}): more rows would help"
        )
    elif few := too_few_events(log):
        yield f"{few}: more rows would help"


def too_few_events(log: Log) -> str:
    """Why the log holds too little to judge anything by, if it does.

    Rewards from 0 up count as (their sum)^2 / (sum of squares) equal ones: as many as there are clicks, and
    one where a single sale is nearly all. Of clicks that most rows have, those without are the events.
    """
    offline = log.offline
    if log.extent[0] < 0 or offline.reward_squares is None:
        return ""
    rows, binary, squares = offline.total, log.binary, float(offline.reward_squares.sum())
    events = float(offline.reward_sums.sum()) ** 2 / squares if squares else 0.0
    rare = "ones" if binary and log.extent[1] > 0 else "rewards above 0"
    if binary and 2 * events > rows:
        events, rare = rows - events, "zeros"
    if events >= LEAST_EVENTS:
        return ""
    worth = f"{events:,.0f} {rare}" if binary else f"{rare} that count as {events:.2g}"
    return f"too few events to say: {worth} among {rows:,} rewards; it takes {LEAST_EVENTS}"


def content_facts(log: Log) -> Iterator[tuple[str, str]]:
    """How many rows and arms there are."""
    pulls = log.offline.pulls
    bad = ", ".join(f"{count:,} {kind}" for kind, count in log.bad.items() if count)
    yield "rows", f"{log.rows:,} read, {log.offline.total:,} used" + (f"; dropped: {bad}" if bad else "")
    never = np.flatnonzero(pulls == 0)
    unseen = f"; never pulled: {names_of(log.arms.names, never)}" if never.size else ""
    yield "arms", f"{np.count_nonzero(pulls):,} of {pulls.size:,} pulled{unseen}"
