"""A clock that cannot be set."""

from __future__ import annotations

import time


def since_boot() -> float:
    """Seconds of a clock that cannot be set and, where there is one, runs while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
