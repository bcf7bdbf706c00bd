"""Gates: can we afford to explore this arm? Each is a frozen record; the kernels do the sums.

`fill` writes a gate's settings into the kernels' Params, for given arms and log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import e, gcd, log
from typing import Any, Literal

import numpy as np

from linoto.core import kernels
from linoto.core.confidence import Confidence, radius_terms
from linoto.core.kernels import Floats
from linoto.core.offline import Offline
from linoto.core.validation import check_nonnegative, choose, normalise

FORMS = ("exact", "aggregate", "max")
SLACKS = ("paper", "coverage")


@dataclass(frozen=True, kw_only=True)
class Open:
    """Every arm is affordable: the explorer alone."""

    def fill(self, p: Any, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        """Nothing but the code of this gate."""
        p["gate"] = kernels.OPEN


@dataclass(frozen=True, kw_only=True)
class Closed:
    """No arm is affordable: the fallback alone."""

    def fill(self, p: Any, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        """Nothing but the code of this gate."""
        p["gate"] = kernels.CLOSED


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
        normalise(self)
        check_nonnegative("alpha", self.alpha)
        choose("form", self.form, FORMS)
        choose("slack", self.slack, SLACKS)

    def fill(self, p: Any, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        """alpha, the form and the slack."""
        p["gate"] = kernels.BUDGET
        p["alpha"] = self.alpha
        p["form"] = FORMS.index(self.form)
        p["coverage_slack"] = self.slack == "coverage"


EVIDENCE = ("model", "rewards", "both")
BIASES = ("tight", "loose")
SURELY = 1e-6  # how often a right range may be refused because of the log's noise


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Never more than epsilon per round, on average, below what the log earned.

    With probability 1 - delta, for every t at once, the summed shortfall below the mean reward of the log is
    at most epsilon t + kappa (hi - lo), whatever the explorer proposes; kappa is in the certificate. With
    `relative`, epsilon is a share of the log's mean reward instead.

    `evidence` is what may pay for exploration: "model" trusts the linear model, "rewards" counts realised
    rewards and needs no model at all (but a `reward_range`), "both" accepts either and drops the model for
    good once realised rewards contradict it. `bias` is how the ridge's pull is bounded; "loose" is there to
    compare with.

    >>> Tolerance(epsilon=0.1)
    Tolerance(epsilon=0.1, evidence='both', relative=False, bias='tight')
    """

    epsilon: float
    evidence: Literal["model", "rewards", "both"] = "both"
    relative: bool = False
    bias: Literal["tight", "loose"] = "tight"

    def __post_init__(self) -> None:
        normalise(self)
        check_nonnegative("epsilon", self.epsilon)
        choose("evidence", self.evidence, EVIDENCE)
        choose("bias", self.bias, BIASES)
        if not isinstance(self.relative, bool):
            raise ValueError(f"relative must be True or False, got {self.relative!r}")
        if self.relative and self.epsilon > 1:
            raise ValueError(f"epsilon must be at most 1 where it is relative, got {self.epsilon!r}")

    def uses(self, confidence: Confidence) -> tuple[bool, bool]:
        """Whether the model and whether realised rewards can open this gate; rewards need a floor."""
        if self.evidence == "rewards" and confidence.reward_range is None:
            raise ValueError("reward_range must be given for evidence='rewards', got None: it is the floor")
        by_rewards = self.evidence != "model" and confidence.reward_range is not None
        return self.evidence != "rewards", by_rewards

    def fill(self, p: Any, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        """epsilon, the evidence, and how delta is shared between what could go wrong."""
        if offline.total == 0:
            raise ValueError("offline must hold at least one reward for a Tolerance gate, got an empty log")
        low, high = confidence.reward_range or (0.0, 1.0)
        if self.relative and (confidence.reward_range is None or low < 0):
            raise ValueError(
                f"reward_range must be given and start at 0 or above for a relative epsilon, got "
                f"{confidence.reward_range!r}: a share of a negative reward promises nothing"
            )
        check_logged_range(confidence, offline)
        by_model, by_rewards = self.uses(confidence)
        model_share = 0.5 if by_rewards else 1.0
        reward_share = 0.25 if by_model else 0.5  # for the boundary, and as much for the reference
        terms = radius_terms(replace(confidence, delta=confidence.delta * model_share), actions, offline)
        p["gate"] = kernels.TOLERANCE
        p["gate_fixed"], p["gate_level"] = terms.fixed, terms.level
        p["epsilon"], p["relative"] = self.epsilon, self.relative
        p["loose_bias"] = self.bias == "loose"
        p["by_model"], p["by_rewards"] = by_model, by_rewards
        p["bounded"] = confidence.noise == "bounded"
        p["low"], p["unit"] = low, high - low
        p["reward_level"] = log(1 / (confidence.delta * reward_share))
        sides = 2 if self.relative else 1  # a relative promise leans on both bounds of the reference
        p["reference_level"] = log(sides / (confidence.delta * reward_share))
        p["kappa"] = mixture_rounding(offline)


Gate = Open | Closed | Budget | Tolerance


def check_logged_range(confidence: Confidence, offline: Offline) -> None:
    """Refuse a log that surely contradicts the range its rewards, or their means, are said to lie in."""
    if confidence.reward_range is None:
        return
    low, high = confidence.reward_range
    give = 1e-9 * (1 + abs(low) + abs(high)) * offline.pulls
    if confidence.noise != "bounded":  # each mean may be off by its noise
        level = 2 * log(2 * offline.pulls.size / SURELY)
        give = confidence.scale * np.sqrt(level * offline.pulls)
    outside = (offline.reward_sums < low * offline.pulls - give) | (
        offline.reward_sums > high * offline.pulls + give
    )
    if outside.any():
        arm = int(outside.argmax())
        mean = offline.reward_sums[arm] / offline.pulls[arm]
        raise ValueError(
            f"offline must have rewards in reward_range {(low, high)}, got a mean of {mean:g} for arm {arm}"
        )


def mixture_rounding(offline: Offline) -> float:
    """kappa: how far mixture plays can fall behind the log's shares, summed over arms; at most n/e of n.

    >>> mixture_rounding(Offline(pulls=[5, 5, 5, 5], reward_sums=[0.0, 0.0, 0.0, 0.0]))
    1.0
    """
    pulls = offline.pulls[offline.pulls > 0]
    shares = pulls // gcd(*pulls.tolist())
    if shares.sum() * shares.size > 5e7:  # a second of counting: beyond it, the bound of every log of n arms
        harmonic = np.cumsum(1 / np.arange(1, shares.size + 1))
        counts = np.arange(1, shares.size + 1)
        return float(min((counts * (harmonic[-1] - harmonic)).max(), shares.size / e))
    return float(kernels.rounding(shares, np.zeros_like(shares)))
