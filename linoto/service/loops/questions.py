"""What a loop is asked in one round: which arms may be played, and what follows from that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from linoto.core.agent import Agent
from linoto.core.arrays import Floats, Ints
from linoto.core.decisions import Decision
from linoto.core.hints import shortened_list
from linoto.service.errors import Refused, invalid
from linoto.service.loops.events import Context, Contribution, DecisionMade
from linoto.service.loops.practice_weights import Weights, rescaled, spread
from linoto.service.loops.spec import LoopAgent

Explain = Callable[[Floats, Floats, Context], list[Contribution]]
"""What parts of a context say, by theta and the difference of two actions."""


class ControlPlay(NamedTuple):
    """What a decision plays that is drawn for the control group: as practice does."""

    decision: Decision
    weights: dict[int, float]  # how likely each arm is


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """What a loop is asked: everything that its answer depends on."""

    allowed: list[int] | None  # the arms that may be played; None: all
    context: Context | None = None
    practice: Weights | None = None

    def same_as(self, event: DecisionMade) -> bool:
        """Whether this was asked for when a decision was made."""
        return (self.context, self.allowed, self.practice) == (event.context, event.allowed, event.practice)

    @property
    def weights(self) -> Floats | None:
        """(k,) what practice does, by arm of the round; None: only the agent knows."""
        return None

    @abstractmethod
    def without(self, removed: Set[int], names: Sequence[str]) -> Question:
        """The same without arms that were removed."""

    @property
    @abstractmethod
    def asked(self) -> dict[str, Any]:
        """The same for an agent."""

    def checked(self, agent: LoopAgent) -> dict[str, Any]:
        """The same where it is asked several times."""
        return self.asked

    def place(self, arm: int) -> int:
        """What the agent calls an arm in this round."""
        return arm

    def arms_of(self, played: Decision, live: Decision) -> tuple[int, int, int, int | None]:
        """The arm that is played, the favourite, that of live mode and the fallback, as the loop has them."""
        return played.arm, live.proposal, live.arm, live.fallback

    @abstractmethod
    def safe_chance(self, agent: LoopAgent, arm: int, served: Decision) -> float:
        """How likely an arm is served where only what is safe is."""

    @abstractmethod
    def chance_of_another(self, agent: LoopAgent, played: Decision) -> float:
        """How likely the safe choice would have been another arm: a mixture is played in its proportions."""

    @abstractmethod
    def control_play(
        self, agent: LoopAgent, served: Decision, uncounted: list[int] | None, draw: Callable[[], float]
    ) -> ControlPlay | None:
        """What the control group would play; None where it could not play what practice does.

        `uncounted` are its plays by arm, where the agent does not count them; `draw` is that of practice.
        """

    def explained(self, agent: LoopAgent, played: Decision) -> tuple[float | None, list[Contribution]]:
        """How much more than practice an arm is expected to earn, and which parts of the context say so."""
        return None, []


@dataclass(frozen=True, kw_only=True)
class FixedQuestion(Question):
    """A round of arms that stay the same: the agent knows them, and which of them are present."""

    logged: Ints  # (k,) rows that the log has of each arm that is present

    def without(self, removed: Set[int], names: Sequence[str]) -> FixedQuestion:
        if self.allowed is not None and removed >= set(self.allowed):
            raise all_removed(self.allowed, names)
        return self

    @property
    def asked(self) -> dict[str, Any]:
        return {"allowed": self.allowed}

    def safe_chance(self, agent: LoopAgent, arm: int, served: Decision) -> float:
        if agent.gate.throws_coin:
            return agent.practice_propensity(arm, self.allowed)
        return float(arm == served.arm)

    def chance_of_another(self, agent: LoopAgent, played: Decision) -> float:
        if agent.gate.throws_coin or agent.fallback_source != "mixture":
            return float(played.arm != played.fallback)
        among = self.logged_among
        if among == 0:  # practice plays none of them
            return 1.0
        return 1.0 - self.logged.item(played.arm) / among

    @cached_property
    def logged_among(self) -> int:
        """Rows that the log has of all arms that may be played."""
        return int(self.logged.sum() if self.allowed is None else self.logged[self.allowed].sum())

    def control_play(
        self, agent: LoopAgent, served: Decision, uncounted: list[int] | None, draw: Callable[[], float]
    ) -> ControlPlay | None:
        arm = agent.next_mixture_arm(uncounted)
        if arm < 0 or (self.allowed is not None and arm not in self.allowed):  # no logged arm is left
            return None
        return ControlPlay(replace(served, arm=arm, mode="safe", source="mixture"), {arm: 1.0})


@dataclass(frozen=True, kw_only=True)
class ContextQuestion(Question):
    """A round whose arms are made from its context."""

    arms: Sequence[int]  # of the round: the agent counts these from 0
    actions: Floats  # (k, d) their features
    because: Explain

    def without(self, removed: Set[int], names: Sequence[str]) -> ContextQuestion:
        """The same without arms that were removed; practice is what is left of it."""
        if not removed:
            return self
        places = [place for place, arm in enumerate(self.arms) if arm not in removed]
        if not places:
            raise all_removed(self.arms, names)
        kept = [(arm, weight) for arm, weight in self.practice or () if arm not in removed]
        if self.practice is not None and not kept:
            gone = shortened_list([names[arm] for arm, _ in self.practice])
            raise invalid(
                "practice must play an arm that is present, and that the decision may play, got only arms "
                f"that were removed: {gone}"
            )
        practice = None if self.practice is None else rescaled(kept)
        arms = [self.arms[place] for place in places]
        return replace(self, practice=practice, arms=arms, actions=self.actions[places])

    @cached_property
    def weights(self) -> Floats | None:
        return None if self.practice is None else spread(self.practice, self.arms)

    @property
    def asked(self) -> dict[str, Any]:
        return {"actions": self.actions, "practice": self.weights}

    def checked(self, agent: LoopAgent) -> dict[str, Any]:
        assert isinstance(agent, Agent)  # contexts have no other
        return agent.checked(**self.asked)

    def place(self, arm: int) -> int:
        return list(self.arms).index(arm)

    def arms_of(self, played: Decision, live: Decision) -> tuple[int, int, int, int | None]:
        arms, fallback = self.arms, live.fallback
        safe = None if fallback is None else arms[fallback]
        return arms[played.arm], arms[live.proposal], arms[live.arm], safe

    def safe_chance(self, agent: LoopAgent, arm: int, served: Decision) -> float:
        weights = self.weights
        return float(arm == served.arm) if weights is None or served.source == "lcb" else float(weights[arm])

    def chance_of_another(self, agent: LoopAgent, played: Decision) -> float:
        if played.fallback is not None:
            return float(played.arm != played.fallback)
        assert isinstance(agent, Agent)  # where practice draws, the fallback is not shown without a coin
        return 1.0 - agent.safe_propensity(played.arm, **self.asked)

    def control_play(
        self, agent: LoopAgent, served: Decision, uncounted: list[int] | None, draw: Callable[[], float]
    ) -> ControlPlay | None:
        if self.weights is None:
            return None
        weights = {place: weight for place, weight in enumerate(self.weights.tolist()) if weight > 0}
        if served.source == "practice":  # its draw is known already, and stands
            return ControlPlay(served, weights)
        arms, shares = list(weights), np.cumsum(list(weights.values()))
        arm = arms[int(np.searchsorted(shares, draw() * shares[-1], side="right"))]
        action = tuple(self.actions[arm].tolist())
        return ControlPlay(replace(served, arm=arm, mode="safe", source="practice", action=action), weights)

    def explained(self, agent: LoopAgent, played: Decision) -> tuple[float | None, list[Contribution]]:
        """The same; where nobody says what practice does, it is compared with the average of the arms."""
        if played.by_practice:
            return None, []
        theta = agent.theta
        other = self.actions.mean(axis=0) if played.practice is None else np.array(played.practice)
        difference = np.array(played.action) - other
        return float(theta @ difference), self.because(theta, difference, self.context or {})


def all_removed(arms: Sequence[int], names: Sequence[str]) -> Refused:
    """A round without any arm."""
    gone = shortened_list([names[arm] for arm in arms])
    return invalid(f"arms must hold one that is present, got only arms that were removed: {gone}")
