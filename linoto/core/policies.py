"""Policies: what to explore, when it can be afforded, and what is safe otherwise.

A policy is a frozen record of hyperparameters. `start` makes a running agent from it; everything an
agent computes is in `linoto.core.kernels`. Every policy here is a composition: LinUCB is an open gate, LinLCB
a closed one, LinOtO the paper's budget between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.agent import LinearAgent, as_generator, as_names
from linoto.core.certificates import Certificate, Situation, bound_excess, certify
from linoto.core.confidence import PAPER, Confidence, check_confidence, radius_terms
from linoto.core.gates import FORMS, Budget, Closed, Gate, Open, Tolerance, mixture_rounding
from linoto.core.kernels import Records, State
from linoto.core.offline import Offline, as_offline
from linoto.core.validation import as_actions, as_arm, check_nonnegative, choose, normalise

FALLBACKS = ("auto", "lcb", "frozen", "mixture")
REACHES = ("proposal", "affordable")


def check_scales(ridge: float, actions: kernels.Floats, offline: Offline) -> None:
    """Refuse numbers so large or small that V would overflow or vanish."""
    with np.errstate(over="ignore"):
        largest = float((actions**2).sum(axis=1).max()) * max(int(offline.pulls.max()), 1) / ridge
    if not np.isfinite(largest) or largest > 1e200:
        raise ValueError(
            f"actions must be of a size that ridge {ridge:g} can regularise, got |a|^2 / ridge = {largest:g}"
        )


def is_arm(fallback: Any) -> bool:
    """Whether a fallback names one arm."""
    return isinstance(fallback, int | np.integer) and not isinstance(fallback, bool)


class Policy(Protocol):
    """What a simulator needs of a policy. Its agent needs `select()` and `update(arm, reward)`."""

    def start(self, actions: npt.ArrayLike, offline: Offline, rng: int | np.random.Generator = 0) -> Any:
        """A running agent for these arms (k, d) and this log."""


def check_bound(state: State, bound: float) -> None:
    """Refuse a bound on |theta| that the log contradicts: a promise that leans on it would be broken (H3)."""
    excess = bound_excess(state, bound)
    arm = int(excess.argmax())
    if excess[arm] > 0:
        norm = float(np.linalg.norm(state.actions[:, arm]))
        needed = bound + excess[arm] / norm if norm > 0 else np.inf
        raise ValueError(
            f"bound must be at least {needed:.3g} for this log, got {bound:g}: arm {arm} earns more than a "
            f"parameter of that length allows"
        )


@dataclass(frozen=True, kw_only=True)
class Composed:
    """Shared by the policies below: start what they are composed of."""

    def composed(self) -> Gated:
        """This policy as explorer, gate and fallback."""
        raise TypeError(f"{type(self).__name__} must say what it is composed of")

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
            params=gated.params(arms, log),
            state=kernels.allocate(arms, log.pulls, log.reward_sums),
            rng=as_generator(rng),
            names=as_names(names, len(arms)),
        )
        confidence = gated.confidence or Confidence()
        if isinstance(gated.gate, Tolerance) and gated.gate.uses(confidence)[0]:
            check_bound(agent._state, confidence.bound)
        return agent

    def certificate(self, actions: npt.ArrayLike, offline: Offline) -> Certificate:
        """What is guaranteed on these arms with this log, before the first round."""
        gated, agent = self.composed(), self.start(actions, offline)
        return certify(
            Situation(
                gate=gated.gate,
                fallback=gated.resolved_fallback(),
                confidence=gated.confidence or Confidence(),
                params=agent._params,
                run=agent._state.run,
                state=agent._state,
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
        choose("budget", self.budget, FORMS)
        self.composed()

    def composed(self) -> Gated:
        return Gated(
            explorer=LinUCB(),
            gate=Budget(alpha=self.alpha, form=self.budget),
            fallback="lcb",
            reach="proposal",
            confidence=self.confidence,
        )


@dataclass(frozen=True, kw_only=True)
class LinUCB(Composed):
    """Optimism: the arm that is best in the best plausible world. Warm-started by the log it is given."""

    scale: float = 1.0  # of the radius; below 1 it explores less, and its regret bound is gone
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        normalise(self)
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
    """Thompson sampling: the arm that is best in a world drawn from N(theta, (scale * noise)^2 V^-1)."""

    scale: float = 1.0
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        normalise(self)
        check_nonnegative("scale", self.scale)
        check_confidence(self.confidence)

    def composed(self) -> Gated:
        return Gated(explorer=replace(self, confidence=None), gate=Open(), confidence=self.confidence)


@dataclass(frozen=True, kw_only=True)
class Greedy(Composed):
    """The arm with the best estimate."""

    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        check_confidence(self.confidence)

    def composed(self) -> Gated:
        return Gated(explorer=Greedy(), gate=Open(), confidence=self.confidence)


@dataclass(frozen=True, kw_only=True)
class Random(Composed):
    """Every arm alike."""

    def composed(self) -> Gated:
        return Gated(explorer=self, gate=Open())


Explorer = LinUCB | LinTS | Greedy | Random


@dataclass(frozen=True, kw_only=True)
class Gated(Composed):
    """Any explorer behind a gate, with something safe to fall back on.

    `reach="proposal"` asks the gate about the explorer's favourite only, as the paper does; "affordable" lets
    the explorer take its best among all arms the gate would accept. `fallback` is "lcb" (the best lower bound
    so far), "frozen" (the best lower bound of the log alone), "mixture" (the logged arms in the log's own
    proportions), an arm, or "auto": lcb for a Budget; for a Tolerance the pessimistic arm while it is proven
    to be as good as the log, else the mixture. With no argument it is the practical choice: a tolerance of
    0.1 in reward units around a sharp optimistic explorer.

    >>> import numpy as np
    >>> agent = Gated().start(np.eye(2), Offline(pulls=[50, 0], reward_sums=[30.0, 0.0]))
    >>> agent.certificate.per_round, agent.certificate.vacuous
    (0.1, False)
    """

    explorer: Explorer = LinUCB(scale=0.25)
    gate: Gate = Tolerance(epsilon=0.1)  # noqa: RUF009 - frozen, so safe to share
    fallback: Literal["auto", "lcb", "frozen", "mixture"] | int = "auto"
    reach: Literal["proposal", "affordable"] = "affordable"
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        normalise(self)
        if not isinstance(self.explorer, Explorer):
            raise ValueError(f"explorer must be a LinUCB, LinTS, Greedy or Random, got {self.explorer!r}")
        if getattr(self.explorer, "confidence", None) is not None:
            raise ValueError(
                "explorer must leave confidence=None inside Gated: the gate's confidence is used"
            )
        if not isinstance(self.gate, Gate):
            raise ValueError(f"gate must be an Open, Closed, Budget or Tolerance, got {self.gate!r}")
        if not is_arm(self.fallback):
            choose("fallback", self.fallback, FALLBACKS)
        elif int(self.fallback) < 0:
            raise ValueError(f"fallback must be an arm >= 0 or a word, got {self.fallback}")
        choose("reach", self.reach, REACHES)
        check_confidence(self.confidence)

    def composed(self) -> Gated:
        return self

    def params(self, actions: kernels.Floats, offline: Offline) -> Records:
        """This composition as the kernels read it: codes and scalars."""
        confidence = self.confidence or Confidence()
        check_scales(confidence.ridge_for(actions.shape[1]), actions, offline)
        terms = radius_terms(confidence, actions, offline)
        params = np.zeros(1, dtype=kernels.PARAMS)
        p = params[0]
        p["explorer"] = EXPLORERS[type(self.explorer)]
        p["scale"] = getattr(self.explorer, "scale", 0.0)
        p["reach"] = REACHES.index(self.reach)
        p["noise"], p["ridge"] = confidence.scale, confidence.ridge_for(actions.shape[1])
        p["radius_fixed"], p["radius_level"], p["bias"], p["prior_is_log"] = terms
        if confidence.noise == "bounded" and confidence.reward_range is not None:
            low, high = confidence.reward_range  # what leaves it is refused, whatever the gate makes of it
            p["bounded"], p["low"], p["unit"] = 1, low, high - low
        self.gate.fill(p, confidence, actions, offline)
        if is_arm(self.fallback):
            p["fallback"], p["fixed_arm"] = kernels.FIXED_ARM, as_arm(self.fallback, len(actions), "fallback")
        else:
            p["fallback"] = FALLBACK_CODES[self.resolved_fallback()]
        if p["fallback"] == kernels.MIXTURE and not isinstance(self.gate, Tolerance):
            if offline.total == 0:
                raise ValueError("offline must hold at least one reward for fallback='mixture', got none")
            p["kappa"] = mixture_rounding(offline)
        return params

    def resolved_fallback(self) -> str | int:
        """What "auto" means here: certified or else mixture for a Tolerance, the mixture alone where only
        rewards count, lcb otherwise."""
        if self.fallback != "auto":
            return self.fallback
        if not isinstance(self.gate, Tolerance):
            return "lcb"
        by_model, _ = self.gate.uses(self.confidence or Confidence())
        return "certified" if by_model else "mixture"


EXPLORERS = {LinUCB: kernels.UCB, LinTS: kernels.THOMPSON, Greedy: kernels.GREEDY, Random: kernels.UNIFORM}
FALLBACK_CODES: dict[str | int, int] = {
    "lcb": kernels.LCB_ARM,
    "frozen": kernels.FROZEN_ARM,
    "mixture": kernels.MIXTURE,
    "certified": kernels.CERTIFIED,
}
