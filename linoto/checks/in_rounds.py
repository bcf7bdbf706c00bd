"""The same arms in every round, brought by the round: every law holds for that driver too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linoto.checks.problems import ROUNDS, SmallProblem, expect, expect_same, innermost, problem_for
from linoto.core import kernels
from linoto.core.agent import Agent
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.certificates import Certificate
from linoto.core.codec import encode, foreign_types
from linoto.core.decisions import Decision
from linoto.core.features.moments import Moments
from linoto.core.offline import Offline
from linoto.core.protocols import Policy, PolicyForRounds, starts_without_arms
from linoto.core.snapshots import restore
from linoto.core.validation import as_arm


@dataclass(frozen=True, kw_only=True)
class InRounds:
    """A policy whose rounds bring the arms that it is started with, as if they stayed the same."""

    policy: Any

    def start(self, actions: npt.ArrayLike, offline: Offline, rng: Any = 0) -> SameArms:
        """An agent that is asked about the same arms in every round; practice is the log's shares."""
        arms = np.array(actions, dtype=np.float64)
        log = Moments.of_arms(arms, offline)
        return SameArms(self.policy.start(offline=log, d=log.d, rng=rng), arms, practice_of(offline))

    def composed(self) -> Any:
        """What the policy is made of where rounds bring their own arms."""
        return self.policy.composed_for_rounds()

    def certificate(self, actions: npt.ArrayLike, offline: Offline) -> Certificate:
        """What it promises on these arms, where every round brings them."""
        found: Certificate = self.policy.certificate(Moments.of_arms(np.array(actions, np.float64), offline))
        return found

    def restore(self, blob: bytes) -> SameArms:
        """The agent of a snapshot, on the small problem that laws play."""
        problem = problem_for(self)
        needs_policy = bool(foreign_types(encode(self.policy)))
        inner = restore(blob, policy=problem.with_arms_in_range(self).policy if needs_policy else None)  # type: ignore[attr-defined]
        return SameArms(inner, problem.actions.copy(), practice_of(problem.offline))


class SameArms:
    """An agent whose rounds bring their own arms, behind the words of one whose arms stay the same."""

    def __init__(self, inner: Agent, actions: Floats, practice: Floats) -> None:
        self.inner, self.actions, self.practice = inner, actions, practice
        self.committed: dict[int, list[Decision]] = {}  # by the arm that was asked for, until the reward
        self.made: Any = None  # the decision of this round, once it was asked for

    def __getattr__(self, name: str) -> Any:
        if name in ("theta", "ellipsoid", "rounds", "snapshot", "gate"):
            return getattr(self.inner, name)
        raise AttributeError(f"rounds that bring their own arms have no {name!r}")

    def decide(self) -> Any:
        """What to play of these arms."""
        self.made = self.inner.decide(actions=self.actions, practice=self.practice)
        return self.made

    def guard(self, arm: int) -> Any:
        """Somebody else's proposal through the gate."""
        self.made = None
        return self.inner.guard(arm, actions=self.actions, practice=self.practice)

    def select(self) -> int:
        """The arm of `decide`."""
        return self.decide().arm  # type: ignore[no-any-return]

    def update(self, arm: Any, reward: float) -> None:
        """Commit and observe."""
        self.inner.update(self._decision_for(arm), reward)

    def commit(self, arm: Any) -> None:
        """Count a play, and keep its decision for its reward."""
        decision = self._decision_for(arm)
        self.inner.commit(decision)
        self.committed.setdefault(arm, []).append(decision)

    def observe(self, arm: int, reward: float) -> None:
        """Learn from the oldest play of an arm that awaits its reward."""
        self.made = None
        self.inner.observe(self.committed[arm].pop(0), reward)

    def play(self, means: Floats, draws: Floats, *, bernoulli: bool = False, **_: Any) -> tuple[Ints, Bools]:
        """The compiled loop over as many rounds as there are draws."""
        n, k = draws.size, len(self.actions)
        found: tuple[Ints, Bools] = self.inner.play(
            np.tile(means, n),
            draws,
            ends=k * np.arange(1, n + 1),
            actions=np.tile(self.actions, (n, 1)),
            weights=np.tile(self.practice, n),
            bernoulli=bernoulli,
        )
        return found

    def _decision_for(self, arm: Any) -> Any:
        """The decision of this round if it plays this arm, or one that does; what is drawn stands."""
        if isinstance(arm, Decision):
            return arm
        index = as_arm(arm, len(self.actions))
        decision, self.made = self.made or self.decide(), None
        driver = getattr(self.inner, "driver", None)
        if decision.arm == index or not isinstance(decision, Decision) or driver is None:
            return decision
        if driver.coin_is_thrown:
            return decision
        action = tuple(self.actions[index].tolist())
        return replace(decision, arm=index, mode="explore", source="explorer", action=action)


def practice_of(offline: Offline) -> Floats:
    """(k,) the log's shares; the first arm where there is no log."""
    if offline.total == 0:
        return np.asarray(np.eye(1, offline.pulls.size)[0], np.float64)
    return np.asarray(offline.pulls / offline.total, np.float64)


def plays_rounds(policy: Policy) -> bool:
    """Policies that start where rounds bring their own arms."""
    if not starts_without_arms(policy):
        return False
    try:
        problem_for(policy).start_agent(InRounds(policy=policy))
    except Exception:  # whatever it is, `plays_or_says_why_not` says so
        return False
    return True


def plays_or_says_why_not(policy: Policy) -> None:
    """Where rounds bring their own arms a policy plays, or its `why_not` says what it then refuses with."""
    why_not, start = getattr(policy, "why_not", None), cast("PolicyForRounds", policy).start
    log = Moments.of_arms(problem_for(policy).actions, problem_for(policy).offline)
    reason = None if why_not is None else why_not(log)
    if reason is None:
        problem = problem_for(policy)
        arms = problem.arms_played(InRounds(policy=policy))
        expect(
            all(0 <= arm < len(problem.actions) for arm in arms), f"arms must be in range, got {set(arms)}"
        )
        return
    try:
        start(offline=log, d=log.d, rng=0)
    except ValueError as error:
        expect(str(error) == reason, f"why_not says: {reason}; start says: {error}")
        return
    raise AssertionError(f"it starts, and why_not says: {reason}")


def both_ways_play_the_same(policy: Policy) -> None:
    """A log stated by its arms, or by rounds that bring them, gives the same plays where nothing is drawn."""
    problem = problem_for(policy, logged=(20,))  # practice is one arm
    fixed, rounds = problem.start_agent(policy), problem.start_agent(InRounds(policy=policy))
    for t in range(ROUNDS):
        arm, other = fixed.select(), rounds.select()
        expect_same([arm], [other], f"arms of round {t}")
        play_one(cast(Agent, fixed), problem, arm, t)
        play_one(cast(Agent, rounds), problem, arm, t)


def play_one(agent: Agent, problem: SmallProblem, arm: int, t: int) -> None:
    """One round; every seventh reward never comes."""
    if t % 7 == 3:
        agent.commit(arm)
    else:
        agent.update(arm, problem.reward(arm, t))


def draws_nothing(policy: Policy) -> bool:
    """Policies of ours that play both ways, by one gate, and whose explorer draws nothing."""
    if not plays_rounds(policy):
        return False
    agent = innermost(problem_for(policy).start_agent(policy))
    if not isinstance(agent, Agent) or agent.rule.draws != kernels.NO_DRAWS:
        return False
    other = innermost(problem_for(policy).start_agent(InRounds(policy=policy)))
    return type(agent.gate) is type(other.gate)  # type: ignore[attr-defined]
