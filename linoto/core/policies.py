"""Policies: what to explore, when it can be afforded, and what is safe otherwise.

A policy is a frozen record of hyperparameters. `start` makes a running agent from it; everything an
agent computes is in `linoto.core.kernels`. Every policy here is a composition: LinUCB is an open gate, LinLCB
a closed one, LinOtO the paper's budget between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from linoto.core import kernels
from linoto.core.arrays import Floats, Records
from linoto.core.composed import Composed
from linoto.core.confidence import PAPER, Confidence, check_confidence
from linoto.core.default_gate import default_gate, default_gate_in_rounds
from linoto.core.drivers.questions import Features
from linoto.core.explorers import (
    FADED,
    Proposer,
    Rule,
    Scorer,
    by_redrawing,
    forgetting_of,
    has_rule,
    is_users_own,
    rule_of,
    stated,
    uniform,
)
from linoto.core.features.moments import Moments
from linoto.core.gates import GATES, Budget, Closed, Gate, Open
from linoto.core.gates.budget import FORMS
from linoto.core.guardrail import Guardrail, as_guardrails
from linoto.core.offline import Offline
from linoto.core.parameters import REACHES, is_arm, params_of
from linoto.core.usual_confidence import with_confidence_of
from linoto.core.validation import (
    check_choice,
    check_count,
    check_nonnegative,
    check_positive,
    exact,
    is_number,
    normalise,
    one_of,
)

FALLBACKS = ("auto", "lcb", "frozen", "mixture")
NOISES = ("auto", "assumed", "estimated")


def check_discount(discount: float | None, memory: int | None) -> None:
    """Refuse weights that rise with age, or fall faster than steps can follow, and two ways to forget."""
    if discount is None:
        return
    if not (is_number(discount) and FADED <= discount <= 1):
        raise ValueError(f"discount must be at least {FADED} and at most 1, or None, got {discount!r}")
    if memory is not None and discount < 1:
        raise ValueError(f"memory must be None with a discount, got {memory!r}: one way to forget is enough")


class BuiltInExplorer(Composed):
    """An explorer of the package. Alone it is a policy too: with a gate that is always open."""

    confidence: Confidence | None

    def __post_init__(self) -> None:
        normalise(self)
        given = vars(self)
        for name in ("growth", "scale"):
            if name in given:
                check_nonnegative(name, given[name])
        if "noise" in given:
            check_choice("noise", given["noise"], NOISES)
        if given.get("memory") is not None:
            check_count("memory", given["memory"])
        check_discount(given.get("discount"), given.get("memory"))
        check_confidence(self.confidence)

    def composed(self) -> Gated:
        unsaid: dict[str, None] = {"confidence": None}  # what is assumed of rewards is said once
        return Gated(explorer=replace(self, **unsaid), gate=Open(), confidence=self.confidence)

    def suited_to(self, log: Moments | None, features: Features | None) -> BuiltInExplorer:
        return with_confidence_of(self, log, features)


class ForBoundedRewards(BuiltInExplorer):
    """One that needs rewards in a known range; alone, without a confidence, that is [0, 1]."""

    def composed(self) -> Gated:
        clicks = Confidence(noise="bounded", reward_range=(0.0, 1.0))
        return replace(super().composed(), confidence=self.confidence or clicks)


class ByDeviation(BuiltInExplorer):
    """One that moves the estimate of each arm by a part of its deviation."""

    noise: str
    prior: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("prior", self.prior, ("whole", "scaled"))

    @property
    def estimates_noise(self) -> bool:
        """Whether deviations are of the noise that log and rewards show."""
        return self.noise != "assumed"

    @property
    def law(self) -> str:
        """How wide deviations are, as the kernels call it."""
        return "posterior" if self.prior == "scaled" else "whole prior"


@dataclass(frozen=True, kw_only=True)
class LinOtO(Composed):
    """The paper's Algorithm 1: optimism while the budget lasts, pessimism to earn it.

    >>> import numpy as np
    >>> agent = LinOtO().start(np.eye(2), Offline(pulls=[9, 1], reward_sums=[4.0, 0.5]))
    >>> decision = agent.decide()
    >>> decision.arm, decision.mode
    (0, 'safe')
    >>> agent.update(decision, reward=0.7)
    """

    alpha: float = 1e-4
    budget: Literal["exact", "aggregate", "max"] = "exact"
    confidence: Confidence = PAPER

    def __post_init__(self) -> None:
        normalise(self)
        check_choice("budget", self.budget, FORMS)
        self.composed()

    def composed(self) -> Gated:
        return Gated(
            explorer=LinUCB(scale=1.0),
            gate=Budget(alpha=self.alpha, form=self.budget),
            fallback="lcb",
            reach="proposal",
            confidence=self.confidence,
        )

    def with_parameter(self, name: str, value: float) -> LinOtO:
        return replace(self, alpha=value) if name == "alpha" else super().with_parameter(name, value)


@dataclass(frozen=True, kw_only=True)
class LinUCB(BuiltInExplorer):
    """Optimism: the arm that is best in the best plausible world. Warm-started by the log it is given.

    At `scale=1.0` it is LinUCB as its theorem has it, and OFUL: its radius holds in every world.
    `noise="estimated"` scores with the noise that log and rewards show instead of the assumed one, which must
    be valid and is often far larger. No promise of a gate needs it: the gate keeps the assumed one.
    With a `memory` or a `discount` the estimate of rewards forgets; that of the noise does not.
    """

    rule: ClassVar[Rule] = Rule(code=kernels.UCB, reads_bounds=True, gives_way=True)
    words = {"scaled-ucb": {"scale": 0.25}, "ucb": {"scale": 1.0}}  # noqa: RUF012 - a constant of the class
    before: ClassVar[dict[str, Any]] = {"noise": "assumed"}
    unsaid: ClassVar[tuple[str, ...]] = ("discount",)  # stored data has one only where there is one

    scale: float = 0.25  # of the radius; 1 has a bound on its regret, and explores far more than it needs
    noise: Literal["auto", "assumed", "estimated"] = "auto"  # auto: assumed at scale 1, which has a theorem
    memory: int | None = None  # rewards; once there are so many new ones, older ones are forgotten
    discount: float | None = None  # what a reward weighs, against the one after it: 0.9 to 1; None: as much
    confidence: Confidence | None = None

    @property
    def estimates_noise(self) -> bool:
        """Whether it scores with the noise that log and rewards show."""
        return self.noise == "estimated" or (self.noise == "auto" and self.scale != 1.0)

    @property
    def claims_no_theorem(self) -> bool:
        """Whether its radius may be another than the theorem's, which counts the features of all arms."""
        return self.scale < 1.0


