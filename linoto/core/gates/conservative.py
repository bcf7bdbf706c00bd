"""Never less than a share of what a baseline would have earned: the gates of conservative bandits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log as ln
from typing import Literal

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.certificates import LOG, Promise, Situation, stationary_assumptions
from linoto.core.confidence import Confidence, radius_terms
from linoto.core.false_bounds import check_bound
from linoto.core.gates.gate import Gate
from linoto.core.gates.tolerance import SHARES, check_logged_range
from linoto.core.hints import amount
from linoto.core.kernels import State
from linoto.core.offline import Offline
from linoto.core.validation import check_choice, check_nonnegative, is_number, normalise

FORMS = ("joint", "separate", "arms")


@dataclass(frozen=True, kw_only=True)
class Conservative(Gate):
    """In every first t rounds, at least 1 - alpha of what as many rounds of the baseline would have earned.

    The baseline is the fallback: an arm, or the logging mixture (less the rounding of its proportions). Both
    promise and rewards are counted in means; rewards must not be negative, or a share of them says nothing.
    `mean` is what the baseline earns per round, where that is known (the promise is then about this number,
    and the baseline must earn no less).

    `form` is how plays are bounded from below: "joint" bounds explored plays and the unknown baseline in one
    sum; "separate" each by itself, as CLUCB2 of Kazerouni et al. (2017) does; with a known mean both are
    their CLUCB. "arms" sums bounds from each arm's own rewards, as CUCB of Wu et al. (2016) does: it needs a
    `reward_range` and no linear model.

    With `reach="affordable"` the most optimistic arm that is *safe* is played, as Garcelon et al. (2020) do;
    with "proposal" the optimistic arm or the baseline, as the earlier two.

    >>> Conservative(alpha=0.05)
    Conservative(alpha=0.05, mean=None, form='joint')
    """

    code = kernels.CONSERVATIVE
    rows = kernels.ARM_BOUND_ROWS
    parameters = ("alpha",)

    alpha: float = 0.1
    mean: float | None = None
    form: Literal["joint", "separate", "arms"] = "joint"

    def __post_init__(self) -> None:
        normalise(self)
        if not is_number(self.alpha) or not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must be in [0, 1], got {self.alpha!r}")
        if self.mean is not None:
            check_nonnegative("mean", self.mean)
        check_choice("form", self.form, FORMS)

    def grid(self, earned: float, horizon: int) -> tuple[float, ...]:
        return SHARES

    def fill(self, p: np.void, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        super().fill(p, confidence, actions, offline)
        limits, by_arm = confidence.reward_range, self.form == "arms"
        if self.mean is None and (limits is None or limits[0] < 0):
            raise ValueError(
                f"reward_range must be given and start at 0 or above for a Conservative gate without a mean, "
                f"got {limits!r}: a share of a negative reward promises nothing"
            )
        if by_arm and limits is None:
            raise ValueError("reward_range must be given for form='arms', got None: it is the floor")
        check_logged_range(confidence, offline)
        low, high = limits or (0.0, 1.0)
        terms = radius_terms(confidence, actions, offline)
        p["gate_fixed"], p["gate_level"] = terms.fixed, terms.level
        p["epsilon"], p["relative"], p["form"] = self.alpha, 1, FORMS.index(self.form)
        p["baseline_known"], p["baseline_mean"] = self.mean is not None, self.mean or 0.0
        p["low"], p["unit"] = low, high - low
        share = confidence.delta  # where the baseline's mean is to be bounded too, on either side, a half
        share *= 0.5 if self.mean is None else 1.0
        share *= 0.5 if confidence.shift > 0 else 1.0  # with the log and without it
        p["arm_level"], p["reference_level"] = ln(2 * len(actions) / share), ln(2 / share)

    def check_start(
        self, state: State, confidence: Confidence, offline: Offline, names: Sequence[str] | None
    ) -> None:
        if self.form != "arms":
            check_bound(state, confidence, names)

    def default_fallback(self, confidence: Confidence) -> str:
        return "mixture"

    def counts_control(self, plays_mixture: bool) -> bool:
        return plays_mixture  # a play of the baseline

    def needs_model(self, situation: Situation) -> bool:
        return self.form != "arms"

    def why_unproven(self, situation: Situation) -> str:
        if situation.fallback == "mixture" or isinstance(situation.fallback, int):
            return ""
        return "a Conservative gate is proven with the mixture or an arm as the fallback only"

    def compared_with(self, fallback: str | int) -> str:
        if self.mean is not None:
            return f"{amount(self.mean)} per round, what the baseline is said to earn"
        return f"arm {fallback} in every round" if isinstance(fallback, int) else LOG

    def owed(self, fallback: str | int, means: Floats, reference: float) -> float:
        if self.mean is not None:
            return self.mean
        return float(means[fallback]) if isinstance(fallback, int) else reference

    def promised(self, situation: Situation) -> Promise:
        rounding = situation.rounding if situation.plays_mixture else 0.0
        less = ", less kappa (hi - lo)" if situation.plays_mixture else ""
        theorem = f"the first t rounds earn at least 1 - alpha of what t rounds of the baseline do{less}"
        return Promise(theorem, self.alpha * self.most_baseline(situation), rounding)

    def most_baseline(self, situation: Situation) -> float:
        """The most that a round of the baseline earns, on the event that the gate itself relies on."""
        if self.mean is not None:
            return self.mean
        run, params = situation.run[0], situation.params[0]
        high = situation.limits[1]
        if self.form != "arms":
            radius = float(run["gate_radius"] + params["bias"])
            return max(min(situation.upper_reference(radius), high), 0.0)
        if not isinstance(situation.fallback, int) or situation.state is None:
            return max(min(float(run["upper_reference"]), high), 0.0)
        return float(situation.state.arms[kernels.ARM_UPPER, situation.fallback])

    def assumptions(self, situation: Situation) -> tuple[str, ...]:
        texts = stationary_assumptions(situation)
        independent = "which rewards arrive, and when, does not depend on their values"
        if independent not in texts:  # of arms with bounded rewards: one that is lost is left out of a mean
            texts = (independent, *(text for text in texts if "rewards are reported" not in text))
        if self.mean is None:
            return texts
        return f"the baseline earns {amount(self.mean)} or more per round", *texts

    def not_assumed(self, situation: Situation) -> tuple[str, ...]:
        return ("a linear model",) if self.form == "arms" else ()
