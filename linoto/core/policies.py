"""Policies: what to explore, when it can be afforded, and what is safe otherwise.

A policy is a frozen record of hyperparameters. `start` makes a running agent from it; everything an
agent computes is in `linoto.core.kernels`. Every policy here is a composition: LinUCB is an open gate, LinLCB
a closed one, LinOtO the paper's budget between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, log1p
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.agent import LinearAgent
from linoto.core.certificates import Certificate, Situation, certify
from linoto.core.confidence import PAPER, Confidence, RadiusTerms, check_confidence, radius_terms
from linoto.core.contexts.agent import ContextualAgent
from linoto.core.contexts.moments import Moments
from linoto.core.contexts.rounds import Features
from linoto.core.contexts.start import start_contextual
from linoto.core.explorers import Proposer, Rule, Scorer, by_redrawing, has_rule, is_own, rule_of, uniform
from linoto.core.gates import GATES, Budget, Closed, Control, Gate, Open, Tolerance, mixture_rounding
from linoto.core.gates.budget import FORMS
from linoto.core.kernels import Records
from linoto.core.offline import Offline, as_offline
from linoto.core.units import find_units, squared_lengths
from linoto.core.validation import (
    as_actions,
    as_arm,
    as_generator,
    as_names,
    check_choice,
    check_count,
    check_nonnegative,
    exact,
    normalise,
    one_of,
)

FALLBACK_CODES: dict[str | int, int] = {
    "lcb": kernels.LCB_ARM,
    "frozen": kernels.FROZEN_ARM,
    "mixture": kernels.MIXTURE,
    "certified": kernels.CERTIFIED,
}
FALLBACKS = ("auto", "lcb", "frozen", "mixture")
REACHES = ("proposal", "affordable")
NOISES = ("auto", "assumed", "estimated")
LAWS = ("posterior", "agrawal-goyal", "abeille-lazaric")


def check_scales(ridge: float, actions: kernels.Floats, offline: Offline) -> None:
    """Refuse numbers so large or small that V would overflow or vanish."""
    with np.errstate(over="ignore"):
        largest = float(squared_lengths(actions).max()) * max(int(offline.pulls.max()), 1) / ridge
    if not np.isfinite(largest) or largest > 1e200:
        raise ValueError(
            f"actions must be of a size that ridge {ridge:g} can regularise, got |a|^2 / ridge = {largest:g}"
        )


def check_memory(memory: int | None) -> None:
    """Refuse a memory that holds no reward."""
    if memory is not None:
        check_count("memory", memory)


def is_arm(fallback: Any) -> bool:
    """Whether a fallback names one arm."""
    return isinstance(fallback, int | np.integer) and not isinstance(fallback, bool)


@dataclass(frozen=True, kw_only=True)
class Composed:
    """Shared by the policies below: start what they are composed of."""

    def composed(self) -> Gated:
        """This policy as explorer, gate and fallback."""
        raise TypeError(f"{type(self).__name__} must say what it is composed of")

    @property
    def needs_one_hot(self) -> bool:
        """Whether it plays one-hot arms only."""
        gated = self.composed()
        return rule_of(gated.explorer).one_hot or gated.assumed.radius == "arms"

    def with_parameter(self, name: str, value: float) -> Any:
        """The policy with another value of one of its gate's parameters."""
        raise ValueError(f"policy must have a gate with {name}, got {self!r}")

    def start(
        self,
        actions: npt.ArrayLike,
        offline: Offline,
        rng: int | np.random.Generator = 0,
        names: Sequence[str] | None = None,
    ) -> LinearAgent:
        """A running agent for these arms (k, d) and this log; `rng` is a seed or a generator."""
        arms = as_actions(actions)
        log = as_offline(offline, len(arms))
        gated = self.composed()
        agent = LinearAgent.begin(
            policy=self,
            composition=gated,
            params=gated.params(arms, log),
            state=kernels.allocate(arms, log.pulls, log.reward_sums, gated.assumed.shift > 0),
            rng=as_generator(rng),
            reward_squares=log.reward_squares,
            names=as_names(names, len(arms)),
        )
        gated.gate.check_start(agent._state, gated.assumed)
        return agent

    def composed_contextual(self) -> Gated:
        """The same for rounds that bring their own arms."""
        return self.composed()

    def start_contextual(
        self,
        offline: Moments | None = None,
        *,
        d: int | None = None,
        features: Features | None = None,
        rng: int | np.random.Generator = 0,
    ) -> ContextualAgent:
        """A running agent for rounds that bring their own arms, each a vector of d features.

        `features`, an object with `d` and `transform(context, arms)`, makes those from contexts.
        """
        return start_contextual(self, offline, d, features, rng)

    def certificate_contextual(
        self, offline: Moments | None = None, *, d: int | None = None, features: Features | None = None
    ) -> Certificate:
        """What is guaranteed with contexts, against the practice that is given with each decision."""
        return self.start_contextual(offline, d=d, features=features).certificate

    def certificate(self, actions: npt.ArrayLike, offline: Offline) -> Certificate:
        """What is guaranteed on these arms with this log, before the first round."""
        gated, agent = self.composed(), self.start(actions, offline)
        return certify(
            Situation(
                gate=gated.gate,
                fallback=gated.resolved_fallback(),
                confidence=gated.assumed,
                params=agent._params,
                run=agent._state.run,
                state=agent._state,
                offline=offline,
            )
        )


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
            explorer=LinUCB(),
            gate=Budget(alpha=self.alpha, form=self.budget),
            fallback="lcb",
            reach="proposal",
            confidence=self.confidence,
        )

    def with_parameter(self, name: str, value: float) -> LinOtO:
        return replace(self, alpha=value) if name == "alpha" else super().with_parameter(name, value)