@dataclass(frozen=True, kw_only=True)
class LinLCB(Composed):
    """Pessimism: the arm that is best in the worst plausible world."""

    frozen: bool = False  # True: choose once, from the log alone
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.frozen, bool):
            raise ValueError(f"frozen must be True or False, got {self.frozen!r}")
        check_confidence(self.confidence)

    def composed(self) -> Gated:
        fallback: Literal["frozen", "lcb"] = "frozen" if self.frozen else "lcb"
        return Gated(explorer=Greedy(), gate=Closed(), fallback=fallback, confidence=self.confidence)


@dataclass(frozen=True, kw_only=True)
class LinTS(ByDeviation):
    """Thompson sampling: the arm that is best in a world drawn from N(theta, (scale * v)^2 V^-1).

    v is the noise that log and rewards show, at most the assumed one (`noise="assumed"` takes that), as a
    Bayesian would draw. A scale below 1 says that noise misleads less than it could. It says nothing about an
    arm of which nobody knows anything: that is drawn as wide as before any reward, unless `prior="scaled"`
    (the whole posterior is `LinTS(scale=1.0, prior="scaled")`).
    With a `memory` or a `discount` the estimate of rewards forgets; that of the noise does not.
    """

    rule: ClassVar[Rule] = Rule(
        code=kernels.THOMPSON,
        draws=kernels.NORMAL_DRAWS,
        keeps_factor=True,
        propensity=by_redrawing,
        by_estimate=True,
        gives_way=True,
    )
    words = {  # noqa: RUF012 - a constant of the class
        "scaled-thompson": {"scale": 0.5, "prior": "scaled"},
        "thompson": {},
    }
    before: ClassVar[dict[str, Any]] = {"noise": "assumed", "prior": "scaled"}
    gone: ClassVar[dict[str, Any]] = {"law": "posterior"}
    unsaid: ClassVar[tuple[str, ...]] = ("discount",)  # stored data has one only where there is one

    scale: float = 0.7
    noise: Literal["auto", "assumed", "estimated"] = "auto"  # auto: estimated
    prior: Literal["whole", "scaled"] = "whole"  # what is unknown of an arm; scaled: less by the scale too
    memory: int | None = None  # rewards; once there are so many new ones, older ones are forgotten
    discount: float | None = None  # what a reward weighs, against the one after it: 0.9 to 1; None: as much
    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class RandUCB(ByDeviation):
    """Optimism by luck: the arm that is best if every arm is as much better than its estimate as luck says.

    Luck is one |z| for all arms, z standard normal, in units of each arm's deviation (RandUCB: Vaswani,
    Mehrabian, Durand and Kveton, 2020). Where arms are known equally well it plays the best estimate, and
    with more luck those that are known less: it explores less than Thompson sampling, which draws every arm
    apart. Its propensities are exact. The deviation is that of `LinTS`: by the noise that log and rewards
    show, and of an arm of which nobody knows anything as wide as before any reward (`prior="whole"`).
    With a `memory` or a `discount` the estimate of rewards forgets; that of the noise does not.

    >>> log = Offline(pulls=[90, 10], reward_sums=[45.0, 4.0])
    >>> agent = RandUCB().start([[1.0, 0.0], [0.0, 1.0]], log, rng=0)
    >>> [round(agent.propensity(arm), 2) for arm in (0, 1)]
    [0.6, 0.4]
    """

    rule: ClassVar[Rule] = Rule(
        code=kernels.LUCK,
        draws=kernels.ONE_DRAW,
        propensity=stated,
        by_estimate=True,
        gives_way=True,
        looks_at_all=True,
    )
    words = {"rand-ucb": {}}  # noqa: RUF012 - a constant of the class
    unsaid: ClassVar[tuple[str, ...]] = ("discount",)  # stored data has one only where there is one

    scale: float = 1.0  # of the noise; below 1 it explores less
    noise: Literal["auto", "assumed", "estimated"] = "auto"  # auto: estimated
    prior: Literal["whole", "scaled"] = "whole"  # what is unknown of an arm; scaled: less by the scale too
    memory: int | None = None  # rewards; once there are so many new ones, older ones are forgotten
    discount: float | None = None  # what a reward weighs, against the one after it: 0.9 to 1; None: as much
    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class LogisticTS(ForBoundedRewards):
    """Thompson sampling of clicks: the arm most likely clicked, under log-odds drawn around their mode.

    log(p / (1 - p)) is linear in the features, and the posterior is a Gaussian around its mode with the
    curvature there (Laplace; Chapelle and Li, 2011, with all covariances). Rewards of 0 and 1 are misses and
    clicks, others in the range parts of a click. `rate` is what an action of which nothing is known is
    expected to earn, as a share of the range, and `spread` the standard deviation of its log-odds if it has
    length 1.

    >>> log = Offline(pulls=[2000, 2000], reward_sums=[6.0, 14.0])
    >>> agent = LogisticTS().start([[1.0, 0.0], [0.0, 1.0]], log, rng=0)
    >>> agent.decide().arm
    1
    """

    rule: ClassVar[Rule] = Rule(
        code=kernels.LOGISTIC, draws=kernels.NORMAL_DRAWS, propensity=by_redrawing, bounded=True
    )
    words = {"logistic": {}}  # noqa: RUF012 - a constant of the class

    scale: float = 1.0  # of the draw; below 1 it explores less, 0 plays the mode
    spread: float = 2.0
    rate: float | None = None  # None: that of the log; without a log 0.5
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("spread", self.spread)
        if self.rate is not None and not (is_number(self.rate) and 0 < self.rate < 1):
            raise ValueError(f"rate must be between 0 and 1, or None, got {self.rate!r}")


