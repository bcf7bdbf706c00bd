"""For every law a policy that breaks it: the right law catches the fault, and no other does."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.inner_kernels import from_python
from helpers.own_explorers import FalselyDeterministic, WritesIntoView
from helpers.plain_policies import Kept, KeptAgent, Leader, LeaderAgent, PatientAgent

from linoto.checks.problems import MANY_ROUNDS
from linoto.checks.suite import LAWS, LawError, all_checks, check_policy
from linoto.core import kernels
from linoto.core.agent import Agent
from linoto.core.kernels import estimate
from linoto.core.offline import as_offline
from linoto.core.policies import Gated, LinUCB
from linoto.core.snapshots import restore
from linoto.core.validation import as_actions, as_arm, as_generator, as_reward

ALL_LAWS = [law.__name__ for _, laws in LAWS for law in laws]


@dataclass(unsafe_hash=True, kw_only=True)
class Thawed(Leader):
    scale: float = 1.0
    agent: ClassVar[type] = LeaderAgent


@dataclass(frozen=True)
class Positional(Leader):
    scale: float = 1.0
    agent: ClassVar[type] = LeaderAgent


@dataclass(frozen=True, kw_only=True)
class Secretive(Leader):
    scale: float = field(default=1.0, repr=False)
    agent: ClassVar[type] = LeaderAgent


@dataclass(frozen=True, kw_only=True)
class Unwritable(Leader):
    tags: frozenset[str] = frozenset()
    agent: ClassVar[type] = LeaderAgent


@dataclass(frozen=True, kw_only=True)
class Unstartable(Leader):
    scale: float | None = None
    agent: ClassVar[type] = LeaderAgent

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        if self.scale is None:
            raise ValueError("scale must be given")
        return super().start(actions, offline, rng)


class NumpyArms(LeaderAgent):
    def select(self) -> Any:
        return np.argmax(self.scores())


class Fickle(LeaderAgent):
    asked = 0

    def select(self) -> int:
        self.asked += 1
        return (super().select() + self.asked - 1) % len(self.actions)

    def learn(self, arm: int, reward: float) -> None:
        self.asked = 0
        super().learn(arm, reward)


class BurnsDraws(LeaderAgent):
    """Keeps its arm until the next reward, and yet each question moves the generator."""

    arm: int | None = None

    def select(self) -> int:
        draw = int(self.rng.integers(len(self.actions)))
        self.arm = draw if self.arm is None else self.arm
        return self.arm

    def learn(self, arm: int, reward: float) -> None:
        self.arm = None


class DrawsEachRound(LeaderAgent):
    arm = 0

    def select(self) -> int:
        return self.arm

    def learn(self, arm: int, reward: float) -> None:
        self.arm = int(self.rng.integers(len(self.actions)))


class Unseeded(Leader):
    """Takes a seed, but not a generator."""

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        agent = super().start(actions, offline, rng)
        agent.rng = np.random.default_rng(rng if isinstance(rng, int) else None)
        return agent


class Rescales(Leader):
    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        agent = super().start(actions, offline, rng)
        if np.asarray(actions).flags.writeable:
            actions *= 2.0
        return agent


class Borrows(Leader):
    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        agent = super().start(actions, offline, rng)
        agent.actions = actions
        return agent


class SharedAlarm(LeaderAgent):
    alarm = [False]  # noqa: RUF012 - one for all agents: the fault

    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.alarm[0] = False

    def select(self) -> int:
        return 0 if self.alarm[0] else super().select()

    def learn(self, arm: int, reward: float) -> None:
        self.alarm[0] |= reward >= 4.0  # what the law tells another agent
        super().learn(arm, reward)


class Remembers(LeaderAgent):
    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.history: list[float] = []

    def learn(self, arm: int, reward: float) -> None:
        self.history.append(reward)
        super().learn(arm, reward)


class RemembersInAnArray(LeaderAgent):
    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.history, self.rounds = np.zeros(1), 0

    def learn(self, arm: int, reward: float) -> None:
        if self.rounds == self.history.size:
            self.history = np.resize(self.history, 2 * self.rounds)
        self.history[self.rounds] = reward
        self.rounds += 1
        super().learn(arm, reward)


class NeedsTwoArms(LeaderAgent):
    def select(self) -> int:
        np.partition(self.scores(), -2)
        return super().select()


class NeedsTwoFeatures(LeaderAgent):
    def scores(self) -> Any:
        return super().scores() + 0.0 * self.actions[:, 1]


class NeedsALog(LeaderAgent):
    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.share = 1 / self.offline.total


class NeedsDistinctArms(LeaderAgent):
    def select(self) -> int:
        arms = {action.tobytes(): arm for arm, action in enumerate(self.actions)}
        return list(arms.values()).index(super().select())


class NeedsFullRank(LeaderAgent):
    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        k, d = self.actions.shape
        logged = self.actions[self.offline.pulls > 0]
        if k >= d > 1 and 0 < np.linalg.matrix_rank(logged) < d:
            raise np.linalg.LinAlgError("Singular matrix")


class AnyActions(Leader):
    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        return LeaderAgent(
            np.array(actions, dtype=float), as_offline(offline, len(actions)), as_generator(rng)
        )


class AnyLog(Leader):
    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        return LeaderAgent(as_actions(actions), offline, as_generator(rng))


class AnyArm(LeaderAgent):
    def update(self, arm: Any, reward: float) -> None:
        self.learn(arm, as_reward(reward))


class AnyReward(LeaderAgent):
    def update(self, arm: int, reward: Any) -> None:
        self.learn(as_arm(arm, len(self.actions)), float(reward))


class ChecksTooLate(LeaderAgent):
    def update(self, arm: int, reward: float) -> None:
        self.b += 0.1 * self.actions[as_arm(arm, len(self.actions))]
        super().update(arm, reward)


class LateDiscount(PatientAgent):
    """What comes late counts less, by the order of arrival."""

    arrived = 0

    def learn(self, arm: int, reward: float) -> None:
        self.arrived += 1
        super().learn(arm, reward / self.arrived)


class UnequalUpdate(PatientAgent):
    def update(self, arm: int, reward: float) -> None:
        super().update(arm, as_reward(reward) + 1e-6)


class Impatient(PatientAgent):
    clock = 0

    def commit(self, arm: int) -> None:
        super().commit(arm)
        self.clock = self.clock + 1 if self.pending.any() else 0

    def learn(self, arm: int, reward: float) -> None:
        self.clock = self.clock if self.pending.any() else 0
        super().learn(arm, reward)

    def select(self) -> int:
        if self.clock > 60:
            raise RuntimeError("a reward is overdue")
        return super().select()


class TakesAnything(PatientAgent):
    def observe(self, arm: int, reward: float) -> None:
        self.pending[as_arm(arm, len(self.actions))] = 1
        super().observe(arm, reward)


class ForgetsRewards(KeptAgent):
    kept = ("V", "pending")


class ForgetsPending(KeptAgent):
    kept = ("V", "b")


class LowIndexFirst(LeaderAgent):
    def scores(self) -> Any:
        return super().scores() - np.arange(len(self.actions))


class LikesItsAxes(LeaderAgent):
    def scores(self) -> Any:
        return super().scores() + np.abs(self.actions).sum(axis=1)


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """LinUCB with an agent that is not what it should be."""

    agent: ClassVar[type[Agent]]

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        agent = LinUCB(scale=1.0).start(actions, offline, rng)
        agent.__class__ = self.agent
        return agent

    def restore(self, blob: bytes) -> Any:
        agent = restore(blob)
        agent.__class__ = self.agent
        return agent


def faulty(agent_class: type[Agent]) -> Any:
    return dataclass(frozen=True, kw_only=True)(
        type(agent_class.__name__, (Faulty,), {"agent": agent_class})
    )()


class PlaysBackwards(Agent):
    def play(self, means: Any, draws: Any, **rewards: Any) -> Any:
        return super().play(means, draws[::-1].copy(), **rewards)


class KeepsItsRuns(Agent):
    def play(self, means: Any, draws: Any, **rewards: Any) -> Any:
        self.run = super().play(means, draws, **rewards)
        return self.run


class FallingBounds(Agent):
    @property
    def lcb(self) -> Any:
        return 2 * self.running.state.arms[kernels.MEAN] - self.ucb


class NarrowBounds(Agent):
    @property
    def ucb(self) -> Any:
        return self.running.state.arms[kernels.MEAN] + 0.9 * (
            self.driver.ucb - self.running.state.arms[kernels.MEAN]
        )


class DriftingInverse(Agent):
    def update(self, decision: Any, reward: Any) -> None:
        super().update(decision, reward)
        if self.rewards == MANY_ROUNDS:
            whitened = self.running.run["whitened"]
            row = kernels.WHITE_INVERSE if whitened else kernels.INVERSE  # V^-1 is made of the former
            self.running.state.square[row] *= 1 + 1e-6


class DriftingDeterminant(Agent):
    def update(self, decision: Any, reward: Any) -> None:
        super().update(decision, reward)
        if self.rewards == MANY_ROUNDS:
            self.running.state.run["log_det"] *= 1 + 1e-6


class LosesAReward(Agent):
    def update(self, decision: Any, reward: Any) -> None:
        super().update(decision, reward)
        if self.rewards == MANY_ROUNDS:
            self.running.state.arms[kernels.SUMS, decision] -= float(reward)
            from_python(estimate.refresh)(self.running.params[0], self.running.state, None, None)


@dataclass(frozen=True, kw_only=True)
class LostInRounds(LinUCB):
    def start(self, actions: Any = None, *given: Any, **more: Any) -> Any:
        if actions is None:
            raise RuntimeError("nobody tried this")
        return super().start(actions, *given, **more)


@dataclass(frozen=True, kw_only=True)
class ReadsTheLogTwice(LinUCB):
    def start(self, actions: Any = None, offline: Any = None, *given: Any, **more: Any) -> Any:
        twice = offline if actions is not None else offline + offline
        return super().start(actions, twice, *given, **more)


BROKEN: list[tuple[Any, set[str]]] = [
    (Thawed(), {"cannot_be_changed"}),
    (Positional(), {"keyword_only"}),
    (Secretive(scale=2.0), {"repr_round_trips"}),
    (Unwritable(), {"json_round_trips"}),
    (Unstartable(scale=1.0), {"defaults_construct"}),
    (Leader(NumpyArms), {"select_gives_an_arm"}),
    (Leader(Fickle), {"select_is_pure", "selecting_more_changes_nothing"}),
    (Leader(BurnsDraws), {"selecting_more_changes_nothing"}),
    (Unseeded(DrawsEachRound), {"same_seed_same_run"}),
    (Rescales(), {"inputs_are_not_mutated"}),
    (Borrows(), {"inputs_are_not_aliased"}),
    (Leader(SharedAlarm), {"agents_are_independent"}),
    (Leader(Remembers), {"memory_is_constant"}),
    (Leader(RemembersInAnArray), {"memory_is_constant"}),
    (Leader(NeedsTwoArms), {"one_arm"}),
    (Leader(NeedsTwoFeatures), {"one_feature"}),
    (Leader(NeedsALog), {"empty_log"}),
    (Leader(NeedsDistinctArms), {"duplicate_arms"}),
    (Leader(NeedsFullRank), {"rank_deficient_log"}),
    (AnyActions(), {"bad_actions_are_refused"}),
    (AnyLog(), {"bad_logs_are_refused"}),
    (Leader(AnyArm), {"bad_arms_are_refused", "refused_calls_change_nothing"}),
    (Leader(AnyReward), {"bad_rewards_are_refused", "refused_calls_change_nothing"}),
    (Leader(ChecksTooLate), {"refused_calls_change_nothing"}),
    (Gated(explorer=WritesIntoView()), {"explorers_do_not_write_into_their_view"}),
    (Gated(explorer=FalselyDeterministic()), {"deterministic_explorers_draw_nothing"}),
    (LostInRounds(), {"plays_or_says_why_not"}),
    (ReadsTheLogTwice(), {"both_ways_play_the_same", "estimate_matches_what_was_observed"}),
    (faulty(PlaysBackwards), {"compiled_equals_interactive"}),
    (faulty(KeepsItsRuns), {"memory_of_the_loop_is_constant"}),
    (Leader(UnequalUpdate), {"update_is_commit_and_observe"}),
    (Leader(LateDiscount), {"rewards_come_in_any_order"}),
    (Leader(Impatient), {"lost_rewards_block_nothing"}),
    (Leader(TakesAnything), {"rewards_without_a_commit_are_refused"}),
    (Kept(ForgetsRewards), {"snapshots_have_the_same_future", "snapshots_await_the_same_rewards"}),
    (Kept(ForgetsPending), {"snapshots_await_the_same_rewards"}),
    (faulty(FallingBounds), {"lower_bounds_never_fall"}),
    (faulty(NarrowBounds), {"bounds_enclose_the_estimate"}),
    (faulty(DriftingInverse), {"inverse_is_inverse"}),
    (faulty(DriftingDeterminant), {"estimate_matches_cholesky"}),
    (faulty(LosesAReward), {"estimate_matches_what_was_observed", "compiled_equals_interactive"}),
    (Leader(LowIndexFirst), {"permuting_arms_permutes_decisions"}),
    (Leader(LikesItsAxes), {"rotating_the_space_changes_no_decision"}),
]


def fault(policy: Any) -> str:
    """The name of what is wrong: an explorer, an agent, or the policy itself."""
    if isinstance(policy, Gated):
        return type(policy.explorer).__name__
    return policy.agent.__name__ if type(policy) in (Leader, Kept) else type(policy).__name__


every_fault = pytest.mark.parametrize("policy, laws", BROKEN, ids=[fault(policy) for policy, _ in BROKEN])


def assert_caught(policy: Any, laws: set[str], unbroken: list[str]) -> None:
    """By each of its laws alone, and by check_policy, which names one of them; the unbroken ones hold."""
    checks = dict(all_checks(policy))
    for name in laws:
        with pytest.raises(Exception):  # noqa: B017 - any exception is a broken law
            checks[name](policy)
    others = set(checks) - set(unbroken)
    assert check_policy(policy, skip=others) == unbroken
    with pytest.raises(LawError, match="breaks (" + "|".join(laws) + "): "):
        check_policy(policy, skip=set(checks) - laws)


@every_fault
def test_the_right_law_catches_the_fault(policy: Any, laws: set[str]) -> None:
    """And two others, those before and after it in the list, do not."""
    applied = [name for name, _ in all_checks(policy)]
    first = min(applied.index(name) for name in laws)
    around = [name for name in applied[max(first - 2, 0) : first + 4] if name not in laws]
    assert_caught(policy, laws, around[:2])


@pytest.mark.slow
@every_fault
def test_the_right_law_catches_the_fault_and_no_other(policy: Any, laws: set[str]) -> None:
    assert_caught(policy, laws, [name for name, _ in all_checks(policy) if name not in laws])


def test_every_law_has_a_fault_that_it_catches() -> None:
    assert set().union(*(laws for _, laws in BROKEN)) == set(ALL_LAWS)
