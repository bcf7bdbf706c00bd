"""What others may bring: the least that a policy, an agent and a composition must have."""

from __future__ import annotations

from inspect import signature
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Records
from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.gates import Gate
from linoto.core.guardrail import Guardrail
from linoto.core.names import Names
from linoto.core.offline import Offline


class AnyAgent(Protocol):
    """What a simulator needs of an agent: any object with these two methods will do."""

    def select(self) -> int:
        """The arm to play."""

    def update(self, arm: int, reward: float) -> None:
        """Learn from the reward of an arm that was played."""


class Policy(Protocol):
    """What a simulator needs of a policy: something that starts an agent on arms and a log."""

    def start(
        self, actions: npt.ArrayLike, offline: Offline, rng: int | np.random.Generator = ...
    ) -> AnyAgent:
        """A running agent for these arms (k, d) and this log."""


class ArmsOfLog(Protocol):
    """The arms of a log."""

    @property
    def actions(self) -> Floats: ...  # (k, d)

    @property
    def names(self) -> Names: ...


class FeaturesOfLog(Protocol):
    """What the rewards of a log are linear in."""

    @property
    def to_start(self) -> dict[str, Any]: ...  # what it says to `start`


class Log(Protocol):
    """What a policy starts from: `read_log` and `load` return one."""

    @property
    def arms(self) -> ArmsOfLog: ...

    @property
    def offline(self) -> Offline: ...

    @property
    def contexts(self) -> object | None: ...  # None: rows have no context

    @property
    def features(self) -> FeaturesOfLog: ...


def is_log(given: object) -> TypeGuard[Log]:
    """Whether this is what a log says to `start`; arrays are not."""
    return hasattr(given, "contexts") and hasattr(given, "arms")


def of_log(log: Log) -> dict[str, Any]:
    """What a log says to `start`."""
    return log.features.to_start


class RoundAgent(Protocol):
    """The same where rounds bring their own arms."""

    def decide(self, *, actions: Floats, practice: Floats) -> Any:
        """What to play of these arms (k, d), given practice's weights: it has an `arm`."""

    def update(self, decision: Any, reward: float) -> None:
        """Learn from the reward of a decision that was played."""


class PolicyForRounds(Protocol):
    """A policy that starts without arms: every round brings its own."""

    def start(
        self, *, offline: Moments | None = None, d: int | None = None, rng: int | np.random.Generator = ...
    ) -> RoundAgent:
        """A running agent for d features, from a log of them."""


def starts_without_arms(policy: object) -> bool:
    """Whether `policy.start` can be called without arms, for rounds that bring their own."""
    try:
        signature(policy.start).bind(offline=None, d=1, rng=0)  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return False
    return True


def takes_features(policy: object) -> bool:
    """Whether it can also be told what makes the arms of its rounds; a policy of one's own need not."""
    try:
        signature(policy.start).bind(offline=None, features=None, rng=0)  # type: ignore[attr-defined]
    except TypeError:
        return False
    return True


class PolicyWithPromise(Policy, Protocol):
    """A policy that says what it promises."""

    def certificate(self, actions: npt.ArrayLike, offline: Offline) -> Certificate: ...


class Composition(Protocol):
    """The parts that a linear agent asks about themselves: `linoto.Gated` is one."""

    @property
    def explorer(self) -> Any: ...

    @property
    def gate(self) -> Gate: ...

    @property
    def fallback(self) -> str | int: ...

    @property
    def reach(self) -> str: ...

    @property
    def assumed(self) -> Confidence: ...

    @property
    def guardrails(self) -> tuple[Guardrail, ...]: ...

    def params(self, actions: Floats, offline: Offline) -> Records: ...

    def resolved_fallback(self) -> str | int: ...


@runtime_checkable
class ComposedPolicy(PolicyWithPromise, Protocol):
    """A policy that is a composition, and whose gate has parameters to vary."""

    def composed(self) -> Composition: ...

    def with_parameter(self, name: str, value: float) -> ComposedPolicy: ...
