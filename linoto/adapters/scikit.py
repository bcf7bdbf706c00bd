"""scikit-learn: a policy with `partial_fit` and `predict`, as its estimators have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linoto.core.agent import Agent
from linoto.core.arrays import Floats, Ints
from linoto.core.composed import Composed
from linoto.core.features.moments import Moments
from linoto.core.features.own import OwnFeatures
from linoto.core.policies import LinUCB
from linoto.core.protocols import PolicyForRounds
from linoto.core.validation import as_floats

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError('scikit-learn must be installed: pip install "linoto[adapters]"') from None


class BanditEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A policy in the form of scikit-learn: `partial_fit(X, actions, rewards)`, `predict(X)`.

    `arms` is how many there are, or their labels. Every arm has a linear model of its own in the columns of
    `X`, and all of them are one model of the policy. `policy` is one without a gate (None: `LinUCB()`):
    a gate counts single rounds, which `Agent` does.

    >>> estimator = BanditEstimator(arms=["a", "b"])
    >>> rows = [[0.0], [1.0], [0.0], [1.0]] * 50
    >>> learnt = estimator.partial_fit(rows, ["a", "a", "b", "b"] * 50, [1.0, 0.0, 0.0, 1.0] * 50)
    >>> learnt.predict([[0.0], [1.0]]).tolist()
    ['a', 'b']
    """

    moments_: Moments  # of all rows so far
    agent_: Agent
    arms_: npt.NDArray[Any]  # (k,) labels

    def __init__(
        self,
        policy: PolicyForRounds | None = None,
        *,
        arms: int | Sequence[Any] = 2,
        intercept: bool = True,
        random_state: int | None = None,
    ) -> None:
        self.policy, self.arms = policy, arms
        self.intercept, self.random_state = intercept, random_state

    def fit(self, X: npt.ArrayLike, actions: npt.ArrayLike, rewards: npt.ArrayLike) -> BanditEstimator:
        """Forget what was learnt, and learn from these rows."""
        self.__dict__.pop("moments_", None)
        return self.partial_fit(X, actions, rewards)

    def partial_fit(
        self, X: npt.ArrayLike, actions: npt.ArrayLike, rewards: npt.ArrayLike
    ) -> BanditEstimator:
        """Learn from more rows: contexts (n, p), what was played in them, and what it earned."""
        first = "moments_" not in self.__dict__
        table = validate_data(self, X, reset=first, dtype=np.float64)
        labels = np.arange(self.arms) if isinstance(self.arms, int) else np.asarray(self.arms)
        places = places_of(actions, labels, len(table))
        earned = as_floats("rewards", rewards, ndim=1)
        if earned.size != len(table):
            raise ValueError(f"rewards must be one for each of {len(table)} rows, got {earned.size}")
        rows = self._features(table, places, labels.size)
        found = Moments.from_rows(rows, earned)
        self.arms_ = labels
        self.moments_ = found if first else self.moments_ + found
        self.agent_ = self._started()
        return self

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """(n,) the arm that the policy would play in each context; nothing is learnt."""
        check_is_fitted(self, "agent_")
        table, k = validate_data(self, X, reset=False, dtype=np.float64), self.arms_.size
        arms = np.arange(k)
        tables = (self._features(row[None].repeat(k, axis=0), arms, k) for row in table)
        played = [self.agent_.decide(actions=actions).arm for actions in tables]
        return np.asarray(self.arms_[np.array(played, dtype=np.int64)])

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """(n, k) the expected reward of every arm."""
        check_is_fitted(self, "agent_")
        table = self._with_constant(validate_data(self, X, reset=False, dtype=np.float64))
        return np.asarray(table @ self.agent_.theta.reshape(self.arms_.size, -1).T)

    def _started(self) -> Agent:
        """An agent that knows all rows so far, with random numbers of its own."""
        policy = LinUCB() if self.policy is None else self.policy
        given: dict[str, Any] = {}
        if self.random_state is not None:
            given = {"rng": np.random.default_rng([self.random_state, self.moments_.count])}
        if isinstance(policy, Composed):  # its ridge counts the features of one arm
            width = self.moments_.d // self.arms_.size
            given["features"] = OwnFeatures(items=tuple(map(str, range(self.arms_.size))), width=width)
        agent = cast(Agent, policy.start(offline=self.moments_, **given))
        if agent.gate.measures:
            raise ValueError(
                f"policy must be one without a gate, got {policy!r}: a gate counts single rounds"
            )
        return agent

    def _with_constant(self, table: Floats) -> Floats:
        return np.hstack([np.ones((len(table), 1)), table]) if self.intercept else table

    def _features(self, table: Floats, places: Ints, k: int) -> Floats:
        """(n, k p) each row at the place of its arm, 0 elsewhere."""
        own = self._with_constant(table)
        rows = np.zeros((len(own), k, own.shape[1]))
        rows[np.arange(len(own)), places] = own
        return rows.reshape(len(own), -1)


def places_of(actions: npt.ArrayLike, labels: npt.NDArray[Any], n: int) -> Ints:
    """(n,) which arm each label is."""
    given = np.asarray(actions)
    if given.shape != (n,):
        raise ValueError(f"actions must be one for each of {n} rows, got shape {given.shape}")
    known = {label: place for place, label in enumerate(labels.tolist())}
    for row, label in enumerate(given.tolist()):
        if label not in known:
            raise ValueError(f"actions must be among {labels.tolist()}, got {label!r} in row {row}")
    return np.array([known[label] for label in given.tolist()], dtype=np.int64)