@dataclass(frozen=True, kw_only=True)
class LinUCB(Composed):
    """Optimism: the arm that is best in the best plausible world. Warm-started by the log it is given.

    `noise="estimated"` scores with the noise that log and rewards show instead of the assumed one, which must
    be valid and is often far larger. No promise of a gate needs it: the gate keeps the assumed one.
    """

    rule: ClassVar[Rule] = Rule(code=kernels.UCB, reads_bounds=True)

    before: ClassVar[dict[str, Any]] = {"noise": "assumed"}

    scale: float = 1.0  # of the radius; below 1 it explores less, and its regret bound is gone
    noise: Literal["auto", "assumed", "estimated"] = "auto"  # auto: assumed at scale 1, which has a theorem
    memory: int | None = None  # rewards; once there are so many new ones, older ones are forgotten
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        normalise(self)
        check_nonnegative("scale", self.scale)
        check_choice("noise", self.noise, NOISES)
        check_memory(self.memory)
        check_confidence(self.confidence)

    @property
    def estimates_noise(self) -> bool:
        """Whether it scores with the noise that log and rewards show."""
        return self.noise == "estimated" or (self.noise == "auto" and self.scale != 1.0)

    def composed(self) -> Gated:
        return Gated(explorer=replace(self, confidence=None), gate=Open(), confidence=self.confidence)


@dataclass(frozen=True, kw_only=True)
class RareLinUCB(Composed):
    """LinUCB that chooses rarely: it scores the arms anew only when det V has grown by a factor 1 + growth.

    Rarely switching OFUL of Abbasi-Yadkori et al. (2011): in between it plays the same arm, and learns from
    every reward. With growth 0 it is LinUCB. Its regret bound is sqrt(1 + growth) times LinUCB's, and it
    scores at most 1 + log(det V_n / det V_0) / log(1 + growth) times.
    """

    rule: ClassVar[Rule] = Rule(code=kernels.RARE, keeps_scores=True)

    growth: float = 0.5
    scale: float = 1.0  # of the radius; below 1 it explores less, and its regret bound is gone
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        normalise(self)
        check_nonnegative("growth", self.growth)
        check_nonnegative("scale", self.scale)
        check_confidence(self.confidence)

    def composed(self) -> Gated:
        return Gated(explorer=replace(self, confidence=None), gate=Open(), confidence=self.confidence)


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
class LinTS(Composed):
    """Thompson sampling: the arm that is best in a world drawn from N(theta, (scale * v)^2 V^-1).

    `law` says how large v is. By "posterior" it is the noise that log and rewards show, at most the assumed
    one (`noise="assumed"` takes that), as a Bayesian would draw. "agrawal-goyal" is their
    noise sqrt(9 d log(t / delta)), and "abeille-lazaric" the radius of the confidence set: both have a bound
    on the regret in every world, of order d^1.5 sqrt(n), and explore far more.
    """

    rule: ClassVar[Rule] = Rule(
        code=kernels.THOMPSON, draws=kernels.NORMAL_DRAWS, keeps_factor=True, propensity=by_redrawing
    )

    before: ClassVar[dict[str, Any]] = {"noise": "assumed"}

    scale: float = 1.0
    law: Literal["posterior", "agrawal-goyal", "abeille-lazaric"] = "posterior"
    noise: Literal["auto", "assumed", "estimated"] = "auto"  # auto: estimated for the posterior alone
    memory: int | None = None  # rewards; once there are so many new ones, older ones are forgotten
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        normalise(self)
        check_nonnegative("scale", self.scale)
        check_choice("law", self.law, LAWS)
        check_choice("noise", self.noise, NOISES)
        check_memory(self.memory)
        check_confidence(self.confidence)

    @property
    def estimates_noise(self) -> bool:
        """Whether it draws with the noise that log and rewards show."""
        return self.noise == "estimated" or (self.noise == "auto" and self.law == "posterior")

    def composed(self) -> Gated:
        return Gated(explorer=replace(self, confidence=None), gate=Open(), confidence=self.confidence)


