"""pybandits: Thompson sampling with a Bayesian regression, or a Beta distribution, for each arm."""

from __future__ import annotations

from common import Fixed, Floats, Ints, constant_context
from pybandits.cmab import CmabGaussian
from pybandits.smab import SmabBernoulli

WITHOUT = {"contextual": "no features of arms: a model per arm"}


class Regressions:
    """A linear model for each arm, fitted anew by variational inference after each reward."""

    def __init__(self, k: int, d: int) -> None:
        names = {str(arm) for arm in range(k)}
        self.bandit = CmabGaussian.cold_start(
            action_ids=names,
            n_features=d,
            reward_loc=0.0,
            reward_scale=1.0,
            update_kwargs={"num_steps": 100},  # a tenth of what is usual there
            random_seed=1,
        )
        self.context = constant_context(d)[None]

    def decide(self) -> int:
        """The arm to play."""
        return int(self.bandit.predict(context=self.context)[0][0])

    def update(self, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.bandit.update(actions=[str(arm)], rewards=[reward], context=self.context)

    def fit(self, arms: Ints, rewards: Floats, features: Floats) -> None:
        """Learn a log at once."""
        self.bandit.update(actions=list(map(str, arms.tolist())), rewards=rewards.tolist(), context=features)


class Counts:
    """Wins and losses of each arm: a reward above 0 is a win."""

    def __init__(self, k: int) -> None:
        self.bandit = SmabBernoulli.cold_start(action_ids={str(arm) for arm in range(k)}, random_seed=1)

    def decide(self) -> int:
        """The arm to play."""
        return int(self.bandit.predict(n_samples=1)[0][0])

    def update(self, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.bandit.update(actions=[str(arm)], rewards=[int(reward > 0)])

    def fit(self, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Learn a log at once."""
        self.bandit.update(actions=list(map(str, arms.tolist())), rewards=(rewards > 0).astype(int).tolist())


def fixed(policy: str, actions: Floats) -> Fixed:
    k, d = actions.shape
    return Regressions(k, d) if policy == "CmabGaussian" else Counts(k)
