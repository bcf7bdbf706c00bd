"""The paper's gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.certificates import Promise, Situation
from linoto.core.confidence import Confidence
from linoto.core.gates.gate import Gate, loss_without
from linoto.core.offline import Offline
from linoto.core.validation import check_choice, check_count, check_nonnegative, normalise

FORMS = ("exact", "aggregate", "max")
SLACKS = ("paper", "coverage")
ONE_ARM = 2  # the width of an arm that was all of the log: sqrt(1/m) of a radius that bounds arms one by one


@dataclass(frozen=True, kw_only=True)
class Budget(Gate):
    """The paper's gate: an arm is affordable while B(t) > 0, eq. (5).

    `form` is how past plays are bounded from below: "exact" sums the lower bounds of the played arms,
    "aggregate" bounds the sum of the played actions, "max" takes the better of these and of the aggregate
    with the asked arm inside. All three are valid on the same event. `slack` is S of eq. (4): "paper" is
    sqrt(d/m) times the offline radius, "coverage" the average width of the log, never larger. Where the
    radius bounds one-hot arms one by one, it is the width of an arm that was all of the log, sqrt(1/m) of
    the radius. With a `horizon` of n rounds, alpha S of every round to come counts in advance: alpha S n may
    be lost in all, at once.

    >>> Budget(alpha=0.01)
    Budget(alpha=0.01, form='exact', slack='paper', horizon=None)
    """

    code = kernels.BUDGET
    fallbacks = ("lcb", "frozen")
    parameters = ("alpha",)
    arms_may_change = True

    alpha: float = 1e-4
    form: Literal["exact", "aggregate", "max"] = "exact"
    slack: Literal["paper", "coverage"] = "paper"
    horizon: int | None = None

    def __post_init__(self) -> None:
        normalise(self)
        check_nonnegative("alpha", self.alpha)
        check_choice("form", self.form, FORMS)
        check_choice("slack", self.slack, SLACKS)
        if self.horizon is not None:
            check_count("horizon", self.horizon)

    def fill(self, p: np.void, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        super().fill(p, confidence, actions, offline)
        p["alpha"] = self.alpha
        p["form"] = FORMS.index(self.form)
        p["coverage_slack"] = ONE_ARM if confidence.radius == "arms" else SLACKS.index(self.slack)
        p["horizon"] = self.horizon or 0

    def bounds_sums(self, confidence: Confidence) -> bool:
        return self.form != "exact"

    def grid(self, earned: float, horizon: int) -> tuple[float, ...]:
        return 1e-4, 1e-2, 1.0, 10.0, 100.0, 1000.0  # alpha has no unit: S carries that of the reward

    def promised(self, situation: Situation) -> Promise:
        run = situation.run[0]
        upper = situation.upper_reference(float(run["radius"]))  # on the same event as every lower bound
        share = self.alpha * float(run["slack"])
        if self.horizon is not None:  # t (r_b + alpha S) - n alpha S is earned by every t
            loss = upper - float(run["baseline"]) - share
            theorem = "R_off_t <= (mu_off - LCB_1) t + alpha S n: every prefix earns t LCB_1 less that"
            return Promise(theorem, max(loss, 0.0), budget=share * self.horizon)
        loss = upper - float(run["baseline"])
        if situation.confidence.radius != "arms":
            loss = min(2 * float(run["slack"]) + share, loss)
        return Promise("R_off_t <= (alpha + 2) S t: every prefix earns t r_b", max(loss, 0.0))

    def per_round_after(self, situation: Situation) -> float | None:
        return loss_without(situation, float(situation.run[0]["baseline"]))
