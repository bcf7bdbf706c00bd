"""Do contexts explain more than the means of arms do?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

from linoto.audit.noise import LEVEL
from linoto.logs.estimates import count_events
from linoto.logs.fits import fit_other_folds
from linoto.logs.row_kinds import means_of
from linoto.logs.rows import Rows


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How much less a linear model of the context misses held-out rewards by than the means of arms do."""

    share: float  # of the squared misses of the means
    low: float
    high: float
    rows: int
    reason: str  # why there are too few events to say, or nothing


def find_gain(rows: Rows, *, folds: int = 5, ridge: float = 1.0) -> Gain:
    """Squared misses on rows that neither the model nor the means have seen, row by row."""
    _, reason = count_events(rows.rewards, np.ones(len(rows)), "normal")
    if len(rows) < folds:
        return Gain(share=0.0, low=0.0, high=0.0, rows=len(rows), reason=reason)
    fitted = fit_other_folds(rows, folds=folds, ridge=ridge)
    rewards, means = rows.rewards, np.empty(len(rows))
    for fold, mine in enumerate(fitted.parts):
        others = [part for place, part in enumerate(fitted.parts) if place != fold]
        means[mine] = means_of(rows, others)[rows.arms[mine]]
    before, after = (rewards - means) ** 2, (rewards - fitted.of_played()) ** 2
    if before.mean() == 0:
        return Gain(share=0.0, low=0.0, high=0.0, rows=len(rows), reason="means of arms miss nothing")
    share = float(1 - after.mean() / before.mean())
    spread = (before - after - share * before) / before.mean()  # the delta method, for a ratio
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * float(spread.std(ddof=1)) / sqrt(len(rows))
    return Gain(share=share, low=share - half, high=share + half, rows=len(rows), reason=reason)


def gain_reasons(gain: Gain | None) -> Iterator[str]:
    """That contexts do harm as they are."""
    if gain is not None and not gain.reason and gain.high < 0:
        yield (
            "the linear model predicts held-out rewards worse than the means of arms do: leave columns or "
            "crosses out (--no-cross: all of these)"
        )


def gain_support(gain: Gain | None) -> Iterator[str]:
    """What contexts are good for."""
    if gain is None:
        return
    if gain.reason:
        yield f"whether contexts help could not be tested: {gain.reason}"
    elif gain.low > 0:
        yield "contexts explain rewards that the means of arms do not"
    else:
        nothing = "nothing shows that contexts explain more than the means of arms do"
        yield f"{nothing}: a log without them would do as well"


def gain_facts(gain: Gain | None) -> Iterator[tuple[str, str]]:
    """Whether contexts explain more than the means of arms."""
    if gain is None:
        return
    if gain.reason:
        yield "contexts help?", gain.reason
        return
    answer = "yes" if gain.low > 0 else "no, they harm" if gain.high < 0 else "no sign of it"
    side, other, low, high = "below", "above", gain.low, gain.high
    if gain.share < 0:
        side, other, low, high = other, side, -high, -low
    yield (
        "contexts help?",
        f"{answer}: on held-out rows the squared error of the model is {abs(gain.share):.2%} {side} that of "
        f"the means of arms, within [{low:.2%}, {high:.2%}] at {LEVEL:.0%} (negative: {other})",
    )