@dataclass(frozen=True, kw_only=True)
class Greedy(Composed):
    """The arm with the best estimate."""

    rule: ClassVar[Rule] = Rule(code=kernels.GREEDY)

    memory: int | None = None  # rewards; once there are so many new ones, older ones are forgotten
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        check_memory(self.memory)
        check_confidence(self.confidence)

    def composed(self) -> Gated:
        return Gated(explorer=replace(self, confidence=None), gate=Open(), confidence=self.confidence)


@dataclass(frozen=True, kw_only=True)
class Random(Composed):
    """Every arm alike."""

    rule: ClassVar[Rule] = Rule(code=kernels.GIVEN, draws=kernels.SCORE_DRAWS, propensity=uniform)

    def composed(self) -> Gated:
        return Gated(explorer=self, gate=Open())


USUAL_BUDGET, USUAL_SHARE = 100.0, 0.02


def usual_gate(confidence: Confidence) -> Tolerance:
    """What `Gated` takes where no gate is given: what 100 rounds are worth may be lost.

    Where rewards cannot be negative (a `reward_range` from 0 or above) a round is worth the log's mean
    reward, and 2 % of that may be lost per round besides: rare clicks need it. Elsewhere a round is worth the
    noise scale.
    """
    if confidence.reward_range is not None and confidence.reward_range[0] >= 0:
        return Tolerance(budget=USUAL_BUDGET, epsilon=USUAL_SHARE, relative=True)
    return Tolerance(budget=USUAL_BUDGET * confidence.scale)


def usual_contextual_gate(confidence: Confidence) -> Gate:
    """The same with contexts, in units of the noise: a log's mean is no reference where rounds differ.

    Where the range of rewards is known it is a Control gate: that a linear model holds in every context is
    more than most can say, and the coin needs no model.
    """
    budget = USUAL_BUDGET * confidence.scale
    if confidence.reward_range is None:
        return Tolerance(budget=budget, evidence="model")
    low, high = confidence.reward_range
    promise: Any = "realised" if confidence.noise == "bounded" else "expected"
    return Control(budget=max(budget, high - low), promise=promise)


EXPLORERS = (LinUCB, LinTS, Greedy, Random, RareLinUCB)
"""Every explorer there is. What names explorers (snapshots, messages, commands) reads this."""
Explorer = Composed | Scorer | Proposer


