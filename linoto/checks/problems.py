"""A small problem to try policies on, and what a law may expect of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from math import hypot, inf
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from linoto.core.agent import Agent
from linoto.core.arrays import Floats, Ints
from linoto.core.confidence import Confidence
from linoto.core.offline import Offline
from linoto.core.parameters import is_arm
from linoto.core.protocols import AnyAgent, Policy
from linoto.worlds.bandits import LinearBandit, on_sphere

ROUNDS = 120
Part = TypeVar("Part")
MANY_ROUNDS = 700  # past the first refresh of the kernels, which comes after 512 rewards


class SmallProblem(NamedTuple):
    """Arms, a log of some of them, and the noise of every round to come."""

    actions: Floats  # (k, d)
    means: Floats  # (k,)
    offline: Offline
    noise: Floats  # (n,)
    limits: tuple[float, float] | None = None  # that no reward may leave, where the policy says so

    def reward(self, arm: int, t: int) -> float:
        """What an arm earns in a round."""
        return float(self.means[arm] + self.noise[t])

    @property
    def largest_reward(self) -> float:
        """As much as any arm could ever earn."""
        return float(self.means.max() + self.noise.max()) if self.limits is None else self.limits[1]

    @property
    def world(self) -> LinearBandit:
        """These arms, to simulate with."""
        theta: Floats = np.linalg.lstsq(self.actions, self.means)[0].astype(np.float64)
        return LinearBandit(actions=self.actions, theta=theta, noise=1.0 if self.limits is None else 0.0)

    def start_agent(self, policy: Policy, seed: int = 0) -> AnyAgent:
        """An agent for this problem, with actions of its own."""
        return self.with_arms_in_range(policy).start(self.actions.copy(), self.offline, rng=seed)

    def start_full_agent(self, policy: Policy) -> Agent:
        """The same, for a law about what an agent need not have: it runs only where this one has it."""
        return cast("Agent", self.start_agent(policy))

    def with_arms_in_range(self, policy: Policy) -> Policy:
        """The policy, the arms it names taken modulo k, so that it fits problems of every size."""
        return rename_arms(policy, lambda arm: arm % len(self.actions))

    def play_rounds(self, agent: AnyAgent, rounds: range) -> list[int]:
        """The arms of these rounds, one decision at a time: select once, update once."""
        arms = []
        for t in rounds:
            arm = agent.select()
            agent.update(arm, self.reward(arm, t))
            arms.append(arm)
        return arms

    def with_arms(self, order: Ints) -> SmallProblem:
        """The same problem with its arms in this order; an arm may be there twice."""
        log = self.offline
        squares = None if log.reward_squares is None else log.reward_squares[order]
        moved = Offline(pulls=log.pulls[order], reward_sums=log.reward_sums[order], reward_squares=squares)
        return self._replace(actions=self.actions[order], means=self.means[order], offline=moved)

    def arms_played(self, policy: Policy, seed: int = 0) -> list[int]:
        """The arms of a run."""
        return self.play_rounds(self.start_agent(policy, seed), range(ROUNDS))


@cache
def small_problem(
    k: int = 6, d: int = 3, logged: tuple[int, ...] = (10, 5, 5), assumed: Confidence | None = None
) -> SmallProblem:
    """A problem without ties, whose first arms were logged this often: on the unit sphere, or as assumed."""
    rng = np.random.default_rng(6)
    pulls = np.zeros(k, dtype=np.int64)
    pulls[: len(logged)] = logged[:k]
    if assumed is None:
        bandit = LinearBandit(actions=on_sphere(k, d, rng), theta=on_sphere(1, d, rng)[0])
    else:
        bandit = bandit_as_assumed(assumed, k, d, rng, reach=0.5)
    log, noise = bandit.log(pulls, rng), bandit.noise * rng.standard_normal(MANY_ROUNDS)
    if assumed is None or assumed.noise != "bounded":
        return SmallProblem(bandit.actions, bandit.means, log, noise)
    low, high = bandit.reward_range
    noise = np.clip(noise, low - bandit.means.min(), high - bandit.means.max())
    return SmallProblem(bandit.actions, bandit.means, log, noise, bandit.reward_range)


def bandit_as_assumed(
    confidence: Confidence, k: int, d: int, rng: np.random.Generator, *, reach: float = 1.0
) -> LinearBandit:
    """Arms whose means are all over the assumed range, or the middle part of it, and |theta| <= bound."""
    low, high = confidence.reward_range or (-confidence.bound, confidence.bound)
    middle, half = (low + high) / 2, (high - low) / 2
    size = hypot(middle, half) / confidence.bound  # of the features: |theta| is the bound at full reach
    around, direction = on_sphere(k, d - 1, rng), on_sphere(1, d - 1, rng)[0]
    return LinearBandit(
        actions=size * np.column_stack([np.ones(k), around]),
        theta=np.append(middle, reach * half * direction) / size,
        noise=confidence.scale,
        rewards="bernoulli" if confidence.noise == "bounded" else "gaussian",
        reward_range=(low, high),
    )


def problem_for(policy: Policy, **shape: Any) -> SmallProblem:
    """A small problem as this policy assumes it, with one-hot arms if it takes no others."""
    problem, assumed = small_problem(**shape), assumptions_of(policy)
    low, high = assumed.reward_range or (-inf, inf)
    inside = low <= problem.means.min() and problem.means.max() <= high
    if not inside or assumed.noise == "bounded" or assumed.scale < 1 or assumed.bound < 1:
        problem = small_problem(**shape, assumed=assumed)
    if takes_any_arms(policy):
        return problem
    size = float(np.linalg.norm(problem.actions, axis=1).max())
    return problem._replace(actions=size * np.eye(len(problem.actions)))


def assumptions_of(policy: Policy) -> Confidence:
    """What a policy, or the one inside it, assumes of the noise and of the mean rewards."""
    if hasattr(policy, "composed"):
        policy = policy.composed()
    elif hasattr(policy, "policy"):
        return assumptions_of(policy.policy)
    return getattr(policy, "confidence", None) or Confidence()


def takes_any_arms(policy: Policy) -> bool:
    """Policies that do not ask for one-hot arms."""
    return not getattr(policy, "needs_one_hot", False)


def rename_arms(record: Part, new_name: Callable[[int], int]) -> Part:
    """A policy with the arm it names (a fixed fallback) called differently; most name none."""
    if not is_dataclass(record) or isinstance(record, type):
        return record
    changes = {}
    for field in fields(record):
        old = getattr(record, field.name)
        new = new_name(int(old)) if field.name == "fallback" and is_arm(old) else rename_arms(old, new_name)
        if new is not old and new != old:
            changes[field.name] = new
    return replace(record, **changes) if changes else record


def shown_estimates(agent: AnyAgent | Agent) -> list[Floats]:
    """What an agent shows of its estimate."""
    return [getattr(agent, name) for name in ("theta", "lcb", "ucb") if hasattr(agent, name)]


def innermost(agent: AnyAgent) -> AnyAgent:
    """The agent itself, or the one at work inside it."""
    return innermost(agent.inner) if hasattr(agent, "inner") else agent


# -- what a law expects ------------------------------------------------------------------------------------


def expect(holds: bool, otherwise: str) -> None:
    """`assert`, which `python -O` would leave out of a suite that is used as a library."""
    if not holds:
        raise AssertionError(otherwise)


def expect_same(left: list[Any], right: list[Any], what: str) -> None:
    """Bit for bit."""
    same = len(left) == len(right) and all(map(np.array_equal, left, right))
    if not same:  # arrays are slow to print: only where somebody reads it
        raise AssertionError(f"{what} must be the same, got {left!s:.300} and {right!s:.300}")


def expect_close(found: Any, wanted: Any, what: str, tolerance: float = 1e-8) -> None:
    """Up to a tolerance, relative to the largest entry."""
    error = np.max(np.abs(np.asarray(found) - wanted)) / max(1e-300, float(np.max(np.abs(wanted))))
    expect(bool(error <= tolerance), f"{what} must agree to {tolerance:g}, off by {error:g}")


def expect_refusal(argument: str, call: Callable[[], object]) -> None:
    """A ValueError whose message names the argument."""
    try:
        call()
    except ValueError as error:
        expect(argument in str(error), f"the message must name {argument}, got: {error}")
    else:
        raise AssertionError(f"a bad {argument} must be a ValueError, got no error")
