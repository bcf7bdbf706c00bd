"""coba: our policies as its learners, and its learners behind our guard. coba is needed when they play."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from linoto.core.agent import Agent
from linoto.core.arrays import Floats
from linoto.core.features.moments import Moments
from linoto.core.guard import Guard
from linoto.core.protocols import PolicyForRounds

MISSING = 'coba must be installed: pip install "linoto[adapters]"'
Practice = Callable[[Any, Sequence[Any]], Any]  # of (context, actions): an index, or weights


class CobaLearner:
    """A policy as a coba learner: linear in features of the context and the action.

    `features` are coba's: "a" is the action, "x" the context, "ax" their products, 1 a constant. `offline` is
    the log in the same features. A gate needs `practice`, what would be played without it: a function of
    (context, actions) that returns an index, or weights.
    """

    def __init__(
        self,
        policy: PolicyForRounds,
        *,
        features: Sequence[Any] = (1, "a", "ax"),
        offline: Moments | None = None,
        practice: Practice | None = None,
        seed: int | None = None,
    ) -> None:
        self.policy, self.features, self.offline = policy, tuple(features), offline
        self.practice, self.seed = practice, seed
        self.agent: Agent | None = None  # from the first prediction on
        self._encoder: Any = None

    @property
    def params(self) -> dict[str, Any]:
        """What coba writes into its table of learners."""
        written = [str(feature) for feature in self.features]
        return {"family": "linoto", "policy": repr(self.policy), "features": written, "seed": self.seed}

    def score(self, context: Any, actions: Sequence[Any], action: Any) -> float | None:
        """How likely this action is played."""
        agent, question = self._asked(context, actions)
        return agent.propensity(list(actions).index(action), **question)

    def predict(self, context: Any, actions: Sequence[Any]) -> Any:
        """What to play, how likely it was, and the decision, which coba gives to `learn` again."""
        agent, question = self._asked(context, actions)
        decision = agent.decide(**question)
        arm = decision.arm
        action, likely = actions[arm], agent.propensity(arm, **question)
        if likely is None:
            return {"action": action}, {"decision": decision}
        return action, likely, {"decision": decision}

    def learn(
        self, context: Any, action: Any, reward: float, probability: float | None, decision: Any = None
    ) -> None:
        """Learn from a decision of this learner."""
        if decision is None or self.agent is None:
            raise ValueError(
                "decision must be one that predict returned, got none: a log is given as offline, before the "
                "first decision"
            )
        self.agent.update(decision, float(reward))

    def _asked(self, context: Any, actions: Sequence[Any]) -> tuple[Agent, dict[str, Any]]:
        """The agent, and what it is asked: features of every action, and what practice would play."""
        table = self._table(context, actions)
        if self.agent is None:
            d = None if self.offline is not None else table.shape[1]
            rng = {} if self.seed is None else {"rng": self.seed}
            started = self.policy.start(offline=self.offline, d=d, **rng)
            self.agent = cast(Agent, started)
        practice = None if self.practice is None else self.practice(context, actions)
        return self.agent, {"actions": table, "practice": practice}

    def _table(self, context: Any, actions: Sequence[Any]) -> Floats:
        """(k, d) features as coba's own linear learners make them."""
        if self._encoder is None:
            try:
                from coba.encodings import InteractionsEncoder
            except ImportError:
                raise ImportError(MISSING) from None
            known = self.features
            if context is None:
                plain = [str(part).replace("x", "") if isinstance(part, str) else part for part in known]
                known = tuple(dict.fromkeys(part for part in plain if part))
            self._encoder = InteractionsEncoder(list(known))
        encoded = [self._encoder.encode(x=[] if context is None else context, a=action) for action in actions]
        if any(isinstance(row, dict) for row in encoded):
            raise ValueError("context and actions must be numbers, got words: encode them first, as one-hot")
        return np.array(encoded, dtype=np.float64)


class GuardedLearner:
    """Any coba learner behind a guard: it may explore as far as realised rewards have paid for it.

    `actions` are the arms of the guard's log, in their order. What the guard plays instead of a proposal is
    learnt by the learner too, unless it learns from decisions of its own only.
    """

    def __init__(self, learner: Any, guard: Guard, actions: Sequence[Any]) -> None:
        if guard.gate.throws_coin:
            raise ValueError("guard must be one without a coin, got a Control gate")
        self.guard, self.actions = guard, list(actions)
        try:
            from coba.safety import SafeLearner
        except ImportError:
            raise ImportError(MISSING) from None
        self.learner = SafeLearner(learner)

    @property
    def params(self) -> dict[str, Any]:
        """What coba writes into its table of learners."""
        return {**self.learner.params, "family": f"guarded {self.learner.params['family']}"}

    def predict(self, context: Any, actions: Sequence[Any]) -> Any:
        """The learner's action, if it can be afforded, else the next one of the logging mixture."""
        if list(actions) != self.actions:
            raise ValueError(f"actions must be those of the guard's log, {self.actions}, got {list(actions)}")
        proposed, likely, known = self.learner.predict(context, actions)
        decision = self.guard.decide(self.actions.index(proposed))
        explored = decision.mode == "explore"
        more = {"decision": decision, "known": known if explored else {}, "proposed": bool(known)}
        return actions[decision.arm], likely if explored else 1.0, more

    def learn(
        self,
        context: Any,
        action: Any,
        reward: float,
        probability: float,
        *,
        decision: Any,
        known: dict[str, Any],
        proposed: bool,
    ) -> None:
        """The reward of what was played, for the guard and for the learner."""
        self.guard.update(decision, float(reward))
        if known or not proposed:
            self.learner.learn(context, action, reward, probability, **known)
