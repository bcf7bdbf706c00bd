"""What happened when a policy was played in a world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.hints import amount
from linoto.core.notebook import html_table

if TYPE_CHECKING:
    import pandas as pd


class MetricRun(NamedTuple):
    """What n rounds had of a metric besides the reward, in its own units."""

    # (n,) cumulative, on average: than the log's arms in its shares, or practice in these rounds
    more: Floats
    in_explored: Floats  # (n,) cumulative, as it came: than the fallback has on average, in explored rounds
    luck: Floats  # (n,) cumulative: than these plays have on average, in explored rounds


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What happened in n rounds."""

    arms: Ints  # (n,)
    explored: Bools  # (n,) the explorer's arm, not the fallback
    rewards: Floats  # (n,) as they came, noise and all
    means: Floats  # (n,) what the plays earn on average
    regret: Floats  # (n,) R_t, cumulative, against the best arm
    # (n,) R_t^off, cumulative, may be negative: against the log's arms in its shares, with contexts against
    # practice in the same rounds
    offline_regret: Floats
    control: Bools  # (n,) control rounds of a Control gate
    practice_shortfall: Floats  # (n,) cumulative: what the fallback would have earned more in explored rounds
    metrics: Mapping[str, MetricRun] = field(default_factory=dict)  # where the world has some

    def to_frame(self) -> pd.DataFrame:
        """One row per round, as a pandas data frame (extra `frames`)."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError('to_frame needs pandas: pip install "linoto[frames]"') from None
        columns = {"arm": self.arms, "explored": self.explored}
        regrets = {"regret": self.regret, "offline_regret": self.offline_regret}
        rounds = np.arange(1, self.arms.size + 1)
        practice = {"control": self.control, "practice_shortfall": self.practice_shortfall}
        return pd.DataFrame({"round": rounds, **columns, **regrets, **practice})

    def _repr_html_(self) -> str:
        rows = [
            ("rounds", f"{self.arms.size:,}"),
            ("exploring rounds", f"{self.explored.mean():.1%}"),
            *([("control rounds", f"{self.control.mean():.1%}")] if self.control.any() else []),
            ("arms played", f"{np.unique(self.arms).size:,}"),
            ("regret at the end", f"{amount(self.regret[-1])}"),
        ]
        if np.isfinite(self.offline_regret).all():  # there is a log to compare with
            last, largest = self.offline_regret[-1], max(0.0, self.offline_regret.max())
            rows.append(("shortfall below the log at the end", f"{amount(last)}"))
            rows.append(("largest shortfall below the log", f"{amount(largest)}"))
        return html_table(rows, caption="A simulated run")
