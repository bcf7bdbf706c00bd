"""Callers who try to break a promise with contexts: they choose contexts, arms, practice and rewards.

An attack plays one round at a time. It sees everything but the coin and practice's draw: the estimate, the
books, what its arms will earn in this round. `excess` plays it, and counts what was lost beyond the promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import linoto

Floats = npt.NDArray[np.float64]
D, LATE = 4, 25
THETA = np.array([0.6, 0.3, 0.1, 0.0])  # what a linear world earns; feature 3 says nothing


class Asked(NamedTuple):
    """A round as an attack asks it."""

    actions: Floats  # (k, d)
    practice: Any
    proposal: int
    means: Floats  # (k,) what the arms earn on average
    rewards: Floats  # (k,) and in this round


class Past(NamedTuple):
    """What an attack has seen."""

    agent: Any
    rng: np.random.Generator
    decisions: list[Any]
    rewards: list[float]
    linear: bool  # whether means must be what the model says

    @property
    def room(self) -> float:
        """The room at the last decision."""
        return (self.decisions[-1].budget or 0.0) if self.decisions else 0.0


def rows(rng: np.random.Generator, k: int) -> Floats:
    """(k, d) actions whose linear means lie in [0, 1]."""
    return np.asarray(np.column_stack([rng.random((k, D - 1)), rng.normal(size=k)]))


def asked(past: Past, actions: Floats, practice: Any, proposal: int, means: Floats | None = None) -> Asked:
    """A round whose rewards are 0 or 1; a world that must be linear has the means of the model."""
    linear = np.clip(actions @ THETA, 0.0, 1.0)
    means = linear if means is None or past.linear else means
    return Asked(actions, practice, proposal, means, (past.rng.random(len(actions)) < means).astype(float))


# -- attacks ----------------------------------------------------------------------------------------------


def worst_arm(past: Past) -> Asked:
    """Practice is the best arm, and the proposal the worst."""
    actions = rows(past.rng, 5)
    order = np.argsort(actions @ THETA)
    return asked(past, actions, int(order[-1]), int(order[0]))


def easy_contexts(past: Past) -> Asked:
    """Disputes only where practice earns the most: elsewhere it agrees, and the average looks modest."""
    actions = rows(past.rng, 4)
    easy = past.rng.random() < 0.3
    means = np.array([1.0 if easy else 0.1, 0.0, 0.5, 0.5])
    return asked(past, actions, 0, 1 if easy else 0, means)


def practice_by_context(past: Past) -> Asked:
    """Practice plays the good arm in one kind of context and the bad one in the other, each with a doubt."""
    actions, good = rows(past.rng, 3), past.rng.random() < 0.5
    actions[0], actions[1] = [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]
    weights = [0.9, 0.1, 0.0] if good else [0.1, 0.9, 0.0]
    return asked(past, actions, weights, 1 if good else 0, np.array([1.0, 0.0, 0.5]))


def foresees(past: Past) -> Asked:
    """Knows the rewards of this round: disputes where practice earns 1, with an arm that earns 0."""
    found = worst_arm(past)
    practice, worst = int(found.practice), int(found.rewards.argmin())
    return found._replace(proposal=worst if found.rewards[practice] > found.rewards[worst] else practice)


def builds_then_spends(past: Past) -> Asked:
    """Proposes what is good until there is room, then what is worst."""
    actions = rows(past.rng, 5)
    order = np.argsort(actions @ THETA)
    spends = past.room > 6.0
    practice, proposal = (order[-1], order[0]) if spends else (order[1], order[-1])
    return asked(past, actions, int(practice), int(proposal))


def follows_the_coin(past: Past) -> Asked:
    """Practice is good, and the explorer bad, in the round after a control round."""
    actions = rows(past.rng, 2)
    after = bool(past.decisions) and past.decisions[-1].source == "control"
    return asked(past, actions, 0, 1, np.array([1.0, 0.0] if after else [0.2, 0.4]))


def vanishing_arms(past: Past) -> Asked:
    """Arms come and go, to a single one; what earned something online is never offered again."""
    k = int(past.rng.integers(1, 6))
    actions = rows(past.rng, k)
    if past.rewards and past.rewards[-1] > 0:
        actions[:, 0] = 0.0
    order = np.argsort(actions @ THETA)
    return asked(past, actions, int(order[-1]), int(order[0]))


def duplicates(past: Past) -> Asked:
    """Every arm has the features of practice's; where the model may be wrong, the others earn nothing."""
    actions = np.repeat(rows(past.rng, 1), 4, axis=0)
    return asked(past, actions, 0, 2, np.array([0.9, 0.0, 0.0, 0.0]))


def huge_features(past: Past) -> Asked:
    """A feature that says nothing is a million times as long as the others, in one arm and then another."""
    actions = rows(past.rng, 4)
    actions[:, 3] *= 10.0 ** past.rng.integers(-6, 7, size=4)
    order = np.argsort(actions[:, :3] @ THETA[:3])
    return asked(past, actions, int(order[-1]), int(order[0]))


def against_the_estimate(past: Past) -> Asked:
    """Offers what the estimate thinks too well of: contexts are chosen by what is wrong in it."""
    actions = rows(past.rng, 40)
    flattered = actions @ (past.agent.theta - THETA)
    chosen = actions[[int(flattered.argmax()), int(flattered.argmin())]]
    return asked(past, chosen, 1, 0)


