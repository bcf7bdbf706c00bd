"""A log of clicks with two metrics besides: complaints, of which some are missing, and minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

KINDS: dict[str, dict[str, Any]] = {
    "arms": {},
    "contexts": {"categories": ["country"], "crosses": [("item", "country")]},
}
"""How a log is read, with contexts or without."""


def guarded_table(
    n: int = 2000, *, missing: float = 0.005, drift: float = 0.0, rate: float = 0.03, fewer: float = 0.0
) -> Any:
    """Practice shows a; b is clicked twice as often, and complained about; c is liked.

    Late, complaints are more often by `drift`, and clicks less often by `fewer`.
    """
    rng = np.random.default_rng(0)
    arm, country = rng.choice(3, n, p=(0.6, 0.2, 0.2)), rng.choice(("NO", "SE"), n)
    late = np.arange(n) > n / 2
    complains = np.array([rate, 7 * rate, 0.5 * rate])[arm] + drift * late
    complaint = (rng.random(n) < complains).astype(float)
    complaint[rng.random(n) < missing] = np.nan
    return pa.table(
        {
            "arm": np.array(list("abc"))[arm],
            "country": country,
            "click": (rng.random(n) < np.array([0.3, 0.6, 0.4])[arm] - fewer * late).astype(float),
            "complaint": pa.array(complaint, from_pandas=True),
            "minutes": np.clip(rng.normal(10, 3, n) + arm, 0, 30).round(2),
            "p": np.array([0.6, 0.2, 0.2])[arm],
        }
    )


def write_guarded(path: Path, table: Any) -> str:
    """The same as a file."""
    import pyarrow.csv as csv

    csv.write_csv(table, path)
    return str(path)