@dataclass(frozen=True, kw_only=True)
class SquareCB(BuiltInExplorer):
    """Inverse gap weighting: the further an estimate is below the best one, the less likely the arm is tried.

    Of k arms, one whose estimate is `gap` below the best has probability 1 / (k + gamma gap), and the best
    has the rest (Foster and Rakhlin, 2020). So its propensities are exact, and no arm has none: its log can
    judge any other policy. gamma makes the two halves of a bound on the regret of the round equal, the
    cost of trying arms and the cost of not knowing them: it grows with what log and rewards have taught. Its
    unit is that of rewards, so that other units change nothing. Arms that the gate does not afford are not
    among the k, where it is asked about every arm.
    With a `memory` or a `discount` the estimate of rewards forgets; that of the noise does not.
    """

    rule: ClassVar[Rule] = Rule(
        code=kernels.SQUARE_CB, draws=kernels.SCORE_DRAWS, propensity=stated, by_estimate=True
    )
    words = {"squarecb": {}}  # noqa: RUF012 - a constant of the class
    estimates_noise: ClassVar[bool] = True
    unsaid: ClassVar[tuple[str, ...]] = ("discount",)  # stored data has one only where there is one

    scale: float = 0.15  # 1 has the best bound; below it explores less, 0 is greedy
    memory: int | None = None  # rewards; once there are so many new ones, older ones are forgotten
    discount: float | None = None  # what a reward weighs, against the one after it: 0.9 to 1; None: as much
    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class Greedy(BuiltInExplorer):
    """The arm with the best estimate."""

    rule: ClassVar[Rule] = Rule(code=kernels.GREEDY, by_estimate=True, gives_way=True)
    words = {"greedy": {}}  # noqa: RUF012 - a constant of the class
    unsaid: ClassVar[tuple[str, ...]] = ("discount",)  # stored data has one only where there is one

    memory: int | None = None  # rewards; once there are so many new ones, older ones are forgotten
    discount: float | None = None  # what a reward weighs, against the one after it: 0.9 to 1; None: as much
    confidence: Confidence | None = None