@dataclass(frozen=True, kw_only=True)
class Gated(Composed):
    """Any explorer behind a gate, with something safe to fall back on.

    `reach="proposal"` asks the gate about the explorer's favourite only, as the paper does; "affordable" lets
    the explorer take its best among all arms the gate would accept. `fallback` is "lcb" (the best lower bound
    so far), "frozen" (the best lower bound of the log alone), "mixture" (the logged arms in the log's own
    proportions), an arm, or "auto": lcb for a Budget; for a Tolerance the pessimistic arm while it is proven
    to be as good as the log, else the mixture. With no argument it is the practical choice: a sharp
    optimistic explorer behind `usual_gate`, a budget of 100 rounds. An explorer of your own is any
    object with `score(view) -> (k,)` or `propose(view) -> arm` (`linoto.core.explorers.View` is what it
    sees): slower, the same promise.

    >>> import numpy as np
    >>> log = Offline(pulls=[50, 0], reward_sums=[30.0, 0.0])
    >>> certificate = Gated().certificate(np.eye(2), log)
    >>> certificate.budget, certificate.per_round
    (100.0, 0.0)
    """

    explorer: Explorer = LinUCB(scale=0.25)
    gate: Gate = None  # type: ignore[assignment] # None is for `composed`: the usual gate of the confidence
    fallback: Literal["auto", "lcb", "frozen", "mixture"] | int = "auto"
    reach: Literal["proposal", "affordable"] = "affordable"
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        normalise(self)
        if not has_rule(self.explorer) and not is_own(self.explorer):
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

    def check_forgetting(self) -> None:
        """Refuse a gate or a fallback whose proof needs every reward that an explorer would forget."""
        if getattr(self.explorer, "memory", None) is None:
            return
        gate = self.composed().gate
        if gate.reads_bounds(self.assumed):
            raise ValueError(
                "gate must be Open, Control without a loan in means, or a Tolerance with evidence='rewards' "
                f"for an explorer with a memory, got {gate!r}: bounds that forget have no theorem"
            )
        if not is_arm(self.fallback) and gate.measures and self.composed().resolved_fallback() != "mixture":
            raise ValueError(
                "fallback must be 'mixture' or an arm for an explorer with a memory, got "
                f"{self.fallback!r}: bounds that forget have no theorem"
            )

    def check_shift(self) -> None:
        """Refuse a shift of the log that nothing here would allow for."""
        shift, name = self.assumed.shift, type(self.explorer).__name__
        if shift == 0:
            return
        if getattr(self.explorer, "memory", None) is not None:
            raise ValueError(
                f"memory must be None where the log may have moved, got {self.explorer!r}: a log that is "
                "forgotten has no shift"
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
        return self if gate is not None else replace(self, gate=usual_gate(self.assumed))

    def composed_contextual(self) -> Gated:
        gate: Any = self.gate
        return self if gate is not None else replace(self, gate=usual_contextual_gate(self.assumed))

    def with_parameter(self, name: str, value: float) -> Gated:
        gate = self.composed().gate
        if name not in gate.parameters:
            return super().with_parameter(name, value)  # type: ignore[no-any-return] # it raises
        return replace(self, gate=replace(gate, **{name: value}))

    @property
    def assumed(self) -> Confidence:
        """The confidence, the usual one where none was given."""
        return self.confidence or Confidence()

    def params(self, actions: kernels.Floats, offline: Offline) -> Records:
        """This composition as the kernels read it: codes and scalars; with a shift, without the log too."""
        params = self.params_with(self.assumed, actions, offline)
        if self.assumed.shift == 0:
            return params
        alone = self.params_with(self.assumed.without_log(), actions, offline)
        alone["shift"], alone["explorer"], alone["by_rewards"], alone["joint"] = 0.0, kernels.UCB, 0, 0
        return np.concatenate([params, alone])

    def params_with(self, confidence: Confidence, actions: kernels.Floats, offline: Offline) -> Records:
        """The same for one estimate."""
        check_scales(confidence.ridge_for(actions.shape[1]), actions, offline)
        if rule_of(self.explorer).one_hot and find_units(actions) is None:
            name = type(self.explorer).__name__
            raise ValueError(f"actions must be one-hot for {name}, got arms that share features")
        if confidence.radius == "arms" and self.gate.bounds_sums(confidence):
            raise ValueError(f"radius must be another than 'arms' for {self.gate!r}: it bounds sums of arms")
        params = self.explorer_params(actions.shape[1], radius_terms(confidence, actions, offline))
        params["shift"] = confidence.shift
        p = params[0]
        p["memory"] = getattr(self.explorer, "memory", None) or 0
        self.gate.fill(p, confidence, actions, offline)
        if is_arm(self.fallback):
            p["fallback"], p["fixed_arm"] = kernels.FIXED_ARM, as_arm(self.fallback, len(actions), "fallback")
        else:
            p["fallback"] = FALLBACK_CODES[self.resolved_fallback()]
        if p["fallback"] == kernels.MIXTURE and not self.gate.keeps_ledger:
            if offline.total == 0:
                raise ValueError("offline must hold at least one reward for fallback='mixture', got none")
            p["kappa"] = 0.0 if self.gate.throws_coin else mixture_rounding(offline)  # drawn, not rounded
        return params

    def explorer_params(self, d: int, terms: RadiusTerms) -> Records:
        """What explorer and confidence are, as the kernels read it, in d dimensions."""
        confidence = self.assumed
        params = np.zeros(1, dtype=kernels.PARAMS)
        p, rule = params[0], rule_of(self.explorer)
        p["explorer"], p["draws"], p["keeps_factor"] = rule.code, rule.draws, rule.keeps_factor
        p["scale"] = getattr(self.explorer, "scale", 0.0)
        p["log_shift"] = getattr(self.explorer, "log_shift", 0.0)
        least = None if confidence.reward_range is None else confidence.reward_range[0]
        p["floor"] = least if least is not None and confidence.radius == "arms" else -np.inf
        p["estimates_noise"] = getattr(self.explorer, "estimates_noise", False)
        p["law"] = LAWS.index(getattr(self.explorer, "law", "posterior"))
        p["level"], p["growth"] = log(1 / confidence.delta), log1p(getattr(self.explorer, "growth", 0.0))
        p["reach"] = REACHES.index(self.reach)
        p["noise"], p["ridge"] = confidence.scale, confidence.ridge_for(d)
        p["radius_fixed"], p["radius_level"], p["bias"], p["prior_is_log"], p["fixed_radius"] = terms
        if confidence.noise == "bounded" and confidence.reward_range is not None:
            low, high = confidence.reward_range  # what leaves it is refused, whatever the gate makes of it
            p["bounded"], p["low"], p["unit"] = 1, low, high - low
        return params

    def resolved_fallback(self) -> str | int:
        """The fallback, the gate's own choice where it is "auto"."""
        return self.gate.default_fallback(self.assumed) if self.fallback == "auto" else self.fallback
