"""Ours, by its public names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from common import Floats, ImpossibleError, Ints
from common import OnTable as OnATable

import linoto
from linoto.core.evidence import likeliest_ridge

MOST_FEATURES = 2_000  # of all arms together
CLICKS = linoto.Confidence(noise="bounded", reward_range=(0, 1))
POLICIES: dict[str, Any] = {
    "LinUCB": linoto.LinUCB(scale=1.0),
    "LinTS": linoto.LinTS(),
    "Gated": linoto.Gated(gate=linoto.Tolerance(budget=100, evidence="model")),
}
WITH_CONTEXTS: dict[str, Any] = {
    "LinUCB": linoto.LinUCB(scale=1.0, confidence=CLICKS),
    "LinUCB, scale 0.25": linoto.LinUCB(scale=0.25, confidence=CLICKS),
    "LinTS": linoto.LinTS(confidence=CLICKS),
    "LinTS, scale 0.25": linoto.LinTS(scale=0.25, confidence=CLICKS),
}


class Agent:
    """One agent for arms that stay."""

    def __init__(self, policy: Any, actions: Floats) -> None:
        self.policy, self.actions = policy, actions
        k = len(actions)
        # A gate compares with a log: it gets one pull of each arm.
        pulls = int(isinstance(policy, linoto.Gated))
        self.offline = linoto.Offline(pulls=[pulls] * k, reward_sums=[0.0] * k)
        self.agent = policy.start(actions, self.offline, rng=0)
        self.decide, self.update = self.agent.select, self.agent.update

    def run(self, means: Floats, draws: Floats) -> Ints:
        """The simulator's compiled loop: the arms of all rounds."""
        theta = np.linalg.lstsq(self.actions, means, rcond=None)[0]
        bandit = linoto.LinearBandit(actions=self.actions, theta=theta)
        return linoto.simulate(self.policy, bandit, self.offline, horizon=len(draws), noise=draws).arms

    def fit(self, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Start from the rows of a log."""
        offline = linoto.Offline.from_rows(arms, rewards, k=len(self.actions))
        self.agent = self.policy.start(self.actions, offline, rng=0)
        self.decide, self.update = self.agent.select, self.agent.update


class ContextualAgent:
    """One agent for rounds that bring their own arms."""

    def __init__(self, policy: Any, d: int) -> None:
        self.agent = policy.start(None, d=d, rng=0)

    def describe(self, actions: Floats) -> Floats:
        """The arms as they are."""
        return actions

    def decide(self, actions: Floats) -> int:
        """The arm to play."""
        self.decision = self.agent.decide(actions=actions)
        return int(self.decision.arm)

    def update(self, actions: Floats, arm: int, reward: float) -> None:
        """Learn from the play that was just decided."""
        self.agent.update(self.decision, reward)


def fixed(policy: str, actions: Floats) -> Agent:
    return Agent(POLICIES[policy], actions)


def contextual(policy: str, k: int, d: int) -> ContextualAgent:
    return ContextualAgent(WITH_CONTEXTS[policy], d)


class OnTable:
    """One agent whose arms have features of their own: those of the row, in the place of the arm."""

    def __init__(self, policy: Any, k: int, p: int, seed: int, by_evidence: bool = False) -> None:
        self.policy, self.k, self.p, self.seed = policy, k, p, seed
        self.by_evidence = by_evidence  # whether the log says which ridge
        self.features = linoto.OwnFeatures(items=tuple(map(str, range(k))), width=p)

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Start from the rows of a log."""
        rows = np.zeros((len(arms), self.k, self.p))
        rows[np.arange(len(arms)), arms] = contexts
        log = linoto.Moments.from_rows(rows.reshape(len(arms), -1), rewards)
        policy = self.policy
        if self.by_evidence:
            policy = replace(policy, confidence=replace(policy.confidence, ridge=likeliest_ridge(log)))
        self.agent = policy.start(log, features=self.features, rng=self.seed)

    def decide(self, context: Floats, practice: Floats) -> int:
        """The arm to play."""
        self.decision = self.agent.decide(context=context, practice=practice)
        return int(self.decision.arm)

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from the play that was just decided."""
        self.agent.update(self.decision, reward)


class WithProducts:
    """The same agent, which reads the products of every two columns too, squares among them."""

    def __init__(self, policy: Any, k: int, p: int, seed: int, by_evidence: bool = False) -> None:
        self.pairs = np.triu_indices(p - 1)
        self.agent = OnTable(policy, k, p + self.pairs[0].size, seed, by_evidence)

    def wider(self, contexts: Floats) -> Floats:
        """(..., p + products)"""
        columns = contexts[..., 1:]
        return np.concatenate([contexts, columns[..., self.pairs[0]] * columns[..., self.pairs[1]]], axis=-1)

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        """Start from the rows of a log."""
        self.agent.learn_log(self.wider(contexts), arms, rewards, chances)

    def decide(self, context: Floats, practice: Floats) -> int:
        """The arm to play."""
        return self.agent.decide(self.wider(context), practice)

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from the play that was just decided."""
        self.agent.update(context, arm, reward)


class Created:
    """The loop that `linoto create` makes of a log whose columns are named, and nothing else is said."""

    def __init__(self, settings: dict[str, Any], k: int, p: int, seed: int) -> None:
        self.settings, self.seed = settings, seed
        self.names = [f"arm {arm:02}" for arm in range(k)]
        self.columns = [f"x{i}" for i in range(1, p)]

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Read the rows of a log as a table, audit it, and take what the audit proposes."""
        table = pa.table(
            {
                "arm": [self.names[arm] for arm in arms],
                "earned": rewards,
                **dict(zip(self.columns, contexts.T[1:], strict=True)),
            }
        )
        known = linoto.read_arms(pa.table({"arm": self.names}))
        log = linoto.read_log(
            table, item="arm", reward="earned", arms=known, numeric=self.columns, **self.settings
        )
        policy = linoto.audit_log(log).policy
        assert policy is not None
        self.agent = policy.start(log, rng=self.seed)

    def decide(self, context: Floats, practice: Floats) -> int:
        """The arm to play."""
        row = dict(zip(self.columns, context[1:].tolist(), strict=True))
        self.decision = self.agent.decide(context=row, practice=practice)
        return int(self.decision.arm)

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from the play that was just decided."""
        self.agent.update(self.decision, reward)


class LearntOnTable:
    """A policy that was learnt from the log, and learns no more."""

    def __init__(self, settings: dict[str, Any], k: int, p: int) -> None:
        self.settings = settings
        self.names = tuple(f"arm {arm}" for arm in range(k))
        columns = tuple(linoto.Numeric(name=f"x{i}") for i in range(1, p))  # the constant is the item's
        crosses = tuple(("item", column.name) for column in columns)
        self.recipe = linoto.Recipe(items=self.names, context=columns, crosses=crosses, intercept=False)

    def columns_of(self, contexts: Floats) -> dict[str, Floats]:
        """Contexts by the names of their columns."""
        return {f"x{i}": contexts[..., i] for i in range(1, contexts.shape[-1])}

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        """Learn from the rows of a log, for good."""
        rows = linoto.Rows(
            arms=arms,
            rewards=rewards,
            k=len(self.names),
            propensities=chances,
            recipe=self.recipe,
            context=self.columns_of(contexts),
        )
        self.policy = linoto.learn_policy(rows, **self.settings)

    def decide(self, context: Floats, _: Floats) -> int:
        """The arm to play."""
        row = {name: float(value) for name, value in self.columns_of(context).items()}
        return self.names.index(self.policy(row))

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """It has learnt all it will."""


def explorer_of(settings: dict[str, Any]) -> Any:
    """An explorer by its name and its scale."""
    given = dict(settings)
    return getattr(linoto, given.pop("explorer"))(**given)


def table(policy: str, settings: dict[str, Any], k: int, p: int, seed: int) -> OnATable:
    """Rewards are known to be 0 or 1; everything else is as it comes, or as the settings say."""
    if policy == "created":
        return Created(settings, k, p, seed)
    if policy == "learn_policy":
        return LearntOnTable(settings, k, p)
    given = dict(settings)
    products = given.pop("products", False)
    width = p * (p + 1) // 2 if products else p  # a constant, p - 1 columns, and their products
    if k * width > MOST_FEATURES:
        raise ImpossibleError(f"{k * width} features are more than {MOST_FEATURES}")
    ridge = given.pop("ridge", "")  # by which features it counts, where that is said
    counted = {"of all features": k * width, "of an arm": width, "of a feature": 1}.get(ridge)
    confidence = replace(CLICKS, ridge=CLICKS.ridge_for(counted)) if counted else CLICKS
    if "explorer" in given:
        given["explorer"] = explorer_of(given["explorer"])
    if "budget" in given:
        given["gate"] = linoto.Control(budget=given.pop("budget"), share=given.pop("share", None))
    played = getattr(linoto, policy)(confidence=confidence, **given)
    return (WithProducts if products else OnTable)(played, k, p, seed, by_evidence=ridge == "of the log")