def weights_hide_the_best(past: Past) -> Asked:
    """Practice draws among many arms, of which one is good; the proposal is any of the bad ones."""
    actions, weights = rows(past.rng, 6), np.full(6, 0.08)
    actions[0], weights[0] = [1.0, 1.0, 1.0, 0.0], 0.6
    actions[1:, :3] *= 0.2
    return asked(past, actions, weights, int(past.rng.integers(1, 6)))


def vector_of_the_best(past: Past) -> Asked:
    """Practice is an action that is none of the arms, and better than all of them; a coin needs an arm."""
    actions = rows(past.rng, 4)
    actions[:, :3] *= 0.3
    if past.agent.gate.throws_coin:
        actions[0] = [1.0, 1.0, 1.0, 0.0]
        return asked(past, actions, 0, 2)
    return asked(past, actions, np.array([[1.0, 1.0, 1.0, 0.0]]), 2)


ATTACKS: dict[str, Callable[[Past], Asked]] = {
    attack.__name__.replace("_", " "): attack
    for attack in (
        worst_arm,
        easy_contexts,
        practice_by_context,
        foresees,
        builds_then_spends,
        follows_the_coin,
        vanishing_arms,
        duplicates,
        huge_features,
        against_the_estimate,
        weights_hide_the_best,
        vector_of_the_best,
    )
}

# -- how rewards arrive -----------------------------------------------------------------------------------


def at_once(agent: Any, waiting: list[tuple[Any, float]]) -> None:
    agent.observe(*waiting.pop())


def late_and_reversed(agent: Any, waiting: list[tuple[Any, float]]) -> None:
    """In blocks, the latest first."""
    if len(waiting) == LATE:
        while waiting:
            agent.observe(*waiting.pop())


def lost_by_value(agent: Any, waiting: list[tuple[Any, float]]) -> None:
    """What would close the gate never arrives: high controls and low explored rewards."""
    decision, reward = waiting.pop()
    bad = reward > 0.5 if decision.source == "control" else reward < 0.5
    if not (bad and decision.source in ("control", "explorer")):
        agent.observe(decision, reward)


def given_up(agent: Any, waiting: list[tuple[Any, float]]) -> None:
    """Every third reward is lost, whatever it is, and a value stands in for it."""
    decision, reward = waiting.pop()
    if decision.round % 3 == 0:
        agent.lose(decision, 0.5)
    else:
        agent.observe(decision, reward)


def restored(agent: Any, waiting: list[tuple[Any, float]]) -> None:
    """The decision was stored as JSON, and comes back from there."""
    decision, reward = waiting.pop()
    agent.observe(linoto.Decision.from_dict(decision.to_dict()), reward)


ARRIVALS = {
    "at once": at_once,
    "late and reversed": late_and_reversed,
    "lost by value": lost_by_value,
    "given up": given_up,
    "restored": restored,
}

# -- the judge --------------------------------------------------------------------------------------------


def log_of(seed: int, m: int = 80, *, turned: bool = False) -> linoto.Moments:
    """A log of a linear world; turned, a longer one that says of every action what its opposite earns."""
    rng = np.random.default_rng([7, seed])
    played = rows(rng, 20 * m if turned else m)
    means = np.clip(played @ THETA, 0.0, 1.0)
    means = 1.0 - means if turned else means
    return linoto.Moments.from_rows(played, (rng.random(len(means)) < means).astype(float))


def excess(
    policy: Any,
    attack: str,
    arrival: str,
    seed: int,
    rounds: int = 100,
    *,
    linear: bool,
    turned: bool = False,
) -> float:
    """The largest sum, in any round, of what practice would have earned more, less what is promised."""
    log, rng = log_of(seed, turned=turned), np.random.default_rng([8, seed])
    certificate, agent = policy.certificate(log), policy.start(log, rng=seed)
    past, waiting = Past(agent, rng, [], [], linear), list[tuple[Any, float]]()
    lost, losses = 0.0, np.zeros(rounds)
    for t in range(rounds):
        round = ATTACKS[attack](past)
        question = {"actions": round.actions, "practice": round.practice}
        decision = agent.guard(round.proposal, **question)
        own = float(rng.random() < np.array(decision.action) @ THETA)  # of practice's own action
        reward = own if decision.arm is None else float(round.rewards[decision.arm])
        agent.commit(decision)
        past.decisions.append(decision)
        past.rewards.append(reward)
        if not decision.by_practice:
            lost += loss_of(round, decision, agent.gate.throws_coin, certificate.realised)
        losses[t] = lost
        waiting.append((decision, reward))
        ARRIVALS[arrival](agent, waiting)
    return float(np.max(certificate.excess(losses)))


def loss_of(round: Asked, decision: Any, coin: bool, realised: bool) -> float:
    """What practice would have earned more: the arm that was drawn before the coin, or its mean."""
    earned = round.rewards if realised else round.means
    if coin:
        return float(earned[decision.fallback] - earned[decision.arm])
    practice = np.asarray(round.practice, dtype=float)
    if practice.ndim == 2:
        return float(np.clip(practice[0] @ THETA, 0.0, 1.0) - round.means[decision.arm])
    shares = np.eye(len(earned))[round.practice] if practice.ndim == 0 else practice
    return float(shares @ round.means - round.means[decision.arm])
