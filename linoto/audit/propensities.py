"""Do propensities fit how often arms were pulled?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from linoto.audit.sentences import names_of
from linoto.core.arrays import Ints
from linoto.core.hints import amount
from linoto.logs.read import Log
from linoto.logs.wrong_propensities import find_miscalibrated


def find_wrong_propensities(log: Log) -> Ints:
    """The arms of a log whose propensities cannot be right; none where it has no propensities."""
    if log.propensities is None:
        return np.zeros(0, dtype=np.int64)
    return find_miscalibrated(log.propensities, log.offline.total)


def propensity_notes(wrong: Ints, log: Log) -> Iterator[str]:
    """That they are wrong: no promise rests on them, but whoever evaluates by them must know."""
    if wrong.size:
        yield f"propensities do not fit how often these were pulled: {names_of(log.arms.names, wrong)}"


def propensity_facts(wrong: Ints, log: Log) -> Iterator[tuple[str, str]]:
    """How large they are, and whether they fit what was pulled."""
    if log.propensities is None:
        return
    fit = f"do not fit {names_of(log.arms.names, wrong)}" if wrong.size else "fit what was pulled"
    low, high = log.propensities.low, log.propensities.high
    yield "propensities", f"from {amount(low)} to {amount(high)}; they {fit}"