@dataclass(frozen=True, kw_only=True)
class Random(Composed):
    """Every arm alike."""

    rule: ClassVar[Rule] = Rule(code=kernels.GIVEN, draws=kernels.SCORE_DRAWS, propensity=uniform)
    words = {"random": {}}  # noqa: RUF012 - a constant of the class

    def composed(self) -> Gated:
        return Gated(explorer=self, gate=Open())


EXPLORERS = (LinUCB, LinTS, RandUCB, LogisticTS, SquareCB, Greedy, Random)
"""Every explorer of daily use; `linoto.core.research` has the others. What names explorers reads both."""
Explorer = Composed | Scorer | Proposer


def named_explorers() -> dict[str, Composed]:
    """The explorers that commands offer, by the words that they have for them."""
    return {word: kind(**given) for kind in EXPLORERS for word, given in kind.words.items()}


def default_explorer(confidence: object) -> RandUCB | LinUCB:
    """That of `Gated` where none is given: where the log may have moved, one whose bounds allow for it."""
    moved = isinstance(confidence, Confidence) and confidence.shift > 0
    return LinUCB() if moved else RandUCB()


@dataclass(frozen=True, kw_only=True)
class Gated(Composed):
    """Any explorer behind a gate, with something safe to fall back on.

    `reach="proposal"` asks the gate about the explorer's favourite only, as the paper does; "affordable" lets
    the explorer take its best among all arms the gate would accept. `fallback` is "lcb" (the best lower bound
    so far), "frozen" (the best lower bound of the log alone), "mixture" (the logged arms in the log's own
    proportions), an arm, or "auto": lcb for a Budget; for a Tolerance the pessimistic arm while it is proven
    to be as good as the log, else the mixture. With no argument it is the practical choice:
    `RandUCB` (`default_explorer`) behind `default_gate`, a budget of 100 rounds. An
    explorer of your own is any object with `score(view) -> (k,)` or `propose(view) -> arm`
    (`linoto.core.explorers.View` is what it sees): slower, the same promise. `guardrails` are metrics besides
    the reward that must not suffer either, behind a `Control` gate, or a `Tolerance` where the log has them:
    a round is explored only where all of them can afford it.

    >>> import numpy as np
    >>> log = Offline(pulls=[50, 0], reward_sums=[30.0, 0.0])
    >>> certificate = Gated().certificate(np.eye(2), log)
    >>> certificate.budget, certificate.per_round
    (100.0, 0.0)
    """

    unsaid: ClassVar[tuple[str, ...]] = ("guardrails",)  # stored data has them only where there are any

    explorer: Explorer = None  # type: ignore[assignment] # None becomes `default_explorer`
    gate: Gate = None  # type: ignore[assignment] # None is for `composed`: the usual gate of the confidence
    fallback: Literal["auto", "lcb", "frozen", "mixture"] | int = "auto"
    reach: Literal["proposal", "affordable"] = "affordable"
    confidence: Confidence | None = None
    guardrails: tuple[Guardrail, ...] = ()

    def __post_init__(self) -> None:
        given: Any = self.explorer
        if given is None:
            object.__setattr__(self, "explorer", default_explorer(self.confidence))
        normalise(self)
        if not has_rule(self.explorer) and not is_users_own(self.explorer):
            raise ValueError(
                f"explorer must be {one_of(EXPLORERS)}, or have a score or propose method, got "
                f"{self.explorer!r}"
            )
        if getattr(self.explorer, "confidence", None) is not None:
            raise ValueError(
                "explorer must leave confidence=None inside Gated: the gate's confidence is used"
            )
        if not isinstance(self.gate, Gate | None):
            raise ValueError(f"gate must be {one_of(GATES)}, got {self.gate!r}")
        if not is_arm(self.fallback):
            check_choice("fallback", self.fallback, FALLBACKS)
        elif int(self.fallback) < 0:
            raise ValueError(f"fallback must be an arm >= 0 or a word, got {self.fallback}")
        check_choice("reach", self.reach, REACHES)
        check_confidence(self.confidence)
        self.check_forgetting()
        self.check_shift()
        object.__setattr__(self, "guardrails", as_guardrails(self.guardrails))
        self.check_guardrails()

    def check_guardrails(self) -> None:
        """Refuse guardrails that the gate has no theorem for."""
        if not self.guardrails:
            return
        composition = self.composed()
        reason = composition.gate.why_no_guardrails(self.assumed, self.guardrails)
        if reason is not None:
            raise ValueError(reason)
        if not composition.gate.throws_coin and composition.resolved_fallback() != "mixture":
            raise ValueError(
                "fallback must be 'mixture' or 'auto' for guardrails behind a Tolerance gate, got "
                f"{self.fallback!r}: another arm is safe for the reward alone"
            )

    def check_forgetting(self) -> None:
        """Refuse a gate or a fallback whose proof needs every reward that an explorer would forget."""
        if forgetting_of(self.explorer)[0] == 0:
            return
        gate = self.composed().gate
        if gate.reads_bounds(self.assumed):
            raise ValueError(
                "gate must be Open, Control without a loan in means, or a Tolerance with evidence='rewards' "
                f"for an explorer that forgets, got {gate!r}: bounds that forget have no theorem"
            )
        if not is_arm(self.fallback) and gate.measures and self.composed().resolved_fallback() != "mixture":
            raise ValueError(
                "fallback must be 'mixture' or an arm for an explorer that forgets, got "
                f"{self.fallback!r}: bounds that forget have no theorem"
            )

    def check_shift(self) -> None:
        """Refuse a shift of the log that nothing here would allow for."""
        shift, name = self.assumed.shift, type(self.explorer).__name__
        if shift == 0:
            return
        if forgetting_of(self.explorer)[0] > 0:
            raise ValueError(
                f"memory and discount must be None where the log may have moved, got {self.explorer!r}: a "
                "log that is forgotten has no shift"
            )
        if rule_of(self.explorer).keeps_scores:
            raise ValueError(
                f"shift must be 0 for {name}, got {exact(shift)}: how rarely it may score is known for one "
                "estimate, and with a shift there are two"
            )
        if self.composed().gate.code == kernels.OPEN and not rule_of(self.explorer).reads_bounds:
            raise ValueError(
                f"shift must be 0 for {name} without a gate, got {exact(shift)}: it reads no bounds, so that "
                "nothing would allow for it"
            )

    def composed(self) -> Gated:
        gate: Any = self.gate
        return self if gate is not None else replace(self, gate=default_gate(self.assumed))

    def composed_for_rounds(self) -> Gated:
        gate: Any = self.gate
        usual = default_gate_in_rounds(Moments.empty(1), self.assumed)
        return self if gate is not None else replace(self, gate=usual)

    def suited_to(self, log: Moments | None, features: Features | None) -> Gated:
        return with_confidence_of(self, log, features)

    def with_parameter(self, name: str, value: float) -> Gated:
        gate = self.composed().gate
        if name not in gate.parameters:
            return super().with_parameter(name, value)  # type: ignore[no-any-return] # it raises
        return replace(self, gate=replace(gate, **{name: value}))

    @property
    def assumed(self) -> Confidence:
        """The confidence, the usual one where none was given."""
        return self.confidence or Confidence()

    def params(self, actions: Floats, offline: Offline) -> Records:
        """This composition as the kernels read it: codes and scalars; with a shift, without the log too."""
        return params_of(self, actions, offline)

    def resolved_fallback(self) -> str | int:
        """The fallback, the gate's own choice where it is "auto"."""
        if self.fallback == "auto" and self.guardrails:
            return "mixture"  # all that is safe for every metric
        return self.gate.default_fallback(self.assumed) if self.fallback == "auto" else self.fallback
