"""Many tests of one log together."""

from __future__ import annotations

import numpy as np

from linoto.core.arrays import Floats

TEST_LEVEL = 0.01  # of each test that can change a verdict: its chance to raise a false alarm


def holm(p: Floats) -> Floats:
    """p-values adjusted for their number: below a level, no more false alarms than that level at all.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate((p.size - np.arange(p.size)) * p[order]), 1.0)
    return adjusted
