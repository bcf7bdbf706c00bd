"""Policies of the field, as comparisons play them.

UCB1, HUCB1, KL-UCB, UCB-V, MIN-UCB and OtO are for one-hot arms, where no arm says anything about another: on
arms that share features they refuse to start. All but OtO are explorers, alone or behind a gate; OtO is the
paper's budget with a horizon, and each arm bounded by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Literal

from linoto.core import kernels
from linoto.core.composed import Composed
from linoto.core.confidence import Confidence, check_confidence
from linoto.core.explorers import Rule
from linoto.core.gates import Budget
from linoto.core.parameters import LAWS
from linoto.core.policies import BuiltInExplorer, ForBoundedRewards, Gated, LinTS, LinUCB
from linoto.core.validation import check_choice, check_count, check_nonnegative, normalise


@dataclass(frozen=True, kw_only=True)
class RareLinUCB(BuiltInExplorer):
    """LinUCB that chooses rarely: it scores the arms anew only when det V has grown by a factor 1 + growth.

    Rarely switching OFUL of Abbasi-Yadkori et al. (2011): in between it plays the same arm, and learns from
    every reward. With growth 0 it is LinUCB. Its regret bound is sqrt(1 + growth) times LinUCB's, and it
    scores at most 1 + log(det V_n / det V_0) / log(1 + growth) times.
    """

    rule: ClassVar[Rule] = Rule(code=kernels.RARE, keeps_scores=True)

    growth: float = 0.5
    scale: float = 1.0  # of the radius; below 1 it explores less, and its regret bound is gone
    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class WideLinTS(BuiltInExplorer):
    """Thompson sampling as wide as the bounds on its regret need, in every world: of order d^1.5 sqrt(n).

    By "agrawal-goyal" (2013) a draw spreads as noise sqrt(9 d log(t / delta)), by "abeille-lazaric" (2017) as
    the radius of the confidence set. Both explore far more than LinTS.
    """

    rule: ClassVar[Rule] = LinTS.rule

    law: Literal["agrawal-goyal", "abeille-lazaric"] = "agrawal-goyal"
    scale: float = 1.0
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("law", self.law, LAWS[1:3])


@dataclass(frozen=True, kw_only=True)
class UCB1(BuiltInExplorer):
    """Auer, Cesa-Bianchi and Fischer (2002): the mean online plus sqrt(8 noise^2 ln t / n); no log is used.

    With rewards in [0, 1] (`Confidence(noise="bounded", reward_range=(0, 1))`) it is their sqrt(2 ln t / n).

    >>> from linoto.core.offline import Offline
    >>> agent = UCB1().start([[1.0, 0.0], [0.0, 1.0]], Offline.empty(2))
    >>> agent.update(agent.select(), 1.0)
    >>> agent.select()
    1
    """

    rule: ClassVar[Rule] = Rule(code=kernels.UCB1, one_hot=True)

    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class HUCB1(BuiltInExplorer):
    """Shivaswamy and Joachims (2012): UCB1 that counts the log as if it had been played.

    With h logged rewards of an arm, its mean over all of them plus sqrt(8 noise^2 ln(t + h) / (n + h)).
    """

    rule: ClassVar[Rule] = Rule(code=kernels.HUCB1, one_hot=True)

    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class KLUCB(ForBoundedRewards):
    """Garivier and Cappe (2011): the largest mean that the rewards of an arm do not refute; for rare clicks.

    Of n rewards in [0, 1], h of them logged, it is the largest q with n kl(mean, q) <= ln(t + h), kl that of
    Bernoulli distributions: near 0 far below UCB1's bound. Another `reward_range` is rescaled to that;
    without a confidence it is [0, 1].

    >>> from linoto.core.offline import Offline
    >>> log = Offline(pulls=[1000, 100], reward_sums=[5.0, 0.0])
    >>> KLUCB().start([[1.0, 0.0], [0.0, 1.0]], log).select()
    1
    """

    rule: ClassVar[Rule] = Rule(code=kernels.KL_UCB, one_hot=True, bounded=True)

    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class UCBV(ForBoundedRewards):
    """Audibert, Munos and Szepesvari (2009): empirical-Bernstein bounds, closer where rewards vary little.

    Of n rewards in [0, 1], h of them logged, it is mean + sqrt(2 v E / n) + 3 E / n with E = 1.2 ln(t + h).
    v is mean (1 - mean): the variance of rewards of 0 and 1, and never less than that of others. Ranges are
    as for KLUCB, which is closer still.

    >>> from linoto.core.offline import Offline
    >>> log = Offline(pulls=[1000, 100], reward_sums=[5.0, 0.0])
    >>> UCBV().start([[1.0, 0.0], [0.0, 1.0]], log).select()
    1
    """

    rule: ClassVar[Rule] = Rule(code=kernels.UCB_V, one_hot=True, bounded=True)

    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class ArmUCB(BuiltInExplorer):
    """Each arm by itself, whatever its features: the explorer of CUCB (Wu et al., 2016).

    The mean of its n rewards, logged ones among them, plus noise sqrt(2 ln(k n^3 / delta) / n). Behind
    `Conservative(form="arms", mean=...)` with an arm as the fallback, that arm's score is the known mean.
    """

    rule: ClassVar[Rule] = Rule(code=kernels.ARM_UCB, by_arm=True)

    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class MinUCB(BuiltInExplorer):
    """Cheung and Lyu (2024): the smaller of two upper bounds, one without the log, one with it.

    `shift` is the most that the mean of an arm may have moved since the log: the bound with the log adds its
    share of that. None says that nothing is known of it, and leaves the log out.
    """

    rule: ClassVar[Rule] = Rule(code=kernels.MIN_UCB, one_hot=True)

    shift: float | None = 0.0
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shift is not None:
            check_nonnegative("shift", self.shift)

    @property
    def log_shift(self) -> float:
        """The bound as the kernels read it."""
        return inf if self.shift is None else float(self.shift)


@dataclass(frozen=True, kw_only=True)
class OtO(Composed):
    """Sentenac, Lee and Szepesvari (2025): optimism while the budget of a whole horizon lasts, or pessimism.

    Each arm is bounded by itself, for `horizon` rounds. Of every round to come alpha S is credited at once,
    S = radius / sqrt(m) for m logged rewards: exploring does not wait. Inside a `Doubling` every epoch has a
    horizon of its own. An arm that was never logged is tried where `reward_range` says how bad it can be.
    """

    alpha: float = 0.1
    horizon: int = 10_000
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        normalise(self)
        check_nonnegative("alpha", self.alpha)
        check_count("horizon", self.horizon)
        check_confidence(self.confidence)

    def composed(self) -> Gated:
        assumed = self.confidence or Confidence()
        return Gated(
            explorer=LinUCB(scale=1.0),
            gate=Budget(alpha=self.alpha, horizon=self.horizon),
            fallback="lcb",
            reach="proposal",
            confidence=replace(assumed, radius="arms", horizon=self.horizon),
        )

    def for_horizon(self, rounds: int) -> OtO:
        """The same policy for so many rounds."""
        return replace(self, horizon=rounds)

    def with_parameter(self, name: str, value: float) -> OtO:
        return replace(self, alpha=value) if name == "alpha" else super().with_parameter(name, value)


RESEARCH_EXPLORERS = (RareLinUCB, WideLinTS, ArmUCB, UCB1, HUCB1, KLUCB, UCBV, MinUCB)
"""Explorers that only comparisons play. What names explorers reads this and `policies.EXPLORERS`."""
