"""Gates: can we afford to explore this arm? Each is a frozen record; the kernels do the sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from linoto.data import check_nonnegative, choose

FORMS = ("exact", "aggregate", "max")
SLACKS = ("paper", "coverage")


@dataclass(frozen=True, kw_only=True)
class Open:
    """Every arm is affordable: the explorer alone."""


@dataclass(frozen=True, kw_only=True)
class Closed:
    """No arm is affordable: the fallback alone."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The paper's gate: an arm is affordable while B(t) > 0, eq. (5).

    `form` is how past plays are bounded from below: "exact" sums the lower bounds of the played arms,
    "aggregate" bounds the sum of the played actions, "max" takes the better of these and of the aggregate
    with the asked arm inside. All three are valid on the same event. `slack` is S of eq. (4): "paper" is
    sqrt(d/m) times the offline radius, "coverage" the average width of the log, never larger.

    >>> Budget(alpha=0.01)
    Budget(alpha=0.01, form='exact', slack='paper')
    """

    alpha: float = 1e-4
    form: Literal["exact", "aggregate", "max"] = "exact"
    slack: Literal["paper", "coverage"] = "paper"

    def __post_init__(self) -> None:
        check_nonnegative("alpha", self.alpha)
        choose("form", self.form, FORMS)
        choose("slack", self.slack, SLACKS)


Gate = Open | Closed | Budget
